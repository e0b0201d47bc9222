"""A partitioner of scipy and scikit-learn parts, that needs nothing more."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from gpu_consensus.graphs.kinds import Graph, Parts
from gpu_consensus.graphs.moves import Moves
from gpu_consensus.util.checks import FloatArray
from gpu_consensus.util.threads import SharedSetting, one_thread

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
    return np.asarray(fit_kmeans(points, copies, n_parts, seed).labels_, np.intp)


def fit_kmeans(points: FloatArray, copies: FloatArray, n_parts: int, seed: int) -> Any:
    """Return scikit-learn's k-means of points that count so many times, fitted."""
    from sklearn.cluster import KMeans

    model = KMeans(n_parts, n_init=_STARTS, random_state=seed)
    with one_thread(), _duplicates_allowed():
        return model.fit(points, sample_weight=copies)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence scikit-learn's warning that equal points made fewer clusters."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Number of distinct clusters")
        yield


_shared_quiet = SharedSetting(_quiet)


def _duplicates_allowed() -> AbstractContextManager[None]:
    own_filters = getattr(sys.flags, "context_aware_warnings", False)  # Python 3.14
    return _quiet() if own_filters else _shared_quiet
