"""Single-object moves after the loop has stopped: optima that Lloyd cannot leave.

Objects are visited in index order; one moves to the cluster that lowers F most, by the
exact change of F, if any does. Everything is float64 from integer counts on the host,
so that every backend ends with the same labels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpu_consensus.backends.host_loops import compiled_form, fastest, pays
from gpu_consensus.backends.log2 import LOOKUP_BITS
from gpu_consensus.backends.protocol import Assignment, Codes, Counts
from gpu_consensus.backends.segments import Segments, label_sums
from gpu_consensus.loop.utilities import Formula, rises
from gpu_consensus.util.checks import FloatArray

_SMALLEST_BLOCK = 16
_BUFFER = 1 << 20  # numbers gathered at once

Sweep = Callable[[int], int]
"""Visits all objects once; takes and returns how many were visited since a move."""


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
        Visits to every object at most.
    after_sweep : callable, optional
        Called with ``counts`` after every visit to all objects.

    Returns
    -------
    finished : bool
        Whether no move is left; False if ``max_sweeps`` ended it.

    Notes
    -----
    A sweep costs n r K additions, a move one new column of gains for the cluster left
    and one for the cluster entered; compiled, only the entries that are read next.
    """
    n_samples = codes.shape[1]
    # rounding of a sum of changes stays far below this, so no move can raise F
    tolerance = float(weights.sum()) * 2.0**-46 * max(64, n_samples)
    if runs_compiled(codes, formula, counts.shape[1]):
        sums = label_sums(
            segments.offsets, counts, np.zeros(len(counts), dtype=np.int64)
        )
        sweep: Sweep = compiled_form("refinement")(
            formula.name,
            codes,
            segments.offsets,
            weights,
            rises((n_samples + 1).bit_length() if formula.name == "h" else 0),
            tolerance,
            assignment,
            counts,
            sums.size,
            sums.square,
        )
    else:
        sweep = numpy_refinement(
            formula, codes, segments, weights, tolerance, assignment, counts
        )
    since_move = 0
    for _ in range(max_sweeps):
        since_move = sweep(since_move)
        after_sweep(counts)
        if since_move >= n_samples:
            return True
    return False


def runs_compiled(codes: Codes, formula: Formula, n_clusters: int) -> bool:
    """Whether :func:`refine` calls nothing but compiled code in its sweeps."""
    return (
        bool(formula.name)
        and (codes.shape[1] + 1).bit_length() <= LOOKUP_BITS
        and pays("refinement", codes.size * n_clusters)
    )


def numpy_refinement(
    formula: Formula,
    codes: Codes,
    segments: Segments,
    weights: FloatArray,
    tolerance: float,
    assignment: Assignment,
    counts: Counts,
) -> Sweep:
    """Return the sweep of the reference; it changes ``assignment`` and ``counts``.

    An object moves if that lowers F by more than ``tolerance``. A sweep ends early when
    no object has moved in n visits in a row.
    """
    n_samples, n_clusters = codes.shape[1], counts.shape[1]
    weight = segments.to_labels(weights)[:, None]
    enter, leave = _gains(formula, segments, weight, counts, slice(None))
    sizes = counts[: segments.offsets[1]].sum(axis=0)
    may_leave = np.append(sizes > 1, False)
    find = fastest("find_move", find_move, codes.size * n_clusters)

    def sweep(since_move: int) -> int:
        l = 0
        while l < n_samples and since_move < n_samples:
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
                continue
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
        return since_move

    return sweep


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
