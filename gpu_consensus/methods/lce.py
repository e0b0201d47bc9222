"""Link-based cluster ensemble (LCE) as k-means over labels that resemble each other."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpu_consensus.backends.protocol import Backend, Counts, Table
from gpu_consensus.backends.segments import (
    Array,
    as_table,
    exact_sums,
    present_marginals,
)
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.loop.fit import LoopOptions
from gpu_consensus.loop.rule import Rule
from gpu_consensus.methods.call import Shared, Task, open_task
from gpu_consensus.methods.label_links import connected_triples
from gpu_consensus.result import Consensus
from gpu_consensus.util.checks import FloatArray, check_int, check_share
from gpu_consensus.util.weights import vote_weights

_BITS = 32  # after the point, of the products of two labels' vectors
_EXACT = 52  # bits of a whole number in float64, one to spare


def lce(
    ensemble: Any,
    n_clusters: int,
    decay: float = 0.8,
    *,
    label_objects: int = 100_000,
    weights: Any = None,
    init: Any = "auto",
    n_init: int = 10,
    search: bool | str | int = "auto",
    max_iter: int = 100,
    on_unlabelled: str = "raise",
    backend: str | Backend = "auto",
    n_jobs: int | None = None,
    memory_limit: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    random_state: Any = None,
    progress: bool = False,
) -> Consensus:
    """Link-based cluster ensemble.

    An object is like a label that it does not carry as far as that label is like its
    own: 1 for its own label, ``decay`` times the similarity of the two elsewhere in the
    partition, by the labels of all partitions that both resemble (weighted connected
    triples). The objects are clustered by k-means on these rows, the refined matrix of
    the paper. The matrix itself is never made: rows of objects with one label are
    equal, so it is the loop of :func:`kcc` with vectors for labels, and with ``decay``
    0 it is :func:`kcc` with utility "c" without refinement.

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
        The basic partitions. Missing labels are left out as in :func:`kcc`.
    n_clusters : int
        Clusters of the consensus.
    decay : float in [0, 1], default 0.8
        How much a similar label counts.
    label_objects : int, default 100_000
        Objects that labels are compared by; where there are more, so many are drawn by
        ``random_state``. ``details["label_objects"]`` says how many they were.
    n_init : int, default 10
        Starts, run together.
    search : {"auto", False} or int, default "auto"
        As in :func:`kcc`.
    weights, init, max_iter, on_unlabelled, backend, n_jobs, memory_limit
        As in :func:`kcc`. A matrix of 40 S^2 bytes, S the labels of all partitions, has
        to fit ``memory_limit``, by default what the machine has free.
    checkpoint, random_state, progress
        As in :func:`kcc`.

    Returns
    -------
    Consensus
        ``objective`` is that of k-means, sum_i w_i sum_l |t_l - m_k|^2, t_l the vector
        of the object's label and m_k its mean over the cluster; ``value`` what is
        gained over a single cluster, per object. ``details["similarity"]``: for each
        partition that of its labels in use, None for partitions that do not count.

    Notes
    -----
    The paper also cuts a graph of the refined matrix, or merges objects by the matrix
    of pairs (CTS); for pairs see :func:`hac` and :func:`lwea`.

    References
    ----------
    N. Iam-On, T. Boongoen, S. Garrett, C. Price, "A link-based approach to the cluster
    ensemble problem", IEEE PAMI 33(12), 2011; N. Iam-On, S. Garrett, "LinkCluE: a
    MATLAB package for link-based cluster ensembles", Journal of Statistical Software
    36(9), 2010.

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 2], [1, 1, 0, 0], [0, 0, 0, 1]])
    >>> result = gpc.lce(ens, 2, random_state=0)
    >>> result.labels.tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    True
    >>> result.details["similarity"][0].round(2).tolist()
    [[1.0, 0.67, 0.0], [0.67, 1.0, 1.0], [0.0, 1.0, 1.0]]
    """
    decay = check_share("decay", decay, open_low=False, open_high=False)
    label_objects = check_int("label_objects", label_objects, 1)
    shared = Shared(
        weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
    )
    loop = LoopOptions(init, n_init, max_iter, checkpoint, search=search)
    task = open_task("lce", ensemble, n_clusters, shared, loop=loop)
    labels = task.label_contingency(label_objects)
    alike = connected_triples(labels, vote_weights(task.weights))
    rule = LceRule(task.given, task.given_weights, _vectors(task, alike, decay))
    result = task.fit(rule)
    told = {
        "similarity": task.by_given_partition(alike),
        "label_objects": labels.n_objects,
    }
    return replace(result, details={**result.details, **told})


def _vectors(task: Task, alike: Sequence[FloatArray], decay: float) -> list[FloatArray]:
    """Return the vector of every label of every given partition, (K_i, K_i) each."""
    given = task.given
    vectors = [np.eye(int(k_i)) for k_i in given.n_labels]
    for similarity, i in zip(alike, task.useful, strict=True):
        begin, k_i = int(given.offsets[i]), int(given.n_labels[i])
        used = np.arange(k_i)
        if len(similarity) < k_i:  # labels that nobody carries are like no other
            used = np.flatnonzero(given.marginals[begin : begin + k_i])
        vectors[i][np.ix_(used, used)] = decay * similarity
        np.fill_diagonal(vectors[i], 1.0)
    return vectors


class LceRule(Rule):
    """Counts to table and objective, with a vector t_j for every label.

    T[j, k] = w_i |t_j - m_k|^2, m_k = sum_j (n_kj / n_k) t_j. All follows from the
    products Q = t t'. They are rounded so far that Q n is a whole number of units, and
    exact: no sum depends on its order, so not on the number of threads or starts.

    Parameters
    ----------
    ensemble : Ensemble
    weights : ndarray of shape (r,)
    vectors : sequence of ndarray of shape (K_i, K_i)
    """

    def __init__(
        self, ensemble: Ensemble, weights: FloatArray, vectors: Sequence[FloatArray]
    ) -> None:
        self.offsets, self.weights = ensemble.offsets, weights
        _, self.marginals, self.present = present_marginals(
            ensemble.offsets, ensemble.marginals
        )
        self.products = [_products(t, ensemble.n_samples) for t in vectors]
        unit, baseline, digest = [], [], hashlib.blake2b(digest_size=16)
        for i, q in enumerate(self.products):
            n = self.marginals[self._rows(i)]
            unit.append(weights[i] * math.fsum(n * np.diag(q)))
            square = _sum_rows(n[:, None] * (q @ n[:, None].astype(np.float64)))
            baseline.append(weights[i] * float(square[0]) / max(1, self.present[i]))
            digest.update(np.ascontiguousarray(q).tobytes())
        digest.update(np.ascontiguousarray(weights).tobytes())
        self.unit, self.baseline = math.fsum(unit), math.fsum(baseline)
        self.fingerprint = digest.hexdigest()

    def _rows(self, i: int) -> slice:
        """Return the labels of a partition, without the row for "missing"."""
        return slice(int(self.offsets[i]), int(self.offsets[i + 1]) - 1)

    def table(
        self, counts: Counts, absent: Counts | None = None
    ) -> tuple[Table, Table | None]:
        """Return w_i |t_j - m_k|^2, (S, R, K), float32."""
        table = np.zeros(counts.shape, dtype=np.float32)
        for i, q in enumerate(self.products):
            if not self.present[i] or not self.weights[i]:
                continue
            rows = self._rows(i)
            n = counts[rows]
            empty = n.sum(axis=0) == 0
            n = np.where(empty, self.marginals[rows, None, None], n)
            size, inner, square = _moments(q, n)
            cost = (
                np.diag(q)[:, None, None]
                - 2.0 * (inner / size)
                + square / (size * size)
            )
            table[rows] = as_table(self.weights[i] * cost)
        return table, None

    def objective(self, counts: Counts, absent: Counts | None = None) -> FloatArray:
        """Return sum_i w_i (sum_j n_+j |t_j|^2 - sum_k n_k |m_k|^2), (R,)."""
        gain = np.zeros((len(self.products), *counts.shape[1:]))
        for i, q in enumerate(self.products):
            size, _, square = _moments(q, counts[self._rows(i)])
            gain[i] = self.weights[i] * (square / np.maximum(size, 1))
        return self.unit - exact_sums(gain)

    def value(self, objective: float, n_samples: int) -> float:
        """Return by how much it is below that of a single cluster, per object."""
        return (self.unit - self.baseline - objective) / n_samples


def _products(vectors: FloatArray, n_samples: int) -> FloatArray:
    """Return t t', rounded so that its sums over all objects are exact."""
    n_labels = len(vectors)
    products = np.zeros((n_labels, n_labels))
    for column in vectors.T:
        products += column[:, None] * column
    largest = max(1, n_samples) * max(1, n_labels)  # no product is above K_i
    bits = min(_BITS, _EXACT - largest.bit_length())
    return np.asarray(np.ldexp(np.rint(np.ldexp(products, bits)), -bits))


def _moments(q: FloatArray, n: Array) -> tuple[Array, FloatArray, FloatArray]:
    """Return n_k, Q n and n' Q n of counts (K_i, R, K)."""
    flat = n.reshape(len(n), math.prod(n.shape[1:])).astype(np.float64)
    inner = (q @ flat).reshape(n.shape)
    return n.sum(axis=0), inner, _sum_rows(n * inner)


def _sum_rows(rows: FloatArray) -> FloatArray:
    """Add rows up one after another, whatever their length."""
    total: FloatArray = np.zeros(rows.shape[1:])
    for row in rows:
        total += row
    return total
