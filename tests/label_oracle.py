"""Literal forms of what is known of labels from one another: sets and loops."""

import math

import numpy as np

E1 = ["11112222", "11122222", "11223333", "22221113"]
E2 = ["111222333", "112223333", "111122222", "122333441", "221111333"]


def ensemble_of(words):
    """(n, r) labels of partitions written as words."""
    return np.array([[int(c) for c in word] for word in words]).T


def members(labels):
    """For each partition the set of objects of each label; -1 is no label."""
    return [
        {
            j: set(np.flatnonzero(column == j).tolist())
            for j in sorted(set(column.tolist()) - {-1})
        }
        for column in labels.T
    ]


def flat(clusters):
    """All clusters of all partitions, and the partition of each."""
    pairs = [(i, c) for i, part in enumerate(clusters) for c in part.values()]
    return [c for _, c in pairs], [i for i, _ in pairs]


def eci(labels, weights=None, theta=0.4):
    """exp(-E / theta) of every label, by partition; E the mean entropy in bits."""
    clusters = members(labels)
    r = len(clusters)
    weights = np.full(r, 1 / r) if weights is None else np.asarray(weights)
    weights = weights / weights.sum()

    def entropy(cluster, part):
        meets = [len(cluster & other) for other in part.values()]
        total = sum(meets)
        return -sum(m / total * math.log2(m / total) for m in meets if m)

    return [
        [
            math.exp(
                -sum(w * entropy(c, p) for w, p in zip(weights, clusters, strict=True))
                / theta
            )
            for c in part.values()
        ]
        for part in clusters
    ]


def jaccard(labels):
    """Jaccard similarity of all clusters, 1 on the diagonal."""
    sets, _ = flat(members(labels))
    return np.array([[len(a & b) / len(a | b) for b in sets] for a in sets])


def object_rows(labels):
    """(n, S) one-hot labels, in the order of ``members``."""
    sets, _ = flat(members(labels))
    return np.array([[float(l in c) for c in sets] for l in range(len(labels))])


def connected_triples(labels, weights=None):
    """Similarity of the clusters within each partition, by the pairs of the paper."""
    sets, partition = flat(members(labels))
    weights = np.ones(labels.shape[1]) if weights is None else np.asarray(weights)

    def jaccard(a, b):
        return len(sets[a] & sets[b]) / len(sets[a] | sets[b])

    n = len(sets)
    alike = np.zeros((n, n))
    for a in range(n):
        for b in range(n):
            if a != b and partition[a] == partition[b]:
                alike[a, b] = sum(
                    weights[partition[c]] * min(jaccard(a, c), jaccard(b, c))
                    for c in range(n)
                )
    if alike.max() > 0:
        alike /= alike.max()
    np.fill_diagonal(alike, 1)
    return alike


def refined_rows(labels, decay, weights=None):
    """(n, S) matrix of LCE: the object's own label 1, others of the partition less."""
    _, partition = flat(members(labels))
    alike = connected_triples(labels, weights)
    rows = decay * (
        object_rows(labels) @ (alike * np.equal.outer(partition, partition))
    )
    own = object_rows(labels) > 0
    rows[own] = 1
    return rows, np.array(partition)
