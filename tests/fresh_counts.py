"""Counts and sums of absent weights from nothing, by ``count`` of a backend."""

import numpy as np


def fresh_counts(backend, codes, offsets, assignment, n_clusters):
    """Count a whole assignment (R, n); the counts are where the backend computes."""
    shape = (int(offsets[-1]), len(assignment), n_clusters)
    counts = backend.xp.zeros(shape, np.int64)
    backend.count(codes, offsets, None, assignment, counts)
    return counts


def fresh_sums(backend, codes, offsets, assignment, n_clusters, weight):
    """As ``fresh_counts``, with the weights (n,) of absent members, (r, R, K)."""
    shape = (len(assignment), n_clusters)
    counts = backend.xp.zeros((int(offsets[-1]), *shape), np.int64)
    absent = backend.xp.zeros((len(codes), *shape), np.int64)
    backend.count(codes, offsets, None, assignment, counts, weight, absent)
    return counts, absent
