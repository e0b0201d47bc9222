"""AddRemAdd climbs, compiled: ``gpu_consensus.methods.climbs``, same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.numba_jit import compiled
from gpu_consensus.backends.protocol import Codes
from gpu_consensus.util.checks import IntArray

_LOWEST = np.int32(np.iinfo(np.int32).min)
_PROBES = 32  # slots of the table that are tried; then a set stays unknown


def climber(
    codes: Codes,
    n_labels: IntArray,
    starts: IntArray,
    threshold: tuple[int, int],
    similarity: npt.NDArray[Any] | None,
    own: npt.NDArray[np.int32],
    marks: npt.NDArray[np.uint64],
    n_slots: int,
) -> Callable[[int], tuple[Any, ...]]:
    """Return a climber with memory of its own: one thread's.

    ``own`` has the labels of every object; ``n_slots`` is a power of two.
    """
    codes = np.ascontiguousarray(codes)
    n = codes.shape[1]
    matrix = np.empty((0, 0), dtype=np.uint8) if similarity is None else similarity
    keys = np.zeros(n_slots, dtype=np.uint64)
    visitor = np.empty((n_slots, 2), dtype=np.int32)
    near = np.empty(n, dtype=np.int32)
    members = np.empty(n, dtype=np.uint8)
    row = np.empty(n, dtype=np.uint8 if len(codes) <= 255 else np.uint16)

    def climb(position: int) -> tuple[Any, ...]:
        total, n_flips, joined, joined_flips = _climb(
            codes,
            n_labels,
            matrix,
            own,
            marks,
            int(starts[position]),
            position,
            *threshold,
            keys,
            visitor,
            near,
            members,
            row,
        )
        packed = np.packbits(members) if joined < 0 else None
        return total, n_flips, joined, joined_flips, packed

    return climb


@compiled
def _count_same(codes: Any, n_labels: Any, l: int, row: Any) -> None:
    """In how many partitions object l shares its label with each."""
    row[:] = 0
    for i in range(codes.shape[0]):
        label = codes[i, l]
        if label == n_labels[i]:
            continue
        for m in range(codes.shape[1]):
            row[m] += codes[i, m] == label


@compiled
def _add_row(near: Any, row: Any, sign: Any) -> None:
    for m in range(near.size):
        near[m] += sign * np.int32(row[m])


@compiled
def _best_changes(near: Any, own: Any, members: Any) -> Any:
    """Return the largest change of the sum by entering, and by leaving."""
    enter, leave = _LOWEST, _LOWEST
    for m in range(near.size):
        twice = np.int32(near[m] + near[m])
        inside = members[m] != 0
        out = _LOWEST if inside else np.int32(own[m] + twice)
        back = np.int32(own[m] - twice) if inside else _LOWEST
        enter = max(enter, out)
        leave = max(leave, back)
    return enter, leave


@compiled
def _first_of(near: Any, own: Any, members: Any, inside: int, change: int) -> int:
    """Return the first object inside, or outside, whose flip makes that change."""
    for m in range(near.size):
        if members[m] == inside:
            found = own[m] - 2 * near[m] if inside else own[m] + 2 * near[m]
            if found == change:
                return m
    return -1


@compiled
def _score(total: int, size: int, p: int, q: int) -> float:
    return np.float64(q * total - p * size * size) / np.float64(size)


@compiled
def _climb(
    codes: Any,
    n_labels: Any,
    similarity: Any,
    own: Any,
    marks: Any,
    start: int,
    position: int,
    p: int,
    q: int,
    keys: Any,
    visitor: Any,
    near: Any,
    members: Any,
    row: Any,
) -> tuple[int, int, int, int]:
    near[:] = 0
    members[:] = 0
    flip, total, size, n_flips = start, np.int64(0), np.int64(0), 0
    mark = np.uint64(0)
    while True:
        sign = np.int32(-1 if members[flip] else 1)
        total += own[flip] + 2 * sign * near[flip]
        size += sign
        mark ^= marks[flip]
        key = max(mark, np.uint64(1))  # 0 is an empty slot
        at = np.int64(key & np.uint64(keys.size - 1))
        for _ in range(_PROBES):
            if keys[at] == key:
                return total, n_flips, visitor[at, 0], visitor[at, 1]
            if keys[at] == 0:
                keys[at] = key
                visitor[at, 0], visitor[at, 1] = position, n_flips
                break
            at = (at + 1) & (keys.size - 1)
        if similarity.size:
            _add_row(near, similarity[flip], sign)
        else:
            _count_same(codes, n_labels, flip, row)
            _add_row(near, row, sign)
        members[flip] = sign > 0
        enter, leave = _best_changes(near, own, members)
        best, flip = _score(total, size, p, q), -1
        if size < own.size:
            higher = _score(total + enter, size + 1, p, q)
            if higher > best:
                best, flip = higher, _first_of(near, own, members, 0, enter)
        if size > 1:
            higher = _score(total + leave, size - 1, p, q)
            if higher >= best:
                leaves = _first_of(near, own, members, 1, leave)
                if higher > best or flip > leaves:
                    flip = leaves
        if flip < 0:
            return total, n_flips, -1, 0
        n_flips += 1
