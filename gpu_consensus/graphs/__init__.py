"""Cutting graphs and hypergraphs into parts of about equal weight, or of any."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gpu_consensus.graphs.external import MODULES, installed, metis, mtkahypar
from gpu_consensus.graphs.kinds import (
    Graph,
    Hypergraph,
    Parts,
    Similarity,
    cut_weight,
)
from gpu_consensus.graphs.moves import Moves
from gpu_consensus.graphs.spectral import spectral
from gpu_consensus.util.checks import FloatArray, check_choice
from gpu_consensus.util.numbers import real_number, shown

NAMES = ("auto", "metis", "mtkahypar", "spectral")

_TIGHT = 0.1  # bound up to which METIS is relied on
_QUICK = 1 << 18  # edges up to which Mt-KaHyPar takes seconds


class PartitionerError(RuntimeError):
    """A partitioner that was asked for by name cannot run here."""


class Cut(NamedTuple):
    """The result of a partitioner.

    Attributes
    ----------
    parts : ndarray of shape (m,)
        Part of each vertex; each part holds an object.
    partitioner : str
        What ran.
    imbalance : float
        How much heavier than the mean the heaviest part came out.
    """

    parts: Parts
    partitioner: str
    imbalance: float

    @property
    def details(self) -> dict[str, Any]:
        """What the ``details`` of a method say about it."""
        return {"partitioner": self.partitioner, "imbalance": self.imbalance}


@dataclass(frozen=True)
class Partitioner:
    """A choice of partitioner and bound, checked.

    Attributes
    ----------
    name : str
        One of ``NAMES``.
    imbalance : float or None
        How much heavier than the mean a part may be; None for any.
    """

    name: str
    imbalance: float | None

    def cut(self, graph: Graph, weights: FloatArray, n_parts: int, seed: int) -> Cut:
        """Cut a graph into parts, each within the bound where that can be had.

        Parameters
        ----------
        graph : Graph
        weights : ndarray of shape (m,)
            Load of each vertex.
        n_parts : int
            At most as many as objects.
        seed : int
        """
        m = graph.n_vertices
        if n_parts == 1 or n_parts == m:  # nothing to choose
            parts = np.arange(m) if n_parts == m else np.zeros(m, dtype=np.intp)
            return _cut(parts, weights, n_parts, "none")
        if self.imbalance is None:
            parts = spectral(graph, weights, n_parts, None, seed)
            return _cut(parts, weights, n_parts, "spectral")
        cap = largest_load(weights, n_parts, self.imbalance)
        cuts = []
        for name in self._runs(graph):
            if name == "metis":
                parts = metis(graph, weights, n_parts, self.imbalance, seed)
            elif name == "mtkahypar":
                parts = mtkahypar(graph, weights, n_parts, cap, seed)
            else:
                parts = spectral(graph, weights, n_parts, cap, seed)
            _mend(graph, weights, parts, n_parts, cap)
            cuts.append(_cut(parts, weights, n_parts, name))
        return cuts[0] if len(cuts) == 1 else min(cuts, key=_worth(graph, n_parts))

    def _runs(self, graph: Graph) -> list[str]:
        """Return the partitioners to run; the best of several is taken."""
        if self.name != "auto":
            return [self.name]
        there = [] if isinstance(graph, Hypergraph) else ["metis"]
        if graph.n_ties <= _QUICK:
            there.append("mtkahypar")
        there = [name for name in there if installed(name)][:1]
        # both are at their best on graphs without hubs, under tight bounds
        tight = self.imbalance is not None and self.imbalance <= _TIGHT
        if not (there and tight and isinstance(graph, Similarity)):
            there.append("spectral")
        return there


def choose_partitioner(partitioner: Any, imbalance: Any) -> Partitioner:
    """Check the two options that all graph methods share.

    Parameters
    ----------
    partitioner : {"auto", "metis", "mtkahypar", "spectral"}
        "auto" takes METIS or, where that is not installed or cannot be used (it knows
        no hypergraphs) and there are at most 2^18 edges, Mt-KaHyPar. Spectral is run
        where neither can be, and in addition to them on hypergraphs, bipartite graphs
        and for bounds above 0.1; the lower cut is kept.
    imbalance : float or None
        How much heavier than the mean a part may be. None drops the bound, which the
        spectral partitioner alone can do: the others cut off single vertices then.

    Examples
    --------
    >>> choose_partitioner("spectral", -1)
    Traceback (most recent call last):
    ...
    ValueError: imbalance=-1 should be a number >= 0, or None for parts of any size.
    """
    check_choice("partitioner", partitioner, NAMES)
    if partitioner in MODULES and not installed(partitioner):
        raise PartitionerError(
            f"partitioner={partitioner!r} needs {MODULES[partitioner]}, which is not "
            "installed; run pip install 'gpu-consensus[graph]', or use "
            "partitioner='spectral', which needs nothing more."
        )
    if imbalance is None:
        if partitioner in MODULES:
            raise ValueError(
                f"imbalance=None is not for partitioner={partitioner!r}, which has to "
                "balance; use partitioner='spectral', or a number such as 0.5."
            )
        return Partitioner(partitioner, None)
    number = real_number(imbalance)
    if not 0 <= number < math.inf:
        raise ValueError(
            f"imbalance={shown(imbalance)} should be a number >= 0, or None for parts "
            "of any size."
        )
    return Partitioner(partitioner, number)


def largest_load(weights: FloatArray, n_parts: int, imbalance: float) -> float:
    """Return the largest load that a part may have.

    (1 + imbalance) times the mean, but never less than the heaviest vertex, nor than
    what whole weights allow at best.

    Examples
    --------
    >>> largest_load(np.ones(8), 3, 0.0), largest_load(np.ones(100), 4, 0.05)
    (3.0, 26.0)
    """
    mean = float(weights.sum()) / n_parts
    cap = min(1 + imbalance, n_parts) * mean * (1 + 1e-12)
    if np.array_equal(weights, np.rint(weights)):
        cap = max(math.floor(cap), math.ceil(mean * (1 - 1e-12)))
    return max(float(cap), float(weights.max()))


def _mend(
    graph: Graph, weights: FloatArray, parts: Parts, n_parts: int, cap: float
) -> None:
    """Fill empty parts and relieve heavy ones, where a partitioner left any."""
    load = np.bincount(parts, weights=weights, minlength=n_parts)
    count = np.bincount(parts[: graph.n_objects], minlength=n_parts)
    if load.max() > cap or count.min() == 0:
        moves = Moves(graph, weights, parts, n_parts)
        moves.fill()
        moves.relieve(cap)


def _cut(parts: Parts, weights: FloatArray, n_parts: int, name: str) -> Cut:
    load = np.bincount(parts, weights=weights, minlength=n_parts)
    return Cut(parts, name, float(n_parts * load.max() / load.sum() - 1))


def _worth(graph: Graph, n_parts: int) -> Any:
    """Return the order of cuts: hyperedges cut, then pairs cut."""

    def key(cut: Cut) -> tuple[float, float]:
        cut_edges = cut_weight(graph, cut.parts, n_parts)
        if isinstance(graph, Hypergraph):
            return graph.cut_weight(cut.parts), cut_edges
        return cut_edges, 0.0

    return key
