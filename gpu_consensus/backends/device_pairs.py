"""Pair counts on the host of codes and tiles that need not fit the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.device_memory import ELSEWHERE, go_on, room_for
from gpu_consensus.backends.protocol import Coassociation
from gpu_consensus.backends.streamed_codes import StreamedCodes

if TYPE_CHECKING:
    from gpu_consensus.backends.cupy_backend import CupyBackend

_PAIR_BYTES = 8  # two counts
_LITTLE = 8 << 10  # bytes that are tried however little memory seems to be free


def count_pairs(
    backend: CupyBackend,
    held: Any,
    n_labels: npt.NDArray[np.int64],
    rows: npt.NDArray[np.intp],
    columns: npt.NDArray[np.intp],
) -> Coassociation:
    """Do ``Backend.pairs`` of the Protocol, in tiles that are halved to fit.

    Of codes that are streamed, a tile takes those of its own objects along.
    """
    shape = (len(rows), len(columns))
    same, both = np.empty(shape, np.int32), np.empty(shape, np.int32)
    todo = [(slice(0, shape[0]), slice(0, shape[1]))] if same.size else []
    limit = max(backend.gpu.free_memory() // 2, _LITTLE)
    while todo:
        tile = todo.pop()
        left, right = rows[tile[0]], columns[tile[1]]
        size = len(left) * len(right)
        if size == 1 or _needed(held, len(left), len(right)) <= limit:
            try:
                same[tile], both[tile] = _tile(backend, held, n_labels, left, right)
                continue
            except MemoryError as error:
                if size == 1:
                    reason = error.__cause__ or error
                    with room_for("a pair of objects", ELSEWHERE):
                        raise MemoryError(str(reason)) from error
            # here, not above: an error that is being handled keeps its arrays alive
            go_on(backend.xp, size, "pairs")
            # others of this size are not tried
            limit = _needed(held, len(left), len(right)) - 1
        todo += _halves(*tile)
    return Coassociation(same, both)


def _needed(held: Any, n_rows: int, n_columns: int) -> int:
    """Return the bytes of a tile, with the codes that it takes along."""
    numbers = _PAIR_BYTES * (n_rows * n_columns + n_rows + n_columns)
    if not isinstance(held, StreamedCodes):
        return numbers
    return numbers + len(held.host) * held.host.itemsize * (n_rows + n_columns)


def _tile(
    backend: CupyBackend,
    held: Any,
    n_labels: npt.NDArray[np.int64],
    rows: npt.NDArray[np.intp],
    columns: npt.NDArray[np.intp],
) -> Coassociation:
    """Return the counts of one tile on the host."""
    codes = held
    if isinstance(held, StreamedCodes):
        with backend.stage("stream"):
            codes = backend.to_device(held.host[:, np.concatenate([rows, columns])])
        here = np.arange(len(rows) + len(columns))
        rows, columns = here[: len(rows)], here[len(rows) :]
    found = backend.coassociation(codes, n_labels, rows, columns)
    return Coassociation(backend.to_host(found.same), backend.to_host(found.both))


def _halves(rows: slice, columns: slice) -> list[tuple[slice, slice]]:
    """Cut the longer side of a tile; the first half is the last of the list."""
    is_tall = rows.stop - rows.start >= columns.stop - columns.start
    side = rows if is_tall else columns
    middle = (side.start + side.stop) // 2
    parts = (slice(middle, side.stop), slice(side.start, middle))
    return [(part, columns) if is_tall else (rows, part) for part in parts]
