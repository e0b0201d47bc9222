"""The E step of a mixture for a range of objects: on a device, in C, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.exp import exp
from gpu_consensus.backends.host_loops import fastest
from gpu_consensus.backends.log2 import log2
from gpu_consensus.backends.numpy import NumpyBackend
from gpu_consensus.backends.protocol import Backend, Codes, Counts, Offsets
from gpu_consensus.util.arrays import on_device
from gpu_consensus.util.checks import FloatArray, IntArray

HIGH, LOW = 10, 40
"""Bits behind the point in the two halves of an exact sum."""
_LN_2 = 0.6931471805599453


def expectation(
    backend: Backend,
    codes: Codes,
    offsets: Offsets,
    theta: Any,
    alpha: Any,
    n_threads: int,
) -> tuple[Any, Any]:
    """Return soft counts and exact halves of the log-likelihood, where codes are.

    A device has an exponential and a logarithm of its own; all forms of the host share
    ours. See :func:`numpy_expectation`.
    """
    if not on_device(codes):
        form = fastest("expectation", numpy_expectation)
        return form(codes, offsets, theta, alpha, n_threads)
    xp = backend.xp
    score = backend.scores(codes, offsets, theta)
    score += alpha
    top = score.max(axis=2)
    score -= top[:, :, None]
    xp.exp(score, out=score)
    mass = score.sum(axis=2)
    halves = exact_halves(xp, top + xp.log(mass))
    score /= mass[:, :, None]
    return backend.soft_count(codes, offsets, score), halves


def memberships(
    backend: Backend,
    codes: Codes,
    offsets: Offsets,
    theta: Any,
    alpha: Any,
    n_threads: int,
) -> tuple[npt.NDArray[np.intp], FloatArray]:
    """Return likeliest components and responsibilities; see numpy_memberships."""
    if not on_device(codes):
        form = fastest("memberships", numpy_memberships)
        return form(codes, offsets, theta, alpha, n_threads)
    score = backend.scores(codes, offsets, theta)
    score += alpha
    there: FloatArray = backend.to_host(score)
    best = there.argmax(axis=2)
    _soften(there)
    return best, there


def numpy_expectation(
    codes: Codes,
    offsets: Offsets,
    theta: FloatArray,
    alpha: FloatArray,
    n_threads: int,
) -> tuple[Counts, IntArray]:
    """Return the sums that the E step of R mixtures makes.

    Parameters
    ----------
    codes, offsets
        As in the Protocol.
    theta : ndarray of shape (S, R, K)
        Logarithms by label, 0 for missing ones.
    alpha : ndarray of shape (R, K)
        Logarithms of the components' shares.
    n_threads : int

    Returns
    -------
    counts : ndarray of shape (S, R, K), int64
        Responsibilities by label, as of ``soft_count``.
    halves : ndarray of shape (2, R), int64
        The log-likelihoods, see :func:`exact_halves`.
    """
    backend = NumpyBackend(n_threads)
    score = backend.scores(codes, offsets, theta)
    score += alpha
    halves = exact_halves(np, _soften(score))
    return backend.soft_count(codes, offsets, score), halves


def numpy_memberships(
    codes: Codes,
    offsets: Offsets,
    theta: FloatArray,
    alpha: FloatArray,
    n_threads: int,
) -> tuple[npt.NDArray[np.intp], FloatArray]:
    """Return likeliest components (n, R), the first of equals, and shares (n, R, K)."""
    score = NumpyBackend(n_threads).scores(codes, offsets, theta)
    score += alpha
    best = score.argmax(axis=2)
    _soften(score)
    return best, score


def _soften(score: FloatArray) -> FloatArray:
    """Make scores (n, R, K) responsibilities, in place; return log-likelihoods (n, R).

    Components are added in their order, so that every form gets the same bits.
    """
    top = score.max(axis=2)
    score[...] = exp(score - top[:, :, None])
    mass = score[:, :, 0].copy()
    for k in range(1, score.shape[2]):
        mass += score[:, :, k]
    score /= mass[:, :, None]
    return np.asarray(top + log2(mass) * _LN_2)


def exact_halves(xp: Any, values: Any) -> IntArray:
    """Sum (n, R) over n in units of 2**-10, and what is left in units of 2**-40.

    (2, R), integers: whatever the order.
    """
    high = xp.rint(values * 2.0**HIGH)
    low = xp.rint((values - high * 2.0**-HIGH) * 2.0**LOW)
    halves: IntArray = xp.empty((2, values.shape[1]), np.int64)
    for half, part in zip(halves, (high, low), strict=True):
        half[...] = part.astype(np.int64).sum(axis=0)
    return halves
