"""Sums of table rows and their smallest entry, compiled for vector registers.

Scores of a tile of objects stay in the cache; a few objects at a time keep theirs in
registers while a group of partitions is added, always in partition order. Columns are
laid out by cluster first (column k R + q), so that the restarts of a cluster are
neighbours and a vector compares sixteen of them at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from gpu_consensus.backends.numba_jit import compiled

LANES = 16  # numbers that one operation adds; columns are padded to it
_TILE = 256  # objects whose scores are held together
_TILE_NUMBERS = 1 << 15  # but no more scores than the cache holds
_GROUP = 16  # partitions that are added before the scores leave the registers
# tuples whose lengths tell how many objects and vectors are in registers
_ONE, _TWO, _THREE, _FOUR, _EIGHT = ((0,) * size for size in (1, 2, 3, 4, 8))
_inline: Callable[[Callable[..., Any]], Any] = intrinsic
_build: Any = cgutils
_FLOAT = np.dtype(np.float32)


@_inline
def _accumulate(
    typingctx: Any,
    rows: Any,
    blocks: Any,
    t: Any,
    strip: Any,
    first: Any,
    last: Any,
    scores: Any,
    table: Any,
    width: Any,
    codes: Any,
    stride: Any,
    offsets: Any,
    objects: Any,
) -> Any:
    """Add table rows of partitions first..last to the scores of objects t, t+1, ...

    ``rows`` and ``blocks`` say by their lengths how many objects, and how many vectors
    of each from column ``strip`` on, stay in registers.
    """
    signature = types.void(
        rows,
        blocks,
        t,
        strip,
        first,
        last,
        scores,
        table,
        width,
        codes,
        stride,
        offsets,
        objects,
    )
    n_rows, n_blocks = len(rows), len(blocks)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _, _, t, strip, first, last, scores, table, width, codes, stride, *_ = values

        def data(index: int) -> Any:
            kind = signature.args[index]
            return context.make_array(kind)(context, builder, values[index]).data

        scores, table, codes, offsets, objects = map(data, (6, 7, 9, 11, 12))
        word = t.type
        number = context.get_value_type(signature.args[7].dtype)
        vector, size = ir.VectorType(number, LANES), context.get_abi_sizeof(number)

        def at(array: Any, row: Any, block: int) -> Any:
            column = builder.add(strip, word(block * LANES))
            index = builder.add(builder.mul(row, width), column)
            return builder.bitcast(builder.gep(array, [index]), vector.as_pointer())

        places, totals, targets = [], [], []
        for u in range(n_rows):
            row = builder.add(t, word(u))
            places.append(builder.load(builder.gep(objects, [row])))
            for b in range(n_blocks):
                target = at(scores, row, b)
                total = _build.alloca_once(builder, vector)
                builder.store(builder.load(target, align=size), total)
                targets.append(target)
                totals.append(total)
        step = word(1)
        with _build.for_range_slice(builder, first, last, step, word) as (i, _):
            begin = builder.load(builder.gep(offsets, [i]))
            line = builder.gep(codes, [builder.mul(i, stride)])
            for u in range(n_rows):
                code = builder.load(builder.gep(line, [places[u]]))
                row = builder.add(begin, builder.zext(code, word))
                for b in range(n_blocks):
                    entry = builder.load(at(table, row, b), align=size)
                    total = totals[u * n_blocks + b]
                    builder.store(builder.fadd(builder.load(total), entry), total)
        for total, target in zip(totals, targets, strict=True):
            builder.store(builder.load(total), target, align=size)
        return context.get_dummy_value()

    return signature, generate


@compiled
def _add_tables(
    scores: Any,
    table: Any,
    width: Any,
    codes: Any,
    stride: Any,
    offsets: Any,
    objects: Any,
    n_objects: Any,
) -> None:
    """Add up the table rows of a tile of objects, all partitions in their order."""
    n_partitions = len(offsets) - 1
    given = (scores, table, width, codes, stride, offsets, objects)
    for first in range(0, n_partitions, _GROUP):
        last = min(first + _GROUP, n_partitions)
        strip = 0
        while strip < width:
            left = (width - strip) // LANES
            if left >= 4 and left != 5:
                for t in range(0, n_objects, 2):
                    _accumulate(_TWO, _FOUR, t, strip, first, last, *given)
                strip += 4 * LANES
            elif left >= 3:
                for t in range(0, n_objects, 2):
                    _accumulate(_TWO, _THREE, t, strip, first, last, *given)
                strip += 3 * LANES
            elif left == 2:
                for t in range(0, n_objects, 4):
                    _accumulate(_FOUR, _TWO, t, strip, first, last, *given)
                strip += 2 * LANES
            else:
                for t in range(0, n_objects, 8):
                    _accumulate(_EIGHT, _ONE, t, strip, first, last, *given)
                strip += LANES


@_inline
def _smallest(
    typingctx: Any,
    scores: Any,
    begin: Any,
    n_restarts: Any,
    n_clusters: Any,
    winner: Any,
    best: Any,
    second: Any,
) -> Any:
    """Find the two lowest scores of sixteen restarts, and the cluster of the lowest."""
    signature = types.void(scores, begin, n_restarts, n_clusters, winner, best, second)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _, begin, n_restarts, n_clusters, *_ = values

        def data(index: int) -> Any:
            kind = signature.args[index]
            return context.make_array(kind)(context, builder, values[index]).data

        word, number, short = begin.type, ir.FloatType(), ir.IntType(32)
        vector, indices = ir.VectorType(number, LANES), ir.VectorType(short, LANES)

        def load(k: Any) -> Any:
            index = builder.add(begin, builder.mul(k, n_restarts))
            place = builder.gep(data(0), [index])
            return builder.load(
                builder.bitcast(place, vector.as_pointer()), align=number_size
            )

        number_size = context.get_abi_sizeof(number)
        lowest = _build.alloca_once_value(builder, load(word(0)))
        infinite = ir.Constant(vector, [float("inf")] * LANES)
        next_lowest = _build.alloca_once_value(builder, infinite)
        none = ir.Constant(indices, [0] * LANES)
        chosen = _build.alloca_once_value(builder, none)
        with _build.for_range_slice(builder, word(1), n_clusters, word(1), word) as (
            k,
            _,
        ):
            score, low = load(k), builder.load(lowest)
            less = builder.fcmp_ordered("<", score, low)
            follows = builder.load(next_lowest)
            closer = builder.fcmp_ordered("<", score, follows)
            other = builder.select(closer, score, follows)
            builder.store(builder.select(less, low, other), next_lowest)
            builder.store(builder.select(less, score, low), lowest)
            lane = builder.insert_element(none, builder.trunc(k, short), short(0))
            name = builder.shuffle_vector(lane, none, none)
            builder.store(builder.select(less, name, builder.load(chosen)), chosen)
        for found, index in ((chosen, 4), (lowest, 5), (next_lowest, 6)):
            value = builder.load(found)
            target = builder.bitcast(data(index), value.type.as_pointer())
            builder.store(value, target, align=number_size)
        return context.get_dummy_value()

    return signature, generate


@compiled
def assign_rows(
    table: Any,
    width: Any,
    row_table: Any,
    row_sum: Any,
    row_weight: Any,
    codes: Any,
    stride: Any,
    offsets: Any,
    begin: Any,
    end: Any,
    n_clusters: Any,
    assignment: Any,
    best: Any,
    gap: Any,
) -> None:
    """Assign objects ``begin..end``.

    Parameters
    ----------
    table, row_table : 1-D float32
        Rows of ``width`` columns; ``row_table`` may be empty.
    row_sum : 1-D float32
        One row of a row table, or empty.
    row_weight : 1-D float32
        Read only where there is a row table or sum.
    codes : 1-D, uint8 or uint16
        Partition i begins at ``i * stride``.
    assignment, best, gap : (R, n)
        Where to write; ``best`` and ``gap`` may be empty.
    """
    n_restarts = len(assignment)
    tile = max(8, min(_TILE, _TILE_NUMBERS // width // 8 * 8))
    scores = np.empty(tile * width + LANES, _FLOAT)
    factors = np.empty(tile * width if len(row_table) else 0, _FLOAT)
    objects = np.empty(tile, np.int64)
    winner = np.empty(LANES, np.int32)
    lowest, second = np.empty(LANES, _FLOAT), np.empty(LANES, _FLOAT)
    for first in range(begin, end, tile):
        size = min(tile, end - first)
        for t in range(tile):
            # objects in registers beyond the last one do its work again
            objects[t] = first + min(t, size - 1)
        scores[:] = 0
        _add_tables(scores, table, width, codes, stride, offsets, objects, size)
        if len(row_table):
            factors[:] = 0
            _add_tables(
                factors, row_table, width, codes, stride, offsets, objects, size
            )
            for t in range(size):
                weight = row_weight[objects[t]]
                for c in range(t * width, (t + 1) * width):
                    scores[c] += weight * factors[c]
        elif len(row_sum):
            for t in range(size):
                weight = row_weight[objects[t]]
                for c in range(width):
                    scores[t * width + c] += weight * row_sum[c]
        for t in range(size):
            l = objects[t]
            for q in range(0, n_restarts, LANES):
                _smallest(
                    scores,
                    t * width + q,
                    n_restarts,
                    n_clusters,
                    winner,
                    lowest,
                    second,
                )
                lanes = min(LANES, n_restarts - q)
                for lane in range(lanes):
                    assignment[q + lane, l] = winner[lane]
                if best.size:
                    for lane in range(lanes):
                        best[q + lane, l] = lowest[lane]
                if gap.size:
                    for lane in range(lanes):
                        gap[q + lane, l] = second[lane] - lowest[lane]


@compiled
def score_rows(
    table: Any,
    width: Any,
    codes: Any,
    stride: Any,
    offsets: Any,
    begin: Any,
    end: Any,
    scores: Any,
) -> None:
    """Add up a float64 table for objects ``begin..end``: (n, C) from padded rows."""
    tile = max(8, min(_TILE, _TILE_NUMBERS // 2 // width // 8 * 8))
    totals = np.empty(tile * width)
    objects = np.empty(tile, np.int64)
    for first in range(begin, end, tile):
        size = min(tile, end - first)
        for t in range(tile):
            objects[t] = first + min(t, size - 1)
        totals[:] = 0
        _add_tables(totals, table, width, codes, stride, offsets, objects, size)
        for t in range(size):
            for c in range(scores.shape[1]):
                scores[first + t, c] = totals[t * width + c]
