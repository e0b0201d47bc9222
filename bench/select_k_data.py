"""Data with a known number of clusters, for ``bench select-k``.

Every maker takes a generator and returns features of ``N`` rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import gpu_consensus as gpc

N = 400
DIMENSIONS = (2, 5, 20)
LAYOUTS = ("near", "spread")
"""Every centre S from its nearest one; or only the two nearest, the rest anywhere."""

Features = npt.NDArray[np.float64]
Maker = Callable[[np.random.Generator, int], Features]


def round_gaussian(rng: np.random.Generator, d: int) -> Features:
    """Draw one round Gaussian."""
    return rng.normal(size=(N, d))


def elongated_gaussian(rng: np.random.Generator, d: int) -> Features:
    """Draw one Gaussian, 20 times as long as wide."""
    return rng.normal(size=(N, d)) * np.linspace(20, 1, d)


def correlated_gaussian(rng: np.random.Generator, d: int) -> Features:
    """Draw one Gaussian whose columns are mixed."""
    return rng.normal(size=(N, d)) @ rng.normal(size=(d, d))


def heavy_tails(rng: np.random.Generator, d: int) -> Features:
    """Draw columns of Student's t with three degrees of freedom."""
    return rng.standard_t(3, size=(N, d))


def log_normal(rng: np.random.Generator, d: int) -> Features:
    """Draw skewed columns."""
    return np.exp(rng.normal(size=(N, d)))


def cube(rng: np.random.Generator, d: int) -> Features:
    """Draw from a cube."""
    return rng.random((N, d))


def segment(rng: np.random.Generator, d: int) -> Features:
    """Draw from a segment in space, with some noise."""
    return _flat(rng, d, 1)


def turned_square(rng: np.random.Generator, d: int) -> Features:
    """Draw from a square in space, with some noise."""
    return _flat(rng, d, 2)


def square(rng: np.random.Generator, d: int) -> Features:
    """Draw from a square in the first two columns, with some noise."""
    X = 0.02 * rng.normal(size=(N, d))
    X[:, :2] += rng.random((N, 2))
    return X


def _flat(rng: np.random.Generator, d: int, n_axes: int) -> Features:
    axes, _ = np.linalg.qr(rng.normal(size=(d, d)))
    flat = rng.random((N, n_axes)) @ axes[:n_axes]
    return np.asarray(flat + 0.02 * rng.normal(size=(N, d)))


ONE_MODE: dict[str, Maker] = {
    "round Gaussian": round_gaussian,
    "20:1 elongated Gaussian": elongated_gaussian,
    "correlated Gaussian": correlated_gaussian,
    "t(3) tails": heavy_tails,
    "log-normal columns": log_normal,
}
UNIFORM: dict[str, Maker] = {
    "uniform cube": cube,
    "uniform segment": segment,
    "uniform square, turned": turned_square,
    "uniform square": square,
}


def centres(
    rng: np.random.Generator, k: int, d: int, apart: float, layout: str
) -> Features:
    """Place k centres, the nearest two ``apart``."""
    if layout == "spread":
        placed = rng.normal(size=(k, d))
        gaps = np.linalg.norm(placed[:, None] - placed, axis=2)
        return np.asarray(placed * (apart / gaps[~np.eye(k, dtype=bool)].min()))
    found = [np.zeros(d)]
    while len(found) < k:
        step = rng.normal(size=d)
        near = found[int(rng.integers(len(found)))]
        new = near + step * (apart / np.linalg.norm(step))
        if np.linalg.norm(np.array(found) - new, axis=1).min() > apart * (1 - 1e-9):
            found.append(new)
    return np.array(found)


def blobs(
    rng: np.random.Generator,
    k: int,
    d: int,
    apart: float,
    layout: str,
    ratio: float = 1.0,
    n: int = N,
) -> tuple[Features, npt.NDArray[np.int64]]:
    """Draw Gaussian clusters of unit deviation, the largest ``ratio`` the smallest."""
    share = ratio ** -np.linspace(0, 1, k)
    sizes = np.round(n * share / share.sum()).astype(int)
    sizes[0] += n - sizes.sum()
    y = np.repeat(np.arange(k), sizes)
    X = centres(rng, k, d, apart, layout)[y] + rng.normal(size=(n, d))
    return X, y


def louvain(
    X: Features, n_partitions: int, rng: np.random.Generator
) -> npt.NDArray[Any]:
    """Cut the graph of 15 nearest neighbours at resolutions from 0.2 to 2."""
    import networkx as nx
    from sklearn.neighbors import kneighbors_graph

    graph = nx.from_scipy_sparse_array(kneighbors_graph(X, 15))
    labels = np.empty((len(X), n_partitions), dtype=np.int64)
    for i, resolution in enumerate(np.geomspace(0.2, 2, n_partitions)):
        groups = nx.community.louvain_communities(
            graph, resolution=float(resolution), seed=int(rng.integers(2**31))
        )
        for label, group in enumerate(groups):
            labels[list(group), i] = label
    return labels


def ensemble(kind: str, X: Features, k: int, rng: np.random.Generator) -> gpc.Ensemble:
    """Make an ensemble of one of the kinds in ``ENSEMBLES``."""
    seed = int(rng.integers(2**31))
    r = ENSEMBLES[kind]
    if kind == "Louvain resolutions":
        return gpc.Ensemble(louvain(X, r, rng))
    ranges = {"K": (k, k), "K + 3": (k + 3, k + 3), "2 to 15": (2, 15)}
    return gpc.generate_partitions(X, r, k_range=ranges[kind], random_state=seed)


ENSEMBLES = {"K": 40, "K + 3": 40, "2 to 15": 40, "Louvain resolutions": 20}
"""Labels of the partitions, and how many partitions."""
