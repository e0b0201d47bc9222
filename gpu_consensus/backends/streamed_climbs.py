"""AddRemAdd climbs among codes larger than device memory, many in lock-step.

One pass over the codes serves a flip of every climb of a wave: the device adds the
object that was flipped last to the similarities of all others, and finds the best to
enter and to leave; the host decides which of the two it is, if any.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.add_rem_add import (
    count_labels,
    first_visitor,
    marks_of,
    resolve,
)
from gpu_consensus.backends.cuda_launcher import Launcher, type_name
from gpu_consensus.backends.cuda_source import add_range_kernel
from gpu_consensus.backends.device_memory import ELSEWHERE, for_fewer, room_for
from gpu_consensus.backends.protocol import Climbs, Threshold
from gpu_consensus.backends.streamed_codes import StreamedCodes
from gpu_consensus.checks import FloatArray, IntArray
from gpu_consensus.progress import Advance

_BLOCKS = 16  # climbs of a wave, for each multiprocessor
_FLIP_BYTES = 12  # of a climb: its row, what is flipped, the sign
_BEST_BYTES = 16  # the best to enter, the best to leave
_MARK_BYTES = 8
_CLIMB = np.dtype(
    [
        ("position", np.int64),  # of its start
        ("row", np.int64),  # of the states on the device
        ("object", np.int64),  # that is flipped next
        ("sign", np.int64),  # 1 if it enters, -1 if it leaves, 0 if there is none
        ("change", np.int64),  # of the total
        ("total", np.int64),  # of the similarities within the set
        ("size", np.int64),
        ("mark", np.uint64),
        ("n_flips", np.int64),
        ("joined", np.int64),
        ("joined_flips", np.int64),
    ]
)


def climb_streamed(
    gpu: Launcher,
    codes: StreamedCodes,
    n_labels: IntArray,
    starts: IntArray,
    threshold: Threshold,
    advance: Advance | None,
) -> Climbs:
    """Do ``Backend.add_rem_add`` of the Protocol; the wave is halved to fit.

    A climb that ends makes room for the next start.
    """
    n, n_starts = codes.shape[1], len(starts)
    own, marks = count_labels(codes.host, n_labels), marks_of(n)
    wave = _Wave(gpu, codes, n_labels, own, n_starts)
    ended = np.zeros(n_starts, _CLIMB)
    members: dict[int, npt.NDArray[np.uint8]] = {}
    visited: dict[int, tuple[int, int]] = {}
    climbs, n_begun = ended[:0], 0
    while n_begun < n_starts or climbs.size:
        n_fresh = min(wave.size - climbs.size, n_starts - n_begun)
        fresh = np.zeros(n_fresh, _CLIMB)
        fresh["position"] = np.arange(n_begun, n_begun + n_fresh)
        fresh["row"] = wave.clear(climbs["row"], n_fresh)
        fresh["object"] = starts[n_begun : n_begun + n_fresh]
        fresh["sign"], fresh["change"] = 1, own[fresh["object"]]
        n_begun += n_fresh
        climbs = np.concatenate([climbs, fresh])
        _flip(climbs, marks, visited)
        is_alone = climbs["joined"] < 0
        done, climbs = climbs[~is_alone], climbs[is_alone]
        if climbs.size:
            decide(climbs, wave.best_flips(climbs), n, threshold)
            last, climbs = climbs[climbs["sign"] == 0], climbs[climbs["sign"] != 0]
            for position, row in last[["position", "row"]].tolist():
                members[position] = wave.members(row)
            climbs["n_flips"] += 1
            done = np.concatenate([done, last])
        ended[done["position"]] = done
        if advance is not None and done.size:
            advance(done.size)
    return resolve(
        ended["total"],
        ended["n_flips"],
        ended["joined"],
        ended["joined_flips"],
        members,
    )


class _Wave:
    """The climbs on the device: a row of 2 a(l, S) + [l in S] for each of ``size``."""

    def __init__(
        self,
        gpu: Launcher,
        codes: StreamedCodes,
        n_labels: IntArray,
        own: IntArray,
        n_starts: int,
    ) -> None:
        self.gpu, self.codes = gpu, codes
        r, n = codes.shape
        xp, itemsize = gpu.xp, codes.host.itemsize
        self.what = f"climbs among {n} objects"
        with room_for(self.what, ELSEWHERE):
            self.own = xp.asarray(own.astype(np.int32))
            self.n_labels = xp.asarray(np.asarray(n_labels, dtype=np.int32))
        beside = r * itemsize + _FLIP_BYTES

        def reserve(n_climbs: int) -> tuple[Any, Any]:
            states = xp.empty((n_climbs, n), np.int32)
            best = xp.empty((n_climbs, 2), np.int64)
            xp.empty(n_climbs * beside, np.uint8)  # CuPy keeps it for `best_flips`
            return states, best

        most = gpu.free_memory() // 2 // (4 * n + beside + _BEST_BYTES)
        most = max(1, min(n_starts, _BLOCKS * gpu.n_processors, most))
        (self.states, self.best), self.size = for_fewer(xp, reserve, most)
        free = gpu.free_memory() - self.size * beside
        self.step = max(1, free // 2 // (2 * r * itemsize))

    def clear(self, taken: IntArray, n_rows: int) -> IntArray:
        """Return the first rows that are not taken, with nobody in the set."""
        rows = np.setdiff1d(np.arange(self.size), taken)[:n_rows]
        for row in rows.tolist():
            self.states[row] = 0
        return rows

    def members(self, row: int) -> npt.NDArray[np.uint8]:
        """Return the packed bits of a set."""
        return np.packbits(self.gpu.xp.asnumpy(self.states[row]) & 1)

    def best_flips(self, climbs: npt.NDArray[np.void]) -> IntArray:
        """Flip the object of every climb, and return what is best next, (climbs, 2).

        A change times 2^32, plus the bits of ``~object``: of the best to enter and the
        best to leave.
        """
        gpu, codes, xp = self.gpu, self.codes, self.gpu.xp
        flips = np.stack([climbs[name] for name in ("row", "object", "sign")])
        flipped = np.ascontiguousarray(codes.host[:, climbs["object"]])
        with room_for(self.what, ELSEWHERE):
            given = xp.asarray(flips.astype(np.int32)), xp.asarray(flipped)
        kernel = add_range_kernel(type_name(flipped))
        for rows, block in codes.blocks(self.step):
            here, stride = gpu.strided(block)
            arguments = (
                here,
                np.int64(stride),
                self.n_labels,
                np.int32(codes.shape[0]),
                np.int32(rows.start),
                np.int32(rows.stop - rows.start),
                np.int32(codes.shape[1]),
                self.own[rows],
                *given,
                self.states,
                self.best,
            )
            gpu.launch(kernel, (climbs.size,), (kernel.threads,), arguments)
            if rows.start == 0:
                self.step = rows.stop  # more did not fit, and would not next time
        found: IntArray = xp.asnumpy(self.best[: climbs.size])
        return found


def _flip(
    climbs: npt.NDArray[np.void],
    marks: npt.NDArray[np.uint64],
    visited: dict[int, tuple[int, int]],
) -> None:
    """Go on to the next sets, and note who was there before."""
    climbs["total"] += climbs["change"]
    climbs["size"] += climbs["sign"]
    climbs["mark"] ^= marks[climbs["object"]]
    climbs["joined"] = -1
    sets = climbs[["position", "n_flips", "mark"]].tolist()
    for at, (position, n_flips, mark) in enumerate(sets):
        here = (position, n_flips)
        first = first_visitor(visited, mark, here, _MARK_BYTES)
        if first != here:
            climbs["joined"][at], climbs["joined_flips"][at] = first


def decide(
    climbs: npt.NDArray[np.void], best: IntArray, n_samples: int, threshold: Threshold
) -> None:
    """Write into every climb what raises b(S) most; ties go to the first object.

    The arithmetic is that of ``add_rem_add.score``: an exact integer and one division.
    """
    total, size = climbs["total"], climbs["size"]
    p, q = threshold

    def height(total: IntArray, size: IntArray) -> FloatArray:
        exact: FloatArray = (q * total - p * size * size).astype(np.float64)
        return exact / size

    may = np.stack([size < n_samples, size > 1], axis=1)
    change = np.where(may, best >> 32, 0)
    enter, leave = (~best & 0xFFFFFFFF).T
    now = height(total, size)
    higher = height(total + change[:, 0], size + 1)
    enters = may[:, 0] & (higher > now)
    highest = np.where(enters, higher, now)
    higher = height(total + change[:, 1], np.maximum(size - 1, 1))
    is_tie = (higher == highest) & enters & (leave < enter)
    leaves = may[:, 1] & ((higher > highest) | is_tie)
    climbs["object"] = np.where(leaves, leave, enter)
    climbs["sign"] = np.where(leaves, -1, enters)
    climbs["change"] = np.where(leaves, change[:, 1], change[:, 0])
