"""Counts of labels by cluster, compiled. All are integers, so no order matters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from gpu_consensus.backends.numba_jit import compiled

VECTOR = 64  # bytes that one operation adds
_TILE = 512  # objects whose steps are held together
_MOST = 2**15 - 1 - _TILE  # objects counted in 16 bits
_BLOCK = 1 << 16  # objects whose moves are listed together
_inline: Callable[[Callable[..., Any]], Any] = intrinsic


@_inline
def _add_vector(typingctx: Any, target: Any, at: Any, source: Any, start: Any) -> Any:
    """Add 64 bytes of integers of one array to another."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        number = context.get_value_type(signature.args[0].dtype)
        size = context.get_abi_sizeof(number)
        vector = ir.VectorType(number, VECTOR // size)

        def place(array: int, index: int) -> Any:
            kind = signature.args[array]
            data = context.make_array(kind)(context, builder, values[array]).data
            found = builder.gep(data, [values[index]])
            return builder.bitcast(found, vector.as_pointer())

        goal = place(0, 1)
        step = builder.load(place(2, 3), align=size)
        builder.store(builder.add(builder.load(goal, align=size), step), goal, size)
        return context.get_dummy_value()

    return types.void(target, at, source, start), generate


@compiled
def count_moves(before: Any, after: Any, n_clusters: Any) -> Any:
    """Return how many additions the moves take, and how many objects move.

    An addition is one step, up or down, of one count in one partition. ``before`` may
    be empty: then every object comes from nowhere.
    """
    additions, objects = 0, 0
    n_restarts, n_samples = after.shape
    touched = np.empty(_BLOCK, np.uint8)
    for first in range(0, n_samples, _BLOCK):
        size = min(_BLOCK, n_samples - first)
        touched[:size] = 0
        for q in range(n_restarts):
            leave, enter = 0, 0
            if len(before):
                for t in range(size):
                    a, b = before[q, first + t], after[q, first + t]
                    leave += (a != b) & (a < n_clusters)
                    enter += (a != b) & (b < n_clusters)
                    touched[t] |= a != b
            else:
                enter = size
                touched[:size] = 1
            additions += leave + enter
        for t in range(size):
            objects += touched[t]
    return additions, objects


@compiled
def step_rows(
    codes: Any,
    stride: Any,
    offsets: Any,
    first: Any,
    last: Any,
    before: Any,
    after: Any,
    begin: Any,
    end: Any,
    n_clusters: Any,
    counts: Any,
) -> None:
    """Bring the counts of partitions first..last from ``before`` to ``after``.

    All restarts of an object at once: its steps -1, 0 and 1 form a row of 16-bit
    numbers, which is added to the row of its label.

    Parameters
    ----------
    begin, end : int
        Range of objects.
    counts : (S, R K)
    """
    n_restarts, n_columns = len(after), counts.shape[1]
    lanes = VECTOR // 2
    width = (n_columns + lanes - 1) // lanes * lanes
    base = offsets[first]
    totals = np.zeros((offsets[last] - base) * width, np.int16)
    steps = np.zeros(_TILE * width, np.int16)
    objects = np.empty(_TILE, np.int64)
    size, since = 0, 0
    for l in range(begin, end):
        differ = len(before) == 0
        for q in range(len(before)):
            differ |= before[q, l] != after[q, l]
        if differ:
            objects[size] = l
            start = size * width
            for q in range(n_restarts):
                a = after[q, l]
                if len(before):
                    if before[q, l] == a:
                        continue
                    if before[q, l] < n_clusters:
                        steps[start + q * n_clusters + before[q, l]] = -1
                if a < n_clusters:
                    steps[start + q * n_clusters + a] = 1
            size += 1
        if size == _TILE or l == end - 1:
            for i in range(first, last):
                line, top = i * stride, offsets[i] - base
                for t in range(size):
                    row = (top + codes[line + objects[t]]) * width
                    for c in range(0, width, lanes):
                        _add_vector(totals, row + c, steps, t * width + c)
            steps[: size * width] = 0
            since += size
            size = 0
        if since > _MOST or l == end - 1:
            for row in range(len(totals) // width):
                for c in range(n_columns):
                    counts[base + row, c] += totals[row * width + c]
            totals[:] = 0
            since = 0


@compiled
def step_each(
    codes: Any,
    stride: Any,
    offsets: Any,
    first: Any,
    last: Any,
    before: Any,
    after: Any,
    begin: Any,
    end: Any,
    n_clusters: Any,
    counts: Any,
) -> None:
    """As ``step_rows``, one move after another: for few moves, or many clusters."""
    n_restarts = len(after)
    objects = np.empty(_BLOCK, np.int64)
    leave, enter = np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.int64)
    size = 0
    for q in range(n_restarts):
        column = q * n_clusters
        for start in range(begin, end, VECTOR):
            stop = min(start + VECTOR, end)
            differ = stop - start
            if len(before):
                differ = 0
                for l in range(start, stop):
                    differ += before[q, l] != after[q, l]
            if differ:
                for l in range(start, stop):
                    a = before[q, l] if len(before) else n_clusters
                    b = after[q, l]
                    if a != b:
                        objects[size] = l
                        leave[size] = column + a if a < n_clusters else -1
                        enter[size] = column + b if b < n_clusters else -1
                        size += 1
            full = size > _BLOCK - VECTOR
            if full or (q == n_restarts - 1 and stop == end):
                for i in range(first, last):
                    line, top = i * stride, offsets[i]
                    for p in range(size):
                        row = top + codes[line + objects[p]]
                        if leave[p] >= 0:
                            counts[row, leave[p]] -= 1
                        if enter[p] >= 0:
                            counts[row, enter[p]] += 1
                size = 0


@compiled
def soft_count_rows(
    codes: Any,
    stride: Any,
    offsets: Any,
    first: Any,
    last: Any,
    responsibilities: Any,
    counts: Any,
) -> None:
    """Add responsibilities (n, C), in units of 2**-32, to padded counts (S, width)."""
    n_samples, n_columns = responsibilities.shape
    width, lanes = counts.shape[1], VECTOR // 8
    flat = counts.reshape(-1)
    units = np.zeros(_TILE * width, np.int64)
    for begin in range(0, n_samples, _TILE):
        size = min(_TILE, n_samples - begin)
        for t in range(size):
            for c in range(n_columns):
                units[t * width + c] = np.int64(
                    np.rint(responsibilities[begin + t, c] * 2.0**32)
                )
        for i in range(first, last):
            line = i * stride + begin
            for t in range(size):
                row = (offsets[i] + codes[line + t]) * width
                for c in range(0, width, lanes):
                    _add_vector(flat, row + c, units, t * width + c)


@compiled
def weigh_rows(
    codes: Any,
    stride: Any,
    offsets: Any,
    first: Any,
    last: Any,
    before: Any,
    after: Any,
    row_weight: Any,
    total: Any,
) -> None:
    """Bring the weights of objects missing in partitions first..last, (r, R, K).

    From ``before`` to ``after``, as ``step_rows`` brings counts.
    """
    n_restarts, n_samples = after.shape
    n_clusters = total.shape[2]
    touched, objects = np.empty(_BLOCK, np.uint8), np.empty(_BLOCK, np.int64)
    for begin in range(0, n_samples, _BLOCK):
        end = min(begin + _BLOCK, n_samples)
        touched[:] = len(before) == 0
        for q in range(len(before)):
            for t in range(end - begin):
                touched[t] |= before[q, begin + t] != after[q, begin + t]
        size = 0
        for t in range(end - begin):
            objects[size] = begin + t
            size += touched[t]
        for i in range(first, last):
            line, missing = i * stride, offsets[i + 1] - offsets[i] - 1
            for p in range(size):
                l = objects[p]
                if codes[line + l] != missing:
                    continue
                for q in range(n_restarts):
                    b = after[q, l]
                    a = before[q, l] if len(before) else n_clusters
                    if a != b:
                        if a < n_clusters:
                            total[i, q, a] -= row_weight[l]
                        if b < n_clusters:
                            total[i, q, b] += row_weight[l]


@compiled
def pair_rows(
    left: Any,
    right: Any,
    n_labels: Any,
    complete: Any,
    begin: Any,
    end: Any,
    same: Any,
    both: Any,
) -> None:
    """Compare objects ``begin..end`` of ``left`` (r, a) with all of ``right`` (r, b).

    Matches are counted in a byte each, many pairs in one operation, and added up
    before a byte overflows.
    """
    n_partitions, n_columns = right.shape
    tile = 2048
    matches, pairs = np.empty(tile, np.uint8), np.empty(tile, np.uint8)
    for start in range(0, n_columns, tile):
        size = min(tile, n_columns - start)
        for a in range(begin, end):
            for first in range(0, n_partitions, 255):
                matches[:size] = 0
                pairs[:size] = 0
                for i in range(first, min(first + 255, n_partitions)):
                    code, missing = left[i, a], n_labels[i]
                    if code == missing:
                        continue
                    line = right[i, start : start + size]
                    for b in range(size):
                        matches[b] += line[b] == code
                    if not complete:
                        absent = line.dtype.type(missing)
                        for b in range(size):
                            pairs[b] += line[b] != absent
                for b in range(size):
                    same[a, start + b] += matches[b]
                    both[a, start + b] += pairs[b]
