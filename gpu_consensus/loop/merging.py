"""Cells to clusters: merge the pair that raises the objective least, until K are left.

Cells are groups of objects, such as those that two clusterings put together. They are
merged by their counts alone, on the host, so that merges are the same for any backend,
block or worker. A merge of cells a and b costs

    sum_i w_i (total(a) + total(b) - total(a + b)),

with the totals n mu(m) of the rule. For entropies sums are those of whole numbers, for
squares they are products of counts, and any other rule is asked for its objective.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpu_consensus.backends.host_loops import fastest
from gpu_consensus.backends.log2 import x_log2_x
from gpu_consensus.backends.protocol import Counts
from gpu_consensus.backends.segments import Segments
from gpu_consensus.loop.rule import Rule
from gpu_consensus.util.checks import FloatArray, IntArray

_BITS = 52  # of x log2 x in whole numbers: float64 holds it
_PAIRS = 1 << 22  # counts of pairs that are in memory together

Costs = Callable[[int, IntArray], FloatArray]
"""From a cell and others to what merging it with each of them costs."""


def merge_cells(
    rule: Rule, counts: Counts, absent: Counts | None, n_clusters: int
) -> IntArray:
    """Return the cluster of each cell, (M,), 0 .. n_clusters - 1 in order of cells.

    Parameters
    ----------
    rule : Rule
    counts : ndarray of shape (S, M)
        On the host.
    absent : ndarray of shape (r, M) or None
        As those of the rule.
    n_clusters : int
        M if there are fewer cells.
    """
    merging = rule.merging
    if merging is None:
        name = _merge_any(rule, counts, absent, n_clusters)
    elif merging.kind == "entropy":
        merge = fastest("merge_cells", merge_entropies)
        given = (counts, merging.segments.offsets, merging.weights)
        name = merge(*given, whole_x_log2_x(counts, merging.segments), n_clusters)
    else:
        name = _merge_squares(rule, counts, absent, n_clusters)
    return np.unique(name, return_inverse=True)[1].ravel()


def whole_x_log2_x(counts: Counts, segments: Segments) -> IntArray:
    """Return x log2 x in whole numbers, for every x up to the members of all cells.

    They are multiples of a power of two, as small as float64 can hold the largest.
    """
    most = int(segments.sum(counts).sum(axis=1).max(initial=1))
    exact = x_log2_x(np.arange(most + 1))
    bits = _BITS - int(exact[-1] + 1).bit_length()
    return np.rint(np.ldexp(exact, bits)).astype(np.int64)


def merge_entropies(
    counts: Counts,
    offsets: IntArray,
    weights: FloatArray,
    whole: IntArray,
    n_clusters: int,
) -> IntArray:
    """Return the lowest cell of those that each has been merged with, (M,).

    Parameters
    ----------
    counts : ndarray of shape (S, M)
    offsets : ndarray of shape (r + 1,)
    weights : ndarray of shape (r,)
    whole : ndarray
        As :func:`whole_x_log2_x` gives it.
    n_clusters : int
    """
    segments = Segments(offsets)
    n = segments.present(counts)
    size = segments.sum(n)

    def grow(x: IntArray, y: IntArray) -> IntArray:
        return np.asarray(whole[x + y] - whole[x] - whole[y])

    def costs(a: int, others: IntArray) -> FloatArray:
        labels = np.flatnonzero(n[:, a])  # what the other lacks adds nothing
        parts = grow(n[labels, a, None], n[np.ix_(labels, others)])
        sums = np.zeros((len(labels) + 1, len(others)), dtype=np.int64)
        np.cumsum(parts, axis=0, out=sums[1:])
        ends = np.searchsorted(labels, offsets)
        shared = np.diff(sums[ends], axis=0)
        growth = grow(size[:, a, None], size[:, others]) - shared
        # partitions in their order, one after another
        return np.asarray(np.cumsum(weights[:, None] * growth, axis=0)[-1])

    def join(x: int, y: int) -> None:
        n[:, x] += n[:, y]
        size[:, x] += size[:, y]

    return _merge(counts.shape[1], n_clusters, costs, join)


def _merge_squares(
    rule: Rule, counts: Counts, absent: Counts | None, n_clusters: int
) -> IntArray:
    """As :func:`merge_entropies` for totals of the sum A of squared counts.

    A / below for "square", where ``below`` adds up over objects; sqrt(A) for "root".
    """
    merging = rule.merging
    assert merging is not None
    segments, n_cells = merging.segments, counts.shape[1]
    n = segments.present(counts).astype(np.float64)
    # products of counts are whole numbers that float64 holds, in whatever order added
    below = merging.below(counts, absent).astype(np.float64)
    weights = merging.weights[:, None]
    alike = (weights == weights[0]).all() and (below == below[0]).all()
    if merging.kind == "square" and alike:
        # no label is missing: partitions have one size, and their squares add up
        products = (n.T @ n)[None]
        below, weights = below[:1], weights[:1]
    else:
        products = np.empty((len(segments.sizes), n_cells, n_cells))
        for i, begin in enumerate(segments.starts):
            part = n[begin : segments.missing[i]]
            products[i] = part.T @ part
    square = np.ascontiguousarray(np.diagonal(products, axis1=1, axis2=2))

    def total(a: FloatArray, under: FloatArray) -> FloatArray:
        if merging.kind == "root":
            return np.sqrt(a)
        return np.asarray(np.divide(a, under, out=np.zeros_like(a), where=under > 0))

    def costs(a: int, others: IntArray) -> FloatArray:
        both = square[:, a, None] + square[:, others] + 2 * products[:, a, others]
        apart = total(square[:, a, None], below[:, a, None]) + total(
            square[:, others], below[:, others]
        )
        growth = apart - total(both, below[:, a, None] + below[:, others])
        return np.asarray(np.cumsum(weights * growth, axis=0)[-1])

    def join(x: int, y: int) -> None:
        square[:, x] += square[:, y] + 2 * products[:, x, y]
        products[:, x, :] += products[:, y, :]
        products[:, :, x] += products[:, :, y]
        below[:, x] += below[:, y]

    return _merge(n_cells, n_clusters, costs, join)


def _merge_any(
    rule: Rule, counts: Counts, absent: Counts | None, n_clusters: int
) -> IntArray:
    """As :func:`merge_entropies` by the objective of any rule.

    It is a constant less the totals of the clusters: that of one cluster, as if it were
    a restart, tells its total.
    """
    n = counts.copy()
    gone = None if absent is None else absent.copy()

    def objective(cells: Counts, without: Counts | None) -> FloatArray:
        missing = None if without is None else without[:, :, None]
        return rule.objective(cells[:, :, None], missing)

    nothing = None if gone is None else np.zeros_like(gone[:, :1])
    constant = objective(np.zeros_like(n[:, :1]), nothing)[0]
    alone = objective(n, gone)

    def costs(a: int, others: IntArray) -> FloatArray:
        parts = []
        step = max(1, _PAIRS // len(n))
        for begin in range(0, len(others), step):
            some = others[begin : begin + step]
            without = None if gone is None else gone[:, [a]] + gone[:, some]
            parts.append(objective(n[:, [a]] + n[:, some], without))
        both = np.concatenate(parts) if parts else np.empty(0)
        return np.asarray(constant + both - alone[a] - alone[others])

    def join(x: int, y: int) -> None:
        n[:, x] += n[:, y]
        without = None
        if gone is not None:
            gone[:, x] += gone[:, y]
            without = gone[:, [x]]
        alone[x] = objective(n[:, [x]], without)[0]

    return _merge(counts.shape[1], n_clusters, costs, join)


def _merge(
    n_cells: int, n_clusters: int, costs: Costs, join: Callable[[int, int], None]
) -> IntArray:
    """Merge the pair of least cost, ties to the lowest, until so many are left."""
    table = np.full((n_cells, n_cells), np.inf)
    for a in range(n_cells - 1):
        table[a, a + 1 :] = costs(a, np.arange(a + 1, n_cells))
    name = np.arange(n_cells)
    for _ in range(n_cells - n_clusters):
        x, y = divmod(int(table.argmin()), n_cells)
        join(x, y)
        name[name == y] = x
        table[y], table[:, y] = np.inf, np.inf
        others = np.flatnonzero(name == np.arange(n_cells))
        others = others[others != x]
        cost = costs(x, others)
        above = others > x
        table[x, others[above]] = cost[above]
        table[others[~above], x] = cost[~above]
    return name
