"""Distances and similarities of all pairs of objects, and points behind distances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpu_consensus.util.checks import FloatArray
from gpu_consensus.util.sparse import is_sparse

_BLOCK = 1 << 14  # rows in memory at a time


def rms_distance(X: Any) -> float:
    """Return the root mean square distance of two different rows, in O(n d).

    The mean of |x_l - x_m|^2 over pairs is 2 / (n - 1) times the sum of the squared
    distances to the mean row.

    Examples
    --------
    >>> import numpy as np
    >>> rms_distance(np.array([[0.0, 3.0], [4.0, 0.0]]))
    5.0
    """
    n = X.shape[0]
    if n < 2:
        return 0.0
    # by a power of two, so that no square passes the range of floats; exact
    power = math.frexp(max(abs(float(X.max())), abs(float(X.min()))))[1]
    if is_sparse(X):
        mean = np.asarray(X.sum(axis=0, dtype=np.float64)).ravel() / n
        mean = np.ldexp(mean, -power)
        squares = np.ldexp(X.data.astype(np.float64), -power) ** 2
        total = float(squares.sum()) - n * float(mean @ mean)
    else:
        mean = X.mean(axis=0, dtype=np.float64)
        total = sum(
            float((np.ldexp(X[begin : begin + _BLOCK] - mean, -power) ** 2).sum())
            for begin in range(0, n, _BLOCK)
        )
    return math.ldexp(math.sqrt(max(0.0, 2.0 * total / (n - 1))), power)


def pairwise_distances(X: Any) -> FloatArray:
    """Return the Euclidean distances of all pairs of rows, (n, n)."""
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(X, X), dtype=np.float64)


def neighbour_scale(distances: FloatArray) -> float:
    """Return the mean distance to the k-th nearest neighbour, k = log(n) + 1.

    Natural logarithm, rounded down; an object is not its own neighbour.

    References
    ----------
    U. von Luxburg, "A tutorial on spectral clustering", Statistics and Computing 17,
    2007, section 8.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([0.0, 1.0, 3.0])
    >>> neighbour_scale(abs(x[:, None] - x))  # k = 2
    2.6666666666666665
    """
    n = len(distances)
    if n < 2:
        return 0.0
    k = min(int(math.log(n)) + 1, n - 1)
    return float(np.partition(distances, k, axis=1)[:, k].mean())


def gaussian_similarity(X: Any) -> FloatArray:
    """Return exp(-|x_l - x_m|^2 / (2 sigma^2)), sigma by :func:`neighbour_scale`.

    Where sigma is 0, because most rows have many equals, it is 1 for equal rows and 0
    for others, to which it then tends.

    Examples
    --------
    >>> import numpy as np
    >>> gaussian_similarity(np.array([[0.0], [1.0]])).round(4).tolist()
    [[1.0, 0.6065], [0.6065, 1.0]]
    """
    distances = pairwise_distances(X)
    sigma = neighbour_scale(distances)
    if sigma == 0:
        return np.asarray(distances == 0, dtype=np.float64)
    similar: FloatArray = np.exp(-((distances / sigma) ** 2) / 2)
    return similar


def torgerson(distances: FloatArray) -> FloatArray:
    """Return points whose distances are those given, as far as points can have them.

    Classical multidimensional scaling: the coordinates are the eigenvectors of
    -J D^2 J / 2 (J centres rows and columns; D^2 squares each distance) times the
    roots of their eigenvalues. Negative eigenvalues, which distances of no Euclidean
    space have, are left out. O(n^3).

    References
    ----------
    W. S. Torgerson, "Multidimensional scaling: I. Theory and method", Psychometrika
    17, 1952.

    Examples
    --------
    >>> import numpy as np
    >>> distances = np.array([[0.0, 3.0, 5.0], [3.0, 0.0, 4.0], [5.0, 4.0, 0.0]])
    >>> bool(np.allclose(pairwise_distances(torgerson(distances)), distances))
    True
    """
    from scipy.linalg import eigh

    products = distances**2
    products -= products.mean(axis=0)
    products -= products.mean(axis=1)[:, None]
    products *= -0.5
    values, vectors = eigh(products, overwrite_a=True)
    kept = values > 1e-12 * max(float(values[-1]), 0.0)
    if not kept.any():
        return np.zeros((len(distances), 1))
    points: FloatArray = vectors[:, kept] * np.sqrt(values[kept])
    return points
