"""Counts of labels by cluster: count.c and soft_count.c."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.native.layout import (
    address,
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
    additions, objects = _moves(call, n_threads, moves, n_samples)
    if not additions:
        return
    given = (found.address, found.itemsize, found.stride, address(offsets))
    _step(call, n_threads, given, offsets, moves, n_samples, out, additions, objects)
    if heavy is None:
        return

    room = call.count_each_scratch(n_restarts * n_clusters)

    def add_absent(first: int, last: int) -> None:
        memory, place = scratch(room)
        both = (address(heavy), address(absent), place)
        call.count_absent(*given, first, last, n_samples, *moves, *both)
        del memory

    over(add_absent, n_partitions, additions * n_partitions, n_threads, parts=1)


def _moves(
    call: Any, n_threads: int, moves: tuple[Any, ...], n_samples: int
) -> tuple[int, int]:
    """Return how many steps of a count a partition sees, and objects that move."""
    found: list[npt.NDArray[np.int64]] = []

    def look(begin: int, end: int) -> None:
        part = np.zeros(2, dtype=np.int64)
        found.append(part)
        call.count_moves(*moves, begin, end, address(part))

    work = n_samples * int(moves[5]) // 16
    over(look, n_samples, work, n_threads, parts=1)
    additions, objects = np.sum(found, axis=0).tolist()
    return additions, objects


def _step(
    call: Any,
    n_threads: int,
    given: tuple[Any, ...],
    offsets: Offsets,
    moves: tuple[Any, ...],
    n_samples: int,
    out: Counts,
    additions: int,
    objects: int,
) -> None:
    """Bring counts from one assignment to another, whichever way is quicker."""
    n_partitions = len(offsets) - 1
    n_restarts, n_clusters = out.shape[1:]
    vectors = -(-n_restarts * n_clusters // _VECTOR)
    by_rows = objects * n_partitions * (1 + vectors) + out.size // 4
    one_by_one = additions * n_partitions
    rows = n_clusters <= _MOST_BYTES and by_rows < one_by_one

    def step(first: int, last: int) -> None:
        if rows:
            n_rows = int(offsets[last] - offsets[first])
            room = call.count_rows_scratch(n_rows, n_restarts, n_clusters)
            kernel = call.count_rows
        else:
            room = call.count_each_scratch(n_restarts * n_clusters)
            kernel = call.count_each
        memory, place = scratch(room)
        kernel(*given, first, last, n_samples, *moves, address(out), place)
        del memory

    work = min(by_rows, one_by_one)
    over(step, n_partitions, work, n_threads, parts=1)


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
