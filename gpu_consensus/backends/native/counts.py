"""Counts of labels by cluster: count_rows.c, count.c and soft_count.c."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.native.layout import (
    Lines,
    address,
    blank_table,
    check_array,
    check_codes,
    dense,
    lines,
    lookups,
)
from gpu_consensus.backends.native.threads import over, scratch
from gpu_consensus.backends.protocol import (
    Assignment,
    Codes,
    Counts,
    Offsets,
)

_VECTOR = 64  # bytes, of the widest registers
_MOST_BYTES = 255  # clusters whose names are bytes
_SIDE = 16  # restarts that are counted side by side: SIDE of count_rows.c
_PACKED = 1 << 17  # objects whose clusters are packed together
_STEP_COST = 1.5  # of a single step, in vectors of a row: measured


def count(
    call: Any,
    n_threads: int,
    codes: Codes,
    offsets: Offsets,
    before: Assignment | None,
    after: Assignment,
    out: Counts,
    weight: npt.NDArray[np.int64] | None = None,
    absent: Counts | None = None,
) -> None:
    """See the Protocol."""
    check_array("out", out, np.int64, (None, None, None), writeable=True)
    n_rows, n_restarts, n_clusters = out.shape
    found = check_codes(codes, offsets, n_rows)
    n_partitions, n_samples = found.shape
    shape = (n_restarts, n_samples)
    new = lines("after", after, "124", shape)
    old = None
    if before is not None:
        old = lines("before", before, "124", shape)
        if old.itemsize != new.itemsize:
            raise TypeError(
                f"before has dtype {old.array.dtype} and should have that of "
                f"after, {new.array.dtype}."
            )
    heavy = None
    if weight is not None or absent is not None:
        heavy = dense("weight", weight, np.int64, (n_samples,))
        size = (n_partitions, n_restarts, n_clusters)
        check_array("absent", absent, np.int64, size, writeable=True)
    if out.size == 0 or n_samples == 0:
        return
    moves = (
        None if old is None else old.address,
        0 if old is None else old.stride,
        new.address,
        new.stride,
        new.itemsize,
        n_restarts,
        n_clusters,
    )
    by_rows = n_samples * (1 + -(-n_restarts * n_clusters // _VECTOR))
    by_rows *= 1 if old is None else 2
    one_by_one = _moves(call, n_threads, moves, n_samples)
    if not one_by_one:
        return
    given = (found.address, found.itemsize, found.stride, address(offsets))
    if n_clusters <= _MOST_BYTES and by_rows < _STEP_COST * one_by_one:
        if old is not None:
            _add_rows(call, n_threads, found, offsets, old, out, -1)
        _add_rows(call, n_threads, found, offsets, new, out, 1)
    else:

        def step(first: int, last: int) -> None:
            memory, place = scratch(call.count_each_scratch(n_restarts, n_clusters))
            call.count_each(*given, first, last, n_samples, *moves, address(out), place)
            del memory

        work = one_by_one * n_partitions
        over(step, n_partitions, work, n_threads, parts=1)
    if heavy is None:
        return

    room = call.count_each_scratch(n_restarts, n_clusters)

    def add_absent(first: int, last: int) -> None:
        memory, place = scratch(room)
        both = (address(heavy), address(absent), place)
        call.count_absent(*given, first, last, n_samples, *moves, *both)
        del memory

    over(add_absent, n_partitions, one_by_one * n_partitions, n_threads, parts=1)


def _moves(call: Any, n_threads: int, moves: tuple[Any, ...], n_samples: int) -> int:
    """Return how many counts of a partition change by one."""
    found: list[int] = []

    def look(begin: int, end: int) -> None:
        found.append(call.count_moves(*moves, begin, end))

    work = n_samples * int(moves[5]) // 16
    over(look, n_samples, work, n_threads, parts=1)
    return sum(found)


def _add_rows(
    call: Any,
    n_threads: int,
    codes: Lines,
    offsets: Offsets,
    assignment: Lines,
    out: Counts,
    sign: int,
) -> None:
    """Add all objects to the counts, or take them away, all restarts side by side."""
    n_partitions, n_samples = codes.shape
    n_restarts, n_clusters = out.shape[1:]
    most_rows = int(np.diff(offsets).max())
    packed = blank_table(min(n_samples, _PACKED), _SIDE, np.uint8, make=np.empty)
    for begin in range(0, n_samples, _PACKED):
        number = min(_PACKED, n_samples - begin)
        for q in range(0, n_restarts, _SIDE):
            side = min(_SIDE, n_restarts - q)
            size = assignment.itemsize
            lines_at = assignment.address + (q * assignment.stride + begin) * size

            def pack(
                first: int, last: int, place: int = lines_at, side: int = side
            ) -> None:
                call.pack_clusters(
                    place,
                    assignment.stride,
                    assignment.itemsize,
                    side,
                    first,
                    last,
                    address(packed),
                )

            def add(
                first: int,
                last: int,
                begin: int = begin,
                number: int = number,
                q: int = q,
                side: int = side,
            ) -> None:
                room = call.count_rows_scratch(most_rows, side, n_clusters)
                memory, place = scratch(room)
                call.count_rows(
                    codes.address + begin * codes.itemsize,
                    codes.itemsize,
                    codes.stride,
                    address(offsets),
                    first,
                    last,
                    number,
                    address(packed),
                    side,
                    n_clusters,
                    sign,
                    address(out) + 8 * q * n_clusters,
                    n_restarts * n_clusters,
                    place,
                )
                del memory

            over(pack, number, number * side, n_threads, parts=1)
            work = number * n_partitions * (1 + side * n_clusters // _VECTOR)
            over(add, n_partitions, work, n_threads)


def soft_count(
    call: Any,
    n_threads: int,
    codes: Codes,
    offsets: Offsets,
    responsibilities: npt.NDArray[np.float64],
) -> Counts:
    """See the Protocol."""
    found = check_codes(codes, offsets)
    n_partitions, n_samples = found.shape
    shares = dense(
        "responsibilities", responsibilities, np.float64, (n_samples, None, None)
    )
    _, n_restarts, n_clusters = shares.shape
    n_columns, lanes = n_restarts * n_clusters, _VECTOR // 8
    width = -(-n_columns // lanes) * lanes
    counts = np.zeros((int(offsets[-1]), width), dtype=np.int64)
    room = call.soft_count_scratch(width)

    def some(first: int, last: int) -> None:
        memory, place = scratch(room)
        call.soft_count(
            found.address,
            found.itemsize,
            found.stride,
            address(offsets),
            first,
            last,
            n_samples,
            address(shares),
            n_columns,
            address(counts),
            width,
            place,
        )
        del memory

    work = lookups(found, 2 * width)
    over(some, n_partitions, work, n_threads, parts=1)
    dense_counts = np.ascontiguousarray(counts[:, :n_columns])
    return dense_counts.reshape(-1, n_restarts, n_clusters)
