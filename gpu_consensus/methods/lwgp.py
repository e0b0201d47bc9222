"""Locally weighted graph partitioning (LWGP)."""

from __future__ import annotations

from typing import Any

from gpu_consensus.backends.protocol import Backend
from gpu_consensus.methods.call import Shared, open_task
from gpu_consensus.methods.label_cut import cut_by_labels
from gpu_consensus.result import Consensus
from gpu_consensus.util.checks import check_int, check_positive


def lwgp(
    ensemble: Any,
    n_clusters: int,
    theta: float = 0.4,
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
    """Locally weighted graph partitioning.

    Objects and labels are the vertices of a graph; an edge weighs as much as its label
    can be trusted, ECI = exp(-E / theta), E the mean over the partitions of the entropy
    of the label's objects there. The graph is cut by its leading eigenvectors, which
    are found on the side of the labels alone: with B the weights of the edges and D the
    sums of its rows, those of B' D^-1 B. Objects lie at the mean of their labels and
    are clustered by k-means on their directions.

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
        The basic partitions; a missing label is no edge. The entropy of a label in a
        partition is that of its objects which the partition labels, 0 if there are
        none.
    n_clusters : int
        Clusters of the consensus. Fewer come out where k-means finds fewer, which a
        warning says.
    theta : float, default 0.4
        How slowly trust falls with entropy, in bits; positive. The larger, the more
        alike are all labels; :func:`usenc` is the limit.
    label_objects : int, default 100_000
        Objects that labels are compared by; where there are more, so many are drawn by
        ``random_state``. K-means learns from at most 100,000 objects, drawn in the same
        way. Every object is then placed and assigned.
    weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
        As in :func:`kcc`. A weight w of a partition makes it count like w copies. Up
        to 1,500 labels in all and 5,000 objects a matrix of labels, 40 bytes a pair,
        has to fit ``memory_limit``, by default what the machine has free; beyond, 48
        bytes for each label of each object that labels are compared by.

    Returns
    -------
    Consensus
        ``objective`` is the normalised cut of the objects, tied by the sum of ECI_j /
        n_j over the labels they share, n_j the objects of label j: sum_k (1 - share of
        the ties of cluster k that stay inside); ``value`` the sum of these shares.
        ``details`` has ``eci``: for each partition that of each label in use (None for
        partitions that do not count); ``eigenvalues``; ``label_objects`` and
        ``kmeans_objects``, how many objects were looked at.

    References
    ----------
    D. Huang, C.-D. Wang, J.-H. Lai, "Locally weighted ensemble clustering", IEEE
    Transactions on Cybernetics 48(5), 2018; Z. Li, X.-M. Wu, S.-F. Chang, "Segmentation
    using superpixels: a bipartite graph partitioning approach", CVPR 2012 (the cut).

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    >>> result = gpc.lwgp(ens, 2, random_state=0)
    >>> result.labels.tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    True
    """
    theta = check_positive("theta", theta)
    label_objects = check_int("label_objects", label_objects, 1)
    shared = Shared(
        weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
    )
    task = open_task("lwgp", ensemble, n_clusters, shared)
    return cut_by_labels(task, task.label_contingency(label_objects), theta)
