"""Slow and obvious: loops straight from the definitions, to check the fast code by."""

import itertools
import math
from fractions import Fraction

import numpy as np

UTILITIES = ["c", "h", "cos", "l3", "l5", "l8", "nc", "nh", "ncos", "nl5", "nl8"]
E1 = ["11112222", "11122222", "11223333", "22221113"]
E2 = ["111222333", "112223333", "111122222", "122333441", "221111333"]


def worked(rows):
    """The worked examples, as label vectors."""
    return [[int(label) for label in row] for row in rows]


def random_codes(rng, n, n_labels, missing=0.0):
    """Codes (r, n) with every kind of gap; the dtype that the labels need."""
    dtype = np.uint8 if max(n_labels) <= 255 else np.uint16
    codes = np.empty((len(n_labels), n), dtype=dtype)
    for i, k_i in enumerate(n_labels):
        codes[i] = rng.integers(k_i, size=n) if k_i else 0
        codes[i, rng.random(n) < missing] = k_i
        if k_i == 0:
            codes[i] = 0
    offsets = np.concatenate([[0], np.cumsum(np.asarray(n_labels) + 1)])
    return codes, offsets.astype(np.int64)


def count(codes, offsets, assignment, n_clusters):
    counts = np.zeros((offsets[-1], len(assignment), n_clusters), dtype=np.int64)
    for i, l, q in itertools.product(
        range(len(codes)), range(codes.shape[1]), range(len(assignment))
    ):
        if assignment[q, l] < n_clusters:
            counts[offsets[i] + int(codes[i, l]), q, assignment[q, l]] += 1
    return counts


def assign(codes, offsets, table, row_weight=None, row_table=None):
    """Float32 sums in partition order; argmin with ties to the lowest cluster."""
    _, n_restarts, n_clusters = table.shape
    n = codes.shape[1]
    winner = np.empty((n_restarts, n), dtype=np.int64)
    best = np.empty((n_restarts, n), dtype=np.float32)
    gap = np.empty((n_restarts, n), dtype=np.float32)
    for l, q in itertools.product(range(n), range(n_restarts)):
        scores = []
        for k in range(n_clusters):
            total, factor = np.float32(0), np.float32(0)
            for i in range(len(codes)):
                row = offsets[i] + int(codes[i, l])
                total = np.float32(total + table[row, q, k])
                if row_table is not None and row_table.ndim == 3:
                    factor = np.float32(factor + row_table[row, q, k])
            if row_table is not None:
                if row_table.ndim == 2:
                    factor = row_table[q, k]
                total = np.float32(total + np.float32(row_weight[l] * factor))
            scores.append(total)
        winner[q, l] = min(range(n_clusters), key=lambda k: (scores[k], k))
        ordered = sorted(scores)
        best[q, l] = ordered[0]
        gap[q, l] = np.float32(ordered[1] - ordered[0]) if n_clusters > 1 else np.inf
    return winner, best, gap


def weigh(codes, offsets, assignment, weight, n_clusters):
    """Weights of members missing in each partition, of one start, if there are any."""
    if weight is None:
        return None
    total = np.zeros((len(codes), 1, n_clusters), dtype=np.int64)
    for i, l in np.ndindex(codes.shape):
        missing = offsets[i] + codes[i, l] == offsets[i + 1] - 1
        if missing and assignment[l] < n_clusters:
            total[i, 0, assignment[l]] += weight[l]
    return total


def lloyd(codes, offsets, rule, seeds, n_clusters, skip, max_iter):
    """One start by itself, every object scored and counted at every iteration.

    Returns the assignment, the objective after each iteration, and whether it ended by
    itself.
    """
    codes = np.asarray(codes)
    counted = np.setdiff1d(np.arange(codes.shape[1]), skip)
    assignment, objective = seeds.astype(np.int64), np.inf
    history, seen, ended = [], set(), False
    while not ended and len(history) < max_iter:
        counts = count(codes, offsets, assignment[None], n_clusters)
        absent = weigh(codes, offsets, assignment, rule.absent_weight, n_clusters)
        tables = rule.table(counts, absent)
        found, best, _ = assign(codes, offsets, tables[0], rule.row_weight, tables[1])
        after, worst = found[0], counted[np.argsort(-best[0, counted], kind="stable")]
        after[skip] = n_clusters
        sizes = np.bincount(after[counted], minlength=n_clusters)
        for k in np.flatnonzero(sizes == 0):
            l = next(l for l in worst if sizes[after[l]] > 1)
            sizes[after[l]] -= 1
            sizes[k] += 1
            after[l] = k
        counts = count(codes, offsets, after[None], n_clusters)
        absent = weigh(codes, offsets, after, rule.absent_weight, n_clusters)
        value = rule.objective(counts, absent)[0]
        ended = np.isfinite(objective) and np.array_equal(after, assignment)
        if rule.monotone and not value < objective:
            ended = True
        elif not ended:
            assignment, objective = after, value
        history.append(objective)
        if not rule.monotone:
            ended = bool(ended or after.tobytes() in seen)
            seen.add(after.tobytes())
    return assignment, history, ended


def mu(name, m):
    """The convex functions of Table 1, on one distribution."""
    if name == "c":
        return math.fsum(x * x for x in m)
    if name == "h":
        return math.fsum(x * math.log2(x) for x in m if x > 0)
    p = 2 if name == "cos" else int(name[1:])
    return math.fsum(float(x) ** p for x in m) ** (1 / p)


def divergence(name, j, m):
    """The point-to-centroid distances of Table 3, from object e_j to centroid m."""
    e = np.eye(len(m))[j]
    if name == "c":
        return math.fsum((e - m) ** 2)
    if name == "h":
        return -math.log2(max(m[j], 2.0**-52))
    if name == "cos":
        return 1 - float(e @ m) / (np.linalg.norm(e) * np.linalg.norm(m))
    p = int(name[1:])
    return 1 - m[j] ** (p - 1) / mu(name, m) ** (p - 1)


def kcc_objective_and_value(labels, consensus, weights, utility):
    """F (Eq. 36) and Gamma (Eq. 1 with 39, 34), object by object.

    ``labels`` is (n, r) with -1 for missing; the consensus has no gaps.
    """
    name = utility.removeprefix("n") if utility != "nh" else "h"
    labels, consensus = np.asarray(labels), np.asarray(consensus)
    n = len(consensus)
    objective, value = [], []
    for i, w in enumerate(weights):
        present = labels[:, i] >= 0
        if not present.any():
            continue
        size = int(labels[:, i].max()) + 1
        marginal = np.bincount(labels[present, i], minlength=size) / present.sum()
        if utility.startswith("n"):
            scale = abs(mu(name, marginal))
            w = w / scale if scale else 0.0
        gain = []
        for k in np.unique(consensus[present]):
            members = labels[present & (consensus == k), i]
            m = np.bincount(members, minlength=size) / len(members)
            objective += [w * divergence(name, j, m) for j in members]
            gain.append(len(members) / present.sum() * mu(name, m))
        share = present.sum() / n
        value.append(w * share * (math.fsum(gain) - mu(name, marginal)))
    return math.fsum(objective), math.fsum(value)


def partitions(n, n_clusters):
    """All partitions of n objects into exactly n_clusters clusters."""
    for labels in itertools.product(range(n_clusters), repeat=n - 1):
        labels = (0, *labels)
        seen = list(dict.fromkeys(labels))
        if len(seen) == n_clusters and seen == sorted(seen):
            yield np.asarray(labels)


def canonical(labels):
    """Number the clusters by first appearance, to compare up to names."""
    first = {}
    return [first.setdefault(int(label), len(first)) for label in labels]


def vote_cost(method, labels, consensus, i, j, k):
    """What label j of partition i costs in cluster k; exact."""
    present = labels[:, i] >= 0
    members = labels[present & (consensus == k), i]
    if not len(members):  # no member present: the partition's own shares
        members = labels[present, i]
    counts = np.bincount(members)
    if method == "ivc":
        return Fraction(int(j != counts.argmax()))
    same = int(counts[j]) if j < len(counts) else 0
    return 1 - Fraction(same, len(members))


def coassociation(labels, weights):
    """The definition, pair by pair."""
    n = len(labels)
    found = np.zeros((n, n))
    for l in range(n):
        for m in range(n):
            both = (labels[l] >= 0) & (labels[m] >= 0)
            if both.any():
                same = both & (labels[l] == labels[m])
                found[l, m] = weights[same].sum() / weights[both].sum()
    return found
