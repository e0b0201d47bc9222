"""Single-object moves after the loop has stopped: optima that Lloyd cannot leave.

Objects are visited in index order; one moves to the cluster that lowers F most, by the
exact change of F, if any does. One host function in float64 from integer counts: the
same on every backend.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpu_consensus.backends.protocol import Assignment, Codes, Counts
from gpu_consensus.checks import FloatArray
from gpu_consensus.utilities import Formula, Segments

_SMALLEST_BLOCK = 16
_BUFFER = 1 << 20  # numbers gathered at once


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
        At most so many visits to every object.
    after_sweep : callable, optional
        Called with ``counts`` after every visit to all objects.

    Returns
    -------
    finished : bool
        Whether no move is left, rather than no sweep.

    Notes
    -----
    Blocks of objects are scored at once with the present counts; all before the first
    that wants to move stay, exactly as if visited one by one. A move changes two
    columns of the gain tables. Blocks grow while nothing moves.
    """
    n_samples, n_clusters = codes.shape[1], counts.shape[1]
    largest = max(_SMALLEST_BLOCK, _BUFFER // (len(codes) * n_clusters))
    weight = segments.spread(weights)[:, None]
    # rounding of a sum of changes stays far below this, so no move can raise F
    tolerance = float(weights.sum()) * 2.0**-46 * max(64, n_samples)
    enter, leave = _gains(formula, segments, weight, counts, slice(None))
    sizes = counts[: segments.offsets[1]].sum(axis=0)
    may_leave = np.append(sizes > 1, False)
    first_row = segments.starts[:, None]
    l, block, since_move, sweeps = 0, _SMALLEST_BLOCK, 0, 0
    while since_move < n_samples and sweeps < max_sweeps:
        end = min(l + block, n_samples)
        own = assignment[l:end].astype(np.intp)
        counted = np.flatnonzero(may_leave[own])
        own = own[counted]
        rows = codes[:, l + counted] + first_row
        gain = enter.take(rows, axis=0)
        gain += leave.take(rows * n_clusters + own)[:, :, None]
        gain = gain.sum(axis=0)
        gain[np.arange(len(own)), own] = 0.0
        wants = np.flatnonzero(gain.max(axis=1, initial=0.0) > tolerance)
        if wants.size:
            b = int(wants[0])
            mover, a, k = l + int(counted[b]), int(own[b]), int(gain[b].argmax())
            assignment[mover] = k
            counts[rows[:, b], a] -= 1
            counts[rows[:, b], k] += 1
            sizes[a] -= 1
            sizes[k] += 1
            may_leave[:-1] = sizes > 1
            enter[:, [a, k]], leave[:, [a, k]] = _gains(
                formula, segments, weight, counts, [a, k]
            )
            end = mover + 1
            since_move, block = 0, _SMALLEST_BLOCK
        else:
            since_move += end - l
            block = min(2 * block, largest)
        l = end
        if l == n_samples:
            l = 0
            sweeps += 1
            after_sweep(counts)
    return bool(since_move >= n_samples)


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
