"""Hashes of assignments, which show when one comes back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.protocol import Assignment
from gpu_consensus.util.splitmix import splitmix64


def hash_assignments(
    xp: Any, assignment: Assignment, n_clusters: int, first: int = 0
) -> npt.NDArray[np.uint64]:
    """Return 64-bit hashes (A,) of assignments (A, n), on the same device.

    Parameters
    ----------
    xp : module
        The array library of the assignments.
    assignment : ndarray of shape (A, n)
    n_clusters : int
    first : int, default 0
        The number of the first of these objects. Hashes of parts add up to those of
        all objects.
    """
    hashes: npt.NDArray[np.uint64] = xp.zeros(len(assignment), dtype=np.uint64)
    step = 1 << 20
    for a, row in enumerate(assignment):
        for begin in range(0, len(row), step):
            end = min(begin + step, len(row))
            word = xp.arange(first + begin, first + end, dtype=np.uint64)
            word *= np.uint64(n_clusters + 1)
            word += row[begin:end].astype(np.uint64)
            hashes[a : a + 1] += splitmix64(word).sum(dtype=np.uint64)
    return hashes
