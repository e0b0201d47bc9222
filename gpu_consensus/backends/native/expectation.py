"""Expectation of EM in C: expect.c; the references are in methods.expectation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.native.layout import (
    Array,
    address,
    blank_table,
    check_codes,
    dense,
)
from gpu_consensus.backends.native.library import load
from gpu_consensus.backends.native.threads import over, scratch
from gpu_consensus.backends.protocol import Codes, Counts, Offsets
from gpu_consensus.util.checks import FloatArray, IntArray

_SUMS = 256 << 20  # bytes of the sums that threads have of their own


def expectation(
    codes: Codes,
    offsets: Offsets,
    theta: FloatArray,
    alpha: FloatArray,
    n_threads: int,
) -> tuple[Counts, IntArray]:
    """See ``numpy_expectation`` of the mixture."""
    step = _EStep(codes, offsets, theta, alpha)
    threads = max(1, min(n_threads, _SUMS // step.table.nbytes))

    def blank() -> tuple[Array, Array]:
        halves = np.zeros((2, len(alpha)), dtype=np.int64)
        return np.zeros(step.table.shape, dtype=np.int64), halves

    sums = [blank()]
    free = sums.copy()  # those that no thread adds to now

    def some(begin: int, end: int) -> None:
        try:
            mine = free.pop()
        except IndexError:
            mine = blank()
            sums.append(mine)
        step.run(begin, end, counts=mine[0], halves=mine[1])
        free.append(mine)

    over(some, step.codes.shape[1], step.work, threads)
    counts, halves = sums[0]
    for more in sums[1:]:
        counts += more[0]
        halves += more[1]
    dense_counts = np.ascontiguousarray(counts[:, : alpha.size])
    return dense_counts.reshape(theta.shape), halves


def memberships(
    codes: Codes,
    offsets: Offsets,
    theta: FloatArray,
    alpha: FloatArray,
    n_threads: int,
) -> tuple[npt.NDArray[np.intp], FloatArray]:
    """See ``numpy_memberships`` of the mixture."""
    step = _EStep(codes, offsets, theta, alpha)
    n_samples = step.codes.shape[1]
    shares = np.empty((n_samples, *alpha.shape))
    best = np.empty((n_samples, len(alpha)), dtype=np.int64)

    def some(begin: int, end: int) -> None:
        step.run(begin, end, shares=shares, best=best)

    over(some, n_samples, step.work, n_threads)
    return best.astype(np.intp, copy=False), shares


class _EStep:
    """What every range of objects of an E step is given."""

    def __init__(
        self, codes: Codes, offsets: Offsets, theta: FloatArray, alpha: FloatArray
    ) -> None:
        self.alpha = dense("alpha", alpha, np.float64, theta.shape[1:])
        self.codes = check_codes(codes, offsets, len(theta))
        self.offsets = offsets
        self.table = blank_table(len(theta), alpha.size, np.float64)
        self.table[:, : alpha.size] = theta.reshape(len(theta), -1)
        n_partitions, n_samples = self.codes.shape
        self.work = n_partitions * n_samples * self.table.shape[1] // 4

    def run(
        self,
        begin: int,
        end: int,
        counts: Array | None = None,
        halves: Array | None = None,
        shares: Array | None = None,
        best: Array | None = None,
    ) -> None:
        """Do the step for a range, into sums or into shares."""
        call, codes, (n_rows, width) = load().call, self.codes, self.table.shape
        room = call.expect_scratch(width, n_rows, self.alpha.shape[1])
        memory, place = scratch(room)
        call.expect(
            codes.address,
            codes.itemsize,
            codes.stride,
            address(self.offsets),
            codes.shape[0],
            address(self.table),
            width,
            address(self.alpha),
            *self.alpha.shape,
            begin,
            end,
            *map(address, (counts, halves, shares, best)),
            place,
        )
        del memory
