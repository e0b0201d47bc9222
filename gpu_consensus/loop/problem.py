"""What a fit works on: a method's rule, its data, and how far the restarts got."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gpu_consensus.arrays import on_device, to_host
from gpu_consensus.backends.protocol import (
    Assignment,
    Backend,
    Codes,
    Counts,
    Groups,
    Offsets,
    Table,
    TableRecipe,
)
from gpu_consensus.checks import FloatArray
from gpu_consensus.loop.collapse import count_groups


class Rule(Protocol):
    """What makes a method: its table and its objective, both from counts.

    A rule names it as its base, and then only has to say what is not as usual.
    ``absent`` (r, R, K) are the sums of the rule's ``absent_weight``, which counts do
    not hold; None for rules without.
    """

    monotone: bool = True
    """Whether the objective falls at every step; if not, repeats end the loop."""
    row_weight: npt.NDArray[np.float32] | None = None
    """(n,), with ``table`` then returning a row table too."""
    absent_weight: npt.NDArray[np.int64] | None = None
    """(n,), to be summed over the members of each cluster that a partition lacks."""
    recipe: TableRecipe | None = None
    """How compiled code and devices make the table; None where only ``table`` can."""
    fingerprint: str | None = None
    """What tells it from other rules on the same data, for checkpoints."""

    def table(
        self, counts: Counts, absent: Counts | None
    ) -> tuple[Table, Table | None]:
        """Return ``table`` (S, R, K) and ``row_table`` or None."""
        ...

    def full_table(
        self, counts: Counts, absent: Counts | None
    ) -> tuple[Table, Table | None]:
        """As ``table``, for new objects, which may lack labels where others do not."""
        return self.table(counts, absent)

    def objective(self, counts: Counts, absent: Counts | None) -> FloatArray:
        """Return what is minimised, (R,), float64."""
        ...

    def value(self, objective: float, n_samples: int) -> float:
        """Return what is larger where an objective over ``n_samples`` is better."""
        ...


@dataclass
class Starts:
    """R restarts and how far they got.

    ``assignment`` (R, n) and ``counts`` (S, R, K) agree; ``history[q]`` holds the
    objective after each iteration of restart q, ``seen[q]`` the hashes of its earlier
    assignments (only for rules that are not monotone).
    """

    assignment: Assignment
    counts: Counts
    objective: FloatArray
    converged: npt.NDArray[np.bool_]
    history: list[list[float]]
    seen: list[set[int]]

    @classmethod
    def seeded(cls, problem: Problem, seeds: Assignment) -> Starts:
        """Begin with an assignment in which some objects may not be counted."""
        seeds = problem.backend.to_device(seeds)
        return cls(
            seeds,
            problem.count(seeds),
            np.full(len(seeds), np.inf),
            np.zeros(len(seeds), dtype=bool),
            [[] for _ in seeds],
            [set() for _ in seeds],
        )

    def on_host(self, q: int) -> tuple[Assignment, Counts]:
        """Return assignment (n,) and counts (S, K) of one restart, as host copies."""
        assignment = np.array(to_host(self.assignment[q]))
        return assignment, np.ascontiguousarray(to_host(self.counts[:, q]))

    def winner(self) -> int:
        """Return the restart of lowest objective, the first of equals."""
        return int(np.argmin(self.objective))


class Problem:
    """What stays the same during a fit: data, backend, number of clusters.

    Parameters
    ----------
    backend : Backend
    codes, offsets : ndarray
        As in the seam; the codes wherever the caller has them.
    n_clusters : int
    skip : ndarray of int
        Objects without any label; they are never counted.
    memory_limit : int, optional
        Bytes of working memory.

    Attributes
    ----------
    groups : Groups or None
        Objects with equal labels, if they are to be scored once; no result changes.
    """

    def __init__(
        self,
        backend: Backend,
        codes: Codes,
        offsets: Offsets,
        n_clusters: int,
        skip: npt.NDArray[np.intp],
        memory_limit: int | None = None,
    ) -> None:
        self.backend = backend
        self.codes = codes
        self.held = backend.hold(codes)
        self.offsets = offsets
        self.n_clusters = n_clusters
        self.skip = skip
        self.memory_limit = memory_limit
        self.groups: Groups | None = None

    def blocks(self, n_restarts: int) -> Iterator[tuple[slice, Codes]]:
        """Cut the objects into ranges that keep working memory bounded."""
        return self.backend.blocks(self.held, n_restarts, self.memory_limit)

    def codes_of(self, l: int) -> Codes:
        """Return the codes of one object, (r, 1)."""
        column = np.ascontiguousarray(to_host(self.codes[:, l : l + 1]))
        codes: Codes = self.backend.to_device(column)
        return codes

    def count(self, assignment: Assignment) -> Counts:
        """Count a whole assignment (R, n), which may still be on the host."""
        if self.groups is not None:
            return count_groups(self, self.groups, assignment)
        total: Counts | None = None
        for rows, codes in self.blocks(len(assignment)):
            there = self.backend.to_device(assignment[:, rows])
            found = self.backend.count(codes, self.offsets, there, self.n_clusters)
            if total is None:
                total = found
            else:
                total += found
        assert total is not None  # there is at least one object
        return total

    def weigh(
        self, assignments: Sequence[Assignment], weight_of: Callable[[slice], Any]
    ) -> Counts:
        """Sum weights over the members that are missing in each partition, (r, R, K).

        Parameters
        ----------
        assignments : sequence of ndarray of shape (n,)
            One of each restart, where the backend computes.
        weight_of : callable
            Gives the weights of a range of objects there, as ``parted`` returns it.
        """
        total: Any = 0
        for rows, codes in self.blocks(len(assignments)):
            there = gather(self.backend.xp, assignments, rows)
            total = total + self.backend.weigh(
                codes, self.offsets, there, weight_of(rows), self.n_clusters
            )
        absent: Counts = total
        return absent

    def parted(self, vector: npt.NDArray[Any]) -> Callable[[slice], Any]:
        """Return what gives any range of a vector (n,) where the backend computes.

        The vector is brought there once, if it has room beside the codes.
        """
        backend = self.backend
        if on_device(self.held):
            whole = backend.hold(vector[None])
            if on_device(whole):
                return lambda rows: whole[0, rows]
        return lambda rows: backend.to_device(vector[rows])

    def cluster_sizes(self, counts: Counts) -> npt.NDArray[np.int64]:
        """Objects per cluster, (R, K): every object has one code in partition 0."""
        return np.asarray(counts[: self.offsets[1]].sum(axis=0))


def gather(xp: Any, assignments: Sequence[Assignment], rows: slice) -> Assignment:
    """Return a range of the assignments of some restarts, (R, n), as a copy."""
    first = assignments[0]
    there: Assignment = xp.empty((len(assignments), len(first[rows])), first.dtype)
    # one by one: a list of them would have to go to the device as an index
    for a, assignment in enumerate(assignments):
        there[a] = assignment[rows]
    return there
