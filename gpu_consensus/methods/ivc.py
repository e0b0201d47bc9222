"""Iterative voting consensus (IVC)."""

from __future__ import annotations

import os
from typing import Any

from gpu_consensus.backends.protocol import Backend
from gpu_consensus.loop.fit import LoopOptions
from gpu_consensus.methods.call import Shared, open_task
from gpu_consensus.methods.voting import IvcRule
from gpu_consensus.result import Consensus


def ivc(
    ensemble: Any,
    n_clusters: int,
    *,
    weights: Any = None,
    init: Any = "auto",
    n_init: int = 10,
    search: bool | str | int = "auto",
    max_iter: int = 100,
    on_unlabelled: str = "raise",
    backend: str | Backend = "auto",
    n_jobs: int | None = None,
    memory_limit: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    random_state: Any = None,
    progress: bool = False,
) -> Consensus:
    """Iterative voting consensus.

    Each cluster is represented by the majority label of its members in every partition
    (ties to the lowest label); each object goes to the cluster whose majorities it
    contradicts least.

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
        The basic partitions; missing labels neither agree nor contradict.
    n_clusters : int
        Clusters of the consensus.
    n_init : int, default 10
        Starts, run together.
    search : {"auto", False} or int, default "auto"
        As in :func:`kcc`.
    weights, init, max_iter, on_unlabelled, backend, n_jobs, memory_limit
        As in :func:`kcc`.
    checkpoint, random_state, progress
        As in :func:`kcc`.

    Returns
    -------
    Consensus
        ``objective`` is the weighted number of contradictions (Hamming distance);
        ``value`` the share of labels that agree with their cluster's majority.

    References
    ----------
    N. Nguyen, R. Caruana, "Consensus clusterings", ICDM 2007, section 3.1.

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    >>> gpc.ivc(ens, 2, random_state=0).value
    0.9166666666666666
    """
    shared = Shared(
        weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
    )
    loop = LoopOptions(init, n_init, max_iter, checkpoint, search=search)
    task = open_task("ivc", ensemble, n_clusters, shared, loop=loop)
    return task.fit(IvcRule(task.given, task.given_weights, task.backend.label_sums))
