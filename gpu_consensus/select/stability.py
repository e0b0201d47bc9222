"""How well clusterings of the same objects agree: in pairs, and object by object.

Clusterings are rows of integers from 0, -1 where an object has no label.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.util.checks import FloatArray, IntArray

Codes = npt.NDArray[Any]

MAX_PAIRS = 200
OBJECT_PAIRS = 10_000
"""Pairs of objects that entropy and PAC are taken from, at most."""

DOUBT = (0.1, 0.9)
"""Shares of common clusters between which a pair counts as ambiguous (PAC)."""


def pairs_of(n: int, at_most: int, rng: np.random.Generator) -> IntArray:
    """Return pairs i > j of n, some of them if there are too many: (n_pairs, 2)."""
    total = n * (n - 1) // 2
    chosen = np.arange(total)
    if total > at_most:
        chosen = np.sort(rng.choice(total, at_most, replace=False))
    i = ((1 + np.sqrt(1 + 8 * chosen.astype(np.float64))) / 2).astype(np.int64)
    # a root may be a rounding error off
    i -= i * (i - 1) // 2 > chosen
    i += (i + 1) * i // 2 <= chosen
    return np.column_stack([i, chosen - i * (i - 1) // 2])


def common_table(a: Codes, b: Codes) -> IntArray:
    """Count the objects of each pair of labels, of those that have both."""
    width = int(b.max(initial=-1)) + 2
    height = int(a.max(initial=-1)) + 2
    cells = (a.astype(np.int64) + 1) * width + (b + 1)
    counts = np.bincount(cells, minlength=width * height)
    return counts.reshape(height, width)[1:, 1:]


def table_rand(table: IntArray) -> float:
    """Return the adjusted Rand index of a table; 1 where there is no pair to part."""

    def n_pairs(counts: Any) -> float:
        return float((counts * (counts - 1) // 2).sum())

    both, n = n_pairs(table), int(table.sum())
    in_a, in_b = n_pairs(table.sum(axis=1)), n_pairs(table.sum(axis=0))
    chance = in_a * in_b / max(n * (n - 1) / 2, 1)
    most = (in_a + in_b) / 2
    return (both - chance) / (most - chance) if most > chance else 1.0


def mean_agreement(codes: Codes, pairs: IntArray) -> float:
    """Return the mean adjusted Rand index of pairs, on objects that both saw."""
    found = [table_rand(common_table(codes[i], codes[j])) for i, j in pairs]
    return float(np.mean(found))


def own_similarity(a: Codes, b: Codes) -> FloatArray:
    """Return the similarity of each object's two clusters, NaN where it lacks one.

    n_ab / max(n_a, n_b): the element-centric similarity of partitions.

    References
    ----------
    Gates, Wood, Hetrick and Ahn, Element-centric clustering comparison unifies
    overlaps and hierarchy, Scientific Reports 9, 2019.

    Examples
    --------
    >>> import numpy as np
    >>> own_similarity(np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1])).tolist()
    [0.6666666666666666, 0.6666666666666666, 0.3333333333333333, 0.5]
    """
    table = common_table(a, b)
    similar = table / np.maximum(_larger(table), 1)
    found = np.full(len(a), np.nan)
    both = (a >= 0) & (b >= 0)
    found[both] = similar[a[both], b[both]]
    return found


def corrected_similarity(a: Codes, b: Codes) -> float:
    """Return the mean element-centric similarity, 1 if equal and about 0 by chance.

    Chance is independence: n_ab = n_a n_b / n.
    """
    table = common_table(a, b)
    n = int(table.sum())
    if n == 0:
        return float("nan")
    larger = np.maximum(_larger(table), 1)
    mean = float((table**2 / larger).sum()) / n
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / n
    chance = float((expected**2 / larger).sum()) / n
    return (mean - chance) / (1 - chance) if chance < 1 else 1.0


def _larger(table: IntArray) -> IntArray:
    return np.asarray(np.maximum.outer(table.sum(axis=1), table.sum(axis=0)))


def mean_similarity(codes: Codes, pairs: IntArray) -> FloatArray:
    """Return each object's mean similarity over pairs that both saw it, or NaN."""
    total, number = np.zeros(codes.shape[1]), np.zeros(codes.shape[1])
    for i, j in pairs:
        found = own_similarity(codes[i], codes[j])
        seen = ~np.isnan(found)
        total[seen] += found[seen]
        number += seen
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)


def ambiguity(codes: Codes, objects: IntArray) -> tuple[float, float]:
    """Return entropy and PAC of the co-association of pairs of objects.

    Parameters
    ----------
    codes : ndarray of shape (n_clusterings, n)
    objects : ndarray of shape (n_pairs, 2)

    Returns
    -------
    entropy : float
        Mean over pairs of the entropy, in bits, of being together: 0 if all
        clusterings agree on every pair.
    pac : float
        Share of pairs that are together in more than a tenth and in fewer than nine
        tenths of the clusterings that saw both.

    References
    ----------
    Senbabaoglu, Michailidis and Li, Critical limitations of consensus clustering in
    class discovery, Scientific Reports 4, 2014.
    """
    first, second = codes[:, objects[:, 0]], codes[:, objects[:, 1]]
    seen = (first >= 0) & (second >= 0)
    number = seen.sum(axis=0)
    share = ((first == second) & seen).sum(axis=0)[number > 0] / number[number > 0]
    if not share.size:
        return float("nan"), float("nan")
    inside = share[(share > 0) & (share < 1)]
    bits = -inside * np.log2(inside) - (1 - inside) * np.log2(1 - inside)
    pac = ((share > DOUBT[0]) & (share < DOUBT[1])).mean()
    return float(bits.sum() / len(share)), float(pac)


def by_cluster(values: FloatArray, labels: Codes, n_clusters: int) -> FloatArray:
    """Return the mean of what is known of the objects of each cluster, or NaN."""
    known = (labels >= 0) & ~np.isnan(values)
    number = np.bincount(labels[known], minlength=n_clusters)
    total = np.bincount(labels[known], values[known], minlength=n_clusters)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)
