"""k-means on the CPU: Euclidean by scikit-learn, cosine (spherical) by our own loop."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.checks import check_choice, check_int, check_n_clusters
from gpu_consensus.threads import SharedSetting, one_thread

METRICS = ("euclidean", "cosine")
INITS = ("k-means++", "random")
BLOCK_BYTES = 1 << 24  # of scores held at a time

Labels = npt.NDArray[np.int32]


def kmeans(
    X: Any,
    n_clusters: int,
    seed: int,
    *,
    metric: str = "euclidean",
    max_iter: int = 100,
    init: str = "k-means++",
) -> tuple[Labels, npt.NDArray[Any]]:
    """Cluster the rows of ``X`` by one run of k-means.

    Parameters
    ----------
    X : ndarray or scipy CSR of shape (n_samples, n_features)
        Finite numbers; CSR input is never made dense.
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

    Returns
    -------
    labels : ndarray of shape (n_samples,), int32
        Consecutive from 0.
    centroids : ndarray of shape (n_found, n_features)
        One per label; of unit length for "cosine". ``n_found`` is below
        ``n_clusters`` only where ``X`` has too few distinct rows (directions).

    References
    ----------
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
    find = _euclidean if metric == "euclidean" else _spherical
    labels, centroids = find(X, n_clusters, seed, max_iter, init)
    used, labels = np.unique(labels, return_inverse=True)
    if used.size < len(centroids):
        centroids = centroids[used]
    return labels.astype(np.int32), centroids


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
        if metric == "cosine":
            return _assign(X, centroids)[0]
        # argmin |x - c|^2 = argmax x.c - |c|^2 / 2, about an origin near the data,
        # so that a common offset does not eat the digits.
        origin = None if is_sparse(X) else centroids.mean(axis=0)
        shifted = centroids if origin is None else centroids - origin
        return _assign(X, shifted, origin, (shifted**2).sum(axis=1) / 2)[0]


def centroids_of(
    X: Any, codes: npt.NDArray[Any], n_clusters: int, metric: str = "euclidean"
) -> npt.NDArray[Any]:
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
    if metric == "cosine":
        zeros = np.zeros((n_clusters, X.shape[1]), dtype=_float_type(X))
        return _directions(X, _inverse_norms(X), codes, zeros)
    sums = _sums(X, np.ones(X.shape[0], dtype=_float_type(X)), codes, n_clusters)
    counts = np.bincount(codes, minlength=n_clusters)[:n_clusters]
    return np.asarray(sums / counts[:, None], dtype=sums.dtype)


def is_sparse(X: Any) -> bool:
    """Whether ``X`` is a scipy sparse matrix or array."""
    return hasattr(X, "tocsr")


def _euclidean(
    X: Any, n_clusters: int, seed: int, max_iter: int, init: str
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    from sklearn.cluster import KMeans

    model = KMeans(
        n_clusters, init=init, n_init=1, max_iter=max_iter, random_state=seed
    )
    with one_thread(), duplicates_allowed():
        model.fit(X)
    return model.labels_, model.cluster_centers_


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence scikit-learn's warning that duplicate rows made fewer clusters."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Number of distinct clusters")
        yield


_shared_quiet = SharedSetting(_quiet)


def duplicates_allowed() -> AbstractContextManager[None]:
    """Return the context in which KMeans may find fewer clusters without a word."""
    own_filters = getattr(sys.flags, "context_aware_warnings", False)  # Python 3.14
    return _quiet() if own_filters else _shared_quiet


def _spherical(
    X: Any, n_clusters: int, seed: int, max_iter: int, init: str
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Cluster by direction, over the columns in use.

    Centroids are dense, and text often leaves most columns empty.
    """
    with one_thread():
        if not is_sparse(X):
            return _lloyd(X, n_clusters, seed, max_iter, init)
        used = np.bincount(X.indices, minlength=X.shape[1]) > 0
        indices = (np.cumsum(used) - 1).astype(X.indices.dtype)[X.indices]
        shape = (X.shape[0], int(used.sum()))
        narrow = type(X)((X.data, indices, X.indptr), shape=shape)
        labels, found = _lloyd(narrow, n_clusters, seed, max_iter, init)
    centroids = np.zeros((len(found), X.shape[1]), dtype=found.dtype)
    centroids[:, used] = found
    return labels, centroids


def _lloyd(
    X: Any, n_clusters: int, seed: int, max_iter: int, init: str
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Spherical k-means.

    Rows stay as they are: their length changes no argmax, so only sums divide by it.
    """
    rng = np.random.default_rng(seed)
    scale = _inverse_norms(X)
    rows = _draw_rows(X, scale, n_clusters, init, rng)
    if rows.size == 0:
        zero = np.zeros((1, X.shape[1]), dtype=_float_type(X))
        return np.zeros(X.shape[0], dtype=np.int32), zero
    centroids = _dense(X[rows]) * scale[rows, None]
    labels = np.full(X.shape[0], -1, dtype=np.int32)
    for _ in range(max_iter):
        found, score = _assign(X, centroids)
        if np.array_equal(found, labels):
            break
        labels = found
        _fill_empty(labels, score * scale, scale > 0, len(centroids))
        centroids = _directions(X, scale, labels, centroids)
    else:
        labels, _ = _assign(X, centroids)
    return labels, centroids


def _inverse_norms(X: Any) -> npt.NDArray[Any]:
    """One over the length of each row, 0 for a zero row, in the type of ``X``."""
    with np.errstate(over="ignore"):
        if is_sparse(X):
            squares = X.astype(np.float64)
            squares.data **= 2
            norms = np.sqrt(squares @ np.ones(X.shape[1]))
        else:
            norms = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))
    if not np.isfinite(norms).all():
        row = int(np.flatnonzero(~np.isfinite(norms))[0])
        raise ValueError(
            f"row {row} of X is too long for metric='cosine'; divide X by a constant."
        )
    inverse = np.zeros(norms.shape, dtype=_float_type(X))
    directed = norms > np.finfo(inverse.dtype).tiny
    inverse[directed] = 1 / norms[directed]
    return inverse


def _draw_rows(
    X: Any,
    scale: npt.NDArray[Any],
    n_clusters: int,
    init: str,
    rng: np.random.Generator,
) -> npt.NDArray[np.intp]:
    """Draw rows of different directions, fewer if there are not as many.

    "k-means++" draws in proportion to 1 - cosine to the nearest row drawn so far. The
    weights are whole multiples of 2^-30, so that sums of them are exact and a draw is
    one integer.
    """
    rows: list[int] = []
    free = np.where(scale > 0, 1.0, 0.0)
    similar = np.full(X.shape[0], -1.0)
    while len(rows) < n_clusters:
        ends = (free * 2.0**30).astype(np.int64).cumsum()
        if ends[-1] == 0:
            break
        row = int(np.searchsorted(ends, rng.integers(ends[-1]), side="right"))
        rows.append(row)
        np.maximum(
            similar, (X @ (_dense(X[[row]])[0] * scale[row])) * scale, out=similar
        )
        free[similar >= 1 - _slack(X)] = 0
        if init == "k-means++":
            free = np.where(free > 0, 1 - similar, 0)
    return np.asarray(rows, dtype=np.intp)


def _fill_empty(
    labels: Labels, fit: npt.NDArray[Any], directed: npt.NDArray[np.bool_], k: int
) -> None:
    """Give each empty cluster the worst-fitting row of a cluster that can spare it."""
    counts = np.bincount(labels[directed], minlength=k)
    empty = np.flatnonzero(counts == 0).tolist()
    if not empty:
        return
    for row in np.argsort(np.where(directed, fit, 2), kind="stable"):
        if not empty or fit[row] >= 1 - _slack(fit):
            return
        if directed[row] and counts[labels[row]] > 1:
            counts[labels[row]] -= 1
            labels[row] = empty.pop(0)
            counts[labels[row]] += 1


def _slack(X: Any) -> float:
    """How far below 1 the cosine of two equal directions may come out."""
    return 64 * float(np.finfo(_float_type(X)).eps)


def _directions(
    X: Any,
    scale: npt.NDArray[Any],
    codes: npt.NDArray[Any],
    previous: npt.NDArray[Any],
) -> npt.NDArray[Any]:
    """Unit centroids; a cluster whose rows cancel out keeps its previous one."""
    sums = _sums(X, scale, codes, len(previous))
    norms = np.sqrt(np.einsum("ij,ij->i", sums, sums, dtype=np.float64))
    cancelled = np.flatnonzero(norms <= _slack(X))
    norms[cancelled] = 1
    sums /= norms[:, None]
    sums[cancelled] = previous[cancelled]
    return sums


def _sums(
    X: Any, weights: npt.NDArray[Any], codes: npt.NDArray[Any], n_clusters: int
) -> npt.NDArray[Any]:
    """Sum the weighted rows of each cluster, in row order."""
    from scipy.sparse import csr_array

    n = X.shape[0]
    member = csr_array((weights, codes, np.arange(n + 1)), shape=(n, n_clusters + 1))
    sums = _dense(member.T.tocsr() @ X)
    return sums[:n_clusters]


def _assign(
    X: Any,
    centroids: npt.NDArray[Any],
    origin: npt.NDArray[Any] | None = None,
    bias: npt.NDArray[Any] | None = None,
) -> tuple[Labels, npt.NDArray[Any]]:
    """Best centroid and its score ``(x - origin) . c - bias``, in blocks of rows."""
    n, k = X.shape[0], len(centroids)
    columns = np.ascontiguousarray(centroids.T)
    labels = np.empty(n, dtype=np.int32)
    best = np.empty(n, dtype=centroids.dtype)
    step = max(256, BLOCK_BYTES // (k * centroids.itemsize))
    for begin in range(0, n, step):
        rows = slice(begin, begin + step)
        block = X[rows] if origin is None else X[rows] - origin
        scores = block @ columns
        if bias is not None:
            scores -= bias
        labels[rows] = scores.argmax(axis=1)
        best[rows] = scores[np.arange(len(scores)), labels[rows]]
    return labels, best


def _dense(rows: Any) -> npt.NDArray[Any]:
    return np.asarray(rows.toarray() if is_sparse(rows) else rows)


def _float_type(X: Any) -> np.dtype[Any]:
    return np.dtype(np.float32 if X.dtype == np.float32 else np.float64)
