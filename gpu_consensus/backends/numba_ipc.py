"""The sequential sweep of ipc, compiled: ``gpu_consensus.methods.ipc``, same bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu_consensus.backends.numba_jit import compiled


@compiled
def ipc_sweep(
    codes: Any,
    starts: Any,
    missing: Any,
    weights: Any,
    marginal: Any,
    complete: bool,
    assignment: Any,
    counts: Any,
    sizes: Any,
    members: Any,
) -> int:
    """See ``sweep_objects``."""
    n_partitions, n_samples = codes.shape
    n_clusters = counts.shape[1]
    score = np.empty(n_clusters)
    moved = 0
    for l in range(n_samples):
        own = np.int64(assignment[l])
        if own == n_clusters or members[own] == 1:
            continue
        score[:] = 0.0
        for i in range(n_partitions):
            row = starts[i] + np.int64(codes[i, l])
            if complete:
                for k in range(n_clusters):
                    score[k] += weights[i] * counts[row, k]
            elif row != missing[i]:
                for k in range(n_clusters):
                    if sizes[i, k] == 0:
                        score[k] += weights[i] * marginal[row]
                    else:
                        score[k] += weights[i] * (counts[row, k] / sizes[i, k])
        best = 0
        for k in range(n_clusters):
            if complete:
                score[k] /= max(members[k], 1)
            if score[k] > score[best]:
                best = k
        if best == own:
            continue
        assignment[l] = best
        for i in range(n_partitions):
            row = starts[i] + np.int64(codes[i, l])
            counts[row, own] -= 1
            counts[row, best] += 1
            if row != missing[i]:
                sizes[i, own] -= 1
                sizes[i, best] += 1
        members[own] -= 1
        members[best] += 1
        moved += 1
    return moved
