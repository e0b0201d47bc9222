"""Single-object moves after the loop has stopped: optima that Lloyd cannot leave.

Objects are visited in index order; one moves to the cluster that lowers F most, by the
exact change of F, if any does. Everything is float64 from integer counts on the host,
so that every backend ends with the same labels.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from gpu_consensus.backends import why_unavailable
from gpu_consensus.backends.protocol import Assignment, Codes, Counts
from gpu_consensus.checks import FloatArray
from gpu_consensus.backends.log2 import LOOKUP_BITS
from gpu_consensus.backends.segments import Segments, label_sums
from gpu_consensus.loop.utilities import Formula, rises

_SMALLEST_BLOCK = 16
_BUFFER = 1 << 20  # numbers gathered at once
_WORTH_COMPILING = 1 << 22  # additions of a sweep


def refine(
    codes: Codes,
    formula: Formula,
    segments: Segments,
    weights: FloatArray,
    assignment: Assignment,
    counts: Counts,
    *,
    max_sweeps: int,
    after_sweep: Callable[[Counts], None] = lambda counts: None,
    compiled: bool = False,
) -> bool:
    """Move single objects until none can lower F; changes its arguments in place.

    Parameters
    ----------
    codes : ndarray of shape (r, n)
    formula, segments, weights
        The utility, the rows of the table, the weight of each partition.
    assignment : ndarray of shape (n,)
        Objects with value K stay out.
    counts : ndarray of shape (S, K)
    max_sweeps : int
        At most so many visits to every object.
    after_sweep : callable, optional
        Called with ``counts`` after every visit to all objects.
    compiled : bool, default False
        Compile however small the work: numba is loaded already. The same bits.

    Returns
    -------
    finished : bool
        Whether no move is left, rather than no sweep.

    Notes
    -----
    A sweep costs n r K additions, a move one new column of gains for the cluster left
    and one for the cluster entered; compiled, only the entries that are read next.
    """
    n_samples, n_clusters = codes.shape[1], counts.shape[1]
    weight = segments.spread(weights)[:, None]
    # rounding of a sum of changes stays far below this, so no move can raise F
    tolerance = float(weights.sum()) * 2.0**-46 * max(64, n_samples)
    additions = _WORTH_COMPILING if compiled else codes.size * n_clusters
    if _worth_compiling(additions) and (
        formula.name and (n_samples + 1).bit_length() <= LOOKUP_BITS
    ):
        return _refine_compiled(
            codes,
            formula.name,
            segments,
            weights,
            assignment,
            counts,
            tolerance,
            max_sweeps,
            after_sweep,
        )
    enter, leave = _gains(formula, segments, weight, counts, slice(None))
    sizes = counts[: segments.offsets[1]].sum(axis=0)
    may_leave = np.append(sizes > 1, False)
    find = _finder(additions)
    l, since_move, sweeps = 0, 0, 0
    while sweeps < max_sweeps:
        # a full circle without a move is the end
        end = min(n_samples, l + n_samples - since_move)
        mover, k = find(
            codes,
            segments.starts,
            enter,
            leave,
            assignment,
            may_leave,
            tolerance,
            l,
            end,
        )
        if mover < 0:
            since_move += end - l
            l = end
        else:
            a = int(assignment[mover])
            rows = codes[:, mover] + segments.starts
            assignment[mover] = k
            counts[rows, a] -= 1
            counts[rows, k] += 1
            sizes[a] -= 1
            sizes[k] += 1
            may_leave[:-1] = sizes > 1
            enter[:, [a, k]], leave[:, [a, k]] = _gains(
                formula, segments, weight, counts, [a, k]
            )
            since_move, l = 0, mover + 1
        finished = since_move >= n_samples
        if finished or l == n_samples:
            l = 0
            sweeps += 1
            after_sweep(counts)
        if finished:
            return True
    return False


def _gains(
    formula: Formula,
    segments: Segments,
    weight: FloatArray,
    counts: Counts,
    columns: slice | list[int],
) -> tuple[FloatArray, FloatArray]:
    """How much of F an object with each label saves by entering and by leaving."""
    chosen = counts[:, columns].copy()
    chosen[segments.missing] = 0
    enter = weight * formula.change(chosen, segments, 1)
    leave = weight * formula.change(chosen, segments, -1)
    enter[segments.missing] = 0.0
    leave[segments.missing] = 0.0
    return enter, leave


def _refine_compiled(
    codes: Codes,
    utility: str,
    segments: Segments,
    weights: FloatArray,
    assignment: Assignment,
    counts: Counts,
    tolerance: float,
    max_sweeps: int,
    after_sweep: Callable[[Counts], None],
) -> bool:
    """As ``refine``, for utilities whose gains are compiled; the same bits."""
    from gpu_consensus.backends import numba_refine
    from gpu_consensus.backends.numba_layout import blank_table, code_lines

    lines, stride = code_lines(codes)
    n_samples, (n_rows, n_clusters) = len(assignment), counts.shape
    sums = label_sums(segments.offsets, counts, np.zeros(n_rows, dtype=np.int64))
    state = (
        assignment,
        counts,
        sums.size,
        sums.square,
        counts[: segments.offsets[1]].sum(axis=0),
        blank_table(n_rows, n_clusters, np.float64).reshape(-1),
        np.zeros(counts.shape),
        np.full(n_rows, -1, dtype=np.int32),
        np.full(counts.shape, -1, dtype=np.int32),
        np.zeros(n_clusters, dtype=np.int32),
    )
    constants = (
        numba_refine.UTILITIES.index(utility),
        lines,
        stride,
        segments.offsets,
        weights,
        rises((n_samples + 1).bit_length() if utility == "h" else 0),
        tolerance,
    )
    since_move = 0
    for _ in range(max_sweeps):
        since_move = numba_refine.sweep(*constants, since_move, *state)
        after_sweep(counts)
        if since_move >= n_samples:
            return True
    return False


def _worth_compiling(additions: int) -> bool:
    """Whether a sweep of so many additions pays for loading numba."""
    return additions >= _WORTH_COMPILING and not why_unavailable("numba")


def _finder(additions: int) -> Callable[..., tuple[int, int]]:
    """Return the function that finds the next move: compiled where that pays."""
    if not _worth_compiling(additions):
        return find_move
    compiled: Callable[..., tuple[int, int]] = compiled_finder()
    return compiled


def find_move(
    codes: Codes,
    starts: Any,
    enter: FloatArray,
    leave: FloatArray,
    assignment: Assignment,
    may_leave: Any,
    tolerance: float,
    begin: int,
    end: int,
) -> tuple[int, int]:
    """Return the first object in ``begin..end`` that gains by moving, and where to.

    Objects are scored in blocks that grow; (-1, -1) if none wants to move. Gains are
    added in partition order, so the blocks change no bit.
    """
    n_clusters = enter.shape[1]
    largest = max(_SMALLEST_BLOCK, _BUFFER // (len(codes) * n_clusters))
    block = _SMALLEST_BLOCK
    while begin < end:
        stop = min(begin + block, end)
        objects = begin + np.flatnonzero(may_leave[assignment[begin:stop]])
        own = assignment[objects].astype(np.intp)
        rows = codes[:, objects] + starts[:, None]
        gain = enter.take(rows, axis=0)
        gain += leave.take(rows * n_clusters + own)[:, :, None]
        gain = gain.sum(axis=0)
        gain[np.arange(len(own)), own] = 0.0
        wants = np.flatnonzero(gain.max(axis=1, initial=0.0) > tolerance)
        if wants.size:
            return int(objects[wants[0]]), int(gain[wants[0]].argmax())
        begin, block = stop, min(2 * block, largest)
    return -1, -1


@functools.cache
def compiled_finder() -> Any:
    """Return ``find_move`` one object at a time, compiled; the same bits."""
    from gpu_consensus.backends.numba_jit import compiled

    def find_move_compiled(
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

    return compiled(find_move_compiled)
