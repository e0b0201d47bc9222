"""How far a consensus and the partitions agree, from counts: no matrix of pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.segments import Segments
from gpu_consensus.ensemble.contingency import n_pairs
from gpu_consensus.loop.count_by_cluster import count_by_cluster
from gpu_consensus.methods.call import Task


class Agreement(NamedTuple):
    """What is contradicted (minimised), and the share that agrees."""

    objective: float
    value: float


def pair_agreement(task: Task, labels: npt.NDArray[Any], n_clusters: int) -> Agreement:
    """Count the pairs of objects on which a consensus and the partitions disagree.

    ``objective`` is the number of pairs that are together in one and apart in the
    other, averaged over the partitions by weight: the cost of correlation clustering,
    sum of 1 - s over the pairs joined plus sum of s over the others, s their
    co-association. A partition says nothing about pairs it does not label both of.
    ``value`` is the share of pairs that agree, the Rand index averaged by weight and
    number of pairs.
    """
    codes, offsets = task.ensemble.codes, task.ensemble.offsets
    by_cluster = count_by_cluster(
        task.backend, codes, offsets, labels, n_clusters, task.memory_limit
    )
    segments = Segments(offsets)
    counts = segments.present(by_cluster[:, None])

    joined = n_pairs(segments.sum(counts)).sum(axis=(1, 2))
    alike = segments.sum(n_pairs(counts.sum(axis=2, keepdims=True))).sum(axis=(1, 2))
    both = segments.sum(n_pairs(counts)).sum(axis=(1, 2))
    every = n_pairs(segments.sum(counts).sum(axis=(1, 2)))
    cost = math.fsum(task.weights * (joined + alike - 2 * both))
    total = math.fsum(task.weights * every)
    return Agreement(cost, 1.0 - cost / total if total else 1.0)


def vote_agreement(
    task: Task, columns: Sequence[npt.NDArray[np.intp]], labels: npt.NDArray[np.intp]
) -> Agreement:
    """Count the labels that do not vote for the cluster of their object.

    Parameters
    ----------
    task : Task
    columns : sequence of ndarray of shape (K_i,)
        For each partition the cluster that each of its labels votes for.
    labels : ndarray of shape (n,)
        The clusters of the objects.
    """
    against, present = [], []
    for codes, votes_for in zip(task.codes, columns, strict=True):
        cluster = np.append(votes_for, -1)[codes]
        present.append(np.count_nonzero(cluster >= 0))
        against.append(np.count_nonzero((cluster >= 0) & (cluster != labels)))
    cost = math.fsum(task.weights * against)
    return Agreement(cost, 1.0 - cost / math.fsum(task.weights * present))
