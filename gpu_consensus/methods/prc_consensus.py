"""Pinch ratio clustering of the co-association matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_consensus.backends.protocol import Backend
from gpu_consensus.feedback.prc import prc
from gpu_consensus.methods.call import Shared, open_task
from gpu_consensus.result import Consensus
from gpu_consensus.util.memory import check_memory

_MATRICES = 4  # n x n: the graph, its rounded weights and what lies between


def prc_consensus(
    ensemble: Any,
    n_clusters: int,
    *,
    n_init: int = 10,
    recursive: bool = False,
    weights: Any = None,
    on_unlabelled: str = "raise",
    backend: str | Backend = "auto",
    n_jobs: int | None = None,
    memory_limit: int | None = None,
    random_state: Any = None,
    progress: bool = False,
) -> Consensus:
    """Find a consensus by pinch ratio clustering of the co-association matrix.

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
        The basic partitions.
    n_clusters : int
        Clusters of the consensus.
    n_init : int, default 10
        Random orders to begin with; the order of smallest width is cut.
    recursive : bool, default False
        As for :func:`prc`.
    weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
        As in :func:`~gpu_consensus.methods.kcc.kcc`.

    Returns
    -------
    Consensus
        ``objective`` is the sum of the pinch ratios of the cuts, ``value`` its
        negative.

    References
    ----------
    D. R. Heisterkamp, "Lambda consensus clustering".

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> ens = gpc.Ensemble.from_partitions(
    ...     [[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1], [1, 1, 1, 0, 0, 0]]
    ... )
    >>> prc_consensus(ens, 2, random_state=0).labels.tolist()
    [0, 0, 0, 1, 1, 1]
    """
    shared = Shared(
        weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
    )
    task = open_task("prc", ensemble, n_clusters, shared)
    n = task.ensemble.n_samples
    cure = "use kcc or another method without the co-association matrix"
    check_memory("prc", _MATRICES * 8 * n * n, task.memory_limit, cure)
    clusters = prc(
        task.pairs().matrix(),
        task.k,
        n_init=n_init,
        recursive=recursive,
        random_state=task.random_state,
    )
    objective = float(clusters.ratios.sum())
    details: Mapping[str, Any] = {"ratios": clusters.ratios, "order": clusters.order}
    return task.result(
        clusters.labels, objective=objective, value=-objective, details=details
    )
