"""Hashes of assignments, which tell when one comes back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.protocol import Assignment


def hash_assignment(xp: Any, assignment: Assignment, n_clusters: int) -> int:
    """Return a 64-bit hash of the clusters (n,) of all objects.

    Parameters
    ----------
    xp : module
        The array library of ``assignment``.
    assignment : array of shape (n,)
    n_clusters : int
    """
    total, n_samples, step = 0, len(assignment), 1 << 20
    for begin in range(0, n_samples, step):
        end = min(begin + step, n_samples)
        word = xp.arange(begin, end, dtype=np.uint64)
        word *= np.uint64(n_clusters + 1)
        word += assignment[begin:end].astype(np.uint64)
        total += int(_mix(word).sum(dtype=np.uint64))
    return total % (1 << 64)


def _mix(word: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Spread 64 bits (splitmix64), so that sums of words tell assignments apart."""
    word = word + np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))
