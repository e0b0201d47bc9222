"""Rows as k-means wants them: measured once, then shared by all partitions.

Sums over features run over them in order, one after another, in the type of the rows,
and no product is fused with a sum. So dense rows give the same bits on every machine,
with the compiled loops and without.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.host_loops import fastest
from gpu_consensus.util.arrays import is_mapped, size_text
from gpu_consensus.util.sparse import is_sparse

METRICS = ("euclidean", "cosine")
DENSE_BYTES = 1 << 19  # of scores in memory at a time, so that they stay in the cache
SPARSE_BYTES = 1 << 24  # cutting sparse rows copies them, so cut seldom
MAPPED_BYTES = 1 << 26  # of rows from which on those of mapped features are mapped too
SUM_ROWS = 4096  # summed on their own first, so that the order is always the same
ORIGIN_ROWS = 1024  # looked at to find where the data lies

Labels = npt.NDArray[np.int32]
Floats = npt.NDArray[Any]
_PLAIN = 100  # powers of two that are floats of any type
_STREAMED = 1 << 23  # numbers from which on rows are moved when asked for
_STREAM_ROWS = 1 << 14  # moved at a time: they stay in the cache


@dataclass(frozen=True)
class Moved:
    """Features minus an origin, over a power of two, computed when asked for.

    Attributes
    ----------
    features : ndarray of shape (n_samples, n_features)
    origin : ndarray of shape (n_features,)
    exponent : int
    dtype : dtype
        Of what comes out.
    """

    features: npt.NDArray[Any]
    origin: Floats
    exponent: int
    dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the features."""
        return self.features.shape

    def __getitem__(self, rows: Any) -> Floats:
        """Return some rows, C-contiguous."""
        wide = self.features[rows].astype(float_type(self.features))
        return _moved(wide, self.origin, self.exponent).astype(self.dtype, order="C")


@dataclass(frozen=True)
class Rows:
    """Features in the form that turns k-means into products and an argmax.

    Euclidean: dense rows are moved to an origin amid the data, so that a common offset
    does not eat the digits, and all rows are divided by a power of two, so that no
    square overflows. Cosine: rows have unit length, or are zero. Sparse rows keep
    only the columns in use.

    Attributes
    ----------
    X : ndarray, Moved or scipy CSR of shape (n_samples, n_columns)
        Dense rows are C-contiguous; ``Moved`` only as :meth:`take` and :func:`assign`
        need them.
    half : ndarray of shape (n_samples,)
        Half the square of each row.
    metric : str
        One of ``METRICS``.
    n_features : int
        Columns of the features these rows were made from.
    origin : ndarray of shape (n_features,) or None
        What was subtracted.
    exponent : int
        Of the power of two that divided.
    used : ndarray of shape (n_features,), bool, or None
        Which columns were kept.
    """

    X: Any
    half: Floats
    metric: str
    n_features: int
    origin: Floats | None = None
    exponent: int = 0
    used: npt.NDArray[np.bool_] | None = None

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def is_dense(self) -> bool:
        """Whether distances come from differences: 0 only if rows are equal."""
        return self.used is None

    @property
    def is_cosine(self) -> bool:
        """Whether rows are directions."""
        return self.metric == "cosine"

    @property
    def slack(self) -> float:
        """Relative error that the squared distance of equal rows may show.

        Sparse it is |x|^2 + |y|^2 - 2 x.y, where digits cancel; equal directions of
        rows of other lengths differ by rounding.
        """
        return 64 * float(np.finfo(self.half.dtype).eps)

    @property
    def equal(self) -> float:
        """Half the squared distance up to which dense rows count as equal."""
        return self.slack if self.is_cosine else 0.0

    @property
    def fits(self) -> Floats:
        """Half the squared distance up to which each row fits a centroid perfectly.

        Infinite for a row that can neither be nor move a centroid.
        """
        exact = self.is_dense and not self.is_cosine
        share = self.slack**2 if exact else self.slack * 2
        return np.where(self.has_direction(), share * self.half, np.inf).astype(
            self.half.dtype, copy=False
        )

    def take(self, rows: npt.NDArray[np.intp] | slice) -> Rows:
        """Return some of the rows, in the same coordinates."""
        return replace(self, X=self.X[rows], half=self.half[rows])

    def whole(self) -> Rows:
        """Return all rows in memory."""
        return self.take(slice(None)) if isinstance(self.X, Moved) else self

    def dense(self, rows: npt.NDArray[np.intp]) -> Floats:
        """Return some rows as points, such as first centroids."""
        points = self.X[rows]
        return np.asarray(points.toarray() if is_sparse(points) else points)

    def has_direction(self) -> npt.NDArray[np.bool_]:
        """Return which rows can be or move a centroid: for "cosine" those not zero."""
        if self.metric == "cosine":
            return np.asarray(self.half > 0)
        return np.ones(self.n_samples, dtype=bool)

    def distances(self, chosen: npt.NDArray[np.intp]) -> Floats:
        """Return half the squared distance of every row from each of the chosen.

        Shape (n_chosen, n_samples), never below 0. What lies within rounding error of
        0 is 0; of dense Euclidean rows only if they are equal.
        """
        points = self.X[chosen]
        if is_sparse(self.X):
            reach = self.half + self.half[chosen, None]
            distances = np.asarray(reach - (self.X @ points.toarray().T).T)
            distances[distances <= self.slack * reach] = 0
            return distances
        distances = np.array([half_squares(self.X - point) for point in points])
        distances[distances <= self.equal] = 0
        return distances

    def gaps(self, labels: Labels, centroids: Floats) -> Floats:
        """Return half the squared distance of every row from its nearest centroid.

        ``labels`` are those of :func:`assign`.
        """
        if self.is_dense:
            return half_squares(self.X - centroids[labels])
        # of unit length, so half squares of row and centroid make one
        own = 1 if self.is_cosine else self.half
        best = [scores.max(axis=1) for _, scores in _score_blocks(self, centroids)]
        return np.asarray(own - np.concatenate(best))

    def misfits(self, labels: Labels, centroids: Floats) -> Floats:
        """Return :meth:`gaps`, 0 where a row fits its centroid or moves none."""
        gaps = self.gaps(labels, centroids)
        gaps[gaps <= self.fits] = 0
        return gaps

    def centroids_out(self, centroids: Floats) -> Floats:
        """Express centroids in the coordinates of the features."""
        if self.used is not None:
            wide = np.zeros((len(centroids), self.n_features), dtype=centroids.dtype)
            wide[:, self.used] = centroids
            centroids = wide
        if self.metric == "cosine":
            return centroids
        if self.origin is None:
            return np.asarray(np.ldexp(centroids, self.exponent))
        if self.exponent > 0:  # the range of large numbers may be no float
            moved = centroids + np.ldexp(self.origin, -self.exponent)
            return np.asarray(np.ldexp(moved, self.exponent))
        return np.asarray(np.ldexp(centroids, self.exponent) + self.origin)

    def centroids_in(self, centroids: Floats) -> Floats:
        """Express centroids given in the coordinates of the features in these."""
        if self.metric == "cosine":
            moved = centroids
        elif self.origin is None:
            moved = np.ldexp(centroids, -self.exponent)
        else:
            moved = _moved(centroids, self.origin, self.exponent)
        moved = moved if self.used is None else moved[:, self.used]
        return np.asarray(moved, dtype=self.half.dtype)


def _room(X: Any, shape: tuple[int, int], dtype: np.dtype[Any]) -> Floats:
    """Return room for rows: in memory, or in a file where ``X`` is mapped from one.

    The file has no name, so that nothing is left of it whatever ends the process.
    """
    if not is_mapped(X) or shape[0] * shape[1] * dtype.itemsize < MAPPED_BYTES:
        return np.empty(shape, dtype=dtype)
    with tempfile.TemporaryFile() as file:
        nbytes = shape[0] * shape[1] * dtype.itemsize
        if hasattr(os, "posix_fallocate"):  # else a full disk would end the process
            try:
                os.posix_fallocate(file.fileno(), 0, nbytes)
            except OSError as error:
                raise OSError(
                    f"the rows of X take {size_text(nbytes)} in "
                    f"{tempfile.gettempdir()!r} ({error.strerror or error}); make room "
                    "there, or name another folder in the environment variable TMPDIR."
                ) from error
        return np.memmap(file, dtype=dtype, mode="w+", shape=shape)


def prepare(X: Any, metric: str, dtype: Any = None, *, streamed: bool = False) -> Rows:
    """Measure checked features for k-means.

    Parameters
    ----------
    X : ndarray or scipy CSR of shape (n_samples, n_features)
        Finite numbers; left as they are.
    metric : {"euclidean", "cosine"}
        What near means.
    dtype : dtype, optional
        Of the arithmetic; by default that of ``X``, if it is float32, else float64.
    streamed : bool, default False
        Whether many dense rows are moved, for "euclidean", when they are asked for, a
        range at a time, so that no second table of them is held.

    Returns
    -------
    Rows

    Examples
    --------
    >>> rows = prepare(np.array([[1e6, 0.0], [1e6, 3.0], [1e6, 4.0]]), "euclidean")
    >>> centroids = rows.centroids_in(np.array([[1e6, 1.0], [1e6, 4.0]]))
    >>> assign(rows, centroids).tolist()
    [0, 1, 1]
    """
    dtype = float_type(X) if dtype is None else np.dtype(dtype)
    if is_sparse(X):
        return _prepare_sparse(X, metric, dtype)
    n, d = X.shape
    blocks = _ranges(n, max(1, SPARSE_BYTES // (8 * d)))
    if metric == "cosine":
        inverse = inverse_norms(X)[:, None]
        unit = _room(X, (n, d), dtype)
        for rows in blocks:
            unit[rows] = X[rows] * inverse[rows]
        return Rows(unit, half_squares(unit), metric, d)
    wide = float_type(X)
    origin = np.median(X[:: -(-n // ORIGIN_ROWS)], axis=0).astype(wide)
    # halves, because the range of what a float can hold is no float
    reach = np.maximum(X.max(axis=0) / 2 - origin / 2, origin / 2 - X.min(axis=0) / 2)
    exponent = 1 + _exponent(reach.max())
    moved = Moved(X, origin, exponent, dtype)
    if n * d > _STREAMED and streamed:
        half = np.concatenate(
            [half_squares(moved[rows]) for rows in _ranges(n, _STREAM_ROWS)]
        )
        return Rows(moved, half, metric, d, origin, exponent)
    kept = _room(X, (n, d), dtype)
    for rows in blocks:
        kept[rows] = moved[rows]
    return Rows(kept, half_squares(kept), metric, d, origin, exponent)


def _ranges(n: int, step: int) -> list[slice]:
    return [slice(begin, min(n, begin + step)) for begin in range(0, n, step)]


def _prepare_sparse(X: Any, metric: str, dtype: np.dtype[Any]) -> Rows:
    used = np.bincount(X.indices, minlength=X.shape[1]) > 0
    exponent = 0
    if metric == "cosine":
        data = X.data * np.repeat(inverse_norms(X), np.diff(X.indptr))
    else:
        exponent = _exponent(np.abs(X.data).max(initial=0))
        data = np.ldexp(X.data, -exponent)
    indices = (np.cumsum(used) - 1).astype(X.indices.dtype)[X.indices]
    parts = (data.astype(dtype), indices, X.indptr)
    narrow = type(X)(parts, shape=(X.shape[0], int(used.sum())))
    squares = type(X)((parts[0] ** 2, indices, X.indptr), shape=narrow.shape)
    half = squares @ np.full(narrow.shape[1], 0.5, dtype=dtype)
    return Rows(narrow, half, metric, X.shape[1], None, exponent, used)


def assign(rows: Rows, centroids: Floats, n_threads: int = 1) -> Labels:
    """Return the nearest centroid of each row; ties go to the lowest.

    Parameters
    ----------
    rows : Rows
        The rows to label.
    centroids : ndarray of shape (n_clusters, n_columns)
        In the coordinates of ``rows``; of unit length for "cosine".
    n_threads : int, default 1
        Of the compiled form; no label depends on it.

    Returns
    -------
    labels : ndarray of shape (n_samples,), int32
    """
    if isinstance(rows.X, Moved):
        labels = np.empty(rows.n_samples, dtype=np.int32)
        for part in _ranges(rows.n_samples, _STREAM_ROWS):
            labels[part] = assign(rows.take(part), centroids, n_threads)
        return labels
    if rows.is_dense:
        return fastest("nearest_rows", nearest_rows)(rows, centroids, n_threads)
    return nearest_rows(rows, centroids, n_threads)


def nearest_rows(rows: Rows, centroids: Floats, n_threads: int) -> Labels:
    """Label rows by NumPy: the reference of :func:`assign`."""
    labels = np.empty(rows.n_samples, dtype=np.int32)
    for part, scores in _score_blocks(rows, centroids):
        labels[part] = scores.argmax(axis=1)
    return labels


def _score_blocks(rows: Rows, centroids: Floats) -> Iterator[tuple[slice, Floats]]:
    """Yield ``x . c - |c|^2 / 2``, for "cosine" ``x . c``, for one block of rows.

    Of dense rows the sum begins with the square and goes on feature by feature.
    """
    X, k = rows.X, len(centroids)
    sparse = is_sparse(X)
    columns = np.ascontiguousarray(centroids.T)
    start = np.zeros(k, dtype=columns.dtype)
    if not rows.is_cosine:
        start = -half_squares(centroids)
    limit = SPARSE_BYTES if sparse else DENSE_BYTES
    step = max(256, limit // (k * columns.itemsize))
    for begin in range(0, rows.n_samples, step):
        part = slice(begin, begin + step)
        block = X[part] if step < rows.n_samples else X
        if sparse:
            yield part, block @ columns + start
            continue
        # clusters first: loops over many rows are long, over few clusters short
        scores = np.repeat(start[:, None], len(block), axis=1)
        products = np.empty_like(scores)
        for values, column in zip(block.T.copy(), columns, strict=True):
            scores += np.multiply(column[:, None], values, out=products)
        yield part, scores.T


def sums(rows: Rows, codes: npt.NDArray[Any], n_clusters: int) -> Floats:
    """Sum the rows of each cluster; code ``n_clusters`` means none.

    In float64: in float32 a million equal numbers are off by percents. Dense, the rows
    of each block of ``SUM_ROWS`` in order, then the blocks in order.
    """
    from scipy.sparse import coo_array, csc_array

    X, n = rows.X, rows.n_samples
    if is_sparse(X):
        owners = np.repeat(codes, np.diff(X.indptr))
        shape = (n_clusters + 1, X.shape[1])
        data = X.data.astype(np.float64)
        summed = coo_array((data, (owners, X.indices)), shape=shape).toarray()
        return np.asarray(summed[:n_clusters], dtype=X.dtype)
    total = np.zeros((n_clusters + 1, X.shape[1]))
    for begin in range(0, n, SUM_ROWS):
        part = X[begin : begin + SUM_ROWS].astype(np.float64)
        own = codes[begin : begin + SUM_ROWS]
        entries = (np.ones(len(own)), own, np.arange(len(own) + 1))
        total += csc_array(entries, shape=(n_clusters + 1, len(own))) @ part
    return np.asarray(total[:n_clusters], dtype=X.dtype)


def means(rows: Rows, codes: npt.NDArray[Any], previous: Floats) -> Floats:
    """Return the centroid of each cluster, of unit length for "cosine".

    A cluster without rows, or whose directions cancel out, keeps its previous one.
    """
    k = len(previous)
    centroids = sums(rows, codes, k)
    if rows.metric == "cosine":
        size = np.sqrt(2 * half_squares(centroids.astype(np.float64)))
        kept = np.flatnonzero(size <= rows.slack)
    else:
        size = np.bincount(codes, minlength=k)[:k].astype(np.float64)
        kept = np.flatnonzero(size == 0)
    size[kept] = 1
    centroids /= size[:, None].astype(centroids.dtype)
    centroids[kept] = previous[kept]
    return centroids


def inverse_norms(X: Any) -> Floats:
    """One over the length of each row, 0 for a zero row."""
    with np.errstate(over="ignore"):
        if is_sparse(X):
            squares = X.astype(np.float64)
            squares.data **= 2
            norms = np.sqrt(squares @ np.ones(X.shape[1]))
        else:
            norms = np.sqrt(2 * half_squares(X, np.float64))
    if not np.isfinite(norms).all():
        row = int(np.flatnonzero(~np.isfinite(norms))[0])
        raise ValueError(
            f"row {row} of X is too long for metric='cosine'; divide X by a constant."
        )
    inverse = np.zeros(norms.shape)
    directed = norms > np.finfo(float_type(X)).tiny
    inverse[directed] = 1 / norms[directed]
    return inverse


def check_directions(X: Any, rows: Rows) -> None:
    """Raise if no row of ``X`` has a direction although not all of it is zero."""
    if not rows.has_direction().any() and (X.data if is_sparse(X) else X).any():
        raise ValueError(
            "the rows of X are too short for metric='cosine'; multiply X by a constant."
        )


def float_type(X: Any) -> np.dtype[Any]:
    """Return float32 for float32, float64 for all else."""
    return np.dtype(np.float32 if X.dtype == np.float32 else np.float64)


def _moved(points: Floats, origin: Floats, exponent: int) -> Floats:
    """Subtract the origin and divide by a power of two, in the order that is safe."""
    if exponent > 0:  # the range of large numbers may be no float
        return _divided(points, exponent) - _divided(origin, exponent)
    return _divided(points - origin, exponent)


def _divided(points: Floats, exponent: int) -> Floats:
    """Divide by a power of two; exact, and a product is ten times as fast as ldexp."""
    if abs(exponent) <= _PLAIN:
        return np.asarray(points * points.dtype.type(2.0**-exponent))
    return np.asarray(np.ldexp(points, -exponent))


def half_squares(X: Floats, dtype: Any = None) -> Floats:
    """Return half the square of each row: a sum over the features in order.

    Computed in ``dtype``, by default that of ``X``.
    """
    total = np.zeros(len(X), dtype=X.dtype if dtype is None else dtype)
    for begin in range(0, len(X), SUM_ROWS):  # a block stays in the cache
        part = total[begin : begin + SUM_ROWS]
        for column in X[begin : begin + SUM_ROWS].T.astype(total.dtype, order="C"):
            part += column * column
    return np.asarray(total / 2)


def _exponent(largest: Any) -> int:
    """Return e with largest <= 2^e, within what a float64 can be divided by."""
    return int(np.clip(np.frexp(float(largest))[1], -1000, 1000))
