"""Hierarchical agglomerative clustering of the co-association matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu_consensus.backends.protocol import Backend
from gpu_consensus.methods.agglomerate import agglomerate, cut, likeness
from gpu_consensus.methods.call import Shared, open_task
from gpu_consensus.methods.disagreement import pair_agreement
from gpu_consensus.result import Consensus
from gpu_consensus.util.checks import check_choice


def hac(
    ensemble: Any,
    n_clusters: int,
    *,
    linkage: str = "average",
    weights: Any = None,
    on_unlabelled: str = "raise",
    backend: str | Backend = "auto",
    n_jobs: int | None = None,
    memory_limit: int | None = None,
    random_state: Any = None,
    progress: bool = False,
) -> Consensus:
    """Hierarchical agglomerative clustering of the co-association (HAC).

    From one cluster per object on, the two clusters of largest co-association are
    merged until ``n_clusters`` are left: always exactly so many, ties or not. Of equal
    pairs the first in the order of the clusters' first objects is merged; without gaps
    and with equal weights counts are compared, so ties are exact.

    Objects with equal labels start as one cluster of that size. That is exact: their
    co-association is 1, and they are equally like every other object.

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
        The basic partitions. The co-association of two objects is their share of equal
        labels among the partitions that label both, 0 if there is none.
    n_clusters : int
        Clusters of the consensus.
    linkage : {"average", "single", "complete"}, default "average"
        Co-association of two clusters: the mean, the largest or the least of their
        objects'. "average" is the method of the papers, "single" evidence accumulation.
    weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
        As in :func:`kcc`; nothing is drawn here, so
        ``random_state`` has no effect. A matrix of
        10 m^2 bytes, m the objects that differ in their labels, and 150 MB have to fit
        ``memory_limit``, by default what the machine has free; otherwise there is a
        MemoryError before any work.

    Returns
    -------
    Consensus
        ``objective`` is the cost of correlation clustering, as in :func:`furthest`;
        ``value`` the share of pairs that agree. ``details["heights"]``: 1 minus the
        co-association of each merge, up to a single cluster; the last
        ``n_clusters - 1`` were not made.

    References
    ----------
    A. L. Fred, A. K. Jain, "Data clustering using evidence accumulation", ICPR 2002;
    N. Nguyen, R. Caruana, "Consensus clusterings", ICDM 2007, section 3.1.

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    >>> result = gpc.hac(ens, 2)
    >>> result.labels.tolist(), result.details["heights"].round(2).tolist()
    ([0, 0, 1, 1], [0.33, 0.83])
    """
    check_choice("linkage", linkage, ["average", "single", "complete"])
    shared = Shared(
        weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
    )
    task = open_task("hac", ensemble, n_clusters, shared, compares_pairs=True)
    distinct = task.distinct
    # a matrix, and a quarter of it while the half of the classes left is copied out
    similarity = likeness(task, distinct, 10, "use kcc or sec, which need no matrix")
    matrix, sizes = similarity.matrix, distinct.size.astype(np.float64)
    if linkage == "average" and len(sizes) < len(distinct.group):
        matrix *= sizes
        matrix *= sizes[:, None]
    merges = agglomerate(matrix, sizes, linkage, progress=task.progress)
    made = len(sizes) - task.k
    _, labels = np.unique(cut(merges[:made], len(sizes)), return_inverse=True)
    labels = labels[distinct.group]
    agreement = pair_agreement(task, labels, task.k)
    heights = 1.0 - np.array([merge.score for merge in merges]) / similarity.unit
    return task.result(
        labels,
        objective=agreement.objective,
        value=agreement.value,
        details={"heights": heights},
    )
