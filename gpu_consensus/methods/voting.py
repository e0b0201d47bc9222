"""The rules of iterative voting (IVC) and its probabilistic form (IPVC)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gpu_consensus.backends.protocol import Counts, Table, TableRecipe
from gpu_consensus.checks import FloatArray, IntArray
from gpu_consensus.ensemble import Ensemble
from gpu_consensus.loop.problem import Rule
from gpu_consensus.loop.segments import (
    LabelSums,
    cost_table,
    exact_sums,
    label_sums,
    present_marginals,
)


class _Votes(Rule):
    """What both rules share: marginals for absent clusters, and the total weight."""

    _utility: str
    """What a recipe calls the rule."""

    def __init__(
        self,
        ensemble: Ensemble,
        weights: FloatArray,
        label_sums: Callable[..., LabelSums] = label_sums,
    ) -> None:
        self.weights = weights
        self.segments, self.marginals, self.present = present_marginals(ensemble)
        self.total = math.fsum(weights * self.present)
        self._sums = label_sums
        self.recipe = TableRecipe(
            self._utility, self.segments.offsets, self.marginals, weights
        )

    def label_sums(self, counts: Counts) -> LabelSums:
        """Sum counts over the labels of each partition."""
        return self._sums(self.segments.offsets, counts, self.marginals)

    def filled(self, counts: Counts) -> IntArray:
        """Counts, with the marginal for clusters that have no member present."""
        return self.segments.filled(counts, self.marginals)

    def finish(self, cost: FloatArray) -> Table:
        """Weigh the costs; missing labels and absent partitions cost nothing."""
        weight = self.segments.spread(self.weights)[:, None, None]
        return cost_table(weight * cost, self.segments, self.present)

    def sums(self, per_cluster: FloatArray) -> FloatArray:
        """Add (r, R, K) up over partitions and clusters, exactly."""
        return exact_sums(self.weights[:, None, None] * per_cluster)

    def value(self, objective: float, n_samples: int) -> float:
        """Return the weighted share of labels that agree."""
        return 1.0 - objective / self.total


class IvcRule(_Votes):
    """T = 1 where a label is not the majority of the cluster."""

    _utility = "IVC"

    def table(self, counts: Counts, absent: Counts | None = None) -> tuple[Table, None]:
        """Return w_i [j is not the majority of cluster k], (S, R, K)."""
        n, segments = self.filled(counts), self.segments
        n[segments.missing] = -1
        row = np.arange(len(n))[:, None, None]
        most = n == segments.spread(segments.max(n))
        first = np.minimum.reduceat(
            np.where(most, row, len(n)), segments.starts, axis=0
        )
        return self.finish(np.asarray(row != segments.spread(first), dtype=float)), None

    def objective(self, counts: Counts, absent: Counts | None = None) -> FloatArray:
        """Return the weighted Hamming distance to the majorities, (R,)."""
        found = self.label_sums(counts)
        return self.sums((found.size - found.most).astype(np.float64))


class IpvcRule(_Votes):
    """T = 1 - m: what share of the cluster carries another label."""

    monotone = False
    _utility = "IPVC"

    def table(self, counts: Counts, absent: Counts | None = None) -> tuple[Table, None]:
        """Return w_i (1 - m_kj), (S, R, K)."""
        n, segments = self.filled(counts), self.segments
        size = np.maximum(segments.sum(n), 1)
        return self.finish(1.0 - n / segments.spread(size)), None

    def objective(self, counts: Counts, absent: Counts | None = None) -> FloatArray:
        """Return sum (1 - m) over all labels, (R,)."""
        found = self.label_sums(counts)
        return self.sums(found.size - found.square / np.maximum(found.size, 1))
