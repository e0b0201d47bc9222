"""Made data with what real tables and texts have.

Classes of several modes, long tails, features that repeat each other; words that all
topics share.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .quality_makers import FloatArray, IntArray, Made, mixture, sizes_of

_BACKGROUND = 0.5  # share of the words of a document that are of no topic
_LENGTH = 0.5  # deviation of the logarithm of the length of a document


def tables(
    seed: int,
    n: int,
    k: int,
    d: int,
    modes: int = 3,
    ratio: float = 1.0,
    separation: float = 1.5,
    redundant: int = 0,
    tails: float = 0.0,
) -> Made:
    """Draw classes each of which consists of Gaussians near each other.

    Parameters
    ----------
    seed : int
    n, k, d : int
        Objects, classes and features that tell them apart.
    modes : int, default 3
        Gaussians of a class: a centre and those nearest to it that are free yet.
    ratio : float, default 1
        Largest Gaussian to smallest.
    separation : float, default 1.5
        Of the Gaussians, as :func:`mixture` has it.
    redundant : int, default 0
        Features that are sums of others.
    tails : float, default 0
        How far features are stretched: each becomes sinh(tails x) / tails.
    """
    X, part = mixture(seed, n, k * modes, d, ratio, "full", separation)
    centres = np.array([X[part == one].mean(axis=0) for one in range(k * modes)])
    y = _grouped(centres, modes)[part]
    rng = np.random.default_rng([seed, 1880])
    X = np.hstack([X, X @ rng.normal(size=(d, redundant)) / np.sqrt(d)])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return (np.sinh(tails * X) / tails if tails > 0 else X), y


def _grouped(centres: FloatArray, size: int) -> IntArray:
    """Return groups of equal size: the first free centre and the nearest free ones."""
    group = np.full(len(centres), -1, dtype=np.int64)
    while (free := np.flatnonzero(group < 0)).size:
        apart = np.linalg.norm(centres[free] - centres[free[0]], axis=1)
        group[free[np.argsort(apart, kind="stable")[:size]]] = group.max() + 1
    return group


def topics(
    seed: int, n: int, k: int, words: int, length: int, ratio: float = 1.0
) -> tuple[Any, npt.NDArray[np.int64]]:
    """Draw documents: half of their words are of their topic, half are any.

    Parameters
    ----------
    seed : int
    n, k : int
        Documents and topics.
    words : int
        Different words. How often each is used falls as its rank rises (Zipf).
    length : int
        Words of a document, the median.
    ratio : float, default 1
        Largest topic to smallest.

    Returns
    -------
    counts : CSR matrix of shape (n, words)
    y : ndarray of shape (n,)
    """
    from scipy.sparse import csr_matrix

    rng = np.random.default_rng([seed, 1881])
    y = np.repeat(np.arange(k), sizes_of(n, k, ratio))
    common = 1.0 / np.arange(1, words + 1)
    common /= common.sum()
    own = common * rng.gamma(0.2, size=(k, words))
    own /= own.sum(axis=1, keepdims=True)
    shares = _BACKGROUND * common + (1.0 - _BACKGROUND) * own
    lengths = np.rint(length * np.exp(_LENGTH * rng.normal(size=n))).astype(np.int64)
    rows = [
        rng.multinomial(max(5, size), shares[label])
        for size, label in zip(lengths, y, strict=True)
    ]
    return csr_matrix(np.array(rows, dtype=np.float64)), y


MAKERS: dict[str, Any] = {"tables": tables, "topics": topics}
"""By the name that the list of sets gives."""
