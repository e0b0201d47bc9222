"""Cluster-based similarity partitioning (CSPA)."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu_consensus.backends.protocol import Backend
from gpu_consensus.graphs import Partitioner, choose_partitioner
from gpu_consensus.graphs.graph_cut import GraphCut
from gpu_consensus.graphs.incidence import Incidence
from gpu_consensus.graphs.kinds import Similarity, cut_weight
from gpu_consensus.methods.call import Shared, Task, open_task
from gpu_consensus.result import Consensus
from gpu_consensus.util.checks import FloatArray
from gpu_consensus.util.memory import check_memory

_PAIR_BYTES = 48  # of one edge: the matrix, what it is made from, METIS's own copies
_LISTED_BYTES = 128  # Mt-KaHyPar takes its edges as Python lists
_CURE = "use mcla, hgpa or hbgf, which need no pairs of objects"


def cspa(
    ensemble: Any,
    n_clusters: int,
    *,
    partitioner: str = "auto",
    imbalance: float | None = 0.05,
    weights: Any = None,
    on_unlabelled: str = "raise",
    backend: str | Backend = "auto",
    n_jobs: int | None = None,
    memory_limit: int | None = None,
    random_state: Any = None,
    progress: bool = False,
) -> Consensus:
    """Cluster-based similarity partitioning algorithm.

    Objects are the vertices of a graph, weighted by how often two of them are together;
    the graph is cut into balanced parts. Time and memory grow with the square of the
    number of distinct label rows: objects with the same labels are one vertex, which
    weighs as many, and are never parted. That may leave parts heavier than asked.

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
        The basic partitions. The similarity of two objects is their share of equal
        labels among the partitions that label both, 0 if there is none.
    n_clusters : int
        Clusters of the consensus.
    partitioner : {"auto", "metis", "mtkahypar", "spectral"}, default "auto"
        METIS and Mt-KaHyPar come with ``pip install 'gpu-consensus[graph]'``; "auto" is
        METIS, else Mt-KaHyPar (up to 2^18 edges), else spectral, as installed; for
        bounds above 0.1 the better of that and spectral.
    imbalance : float or None, default 0.05
        How much larger than the mean a cluster may be. Data whose clusters differ more
        need a larger number or None: no bound, by the spectral partitioner.
    weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
        As in :func:`kcc`.

    Returns
    -------
    Consensus
        ``objective`` is the cut: the weighted co-association, summed over the pairs of
        objects in different clusters; ``value`` is minus that. ``details`` has
        ``partitioner``, what ran ("none" where there was nothing to choose),
        ``imbalance``, what came out, and ``n_vertices``.

    References
    ----------
    A. Strehl, J. Ghosh, "Cluster ensembles - a knowledge reuse framework for combining
    multiple partitions", JMLR 3, 2002, section 3.2.

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    >>> result = gpc.cspa(ens, 2, random_state=0)
    >>> result.labels.tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    True
    >>> round(result.objective, 6)
    0.666667
    """
    chosen = choose_partitioner(partitioner, imbalance)
    shared = Shared(
        weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
    )
    task = open_task("cspa", ensemble, n_clusters, shared)
    cut = run_cspa(
        task,
        task.incidence,
        chosen,
        task.seed(),
    )
    return task.result(cut.labels, **cut.outcome)


def run_cspa(
    task: Task, incidence: Incidence, chosen: Partitioner, seed: int
) -> GraphCut:
    """Cut the similarity graph; labels are one per labelled object."""
    within = incidence.matrix.T @ np.ones(len(incidence.copies))
    n_pairs = min(len(incidence.copies) ** 2, int((within * within).sum()))
    size = _LISTED_BYTES if chosen.name == "mtkahypar" else _PAIR_BYTES
    check_memory("cspa", size * n_pairs, task.memory_limit, _CURE)
    graph = similarity_graph(task, incidence)
    cut = chosen.cut(graph, incidence.copies.astype(float), task.k, seed)
    objective = cut_weight(graph, cut.parts, task.k)
    details = cut.details | {"n_vertices": graph.n_vertices}
    return GraphCut(cut.parts[incidence.row], objective, details)


def similarity_graph(task: Task, incidence: Incidence) -> Similarity:
    """Return the co-association between groups of objects with equal labels.

    The weight of the partitions in which two objects share a label, divided by the
    weight of those that label both, times the numbers of objects of both groups.
    """
    from scipy.sparse import diags_array

    copies = incidence.copies.astype(float)
    r = task.ensemble.n_partitions
    # r w_i is 1 without weights: counts stay whole numbers until the one division
    counted = diags_array(copies) @ incidence.matrix
    together = (counted @ diags_array(incidence.cluster_copies) @ counted.T).tocsr()
    factor = None
    if task.ensemble.n_missing.any():
        together.data /= _both_present(together, incidence, r * task.weights)
    else:
        together.data /= r
        share = np.sqrt(incidence.cluster_copies / r)
        factor = (counted @ diags_array(share)).tocsr()
    loops = together.diagonal()
    together.setdiag(0.0)
    together.eliminate_zeros()
    return Similarity(together, loops, copies, factor)


def _both_present(
    together: Any, incidence: Incidence, weights: FloatArray
) -> FloatArray:
    """Return the weight of the partitions that label both ends of each entry."""
    rows = np.repeat(np.arange(together.shape[0]), np.diff(together.indptr))
    both = np.zeros(together.nnz)
    for i, weight in enumerate(weights):
        own = (incidence.partition == i).astype(float)
        present = np.asarray(incidence.matrix @ own) > 0
        both += weight * (present[rows] & present[together.indices])
    return both
