"""Adjusted Rand indices of many pairs of partitions, from counts of a backend."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.protocol import Backend
from gpu_consensus.ensemble.contingency import n_pairs
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.loop.count_by_cluster import count_many_by_cluster
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.checks import FloatArray, IntArray


def agreement(
    backend: Backend, ensemble: Ensemble, labels: npt.NDArray[np.int32]
) -> FloatArray:
    """Return R_n of each partition with each labelling, (r, R).

    Parameters
    ----------
    backend : Backend
    ensemble : Ensemble
        The partitions.
    labels : ndarray of shape (R, n_samples)
        Consecutive from 0, -1 missing.

    Returns
    -------
    ndarray of shape (n_partitions, R)
        As :func:`~gpu_consensus.metrics.adjusted_rand` has it, but NaN where no object
        has both labels.

    Examples
    --------
    >>> from gpu_consensus.backends import choose_backend
    >>> ens = Ensemble.from_partitions([[0, 0, 1, 1], [0, 1, 2, 2]])
    >>> there = choose_backend("numpy", None)
    >>> agreement(there, ens, np.array([[1, 1, 0, 0]])).round(3).tolist()
    [[1.0], [0.571]]
    """
    n_clusters = max(1, int(labels.max(initial=0)) + 1)
    scores = np.empty((ensemble.n_partitions, len(labels)))
    for some, counts in count_many_by_cluster(
        backend, ensemble.codes, ensemble.offsets, labels, n_clusters
    ):
        for i, start in enumerate(ensemble.offsets[:-1]):
            scores[i, some] = _rand(counts[start : start + ensemble.n_labels[i]])
    return scores


def mean_pairwise(backend: Backend, ensemble: Ensemble) -> float:
    """Return the mean R_n of two different partitions; NaN if there is only one."""
    r = ensemble.n_partitions
    if r < 2:
        return float("nan")
    codes = to_host(ensemble.codes).astype(np.int32)
    labels = np.where(codes == ensemble.n_labels[:, None], -1, codes)
    scores = agreement(backend, ensemble, labels)[np.triu_indices(r, 1)]
    known = scores[~np.isnan(scores)]
    return float(known.mean()) if known.size else float("nan")


def _rand(counts: IntArray) -> FloatArray:
    """Adjusted Rand of R contingency tables, (K_i, R, K) -> (R,)."""
    together = n_pairs(counts).sum(axis=(0, 2))
    first = n_pairs(counts.sum(axis=2)).sum(axis=0)
    second = n_pairs(counts.sum(axis=0)).sum(axis=1)
    common = counts.sum(axis=(0, 2))
    everyone = np.maximum(n_pairs(common), 1)
    chance = first * (second / everyone)
    best = (first + second) / 2
    equal = (together == first) & (together == second)
    rand = np.ones(len(together))
    np.divide(together - chance, best - chance, out=rand, where=~equal)
    rand[common == 0] = np.nan
    return rand
