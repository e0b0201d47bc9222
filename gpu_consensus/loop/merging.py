"""Cells to clusters: merge the pair that raises the objective least, until K are left.

Cells are groups of objects, such as those that two clusterings put together. They are
merged by their counts alone, on the host, so that merges are the same for any backend,
block or worker. A merge of cells a and b costs

    sum_i w_i (total(a) + total(b) - total(a + b)),

with the totals n mu(m) of the rule. For entropies sums are those of whole numbers, for
squares they are products of counts, and any other rule is asked for its objective.
Then cells move on to where they cost least (:mod:`settling`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from gpu_consensus.backends.host_loops import fastest
from gpu_consensus.backends.log2 import x_log2_x
from gpu_consensus.backends.protocol import Counts
from gpu_consensus.backends.segments import Segments
from gpu_consensus.loop.rule import Rule
from gpu_consensus.loop.settling import (
    SWEEPS,
    add_cells,
    numpy_settle_cells,
    settle_any,
)
from gpu_consensus.util.checks import FloatArray, IntArray

_BITS = 52  # of x log2 x in whole numbers: float64 holds it
_EXACT_BITS = 26
_FIRST = 2  # cells per cluster that are merged, the largest; the others join them
_PAIRS = 1 << 22  # counts of pairs that are in memory together

Costs = Callable[[int, IntArray], FloatArray]
"""From a cell and others to what merging it with each of them costs."""


class Merged(NamedTuple):
    """Clusters that cells were merged to.

    ``cluster_of`` (M,) is the cluster of each cell, 0 .. K - 1; ``counts`` (S, K) are
    those of the clusters.
    """

    cluster_of: IntArray
    counts: Counts


def merge_cells(
    rule: Rule, counts: Counts, absent: Counts | None, n_clusters: int
) -> Merged:
    """Merge cells to clusters, and settle them.

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
    merging, n_cells = rule.merging, counts.shape[1]
    if n_cells <= n_clusters:
        return Merged(np.arange(n_cells), counts)
    first = min(n_cells, _FIRST * n_clusters)
    name = np.full(n_cells, -1)
    if merging is None:
        gone = None if absent is None else absent[:, :first]
        name[:first] = _merge_any(rule, counts[:, :first], gone, n_clusters)
        name = settle_any(rule, counts, absent, name, n_clusters)
        return Merged(name, add_cells(counts, name, n_clusters))
    whole = np.empty(0, dtype=np.int64)
    below = np.zeros((len(merging.weights), counts.shape[1]), dtype=np.int64)
    if merging.kind == "entropy":
        members = int(counts[: merging.segments.offsets[1]].sum())
        whole = _whole_to((2 * members).bit_length())
    elif merging.kind == "square":
        below = merging.below(counts, absent)
    merge = fastest("merge_cells", numpy_merge_cells)
    settle = fastest("settle_cells", numpy_settle_cells)
    offsets, weights = merging.segments.offsets, merging.weights
    kind, some, under = merging.kind, counts[:, :first], below[:, :first]
    name[:first] = merge(kind, some, offsets, weights, whole, under, n_clusters)
    return Merged(
        *settle(kind, counts, offsets, weights, whole, below, name, n_clusters, SWEEPS)
    )


def numpy_merge_cells(
    kind: str,
    counts: Counts,
    offsets: IntArray,
    weights: FloatArray,
    whole: IntArray,
    below: IntArray,
    n_clusters: int,
) -> IntArray:
    """Return the cluster of each cell, (M,), 0 .. K - 1 by their lowest cells.

    Parameters
    ----------
    kind : {"entropy", "square", "root"}
    counts : ndarray of shape (S, M)
    offsets : ndarray of shape (r + 1,)
    weights : ndarray of shape (r,)
    whole : ndarray
        As :func:`whole_x_log2_x` gives it, for entropies.
    below : ndarray of shape (r, M)
        For squares.
    n_clusters : int
        At most M.
    """
    if kind == "entropy":
        return _merge_entropies(counts, offsets, weights, whole, n_clusters)
    return _merge_squares(kind, counts, offsets, weights, below, n_clusters)


def whole_x_log2_x(most: int) -> IntArray:
    """Return x log2 x in whole numbers, for every x up to so many.

    They are multiples of a power of two, as small as float64 can hold the largest.
    """
    exact = x_log2_x(np.arange(most + 1))
    bits = _BITS - int(exact[-1] + 1).bit_length()
    return np.rint(np.ldexp(exact, bits)).astype(np.int64)


@lru_cache(maxsize=2)
def _whole_to(bits: int) -> IntArray:
    """Return the same for every x of so many bits; the children of a fit share it."""
    return whole_x_log2_x((1 << bits) - 1)


def _merge_entropies(
    counts: Counts,
    offsets: IntArray,
    weights: FloatArray,
    whole: IntArray,
    n_clusters: int,
) -> IntArray:
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
    kind: str,
    counts: Counts,
    offsets: IntArray,
    weights: FloatArray,
    below: IntArray,
    n_clusters: int,
) -> IntArray:
    """Merge by the sums A of squared counts: A / below, or the root of A."""
    segments, n_cells = Segments(offsets), counts.shape[1]
    n = segments.present(counts)
    # of so few members float64 holds all sums of products, in whatever order added
    fits = int(segments.sum(n).sum(axis=1).max(initial=0)) <= 1 << _EXACT_BITS
    n = n.astype(np.float64) if fits else n
    products = np.empty((len(weights), n_cells, n_cells), dtype=np.int64)
    for i, begin in enumerate(segments.starts):
        part = n[begin : segments.missing[i]]
        products[i] = part.T @ part
    square = np.ascontiguousarray(np.diagonal(products, axis1=1, axis2=2))
    under = below.astype(np.float64)

    def total(whole: IntArray, z: FloatArray) -> FloatArray:
        a = whole.astype(np.float64)
        if kind == "root":
            return np.sqrt(a)
        return np.asarray(np.divide(a, z, out=np.zeros_like(a), where=z > 0))

    def costs(a: int, others: IntArray) -> FloatArray:
        both = square[:, a, None] + square[:, others] + 2 * products[:, a, others]
        apart = total(square[:, a, None], under[:, a, None]) + total(
            square[:, others], under[:, others]
        )
        growth = apart - total(both, under[:, a, None] + under[:, others])
        return np.asarray(np.cumsum(weights[:, None] * growth, axis=0)[-1])

    def join(x: int, y: int) -> None:
        square[:, x] += square[:, y] + 2 * products[:, x, y]
        products[:, x, :] += products[:, y, :]
        products[:, :, x] += products[:, :, y]
        under[:, x] += under[:, y]

    return _merge(counts.shape[1], n_clusters, costs, join)


def _merge_any(
    rule: Rule, counts: Counts, absent: Counts | None, n_clusters: int
) -> IntArray:
    """Merge by the objective of any rule.

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
    return np.asarray(np.unique(name, return_inverse=True)[1].ravel())
