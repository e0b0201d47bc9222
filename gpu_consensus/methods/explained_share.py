"""How good a consensus is by its partitions, from counts alone."""

from __future__ import annotations

import math

import numpy as np

from gpu_consensus.backends.log2 import x_log2_x
from gpu_consensus.backends.protocol import Counts
from gpu_consensus.backends.segments import Segments
from gpu_consensus.util.checks import FloatArray, IntArray

_ROUNDING = 1e-12  # of an entropy, as a share of n log2 n


def explained_share(counts: Counts, offsets: IntArray, weights: FloatArray) -> float:
    """Return the weighted mean over the partitions of I(C; P_i) / H(C), in 0..1.

    How much of what is to be known of an object's cluster its label tells. Over the
    objects that partition i labels, whose number its weight is multiplied by; 0 where
    these lie in one cluster. Unlike mutual information itself it does not grow with
    the number of clusters or with how equal their sizes are.

    Parameters
    ----------
    counts : ndarray of shape (S, K)
        Objects of each label in each cluster, with a row for "missing" at the end of
        each partition.
    offsets : ndarray of shape (r + 1,)
        Where the rows of each partition begin.
    weights : ndarray of shape (r,)
        Of the partitions, 0 or more.

    References
    ----------
    H. Theil, "On the estimation of relationships involving qualitative variables",
    American Journal of Sociology 76(1), 1970 (the uncertainty coefficient).

    Examples
    --------
    >>> counts, offsets = np.array([[2, 0], [0, 2], [0, 0]]), np.array([0, 3])
    >>> explained_share(counts, offsets, np.ones(1))
    1.0
    """
    segments = Segments(offsets)
    n_kj = segments.present(counts)
    n_k = segments.sum(n_kj)
    n = n_k.sum(axis=1)
    whole = x_log2_x(n)
    clusters = whole - x_log2_x(n_k).sum(axis=1)
    labels = whole - segments.sum(x_log2_x(n_kj.sum(axis=1)))
    both = whole - segments.sum(x_log2_x(n_kj).sum(axis=1))
    share = np.zeros(len(n))
    mixed = clusters > _ROUNDING * np.maximum(whole, 1.0)
    np.divide(clusters + labels - both, clusters, out=share, where=mixed)
    share = np.clip(share, 0.0, 1.0)
    total = math.fsum(weights * n)
    return math.fsum(weights * n * share) / total if total > 0 else 0.0


def evenness(sizes: IntArray, n_clusters: int) -> float:
    """Return the entropy of clusters of these sizes over the largest it can be.

    Examples
    --------
    >>> evenness(np.array([5, 5]), 2), round(evenness(np.array([9, 1]), 2), 3)
    (1.0, 0.469)
    """
    if n_clusters == 1:
        return 1.0
    n = int(sizes.sum())
    bits = (x_log2_x(np.array([n]))[0] - math.fsum(x_log2_x(sizes))) / n
    return min(1.0, max(0.0, float(bits) / math.log2(n_clusters)))
