"""Hypergraph partitioning (HGPA)."""

from __future__ import annotations

from typing import Any

from gpu_consensus.backends.protocol import Backend
from gpu_consensus.graphs import Partitioner, choose_partitioner
from gpu_consensus.graphs.graph_cut import GraphCut
from gpu_consensus.graphs.incidence import Incidence
from gpu_consensus.graphs.kinds import Hypergraph
from gpu_consensus.methods.call import Shared, Task, open_task
from gpu_consensus.result import Consensus
from gpu_consensus.util.checks import check_choice

EDGE_WEIGHTS = ("unit", "size")


def hgpa(
    ensemble: Any,
    n_clusters: int,
    *,
    edge_weights: str = "unit",
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
    """Hypergraph partitioning algorithm.

    Objects are vertices and clusters are hyperedges; the hypergraph is cut into
    balanced parts such that the fewest hyperedges are cut. A hyperedge that is cut
    counts once, however it is split, so where no hyperedge can stay whole all cuts are
    equal: expect little of HGPA on noisy partitions.

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
        The basic partitions; a missing label is in no hyperedge.
    n_clusters : int
        Clusters of the consensus.
    edge_weights : {"unit", "size"}, default "unit"
        Weight of a hyperedge: 1, as in the paper, or the size of its cluster, as in the
        program released with it.
    partitioner : {"auto", "metis", "mtkahypar", "spectral"}, default "auto"
        "mtkahypar" cuts the hypergraph itself. "spectral" cuts its clique expansion,
        where a hyperedge over d objects counts 1 / (d - 1) for each pair, and "metis"
        its star expansion. "auto" is the better of "mtkahypar", if it is installed
        (``pip install 'gpu-consensus[graph]'``), and "spectral": fewer hyperedges cut,
        then less of the expansion.
    imbalance : float or None, default 0.05
        How much larger than the mean a cluster may be; None for no bound, by the
        spectral partitioner. Objects with the same labels are never parted, which may
        leave clusters larger than asked.
    weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
        As in :func:`kcc`.

    Returns
    -------
    Consensus
        ``objective`` is the weight of the hyperedges cut, each times r w_i if the
        partitions have weights; ``value`` is minus that. ``details`` has
        ``partitioner``, what ran, ``expansion``, what it cut ("none", "clique" or
        "star"), and ``imbalance``, what came out.

    References
    ----------
    A. Strehl, J. Ghosh, "Cluster ensembles - a knowledge reuse framework for combining
    multiple partitions", JMLR 3, 2002, section 3.3.

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    >>> gpc.hgpa(ens, 2, random_state=0).objective
    1.0
    """
    chosen = choose_partitioner(partitioner, imbalance)
    check_choice("edge_weights", edge_weights, EDGE_WEIGHTS)
    shared = Shared(
        weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
    )
    task = open_task("hgpa", ensemble, n_clusters, shared)
    cut = run_hgpa(
        task,
        task.incidence,
        chosen,
        task.seed(),
        edge_weights,
    )
    return task.result(cut.labels, **cut.outcome)


def run_hgpa(
    task: Task,
    incidence: Incidence,
    chosen: Partitioner,
    seed: int,
    edge_weights: str = "unit",
) -> GraphCut:
    """Cut the hypergraph; labels are one per labelled object."""
    copies = incidence.copies.astype(float)
    weight = incidence.cluster_copies
    if edge_weights == "size":
        weight = weight * incidence.sizes
    graph = Hypergraph(incidence.matrix, weight, copies)
    cut = chosen.cut(graph, copies, task.k, seed)
    expansion = {"spectral": "clique", "metis": "star"}.get(cut.partitioner, "none")
    return GraphCut(
        cut.parts[incidence.row],
        graph.cut_weight(cut.parts),
        cut.details | {"expansion": expansion},
    )
