"""Counts of an ensemble's labels within the clusters of given labellings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy.typing as npt

from gpu_consensus.backends.device_memory import ELSEWHERE, memory_for
from gpu_consensus.backends.numpy import smallest_unsigned
from gpu_consensus.backends.protocol import Backend, Codes, Counts, Offsets
from gpu_consensus.loop.code_blocks import CodeBlocks

_COUNTS = 1 << 22  # counts in memory at a time


def count_by_cluster(
    backend: Backend,
    codes: Codes,
    offsets: Offsets,
    labels: npt.NDArray[Any],
    n_clusters: int,
    memory_limit: int | None = None,
) -> Counts:
    """Count the labels of each cluster of one labelling.

    Parameters
    ----------
    backend : Backend
    codes : ndarray of shape (r, n)
    offsets : ndarray of shape (r + 1,)
        Where the K_i + 1 rows of each partition begin.
    labels : ndarray of shape (n,)
        The cluster of each object; one that is negative or ``n_clusters`` means that
        the object is not counted.
    n_clusters : int
    memory_limit : int, optional
        Bytes of working memory.

    Returns
    -------
    counts : ndarray of shape (S, n_clusters)
        On the host.

    Examples
    --------
    >>> import numpy as np
    >>> from gpu_consensus.backends import choose_backend
    >>> codes = np.array([[0, 0, 1, 2]], dtype=np.uint8)
    >>> there, offsets = choose_backend("numpy", None), np.array([0, 3])
    >>> count_by_cluster(there, codes, offsets, np.array([0, 1, 1, -1]), 2).tolist()
    [[1, 1], [0, 1], [0, 0]]
    """
    many = count_many_by_cluster(
        backend, codes, offsets, labels[None], n_clusters, memory_limit
    )
    _, counts = next(many)
    one: Counts = counts[:, 0]
    return one


def count_many_by_cluster(
    backend: Backend,
    codes: Codes,
    offsets: Offsets,
    labels: npt.NDArray[Any],
    n_clusters: int,
    memory_limit: int | None = None,
) -> Iterator[tuple[slice, Counts]]:
    """As :func:`count_by_cluster` for labellings (R, n), some at a time.

    Yields
    ------
    some : slice
        Which of the labellings.
    counts : ndarray of shape (S, number of them, n_clusters)
        On the host.
    """
    blocks = CodeBlocks(backend, codes, offsets, memory_limit)
    step = max(1, _COUNTS // (int(offsets[-1]) * n_clusters))
    for begin in range(0, len(labels), step):
        some = slice(begin, min(begin + step, len(labels)))
        assignment = labels[some].astype(smallest_unsigned(n_clusters))
        assignment[labels[some] < 0] = n_clusters
        with memory_for(f"the labels of {n_clusters} clusters", ELSEWHERE):
            counts = blocks.count(assignment, n_clusters)
        yield some, backend.to_host(counts)
