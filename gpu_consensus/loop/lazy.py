"""Exact laziness: objects whose cluster cannot have changed are not scored again.

Scores are linear in the table. With D_k = sum_i max_j abs(change of T_i[j, k]), object
l of cluster a keeps its cluster while its gap, the distance from its lowest score to
the second, is larger than D_a + max over k != a of D_k + slack; otherwise it is scored
again. A gap that was large enough shrinks by as much. The slack covers the rounding of
float32 sums. With a row table, its changes count times the object's weight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.protocol import Assignment, Codes, Counts, Table
from gpu_consensus.checks import FloatArray
from gpu_consensus.memory import available_memory

if TYPE_CHECKING:
    from gpu_consensus.loop.problem import Problem

_CALM = 0.1  # share of objects that moved, above which nothing could be skipped
_DENSE = 0.5  # share of objects to score, above which scoring all is quicker
_MANY = 640  # labels for each row of a table, from which comparing tables pays
_MEMORY = 64 << 20
BYTES = 12  # of one object and restart: gaps and assignments, twice


class Laziness:
    """What the loop remembers of its restarts to leave objects out.

    Parameters
    ----------
    problem : Problem
        Its backend has ``reassign``, ``pick``, ``table_change`` and ``unsettled``.
    codes, row_weight, skip : ndarray
        Of the objects to score: those of the problem and of its rule.
    n_restarts : int
    lazy : bool, default True
        Whether to leave out any.
    """

    def __init__(
        self,
        problem: Problem,
        codes: Codes,
        row_weight: npt.NDArray[np.float32] | None,
        skip: npt.NDArray[np.intp],
        n_restarts: int,
        lazy: bool = True,
    ) -> None:
        self.problem = problem
        self.backend: Any = problem.backend
        self.codes = codes
        self.row_weight = row_weight
        self.skip = skip
        self.lazy = lazy
        self.gap = np.empty((n_restarts, codes.shape[1]), dtype=np.float32)
        self.known = np.zeros(n_restarts, dtype=bool)
        self.calm = np.zeros(n_restarts, dtype=bool)
        self.before: tuple[list[int], Table, Table | None] | None = None

    def step(
        self,
        active: list[int],
        assignment: Assignment,
        counts: Counts,
        table: Table,
        row_table: Table | None,
    ) -> npt.NDArray[np.int64]:
        """Assign all objects of some restarts in place; return how many moved.

        Parameters
        ----------
        active : list of int
            The A restarts of ``counts`` (S, A, K) and of both tables.
        assignment : ndarray of shape (R, n)
        """
        before = assignment[active]
        after = self.assign(active, before, table, row_table)
        self.backend.recount(self.codes, self.problem.offsets, before, after, counts)
        moved = np.asarray((before != after).sum(axis=1))
        assignment[active] = after
        self.note(active, moved)
        return moved

    def assign(
        self,
        active: list[int],
        assignment: Assignment,
        table: Table,
        row_table: Table | None,
    ) -> Assignment:
        """Return what assigning every object anew would give, (A, n)."""
        rows = self._unsettled(active, assignment, table, row_table)
        dense = [a for a in range(len(active)) if a not in rows]
        after = assignment.copy()
        if dense:
            gap = bool(self.calm[[active[a] for a in dense]].any())
            every = len(dense) == len(active)
            found = self.backend.assign(
                self.codes,
                self.problem.offsets,
                table if every else self.backend.pick(table, dense),
                row_weight=self.row_weight,
                row_table=row_table if every else self._some(row_table, dense),
                gap=gap,
            )
            after[dense] = found.assignment
            for at, a in enumerate(dense):
                self.known[active[a]] = gap
                if gap:
                    self.gap[active[a]] = found.gap[at]
        for a, chosen in rows.items():
            self.backend.reassign(
                self.codes,
                self.problem.offsets,
                self.backend.pick(table, [a]),
                chosen,
                after[a : a + 1],
                self.gap[active[a]][None],
                row_weight=self.row_weight,
                row_table=self._some(row_table, [a]),
            )
        self.before = (list(active), table, row_table)
        after[:, self.skip] = self.problem.n_clusters
        return after

    def note(self, active: list[int], moved: npt.NDArray[np.int64]) -> None:
        """Take note of how many objects of each restart moved."""
        calm = moved < _CALM * self.problem.codes.shape[1]
        self.calm[active] = calm & self.lazy

    def forget(self, q: int, l: int) -> None:
        """Score object l of restart q again: it was moved against its scores."""
        self.gap[q, l] = -np.inf

    def _some(self, row_table: Table | None, restarts: list[int]) -> Table | None:
        if row_table is None or row_table.ndim == 2:
            return None if row_table is None else row_table[restarts]
        found: Table = self.backend.pick(row_table, restarts)
        return found

    def _unsettled(
        self,
        active: list[int],
        assignment: Assignment,
        table: Table,
        row_table: Table | None,
    ) -> dict[int, npt.NDArray[np.int64]]:
        """Return the objects to score of each restart in which they are few."""
        if self.before is None:
            return {}
        earlier, old, old_row = self.before
        pairs = [
            (earlier.index(q), a)
            for a, q in enumerate(active)
            if self.known[q] and self.calm[q] and q in earlier
        ]
        if not pairs:
            return {}
        offsets, weight = self.problem.offsets, self.row_weight
        n_partitions = len(offsets) - 1
        # rounding of two sums, of their product and of the gap itself
        unit = 4 * (n_partitions + 2) * 2.0**-24
        change, level = self.backend.table_change(offsets, old, table, pairs)
        limit = _limits(change, level, unit)
        limit_row = np.zeros_like(limit)
        if row_table is not None and old_row is not None:
            if row_table.ndim == 3:
                change, level = self.backend.table_change(
                    offsets, old_row, row_table, pairs
                )
            else:
                was, now = (
                    x[list(at)].astype(np.float64)
                    for x, at in zip(
                        (old_row, row_table), zip(*pairs, strict=True), strict=True
                    )
                )
                change = np.abs(now - was)
                level = np.maximum(np.abs(now), np.abs(was))
            limit_row = _limits(change, level, unit)
        found = {}
        for (_, a), most, most_row in zip(pairs, limit, limit_row, strict=True):
            q = active[a]
            chosen = self.backend.unsettled(
                assignment[a], self.gap[q], most, most_row, weight
            )
            if len(chosen) <= _DENSE * assignment.shape[1]:
                found[a] = chosen
        return found


def _limits(change: FloatArray, level: FloatArray, unit: float) -> FloatArray:
    """Return by how much a gap may shrink, for each own cluster; (A, K + 1).

    Objects that are not counted have no gap; whatever happens, they stay.
    """
    n_restarts, n_clusters = change.shape
    other = np.zeros_like(change)
    if n_clusters > 1:
        order = np.sort(change, axis=1)
        other[:] = order[:, -1:]
        first = change.argmax(axis=1)
        other[np.arange(n_restarts), first] = order[:, -2]
    slack = unit * level.max(axis=1, keepdims=True)
    return np.concatenate(
        [change + other + slack, np.full((n_restarts, 1), -np.inf)], axis=1
    )


def worth_it(problem: Problem, n_restarts: int) -> bool:
    """Whether the backend can be lazy, within the working memory, and gains by it."""
    codes: Codes = problem.codes
    return (
        hasattr(problem.backend, "reassign")
        and pays(problem, codes)
        and fits(problem, BYTES * n_restarts * codes.shape[1])
    )


def pays(problem: Problem, codes: Codes) -> bool:
    """Whether there are many labels for each row of a table.

    To compare two tables costs the same for any number of objects; with fewer, scoring
    all of them was measured to be quicker.
    """
    return bool(codes.size >= _MANY * int(problem.offsets[-1]))


def fits(problem: Problem, needed: int) -> bool:
    """Whether so many bytes are within the working memory."""
    limit = problem.memory_limit
    if limit is None:
        # codes may be mapped from a disk that is larger than the memory
        limit = max(_MEMORY, 2 * problem.codes.nbytes)
        free = available_memory()
        limit = limit if free is None else min(limit, free // 2)
    return bool(needed <= limit)
