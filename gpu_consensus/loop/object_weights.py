"""Weights of objects that are sums over their labels, as SEC has them: integers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.protocol import Codes, Offsets
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.checks import IntArray

_RANGE = 1 << 20  # objects at a time
_MANTISSA = 53
_LOW = 26  # bits of the lower half of a mantissa: sums of 2^36 halves fit 63 bits
_LEAST = -64  # exponent of the smallest ratio: weights stay below 2^63
_EXPONENTS = 70


def object_weights(codes: Codes, offsets: Offsets, label_weights: IntArray) -> IntArray:
    """Return the weight of each object, (n,); see :func:`weigh_objects`."""
    return weigh_objects(codes, offsets, label_weights)[0]


def weigh_objects(
    codes: Codes, offsets: Offsets, label_weights: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Return weights of objects, and what is summed over them.

    Parameters
    ----------
    codes : ndarray of shape (r, n)
        Read a range of objects at a time.
    offsets : ndarray of shape (r + 1,)
    label_weights : ndarray of shape (S,)
        The weight of an object is the sum over its labels; 0 for "missing".

    Returns
    -------
    weight : ndarray of shape (n,)
    present : ndarray of shape (r,)
        The weight of the objects that each partition labels.
    ratios : ndarray of shape (2, 70)
        What :func:`ratio_total` makes the sum of (labels / weight) of.
    """
    r, n = codes.shape
    weight = np.zeros(n, dtype=np.int64)
    present = np.zeros(r, dtype=np.int64)
    ratios = np.zeros((2, _EXPONENTS), dtype=np.int64)
    for begin in range(0, n, _RANGE):
        some = to_host(codes[:, begin : begin + _RANGE])
        own = weight[begin : begin + _RANGE]
        n_labels = np.zeros(len(own), dtype=np.int64)
        for i, row in enumerate(some):
            first, last = int(offsets[i]), int(offsets[i + 1])
            own += label_weights[first:last][row]
            n_labels += row != last - first - 1
        whole = int(own.sum())
        for i, row in enumerate(some):
            missing = int(offsets[i + 1] - offsets[i]) - 1
            present[i] += whole - int(own[row == missing].sum())
        ratios += ratio_sums(n_labels, own)
    return weight, present, ratios


def ratio_sums(n_labels: IntArray, weight: IntArray) -> IntArray:
    """Add up n_labels / weight of objects with labels, exactly: (2, 70) integers.

    Halves of the float64 mantissas by exponent; such sums of parts can be added.
    """
    known = n_labels > 0
    mantissa, exponent = np.frexp(n_labels[known] / weight[known])
    whole = np.ldexp(mantissa, _MANTISSA).astype(np.int64)
    place = exponent - _LEAST
    sums = np.zeros((2, _EXPONENTS), dtype=np.int64)
    np.add.at(sums[0], place, whole >> _LOW)
    np.add.at(sums[1], place, whole & ((1 << _LOW) - 1))
    return sums


def ratio_total(sums: npt.NDArray[np.int64]) -> float:
    """Return the float64 nearest to what :func:`ratio_sums` has added up.

    Examples
    --------
    >>> ratio_total(ratio_sums(np.array([1, 2, 0]), np.array([3, 3, 0])))
    1.0
    """
    total = 0
    for place, (high, low) in enumerate(sums.T.tolist()):
        total += ((high << _LOW) + low) << place
    return total / (1 << (_MANTISSA - _LEAST))
