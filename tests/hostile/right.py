"""Independent checks of results: formulas taken literally, object by object."""

import itertools
import math

import numpy as np
import oracles

import gpu_consensus as gpc
from gpu_consensus.util.arrays import to_host


def squared(labels, consensus, weights):
    """Squared distances of one-hot labels to the means of their clusters."""
    total = []
    for i, w in enumerate(weights):
        present = np.flatnonzero(labels[:, i] >= 0)
        onehot = np.eye(max(labels[:, i].max(), 0) + 1)[labels[present, i]]
        for k in np.unique(consensus[present]):
            members = onehot[consensus[present] == k]
            total.append(w * ((members - members.mean(axis=0)) ** 2).sum())
    return math.fsum(total)


def weighted_kmeans(labels, consensus):
    """SEC: sum_l w_l sum_i |e / w_l - m_k|^2, w_l the row sum of the co-association."""
    n = len(labels)
    weight = np.zeros(n)
    for i in range(labels.shape[1]):
        present = labels[:, i] >= 0
        sizes = np.bincount(labels[present, i])
        weight[present] += sizes[labels[present, i]]
    objective = 0.0
    for i in range(labels.shape[1]):
        present = labels[:, i] >= 0
        for k in np.unique(consensus[present]):
            members = np.flatnonzero(present & (consensus == k))
            onehot = np.eye(labels[:, i].max() + 1)[labels[members, i]]
            centre = onehot.sum(axis=0) / weight[members].sum()
            points = onehot / weight[members, None]
            objective += (weight[members, None] * (points - centre) ** 2).sum()
    return objective


def votes(method, labels, consensus, weights):
    """IVC and IPVC: what every label costs in the cluster of its object."""
    total = 0
    for (row, i), label in np.ndenumerate(labels):
        if label >= 0 and weights[i] > 0:
            k = consensus[row]
            cost = oracles.vote_cost(method, labels, consensus, i, label, k)
            total += weights[i] * float(cost)
    return total


def pairs(labels, consensus, weights):
    """Count pairs together in one and apart in the other, weighted."""
    total = []
    for i, w in enumerate(weights):
        present = np.flatnonzero(labels[:, i] >= 0)
        own, other = labels[present, i], consensus[present]
        alike = (own[:, None] == own) != (other[:, None] == other)
        total.append(w * alike.sum() / 2)
    return math.fsum(total)


def residuals(labels, consensus):
    """Least squares: what the projection on clusters leaves of the binary matrix."""
    binary = np.concatenate(
        [
            labels[:, [i]] == np.arange(labels[:, i].max() + 1)
            for i in range(labels.shape[1])
        ],
        axis=1,
    ).astype(float)
    z = np.eye(consensus.max() + 1)[consensus]
    left = binary - z @ np.linalg.lstsq(z, binary, rcond=None)[0]
    return (left**2).sum()


def average_nmi(labels, consensus, weights):
    """NMI with each partition, by weight and present objects, from the definition."""
    total = weight = 0.0
    for i, w in enumerate(weights):
        known = labels[:, i] >= 0
        if not known.any() or not w:
            continue
        total += w * known.sum() * nmi(labels[known, i], consensus[known])
        weight += w * known.sum()
    return total / weight


def nmi(a, b):
    """MI / sqrt(H H') from counted pairs."""
    n = len(a)

    def entropy(counts):
        return -math.fsum(c / n * math.log(c / n) for c in counts if c)

    both = {}
    for pair in zip(a.tolist(), b.tolist(), strict=True):
        both[pair] = both.get(pair, 0) + 1
    h_a, h_b = (entropy(np.unique(x, return_counts=True)[1].tolist()) for x in (a, b))
    if h_a == h_b == 0:
        return 1.0
    if h_a == 0 or h_b == 0:
        return 0.0
    return (h_a + h_b - entropy(both.values())) / math.sqrt(h_a * h_b)


def rand(a, b):
    """Adjusted Rand index, pair by pair."""
    yes = list(itertools.combinations(range(len(a)), 2))
    in_a = np.array([a[i] == a[j] for i, j in yes])
    in_b = np.array([b[i] == b[j] for i, j in yes])
    n = len(yes)
    both, all_a, all_b = (in_a & in_b).sum(), in_a.sum(), in_b.sum()
    if not n or (in_a == in_b).all():
        return 1.0
    chance = all_a * all_b / n
    return (both - chance) / ((all_a + all_b) / 2 - chance)


def objective_of(method, labels, consensus, weights, options):
    """Return the literal objective of a method; None if it has no such formula."""
    useful = (labels >= 0).any(axis=0) & (weights > 0)
    labels, weights = labels[:, useful], weights[useful] / weights[useful].sum()
    if method == "kcc":
        name = options.get("utility", "h")
        if not isinstance(name, str):
            return None
        return oracles.kcc_objective_and_value(labels, consensus, weights, name)[0]
    if method == "qmi":
        return len(weights) * squared(labels, consensus, weights)
    if method == "sec":
        return weighted_kmeans(labels, consensus)
    if method in ("ivc", "ipvc"):
        return votes(method, labels, consensus, weights)
    if method in ("furthest", "hac", "lwea"):
        return pairs(labels, consensus, weights)
    if method == "least_squares" and np.allclose(weights, weights[0]):
        return residuals(labels, consensus)
    if method == "supra":
        return 1 - average_nmi(labels, consensus, weights)
    return None


def check_labels(labels, n, n_clusters):
    """Bounds and order: int32, consecutive from 0, -1 only for what has no label."""
    labels = to_host(labels)
    assert labels.dtype == np.int32, labels.dtype
    assert labels.shape == (n,), labels.shape
    present = labels[labels >= 0]
    assert labels.min() >= -1
    assert np.array_equal(np.unique(present), np.arange(n_clusters)), "not consecutive"


def check_consensus(result, ensemble, weights=None, n_clusters=None, options=()):
    """Check a consensus against the ensemble that it is of."""
    assert isinstance(result, gpc.Consensus)
    options = dict(options)
    ens = ensemble if isinstance(ensemble, gpc.Ensemble) else gpc.Ensemble(ensemble)
    check_labels(result.labels, ens.n_samples, result.n_clusters)
    if n_clusters is not None:
        assert result.n_clusters <= n_clusters
    assert np.isfinite([result.objective, result.value]).all()
    assert np.isfinite(result.history).all()
    if result.history.size and result.method in ("kcc", "qmi", "sec"):
        assert result.history[-1] == result.objective
    confidence = result.confidence
    assert ((confidence >= 0) & (confidence <= 1 + 1e-12)).all()
    given = ens.weights
    if isinstance(weights, str):
        given = None
    elif weights is not None:
        given = np.asarray(weights, dtype=float)
        given = given / given.max()
        given = given / given.sum()
    labels, consensus = ens.labels, to_host(result.labels).astype(int)
    kept = consensus >= 0
    if given is None:
        return
    method = result.method.split(":")[0]
    literal = objective_of(method, labels[kept], consensus[kept], given, options)
    if literal is not None:
        close = math.isclose(result.objective, literal, rel_tol=1e-7, abs_tol=1e-7)
        assert close, f"objective {result.objective!r}, literally {literal!r}"
