"""The graphs that are cut into clusters.

Each kind offers the same few things:

- ``connect(indicator)``: the weight between each vertex and each part, (m, K);
- ``column(vertex)``: the weight between one vertex and all others, (m,);
- ``adjacency()``: the edges as CSR, symmetric, without loops;
- ``embedding(n_parts, rng)``: one unit vector (or zero) per vertex, (m, <= K);
- ``copies``: the weights of k-means on it, (m,);
- ``n_objects``: of the first so many vertices each part has to hold one;
- ``n_ties``: the number of edges, or of vertices over all hyperedges.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.graphs.eigenvectors import iterate_eigenvectors
from gpu_consensus.util.checks import FloatArray
from gpu_consensus.util.threads import one_thread

DENSE = 1000  # up to this many rows, eigenvectors come from a dense matrix
_RANK = 1e-7  # singular values below this are rounding
_ROUNDING = 1e-12  # so are rows of eigenvectors shorter than this

Parts = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Similarity:
    """A graph given by its edges.

    Attributes
    ----------
    matrix : scipy CSR of shape (m, m)
        Symmetric, not negative, without a diagonal.
    loops : ndarray of shape (m,)
        Weight of each vertex with itself: uncuttable, but part of its degree.
    copies : ndarray of shape (m,)
    factor : scipy CSR of shape (m, S), optional
        F with F F' = matrix + loops, if known: eigenvectors are then had for less.
    """

    matrix: Any
    loops: FloatArray
    copies: FloatArray
    factor: Any = None

    @property
    def n_vertices(self) -> int:
        """Number of vertices."""
        return int(self.matrix.shape[0])

    @property
    def n_objects(self) -> int:
        """Number of vertices, all of which count."""
        return self.n_vertices

    @property
    def n_ties(self) -> int:
        """Number of edges."""
        return int(self.matrix.nnz) // 2

    def connect(self, indicator: FloatArray) -> FloatArray:
        """Return the weight between each vertex and each part."""
        return np.asarray(self.matrix @ indicator)

    def column(self, vertex: int) -> FloatArray:
        """Return the weight between one vertex and all others."""
        column = np.zeros(self.n_vertices)
        begin, end = self.matrix.indptr[vertex : vertex + 2]
        column[self.matrix.indices[begin:end]] = self.matrix.data[begin:end]
        return column

    def adjacency(self) -> Any:
        """Return the edges."""
        return self.matrix

    def embedding(self, n_parts: int, rng: np.random.Generator) -> FloatArray:
        """Return the leading eigenvectors of D^-1/2 A D^-1/2, rows of length 1."""
        from scipy.sparse import diags_array

        degree = np.asarray(self.matrix.sum(axis=1)).ravel() + self.loops
        scale = _inverse_root(degree)
        if self.factor is not None:
            scaled = (diags_array(scale) @ self.factor).tocsr()
            return unit_rows(singular_vectors(scaled, n_parts, rng)[0])
        scaled = diags_array(scale) @ self.matrix @ diags_array(scale)
        scaled = scaled + diags_array(scale * self.loops * scale)
        _, vectors = leading_eigenvectors(scaled, n_parts, rng)
        return unit_rows(vectors)


@dataclass(frozen=True)
class Bipartite:
    """Objects tied to their clusters: vertices are the rows, then the columns.

    Attributes
    ----------
    incidence : scipy CSR of shape (m, S)
        Weights of the edges.
    copies : ndarray of shape (m + S,)
    """

    incidence: Any
    copies: FloatArray

    @property
    def n_vertices(self) -> int:
        """Number of vertices, both kinds."""
        return int(sum(self.incidence.shape))

    @property
    def n_objects(self) -> int:
        """Number of rows."""
        return int(self.incidence.shape[0])

    @property
    def n_ties(self) -> int:
        """Number of edges."""
        return int(self.incidence.nnz)

    def connect(self, indicator: FloatArray) -> FloatArray:
        """Return the weight between each vertex and each part."""
        m = self.incidence.shape[0]
        rows = self.incidence @ indicator[m:]
        return np.vstack([rows, self.incidence.T @ indicator[:m]])

    def column(self, vertex: int) -> FloatArray:
        """Return the weight between one vertex and all others."""
        m = self.incidence.shape[0]
        column = np.zeros(self.n_vertices)
        if vertex < m:
            column[m:] = self.incidence[[vertex]].toarray()[0]
        else:
            column[:m] = self.incidence[:, [vertex - m]].toarray()[:, 0]
        return column

    def adjacency(self) -> Any:
        """Return the edges."""
        from scipy.sparse import block_array

        upper = [None, self.incidence]
        return block_array([upper, [self.incidence.T, None]], format="csr")

    def embedding(self, n_parts: int, rng: np.random.Generator) -> FloatArray:
        """Return the leading singular vectors of both sides, rows of length 1."""
        left, _, right = bipartite_vectors(self.incidence, n_parts, rng)
        return np.vstack([unit_rows(left), unit_rows(right)])


@dataclass(frozen=True)
class Hypergraph:
    """Objects joined by hyperedges, seen as a graph by its clique expansion.

    A hyperedge of weight w over d objects counts w / (d - 1) for each pair, so that
    parting one object from the others costs w, as in the hypergraph.

    Attributes
    ----------
    incidence : scipy CSR of shape (m, S)
        1 where a vertex lies in a hyperedge.
    edge_weights : ndarray of shape (S,)
    copies : ndarray of shape (m,)
        Objects of each vertex.
    """

    incidence: Any
    edge_weights: FloatArray
    copies: FloatArray

    @property
    def n_vertices(self) -> int:
        """Number of vertices."""
        return int(self.incidence.shape[0])

    @property
    def n_objects(self) -> int:
        """Number of vertices, all of which count."""
        return self.n_vertices

    @property
    def n_ties(self) -> int:
        """Number of vertices over all hyperedges."""
        return int(self.incidence.nnz)

    @cached_property
    def pair_weights(self) -> FloatArray:
        """The weight of each pair of objects of each hyperedge, (S,)."""
        sizes = self.incidence.T @ self.copies
        return np.asarray(self.edge_weights / np.maximum(sizes - 1, 1))

    def connect(self, indicator: FloatArray) -> FloatArray:
        """Return the weight between each vertex and each part."""
        pair, s = self.pair_weights, self.copies[:, None]
        inside = self.incidence.T @ (s * indicator)
        own = self.copies**2 * (self.incidence @ pair)
        weight = s * (self.incidence @ (pair[:, None] * inside))
        return np.asarray(weight - own[:, None] * indicator)

    def column(self, vertex: int) -> FloatArray:
        """Return the weight between one vertex and all others."""
        begin, end = self.incidence.indptr[vertex : vertex + 2]
        edges = self.incidence.indices[begin:end]
        weight = np.zeros(self.incidence.shape[1])
        weight[edges] = self.pair_weights[edges]
        column = self.copies[vertex] * self.copies * (self.incidence @ weight)
        column[vertex] = 0.0
        return np.asarray(column)

    def adjacency(self) -> Any:
        """Return the edges of the clique expansion: up to m^2 of them."""
        from scipy.sparse import diags_array

        scaled = diags_array(self.copies) @ self.incidence
        adjacency = scaled @ diags_array(self.pair_weights) @ scaled.T
        adjacency = (adjacency - diags_array(adjacency.diagonal())).tocsr()
        adjacency.eliminate_zeros()
        return adjacency

    def star(self) -> Bipartite:
        """Return the star expansion: a vertex more for each hyperedge."""
        from scipy.sparse import diags_array

        scaled = diags_array(self.copies) @ self.incidence
        edges = (scaled @ diags_array(self.edge_weights)).tocsr()
        return Bipartite(edges, np.append(self.copies, self.edge_weights))

    def embedding(self, n_parts: int, rng: np.random.Generator) -> FloatArray:
        """Return the vectors of the normalised hypergraph Laplacian.

        Zhou, Huang and Schoelkopf, Learning with hypergraphs, NIPS 2006.
        """
        left, _, _ = bipartite_vectors(self.star().incidence, n_parts, rng)
        return unit_rows(left)

    def cut_weight(self, parts: Parts) -> float:
        """Return the weight of the hyperedges that reach into more than one part."""
        columns = self.incidence.tocsc()
        label = parts[columns.indices]
        begin = columns.indptr[:-1]
        cut = np.minimum.reduceat(label, begin) != np.maximum.reduceat(label, begin)
        return float(self.edge_weights[cut].sum())


Graph = Similarity | Bipartite | Hypergraph


def cut_weight(graph: Graph, parts: Parts, n_parts: int) -> float:
    """Return the weight of the edges between different parts."""
    tie = graph.connect(np.eye(n_parts)[parts])
    within = np.take_along_axis(tie, parts[:, None], 1)[:, 0]
    return max(float(tie.sum() - within.sum()) / 2, 0.0)


def bipartite_vectors(
    incidence: Any, n_vectors: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the leading singular triplets of D1^-1/2 X D2^-1/2.

    Parameters
    ----------
    incidence : scipy CSR of shape (m, S)
        X, not negative.
    n_vectors : int
        How many; fewer come back where the rank is lower.
    rng : Generator
        Draws the start of the iteration for large X.

    Returns
    -------
    left : ndarray of shape (m, k)
    values : ndarray of shape (k,)
        Falling from 1.
    right : ndarray of shape (S, k)
    """
    from scipy.sparse import diags_array

    rows = _inverse_root(np.asarray(incidence.sum(axis=1)).ravel())
    columns = _inverse_root(np.asarray(incidence.sum(axis=0)).ravel())
    scaled = (diags_array(rows) @ incidence @ diags_array(columns)).tocsr()
    return singular_vectors(scaled, n_vectors, rng)


def singular_vectors(
    matrix: Any, n_vectors: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the leading left vectors, values and right vectors of a CSR matrix."""
    wide = matrix.shape[0] < matrix.shape[1]
    tall = matrix.T.tocsr() if wide else matrix
    squares, short = leading_eigenvectors(_Gram(tall), n_vectors, rng)
    values = np.sqrt(np.maximum(squares, 0.0))
    short, values = short[:, values > _RANK], values[values > _RANK]
    long = (tall @ short) / values
    return (short, values, long) if wide else (long, values, short)


class _Gram:
    """X'X, multiplied out only where it is small."""

    def __init__(self, matrix: Any) -> None:
        self.matrix, self.transposed = matrix, matrix.T.tocsr()
        self.shape = (matrix.shape[1],) * 2

    def toarray(self) -> FloatArray:
        return np.asarray((self.transposed @ self.matrix).toarray())

    def __matmul__(self, vector: FloatArray) -> FloatArray:
        return np.asarray(self.transposed @ (self.matrix @ vector))


def leading_eigenvectors(
    matrix: Any, n_vectors: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return the largest eigenvalues, falling, and their vectors as columns."""
    from scipy.linalg import eigh

    m = matrix.shape[0]
    k = min(n_vectors, m)
    with one_thread():  # no sum may depend on the number of threads
        if m <= DENSE or k > m // 4:
            values, vectors = eigh(matrix.toarray(), subset_by_index=[m - k, m - 1])
        else:
            start = rng.random(m) + 0.5
            values, vectors = iterate_eigenvectors(matrix.__matmul__, m, k, start)
    order = np.argsort(-values, kind="stable")
    return values[order], vectors[:, order]


def unit_rows(vectors: FloatArray) -> FloatArray:
    """Scale each row to length 1; rows that are 0 up to rounding become 0."""
    length = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
    unit: FloatArray = np.zeros(vectors.shape)
    np.divide(vectors, length, out=unit, where=length > _ROUNDING)
    return unit


def _inverse_root(degree: FloatArray) -> FloatArray:
    root = np.sqrt(degree)
    return np.divide(1.0, root, out=np.zeros(root.shape), where=root > 0)
