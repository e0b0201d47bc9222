"""Single-object moves, compiled: the loop of ``gpu_consensus.loop.refine``, same bits.

Gains are kept in tables and made again only where they are read: a move changes two
columns, of which the objects before the next move read few rows. The gains of several
objects are added up together, one partition after another, so that its rows stay in the
cache; after a move, those behind the mover are added up again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from gpu_consensus.backends.numba_jit import compiled
from gpu_consensus.backends.numba_layout import blank_table, code_lines

UTILITIES = ("c", "h", "cos")
LANES = 8  # gains that one operation adds; columns are padded to it
_C, _H, _COS = range(len(UTILITIES))
_FEWEST, _MOST = 4, 256  # objects whose gains are added up together
_inline: Callable[[Callable[..., Any]], Any] = intrinsic


@compiled
def _gain(
    utility: Any, step: Any, n: Any, size: Any, square: Any, weight: Any, rises: Any
) -> Any:
    """Return w_i times the change of n_k mu(m_k) by one object more or less.

    The operations of ``Formula.change`` in their order.
    """
    if utility == _H:
        low, whole = (n, size) if step > 0 else (max(n - 1, 0), max(size - 1, 0))
        return weight * (step * rises[low] - step * rises[whole])
    if utility == _COS:
        change = 2 * step * n + 1
        after = max(square + change, 0)
        root = np.sqrt(np.float64(after)) + np.sqrt(np.float64(square))
        return weight * (change / root if root != 0 else 0.0)
    if size + step <= (1 if step > 0 else 0):
        return weight * (step * 1.0)
    below = size * (size + step)
    return weight * ((size * (2 * step * n + 1) - step * square) / below)


@_inline
def _add_gains(
    typingctx: Any, gain: Any, at: Any, enter: Any, row: Any, left: Any
) -> Any:
    """Add a vector of ``enter + left`` to ``gain``: two roundings for each number."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        vector = ir.VectorType(ir.DoubleType(), LANES)

        def place(array: int, index: int) -> Any:
            kind = signature.args[array]
            data = context.make_array(kind)(context, builder, values[array]).data
            found = builder.gep(data, [values[index]])
            return builder.bitcast(found, vector.as_pointer())

        zero = ir.Constant(vector, [0.0] * LANES)
        lane = builder.insert_element(zero, values[4], ir.IntType(32)(0))
        first = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        every = builder.shuffle_vector(lane, zero, first)
        both = builder.fadd(builder.load(place(2, 3), align=8), every)
        target = place(0, 1)
        total = builder.fadd(builder.load(target, align=8), both)
        builder.store(total, target, align=8)
        return context.get_dummy_value()

    return types.void(gain, at, enter, row, left), generate


@compiled
def _add_up(
    utility: Any,
    codes: Any,
    stride: Any,
    offsets: Any,
    weights: Any,
    rises: Any,
    assignment: Any,
    counts: Any,
    size: Any,
    square: Any,
    enter: Any,
    leave: Any,
    row_clock: Any,
    leave_clock: Any,
    column_clock: Any,
    clock: Any,
    begin: Any,
    end: Any,
    gain: Any,
) -> None:
    """Add up the gains of objects ``begin..end``, all partitions in their order."""
    n_clusters = counts.shape[1]
    width = len(enter) // len(counts)
    gain[: (end - begin) * width] = 0.0
    # indices without a sign need no test for counting from the end
    own = assignment[begin:end].astype(np.uint64)
    for i in range(len(offsets) - 1):
        weight, missing = weights[i], np.uint64(offsets[i + 1] - 1)
        first, line = np.uint64(offsets[i]), codes[i * stride + begin :]
        for t in range(end - begin):
            row = first + np.uint64(line[np.uint64(t)])
            k = own[np.uint64(t)]
            # a missing label has nothing to gain or to lose
            if k >= np.uint64(n_clusters) or row == missing:
                continue
            known = row_clock[row]
            if known != clock:
                row_clock[row] = clock
                for other in range(n_clusters):
                    if column_clock[other] > known:
                        enter[row * np.uint64(width) + np.uint64(other)] = _gain(
                            utility,
                            1,
                            counts[row, other],
                            size[i, other],
                            square[i, other],
                            weight,
                            rises,
                        )
            if leave_clock[row, k] < column_clock[k]:
                leave_clock[row, k] = clock
                leave[row, k] = _gain(
                    utility,
                    -1,
                    counts[row, k],
                    size[i, k],
                    square[i, k],
                    weight,
                    rises,
                )
            left, source = leave[row, k], np.int64(row) * width
            for c in range(0, width, LANES):
                _add_gains(gain, t * width + c, enter, source + c, left)


def refinement(
    utility: str,
    codes: Any,
    offsets: Any,
    weights: Any,
    rises: Any,
    tolerance: float,
    assignment: Any,
    counts: Any,
    size: Any,
    square: Any,
) -> Callable[[int], int]:
    """Return a sweep with memory of its own; see ``_sweep`` for the arrays.

    Parameters
    ----------
    utility : {"c", "h", "cos"}
    codes : ndarray of shape (r, n)
    tolerance : float
        What a move must save at least.

    Returns
    -------
    sweep : callable
        Visits all objects once; from and to the number visited since the last move.
    """
    lines, stride = code_lines(codes)
    constants = (
        UTILITIES.index(utility),
        lines,
        stride,
        offsets,
        weights,
        rises,
        tolerance,
    )
    n_rows, n_clusters = counts.shape
    state = (
        assignment,
        counts,
        size,
        square,
        counts[: offsets[1]].sum(axis=0),
        blank_table(n_rows, n_clusters, np.float64).reshape(-1),
        np.zeros(counts.shape),
        np.full(n_rows, -1, dtype=np.int32),
        np.full(counts.shape, -1, dtype=np.int32),
        np.zeros(n_clusters, dtype=np.int32),
    )

    def sweep(since_move: int) -> int:
        return int(_sweep(*constants, since_move, *state))

    return sweep


@compiled
def find_move(
    codes: Any,
    starts: Any,
    enter: Any,
    leave: Any,
    assignment: Any,
    may_leave: Any,
    tolerance: float,
    begin: int,
    end: int,
) -> tuple[int, int]:
    """See ``gpu_consensus.loop.refine.find_move``: one object at a time."""
    n_clusters = enter.shape[1]
    gain = np.empty(n_clusters)
    for l in range(begin, end):
        own = assignment[l]
        if not may_leave[own]:
            continue
        gain[:] = 0.0
        for i in range(codes.shape[0]):
            row = starts[i] + codes[i, l]
            left = leave[row, own]
            for k in range(n_clusters):
                gain[k] += enter[row, k] + left
        gain[own] = 0.0
        best = 0
        for k in range(1, n_clusters):
            if gain[k] > gain[best]:
                best = k
        if gain[best] > tolerance:
            return l, best
    return -1, -1


@compiled
def _sweep(
    utility: Any,
    codes: Any,
    stride: Any,
    offsets: Any,
    weights: Any,
    rises: Any,
    tolerance: Any,
    since_move: Any,
    assignment: Any,
    counts: Any,
    size: Any,
    square: Any,
    members: Any,
    enter: Any,
    leave: Any,
    row_clock: Any,
    leave_clock: Any,
    column_clock: Any,
) -> Any:
    """Visit all objects once, or until none has moved for a whole circle.

    Parameters
    ----------
    utility : int
        Index into ``UTILITIES``.
    codes, stride
        Lines of codes, see ``assign_rows``.
    rises : 1-D float64
        For "h": the rise of x log2 x at every count.
    since_move : int
        Objects visited since the last move.
    assignment, counts, size, square, members
        The state: (n,), (S, K), two sums over labels (r, K), objects per cluster (K,).
    enter, leave, row_clock, leave_clock, column_clock
        Tables of gains, (S, width) in one vector and (S, K), and after which move
        they were made, and after which a column changed; -1 for never.

    Returns
    -------
    since_move : int
    """
    n_samples, n_partitions = len(assignment), len(offsets) - 1
    n_clusters = counts.shape[1]
    width = len(enter) // len(counts)
    gain = np.empty(_MOST * width)
    clock = column_clock.max()
    together, l = _FEWEST, 0
    while l < n_samples and since_move < n_samples:
        begin, end = l, min(l + together, l + n_samples - since_move, n_samples)
        _add_up(
            utility,
            codes,
            stride,
            offsets,
            weights,
            rises,
            assignment,
            counts,
            size,
            square,
            enter,
            leave,
            row_clock,
            leave_clock,
            column_clock,
            clock,
            begin,
            end,
            gain,
        )
        moved = False
        while l < end and not moved:
            own, start = np.int64(assignment[l]), (l - begin) * width
            best = 0
            if own < n_clusters and members[own] > 1:
                gain[start + own] = 0.0
                for k in range(1, n_clusters):
                    if gain[start + k] > gain[start + best]:
                        best = k
                moved = gain[start + best] > tolerance
            l += 1
            since_move += 1
        together = min(2 * together, _MOST)
        if not moved:
            continue
        since_move = 0
        together = max(_FEWEST, together // 4)
        clock += 1
        assignment[l - 1] = best
        members[own] -= 1
        members[best] += 1
        column_clock[own] = clock
        column_clock[best] = clock
        for i in range(n_partitions):
            row = offsets[i] + codes[i * stride + l - 1]
            n, m = counts[row, own], counts[row, best]
            counts[row, own] = n - 1
            counts[row, best] = m + 1
            if row != offsets[i + 1] - 1:
                size[i, own] -= 1
                size[i, best] += 1
                square[i, own] += 1 - 2 * n
                square[i, best] += 1 + 2 * m
    return since_move
