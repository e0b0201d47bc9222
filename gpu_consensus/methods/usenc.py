"""The consensus of U-SENC: a cut of the graph of objects and labels."""

from __future__ import annotations

from typing import Any

from gpu_consensus.backends.protocol import Backend
from gpu_consensus.methods.call import Shared, open_task
from gpu_consensus.methods.label_cut import cut_by_labels
from gpu_consensus.result import Consensus
from gpu_consensus.util.checks import check_int


def usenc(
    ensemble: Any,
    n_clusters: int,
    *,
    label_objects: int = 100_000,
    weights: Any = None,
    on_unlabelled: str = "raise",
    backend: str | Backend = "auto",
    n_jobs: int | None = None,
    memory_limit: int | None = None,
    random_state: Any = None,
    progress: bool = False,
) -> Consensus:
    """Cut the graph of objects and labels on the side of the labels (U-SENC).

    The consensus step of ultra-scalable spectral ensemble clustering: objects and
    labels are the vertices of a graph, with an edge where an object carries a label. It
    is cut as in :func:`lwgp`, with all edges of weight 1. The cut is that of
    :func:`hbgf`, but only objects are clustered, and the time of its eigenvectors does
    not depend on their number.

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
        The basic partitions; a missing label is no edge. The paper makes them by its
        own clusterer, with 20 to 60 clusters each.
    n_clusters : int
        Clusters of the consensus. Fewer come out where k-means finds fewer, which a
        warning says.
    label_objects : int, default 100_000
        As in :func:`lwgp`.
    weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
        As in :func:`kcc`. A weight w of a partition makes it count like w copies. Up
        to 1,500 labels in all and 5,000 objects a matrix of labels, 40 bytes a pair,
        has to fit ``memory_limit``, by default what the machine has free; beyond, 48
        bytes for each label of each object that labels are compared by.

    Returns
    -------
    Consensus
        ``objective`` is the normalised cut of the objects and ``value`` what is not
        cut, as in :func:`lwgp`. ``details`` has ``eigenvalues``, the squares of the
        singular values of HBGF, and ``label_objects`` and ``kmeans_objects``, how many
        objects were looked at.

    References
    ----------
    D. Huang, C.-D. Wang, J.-S. Wu, J.-H. Lai, C.-K. Kwoh, "Ultra-scalable spectral
    clustering and ensemble clustering", IEEE Transactions on Knowledge and Data
    Engineering 32(6), 2020.

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    >>> result = gpc.usenc(ens, 2, random_state=0)
    >>> result.labels.tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    True
    """
    label_objects = check_int("label_objects", label_objects, 1)
    shared = Shared(
        weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
    )
    task = open_task("usenc", ensemble, n_clusters, shared)
    return cut_by_labels(task, task.label_contingency(label_objects))
