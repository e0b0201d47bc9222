"""k-means on the CPU: one loop for Euclidean and cosine (spherical), dense and sparse.

A basic partition needs to be good and different from the others, not at the end of its
descent, so options make the loop learn from a sample of the rows and stop early.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.generate import rows as rows_module
from gpu_consensus.generate.rows import METRICS, Floats, Labels, Rows, assign
from gpu_consensus.util.checks import check_choice, check_int, check_n_clusters
from gpu_consensus.util.threads import one_thread

INITS = ("k-means++", "random")
FEW_ROWS = 1000  # a sample is never smaller, however few the clusters
SEED_ROWS = 20  # per cluster: enough to draw first centroids from when sampling


def kmeans(
    X: Any,
    n_clusters: int,
    seed: int,
    *,
    metric: str = "euclidean",
    max_iter: int = 100,
    init: str = "k-means++",
    rows_per_cluster: int | None = None,
) -> tuple[Labels, Floats]:
    """Cluster the rows of ``X`` by one run of k-means.

    Parameters
    ----------
    X : ndarray or scipy CSR of shape (n_samples, n_features)
        Finite numbers; CSR input is never made dense. float32 is computed in float32.
    n_clusters : int
        How many clusters to look for, at most ``n_samples``.
    seed : int
        Same seed, same result, whatever the number of threads.
    metric : {"euclidean", "cosine"}, default "euclidean"
        "cosine" is spherical k-means: rows count by their direction only, and
        centroids are scaled to unit length at every iteration. A zero row has no
        direction: it is equally similar to every centroid, so it goes to cluster 0,
        and it moves no centroid.
    max_iter : int, default 100
        Iterations at most.
    init : {"k-means++", "random"}, default "k-means++"
        First centroids: rows drawn far from one another, or any rows.
    rows_per_cluster : int, optional
        Learn the centroids from this many rows per cluster, at least 1,000 in all,
        drawn at random, then label every row by the nearest. By default all rows.

    Returns
    -------
    labels : ndarray of shape (n_samples,), int32
        Consecutive from 0: that of the nearest centroid, ties to the lowest.
    centroids : ndarray of shape (n_found, n_features)
        One per label; of unit length for "cosine". ``n_found`` is below
        ``n_clusters`` where ``X`` has too few rows (directions) that are distinct to
        the precision of its type, or if ``max_iter`` ends while a cluster is empty.

    References
    ----------
    Arthur and Vassilvitskii, k-means++: the advantages of careful seeding, SODA 2007;
    with several candidates per draw, as their conclusion suggests.
    Dhillon and Modha, Concept decompositions for large sparse text data using
    clustering, Machine Learning 42, 2001 (cosine).

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [5.0, 0.1], [0.0, 2.0], [0.1, 9.0]])
    >>> labels, centroids = kmeans(X, 2, seed=0, metric="cosine")
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """
    n_clusters = check_n_clusters(n_clusters, X.shape[0])
    max_iter = check_int("max_iter", max_iter, 1)
    check_choice("metric", metric, METRICS)
    check_choice("init", init, INITS)
    if rows_per_cluster is not None:
        rows_per_cluster = check_int("rows_per_cluster", rows_per_cluster, 1)
    with one_thread():
        rows = rows_module.prepare(X, metric)
        rows_module.check_directions(X, rows)
        labels, centroids = cluster_rows(
            rows, n_clusters, seed, max_iter, rows_per_cluster, init
        )
    return labels, rows.centroids_out(centroids)


def cluster_rows(
    rows: Rows,
    n_clusters: int,
    seed: int,
    max_iter: int,
    rows_per_cluster: int | None,
    init: str = "k-means++",
) -> tuple[Labels, Floats]:
    """Cluster prepared rows as :func:`kmeans` does; centroids in their coordinates."""
    rng = np.random.default_rng(seed)
    n = rows.n_samples
    sampled, n_seeded = rows, n
    if rows_per_cluster is not None:
        n_sampled = max(FEW_ROWS, rows_per_cluster * n_clusters)
        n_seeded = max(FEW_ROWS, SEED_ROWS * n_clusters)
        if n_sampled < n:
            sampled = rows.take(_draw_sample(n, n_sampled, rng))
    first = _first_rows(sampled, n_clusters, n_seeded, init, rng)
    if len(first) < n_clusters and sampled is not rows:
        # the sample has too few distinct rows, all of them may have enough
        sampled = rows
        first = _first_rows(rows, n_clusters, n, init, rng)
    if first.size == 0:
        zero = np.zeros((1, rows.coordinates.shape[1]), dtype=rows.half.dtype)
        return np.zeros(n, dtype=np.int32), zero
    labels, centroids = _lloyd(sampled, sampled.dense(first), max_iter)
    if sampled is not rows:
        labels = assign(rows, centroids)
    used = np.bincount(labels, minlength=len(centroids)) > 0
    if not used.all():
        labels = (np.cumsum(used, dtype=np.int32) - 1)[labels]
        centroids = centroids[used]
    return labels, centroids


def nearest(X: Any, centroids: npt.NDArray[Any], metric: str = "euclidean") -> Labels:
    """Label each row of ``X`` by its nearest centroid; ties go to the lowest.

    Parameters
    ----------
    X : ndarray or scipy CSR of shape (n_samples, n_features)
        The rows to label.
    centroids : ndarray of shape (n_clusters, n_features)
        As :func:`kmeans` returns them; of unit length for "cosine".
    metric : {"euclidean", "cosine"}, default "euclidean"
        What near means.

    Returns
    -------
    labels : ndarray of shape (n_samples,), int32

    Examples
    --------
    >>> import numpy as np
    >>> nearest(np.array([[1.0], [8.0]]), np.array([[0.0], [9.0]])).tolist()
    [0, 1]
    """
    check_choice("metric", metric, METRICS)
    with one_thread():
        rows = rows_module.prepare(X, metric)
        return assign(rows, rows.centroids_in(centroids))


def centroids_of(
    X: Any, codes: npt.NDArray[Any], n_clusters: int, metric: str = "euclidean"
) -> Floats:
    """Return the centroid of each cluster, as :func:`nearest` needs them.

    Parameters
    ----------
    X : ndarray or scipy CSR of shape (n_samples, n_features)
        The rows.
    codes : ndarray of shape (n_samples,)
        Cluster of each row; ``n_clusters`` means none.
    n_clusters : int
        Number of clusters, each with at least one row.
    metric : {"euclidean", "cosine"}, default "euclidean"
        Means, or mean directions of unit length.

    Examples
    --------
    >>> import numpy as np
    >>> centroids_of(np.array([[1.0], [3.0], [7.0]]), np.array([0, 0, 1]), 2).tolist()
    [[2.0], [7.0]]
    """
    check_choice("metric", metric, METRICS)
    rows = rows_module.prepare(X, metric)
    shape = (n_clusters, rows.coordinates.shape[1])
    zeros = np.zeros(shape, dtype=rows.half.dtype)
    return rows.centroids_out(rows_module.means(rows, codes, zeros))


def _lloyd(rows: Rows, centroids: Floats, max_iter: int) -> tuple[Labels, Floats]:
    """Move centroids until no label changes, ``max_iter`` times at most."""
    labels = np.full(rows.n_samples, -1, dtype=np.int32)
    can_move = rows.has_direction()
    for _ in range(max_iter):
        new_labels = assign(rows, centroids)
        if np.array_equal(new_labels, labels):
            return labels, centroids
        labels = new_labels
        _fill_empty(rows, labels, centroids, can_move)
        centroids = rows_module.means(rows, labels, centroids)
    return assign(rows, centroids), centroids


def _draw_sample(
    n: int, n_sampled: int, rng: np.random.Generator
) -> npt.NDArray[np.intp]:
    return np.sort(rng.choice(n, n_sampled, replace=False, shuffle=False))


def _first_rows(
    rows: Rows, n_clusters: int, n_seeded: int, init: str, rng: np.random.Generator
) -> npt.NDArray[np.intp]:
    """Draw rows to begin with from ``n_seeded`` of them, or from all if too few."""
    if n_seeded < rows.n_samples:
        sample = _draw_sample(rows.n_samples, n_seeded, rng)
        drawn = _draw_rows(rows.take(sample), n_clusters, init, rng)
        if len(drawn) == n_clusters:
            return np.asarray(sample[drawn])
    return _draw_rows(rows, n_clusters, init, rng)


def _draw_rows(
    rows: Rows, n_clusters: int, init: str, rng: np.random.Generator
) -> npt.NDArray[np.intp]:
    """Draw distinct rows (directions), fewer if there are not as many.

    "k-means++" draws in proportion to the squared distance from the nearest row drawn
    so far, a few candidates at a time, and keeps the one that brings all rows nearest.
    The weights are whole multiples of 2^-30 of the largest, so that sums of them are
    exact and a draw is one integer.
    """
    careful = init == "k-means++"
    chosen: list[int] = []
    apart = np.where(rows.has_direction(), rows.half.dtype.type(np.inf), 0)
    weights, n_candidates = apart > 0, 1
    while len(chosen) < n_clusters:
        ends = weights.cumsum(dtype=np.int64)
        if ends[-1] == 0:
            break
        drawn = rng.integers(ends[-1], size=n_candidates)
        candidates = ends.searchsorted(drawn, side="right")
        left = np.minimum(apart, rows.distances(candidates))
        best = int(left.sum(axis=1).argmin())
        chosen.append(int(candidates[best]))
        apart = left[best]
        weights = apart > 0
        if careful and weights.any():
            # rounded up, so that no distinct row is out of reach
            weights = np.ceil(apart / apart.max() * 2.0**30).astype(np.int64)
            n_candidates = 2 + int(np.log(n_clusters))
    return np.asarray(chosen, dtype=np.intp)


def _fill_empty(
    rows: Rows,
    labels: Labels,
    centroids: Floats,
    can_move: npt.NDArray[np.bool_],
) -> None:
    """Give each empty cluster the worst-fitting row of a cluster that can spare it."""
    counts = np.bincount(labels[can_move], minlength=len(centroids))
    empty = np.flatnonzero(counts == 0).tolist()
    if not empty:
        return
    apart = np.where(can_move, rows.misfits(labels, centroids), 0)
    for row in np.argsort(-apart, kind="stable"):
        if not empty or apart[row] == 0:
            return
        if counts[labels[row]] > 1:
            counts[labels[row]] -= 1
            labels[row] = empty.pop(0)
            counts[labels[row]] += 1
