"""Weights of partitions: which of them count, and how much."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpu_consensus.util.checks import FloatArray, IntArray

LEAST_SHARE = 1e-100
_ROUNDING = 1e-12  # by how much equal weights may differ once they sum to 1


def useful_partitions(n_labels: IntArray, weights: FloatArray) -> npt.NDArray[np.intp]:
    """Return the partitions that count: those with a weight and with labels.

    A weight below 1e-100 of the largest is none: in no sum does it change a digit, and
    what is divided by it is infinite.

    Examples
    --------
    >>> useful_partitions(np.array([2, 0, 3]), np.array([0.5, 0.5, 0.0])).tolist()
    [0]
    """
    return np.flatnonzero((weights > LEAST_SHARE * weights.max()) & (n_labels > 0))


def are_equal(weights: FloatArray) -> bool:
    """Whether all partitions weigh the same."""
    return bool(np.ptp(weights) <= _ROUNDING)


def vote_weights(weights: FloatArray) -> FloatArray:
    """Return what a vote of each partition counts: 1 if all weigh the same.

    Votes then are whole numbers, and ties exact.

    Examples
    --------
    >>> vote_weights(np.full(3, 1 / 3)).tolist()
    [1.0, 1.0, 1.0]
    >>> vote_weights(np.array([0.25, 0.75])).tolist()
    [0.5, 1.5]
    """
    return np.ones(len(weights)) if are_equal(weights) else weights * len(weights)
