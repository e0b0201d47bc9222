"""Cut the graph of objects and labels on the side of the labels: S x S, never n x n.

The leading eigenvectors of the small matrix B' D^-1 B carry those of the whole graph:
an object lies at the mean of its labels. Nothing here depends on the backend, on blocks
or on threads: eigenvectors and k-means are computed on the host by one thread. Where
labels are many, the matrix is not made: a vector is multiplied by B, then by B'.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.protocol import Codes
from gpu_consensus.graphs.eigenvectors import iterate_eigenvectors
from gpu_consensus.graphs.kinds import unit_rows
from gpu_consensus.graphs.spectral import fit_kmeans
from gpu_consensus.loop.code_blocks import CodeBlocks
from gpu_consensus.methods.call import Task
from gpu_consensus.methods.label_contingency import LabelContingency
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.checks import FloatArray, IntArray
from gpu_consensus.util.threads import one_thread

KMEANS_OBJECTS = 100_000
"""Objects that k-means learns its centres from, at most."""

_DENSE = 1500  # labels up to which eigenvectors come from all of the matrix
_MANY = 5000  # objects up to which that matrix is quickly made
_ENTRY_BYTES = 48  # of a label of an object: in rows, in columns, and while made
_RANK = 1e-10  # eigenvalues below this share of the largest are rounding
_BITS = 33  # of a term of a sum over objects
_SUMS = 1 << 23  # bytes for sums over the labels of some objects at a time
_CHUNK = 1 << 13  # objects whose labels are compared at a time: they stay in the cache


class LabelCut(NamedTuple):
    """Objects cut into clusters: see :func:`cut_objects`."""

    labels: npt.NDArray[np.intp]
    eigenvalues: FloatArray
    kmeans_objects: int


def cut_objects(task: Task, labels: LabelContingency, edges: FloatArray) -> LabelCut:
    """Cut the graph of objects and labels into ``task.k`` parts (transfer cut).

    Parameters
    ----------
    task : Task
    labels : LabelContingency
        Of the task's ensemble.
    edges : ndarray of shape (S,)
        Weight of the edge from each label to each of its objects, positive.
    """
    codes = counted_codes(labels)
    degree = np.concatenate([*object_sums(task, labels, edges[:, None], codes)])[:, 0]
    weight = edges * labels.sizes  # degree of each label
    scale = np.divide(1.0, np.sqrt(weight), out=np.zeros(len(weight)), where=weight > 0)
    gram = LabelGram(labels, codes, 1.0 / degree, edges * scale)
    values, vectors = leading_vectors(gram, task.k)
    # an object lies at the mean of its labels by weight; the constant vector is 1
    place = vectors * (scale * math.sqrt(weight.sum()))[:, None]
    table = np.column_stack([place * edges[:, None], edges])
    clusters, n_learned = cluster_objects(task, labels, table)
    return LabelCut(clusters, values, n_learned)


def spectral_start(task: Task, labels: LabelContingency) -> npt.NDArray[np.intp]:
    """Return clusters by the leading singular vectors of D^-1/2 X, to start SEC from.

    X are the one-hot labels, D the row sums of the co-association; the right vectors
    are those of X' D^-1 X. Objects are clustered by k-means on the directions of their
    rows of the left ones.
    """
    codes = counted_codes(labels)
    sizes = task.ensemble.marginals[labels.table_rows].astype(np.float64)
    weight = np.concatenate([*object_sums(task, labels, sizes[:, None], codes)])[:, 0]
    gram = LabelGram(labels, codes, 1.0 / weight, np.ones(len(sizes)))
    values, vectors = leading_vectors(gram, task.k)
    table = np.column_stack([vectors / np.sqrt(values), np.ones(len(vectors))])
    return cluster_objects(task, labels, table)[0]


def counted_codes(labels: LabelContingency) -> Codes:
    """Return the codes of the objects that were counted, (r, m), on the host."""
    codes: Codes = to_host(labels.codes)
    return codes


def object_sums(
    task: Task, labels: LabelContingency, values: FloatArray, codes: Any
) -> Iterator[FloatArray]:
    """Sum values (S, c) over the labels of each object, in the order of partitions.

    Yields
    ------
    sums : ndarray of shape (some, c)
        Of one range of objects after another.
    """
    offsets, backend = task.ensemble.offsets, task.backend
    there = backend.to_device(_with_missing(offsets, labels, values))
    for _, some in _blocks(task, codes).blocks(values.shape[1]):
        yield backend.to_host(backend.scores(some, offsets, there))[:, 0]


def _blocks(task: Task, codes: Any) -> CodeBlocks:
    limit = min(_SUMS, task.memory_limit or _SUMS)  # sums are copied a few times
    return CodeBlocks(task.backend, codes, task.ensemble.offsets, limit)


def _with_missing(
    offsets: IntArray, labels: LabelContingency, values: FloatArray
) -> FloatArray:
    """Return values (S, c) as a table (S, 1, c) with rows for missing labels."""
    table = np.zeros((int(offsets[-1]), 1, values.shape[1]))
    table[labels.table_rows, 0] = values
    return table


class LabelGram(NamedTuple):
    """F X' W X F, X the one-hot labels of the objects: multiplied out only where small.

    Attributes
    ----------
    labels : LabelContingency
    codes : ndarray of shape (r, m)
        Of the objects that were counted, on the host.
    weight : ndarray of shape (m,)
        The diagonal of W, positive.
    factor : ndarray of shape (S,)
        The diagonal of F.
    """

    labels: LabelContingency
    codes: Codes
    weight: FloatArray
    factor: FloatArray

    def toarray(self) -> FloatArray:
        """Return the whole matrix, (S, S)."""
        self.labels.check_pairs()
        gram = weighted_common(self.labels, self.codes, self.weight)
        gram *= self.factor
        gram *= self.factor[:, None]
        return gram

    def product(self) -> Callable[[FloatArray], FloatArray]:
        """Return what multiplies a vector by the matrix, going through the objects."""
        from scipy.sparse import csr_array

        self.labels.check_memory(_ENTRY_BYTES * self.codes.size)
        present = self.labels.n_labels > self.codes.T
        label = self.codes.T + self.labels.begins[:-1]
        begins = np.concatenate([[0], np.cumsum(present.sum(axis=1))])
        whole = np.int32 if begins[-1] < 2**31 else np.int64
        column = label[present].astype(whole)
        root = np.repeat(np.sqrt(self.weight), np.diff(begins))
        shape = (len(self.weight), len(self.factor))
        rows = csr_array(
            (root * self.factor[column], column, begins.astype(whole)), shape=shape
        )
        columns = rows.T.tocsr()
        return lambda v: np.asarray(columns @ (rows @ v))


def weighted_common(
    labels: LabelContingency, codes: Codes, weight: FloatArray
) -> FloatArray:
    """Sum the weights of the objects that carry two labels, for all pairs, (S, S).

    Objects whose weights are of one power of two are added together, their weights
    rounded to 33 bits: such sums are whole numbers, exact in any order.

    Parameters
    ----------
    labels : LabelContingency
    codes : ndarray of shape (r, m)
        Of the objects that were counted, on the host.
    weight : ndarray of shape (m,)
        Positive.
    """
    if (weight == weight[0]).all():
        return np.asarray(labels.common * weight[0])
    power = np.frexp(weight)[1]
    total = np.zeros((labels.n_all, labels.n_all))
    for one in np.unique(power).tolist():
        objects = np.flatnonzero(power == one)
        units = np.rint(np.ldexp(weight[objects], _BITS - one))
        sums = np.zeros(total.shape, dtype=np.int64)
        for begin in range(0, len(objects), _CHUNK):
            some = slice(begin, begin + _CHUNK)
            _add_pairs(sums, labels, codes[:, objects[some]], units[some])
        total += np.ldexp(sums.astype(np.float64), one - _BITS)
    lower = np.tril_indices(len(total), -1)
    total[lower] = total.T[lower]
    return total


def _add_pairs(
    sums: IntArray, labels: LabelContingency, codes: Codes, units: FloatArray
) -> None:
    """Add whole numbers to the pairs of labels of each object, above the diagonal."""
    k, begins = labels.n_labels.tolist(), labels.begins
    wide = codes.astype(np.intp)
    for i, k_i in enumerate(k):
        for m in range(i, len(k)):
            cell = wide[i] * (k[m] + 1) + wide[m]
            n_cells = (k_i + 1) * (k[m] + 1)
            block = np.bincount(cell, weights=units, minlength=n_cells)
            block = block.reshape(k_i + 1, k[m] + 1)[:k_i, : k[m]]
            sums[begins[i] : begins[i + 1], begins[m] : begins[m + 1]] += block.astype(
                np.int64
            )


def leading_vectors(
    matrix: FloatArray | LabelGram, n_vectors: int
) -> tuple[FloatArray, FloatArray]:
    """Return the largest eigenvalues, falling, and their vectors as columns.

    Fewer where the rank is lower. The entry of largest size of a vector is positive.
    """
    with one_thread():
        values, vectors = _eigenvectors(matrix, n_vectors)
    order = np.argsort(-values, kind="stable")
    values, vectors = values[order], vectors[:, order]
    real = values > _RANK * values[0]
    values, vectors = values[real], vectors[:, real]
    peak = np.abs(vectors).argmax(axis=0)
    sign = np.sign(vectors[peak, np.arange(len(values))])
    return values, vectors * sign


def _eigenvectors(
    matrix: FloatArray | LabelGram, n_vectors: int
) -> tuple[FloatArray, FloatArray]:
    """Return the largest eigenvalues and their vectors, in any order.

    By iteration where the matrix is large, or takes long to make. Where many
    eigenvalues are equal, as with labels that fall apart into more groups than are
    asked for, that may find no end: the whole matrix is reduced then, which takes
    longer.
    """
    from scipy.linalg import eigh
    from scipy.sparse.linalg import ArpackError

    gram = matrix if isinstance(matrix, LabelGram) else None
    whole: Any = matrix
    size = len(matrix) if gram is None else len(gram.factor)
    k = min(n_vectors, size)
    slow = gram is not None and len(gram.weight) > _MANY
    if (size > _DENSE or slow) and 4 * k <= size:
        start = np.random.default_rng(0).random(size) + 0.5
        try:
            times = whole.__matmul__ if gram is None else gram.product()
            return iterate_eigenvectors(times, size, k, start)
        except ArpackError:
            pass
    if gram is not None:
        whole = gram.toarray()
    values, vectors = eigh(whole, subset_by_index=(size - k, size - 1))
    if len(values) < k:  # LAPACK loses some of those that are all but equal
        values, vectors = eigh(whole, driver="evd")
        values, vectors = values[size - k :], vectors[:, size - k :]
    return values, vectors


def cluster_objects(
    task: Task, labels: LabelContingency, table: FloatArray
) -> tuple[npt.NDArray[np.intp], int]:
    """Run k-means on the directions of the objects.

    Parameters
    ----------
    task : Task
    labels : LabelContingency
    table : ndarray of shape (S, c + 1)
        What each label adds to the place of its objects, and in the last column to
        what that place is divided by.

    Returns
    -------
    clusters : ndarray of shape (n,)
    n_learned : int
        Objects that the centres were learned from, drawn by the seed.
    """
    rng = task.rng()
    seed, n = int(rng.integers(2**31 - 1)), task.ensemble.n_samples
    if n <= KMEANS_OBJECTS:
        codes = task.ensemble.all_codes()
        sums = np.concatenate([*object_sums(task, labels, table, codes)])
        points = _directions(sums)
        return nearest(points, _centres(points, task.k, seed)), n
    drawn = np.sort(rng.choice(n, KMEANS_OBJECTS, replace=False))
    codes = task.ensemble.codes_of(drawn)
    sums = np.concatenate([*object_sums(task, labels, table, codes)])
    centres = _centres(_directions(sums), task.k, seed)
    elsewhere = task.ensemble.elsewhere
    whole = _with_missing(task.ensemble.offsets, labels, table)
    if elsewhere is not None:
        return elsewhere.nearest(whole, centres), KMEANS_OBJECTS
    blocks = _blocks(task, task.ensemble.codes)
    return nearest_centres(blocks, whole, centres), KMEANS_OBJECTS


def nearest_centres(
    blocks: CodeBlocks, table: FloatArray, centres: FloatArray
) -> npt.NDArray[np.intp]:
    """Return the nearest centre of the direction of each object, (n,).

    ``table`` (S, 1, c + 1) has rows for missing labels too.
    """
    there, found = blocks.backend.to_device(table), []
    for _, some in blocks.blocks(table.shape[2]):
        sums = blocks.backend.scores(some, blocks.offsets, there)
        found.append(nearest(_directions(blocks.backend.to_host(sums)[:, 0]), centres))
    return np.concatenate(found)


def _directions(sums: FloatArray) -> FloatArray:
    return unit_rows(sums[:, :-1] / sums[:, -1:])


def _centres(points: FloatArray, n_clusters: int, seed: int) -> FloatArray:
    model = fit_kmeans(points, np.ones(len(points)), n_clusters, seed)
    return np.asarray(model.cluster_centers_)


def nearest(points: FloatArray, centres: FloatArray) -> npt.NDArray[np.intp]:
    """Return the nearest centre of each point, the first of equals.

    One dimension after another, so that no sum depends on how the points were cut.

    Examples
    --------
    >>> nearest(np.array([[0.0, 1.0], [2.0, 2.0]]), np.array([[0.0, 0], [2, 1]]))
    array([0, 1])
    """
    distance = np.zeros((len(points), len(centres)))
    for column, centre in zip(points.T, centres.T, strict=True):
        distance += np.square(column[:, None] - centre)
    return np.asarray(distance.argmin(axis=1))


def normalised_cut(
    task: Task,
    labels: LabelContingency,
    edges: FloatArray,
    clusters: npt.NDArray[np.intp],
) -> tuple[float, float]:
    """Return the normalised cut of the objects, and what is not cut.

    Two objects are tied by sum_i e_j / n_j over the labels j that both carry, n_j the
    objects of the label. Of the ties of each cluster a share stays inside; the shares
    add up to the second number, and what they lack of 1 to the first.
    """
    counts = task.count(task.ensemble, clusters, task.k)[labels.table_rows]
    size = np.maximum(counts.sum(axis=1, keepdims=True), 1)
    inside = edges[:, None] * (counts * (counts / size))
    volume = edges[:, None] * counts
    shares = [
        math.fsum(inside[:, k]) / math.fsum(volume[:, k])
        for k in np.flatnonzero(counts.any(axis=0))
    ]
    return math.fsum(1.0 - share for share in shares), math.fsum(shares)
