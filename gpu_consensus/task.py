"""The door and the exit of the methods that do not run the k-means loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.arrays import on_device, to_host
from gpu_consensus.backends import choose_backend, require_device
from gpu_consensus.backends.device_memory import ELSEWHERE
from gpu_consensus.backends.numpy_backend import smallest_unsigned
from gpu_consensus.backends.protocol import Backend, Codes, Counts
from gpu_consensus.checks import (
    FloatArray,
    IntArray,
    check_choice,
    check_int,
    check_n_clusters,
    seed_sequence,
)
from gpu_consensus.ensemble import Ensemble, as_ensemble
from gpu_consensus.loop.fit import check_distinct_rows, find_unlabelled
from gpu_consensus.loop.problem import Problem
from gpu_consensus.methods.voting import IpvcRule
from gpu_consensus.pairs import Pairs
from gpu_consensus.result import Centroids, Consensus
from gpu_consensus.warn import warn

SHARED_OPTIONS: dict[str, Any] = {
    "weights": None,
    "on_unlabelled": "raise",
    "backend": "auto",
    "n_jobs": None,
    "memory_limit": None,
    "random_state": None,
    "progress": False,
}
"""What these methods take beside their own, and its defaults."""


class Distinct(NamedTuple):
    """Objects with equal labels, seen as one.

    Attributes
    ----------
    first : ndarray of shape (m,)
        The first object of each group, ascending.
    group : ndarray of shape (n_samples,)
        The group of every object.
    size : ndarray of shape (m,)
        Objects in each group.
    """

    first: npt.NDArray[np.intp]
    group: npt.NDArray[np.intp]
    size: IntArray


@dataclass(frozen=True)
class Task:
    """One call of a method: what to combine, into how many clusters, and where.

    Attributes
    ----------
    method : str
    ensemble : Ensemble
        Without the objects that have no label and the partitions that have no weight.
    weights : ndarray of shape (r,)
        Of its partitions; positive, sum 1.
    n_clusters : int or None
        None for methods that find the number.
    backend : Backend
    memory_limit : int or None
    random_state
        As the caller gave it.
    progress : bool
    given : Ensemble
        What the caller gave.
    given_weights : ndarray
    skip : ndarray of int
        Objects of ``given`` without any label.
    """

    method: str
    ensemble: Ensemble
    weights: FloatArray
    n_clusters: int | None
    backend: Backend
    memory_limit: int | None
    random_state: Any
    progress: bool
    given: Ensemble
    given_weights: FloatArray
    skip: npt.NDArray[np.intp]

    @property
    def codes(self) -> Codes:
        """Codes of the labelled objects, on the host, (r, n)."""
        codes: Codes = to_host(self.ensemble.codes)
        return codes

    @property
    def equal_weights(self) -> bool:
        """Whether all partitions weigh the same."""
        return bool(np.ptp(self.weights) <= 1e-12)

    @property
    def k(self) -> int:
        """The number of clusters, for methods that are told it."""
        assert self.n_clusters is not None
        return self.n_clusters

    def rng(self) -> np.random.Generator:
        """Return the generator of this call."""
        return np.random.default_rng(seed_sequence(self.random_state))

    def seed(self) -> int:
        """Draw one seed for programs that take an integer, 0..2^31 - 2."""
        return int(self.rng().integers(2**31 - 1))

    def distinct(self) -> Distinct:
        """Find the objects whose labels are all equal."""
        rows = np.ascontiguousarray(self.codes.T)
        whole = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0]
        _, first, group, size = np.unique(
            whole, return_index=True, return_inverse=True, return_counts=True
        )
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        return Distinct(first[order], rank[group.ravel()], size[order])

    def pairs(self, objects: npt.NDArray[np.intp] | None = None) -> Pairs:
        """Return the co-association of all objects, or of some."""
        codes = self.codes if objects is None else self.codes[:, objects]
        return Pairs(self.backend, codes, self.ensemble.n_labels, self.weights)

    def result(
        self,
        labels: npt.NDArray[Any],
        *,
        objective: float,
        value: float,
        history: Any = (),
        converged: bool = True,
        proba: FloatArray | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> Consensus:
        """Return the consensus of these labels, one per labelled object.

        Clusters without objects are left out; that fewer came out than were asked for
        is said in a warning.
        """
        used, compact = np.unique(to_host(labels), return_inverse=True)
        n_clusters = len(used)
        if self.n_clusters is not None and n_clusters < self.n_clusters:
            warn(
                f"{self.method} found {n_clusters} clusters although "
                f"n_clusters={self.n_clusters}: the others have no object."
            )
        whole = np.full(self.given.n_samples, -1, dtype=np.int32)
        whole[np.delete(np.arange(len(whole)), self.skip)] = compact.ravel()
        counts = self._count(whole, n_clusters)
        table, _ = IpvcRule(self.given, self.given_weights).table(counts[:, None])
        useful = np.flatnonzero(self.given_weights > 0)
        there = on_device(self.given.codes)
        past = np.asarray(history, dtype=np.float64)
        return Consensus(
            labels=require_device().asarray(whole) if there else whole,
            n_clusters=n_clusters,
            objective=float(objective),
            value=float(value),
            history=past if past.size else np.array([float(objective)]),
            converged=converged,
            backend=self.backend.name,
            method=self.method,
            centroids=Centroids(self.given, counts, table, None, useful),
            proba=proba,
            details={} if details is None else details,
        )

    def _count(self, labels: npt.NDArray[np.int32], n_clusters: int) -> Counts:
        """Count the labels of the given ensemble by cluster, (S, K)."""
        ens = self.given
        problem = Problem(
            self.backend,
            ens.codes,
            ens.offsets,
            n_clusters,
            self.skip,
            self.memory_limit,
        )
        assignment = np.where(labels < 0, n_clusters, labels)
        assignment = assignment.astype(smallest_unsigned(n_clusters))[None]
        what = f"the labels of {n_clusters} clusters"
        with self.backend.memory_for(what, ELSEWHERE):
            counts = problem.count(self.backend.to_device(assignment))
        found: Counts = self.backend.to_host(counts)[:, 0]
        return found


def _has_to_be_told(method: str) -> bool:
    """Whether a method needs the number of clusters."""
    from gpu_consensus.methods import METHODS, finds_n_clusters

    name = method.split(":")[0]
    return name in METHODS and not finds_n_clusters(name)


def open_task(
    method: str,
    ensemble: Any,
    n_clusters: int | None,
    options: Mapping[str, Any],
    *,
    pairs: bool = False,
    visits: int = 1,
) -> Task:
    """Check what a method was given, and make it ready.

    Parameters
    ----------
    method : str
        How messages and the result call the method.
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
    n_clusters : int or None
        None for methods that find the number.
    options : mapping
        The shared keyword arguments: ``weights``, ``on_unlabelled``, ``backend``,
        ``n_jobs``, ``memory_limit``, ``random_state``, ``progress``.
    pairs : bool, default False
        Whether the method compares all pairs of objects: its work grows with n^2.
    visits : int, default 1
        About how often it looks at every label otherwise; more pay for loading numba.
    """
    from gpu_consensus.methods import check_options

    check_options(method.split(":")[0], options)
    chosen = SHARED_OPTIONS | dict(options)
    check_choice("on_unlabelled", chosen["on_unlabelled"], ["raise", "keep"])
    if chosen["memory_limit"] is not None:
        check_int("memory_limit", chosen["memory_limit"], 1)
    seed_sequence(chosen["random_state"])  # what is wrong is said before the work
    given, weights = as_ensemble(ensemble, chosen["weights"])
    lookups = given.codes.size * (given.n_samples if pairs else visits)
    backend = choose_backend(
        chosen["backend"], given.codes, chosen["n_jobs"], lookups=lookups
    )
    skip = find_unlabelled(given, weights, chosen["on_unlabelled"])
    if n_clusters is not None or _has_to_be_told(method):
        n_clusters = check_n_clusters(n_clusters, given.n_samples)
        check_distinct_rows(given, weights, n_clusters, skip)
        if n_clusters == 1:
            warn("n_clusters=1 puts all objects into one cluster.")
    kept = given
    # a partition without any label says nothing either
    useful = np.flatnonzero((weights > 0) & (given.n_labels > 0))
    if skip.size or useful.size < given.n_partitions:
        rows = np.delete(np.arange(given.n_samples), skip)
        kept = given.subset(rows=rows, partitions=useful)
    return Task(
        method,
        kept,
        weights[useful] / weights[useful].sum(),
        n_clusters,
        backend,
        chosen["memory_limit"],
        chosen["random_state"],
        bool(chosen["progress"]),
        given,
        weights,
        skip,
    )
