"""Leading eigenvectors by iteration, with none of a multiple eigenvalue lost."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpu_consensus.util.checks import FloatArray

_GLANCE = 1e-3  # accuracy that is enough to see whether an eigenvalue was missed
_EQUAL = 1e-9  # eigenvalues closer than this share of the largest are one


def iterate_eigenvectors(
    multiply: Callable[[FloatArray], FloatArray],
    size: int,
    n_vectors: int,
    start: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the largest eigenvalues of a symmetric matrix and their vectors.

    One vector, multiplied again and again, shows a multiple eigenvalue once: of labels
    that fall apart into groups, all with eigenvalue 1, groups would be lost. So what is
    left of the matrix without the vectors that were found is looked at once more, until
    it has no larger eigenvalue.

    Parameters
    ----------
    multiply : callable
        Maps a vector (size,) to its product with the matrix.
    size, n_vectors : int
        Rows of the matrix, and how many vectors, fewer than these.
    start : ndarray of shape (size,)
        What the iteration starts from.

    Returns
    -------
    values : ndarray of shape (n_vectors,)
        In any order.
    vectors : ndarray of shape (size, n_vectors)

    Examples
    --------
    >>> diagonal = np.repeat([3.0, 2.0, 1.0], [4, 10, 200])
    >>> start = np.linspace(0.5, 1.5, 214)
    >>> values, _ = iterate_eigenvectors(lambda v: diagonal * v, 214, 5, start)
    >>> sorted(values.round(6).tolist())
    [2.0, 3.0, 3.0, 3.0, 3.0]
    """
    from scipy.sparse.linalg import LinearOperator, eigsh

    def largest(
        of: Callable[[FloatArray], FloatArray],
        k: int,
        start: FloatArray,
        accuracy: float = 0.0,
    ) -> tuple[FloatArray, FloatArray]:
        form = LinearOperator((size, size), matvec=of, dtype=float)
        values, vectors = eigsh(form, k, which="LA", v0=start, tol=accuracy)
        return values, vectors

    values, vectors = largest(multiply, n_vectors, start)
    rng = np.random.default_rng(0)
    for _ in range(n_vectors):
        fresh = rng.standard_normal(size)  # what was missed is orthogonal to the old

        def rest(
            v: FloatArray, values: FloatArray = values, vectors: FloatArray = vectors
        ) -> FloatArray:
            return multiply(v) - vectors @ (values * (vectors.T @ v))

        slack = _EQUAL * values.max()
        if np.abs(rest(fresh)).max() <= slack * np.abs(fresh).max():
            break  # there is no more
        if largest(rest, 1, fresh, _GLANCE)[0][0] <= values.min() + slack:
            break
        more, vector = largest(rest, 1, fresh)
        low = int(values.argmin())
        values, vectors = values.copy(), vectors.copy()
        values[low], vectors[:, low] = more[0], vector[:, 0]
    return values, vectors
