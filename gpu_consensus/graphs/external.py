"""METIS and Mt-KaHyPar, through their wheels."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.graphs.kinds import Graph, Hypergraph, Parts
from gpu_consensus.util.checks import FloatArray, IntArray

MODULES = {"metis": "pymetis", "mtkahypar": "mtkahypar"}
"""The module behind each partitioner."""

_WHOLE = 1 << 30  # sums of weights after scaling, so that 32 bits hold them


def installed(partitioner: str) -> bool:
    """Whether the wheel of a partitioner is there."""
    return importlib.util.find_spec(MODULES[partitioner]) is not None


def metis(
    graph: Graph, weights: FloatArray, n_parts: int, imbalance: float, seed: int
) -> Parts:
    """Cut a graph by METIS: multilevel recursive bisection, as pmetis does.

    Karypis and Kumar, A fast and high quality multilevel scheme for partitioning
    irregular graphs, SIAM J. Sci. Comput. 20, 1998. METIS aims at the bound on the
    loads, but does not promise it.

    Parameters
    ----------
    graph : Graph
        A Hypergraph is cut by its star expansion: a vertex without load for each
        hyperedge, tied to the objects in it.
    weights : ndarray of shape (m,)
        Load of each vertex.
    n_parts : int
    imbalance : float
        How much heavier than the mean a part may be.
    seed : int
    """
    pymetis = importlib.import_module(MODULES["metis"])
    m, loads = graph.n_vertices, np.maximum(whole(weights), 1)
    if isinstance(graph, Hypergraph):
        star = graph.star().adjacency()
        loads = np.append(loads, np.zeros(star.shape[0] - m, dtype=np.int64))
        edges = _whole_edges(star)
    else:
        edges = _whole_edges(graph.adjacency())
    factor = max(1, round(1000 * min(imbalance, n_parts)))
    options = pymetis.Options(seed=seed, ufactor=factor)
    cut = pymetis.part_graph(
        n_parts,
        pymetis.CSRAdjacency(
            edges.indptr.astype(np.int64), edges.indices.astype(np.int64)
        ),
        vweights=loads,
        eweights=edges.data,
        recursive=True,
        options=options,
    )
    return np.array(cut.vertex_part, dtype=np.intp)[:m]


def mtkahypar(
    graph: Graph, weights: FloatArray, n_parts: int, cap: float, seed: int
) -> Parts:
    """Cut a graph or hypergraph by the deterministic preset of Mt-KaHyPar.

    Gottesbueren, Heuer, Maas, Sanders and Schlag, Scalable high-quality hypergraph
    partitioning, ACM Trans. Algorithms 20, 2024. A hyperedge that is cut counts once,
    however many parts it reaches.

    Parameters
    ----------
    graph : Graph
        A Hypergraph is cut as such, not by its expansion.
    weights : ndarray of shape (m,)
        Load of each vertex.
    n_parts : int
    cap : float
        Largest load of a part.
    seed : int
    """
    module = importlib.import_module(MODULES["mtkahypar"])
    start = _initialize()
    module.set_seed(seed)
    context = start.context_from_preset(module.PresetType.DETERMINISTIC)
    context.logging = False
    # blocks are bounded one by one, so that the bound is ours to the last unit
    context.set_partitioning_parameters(n_parts, 0.03, module.Objective.CUT)
    loads = np.maximum(whole(weights), 1)
    bound = int(np.floor(cap / weights.sum() * loads.sum() * (1 + 1e-12)))
    context.set_individual_target_block_weights([bound] * n_parts)
    if isinstance(graph, Hypergraph):
        columns = graph.incidence.tocsc()
        ends = zip(columns.indptr[:-1], columns.indptr[1:], strict=True)
        edges: list[Any] = [columns.indices[b:e].tolist() for b, e in ends]
        worth = np.maximum(whole(graph.edge_weights), 1)
        make = start.create_hypergraph
    else:
        from scipy.sparse import triu

        above = triu(_whole_edges(graph.adjacency()), 1).tocoo()
        edges = list(zip(above.row.tolist(), above.col.tolist(), strict=True))
        worth = above.data
        make = start.create_graph
    built = make(context, len(loads), len(edges), edges, loads.tolist(), worth.tolist())
    return np.array(built.partition(context).get_partition(), dtype=np.intp)


@functools.cache
def _initialize() -> Any:
    """Start Mt-KaHyPar, once per process and on one thread."""
    return importlib.import_module(MODULES["mtkahypar"]).initialize(1, False)


def whole(values: npt.NDArray[Any]) -> IntArray:
    """Return weights as integers: as they are if they can be, else scaled.

    Examples
    --------
    >>> whole(np.array([2.0, 1.0])).tolist()
    [2, 1]
    >>> whole(np.array([0.5, 0.25, 0.25])).tolist()
    [536870912, 268435456, 268435456]
    """
    total = float(values.sum())
    if total < _WHOLE and np.array_equal(values, np.rint(values)):
        return np.asarray(values, dtype=np.int64)
    return np.rint(values * (_WHOLE / total)).astype(np.int64)


def _whole_edges(adjacency: Any) -> Any:
    """Return the edges with integer weights; those that round to 0 are dropped."""
    edges = adjacency.copy()
    edges.data = whole(edges.data)
    edges.eliminate_zeros()
    return edges
