"""k-means on the CPU: one loop for Euclidean and cosine (spherical), dense and sparse.

A basic partition needs to be good and different from the others, not at the end of its
descent, so options make the loop learn from a sample of the rows and stop early.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.generate import rows as rows_module
from gpu_consensus.generate.lloyd import Descent, descend, draw_first, inertia
from gpu_consensus.generate.rows import METRICS, Floats, Labels, Rows, assign
from gpu_consensus.util.checks import check_choice, check_int, check_n_clusters

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
    n_init: int = 1,
    n_threads: int = 1,
) -> tuple[Labels, Floats]:
    """Cluster the rows of ``X`` by k-means, the best of ``n_init`` starts.

    Parameters
    ----------
    X : ndarray or scipy CSR of shape (n_samples, n_features)
        Finite numbers; CSR input is never made dense. float32 is computed in float32.
    n_clusters : int
        How many clusters to look for, at most ``n_samples``.
    seed : int
        Same seed, same result, whatever the number of threads; for dense rows also
        whatever the machine.
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
    n_init : int, default 1
        Starts, each with first centroids of its own. The one whose rows lie nearest to
        their centroids (least sum of squared distances) counts, of equal ones the
        first. Start 0 is the run with ``n_init=1``.
    n_threads : int, default 1
        Threads of the compiled loops, over starts and over rows to label.

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
    n_init = check_int("n_init", n_init, 1)
    n_threads = check_int("n_threads", n_threads, 1)
    rows = rows_module.prepare(X, metric)
    rows_module.check_directions(X, rows)
    seeds = start_seeds(seed, n_init)
    labels, centroids = cluster_rows(
        rows, n_clusters, seeds, max_iter, rows_per_cluster, init, n_threads
    )
    return labels, rows.centroids_out(centroids)


def start_seeds(seed: int, n_init: int) -> list[int]:
    """Return the seed of each start: ``seed``, then others that it leads to.

    Examples
    --------
    >>> start_seeds(7, 1)
    [7]
    >>> start_seeds(7, 3) == start_seeds(7, 4)[:3]
    True
    """
    more = np.random.SeedSequence(seed).generate_state(n_init - 1, dtype=np.uint64)
    return [seed, *more.tolist()]


def cluster_rows(
    rows: Rows,
    n_clusters: int,
    seeds: list[int],
    max_iter: int,
    rows_per_cluster: int | None,
    init: str = "k-means++",
    n_threads: int = 1,
) -> tuple[Labels, Floats]:
    """Cluster prepared rows as :func:`kmeans` does; centroids in their coordinates."""
    return best_start(
        rows, n_clusters, seeds, max_iter, rows_per_cluster, init, n_threads
    )[:2]


def best_start(
    rows: Rows,
    n_clusters: int,
    seeds: list[int],
    max_iter: int,
    rows_per_cluster: int | None = None,
    init: str = "k-means++",
    n_threads: int = 1,
) -> Descent:
    """Return what :func:`cluster_rows` does, and how near rows are to their centroids.

    That is half the sum of squared distances; 0 for a single start from a sample.
    """
    if _learns_from_all(rows.n_samples, n_clusters, rows_per_cluster):
        rows = rows.whole()
        starts = _learn_from_all(rows, n_clusters, seeds, max_iter, init, n_threads)
    else:
        assert rows_per_cluster is not None
        sizes = (n_clusters, max_iter, rows_per_cluster)
        compared = len(seeds) > 1
        starts = [
            _learn_from_sample(rows, *sizes, seed, init, n_threads, compared)
            for seed in seeds
        ]
    labels, centroids, cost = min(starts, key=lambda start: start[2])  # ties: the first
    used = np.bincount(labels, minlength=len(centroids)) > 0
    if not used.all():
        labels = (np.cumsum(used, dtype=np.int32) - 1)[labels]
        centroids = centroids[used]
    return labels, centroids, cost


def _sizes(n_clusters: int, rows_per_cluster: int) -> tuple[int, int]:
    """Return how many rows to learn from, and how many of them to draw first."""
    n_sampled = max(FEW_ROWS, rows_per_cluster * n_clusters)
    return n_sampled, max(FEW_ROWS, SEED_ROWS * n_clusters)


def _learns_from_all(n: int, n_clusters: int, rows_per_cluster: int | None) -> bool:
    return rows_per_cluster is None or n <= min(_sizes(n_clusters, rows_per_cluster))


def _learn_from_all(
    rows: Rows,
    n_clusters: int,
    seeds: list[int],
    max_iter: int,
    init: str,
    n_threads: int,
) -> list[Descent]:
    """Run all starts on all rows, in one call."""
    careful = init == "k-means++"
    numbers = [
        _numbers(n_clusters, careful, np.random.default_rng(seed)) for seed in seeds
    ]
    chosen = draw_first(rows, np.array(numbers), careful, n_threads)
    if any(first.size == 0 for first in chosen):  # no row has a direction
        return [_one_cluster(rows)]
    return descend(rows, [rows.dense(first) for first in chosen], max_iter, n_threads)


def _learn_from_sample(
    rows: Rows,
    n_clusters: int,
    max_iter: int,
    rows_per_cluster: int,
    seed: int,
    init: str,
    n_threads: int,
    compared: bool,
) -> Descent:
    """Learn from a sample and label all rows; measured only if to be ``compared``."""
    rng = np.random.default_rng(seed)
    n_sampled, n_seeded = _sizes(n_clusters, rows_per_cluster)
    n, sampled = rows.n_samples, rows
    if n_sampled < n:
        sampled = rows.take(_draw_sample(n, n_sampled, rng))
    else:
        sampled = rows = rows.whole()
    first = _first_rows(sampled, n_clusters, n_seeded, init, rng)
    if len(first) < n_clusters and sampled is not rows:
        # the sample has too few distinct rows, all of them may have enough
        sampled = rows = rows.whole()
        first = _first_rows(rows, n_clusters, n, init, rng)
    if first.size == 0:
        return _one_cluster(rows)
    labels, centroids, cost = descend(sampled, [sampled.dense(first)], max_iter)[0]
    if sampled is not rows:
        labels = assign(rows, centroids, n_threads)
        cost = inertia(rows, labels, centroids) if compared else 0.0
    return labels, centroids, cost


def _one_cluster(rows: Rows) -> Descent:
    zero = np.zeros((1, rows.X.shape[1]), dtype=rows.half.dtype)
    return np.zeros(rows.n_samples, dtype=np.int32), zero, 0.0


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
    shape = (n_clusters, rows.X.shape[1])
    zeros = np.zeros(shape, dtype=rows.half.dtype)
    return rows.centroids_out(rows_module.means(rows, codes, zeros))


def _draw_sample(
    n: int, n_sampled: int, rng: np.random.Generator
) -> npt.NDArray[np.intp]:
    return np.sort(rng.choice(n, n_sampled, replace=False, shuffle=False))


def _first_rows(
    rows: Rows, n_clusters: int, n_seeded: int, init: str, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Draw rows to begin with from ``n_seeded`` of them, or from all if too few."""
    careful = init == "k-means++"
    if n_seeded < rows.n_samples:
        sample = _draw_sample(rows.n_samples, n_seeded, rng)
        numbers = _numbers(n_clusters, careful, rng)
        drawn = draw_first(rows.take(sample), numbers[None], careful)[0]
        if len(drawn) == n_clusters:
            return np.asarray(sample[drawn])
    return draw_first(rows, _numbers(n_clusters, careful, rng)[None], careful)[0]


def _numbers(
    n_clusters: int, careful: bool, rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    """Return what :func:`draw_first` draws one start by."""
    n_candidates = 2 + int(np.log(n_clusters)) if careful else 1
    return rng.random((n_clusters, n_candidates))
