"""Sums over rows of a table: assign.c, screen.c and scores.c."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.native.layout import (
    Array,
    Lines,
    address,
    as_protocol,
    blank_table,
    check_codes,
    dense,
    lookups,
    padded_rows,
)
from gpu_consensus.backends.native.screened import Screening
from gpu_consensus.backends.native.threads import over, scratch
from gpu_consensus.backends.numpy import gains_of, smallest_unsigned
from gpu_consensus.backends.protocol import (
    Assigned,
    Assignment,
    Codes,
    Offsets,
    Table,
)


def assign(
    call: Any,
    n_threads: int,
    screening: Screening,
    codes: Codes,
    offsets: Offsets,
    table: Table,
    *,
    row_weight: npt.NDArray[np.float32] | None = None,
    row_table: Table | None = None,
    best: bool = False,
    gap: bool = False,
    own: Assignment | None = None,
    stay: Table | None = None,
) -> Assigned:
    """See the Protocol."""
    rows, width = padded_rows("table", table)
    found = check_codes(codes, offsets, len(rows))
    n_samples = found.shape[1]
    n_restarts, n_clusters = table.shape[1:]
    shape = (n_restarts, n_samples)
    assignment = np.empty(shape, dtype=smallest_unsigned(n_clusters))
    prices = own is not None
    lowest = np.empty(shape, dtype=np.float32) if best or prices else None
    gaps = np.empty(shape, dtype=np.float32) if gap else None
    full, row_sum, weight = None, None, None
    if row_table is not None and row_weight is not None:
        weight = dense("row_weight", row_weight, np.float32, (n_samples,))
        full, row_sum = _row_terms(row_table, table.shape, width)
    given = (found.address, found.itemsize, found.stride, address(offsets))
    begin = 0
    mine, price = None, None
    if own is not None and stay is not None:
        if stay.shape != table.shape:
            raise ValueError(
                f"stay has shape {stay.shape} and should have that of table, "
                f"{table.shape}."
            )
        mine = dense("own", own, assignment.dtype, shape)
        price = _own_scores(call, n_threads, found, offsets, stay, mine)
    if weight is None and not best and not gap and not prices:
        begin = screening.assign(
            call, n_threads, found, offsets, rows, table.shape, assignment
        )
    room = call.assign_scratch(width, len(rows))

    def some(first: int, last: int) -> None:
        memory, place = scratch(room)
        call.assign(
            *given,
            found.shape[0],
            address(rows),
            width,
            address(full),
            address(row_sum),
            address(weight),
            n_restarts,
            n_clusters,
            begin + first,
            begin + last,
            address(assignment),
            assignment.itemsize,
            n_samples,
            address(lowest),
            address(gaps),
            address(mine),
            address(price),
            place,
        )
        del memory

    over(some, n_samples - begin, lookups(found, width), n_threads)
    gains = None
    if price is not None:
        gains = gains_of(price, lowest, found.shape[0])
    return Assigned(assignment, lowest if best else None, gaps, gains)


def _own_scores(
    call: Any,
    n_threads: int,
    codes: Lines,
    offsets: Offsets,
    stay: Table,
    own: Assignment,
) -> npt.NDArray[np.float32]:
    """Return the score of every object for the cluster that it is in, (R, n)."""
    rows, width = padded_rows("stay", stay)
    price = np.empty(own.shape, dtype=np.float32)

    def some(begin: int, end: int) -> None:
        call.own_scores(
            codes.address,
            codes.itemsize,
            codes.stride,
            address(offsets),
            codes.shape[0],
            address(rows),
            width,
            *stay.shape[1:],
            begin,
            end,
            address(own),
            own.itemsize,
            own.shape[1],
            address(price),
        )

    over(some, own.shape[1], lookups(codes, 16 * len(own)), n_threads)
    return price


def scores(
    call: Any,
    n_threads: int,
    codes: Codes,
    offsets: Offsets,
    table: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """See the Protocol."""
    table = dense("table", table, np.float64, (None, None, None))
    n_rows, n_restarts, n_clusters = table.shape
    found = check_codes(codes, offsets, n_rows)
    n_columns, n_samples = n_restarts * n_clusters, found.shape[1]
    score = np.empty((n_samples, n_restarts, n_clusters))
    padded = blank_table(n_rows, n_columns, np.float64)
    padded[:, :n_columns] = table.reshape(n_rows, -1)
    width = padded.shape[1]
    room = call.scores_scratch(width, n_rows)

    def some(begin: int, end: int) -> None:
        memory, place = scratch(room)
        call.scores(
            found.address,
            found.itemsize,
            found.stride,
            address(offsets),
            found.shape[0],
            address(padded),
            width,
            n_columns,
            begin,
            end,
            address(score),
            place,
        )
        del memory

    over(some, n_samples, 2 * lookups(found, width), n_threads)
    return score


def _row_terms(
    row_table: Table, shape: tuple[int, ...], width: int
) -> tuple[Array | None, Array | None]:
    """Return a row table as padded rows, or the one row that is the same for all."""
    wanted = shape if row_table.ndim == 3 else shape[1:]
    if row_table.shape != wanted:
        raise ValueError(
            f"row_table has shape {row_table.shape} and should have {wanted}, as table."
        )
    if row_table.ndim == 2:
        return None, padded_rows("row_table", row_table[None])[0]
    full, found = padded_rows("row_table", row_table)
    if found != width:
        padded = blank_table(len(full), width)
        as_protocol(padded, *shape[1:])[:] = row_table
        full = padded
    return full, None
