"""k-means on dense rows in C; each form has the signature of its reference in NumPy.

``rows`` are as :mod:`gpu_consensus.generate.rows` makes them, not sparse.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.native.layout import address, check_array, dense
from gpu_consensus.backends.native.library import load
from gpu_consensus.backends.native.threads import over, scratch

Floats = npt.NDArray[Any]
CANDIDATES = 64
"""Rows that may be tried for one centroid: ``CANDIDATES`` of kmeans.c."""


def nearest_rows(rows: Any, centroids: Floats, n_threads: int) -> npt.NDArray[np.int32]:
    """See ``nearest_rows`` of generate.rows."""
    call, X = load().call, _features(rows)
    n, d = X.shape
    centroids = dense("centroids", centroids, X.dtype, (None, d))
    k = _at_least_one("centroids", len(centroids))
    labels = np.empty(n, dtype=np.int32)
    n_bytes = call.kmeans_nearest_scratch(X.itemsize, d, k)

    def some(begin: int, end: int) -> None:
        memory, place = scratch(n_bytes)
        call.kmeans_nearest(
            X.itemsize,
            address(X),
            d,
            address(centroids),
            k,
            bool(rows.is_cosine),
            begin,
            end,
            address(labels),
            place,
        )
        del memory

    over(some, n, n * d * k // 8, n_threads)
    return labels


def draw_starts(
    rows: Any, draws: npt.NDArray[np.float64], careful: bool, n_threads: int
) -> list[npt.NDArray[np.int64]]:
    """See ``draw_starts`` of generate.lloyd."""
    call, X = load().call, _features(rows)
    n, d = X.shape
    draws = dense("draws", draws, np.float64, (None, None, None))
    n_starts, k, n_candidates = draws.shape
    if not 1 <= n_candidates <= CANDIDATES:
        raise ValueError(
            f"draws has {n_candidates} candidates and should have 1 to {CANDIDATES}."
        )
    if draws.size and not 0 <= draws.min() <= draws.max() < 1:
        raise ValueError("draws should be at least 0 and below 1.")
    fits = dense("fits", rows.fits, X.dtype, (n,))
    chosen = np.empty((n_starts, k), dtype=np.int64)
    n_chosen = np.empty(n_starts, dtype=np.int64)
    n_bytes = call.kmeans_draw_scratch(X.itemsize, n, d, n_candidates)

    def some(first: int, last: int) -> None:
        memory, place = scratch(n_bytes)
        call.kmeans_draw(
            X.itemsize,
            address(X),
            n,
            d,
            address(fits),
            address(draws),
            k,
            n_candidates,
            bool(careful),
            rows.equal,
            first,
            last,
            address(chosen),
            address(n_chosen),
            place,
        )
        del memory

    over(some, n_starts, n_starts * n * d * k // 8, n_threads)
    return [mine[:size] for mine, size in zip(chosen, n_chosen.tolist(), strict=True)]


def lloyd_starts(
    rows: Any, first: list[Floats], max_iter: int, n_threads: int
) -> list[tuple[npt.NDArray[np.int32], Floats, float]]:
    """See ``lloyd_starts`` of generate.lloyd."""
    call, X = load().call, _features(rows)
    n, d = X.shape
    sizes = [_at_least_one("first", len(points)) for points in first]
    n_starts, k = len(sizes), max(sizes, default=1)
    n_chosen = np.array(sizes, dtype=np.int64)
    centroids = np.zeros((n_starts, k, d), dtype=X.dtype)
    for to, points in zip(centroids, first, strict=True):
        to[: len(points)] = dense("first", points, X.dtype, (None, d))
    fits = dense("fits", rows.fits, X.dtype, (n,))
    labels = np.empty((n_starts, n), dtype=np.int32)
    inertia = np.empty(n_starts)
    n_bytes = call.kmeans_lloyd_scratch(X.itemsize, n, d, k)

    def some(begin: int, end: int) -> None:
        memory, place = scratch(n_bytes)
        call.kmeans_lloyd(
            X.itemsize,
            address(X),
            n,
            d,
            address(fits),
            bool(rows.is_cosine),
            rows.slack,
            k,
            address(n_chosen),
            max_iter,
            begin,
            end,
            address(centroids),
            address(labels),
            address(inertia),
            place,
        )
        del memory

    over(some, n_starts, n_starts * n * d * k, n_threads)
    found = zip(labels, centroids, sizes, inertia.tolist(), strict=True)
    return [(own, points[:size], sum_) for own, points, size, sum_ in found]


def _features(rows: Any) -> Floats:
    """Return the features (n, d) of rows, float32 or float64."""
    X = rows.X
    kind = getattr(X, "dtype", None)
    if not isinstance(X, np.ndarray) or kind not in (np.float32, np.float64):
        raise TypeError(f"rows.X is {kind} and should be dense float32 or float64.")
    check_array("rows.X", X, X.dtype, (None, None))
    return X


def _at_least_one(name: str, size: int) -> int:
    if size < 1:
        raise ValueError(f"{name} has no centroid and should have 1 or more.")
    return size
