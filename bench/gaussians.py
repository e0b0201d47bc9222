"""Gaussian clusters and k-means partitions of them, as in the least-squares paper."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import gpu_consensus as gpc


def make_gaussians(
    seed: int,
    n_samples: int = 1000,
    n_features: int = 12,
    n_clusters: int = 9,
    variance: tuple[float, float] = (0.1, 0.3),
    centre_variance: float = 0.7,
    equal: bool = True,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Draw spherical Gaussian clusters (section 3 of the least-squares paper).

    Parameters
    ----------
    seed : int
    n_samples, n_features, n_clusters : int
    variance : (float, float)
        The variance of each cluster is uniform between these.
    centre_variance : float
        Components of the centres are normal with this variance around 0. The paper
        writes N(0, 0.7).
    equal : bool, default True
        Whether an object comes from each cluster with the same probability; else the
        probabilities are drawn, all being equally likely. The paper does not say.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
    """
    rng = np.random.default_rng([seed, 2013])
    spread = np.sqrt(rng.uniform(*variance, size=n_clusters))
    centres = rng.normal(0.0, np.sqrt(centre_variance), size=(n_clusters, n_features))
    share = np.full(n_clusters, 1 / n_clusters)
    if not equal:
        share = rng.dirichlet(np.ones(n_clusters))
    y = rng.choice(n_clusters, size=n_samples, p=share)
    X = centres[y] + spread[y, None] * rng.normal(size=(n_samples, n_features))
    return X, y


def kmeans_partitions(
    X: npt.NDArray[np.float64],
    k_range: tuple[int, int],
    seed: int,
    n_partitions: int = 50,
) -> gpc.Ensemble:
    """Run k-means many times from random centres, with k uniform in ``k_range``."""
    return gpc.generate_partitions(
        X, n_partitions, "rps", k_range=k_range, base=_random_centres, random_state=seed
    )


def _random_centres(X: Any, n_clusters: int, seed: int) -> npt.NDArray[np.int32]:
    from sklearn.cluster import KMeans

    model = KMeans(n_clusters, init="random", n_init=1, random_state=seed)
    labels: npt.NDArray[np.int32] = model.fit_predict(X)
    return labels
