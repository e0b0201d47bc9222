"""Ensembles of any size with planted clusters, and their one-hot form."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import gpu_consensus as gpc

STRAY = 0.5
"""Share of labels that do not follow the planted cluster."""


def make_ensemble(
    n_samples: int,
    n_partitions: int,
    n_clusters: int,
    seed: int,
    stray_share: float = STRAY,
) -> tuple[gpc.Ensemble, npt.NDArray[np.int64]]:
    """Return an ensemble and the planted clusters.

    Every partition has K_i drawn from 10..300 labels, each owned by a planted cluster.
    A label is drawn among those of the object's cluster or, half of them by default,
    among all.
    Clusters are of unequal size and their objects in random order.

    Parameters
    ----------
    n_samples, n_partitions, n_clusters : int
    seed : int
    stray_share : float
        Share of the labels that are drawn among all.
    """
    rng = np.random.default_rng(seed)
    size = np.arange(1, n_clusters + 1, dtype=np.float64)
    planted = rng.choice(n_clusters, n_samples, p=size / size.sum())
    codes = np.empty((n_partitions, n_samples), dtype=np.uint16)
    n_labels = []
    for i in range(n_partitions):
        k_i = int(rng.integers(max(10, n_clusters), 301))
        others = rng.integers(n_clusters, size=k_i - n_clusters)
        owner = np.sort(np.append(np.arange(n_clusters), others))
        bounds = np.searchsorted(owner, np.arange(n_clusters + 1))
        first, width = bounds[:-1][planted], np.diff(bounds)[planted]
        labels = first + (rng.random(n_samples) * width).astype(np.int64)
        stray = rng.random(n_samples) >= 1 - stray_share
        labels[stray] = rng.integers(k_i, size=int(stray.sum()))
        used = np.bincount(labels, minlength=k_i) > 0
        codes[i] = (np.cumsum(used) - 1)[labels]
        n_labels.append(int(used.sum()))
    return gpc.Ensemble.from_codes(codes, n_labels), planted


def one_hot(ensemble: gpc.Ensemble) -> Any:
    """Return the (n_samples, sum K_i) CSR matrix that k-means users build today."""
    import scipy.sparse

    n_samples, n_partitions = ensemble.n_samples, ensemble.n_partitions
    first = np.concatenate([[0], np.cumsum(ensemble.n_labels)])
    indices = (ensemble.codes.T + first[:-1]).astype(np.int32).ravel()
    pointers = np.arange(0, indices.size + 1, n_partitions, dtype=np.int32)
    return scipy.sparse.csr_matrix(
        (np.ones(indices.size), indices, pointers), shape=(n_samples, int(first[-1]))
    )
