"""The rules of iterative voting (IVC) and its probabilistic form (IPVC)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gpu_consensus.backends.protocol import Counts
from gpu_consensus.backends.recipe import TableRecipe
from gpu_consensus.backends.segments import (
    LabelSums,
    exact_sums,
    label_sums,
    present_marginals,
)
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.loop.rule import Rule
from gpu_consensus.util.checks import FloatArray


class _Votes(Rule):
    """What both rules share: marginals for absent clusters, and the total weight."""

    _utility: str
    """The name of the rule in a recipe."""

    def __init__(
        self,
        ensemble: Ensemble,
        weights: FloatArray,
        label_sums: Callable[..., LabelSums] = label_sums,
    ) -> None:
        self.weights = weights
        self.segments, self.marginals, self.present = present_marginals(
            ensemble.offsets, ensemble.marginals
        )
        self.total = math.fsum(weights * self.present)
        self._sums = label_sums
        self.recipe = TableRecipe(
            self._utility, self.segments.offsets, self.marginals, weights
        )

    def label_sums(self, counts: Counts) -> LabelSums:
        """Sum counts over the labels of each partition."""
        return self._sums(self.segments.offsets, counts, self.marginals)

    def sums(self, per_cluster: FloatArray) -> FloatArray:
        """Add (r, R, K) up over partitions and clusters, exactly."""
        return exact_sums(self.weights[:, None, None] * per_cluster)

    def value(self, objective: float, n_samples: int) -> float:
        """Return the weighted share of labels that agree."""
        return 1.0 - objective / self.total


class IvcRule(_Votes):
    """T = 1 where a label is not the majority of the cluster."""

    _utility = "IVC"

    def objective(self, counts: Counts, absent: Counts | None = None) -> FloatArray:
        """Return the weighted Hamming distance to the majorities, (R,)."""
        sums = self.label_sums(counts)
        return self.sums((sums.size - sums.most).astype(np.float64))


class IpvcRule(_Votes):
    """T = 1 - m: what share of the cluster carries another label."""

    monotone = False
    _utility = "IPVC"

    def objective(self, counts: Counts, absent: Counts | None = None) -> FloatArray:
        """Return sum (1 - m) over all labels, (R,)."""
        sums = self.label_sums(counts)
        return self.sums(sums.size - sums.square / np.maximum(sums.size, 1))
