"""How every method begins (:func:`open_task`) and ends (:meth:`Task.result`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends import choose_backend, require_device
from gpu_consensus.backends.protocol import Backend, Codes, Counts, Table
from gpu_consensus.ensemble.distinct import (
    Distinct,
    check_distinct_rows,
    find_distinct,
    find_unlabelled,
)
from gpu_consensus.ensemble.ensemble import Ensemble, as_ensemble
from gpu_consensus.graphs.incidence import Incidence, make_incidence
from gpu_consensus.loop.count_by_cluster import count_by_cluster
from gpu_consensus.loop.fit import LoopOptions, fit
from gpu_consensus.loop.lloyd import lloyd
from gpu_consensus.loop.pairs import Pairs
from gpu_consensus.methods.label_contingency import LabelContingency, draw_objects
from gpu_consensus.methods.label_weights import check_word, word_weights
from gpu_consensus.methods.voting import IpvcRule
from gpu_consensus.result import Centroids, Consensus, ConvergenceWarning
from gpu_consensus.util.arrays import on_device, to_host
from gpu_consensus.util.checks import (
    FloatArray,
    check_choice,
    check_int,
    check_n_clusters,
    seed_sequence,
)
from gpu_consensus.util.memory import check_memory
from gpu_consensus.util.warn import warn
from gpu_consensus.util.weights import are_equal, useful_partitions


class Shared(NamedTuple):
    """The options that all methods share; see ``kcc``."""

    weights: Any = None
    on_unlabelled: str = "raise"
    backend: str | Backend = "auto"
    n_jobs: int | None = None
    memory_limit: int | None = None
    random_state: Any = None
    progress: bool = False


_DEFAULTS = Shared()

_ENTRY_BYTES = 16  # a count of 64 bits, and what is made of it
_MERGED = 4  # cells for each cluster, where starts are merged
_SMALL_BYTES = 1 << 28  # which every machine has


@dataclass(frozen=True)
class Task:
    """One call of a method: what to combine, into how many clusters, and where.

    Attributes
    ----------
    method : str
    given : Ensemble
        What the caller gave.
    given_weights : ndarray of shape (r,)
        Of its partitions; they sum to 1.
    n_clusters : int or None
        None for methods that find the number.
    backend : Backend
    skip : ndarray of int
        Objects of ``given`` without any label.
    seeds : SeedSequence or None
        Drawn from ``random_state`` by :func:`open_task`; None if that is None.
    n_jobs : int or None
    memory_limit : int or None
    random_state
        As the caller gave it.
    progress : bool
    loop : LoopOptions or None
        Of a method of the k-means family.
    draws : SeedSequence
        As ``seeds``, but never None.
    weighing : mapping
        What ``details`` tells of weights that were asked for by a word.
    """

    method: str
    given: Ensemble
    given_weights: FloatArray
    n_clusters: int | None
    backend: Backend
    skip: npt.NDArray[np.intp]
    seeds: np.random.SeedSequence | None
    n_jobs: int | None
    memory_limit: int | None
    random_state: Any
    progress: bool
    loop: LoopOptions | None = None
    draws: np.random.SeedSequence = field(default_factory=np.random.SeedSequence)
    weighing: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def useful(self) -> npt.NDArray[np.intp]:
        """The given partitions that count: those with a weight and with labels."""
        return useful_partitions(self.given.n_labels, self.given_weights)

    @cached_property
    def labelled(self) -> npt.NDArray[np.intp]:
        """The given objects that have a label."""
        return np.delete(np.arange(self.given.n_samples), self.skip)

    @cached_property
    def ensemble(self) -> Ensemble:
        """The ensemble without unlabelled objects and partitions that do not count."""
        if not self.skip.size and self.useful.size == self.given.n_partitions:
            return self.given
        return self.given.subset(rows=self.labelled, partitions=self.useful)

    @cached_property
    def weights(self) -> FloatArray:
        """Weights of the partitions of ``ensemble``; positive, sum 1."""
        weights = self.given_weights[self.useful]
        return np.asarray(weights / weights.sum())

    @property
    def codes(self) -> Codes:
        """Codes of the labelled objects, on the host, (r, n)."""
        codes: Codes = to_host(self.ensemble.all_codes())
        return codes

    @property
    def equal_weights(self) -> bool:
        """Whether all partitions weigh the same."""
        return are_equal(self.weights)

    @property
    def k(self) -> int:
        """The number of clusters, for methods that need it."""
        assert self.n_clusters is not None
        return self.n_clusters

    def for_all_objects(self, rows: FloatArray) -> FloatArray:
        """Return rows of the labelled objects with rows of 0 for those without."""
        if not self.skip.size:
            return rows
        whole = np.zeros((self.given.n_samples, *rows.shape[1:]))
        whole[self.labelled] = rows
        return whole

    def by_given_partition(self, values: Sequence[Any]) -> list[Any]:
        """Return one value per given partition, None for those that do not count."""
        whole: list[Any] = [None] * self.given.n_partitions
        for value, i in zip(values, self.useful, strict=True):
            whole[i] = value
        return whole

    def rng(self) -> np.random.Generator:
        """Return the generator of this call.

        From a Generator or RandomState it is the second draw, after that of ``seeds``.
        """
        return np.random.default_rng(seed_sequence(self.random_state))

    def seed(self) -> int:
        """Draw one seed for programs that take an integer, 0..2^31 - 2."""
        return int(self.rng().integers(2**31 - 1))

    @cached_property
    def distinct(self) -> Distinct:
        """The objects whose labels are all equal, found once."""
        return find_distinct(self.codes)

    @cached_property
    def incidence(self) -> Incidence:
        """The hypergraph of the ensemble."""
        return make_incidence(self.ensemble, self.weights, self.distinct)

    def label_contingency(self, label_objects: int) -> LabelContingency:
        """Return how many objects any two labels of ``ensemble`` have in common.

        From ``label_objects`` objects at most, drawn by the seed.
        """
        drawn = draw_objects(self.ensemble.n_samples, label_objects, self.draws)
        return LabelContingency(
            self.method, self.ensemble, self.backend, drawn, self.memory_limit
        )

    def count(
        self, ensemble: Ensemble, labels: npt.NDArray[Any], n_clusters: int
    ) -> Counts:
        """Count the labels of each cluster of a labelling; -1 means not counted."""
        if ensemble.elsewhere is not None:
            counts: Counts = ensemble.elsewhere.count(labels, n_clusters)
            return counts
        return count_by_cluster(
            self.backend,
            ensemble.codes,
            ensemble.offsets,
            labels,
            n_clusters,
            self.memory_limit,
        )

    def pairs(self, objects: npt.NDArray[np.intp] | None = None) -> Pairs:
        """Return the co-association of all objects, or of some."""
        codes = self.codes if objects is None else self.codes[:, objects]
        return Pairs(self.backend, codes, self.ensemble.n_labels, self.weights)

    def fit(
        self,
        rule: Any,
        *,
        refine_cost: float = 1.0,
        run: Callable[..., None] = lloyd,
    ) -> Consensus:
        """Run the loop of the k-means family with a rule, and return its result.

        ``refine_cost`` and ``run`` are those of :func:`gpu_consensus.loop.fit.fit`.
        """
        assert self.loop is not None
        end = fit(
            self.given,
            self.k,
            rule,
            self.given_weights,
            self.method,
            self.loop,
            backend=self.backend,
            skip=self.skip,
            memory_limit=self.memory_limit,
            random_state=self.seeds,
            progress=self.progress,
            n_jobs=self.n_jobs,
            refine_cost=refine_cost,
            run=run,
        )
        return self._leave(
            end.labels,
            self._centroids(end.counts, end.table, end.row_table),
            objective=end.objective,
            value=end.value,
            history=np.asarray(end.history),
            converged=end.converged,
            max_iter=self.loop.max_iter,
            details=end.details,
        )

    def result(
        self,
        labels: npt.NDArray[Any],
        *,
        objective: float,
        value: float,
        history: Any = (),
        converged: bool = True,
        max_iter: int | None = None,
        proba: FloatArray | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> Consensus:
        """Return the consensus of these labels, one per labelled object.

        Clusters without objects are left out. A warning says if fewer clusters came out
        than were asked for, or if ``max_iter``, where it is given, was too small.
        """
        used, compact = np.unique(to_host(labels), return_inverse=True)
        whole = np.full(self.given.n_samples, -1, dtype=np.int32)
        whole[self.labelled] = compact.ravel()
        counts = self.count(self.given, whole, len(used))
        table, _ = IpvcRule(self.given, self.given_weights).table(counts[:, None])
        past = np.asarray(history, dtype=np.float64)
        return self._leave(
            whole,
            self._centroids(counts, table, None),
            objective=float(objective),
            value=float(value),
            history=past if past.size else np.array([float(objective)]),
            converged=converged,
            max_iter=max_iter,
            proba=proba,
            details={} if details is None else details,
        )

    def _leave(
        self,
        labels: npt.NDArray[np.int32],
        centroids: Centroids,
        *,
        max_iter: int | None,
        converged: bool,
        details: Mapping[str, Any],
        **known: Any,
    ) -> Consensus:
        """Warn of what fell short; return the result in the caller's array type."""
        n_clusters = centroids.counts.shape[1]
        if max_iter is not None and not converged:
            warn(
                f"{self.method} did not converge in max_iter={max_iter} iterations; "
                "raise max_iter.",
                ConvergenceWarning,
            )
        if self.n_clusters is not None and n_clusters < self.n_clusters:
            warn(
                f"{self.method} found {n_clusters} clusters although "
                f"n_clusters={self.n_clusters}: the others have no object."
            )
        there = on_device(self.given.codes)
        return Consensus(
            labels=require_device().asarray(labels) if there else labels,
            n_clusters=n_clusters,
            converged=converged,
            backend=self.backend.name,
            method=self.method,
            centroids=centroids,
            details={**self.weighing, **details},
            **known,
        )

    def _centroids(
        self, counts: Counts, table: Table, row_table: Table | None
    ) -> Centroids:
        return Centroids(self.given, counts, table, row_table, self.useful)


def _check_tables(
    method: str, given: Ensemble, n_clusters: int, loop: LoopOptions | None
) -> None:
    """Refuse tables of labels by clusters that no block size makes smaller."""
    columns = n_clusters * (_MERGED if loop is not None and loop.searches else 1)
    n_bytes = _ENTRY_BYTES * int(given.offsets[-1]) * columns
    if n_bytes > _SMALL_BYTES:
        what = f"{method} of {given.offsets[-1]} labels and {n_clusters} clusters"
        cure = "ask for fewer clusters, or leave out partitions of so many labels"
        check_memory(what, n_bytes, None, cure)


def open_task(
    method: str,
    ensemble: Any,
    n_clusters: int | None,
    shared: Shared = _DEFAULTS,
    *,
    loop: LoopOptions | None = None,
    finds_n_clusters: bool = False,
    compares_pairs: bool = False,
    visits: int = 1,
) -> Task:
    """Check the arguments of a method, and prepare its task.

    Parameters
    ----------
    method : str
        The name of the method in messages and in the result.
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
    n_clusters : int or None
    shared : Shared
    loop : LoopOptions, optional
        Of a method that runs the loop of the k-means family.
    finds_n_clusters : bool, default False
        Whether the method does without ``n_clusters``.
    compares_pairs : bool, default False
        Whether the method compares all pairs of objects: its work grows with n^2.
    visits : int, default 1
        About how often it looks at every label otherwise; many pay for a device.
    """
    if loop is not None:
        loop.check()
    check_choice("on_unlabelled", shared.on_unlabelled, ["raise", "keep"])
    memory_limit = shared.memory_limit
    if memory_limit is not None:
        memory_limit = check_int("memory_limit", memory_limit, 1)
    seeds = seed_sequence(shared.random_state)
    word = check_word(shared.weights) if isinstance(shared.weights, str) else None
    given, weights = as_ensemble(ensemble, None if word else shared.weights)
    if n_clusters is not None or not finds_n_clusters:
        n_clusters = check_n_clusters(n_clusters, given.n_samples)
    if loop is not None and n_clusters is not None:
        visits = n_clusters * loop.n_init
    lookups = given.codes.size * (given.n_samples if compares_pairs else visits)
    backend = choose_backend(
        shared.backend, given.codes, shared.n_jobs, lookups=lookups
    )
    weighing: dict[str, Any] = {}
    if word is not None:
        weights, n_objects = word_weights(word, given, backend, seeds, memory_limit)
        weighing = {"weights": weights, "weights_objects": n_objects}
    skip = find_unlabelled(given, weights, shared.on_unlabelled)
    if n_clusters is not None:
        _check_tables(method, given, n_clusters, loop)
        check_distinct_rows(given, weights, n_clusters, skip)
        if n_clusters == 1:
            warn("n_clusters=1 puts all objects into one cluster.")
    return Task(
        method,
        given,
        weights,
        n_clusters,
        backend,
        skip,
        None if shared.random_state is None else seeds,
        shared.n_jobs,
        memory_limit,
        shared.random_state,
        bool(shared.progress),
        loop,
        seeds,
        weighing,
    )
