"""How far labels and partitions can be trusted, by how the others cut them up.

References
----------
D. Huang, C.-D. Wang, J.-H. Lai, "Locally weighted ensemble clustering", IEEE
Transactions on Cybernetics 48(5), 2018 (ECI); D. Huang, J.-H. Lai, C.-D. Wang,
"Combining multiple clusterings via crowd agreement estimation and multi-granularity
link analysis", Neurocomputing 170, 2015 (NCAI).
"""

from __future__ import annotations

import numpy as np

from gpu_consensus.backends.log2 import x_log2_x
from gpu_consensus.backends.protocol import Backend
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.methods.label_contingency import (
    LABEL_OBJECTS,
    LabelContingency,
    draw_objects,
)
from gpu_consensus.util.checks import FloatArray, unknown_name
from gpu_consensus.util.weights import useful_partitions

WORDS = ("eci", "ncai")
"""The words that ``weights`` knows."""

THETA = 0.4
"""How slowly the trust in a label falls with its entropy."""

SMALLEST = 2.0**-500
"""The least weight of an edge: no label is worth nothing, whatever theta is."""


def check_word(word: str) -> str:
    """Return a word for ``weights`` if it is known, or raise an error."""
    if word not in WORDS:
        also = "or give numbers, one per partition"
        raise unknown_name("weights", word, WORDS, also=also)
    return word


def label_eci(
    labels: LabelContingency, weights: FloatArray, theta: float = THETA
) -> FloatArray:
    """Return the ensemble-driven cluster index of every label, (S,), in (0, 1].

    exp(-E / theta), E the mean over the partitions of the entropy of the label's
    members there: 1 for a label that no partition cuts.

    Parameters
    ----------
    labels : LabelContingency
    weights : ndarray of shape (r,)
        Of the partitions, by which entropies are averaged; they sum to 1.
    theta : float, default 0.4
    """
    mean = (labels.entropies * weights).sum(axis=1)
    with np.errstate(over="ignore"):  # of a theta next to 0
        return np.asarray(np.exp(-mean / theta))


def partition_eci(
    labels: LabelContingency, weights: FloatArray, theta: float = THETA
) -> FloatArray:
    """Return the mean index of the labels of each partition, (r,); 0 without labels."""
    eci = label_eci(labels, weights, theta)
    used = labels.sizes > 0
    eci[~used] = 0.0
    sums = [part.sum() for part in labels.by_partition(eci)]
    number = [part.sum() for part in labels.by_partition(used.astype(float))]
    return np.array(sums) / np.maximum(number, 1.0)


def partition_ncai(labels: LabelContingency, weights: FloatArray) -> FloatArray:
    """Return the normalised crowd agreement of each partition, (r,), at most 1.

    The mean NMI (by the root of both entropies) with the other partitions, each over
    the objects that both label, divided by the largest. All are 1 where no partition
    tells anything of another.

    Parameters
    ----------
    labels : LabelContingency
    weights : ndarray of shape (r,)
        Of the partitions, by which NMIs are averaged.
    """
    n_partitions, begins = len(labels.n_labels), labels.begins
    nmi = np.zeros((n_partitions, n_partitions))
    for i in range(n_partitions):
        rows = labels.common[begins[i] : begins[i + 1]]
        for m in range(i + 1, n_partitions):
            block = rows[:, begins[m] : begins[m + 1]]
            nmi[i, m] = nmi[m, i] = _nmi(block)
    others = np.tile(weights, (n_partitions, 1))
    np.fill_diagonal(others, 0.0)
    total = others.sum(axis=1)
    mean = (nmi * others).sum(axis=1) / np.where(total > 0, total, 1.0)
    largest = mean.max()
    return mean / largest if largest > 0 else np.ones(n_partitions)


def _nmi(block: np.ndarray) -> float:
    """Return the mutual information over the root of the entropies, from counts."""
    n = block.sum()
    whole = x_log2_x(n[None])[0]
    rows = whole - x_log2_x(block.sum(axis=1)).sum()
    columns = whole - x_log2_x(block.sum(axis=0)).sum()
    both = whole - x_log2_x(block.ravel()).sum()
    rounding = 1e-12 * max(whole, 1.0)
    if rows <= rounding or columns <= rounding:
        return 0.0
    return float(max(rows + columns - both, 0.0) / np.sqrt(rows * columns))


def word_weights(
    word: str,
    ensemble: Ensemble,
    backend: Backend,
    seeds: np.random.SeedSequence,
    memory_limit: int | None = None,
) -> tuple[FloatArray, int]:
    """Return the weights of the partitions that a word stands for.

    Parameters
    ----------
    word : {"eci", "ncai"}
    ensemble : Ensemble
        Its own weights are multiplied with these.
    backend : Backend
    seeds : SeedSequence
        Draws the objects that labels are compared by, where there are very many.
    memory_limit : int, optional

    Returns
    -------
    weights : ndarray of shape (r,)
        They sum to 1.
    n_objects : int
        How many objects were looked at.
    """
    check_word(word)
    given = ensemble.weights
    useful = useful_partitions(ensemble.n_labels, given)
    if not useful.size:  # nothing to compare, which the caller says
        return given, 0
    some = ensemble
    if len(useful) < ensemble.n_partitions:
        some = ensemble.subset(partitions=useful)
    objects = draw_objects(ensemble.n_samples, LABEL_OBJECTS, seeds)
    labels = LabelContingency(f"weights={word!r}", some, backend, objects, memory_limit)
    own = given[useful] / given[useful].sum()
    index = partition_eci if word == "eci" else partition_ncai
    weights = np.zeros(len(given))
    weights[useful] = own * index(labels, own)
    return weights / weights.sum(), labels.n_objects
