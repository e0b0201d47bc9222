"""A table of small numbers, as a plan says: screen_table.c."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.native.layout import Array, address, blank_table
from gpu_consensus.backends.native.screening import SHARED_ROWS, Plan
from gpu_consensus.backends.native.threads import over, scratch


class Screen(NamedTuple):
    """A table of small numbers; see screen.c.

    Attributes
    ----------
    parts : ndarray of shape (L, 2), int64
        As in :class:`screening.Lookups`, those with the largest units first.
    rows : ndarray of shape (L + 1,), int64
        Where the rows of each begin.
    raised : ndarray of shape (L,), uint8
        By how many bits units fall at each lookup.
    small : ndarray of shape (rows, width), uint8 or uint16
    apart : ndarray of shape (R, S, width), float32, or None
        The table in float32, restarts apart, where doubts are settled by it.
    distance : ndarray of shape (R,), uint16
        How far apart two sums have to be; 0 where they are without rounding.
    """

    parts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    raised: npt.NDArray[np.uint8]
    small: Array
    apart: Array | None
    distance: npt.NDArray[np.uint16]


def fill_screen(
    call: Any,
    table: Array,
    offsets: npt.NDArray[np.int64],
    plan: Plan,
    n_clusters: int,
    n_threads: int,
    settles_apart: bool,
) -> Screen:
    """Round a padded table (S, width) to small numbers.

    With ``settles_apart`` doubts are settled restart by restart.
    """
    n_restarts, width = len(plan.scale), table.shape[1]
    n_columns = n_restarts * n_clusters
    small = blank_table(int(plan.rows[-1]), plan.width, plan.entry, make=np.empty)
    by_column = np.zeros(width, dtype=np.float32)
    by_column[:n_columns] = np.tile(plan.scale, n_clusters)
    room_of = call.screen_table_scratch(width, SHARED_ROWS)

    def fill(first: int, last: int) -> None:
        memory, place = scratch(room_of)
        call.screen_table(
            address(table),
            width,
            address(offsets),
            address(plan.lowest),
            n_restarts,
            n_clusters,
            address(plan.parts),
            address(plan.rows),
            address(plan.unit),
            address(by_column),
            first,
            last,
            address(small),
            small.itemsize,
            plan.width,
            place,
        )
        del memory

    over(fill, len(plan.parts), len(small) * n_columns // 4, n_threads)
    apart = None
    if settles_apart:
        apart = _apart(call, table, n_restarts, n_clusters, n_threads)
    return Screen(plan.parts, plan.rows, plan.raised, small, apart, plan.distance)


def _apart(
    call: Any, table: Array, n_restarts: int, n_clusters: int, n_threads: int
) -> Array:
    """Return a padded table with a table of its own for every restart."""
    if n_restarts == 1:
        return table[None]
    n_rows = len(table)
    flat = blank_table(n_restarts * n_rows, n_clusters)

    def write(first: int, last: int) -> None:
        call.screen_apart(
            address(table),
            table.shape[1],
            n_rows,
            n_restarts,
            n_clusters,
            first,
            last,
            address(flat),
            flat.shape[1],
        )

    over(write, n_rows, n_rows * n_restarts * n_clusters // 4, n_threads)
    return flat.reshape(n_restarts, n_rows, -1)
