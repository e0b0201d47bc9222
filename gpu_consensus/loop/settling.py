"""Merged cells that would do better elsewhere: move each to its best cluster.

Merges are greedy: what was joined first is never parted again. Here every cell is
offered every cluster at the exact price, one after another from the first (the largest)
on, and moves where the objective falls most; those without a cluster come first. A
cluster keeps its last cell. Cells are groups of objects that clusterings agree on, so
whole groups move that would not move object by object.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpu_consensus.backends.protocol import Counts
from gpu_consensus.backends.segments import Segments
from gpu_consensus.loop.rule import Rule
from gpu_consensus.util.checks import FloatArray, IntArray

SWEEPS = 3
"""Rounds at most; it ends before when no cell moves."""
_ROUNDING = 1e-12  # of an objective: what differs by less is equal

Gains = Callable[[int, int], FloatArray]
"""From a cell and its cluster (-1: none) to what the total of each cluster gains by the
cell, (K,), and its own by losing it."""
Move = Callable[[int, int, int], None]
"""Takes a cell from a cluster (-1: none) to another."""


def numpy_settle_cells(
    kind: str,
    counts: Counts,
    offsets: IntArray,
    weights: FloatArray,
    whole: IntArray,
    below: IntArray,
    cluster_of: IntArray,
    n_clusters: int,
    sweeps: int,
) -> tuple[IntArray, Counts]:
    """Return the cluster of each cell, (M,), and the counts of clusters, (S, K).

    Parameters
    ----------
    kind, counts, offsets, weights, whole, below
        As those of :func:`gpu_consensus.loop.merging.numpy_merge_cells`.
    cluster_of : ndarray of shape (M,)
        The cluster of each cell, to begin with, or -1; none is empty.
    n_clusters : int
    sweeps : int
    """
    segments = Segments(offsets)
    n = segments.present(counts)
    clusters = add_cells(n, cluster_of, n_clusters)
    power = 1 if kind == "entropy" else 2
    size, sizes = segments.sum(n**power), segments.sum(clusters**power)
    under = below.astype(np.float64)
    unders = add_cells(below, cluster_of, n_clusters).astype(np.float64)

    def by_partition(labels: IntArray, parts: IntArray) -> IntArray:
        sums = np.zeros((len(parts) + 1, parts.shape[1]), dtype=np.int64)
        np.cumsum(parts, axis=0, out=sums[1:])
        return np.asarray(np.diff(sums[np.searchsorted(labels, offsets)], axis=0))

    def total(square: IntArray, z: FloatArray) -> FloatArray:
        a = square.astype(np.float64)
        if kind == "root":
            return np.sqrt(a)
        return np.asarray(np.divide(a, z, out=np.zeros_like(a), where=z > 0))

    def gains(x: int, own: int) -> FloatArray:
        way = _ways(own, n_clusters)
        labels = np.flatnonzero(n[:, x])
        count, rows = n[labels, x, None], clusters[labels]
        if kind == "entropy":
            shared = by_partition(labels, whole[rows + way * count] - whole[rows])
            growth = shared - (whole[sizes + way * size[:, [x]]] - whole[sizes])
            parts = growth.astype(np.float64)
        else:
            shared = by_partition(labels, count * rows)
            square = sizes + 2 * way * shared + size[:, [x]]
            parts = total(square, unders + way * under[:, [x]]) - total(sizes, unders)
        # partitions in their order, one after another
        return np.asarray(np.cumsum(weights[:, None] * parts, axis=0)[-1])

    def move(x: int, a: int, b: int) -> None:
        for k, way in [(a, -1)] * (a >= 0) + [(b, 1)]:
            clusters[:, k] += way * n[:, x]
            unders[:, k] += way * under[:, x]
            sizes[:, [k]] = segments.sum(clusters[:, [k]] ** power)

    name = _settle(cluster_of, n_clusters, sweeps, gains, move)
    return name, add_cells(counts, name, n_clusters)


def settle_any(
    rule: Rule,
    counts: Counts,
    absent: Counts | None,
    cluster_of: IntArray,
    n_clusters: int,
) -> IntArray:
    """Settle by the objective of any rule, which is a constant less the totals."""
    n = add_cells(counts, cluster_of, n_clusters)
    gone = None if absent is None else add_cells(absent, cluster_of, n_clusters)

    def objective(clusters: Counts, without: Counts | None) -> FloatArray:
        missing = None if without is None else without[:, :, None]
        return rule.objective(clusters[:, :, None], missing)

    def gains(x: int, own: int) -> FloatArray:
        way = _ways(own, n_clusters)
        without = None
        if gone is not None and absent is not None:
            without = gone + way * absent[:, [x]]
        return objective(n, gone) - objective(n + way * counts[:, [x]], without)

    def move(x: int, a: int, b: int) -> None:
        for k, way in [(a, -1)] * (a >= 0) + [(b, 1)]:
            n[:, k] += way * counts[:, x]
            if gone is not None and absent is not None:
                gone[:, k] += way * absent[:, x]

    rounding = _ROUNDING * float(np.abs(objective(n, gone)).max())
    return _settle(cluster_of, n_clusters, SWEEPS, gains, move, rounding)


def _settle(
    cluster_of: IntArray,
    n_clusters: int,
    sweeps: int,
    gains: Gains,
    move: Move,
    least: float = 0.0,
) -> IntArray:
    """Move cells to where the totals gain most, and more than ``least``."""
    name = np.array(cluster_of)
    for x in np.flatnonzero(name < 0).tolist():
        name[x] = int(gains(x, -1).argmax())
        move(x, -1, int(name[x]))
    members = np.bincount(name, minlength=n_clusters)
    for _ in range(sweeps):
        moved = False
        for x, a in enumerate(name.tolist()):
            if members[a] < 2:
                continue
            gain = gains(x, a)
            rest = gain.copy()
            rest[a] = -np.inf
            b = int(rest.argmax())
            if gain[a] + gain[b] > least:
                move(x, a, b)
                name[x] = b
                members[a] -= 1
                members[b] += 1
                moved = True
        if not moved:
            break
    return name


def _ways(own: int, n_clusters: int) -> IntArray:
    """Return -1 for the own cluster, which loses, and 1 for the others."""
    return np.where(np.arange(n_clusters) == own, -1, 1)


def add_cells(counts: Counts, cluster_of: IntArray, n_clusters: int) -> Counts:
    """Add the counts (..., M) of cells up to those of their clusters, (..., K)."""
    total = np.zeros((*counts.shape[:-1], n_clusters), dtype=np.int64)
    for cell, k in enumerate(cluster_of.tolist()):
        if k >= 0:
            total[..., k] += counts[..., cell]
    return total
