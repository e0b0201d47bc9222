"""Pinch ratio clustering (PRC): a graph cut where its TILO order is thin."""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.feedback.tilo import check_order, exact_weights, lower_width, width
from gpu_consensus.util.checks import (
    FloatArray,
    IntArray,
    check_count,
    check_n_clusters,
    seed_sequence,
)


class PinchClusters(NamedTuple):
    """The result of PRC.

    Attributes
    ----------
    labels : ndarray of shape (n,), int32
        Consecutive from 0, in the order of each cluster's first vertex.
    ratios : ndarray of shape (n_clusters - 1,)
        Pinch ratio of each cut, in the order of the cuts.
    order : ndarray of shape (n,), int64
        The vertices from first to last; every cluster is a run of them.
    boundary : ndarray of shape (n,)
        b_i of this order. With ``recursive``, that of the first order.
    """

    labels: npt.NDArray[np.int32]
    ratios: FloatArray
    order: IntArray
    boundary: FloatArray


class _Piece(NamedTuple):
    """A run of an order and its best cut; smaller comes first in the queue."""

    ratio: float
    minus_depth: float
    first: int  # where the run begins among all vertices; breaks ties
    cut: int  # how many vertices come before the cut, 0 if there is none
    vertices: IntArray
    boundary: IntArray


def prc(
    graph: Any,
    n_clusters: int,
    *,
    n_init: int = 1,
    order: Any = None,
    recursive: bool = False,
    random_state: Any = None,
) -> PinchClusters:
    """Cut a graph into clusters at the pinches of its TILO order.

    The pinch ratio of a local minimum b_k of the boundary is b_k divided by the
    smaller of the largest boundaries on its two sides. The piece with the smallest
    ratio is cut next, until there are ``n_clusters`` pieces; of equal ratios, the
    deeper pinch.

    Parameters
    ----------
    graph : array_like of shape (n, n)
        Symmetric weights >= 0, as for :func:`~gpu_consensus.feedback.tilo.tilo`.
    n_clusters : int
        Clusters to find. Fewer come out where the order has fewer pinches.
    n_init : int, default 1
        Random orders to begin with; the order of smallest width is cut.
    order : array_like of shape (n,), optional
        The order to begin with, instead of random ones.
    recursive : bool, default False
        Order the vertices of each piece anew, in front of all others, before it is cut
        again; by default the first order serves for all cuts.
    random_state : int, Generator, RandomState, SeedSequence, optional
        Seed of the orders.

    Returns
    -------
    PinchClusters

    References
    ----------
    D. R. Heisterkamp, J. Johnson, "Pinch ratio clustering from a topologically
    intrinsic lexicographic ordering", SIAM International Conference on Data Mining,
    2013.

    Examples
    --------
    >>> import numpy as np
    >>> graph = np.zeros((6, 6))
    >>> for a, b in [(0, 2), (0, 4), (2, 4), (1, 3), (1, 5), (3, 5), (2, 3)]:
    ...     graph[a, b] = graph[b, a] = 1
    >>> result = prc(graph, 2, random_state=0)
    >>> result.labels.tolist(), result.ratios.tolist()
    ([0, 1, 0, 1, 0, 1], [0.5])
    """
    weights, unit = exact_weights(graph)
    n_clusters = check_n_clusters(n_clusters, len(weights))
    n_init = check_count("n_init", n_init, 1)
    if order is None:
        rng = np.random.default_rng(seed_sequence(random_state))
        starts = [rng.permutation(len(weights)) for _ in range(n_init)]
    else:
        starts = [check_order(order, len(weights))]
    orders = []
    for start in starts:
        begin = start.astype(np.int64)
        orders.append((begin, lower_width(weights, begin, len(begin))[0]))
    vertices, boundary = min(orders, key=lambda pair: width(pair[1]))
    queue = [_piece(vertices, boundary, 0)]
    ratios = []
    while len(queue) < n_clusters and queue[0].cut:
        piece = heapq.heappop(queue)
        ratios.append(piece.ratio)
        for part in (slice(piece.cut), slice(piece.cut, None)):
            inner, thickness = piece.vertices[part], piece.boundary[part]
            if recursive:
                inner, thickness = _order_anew(weights, inner)
            first = piece.first + (part.start or 0)
            heapq.heappush(queue, _piece(inner, thickness, first))
    pieces = sorted(queue, key=lambda piece: piece.first)
    labels = np.empty(len(weights), dtype=np.int32)
    by_vertex = sorted(pieces, key=lambda piece: int(piece.vertices.min()))
    for k, piece in enumerate(by_vertex):
        labels[piece.vertices] = k
    return PinchClusters(
        labels,
        np.array(ratios),
        np.concatenate([piece.vertices for piece in pieces]),
        np.asarray(boundary * unit),
    )


def _order_anew(weights: IntArray, vertices: IntArray) -> tuple[IntArray, IntArray]:
    """Order some vertices, put in front of all others, by the whole graph."""
    others = np.setdiff1d(np.arange(len(weights)), vertices, assume_unique=True)
    order = np.concatenate([vertices, others])
    boundary, _ = lower_width(weights, order, len(vertices))
    return order[: len(vertices)], boundary


def _piece(vertices: IntArray, boundary: IntArray, first: int) -> _Piece:
    """Find the best pinch strictly inside a run: smallest ratio, then deepest."""
    best = _Piece(np.inf, 0.0, first, 0, vertices, boundary)
    if len(boundary) < 3:
        return best
    begins = np.flatnonzero(np.append(True, boundary[1:] != boundary[:-1]))
    level = boundary[begins]
    inner = np.arange(1, len(level) - 1)
    minima = inner[
        (level[inner - 1] > level[inner]) & (level[inner] < level[inner + 1])
    ]
    if not minima.size:
        return best
    highest_left = np.maximum.accumulate(level)
    highest_right = np.maximum.accumulate(level[::-1])[::-1]
    thick = np.minimum(highest_left[minima], highest_right[minima + 1])
    ratio = level[minima] / thick
    depth = thick - level[minima]
    pick = np.lexsort((-depth, ratio))[0]
    return best._replace(
        ratio=float(ratio[pick]),
        minus_depth=-float(depth[pick]),
        cut=int(begins[minima[pick]]) + 1,
    )
