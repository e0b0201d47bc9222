"""Labels and names that were given, made fit for a report."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.numpy import NumpyBackend
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.loop.count_by_cluster import count_by_cluster
from gpu_consensus.metrics import consensus_criterion
from gpu_consensus.plot.given import codes_of
from gpu_consensus.result import Centroids, Consensus
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.numbers import shown
from gpu_consensus.util.weights import useful_partitions


def given_consensus(
    result: Any, ens: Ensemble
) -> tuple[Consensus, npt.NDArray[Any] | None]:
    """Return a consensus that has a confidence, and what its clusters are called.

    Labels alone get the confidence that the partitions give them. Names are None where
    clusters are numbers from 0 already.
    """
    if isinstance(result, Consensus):
        labels, names = np.asarray(to_host(result.labels), dtype=np.int64), None
    else:
        labels, categories = codes_of("result", _numbers(result))
        plain = categories.dtype.kind in "iu" and np.array_equal(
            categories, np.arange(len(categories))
        )
        names = None if plain else categories
    if len(labels) != ens.n_samples:
        raise ValueError(
            f"result has {len(labels)} labels but the ensemble has "
            f"n_samples={ens.n_samples}; give one label per object."
        )
    if not (labels >= 0).any():
        raise ValueError("result has no labelled object; there is nothing to report.")
    if isinstance(result, Consensus) and result.centroids is not None:
        return result, names
    k = int(labels.max()) + 1
    counts = count_by_cluster(
        NumpyBackend(), to_host(ens.codes), ens.offsets, labels.astype(np.int32), k
    )
    useful = useful_partitions(ens.n_labels, ens.weights)
    table = np.zeros((len(counts), 1, k), dtype=np.float32)
    centroids = Centroids(ens, counts, table, None, useful)
    share = consensus_criterion(ens, np.where(labels < 0, -1, labels), "nmi")
    method = result.method if isinstance(result, Consensus) else "labels given"
    return Consensus(
        labels=labels.astype(np.int32),
        n_clusters=len(np.unique(labels[labels >= 0])),
        objective=1.0 - share,
        value=share,
        history=np.array([1.0 - share]),
        converged=True,
        backend="none",
        method=method,
        centroids=centroids,
    ), names


def names_of(names: Any, n_samples: int) -> Any:
    """Return the names of the objects, or their numbers."""
    if names is None:
        return range(n_samples)
    given = to_host(names)
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise TypeError(f"names={shown(names)} should be one name per object.")
    given = given.tolist() if hasattr(given, "tolist") else list(given)
    if len(given) != n_samples:
        raise ValueError(
            f"names has {len(given)} entries but there are {n_samples} objects; give "
            "one name per object."
        )
    return given


def _numbers(labels: Any) -> Any:
    """Return labels as integers where all of them are such, as text from a file is."""
    given = np.asarray(to_host(labels))
    if given.dtype.kind not in "OUS":
        return labels
    try:
        return np.array([-1 if v is None else int(v) for v in given.ravel().tolist()])
    except (TypeError, ValueError, OverflowError):
        return labels
