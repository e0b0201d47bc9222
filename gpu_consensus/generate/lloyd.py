"""The two halves of k-means, for several starts at once: first rows, then Lloyd's loop.

Dense rows go to the compiled forms where there are any; what stands here is their
reference, equal in every bit, and what runs for sparse rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.host_loops import fastest
from gpu_consensus.generate import rows as rows_module
from gpu_consensus.generate.rows import Floats, Labels, Rows, nearest_rows

Chosen = npt.NDArray[np.int64]
Descent = tuple[Labels, Floats, float]
"""Labels, centroids, and half the sum of squared distances between them and rows."""


def draw_first(
    rows: Rows, draws: npt.NDArray[np.float64], careful: bool, n_threads: int = 1
) -> list[Chosen]:
    """Draw distinct rows (directions) for each start, fewer if there are not as many.

    Parameters
    ----------
    rows : Rows
    draws : ndarray of shape (n_starts, n_clusters, n_candidates)
        Random numbers in [0, 1).
    careful : bool
        As k-means++ does: in proportion to the squared distance from the nearest row
        drawn so far, ``n_candidates`` at a time, and of these the one that brings all
        rows nearest. Otherwise, and for the first, any row, by the first number.
    n_threads : int, default 1
        Over the starts, of the compiled form; no draw depends on it.
    """
    form = fastest("draw_starts", draw_starts) if rows.is_dense else draw_starts
    return form(rows, draws, careful, n_threads)


def draw_starts(
    rows: Rows, draws: npt.NDArray[np.float64], careful: bool, n_threads: int
) -> list[Chosen]:
    """Draw rows by NumPy: the reference of :func:`draw_first`."""
    return [_draw_rows(rows, numbers, careful) for numbers in draws]


def _draw_rows(
    rows: Rows, numbers: npt.NDArray[np.float64], careful: bool
) -> npt.NDArray[np.int64]:
    """Draw the rows of one start.

    Weights are whole multiples of 2^-30 of the largest, so that sums of them are exact
    in any order.
    """
    chosen: list[int] = []
    apart = np.where(rows.has_direction(), rows.half.dtype.type(np.inf), 0)
    for row_numbers in numbers:
        weighted = careful and len(chosen) > 0
        most = apart.max()
        weights = _steps(apart, most) if weighted and most > 0 else apart > 0
        ends = weights.cumsum(dtype=np.int64)
        total = ends[-1]
        if total == 0:
            break
        tried = row_numbers if weighted else row_numbers[:1]
        drawn = np.minimum((tried * float(total)).astype(np.int64), total - 1)
        candidates = ends.searchsorted(drawn, side="right")
        left = np.minimum(apart, rows.distances(candidates))
        best = int(_steps(left, most).sum(axis=1).argmin()) if len(tried) > 1 else 0
        chosen.append(int(candidates[best]))
        apart = left[best]
    return np.asarray(chosen, dtype=np.int64)


def _steps(part: Floats, most: Any) -> npt.NDArray[np.int64]:
    """Return shares of the largest in steps of 2^-30.

    Rounded up, so that no distinct row is out of reach.
    """
    return np.asarray(np.ceil(part / most * 2.0**30), dtype=np.int64)


def descend(
    rows: Rows, first: list[Floats], max_iter: int, n_threads: int = 1
) -> list[Descent]:
    """Move centroids until no label changes, ``max_iter`` times at most.

    Parameters
    ----------
    rows : Rows
    first : list of ndarray of shape (n_clusters, n_columns)
        Centroids to begin with, of each start.
    max_iter : int
    n_threads : int, default 1
        Over the starts, of the compiled form; no result depends on it.
    """
    form = fastest("lloyd_starts", lloyd_starts) if rows.is_dense else lloyd_starts
    return form(rows, first, max_iter, n_threads)


def lloyd_starts(
    rows: Rows, first: list[Floats], max_iter: int, n_threads: int
) -> list[Descent]:
    """Run Lloyd's loop in NumPy: the reference of :func:`descend`."""
    return [_lloyd(rows, centroids, max_iter) for centroids in first]


def _lloyd(rows: Rows, centroids: Floats, max_iter: int) -> Descent:
    labels = np.full(rows.n_samples, -1, dtype=np.int32)
    for _ in range(max_iter):
        new_labels = nearest_rows(rows, centroids, 1)
        if np.array_equal(new_labels, labels):
            break
        labels = new_labels
        _fill_empty(rows, labels, centroids)
        centroids = rows_module.means(rows, labels, centroids)
    else:
        labels = nearest_rows(rows, centroids, 1)
    return labels, centroids, inertia(rows, labels, centroids)


def inertia(rows: Rows, labels: Labels, centroids: Floats) -> float:
    """Return half the sum of squared distances, in float64 and in row order."""
    gaps = rows.gaps(labels, centroids)
    return float(gaps.cumsum(dtype=np.float64)[-1])


def _fill_empty(rows: Rows, labels: Labels, centroids: Floats) -> None:
    """Give each empty cluster the worst-fitting row of a cluster that can spare it."""
    can_move = rows.has_direction()
    counts = np.bincount(labels[can_move], minlength=len(centroids))
    empty = np.flatnonzero(counts == 0).tolist()
    if not empty:
        return
    apart = rows.misfits(labels, centroids)
    for row in np.argsort(-apart, kind="stable"):
        if not empty or apart[row] == 0:
            return
        if counts[labels[row]] > 1:
            counts[labels[row]] -= 1
            labels[row] = empty.pop(0)
            counts[labels[row]] += 1
