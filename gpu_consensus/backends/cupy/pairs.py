"""Pair counts for the host; neither codes nor tiles have to fit the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.cupy.launcher import Launcher, type_name
from gpu_consensus.backends.cupy.source import code_kernel
from gpu_consensus.backends.cupy.streamed_codes import StreamedCodes
from gpu_consensus.backends.device_memory import ELSEWHERE, go_on, room_for
from gpu_consensus.backends.profiling import stage
from gpu_consensus.backends.protocol import PairCounts

_PAIR_BYTES = 8  # two counts
_LITTLE = 8 << 10  # bytes to try even if less memory seems to be free


def count_pairs(
    gpu: Launcher,
    resident: Any,
    n_labels: npt.NDArray[np.int64],
    rows: npt.NDArray[np.intp],
    columns: npt.NDArray[np.intp],
) -> PairCounts:
    """Compute ``Backend.pairs`` of the Protocol, in tiles that are halved to fit.

    Where codes are streamed, each tile copies those of its own objects.
    """
    shape = (len(rows), len(columns))
    same, both = np.empty(shape, np.int32), np.empty(shape, np.int32)
    todo = [(slice(0, shape[0]), slice(0, shape[1]))] if same.size else []
    limit = max(gpu.free_memory() // 2, _LITTLE)
    while todo:
        tile = todo.pop()
        left, right = rows[tile[0]], columns[tile[1]]
        size = len(left) * len(right)
        if size == 1 or _needed(resident, len(left), len(right)) <= limit:
            try:
                same[tile], both[tile] = _tile(gpu, resident, n_labels, left, right)
                continue
            except MemoryError as error:
                if size == 1:
                    reason = error.__cause__ or error
                    with room_for("a pair of objects", ELSEWHERE):
                        raise MemoryError(str(reason)) from error
            # here, not above: an error that is being handled keeps its arrays alive
            go_on(gpu.xp, size, "pairs")
            # do not try this size again
            limit = _needed(resident, len(left), len(right)) - 1
        todo += _halves(*tile)
    return PairCounts(same, both)


def _needed(resident: Any, n_rows: int, n_columns: int) -> int:
    """Return the bytes of a tile, including the codes copied for it."""
    numbers = _PAIR_BYTES * (n_rows * n_columns + n_rows + n_columns)
    if not isinstance(resident, StreamedCodes):
        return numbers
    host = resident.host
    return numbers + len(host) * host.itemsize * (n_rows + n_columns)


def _tile(
    gpu: Launcher,
    resident: Any,
    n_labels: npt.NDArray[np.int64],
    rows: npt.NDArray[np.intp],
    columns: npt.NDArray[np.intp],
) -> PairCounts:
    """Return the counts of one tile on the host."""
    xp, shape, codes = gpu.xp, (len(rows), len(columns)), resident
    tiles = -(-shape[0] // 32) * -(-shape[1] // 32)
    what = f"a tile of {shape[0]} x {shape[1]} pairs"
    with stage("pairs"), room_for(what, "ask for fewer pairs at a time"):
        if isinstance(resident, StreamedCodes):
            with stage("stream"):
                needed = resident.host[:, np.concatenate([rows, columns])]
                codes = xp.asarray(needed)
            here = np.arange(len(rows) + len(columns))
            rows, columns = here[: len(rows)], here[len(rows) :]
        codes, stride = gpu.strided(codes)
        same, both = xp.empty(shape, np.int32), xp.empty(shape, np.int32)
        gpu.launch(
            code_kernel("coassociation", type_name(codes)),
            (tiles,),
            (32, 32),
            (
                codes,
                np.int64(stride),
                gpu.constant(np.asarray(n_labels, dtype=np.int32)),
                np.int32(len(codes)),
                xp.asarray(rows, np.int64),
                np.int32(shape[0]),
                xp.asarray(columns, np.int64),
                np.int32(shape[1]),
                same,
                both,
            ),
        )
        return PairCounts(xp.asnumpy(same), xp.asnumpy(both))


def _halves(rows: slice, columns: slice) -> list[tuple[slice, slice]]:
    """Cut the longer side of a tile; the first half is the last of the list."""
    is_tall = rows.stop - rows.start >= columns.stop - columns.start
    side = rows if is_tall else columns
    middle = (side.start + side.stop) // 2
    parts = (slice(middle, side.stop), slice(side.start, middle))
    return [(part, columns) if is_tall else (rows, part) for part in parts]
