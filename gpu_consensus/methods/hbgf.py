"""Hybrid bipartite graph formulation (HBGF)."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu_consensus.backends.protocol import Backend
from gpu_consensus.graphs import choose_partitioner
from gpu_consensus.graphs.graph_cut import GraphCut
from gpu_consensus.graphs.incidence import Incidence
from gpu_consensus.graphs.kinds import Bipartite, cut_weight
from gpu_consensus.methods.call import Shared, open_task
from gpu_consensus.result import Consensus


def hbgf(
    ensemble: Any,
    n_clusters: int,
    *,
    partitioner: str = "spectral",
    imbalance: float | str | None = "auto",
    weights: Any = None,
    on_unlabelled: str = "raise",
    backend: str | Backend = "auto",
    n_jobs: int | None = None,
    memory_limit: int | None = None,
    random_state: Any = None,
    progress: bool = False,
) -> Consensus:
    """Hybrid bipartite graph formulation.

    Objects and clusters together are the vertices of a graph, with an edge where an
    object carries a label. All are cut into parts at once; the parts of the objects are
    the consensus. A part that would hold clusters only is given an object.

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
        The basic partitions; a missing label is no edge.
    n_clusters : int
        Clusters of the consensus.
    partitioner : {"spectral", "metis", "mtkahypar", "auto"}, default "spectral"
        "spectral" runs k-means on the leading singular vectors of the normalised
        matrix of objects and clusters; "metis" and "mtkahypar" cut the graph into
        balanced parts, as :func:`cspa` says. "auto" is the better of METIS, or else
        Mt-KaHyPar, and a balanced spectral cut.
    imbalance : float, None or "auto", default "auto"
        How much larger than the mean a part may be, counting objects and clusters, each
        as 1; None for no bound. "auto": none for "spectral", 0.05 for the others.
        Objects with the same labels are never parted.
    weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
        As in :func:`kcc`. A weight w of a partition makes it count like w copies.

    Returns
    -------
    Consensus
        ``objective`` is the weight of the edges cut: labels whose cluster lies in
        another part than the object; ``value`` is minus that. ``details`` has
        ``partitioner``, what ran, and ``imbalance``, what came out over all vertices.

    References
    ----------
    X. Z. Fern, C. E. Brodley, "Solving cluster ensemble problems by bipartite graph
    partitioning", ICML 2004.

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    >>> result = gpc.hbgf(ens, 2, random_state=0)
    >>> result.labels.tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    True
    """
    if isinstance(imbalance, str) and imbalance == "auto":
        imbalance = None if partitioner == "spectral" else 0.05
    chosen = choose_partitioner(partitioner, imbalance)
    shared = Shared(
        weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
    )
    task = open_task("hbgf", ensemble, n_clusters, shared)
    incidence = task.incidence
    graph = bipartite_graph(incidence)
    cut = chosen.cut(graph, graph.copies, task.k, task.seed())
    result = GraphCut(
        cut.parts[incidence.row],
        cut_weight(graph, cut.parts, task.k),
        cut.details,
    )
    return task.result(result.labels, **result.outcome)


def bipartite_graph(incidence: Incidence) -> Bipartite:
    """Return the graph of objects and clusters, edges weighted by copies of both."""
    from scipy.sparse import diags_array

    copies = incidence.copies.astype(float)
    rows = diags_array(copies) @ incidence.matrix
    edges = (rows @ diags_array(incidence.cluster_copies)).tocsr()
    return Bipartite(edges, np.concatenate([copies, incidence.cluster_copies]))
