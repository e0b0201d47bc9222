"""A partitioner of scipy and scikit-learn parts, that needs nothing more."""

from __future__ import annotations

import numpy as np

from gpu_consensus.checks import FloatArray
from gpu_consensus.kmeans import duplicates_allowed
from gpu_consensus.partitioners.graphs import Graph, Parts
from gpu_consensus.partitioners.moves import Moves
from gpu_consensus.threads import one_thread

_STARTS = 10


def spectral(
    graph: Graph, weights: FloatArray, n_parts: int, cap: float | None, seed: int
) -> Parts:
    """Cut a graph by k-means on its leading eigenvectors.

    Ng, Jordan and Weiss, On spectral clustering, NIPS 2001. Under a bound, vertices are
    then moved out of parts that are too heavy, those first whose move cuts least, and
    the cut is lowered by single moves and swaps within the bound.

    Parameters
    ----------
    graph : Graph
    weights : ndarray of shape (m,)
        Load of each vertex.
    n_parts : int
        At most as many as objects.
    cap : float or None
        Largest load of a part; None for no bound.
    seed : int

    Returns
    -------
    parts : ndarray of shape (m,)
        Each part holds an object.
    """
    rng = np.random.default_rng(seed)
    points = graph.embedding(n_parts, rng)
    moves = Moves(graph, weights, _kmeans(points, graph.copies, n_parts, seed), n_parts)
    moves.fill()
    if cap is not None:
        moves.relieve(cap)
        moves.refine(cap)
    return moves.parts


def _kmeans(points: FloatArray, copies: FloatArray, n_parts: int, seed: int) -> Parts:
    from sklearn.cluster import KMeans

    model = KMeans(n_parts, n_init=_STARTS, random_state=seed)
    with one_thread(), duplicates_allowed():
        return np.asarray(model.fit(points, sample_weight=copies).labels_, np.intp)
