"""Data like the given, but of one mode: what clusters are tested against.

All draws keep the variances of the data. Distances are all that k-means sees, so data
of independent principal components is left in their coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from gpu_consensus.util.checks import FloatArray

N_MODES = 21
"""Places where the mode of a column may be."""

Draw = Callable[[np.random.Generator], FloatArray]
"""Draws as many rows as the data has."""

_LEAST_SHARE = 1e-9  # of the largest deviation: what is less is rounding

LEADING_SHARE, MOST_TURNED = 1 / 3, 20
"""Components of at least so much of the largest deviation, and so many, are turned."""

_SWEEPS = 5
_LEAST_TURN = 1e-6  # in radians


class Unimodal(NamedTuple):
    """A distribution function of one mode, linear between its knots.

    Attributes
    ----------
    x, share : ndarray of shape (n_knots,)
        Where the knots are, ascending, and the share of the distribution up to there.
    """

    x: FloatArray
    share: FloatArray

    def quantiles(self, shares: FloatArray) -> FloatArray:
        """Return where the distribution function has these values."""
        return np.interp(shares, self.share, self.x)


def nearest_unimodal(values: FloatArray, n_modes: int = N_MODES) -> Unimodal:
    """Return the distribution function of one mode nearest to that of some values.

    For each of some values as the mode: the greatest convex function below the
    empirical distribution function left of it, the least concave one above it right of
    it. The mode counts whose function is nearest everywhere.

    Parameters
    ----------
    values : ndarray of shape (n,)
    n_modes : int, default 21
        Modes tried, evenly spread over the ranks.

    Returns
    -------
    Unimodal
        Of fewer than three distinct values, the uniform one between them.

    References
    ----------
    Hartigan and Hartigan, The dip test of unimodality, Annals of Statistics 13, 1985.

    Examples
    --------
    >>> import numpy as np
    >>> found = nearest_unimodal(np.array([0.0, 4.0, 5.0, 6.0, 10.0]), 3)
    >>> found.x.tolist(), found.share.round(2).tolist()
    ([-4.0, 4.0, 6.0, 10.0], [0.0, 0.4, 0.8, 1.0])
    """
    x, counts = np.unique(values, return_counts=True)
    if len(x) < 3:
        return Unimodal(x[[0, -1]], np.array([0.0, 1.0]))
    x = np.concatenate([[2 * x[0] - x[1]], x])
    share = np.concatenate([[0.0], np.cumsum(counts) / len(values)])
    spread = np.linspace(0, len(x) - 1, n_modes)
    modes = np.unique(np.round(spread).astype(int)).tolist()
    last = len(x) - 1
    below = _hulls(x.tolist(), share.tolist(), modes)
    # turned by half a circle, what is above the right part is below the left one
    turned = [last - mode for mode in modes]
    above = _hulls((-x[::-1]).tolist(), (1 - share[::-1]).tolist(), turned)
    best, apart = None, np.inf
    for mode in modes:
        right = [last - knot for knot in reversed(above[last - mode])]
        knots = np.array(below[mode] + right[1:])
        found = Unimodal(x[knots], share[knots])
        error = np.abs(np.interp(x, found.x, found.share) - share).max()
        if error < apart:
            best, apart = found, error
    assert best is not None
    return best


def _hulls(x: list[float], y: list[float], ends: Sequence[int]) -> dict[int, list[int]]:
    """Return the knots of the convex function below points 0..end, for some ends.

    One walk over the points: what stands when a point has been added is the function
    of all up to it.
    """
    wanted, found = set(ends), {}
    knots: list[int] = []
    for i in range(len(x)):
        while len(knots) >= 2:
            a, b = knots[-2], knots[-1]
            if (y[b] - y[a]) * (x[i] - x[a]) < (y[i] - y[a]) * (x[b] - x[a]):
                break
            knots.pop()
        knots.append(i)
        if i in wanted:
            found[i] = list(knots)
    return found


def principal_scores(X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the rows in their principal components, and the deviations of these.

    Components without variance are left out.
    """
    centred = X - X.mean(axis=0)
    if X.shape[1] <= X.shape[0]:
        left, length, _ = np.linalg.svd(centred, full_matrices=False)
    else:  # far fewer numbers than the vectors of all features
        squares, left = np.linalg.eigh(centred @ centred.T)
        length, left = np.sqrt(np.maximum(squares[::-1], 0)), left[:, ::-1]
    kept = length > _LEAST_SHARE * max(float(length[0]), 1e-300)
    deviation: FloatArray = length[kept] / np.sqrt(max(len(X) - 1, 1))
    return left[:, kept] * length[kept], deviation


def compact(X: FloatArray) -> FloatArray:
    """Return rows with the same distances in no more columns than there are rows."""
    return principal_scores(X)[0] if X.shape[1] > X.shape[0] else X


def gaussian(X: FloatArray) -> Draw:
    """Draw from the Gaussian with the covariance of the data."""
    scores, deviation = principal_scores(X)
    return lambda rng: rng.normal(size=scores.shape) * deviation


def unimodal_components(X: FloatArray) -> Draw:
    """Draw independent principal components, each of the nearest one mode."""
    scores, deviation = principal_scores(X)
    fits = [nearest_unimodal(column) for column in scores.T]

    def draw(rng: np.random.Generator) -> FloatArray:
        shares = rng.random(scores.shape)
        columns = [fit.quantiles(own) for fit, own in zip(fits, shares.T, strict=True)]
        return _with_moments(np.column_stack(columns), deviation, 1)

    return draw


def flattest_axes(scores: FloatArray) -> FloatArray:
    """Return the rotation of uncorrelated columns onto their flattest axes.

    Columns are turned in pairs until the sum of their fourth moments, which is least
    for the sides of a box, does not fall any more.

    Parameters
    ----------
    scores : ndarray of shape (m, n_columns)
        Of mean 0, variance 1 and no correlation.

    Returns
    -------
    ndarray of shape (n_columns, n_columns)
        Orthogonal: ``scores @ axes`` are the columns along these axes.

    References
    ----------
    Comon, Independent component analysis, a new concept?, Signal Processing 36, 1994.

    Examples
    --------
    >>> import numpy as np
    >>> square = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
    >>> turned = square @ np.array([[0.8, 0.6], [-0.6, 0.8]])
    >>> np.abs(turned @ flattest_axes(turned)).round(9).tolist()
    [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
    """
    turned, axes = scores.T.copy(), np.eye(scores.shape[1])
    for _ in range(_SWEEPS):
        largest = 0.0
        for i in range(len(axes)):
            for j in range(i):
                a, b = turned[i], turned[j]
                # the sum is const + (even cos 4t + odd sin 4t) / 4 after a turn by t
                even = float((a**4 + b**4 - 6 * a**2 * b**2).sum())
                odd = 4 * float((a**3 * b - a * b**3).sum())
                angle = float(np.arctan2(-odd, -even)) / 4
                if abs(angle) <= _LEAST_TURN:
                    continue
                largest = max(largest, abs(angle))
                c, s = np.cos(angle), np.sin(angle)
                turned[i], turned[j] = c * a + s * b, c * b - s * a
                own, other = axes[:, i].copy(), axes[:, j].copy()
                axes[:, i], axes[:, j] = c * own + s * other, c * other - s * own
        if not largest:
            break
    return axes


def unimodal_axes(X: FloatArray) -> Draw:
    """Draw independent scores along the flattest axes, each of the nearest one mode.

    Principal components of about the same deviation have no direction of their own: a
    box that is turned against its columns shows its sides only there.
    """
    scores, deviation = principal_scores(X)
    n = int((deviation[:MOST_TURNED] >= LEADING_SHARE * deviation[0]).sum())
    axes = flattest_axes(scores[:, :n] / deviation[:n])
    turned = scores / deviation
    turned[:, :n] = turned[:, :n] @ axes
    fits = [nearest_unimodal(column) for column in turned.T]

    def draw(rng: np.random.Generator) -> FloatArray:
        shares = rng.random(turned.shape)
        columns = [fit.quantiles(own) for fit, own in zip(fits, shares.T, strict=True)]
        drawn = _with_moments(np.column_stack(columns), np.ones(len(deviation)), 1)
        drawn[:, :n] = drawn[:, :n] @ axes.T
        return drawn * deviation

    return draw


def unimodal_columns(X: FloatArray) -> Draw:
    """Draw columns of the nearest one mode each, correlated by a Gaussian copula."""
    from scipy.special import ndtr, ndtri
    from scipy.stats import rankdata

    m, d = X.shape
    normal = ndtri((rankdata(X, axis=0) - 0.5) / m)
    normal -= normal.mean(axis=0)
    size = np.sqrt((normal**2).sum(axis=0))
    normal /= np.where(size > 0, size, 1)
    if d <= m:  # a square root of the correlations
        squares, vectors = np.linalg.eigh(normal.T @ normal)
        mixing = (vectors * np.sqrt(np.maximum(squares, 0))).T
    else:
        mixing = normal
    fits = [nearest_unimodal(column) for column in X.T]
    deviation = X.std(axis=0)

    def draw(rng: np.random.Generator) -> FloatArray:
        shares = ndtr(rng.normal(size=(m, len(mixing))) @ mixing)
        columns = [fit.quantiles(own) for fit, own in zip(fits, shares.T, strict=True)]
        return _with_moments(np.column_stack(columns), deviation, 0)

    return draw


def _with_moments(drawn: FloatArray, deviation: FloatArray, lost: int) -> FloatArray:
    """Bring columns to mean 0 and to the deviations of the data."""
    drawn -= drawn.mean(axis=0)
    own = drawn.std(axis=0, ddof=lost)
    drawn *= deviation / np.where(own > 0, own, 1)
    return drawn
