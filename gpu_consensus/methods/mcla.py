"""Meta-clustering (MCLA): clusters of clusters."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu_consensus.backends.protocol import Backend
from gpu_consensus.graphs import Partitioner, choose_partitioner
from gpu_consensus.graphs.graph_cut import GraphCut
from gpu_consensus.graphs.incidence import Incidence
from gpu_consensus.graphs.kinds import Parts, Similarity, cut_weight
from gpu_consensus.methods.call import Shared, Task, open_task
from gpu_consensus.result import Consensus
from gpu_consensus.util.checks import FloatArray
from gpu_consensus.util.memory import check_memory

_PAIR_BYTES = 48  # of two clusters: the graph, what it is made from, METIS's copies
_CURE = "use hbgf, or fewer or coarser partitions"


def mcla(
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
    """Meta-clustering algorithm.

    The clusters of all partitions are the vertices of a graph, weighted by their
    Jaccard similarity. It is cut into as many meta-clusters as wanted, balanced by the
    number of objects in their clusters; clusters of the same objects stay together. An
    object goes to the meta-cluster whose clusters contain it most often on average;
    ties go to the meta-cluster with more clusters that contain it, then to the lowest
    index, in an order that does not depend on the names of the labels. A meta-cluster
    may win no object: then fewer clusters come out, with a warning.

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
        The basic partitions; a missing label is in no cluster.
    n_clusters : int
        Clusters of the consensus; no more come out than the partitions have different
        clusters.
    partitioner, imbalance
        As in :func:`cspa`; the bound is on meta-clusters, by the objects in their
        clusters.
    weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
        As in :func:`kcc`. A weight w of a partition makes it count like w copies.

    Returns
    -------
    Consensus
        ``objective`` is the Jaccard similarity cut between meta-clusters; ``value`` is
        minus that. ``details`` has ``partitioner``, what ran, ``imbalance``, what came
        out for the meta-clusters, ``meta_clusters``: for each partition the
        meta-cluster of each label in use, and ``n_ties``, the objects for which means
        tied.

    References
    ----------
    A. Strehl, J. Ghosh, "Cluster ensembles - a knowledge reuse framework for combining
    multiple partitions", JMLR 3, 2002, section 3.4.

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    >>> result = gpc.mcla(ens, 2, random_state=0)
    >>> result.labels.tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    True
    """
    chosen = choose_partitioner(partitioner, imbalance)
    shared = Shared(
        weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
    )
    task = open_task("mcla", ensemble, n_clusters, shared)
    cut = run_mcla(
        task,
        task.incidence,
        chosen,
        task.seed(),
    )
    return task.result(cut.labels, **cut.outcome)


def run_mcla(
    task: Task, incidence: Incidence, chosen: Partitioner, seed: int
) -> GraphCut:
    """Cut the meta-graph and let objects choose; one label per labelled object."""
    n_pairs = len(incidence.sizes) ** 2
    check_memory("mcla", _PAIR_BYTES * n_pairs, task.memory_limit, _CURE)
    graph, load, vertex = meta_graph(incidence)
    n_meta = min(task.k, graph.n_vertices)
    cut = chosen.cut(graph, load, n_meta, seed)
    meta = _by_first_cluster(cut.parts[vertex])
    share, n_containing = association(incidence, meta, n_meta)
    tied = share == share.max(axis=1, keepdims=True)
    labels = np.where(tied, n_containing, -1.0).argmax(axis=1)
    details = cut.details | {
        "meta_clusters": _by_partition(task, incidence, meta),
        "n_ties": int(incidence.copies[tied.sum(axis=1) > 1].sum()),
    }
    objective = cut_weight(graph, cut.parts, n_meta)
    return GraphCut(labels[incidence.row], objective, details)


def meta_graph(incidence: Incidence) -> tuple[Similarity, FloatArray, Parts]:
    """Return the Jaccard similarity between clusters of different partitions.

    Returns
    -------
    graph : Similarity
        Clusters of the same objects are one vertex.
    load : ndarray of shape (m,)
        Objects in the clusters of each vertex.
    vertex : ndarray of shape (S,)
        The vertex of each cluster.
    """
    from scipy.sparse import coo_array, diags_array
    from scipy.sparse.csgraph import connected_components

    weight, sizes = incidence.cluster_copies, incidence.sizes
    counted = diags_array(incidence.copies.astype(float)) @ incidence.matrix
    common = (incidence.matrix.T @ counted).tocoo()
    a, b = common.row, common.col
    # clusters of one partition share no object, so it adds only loops
    jaccard = common.data / (sizes[a] + sizes[b] - common.data)
    same = jaccard == 1
    equal = coo_array((jaccard[same], (a[same], b[same])), shape=common.shape)
    n_vertices, components = connected_components(equal, directed=False)
    vertex: Parts = components.astype(np.intp)
    tie, a, b = jaccard * weight[a] * weight[b], vertex[a], vertex[b]
    apart = a != b
    edges = tie[apart], (a[apart], b[apart])
    graph = Similarity(
        coo_array(edges, shape=(n_vertices, n_vertices)).tocsr(),
        _sums(a[~apart], tie[~apart], n_vertices),
        _sums(vertex, weight, n_vertices),
    )
    return graph, _sums(vertex, sizes * weight, n_vertices), vertex


def _sums(index: Parts, values: FloatArray, n_sums: int) -> FloatArray:
    sums = np.bincount(index, weights=values, minlength=n_sums)
    return np.asarray(sums, dtype=np.float64)


def association(
    incidence: Incidence, meta: Parts, n_meta: int
) -> tuple[FloatArray, FloatArray]:
    """Return how far each object belongs to each meta-cluster.

    Parameters
    ----------
    incidence : Incidence
    meta : ndarray of shape (S,)
        The meta-cluster of each cluster.
    n_meta : int

    Returns
    -------
    share : ndarray of shape (m, n_meta)
        For each distinct row the mean over the clusters of the meta-cluster: 1 if all
        contain it.
    n_containing : ndarray of shape (m, n_meta)
        How many of them contain it.
    """
    member = incidence.cluster_copies[:, None] * np.eye(n_meta)[meta]
    n_containing = np.asarray(incidence.matrix @ member)
    return n_containing / member.sum(axis=0), n_containing


def _by_first_cluster(parts: Parts) -> Parts:
    """Number meta-clusters by their first cluster."""
    _, first, part = np.unique(parts, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[part.ravel()])


def _by_partition(task: Task, incidence: Incidence, meta: Parts) -> list[list[int]]:
    """Return the meta-clusters of the labels in use, by partition and label."""
    ordered = np.empty(len(meta), dtype=np.intp)
    ordered[incidence.place] = meta
    ends = np.cumsum(
        np.bincount(incidence.partition, minlength=task.ensemble.n_partitions)
    )
    return [part.tolist() for part in np.split(ordered, ends[:-1])]
