"""How alike labels are by the labels that they both resemble."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from gpu_consensus.methods.label_contingency import LabelContingency
from gpu_consensus.util.checks import FloatArray


def label_jaccard(labels: LabelContingency) -> FloatArray:
    """Return the Jaccard similarity of all labels, (S, S), 0 on the diagonal.

    Labels of one partition share no object, so theirs is 0 too.
    """
    size = labels.sizes
    union = size[:, None] + size - labels.common
    similarity = labels.common / np.maximum(union, 1)
    np.fill_diagonal(similarity, 0.0)
    return np.asarray(similarity)


def connected_triples(
    labels: LabelContingency, weights: FloatArray
) -> list[FloatArray]:
    """Return how alike the labels of each partition are, (K_i, K_i) each, in [0, 1].

    Two labels a, b of one partition are as alike as the labels that they both
    resemble, sum_c min(J(a, c), J(b, c)), J their Jaccard similarity, divided by the
    largest such sum of all partitions; 1 on the diagonal.

    Parameters
    ----------
    labels : LabelContingency
    weights : ndarray of shape (r,)
        What a label of each partition counts in that sum.
    """
    jaccard, begins = label_jaccard(labels), labels.begins
    counts = weights[labels.partition]
    triples = []
    for begin, end in pairwise(begins.tolist()):
        alike = np.zeros((end - begin, end - begin))
        for a in range(end - begin - 1):
            both = np.minimum(jaccard[begin + a], jaccard[begin + a + 1 : end])
            alike[a, a + 1 :] = (both * counts).sum(axis=1)
        triples.append(alike + alike.T)
    largest = max(float(alike.max(initial=0.0)) for alike in triples)
    for alike in triples:
        if largest > 0:
            alike /= largest
        np.fill_diagonal(alike, 1.0)
    return triples
