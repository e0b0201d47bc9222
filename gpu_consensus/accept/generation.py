"""Basic partitions by cuML on the device, compared with those by scikit-learn."""

from __future__ import annotations

import time
import warnings

import numpy as np

from gpu_consensus.accept.run import Context, JsonObject, NotRun
from gpu_consensus.generate.device import why_not_on_device
from gpu_consensus.generate.generate_partitions import generate_partitions
from gpu_consensus.methods.kcc import kcc
from gpu_consensus.metrics import adjusted_rand

_N_CLUSTERS = 10
_N_FEATURES = 16
_N_PARTITIONS = 10
_ROOM = 0.2


def compare_generation(context: Context, results: JsonObject) -> str:
    """Cluster the same blobs by both, then find the consensus of each."""
    rng, n = np.random.default_rng(0), context.sizes.n_generate
    centers = rng.normal(scale=4, size=(_N_CLUSTERS, _N_FEATURES))
    truth = rng.integers(_N_CLUSTERS, size=n)
    X = (centers[truth] + rng.normal(size=(n, _N_FEATURES))).astype(np.float32)
    reason = why_not_on_device(X, "kmeans")
    if reason:
        raise NotRun(reason)
    context.need(30)
    results["n_samples"], results["n_features"] = X.shape
    results["n_partitions"] = _N_PARTITIONS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for backend, name in (("cupy", "cuml"), ("numpy", "scikit-learn")):
            context.advance(1, f"partitions by {name}")
            if backend == "cupy":  # the first call loads libraries
                generate_partitions(
                    X[:1000], 2, n_clusters=_N_CLUSTERS, backend=backend, random_state=0
                )
            began = time.perf_counter()
            ens = generate_partitions(
                X,
                _N_PARTITIONS,
                n_clusters=_N_CLUSTERS,
                backend=backend,
                n_jobs=-1,
                random_state=0,
            )
            seconds = time.perf_counter() - began
            labels = kcc(ens.to("numpy"), _N_CLUSTERS, random_state=0).labels
            rand = float(adjusted_rand(truth, labels))
            results[name] = {"seconds": seconds, "adjusted_rand": rand}
    # cuML's partitions differ from run to run, and both draw their own
    by_cuml, by_host = (results[x]["adjusted_rand"] for x in ("cuml", "scikit-learn"))
    if by_cuml < by_host - _ROOM:
        return (
            f"partitions by cuML lead to an adjusted Rand index of "
            f"{by_cuml:.3f} with the truth, those by scikit-learn to {by_host:.3f}"
        )
    return ""
