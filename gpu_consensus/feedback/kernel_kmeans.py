"""k-means on similarities: the points behind them are never needed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.util.checks import (
    FloatArray,
    check_int,
    check_n_clusters,
    seed_sequence,
)
from gpu_consensus.util.threads import one_thread

Labels = npt.NDArray[np.intp]

_ASYMMETRY = 1e-6  # what rounding in float32 may leave, relative


class KernelClusters(NamedTuple):
    """The result of kernel k-means.

    Attributes
    ----------
    labels : ndarray of shape (n,), int32
        Consecutive from 0.
    objective : float
        sum_k sum_{l in k} (S_ll - (2/n_k) sum_m S_lm + (1/n_k^2) sum_mm' S_mm'), m and
        m' in k: the k-means objective of the points behind S, without any shift.
    shift : float
        What was added to the diagonal; 0 if it converged without.
    converged : bool
        Whether the assignment came to rest.
    """

    labels: npt.NDArray[np.int32]
    objective: float
    shift: float
    converged: bool


def kernel_kmeans(
    S: Any,
    n_clusters: int,
    *,
    init: Any = None,
    max_iter: int = 100,
    random_state: Any = None,
) -> KernelClusters:
    """Cluster objects by their similarities.

    Lloyd's k-means in the space whose inner products are ``S``. If ``S`` is indefinite
    there is no such space, and the assignment may run in circles; often it does not,
    and then the answer is better than after a shift. So only if it fails to come to
    rest, minus the smallest eigenvalue is added to the diagonal, which makes ``S``
    positive semi-definite, and the same start is tried again.

    Parameters
    ----------
    S : array_like of shape (n, n)
        Symmetric similarities.
    n_clusters : int
        Clusters to find; fewer come out only if fewer points differ.
    init : array_like of shape (n,), optional
        First labels, 0..n_clusters - 1. By default objects are drawn far from one
        another (k-means++).
    max_iter : int, default 100
        Iterations at most, each O(n^2).
    random_state : int, Generator, RandomState, SeedSequence, optional
        Seed of the start.

    Returns
    -------
    KernelClusters

    Notes
    -----
    An object leaves its cluster only for a strictly nearer one, ties go to the lowest.
    An empty cluster takes the object farthest from its centre, of a cluster that has
    others.

    References
    ----------
    I. S. Dhillon, Y. Guan, B. Kulis, "Kernel k-means, spectral clustering and
    normalized cuts", KDD 2004; the shift: D. R. Heisterkamp, "Lambda consensus
    clustering", section III.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [7.0], [8.0]])
    >>> result = kernel_kmeans(X @ X.T, 2, random_state=0)
    >>> bool(result.labels[0] == result.labels[1] != result.labels[2])
    True
    >>> round(result.objective, 9), result.shift, result.converged
    (1.0, 0.0, True)
    """
    matrix = np.asarray(S, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise ValueError(f"S has shape {matrix.shape} but should be (n, n), n >= 1.")
    if not np.isfinite(matrix).all():
        raise ValueError("S has a NaN or infinite value; similarities are finite.")
    if np.abs(matrix - matrix.T).max() > _ASYMMETRY * np.abs(matrix).max():
        raise ValueError("S is not symmetric; use (S + S.T) / 2.")
    n_clusters = check_n_clusters(n_clusters, len(matrix))
    max_iter = check_int("max_iter", max_iter, 1)
    with one_thread():
        if init is None:
            rng = np.random.default_rng(seed_sequence(random_state))
            start = _draw_start(matrix, n_clusters, rng)
        else:
            start = _check_init(init, len(matrix), n_clusters)
        labels, converged = _lloyd(matrix, start, n_clusters, max_iter)
        shift = 0.0
        if not converged:
            shift = _needed_shift(matrix)
            if shift > 0:
                shifted = matrix + shift * np.eye(len(matrix))
                labels, converged = _lloyd(shifted, start, n_clusters, max_iter)
        distances = _distances(matrix, labels, n_clusters)
    objective = float(distances[np.arange(len(labels)), labels].sum())
    _, compact = np.unique(labels, return_inverse=True)
    return KernelClusters(compact.astype(np.int32), objective, shift, converged)


def _check_init(init: Any, n: int, n_clusters: int) -> Labels:
    start = np.asarray(init)
    if start.shape != (n,) or start.dtype.kind not in "iu":
        raise ValueError(f"init should hold {n} integers, one per object.")
    if start.min() < 0 or start.max() >= n_clusters:
        raise ValueError(f"init should hold labels in 0..{n_clusters - 1}.")
    return start.astype(np.intp)


def _needed_shift(matrix: FloatArray) -> float:
    """Minus the smallest eigenvalue, 0 if there is no negative one."""
    from scipy.linalg import eigh

    smallest = eigh(matrix, eigvals_only=True, subset_by_index=[0, 0])[0]
    return max(0.0, -float(smallest))


def _draw_start(
    matrix: FloatArray, n_clusters: int, rng: np.random.Generator
) -> Labels:
    """Label objects by the nearest of ``n_clusters`` drawn ones (k-means++).

    Weights are whole numbers, so that their sums are exact. Where all squared
    distances to the drawn objects are 0 or, in an indefinite ``S``, below, the draw
    ends early.
    """
    n = len(matrix)
    own = matrix.diagonal()
    drawn = [int(rng.integers(n))]
    squares = own + own[drawn[0]] - 2 * matrix[drawn[0]]
    labels = np.zeros(n, dtype=np.intp)
    while len(drawn) < n_clusters:
        largest = squares.max()
        if largest <= 0:
            break
        odds = (np.maximum(squares, 0.0) / largest * 2.0**30).astype(np.int64)
        odds[drawn] = 0
        ends = odds.cumsum()
        if ends[-1] == 0:
            break
        chosen = int(np.searchsorted(ends, rng.integers(ends[-1]), side="right"))
        nearer = own + own[chosen] - 2 * matrix[chosen]
        labels[nearer < squares] = len(drawn)
        labels[chosen] = len(drawn)
        squares = np.minimum(squares, nearer)
        drawn.append(chosen)
    return labels


def _lloyd(
    matrix: FloatArray, start: Labels, n_clusters: int, max_iter: int
) -> tuple[Labels, bool]:
    """Move objects to their nearest centre until none moves or a state comes back."""
    labels = start.copy()
    everyone = np.arange(len(labels))
    seen = {labels.tobytes()}
    for _ in range(max_iter):
        distances = _distances(matrix, labels, n_clusters)
        nearest = distances.argmin(axis=1)
        own = distances[everyone, labels]
        after = np.where(distances[everyone, nearest] < own, nearest, labels)
        _fill_empty(after, distances[everyone, after], n_clusters)
        if np.array_equal(after, labels):
            return labels, True
        labels = after
        if labels.tobytes() in seen:
            return labels, False
        seen.add(labels.tobytes())
    return labels, False


def _distances(matrix: FloatArray, labels: Labels, n_clusters: int) -> FloatArray:
    """Squared distance of every object to every centre; inf where it has no member."""
    n = len(labels)
    member = np.zeros((n, n_clusters))
    member[np.arange(n), labels] = 1.0
    sizes = member.sum(axis=0)
    towards = (matrix @ member) / np.maximum(sizes, 1.0)
    within = (towards * member).sum(axis=0) / np.maximum(sizes, 1.0)
    distances: FloatArray = matrix.diagonal()[:, None] - 2.0 * towards + within
    distances[:, sizes == 0] = np.inf
    return distances


def _fill_empty(labels: Labels, distances: FloatArray, n_clusters: int) -> None:
    """Give each empty cluster the farthest object of a cluster that can spare it."""
    sizes = np.bincount(labels, minlength=n_clusters)
    for k in np.flatnonzero(sizes == 0):
        spare = np.where(sizes[labels] > 1, distances, -np.inf)
        farthest = int(spare.argmax())
        if spare[farthest] <= _tiny(distances):
            return
        sizes[labels[farthest]] -= 1
        sizes[k] = 1
        labels[farthest] = k
        distances[farthest] = 0.0


def _tiny(distances: FloatArray) -> float:
    """What rounding may make of a distance that is 0."""
    return 1e-12 * float(np.abs(distances).max(initial=0.0))
