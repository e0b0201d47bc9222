"""Iterative probabilistic voting consensus (IPVC)."""

from __future__ import annotations

import os
from typing import Any

from gpu_consensus.backends.protocol import Backend
from gpu_consensus.loop.fit import LoopOptions
from gpu_consensus.methods.call import Shared, open_task
from gpu_consensus.methods.voting import IpvcRule
from gpu_consensus.result import Consensus


def ipvc(
    ensemble: Any,
    n_clusters: int,
    *,
    weights: Any = None,
    init: Any = "partition",
    n_init: int = 100,
    max_iter: int = 100,
    on_unlabelled: str = "raise",
    backend: str | Backend = "auto",
    n_jobs: int | None = None,
    memory_limit: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    random_state: Any = None,
    progress: bool = False,
) -> Consensus:
    """Iterative probabilistic voting consensus.

    As :func:`ivc`, but a label costs 1 minus its share among the cluster's members.
    The objective may rise from one iteration to the next.

    Parameters
    ----------
    ensemble, n_clusters, n_init
        As in :func:`ivc`.
    weights, init, max_iter, on_unlabelled, backend, n_jobs, memory_limit
        As in :func:`kcc`.
    checkpoint, random_state, progress
        As in :func:`kcc`.

    Returns
    -------
    Consensus
        ``objective`` is the weighted sum of 1 - m over all labels; ``value`` their mean
        share m.

    Notes
    -----
    A start ends when nothing moves, when an assignment comes back, or after
    ``max_iter``. As in the paper it then keeps the assignment it has, even if it passed
    a better one; of the starts' ends the one of lowest ``objective`` is returned.

    References
    ----------
    N. Nguyen, R. Caruana, "Consensus clusterings", ICDM 2007, section 3.2.

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    >>> gpc.ipvc(ens, 2, random_state=0).n_clusters
    2
    """
    shared = Shared(
        weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
    )
    loop = LoopOptions(init, n_init, max_iter, checkpoint)
    task = open_task("ipvc", ensemble, n_clusters, shared, loop=loop)
    return task.fit(IpvcRule(task.given, task.given_weights, task.backend.label_sums))
