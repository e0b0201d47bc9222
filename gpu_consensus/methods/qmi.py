"""Consensus by quadratic mutual information (QMI)."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from gpu_consensus.backends.protocol import Backend
from gpu_consensus.loop.fit import LoopOptions
from gpu_consensus.loop.utilities import parse_utility
from gpu_consensus.methods.call import Shared, open_task
from gpu_consensus.methods.kcc import KccRule
from gpu_consensus.result import Consensus


def qmi(
    ensemble: Any,
    n_clusters: int,
    *,
    weights: Any = None,
    init: Any = "auto",
    n_init: int = 10,
    search: bool | str | int = "auto",
    max_iter: int = 100,
    refine: bool | str = "auto",
    on_unlabelled: str = "raise",
    backend: str | Backend = "auto",
    n_jobs: int | None = None,
    memory_limit: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    random_state: Any = None,
    progress: bool = False,
) -> Consensus:
    """Consensus of greatest quadratic mutual information with the basic partitions.

    The paper runs k-means on the one-hot labels minus their means. Centring moves all
    objects alike and changes no distance, so this is :func:`kcc` with utility "c", to
    the last label; only what is reported differs.

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
        The basic partitions. Missing labels, which the paper does not know, are left
        out as in :func:`kcc`.
    n_clusters : int
        Clusters of the consensus.
    n_init : int, default 10
        Starts, run together.
    refine : {"auto", True, False}, default "auto"
        As in :func:`kcc`.
    search : {"auto", False} or int, default "auto"
        As in :func:`kcc`.
    weights, init, max_iter, on_unlabelled, backend, n_jobs, memory_limit
        As in :func:`kcc`.
    checkpoint, random_state, progress
        As in :func:`kcc`.

    Returns
    -------
    Consensus
        ``value`` is the quadratic mutual information sum_i I2(pi_i; pi) =
        2 sum_i v_i U_c(pi, pi_i), U_c the category utility, v_i = 1. ``objective``, and
        with it ``history``, is the k-means objective on the one-hot labels, SSE =
        sum_i v_i n_i (1 - sum_j P_j^2 - U_c(pi, pi_i)). Weights w_i enter as v_i =
        r w_i, r the number of partitions of positive weight, so that equal weights are
        v_i = 1; with missing labels U_c of partition i is taken over its n_i objects
        and counts n_i / n times in ``value``.

    References
    ----------
    A. Topchy, A. K. Jain, W. Punch, "Combining multiple weak clusterings", ICDM 2003;
    "Clustering ensembles: models of consensus and weak partitions", IEEE PAMI 27(12),
    2005.

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    >>> result = gpc.qmi(ens, 2, random_state=0)
    >>> round(result.value, 9), round(result.objective, 9)
    (2.25, 1.0)
    """
    shared = Shared(
        weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
    )
    loop = LoopOptions(init, n_init, max_iter, checkpoint, refine, search)
    task = open_task("qmi", ensemble, n_clusters, shared, loop=loop)
    _, formula, _ = parse_utility("c")
    rule = KccRule(
        task.given,
        formula,
        task.given_weights,
        label_sums=task.backend.label_sums,
    )
    result = task.fit(rule)
    scale = int(np.count_nonzero(task.given_weights))
    details = dict(result.details)
    if "search" in details:
        found = [scale * objective for objective in details["search"]["objective"]]
        details["search"] = {**details["search"], "objective": found}
    return replace(
        result,
        details=details,
        objective=scale * result.objective,
        history=scale * result.history,
        value=2 * scale * result.value,
    )
