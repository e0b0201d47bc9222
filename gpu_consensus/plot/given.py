"""What pictures take: labels, and some of the objects."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.ensemble.encoding import encode
from gpu_consensus.ensemble.ensemble import Ensemble, as_ensemble
from gpu_consensus.result import Consensus
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.checks import FloatArray, check_int, seed_sequence

Objects = npt.NDArray[np.intp]


def labels_of(result: Any, n_samples: int | None = None) -> npt.NDArray[np.int64]:
    """Return the clusters of a consensus, or of a vector of labels; -1 is missing.

    Labels of any other kind become numbers from 0, in their order.
    """
    if isinstance(result, Consensus):
        labels = np.asarray(to_host(result.labels), dtype=np.int64)
    else:
        labels = codes_of("result", result)[0]
    if n_samples is not None and len(labels) != n_samples:
        raise ValueError(
            f"result has {len(labels)} labels but there are {n_samples} objects; give "
            "one label per object."
        )
    if not (labels >= 0).any():
        raise ValueError("result has no labelled object; there is nothing to draw.")
    return labels


def codes_of(name: str, labels: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Return labels as numbers from 0, -1 where missing, and what they stand for."""
    codes, categories = encode(to_host(labels), name, max_labels=None)
    whole = codes.astype(np.int64)
    whole[whole == len(categories)] = -1
    return whole, np.asarray(categories)


def ensemble_of(ensemble: Any) -> Ensemble:
    """Return an ensemble on the host that has labels."""
    ens = as_ensemble(ensemble)[0]
    if not ens.n_labels.any():
        raise ValueError(
            "the ensemble has no label in any partition; there is nothing to show."
        )
    return ens


def sample(
    labels: npt.NDArray[np.int64], n_objects: int, random_state: Any, least: int = 5
) -> Objects:
    """Draw labelled objects, at least ``least`` of each cluster, in ascending order.

    All of them where they are at most ``n_objects``.
    """
    n_objects = check_int("max_objects", n_objects, 1)
    known = np.flatnonzero(labels >= 0)
    if len(known) <= n_objects:
        return known
    rng = np.random.default_rng(seed_sequence(random_state))
    mixed = rng.permutation(known)
    of = labels[mixed]
    order = np.argsort(of, kind="stable")
    begin = np.searchsorted(of[order], np.arange(of.max() + 1))
    rank = np.empty(len(mixed), dtype=np.intp)  # of an object within its cluster
    rank[order] = np.arange(len(mixed)) - begin[of[order]]
    least = min(least, max(1, n_objects // max(1, len(np.unique(of)))))
    first = mixed[np.argsort(rank >= least, kind="stable")]
    chosen: Objects = np.sort(first[:n_objects])
    return chosen


def confidence_of(result: Any) -> FloatArray | None:
    """Return the confidence of a consensus; None where it has none."""
    if isinstance(result, Consensus) and result.centroids is not None:
        return result.confidence
    return None
