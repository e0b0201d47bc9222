"""The KCC objective straight from the distances of the paper (Eq. 36 and Table 3).

Slower and plainer than the library, and made of other formulas: the library goes
through the convex functions, this goes through the distance of every member.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import gpu_consensus as gpc

FloatArray = npt.NDArray[np.float64]


def objective(ensemble: gpc.Ensemble, labels: npt.NDArray[Any], utility: str) -> float:
    """Return F of a consensus.

    Parameters
    ----------
    ensemble : Ensemble
    labels : ndarray of shape (n_samples,)
        The consensus; objects with -1 are left out.
    utility : str
        "c", "h", "cos", "lP", or one of them after "n".
    """
    base = utility[1:] if utility.startswith("n") else utility
    n_clusters = int(labels.max()) + 1
    total = 0.0
    for codes, k_i, weight in zip(
        ensemble.codes, ensemble.n_labels, ensemble.weights, strict=True
    ):
        kept = (codes != k_i) & (labels >= 0)
        if not kept.any():
            continue
        cell = codes[kept].astype(np.int64) * n_clusters + labels[kept]
        found = np.bincount(cell, minlength=int(k_i) * n_clusters)
        counts = found.reshape(-1, n_clusters).astype(np.float64)
        counts = counts[:, counts.sum(axis=0) > 0]
        centroids = counts / counts.sum(axis=0)
        members = counts > 0
        distance = _distance(base, centroids)
        spent = float((counts[members] * distance[members]).sum())
        if utility.startswith("n"):
            scale = _size_of_mu(base, counts.sum(axis=1) / counts.sum())
            spent = spent / scale if scale else 0.0
        total += float(weight) * spent
    return total


def _distance(base: str, m: FloatArray) -> FloatArray:
    """Return f(e_j, m_k) for all labels j and clusters k of one partition."""
    if base == "c":
        return np.asarray(1 - 2 * m + (m**2).sum(axis=0))
    if base == "h":
        with np.errstate(divide="ignore"):
            return np.asarray(-np.log2(m))
    p = _exponent(base)
    norm = (m**p).sum(axis=0) ** (1 / p)
    return np.asarray(1 - (m / norm) ** (p - 1))


def _size_of_mu(base: str, share: FloatArray) -> float:
    share = share[share > 0]
    if base == "c":
        return float((share**2).sum())
    if base == "h":
        return abs(float((share * np.log2(share)).sum()))
    p = _exponent(base)
    return float((share**p).sum() ** (1 / p))


def _exponent(base: str) -> int:
    return 2 if base == "cos" else int(base[1:])
