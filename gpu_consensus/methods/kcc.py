"""K-means-based consensus clustering (KCC) with any utility."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from gpu_consensus.backends.protocol import Backend, Counts, Table
from gpu_consensus.backends.recipe import TableRecipe, fill_table
from gpu_consensus.backends.segments import (
    LabelSums,
    Segments,
    exact_sums,
    label_sums,
    partition_groups,
    present_marginals,
)
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.loop.fit import LoopOptions
from gpu_consensus.loop.rule import Merging, Refinement, Rule
from gpu_consensus.loop.utilities import Formula, Utility, parse_utility
from gpu_consensus.methods.call import Shared, open_task
from gpu_consensus.result import Consensus
from gpu_consensus.util.checks import FloatArray, IntArray
from gpu_consensus.util.warn import warn


def kcc(
    ensemble: Any,
    n_clusters: int,
    utility: str | Utility = "h",
    *,
    weights: Any = None,
    init: Any = "auto",
    n_init: int = 10,
    search: bool | str | int = "auto",
    max_iter: int = 100,
    refine: bool | str = "auto",
    on_unlabelled: str = "raise",
    backend: str | Backend = "auto",
    n_jobs: int | None = None,
    memory_limit: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    random_state: Any = None,
    progress: bool = False,
) -> Consensus:
    """K-means-based consensus clustering.

    Finds the partition of greatest total utility Gamma = sum_i w_i U(pi, pi_i) (Eq. 1)
    by k-means on the label codes: the utility's convex function mu fixes the distance
    (Theorem 1), missing labels are left out of it (Eq. 35-41).

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
        The basic partitions.
    n_clusters : int
        Clusters of the consensus.
    utility : str or Utility, default "h"
        "c" (category utility), "h" (Shannon entropy), "cos", "l5", "l8" or any "lP"
        with an integer P > 1; normalised forms "nc", "nh", "ncos", "nl5", ...; or a
        :class:`Utility` of your own.
    weights : array_like of shape (n_partitions,), "eci" or "ncai", optional
        Numbers replace the ensemble's weights; a word multiplies them by how far each
        partition agrees with the others: "eci" is the mean over its labels of exp(-E /
        0.4), E the mean entropy of the label's objects in the partitions; "ncai" its
        mean NMI with the others, divided by the largest. Both are taken from at most
        100,000 objects, drawn by ``random_state``; ``details`` has the ``weights``
        and how many objects it were, ``weights_objects``.
    init : {"auto", "merge", "partition", "random", "careful"} or labels, default "auto"
        How a start begins. "auto" and "merge": the clusters of a random basic partition
        (of two that meet, where one has few), merged to ``n_clusters`` by the pairs
        that raise the objective least. "partition": some clusters of a random basic
        partition; "random": random objects; "careful" or "k-means++": objects drawn far
        from each other; or given labels (then one start).
    n_init : int, default 10
        Starts, run together; the lowest objective wins. A search evolves from the first
        ten, further ones compete at the end.
    search : {"auto", False} or int, default "auto"
        Generations of a search: ten overlays each, of two answers or of an answer and a
        basic partition, merged to ``n_clusters``, and the ten best answers go on. It
        ends after some generations without a fall. "auto": 16 at most, 8 from 5,000
        objects on, with ``init="auto"`` only. Beyond 200,000 objects starts and search
        look at so many of them, drawn by ``random_state``, and the winner goes on with
        all. ``details["search"]`` tells what was tried.
    max_iter : int, default 100
        Most iterations of a start, and most steps of refinement with ``refine=True``.
    refine : {"auto", True, False}, default "auto"
        After the starts have converged, move objects by the exact change of the
        objective, as long as it falls. "auto": ten steps of all starts together while
        n r K n_init <= 2**26, then the winner, for at most four times as many steps as
        the longest start had iterations (at least 40); True: the winner, until no move
        is left or for ``max_iter`` steps. ``details["refinement"]`` tells how many
        steps there were, and whether a move was left.
    on_unlabelled : {"raise", "keep"}, default "raise"
        Objects without any label: an error, or the label -1.
    backend : {"auto", "cupy", "native", "numpy"} or Backend, default "auto"
        Where to compute; the labels are the same.
    n_jobs : int, optional
        Threads; all cores by default.
    memory_limit : int, optional
        Bytes to aim at: so many objects are looked at together, and so many starts
        share a table (one at least), that each takes no more. It is no bound on the
        whole: labels, assignments and the counts of all starts come on top, the counts
        8 n_init n_clusters sum_i (K_i + 1) bytes, up to three times while they are
        made. Where these are too many, lower ``n_init``.
    checkpoint : path, optional
        A file that the state is written to now and then; the same call goes on from
        there and ends with the same answer.
    random_state : int, Generator, RandomState, SeedSequence, optional
        Same seed, same labels.
    progress : bool, default False
        Draw a progress bar.

    Returns
    -------
    Consensus
        ``objective`` is F, the k-means objective (Eq. 36); ``value`` is Gamma.

    References
    ----------
    J. Wu, H. Liu, H. Xiong, J. Cao, J. Chen, "K-means-based consensus clustering: a
    unified view", IEEE Transactions on Knowledge and Data Engineering 27(1), 2015.

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> ens = gpc.Ensemble.from_partitions(
    ...     [[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 2, 2], [1, 1, 1, 0, 0, -1]]
    ... )
    >>> result = gpc.kcc(ens, 2, random_state=0)
    >>> bool(result.labels[0] == result.labels[1] != result.labels[5])
    True
    >>> result.converged
    True
    """
    name, formula, normalised = parse_utility(utility)
    shared = Shared(
        weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
    )
    loop = LoopOptions(init, n_init, max_iter, checkpoint, refine, search)
    task = open_task(f"kcc:{name}", ensemble, n_clusters, shared, loop=loop)
    if isinstance(utility, Utility):
        utility.check(task.given.n_labels)
    rule = KccRule(
        task.given,
        formula,
        task.given_weights,
        normalised,
        label_sums=task.backend.label_sums,
    )
    cost = 1.0 if isinstance(utility, str) else float(task.given.n_labels.mean())
    return task.fit(rule, refine_cost=cost)


_MERGING = {"h": "entropy", "c": "square", "cos": "root"}


class KccRule(Rule):
    """Counts to table and objective for one utility.

    Parameters
    ----------
    ensemble : Ensemble
    formula : Formula
    weights : ndarray of shape (r,)
    normalised : bool
        Divide each weight by abs(mu(P)) of its partition (Eq. 34).
    label_sums : callable, default that of NumPy
        The backend's.
    """

    def __init__(
        self,
        ensemble: Ensemble,
        formula: Formula,
        weights: FloatArray,
        normalised: bool = False,
        label_sums: Callable[..., LabelSums] = label_sums,
    ) -> None:
        self.formula = formula
        self._label_sums = label_sums
        self.segments, self.marginals, self.present = present_marginals(
            ensemble.offsets, ensemble.marginals
        )
        # n_i mu(P^(i)): what one cluster of all objects would give
        self.baseline = formula.total(self.marginals[:, None], self.segments)[:, 0]
        self.weights = self._normalise(weights) if normalised else weights
        unit = formula.unit(self.segments) * self.marginals
        self.unit = math.fsum(self.segments.to_labels(self.weights) * unit)
        self.parts = TableRecipe(
            formula.recipe,
            self.segments.offsets,
            self.marginals,
            self.weights,
            formula.power,
        )
        self.recipe = self.parts if formula.recipe else None
        self.refinement = Refinement(formula, self.segments, self.weights)
        if formula.name in _MERGING:
            self.merging = Merging(
                _MERGING[formula.name], self.segments, self.weights, self._sizes
            )
        if formula.recipe == "H":
            self.smoothed = self.parts._replace(utility="H_SMOOTH")
        self.restricted = self._restricted
        self.fingerprint = self._fingerprint()

    def _restricted(self, sample: Any) -> KccRule:
        """Return the rule of some objects; weights stay those of all."""
        return KccRule(sample, self.formula, self.weights, label_sums=self._label_sums)

    def _sizes(self, counts: Counts, absent: Counts | None) -> IntArray:
        # every object that counts has one code in partition 0
        members = counts[: self.segments.offsets[1]].sum(axis=0)
        return np.asarray(members - counts[self.segments.missing])

    def _normalise(self, weights: FloatArray) -> FloatArray:
        share = np.abs(self.baseline) / np.maximum(self.present, 1)
        empty = np.flatnonzero(share == 0)
        if empty.size:
            named = ", ".join(str(i) for i in empty[:5]) + (", ..." * (empty.size > 5))
            warn(
                f"mu is 0 for {empty.size} partitions without information (partition "
                f"{named}); their weight in the normalised utility is 0."
            )
        result = np.where(share == 0, 0.0, weights / np.where(share == 0, 1.0, share))
        if not result.any():
            raise ValueError(
                "no partition with a weight carries any information for the normalised "
                "utility (all have a single label); use the plain form."
            )
        return np.asarray(result)

    def table(
        self, counts: Counts, absent: Counts | None = None
    ) -> tuple[Table, Table | None]:
        """Return w_i f(e_j, m_k), (S, R, K), float32."""
        divergence = self.formula.divergence
        if divergence is None:
            return super().table(counts, absent)
        return fill_table(self.parts, lambda n, at, *_: divergence(n, at), counts), None

    def objective(self, counts: Counts, absent: Counts | None = None) -> FloatArray:
        """Return F = sum_i w_i (sum_j n_+j mu(e_j) - sum_k n_k mu(m_k)), (R,)."""
        return self.unit - exact_sums(self._weighted_totals(counts))

    def _weighted_totals(self, counts: Counts) -> FloatArray:
        """Return w_i n_k mu(m_k), (r, R, K)."""
        offsets, parts = self.segments.offsets, []
        if self.formula.total_of is not None:
            entropy = self.formula.needs_entropy
            sums = self._label_sums(offsets, counts, self.marginals, entropy)
            return self.weights[:, None, None] * self.formula.total_of(sums)
        width = int(np.prod(counts.shape[1:]))
        for first, last in partition_groups(offsets, width):
            begin, end = offsets[first], offsets[last]
            segments = Segments(offsets[first : last + 1] - begin)
            n = segments.present(counts[begin:end])
            weight = self.weights[first:last, None, None]
            parts.append(weight * self.formula.total(n, segments))
        return np.concatenate(parts)

    def _fingerprint(self) -> str:
        parts = [self.weights, self.baseline, np.asarray([self.unit])]
        digest = hashlib.blake2b(digest_size=16)
        for part in parts:
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()

    def value(self, objective: float, n_samples: int) -> float:
        """Return Gamma from F (the identity behind Theorem 1)."""
        baseline = math.fsum(self.weights * self.baseline)
        return (self.unit - baseline - objective) / n_samples
