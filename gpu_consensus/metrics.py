"""Measures of agreement between clusterings, all from one contingency table.

Equations are those of Nguyen and Caruana, Consensus clusterings, ICDM 2007, and of Wu,
Liu, Xiong, Cao and Chen, K-means-based consensus clustering, TKDE 2015.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpu_consensus.ensemble.contingency import (
    EncodedClustering,
    check_common,
    contingency,
    encode_clustering,
    information,
    majorities,
    pair_counts,
)
from gpu_consensus.ensemble.ensemble import as_ensemble
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.checks import FloatArray, check_choice
from gpu_consensus.util.numbers import number_from, shown
from gpu_consensus.util.sparse import is_sparse
from gpu_consensus.util.tables import read_table

BLOCK = 2**18  # distances in memory at a time
_SQUARES = 400  # powers of two whose squares, and sums of them, are still floats


def adjusted_rand(a: Any, b: Any) -> float:
    """Adjusted Rand index, the R_n of the KCC papers: 1 equal, about 0 by chance.

    Hubert and Arabie, Comparing partitions, 1985.

    Parameters
    ----------
    a, b : array_like of shape (n_samples,)
        Labels of any hashable kind; objects missing (-1, NaN, None) in either are
        left out.

    Returns
    -------
    float
        At most 1; 1 if both have one cluster, or both only clusters of one object.

    Examples
    --------
    >>> adjusted_rand([0, 0, 1, 1], ["x", "x", "y", "z"])
    0.5714285714285714
    """
    n_11, n_10, n_01, n_00 = pair_counts(contingency(a, b))
    if n_10 == n_01 == 0:
        return 1.0
    # Python integers: for n > 10^5 these products do not fit in 64 bits.
    chance = (n_11 + n_10) * (n_10 + n_00) + (n_11 + n_01) * (n_01 + n_00)
    return 2 * (n_11 * n_00 - n_10 * n_01) / chance


def nmi(a: Any, b: Any) -> float:
    """Normalised mutual information, MI / sqrt(H H').

    Nguyen and Caruana, Eq. 10.

    Parameters
    ----------
    a, b : array_like of shape (n_samples,)
        Labels, as for :func:`adjusted_rand`.

    Returns
    -------
    float
        From 0 to 1; 1 if both have a single cluster, 0 if only one of them has.

    Examples
    --------
    >>> nmi([0, 0, 1, 1], [5, 5, 7, 7])
    1.0
    """
    h_a, h_b, vi = information(contingency(a, b))
    if vi == 0:
        return 1.0
    if h_a == 0 or h_b == 0:
        return 0.0
    # Independent clusterings may come out a rounding error below 0.
    return max(float((h_a + h_b - vi) / 2 / np.sqrt(h_a * h_b)), 0.0)


def variation_of_information(a: Any, b: Any, normalised: bool = False) -> float:
    """Variation of information, H + H' - 2 MI, in bits.

    Nguyen and Caruana, Eq. 9, who leave the base of the logarithm open; here it is 2.

    Parameters
    ----------
    a, b : array_like of shape (n_samples,)
        Labels, as for :func:`adjusted_rand`.
    normalised : bool, default False
        Divide by H + H': 0 equal, 1 independent, whatever the base of the logarithm;
        0 if both have a single cluster.

    Returns
    -------
    float
        A distance, from 0 to log2(n_samples), or to 1 if normalised.

    Examples
    --------
    >>> variation_of_information([0, 0, 1, 1], [0, 1, 0, 1])
    2.0
    >>> variation_of_information([0, 0, 1, 1], [0, 1, 0, 1], normalised=True)
    1.0
    """
    h_a, h_b, vi = information(contingency(a, b))
    if not normalised:
        return vi
    return min(vi / (h_a + h_b), 1.0) if h_a + h_b > 0 else 0.0


def van_dongen(a: Any, b: Any, normalised: bool = False) -> float:
    """Van Dongen's distance: the share of objects outside the best overlaps.

    Nguyen and Caruana, Eq. 7; the normalised form is VD_n of Wu, Xiong and Chen,
    Adapting the right measures for K-means clustering, KDD 2009.

    Parameters
    ----------
    a, b : array_like of shape (n_samples,)
        Labels, as for :func:`adjusted_rand`.
    normalised : bool, default False
        Divide by its bound for clusters of these sizes, 1 - (max n_k + max n'_k) / 2n;
        0 if both have a single cluster.

    Returns
    -------
    float
        A distance, from 0 to below 1, or to 1 if normalised.

    Examples
    --------
    >>> van_dongen([0, 0, 1, 1], [0, 1, 0, 1])
    0.5
    >>> van_dongen([0, 0, 1, 1], [0, 1, 0, 1], normalised=True)
    1.0
    """
    table = contingency(a, b)
    inside = majorities(table.row, table) + majorities(table.col, table)
    bound = 2 * table.n_samples
    if normalised:
        bound -= int(table.row_sums.max() + table.col_sums.max())
    return (2 * table.n_samples - inside) / max(bound, 1)


def rand_distance(a: Any, b: Any) -> float:
    """Rand distance: the share of pairs together in one clustering, apart in the other.

    Nguyen and Caruana, Eq. 8, which they call (adjusted) Rand but print unadjusted:
    1 - the Rand index.

    Parameters
    ----------
    a, b : array_like of shape (n_samples,)
        Labels, as for :func:`adjusted_rand`.

    Returns
    -------
    float
        A distance, from 0 to 1; 0 if there is only one object.

    Examples
    --------
    >>> rand_distance([0, 0, 1], [0, 1, 1])
    0.6666666666666666
    """
    n_11, n_10, n_01, n_00 = pair_counts(contingency(a, b))
    return (n_10 + n_01) / max(n_11 + n_10 + n_01 + n_00, 1)


def purity(truth: Any, labels: Any) -> float:
    """Accuracy as purity: the share of objects of their cluster's commonest class.

    Nguyen and Caruana, Eq. 12. Clusters may share their class, so splitting a cluster
    never lowers it.

    Parameters
    ----------
    truth, labels : array_like of shape (n_samples,)
        Classes and clusters, as for :func:`adjusted_rand`.

    Returns
    -------
    float
        Above 0, at most 1.

    Examples
    --------
    >>> purity(["x", "x", "y", "y"], [0, 0, 0, 1])
    0.75
    """
    table = contingency(truth, labels, ("truth", "labels"))
    return majorities(table.col, table) / table.n_samples


def accuracy(truth: Any, labels: Any) -> float:
    """Accuracy under the best one-to-one matching of clusters and classes.

    Parameters
    ----------
    truth, labels : array_like of shape (n_samples,)
        Classes and clusters, as for :func:`adjusted_rand`. Where their numbers differ,
        objects of an unmatched cluster count as wrong.

    Returns
    -------
    float
        Above 0, at most 1.

    Examples
    --------
    >>> accuracy(["x", "x", "y", "y"], [0, 1, 2, 2])
    0.75
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    # A sparse matching, because the full table may be n x n. It must match each class,
    # so each gets a column of its own worth nothing; zeros are no edges, so add 1.
    table = contingency(truth, labels, ("truth", "labels"))
    n_classes, n_clusters = len(table.row_sums), len(table.col_sums)
    own = np.arange(n_classes)
    worth = np.concatenate([table.counts + 1, np.ones_like(own)])
    row = np.concatenate([table.row, own])
    col = np.concatenate([table.col, n_clusters + own])
    graph = csr_array((worth, (row, col)))
    matched = min_weight_full_bipartite_matching(graph, maximize=True)
    return (int(graph[matched].sum()) - n_classes) / table.n_samples


def compactness(X: Any, labels: Any) -> float:
    """Average distance between two objects of a cluster, weighted by cluster size.

    Nguyen and Caruana, Eq. 11, each pair counted once. No pair is skipped: time grows
    with the squares of the cluster sizes, memory does not.

    Parameters
    ----------
    X : array_like or scipy sparse of shape (n_samples, n_features)
        Objects; distances are Euclidean. Sparse X stays sparse: distances then come
        from inner products, which blur those below 1e-8 of the rows' norms.
    labels : array_like of shape (n_samples,)
        Clusters; objects without a label (-1, NaN, None) are left out.

    Returns
    -------
    float
        0 or more, the lower the more compact. A cluster of one object has no pairs and
        adds 0.

    Examples
    --------
    >>> compactness([[0.0], [1.0], [5.0], [8.0]], [0, 0, 1, 1])
    2.0
    """
    points = read_table(X)
    codes, n_labels, _ = encode_clustering(labels, "labels")
    if points.shape[0] != len(codes):
        raise ValueError(
            f"X has shape {points.shape} but there are {len(codes)} labels; give X one "
            "row per label."
        )
    sizes = np.bincount(codes, minlength=n_labels + 1)[:-1]
    if not sizes.any():
        raise ValueError("labels are all missing; at least one should be present.")
    order = np.argsort(codes, kind="stable")
    exponent = _common_exponent(points)
    total = 0.0
    for end, n_k in zip(np.cumsum(sizes), sizes, strict=True):
        if n_k > 1:
            rows = _times_power(points[order[end - n_k : end]], -exponent)
            total += 2 * _sum_of_distances(rows) / (n_k - 1)  # n_k times the mean
    mean = float(total / sizes.sum())
    if mean and np.frexp(mean)[1] + exponent > np.finfo(np.float64).maxexp:
        raise ValueError(
            f"the distances in X, about {np.frexp(mean)[1] + exponent} powers of two, "
            "are too large for float64; divide X by a constant."
        )
    return float(np.ldexp(mean, exponent))


def diversity(ens: Any) -> float:
    """Diversity of an ensemble, 1 - (1/r) sqrt(sum_ij R_n(pi_i, pi_j)^2).

    Wu et al., Eq. 42.

    Parameters
    ----------
    ens : Ensemble or array of shape (n_samples, n_partitions)
        Partitions are compared on the objects that both label; weights play no part.

    Returns
    -------
    float
        0 if all partitions are equal; at most 1 - 1/sqrt(r), because the sum includes
        i = j.

    Examples
    --------
    >>> import numpy as np
    >>> diversity(np.array([[0, 5], [0, 5], [1, 7], [1, 7]]))
    0.0
    """
    ensemble = as_ensemble(ens)[0]
    codes = to_host(ensemble.codes)
    partitions = [
        EncodedClustering(codes[i], k_i, f"partition {i}")
        for i, k_i in enumerate(ensemble.n_labels.tolist())
    ]
    total = 0.0
    for i, partition in enumerate(partitions):
        total += adjusted_rand(partition, partition) ** 2
        total += 2 * sum(
            adjusted_rand(other, partition) ** 2 for other in partitions[:i]
        )
    return float(1.0 - np.sqrt(total) / len(partitions))


def consensus_criterion(
    ens: Any, labels: Any, measure: str | Callable[[Any, Any], float] = "nmi"
) -> float:
    """Mean of a measure between a consensus and each partition of the ensemble.

    Nguyen and Caruana, Eq. 4: a plain mean, the weights of the ensemble play no part.

    Parameters
    ----------
    ens : Ensemble or array of shape (n_samples, n_partitions)
        The basic partitions.
    labels : array_like of shape (n_samples,)
        The consensus.
    measure : str or callable, default "nmi"
        The name of a measure of two label vectors in this module, or
        ``measure(partition, labels) -> float``, called with the integer labels of the
        objects that have both. So the partition is the truth of ``"purity"`` and
        ``"accuracy"``. For normalised distances pass
        ``functools.partial(van_dongen, normalised=True)``.

    Returns
    -------
    float
        On the scale of the measure.

    Examples
    --------
    >>> import numpy as np
    >>> ens = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> consensus_criterion(ens, ["x", "x", "y", "y"], "rand_distance")
    0.3333333333333333
    """
    if not callable(measure):
        measure = _MEASURES[check_choice("measure", measure, _MEASURES)]
    takes_codes = measure in _MEASURES.values()
    ensemble = as_ensemble(ens)[0]
    consensus = encode_clustering(labels, "labels")
    if len(consensus.codes) != ensemble.n_samples:
        raise ValueError(
            f"labels has {len(consensus.codes)} labels but the ensemble has "
            f"n_samples={ensemble.n_samples}; give one label per object."
        )
    total = 0.0
    for i, k_i in enumerate(ensemble.n_labels.tolist()):
        partition = EncodedClustering(to_host(ensemble.codes[i]), k_i, f"partition {i}")
        if takes_codes:
            total += measure(partition, consensus)
            continue
        both = (partition.codes != k_i) & (consensus.codes != consensus.n_labels)
        check_common(both.any(), partition.name, consensus.name)
        labelled = partition.codes[both].astype(np.int64), consensus.codes[both]
        total += number_from(f"measure={shown(measure)}", measure(*labelled))
    return float(total / ensemble.n_partitions)


_MEASURES: dict[str, Callable[[Any, Any], float]] = {
    "adjusted_rand": adjusted_rand,
    "nmi": nmi,
    "variation_of_information": variation_of_information,
    "van_dongen": van_dongen,
    "rand_distance": rand_distance,
    "purity": purity,
    "accuracy": accuracy,
}


def _common_exponent(points: Any) -> int:
    """Return a power of two to divide by so that squares are floats; mostly 0."""
    values = points.data if is_sparse(points) else points
    finite = np.abs(values[np.isfinite(values)])
    largest = int(np.frexp(float(finite.max(initial=0)))[1])
    return largest if abs(largest) > _SQUARES else 0


def _times_power(rows: Any, exponent: int) -> Any:
    """Multiply by a power of two, in float64."""
    if not is_sparse(rows):
        return np.ldexp(rows.astype(np.float64), exponent)
    rows = rows.astype(np.float64)
    rows.data = np.ldexp(rows.data, exponent)
    return rows


def _sum_of_distances(rows: Any) -> float:
    """Sum the distances of all pairs of rows, in strips of bounded size."""
    dense = isinstance(rows, np.ndarray)
    if not np.isfinite(rows if dense else rows.data).all():
        raise ValueError("X has a NaN or infinite value; fill it in or drop its row.")
    distances = _dense_distances if dense else _sparse_distances
    strip = max(1, BLOCK // rows.shape[0])
    total = 0.0
    for start in range(0, rows.shape[0], strip):
        block = distances(rows[start : start + strip], rows[start:])
        # Pairs within the strip are there twice, those with later rows once.
        total += float(block.sum() - block[:, : block.shape[0]].sum() / 2)
    return total


def _dense_distances(rows: Any, others: Any) -> FloatArray:
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(rows, others))


def _sparse_distances(rows: Any, others: Any) -> FloatArray:
    """Distances of ``rows`` to ``others``, which begin with the same rows."""
    norms = np.asarray(others.multiply(others).sum(axis=1)).ravel()
    squares: FloatArray = (rows @ others.T).toarray()
    squares *= -2.0
    squares += norms
    squares += norms[: len(squares), None]
    np.fill_diagonal(squares, 0.0)  # an object and itself: exactly 0, without rounding
    squares = np.maximum(squares, 0.0)
    return np.sqrt(squares)
