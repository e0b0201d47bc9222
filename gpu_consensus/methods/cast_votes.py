"""Votes of one partition after another, which vote and borda share."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpu_consensus.methods.alignment import match, overlaps
from gpu_consensus.methods.call import Task
from gpu_consensus.util.checks import FloatArray
from gpu_consensus.util.memory import check_memory
from gpu_consensus.util.weights import vote_weights


def n_columns(task: Task) -> int:
    """Return how many clusters can win; raise if their votes do not fit memory."""
    k = task.n_clusters or int(task.ensemble.n_labels.max())
    n_bytes = 32 * task.ensemble.n_samples * k
    check_memory(task.method, n_bytes, task.memory_limit, "use kcc, which needs less")
    return k


def cast_votes(
    task: Task, k: int, sequence: npt.NDArray[np.intp]
) -> tuple[FloatArray, list[npt.NDArray[np.intp]]]:
    """Return the votes (n, k), in k-ths of a vote, and the columns of the labels.

    A column from k on means that the vote was spread evenly.
    """
    codes, n_labels = task.codes, task.ensemble.n_labels
    votes = np.zeros((codes.shape[1], k))
    weights = vote_weights(task.weights)
    all_columns = [np.empty(0, dtype=np.intp)] * len(codes)
    for step, i in enumerate(sequence):
        k_i = int(n_labels[i])
        if step == 0:
            size = np.bincount(codes[i], minlength=k_i + 1)[:k_i]
            columns = np.empty(k_i, dtype=np.intp)
            columns[np.argsort(-size, kind="stable")] = np.arange(k_i)
        else:
            columns = match(overlaps(codes[i], k_i, votes))
        here = np.flatnonzero(codes[i] < k_i)
        column = columns[codes[i, here]]
        all_columns[i] = columns
        own = column < k
        votes[here[own], column[own]] += weights[i] * k
        votes[here[~own]] += weights[i]
    return votes, all_columns
