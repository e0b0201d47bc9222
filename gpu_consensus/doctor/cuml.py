"""A test of cuML's k-means, which makes partitions on a device but is in no backend."""

from __future__ import annotations

import numpy as np

from gpu_consensus.generate.device import why_not_on_device
from gpu_consensus.generate.generate_partitions import generate_partitions

_N_SAMPLES = 60
_N_CLUSTERS = 3


def check_cuml() -> str:
    """Make a partition of clusters far apart on the current device, where cuML is.

    Returns
    -------
    str
        Empty if it is right or cuML is not there, else what is wrong.
    """
    truth = np.arange(_N_SAMPLES) % _N_CLUSTERS
    X = np.random.default_rng(0).normal(size=(_N_SAMPLES, 3)) + 1000.0 * truth[:, None]
    if why_not_on_device(X, "kmeans"):
        return ""
    labels = generate_partitions(
        X, 1, "restarts", n_clusters=_N_CLUSTERS, backend="cupy", random_state=0
    ).labels[:, 0]
    wrong = int(((labels[:, None] == labels) != (truth[:, None] == truth)).sum()) // 2
    n_pairs = _N_SAMPLES * (_N_SAMPLES - 1) // 2
    if not wrong:
        return ""
    return (
        f"cuML's k-means is wrong about {wrong} of {n_pairs} pairs of objects whose "
        "clusters are far apart"
    )
