"""The one loop: counts to table, table to assignment, until nothing moves.

A method of the k-means family is a :class:`Rule`, the small function from counts to
table; the loop, its restarts and its stopping rules are the same for all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.protocol import Assignment, Codes, Counts, Table
from gpu_consensus.loop.collapse import collapse
from gpu_consensus.loop.hashing import hash_assignments
from gpu_consensus.loop.lazy import Laziness, worth_it
from gpu_consensus.loop.problem import Problem, Rule, Starts, gather


def lloyd(
    problem: Problem,
    rule: Rule,
    starts: Starts,
    *,
    max_iter: int,
    together: int | None = None,
    after_iteration: Callable[[Starts], None] | None = None,
    lazy: bool = True,
) -> None:
    """Run all restarts until each stops; ``starts`` is changed in place.

    Parameters
    ----------
    problem : Problem
    rule : Rule
    starts : Starts
        Where to begin. An objective of infinity marks seeds: objects that are not
        counted yet, so that any first assignment is better.
    max_iter : int
        Iterations after which a restart is stopped, not converged.
    together : int, optional
        How many restarts share a table; all by default. Fewer need less memory.
    after_iteration : callable, optional
        Called with the state after every iteration; the counts of restarts that go on
        are not up to date then.
    lazy : bool, default True
        Leave out objects that cannot move, where the backend can; the same result.

    Notes
    -----
    A restart stops when nothing moves; when the objective of a monotone rule no longer
    falls (rounding or ties: the previous assignment is returned); when an assignment
    of another rule repeats; or after ``max_iter``. The previous assignment is not kept:
    it is made again from the previous table, so memory stays at one assignment.
    """
    run = _Run(problem, rule, starts, lazy)
    while True:
        active = [
            q
            for q, history in enumerate(starts.history)
            if not starts.converged[q] and len(history) < max_iter
        ][:together]
        run.take(active)
        if not active:
            return
        with problem.backend.stage("iteration"):
            run.iterate()
        if after_iteration is not None:
            after_iteration(starts)


class _Step(NamedTuple):
    """How the assignment of a restart came about, to make it again."""

    table: Table
    row_table: Table | None
    column: int
    repairs: list[tuple[int, int]]


class _Run:
    """One iteration after another over the restarts that still move."""

    def __init__(self, problem: Problem, rule: Rule, state: Starts, lazy: bool) -> None:
        self.problem = problem
        self.rule = rule
        self.state = state
        # a complete first assignment cannot be made again from a table: keep it
        self.origin = {
            q: state.assignment[q].copy()
            for q in range(len(state.assignment))
            if rule.monotone
            and np.isfinite(state.objective[q])
            and not state.converged[q]
        }
        self.steps: dict[int, _Step] = {}
        n_restarts = len(state.assignment)
        self.lazy: Laziness | None = collapse(problem, rule, n_restarts, lazy)
        if self.lazy is None and lazy and worth_it(problem, n_restarts):
            self.lazy = Laziness(
                problem, problem.held, rule.row_weight, problem.skip, n_restarts
            )
        self.active: list[int] = []
        self.counts: Counts = state.counts[:, :0]
        # a copy of them, if they are not on the host themselves
        self.on_host: Counts | None = None
        self._row_weight: Callable[[slice], Any] = lambda rows: None
        if rule.row_weight is not None:
            self._row_weight = problem.parted(rule.row_weight)
        # as the counts: of the restarts that go on, where the backend computes
        self.absent: Counts | None = None
        self._absent_weight: Callable[[slice], Any] | None = None
        if rule.absent_weight is not None:
            self._absent_weight = problem.parted(rule.absent_weight)
        if problem.skip.size:
            nowhere = np.zeros(problem.codes.shape[1], dtype=np.bool_)
            nowhere[problem.skip] = True
            self._nowhere = problem.parted(nowhere)

    def take(self, active: list[int]) -> None:
        """Gather the counts of the restarts that go on; put back those of others."""
        state, held, xp = self.state, self.active, self.problem.backend.xp
        if active == held:
            return
        if self.counts is not state.counts:
            for a, q in enumerate(held):
                if q not in active or not set(active) <= set(held):
                    state.counts[:, q] = self.counts[:, a]
        on_host, self.on_host = self.on_host, None
        absent, self.absent = self.absent, None
        if not active:
            self.counts = state.counts[:, :0]
        elif set(active) <= set(held):
            places = [held.index(q) for q in active]
            self.counts = xp.ascontiguousarray(self.counts[:, places])
            if on_host is not None:
                self.on_host = np.ascontiguousarray(on_host[:, places])
            if absent is not None:
                self.absent = xp.ascontiguousarray(absent[:, places])
        else:
            self.counts = state.counts
            if len(active) < len(state.assignment):
                self.counts = xp.ascontiguousarray(state.counts[:, active])
            if self._absent_weight is not None:
                rows = [state.assignment[q] for q in active]
                self.absent = self.problem.weigh(rows, self._absent_weight)
        self.active = active

    def iterate(self) -> None:
        state, rule, backend = self.state, self.rule, self.problem.backend
        active, counts = self.active, self.counts
        rows = [state.assignment[q] for q in active]
        table, row_table = backend.table(rule, counts, self.absent, self.on_host)
        changed, hashes = self._assign(table, row_table), None
        if not rule.monotone:
            hashes = hash_assignments(backend.xp, rows, self.problem.n_clusters)
        # the one copy from the device: sizes and objective are the host's work
        moved, on_host, absent, hashes = backend.bring(
            changed, counts, self.absent, hashes
        )
        self.on_host = None if on_host is counts else on_host
        sizes = self.problem.cluster_sizes(on_host)
        repairs = [
            self._repair(a, table, row_table, on_host, absent, sizes[a])
            for a in range(len(active))
        ]
        if (
            moved.any()
            or any(repairs)
            or not np.isfinite(state.objective[active]).all()
        ):
            objective = rule.objective(on_host, absent)
        else:
            objective = state.objective[active]
        for a, q in enumerate(active):
            # seeds that are a fixed point at once still lack their objective
            scored = np.isfinite(state.objective[q])
            still = scored and not moved[a] and not repairs[a]
            if rule.monotone and not still and not objective[a] < state.objective[q]:
                self._undo(a)
                still = True
            elif not still:
                state.objective[q] = objective[a]
                self.steps[q] = _Step(table, row_table, a, repairs[a])
            self.origin.pop(q, None)
            state.history[q].append(float(state.objective[q]))
            if not rule.monotone and not still:
                if repairs[a]:
                    hashes[a] = self._hash(rows[a])
                still = self._repeats(q, int(hashes[a]))
            state.converged[q] = still
            if state.converged[q]:
                self.steps.pop(q, None)

    def _assign(self, table: Table, row_table: Table | None) -> npt.NDArray[np.int64]:
        """Assign all objects in place, update the counts, return how many moved."""
        problem, assignment, active = self.problem, self.state.assignment, self.active
        backend, xp = problem.backend, problem.backend.xp
        vectors = [assignment[q] for q in active]
        moved: npt.NDArray[np.int64]
        if self.lazy is not None:
            everyone = slice(0, problem.codes.shape[1])
            before = None if self.absent is None else gather(xp, vectors, everyone)
            moved = self.lazy.step(active, assignment, self.counts, table, row_table)
            if before is not None:
                after = gather(xp, vectors, everyone)
                self._reweigh(problem.held, everyone, before, after)
            return moved
        moved = xp.zeros(len(active), dtype=np.int64)
        for rows, codes in problem.blocks(len(active)):
            after = self._assign_block(rows, codes, table, row_table)
            before = gather(xp, vectors, rows)
            for a, vector in enumerate(vectors):
                vector[rows] = after[a]
            backend.recount(codes, problem.offsets, before, after, self.counts)
            self._reweigh(codes, rows, before, after)
            moved += (before != after).sum(axis=1)
        return moved

    def _reweigh(
        self, codes: Codes, rows: slice, before: Assignment, after: Assignment
    ) -> None:
        """Update the sums beside the counts, for rules that need them."""
        if self._absent_weight is not None:
            assert self.absent is not None
            problem, weight = self.problem, self._absent_weight(rows)
            problem.backend.reweigh(
                codes, problem.offsets, before, after, weight, self.absent
            )

    def _assign_block(
        self, rows: slice, codes: Codes, table: Table, row_table: Table | None
    ) -> Assignment:
        problem = self.problem
        after = problem.backend.assign(
            codes,
            problem.offsets,
            table,
            row_weight=self._row_weight(rows),
            row_table=row_table,
        ).assignment
        low, high = np.searchsorted(problem.skip, (rows.start, rows.stop))
        if high > low:
            # not by an index: CuPy would make one for every entry, and wait for it
            none = after.dtype.type(problem.n_clusters)
            after = problem.backend.xp.where(self._nowhere(rows), none, after)
        return after

    def _repair(
        self,
        a: int,
        table: Table,
        row_table: Table | None,
        on_host: Counts,
        absent: Counts | None,
        sizes: npt.NDArray[np.int64],
    ) -> list[tuple[int, int]]:
        """Give every empty cluster the worst-fitting object of a larger one."""
        problem, xp, q = self.problem, self.problem.backend.xp, self.active[a]
        empty = np.flatnonzero(sizes == 0)
        if not empty.size:
            return []
        # at most one object of each cluster has to stay behind, and one more of each
        # cluster that gave one away
        candidates = self._worst(
            *_restart(xp, table, row_table, a), 3 * problem.n_clusters
        )
        assignment = self.state.assignment[q]
        repairs = []
        for k in empty:
            l = next(l for l in candidates if sizes[int(assignment[l])] > 1)
            before = assignment[l : l + 1, None].copy()
            assignment[l] = k
            sizes[int(before[0, 0])] -= 1
            sizes[k] += 1
            single = xp.ascontiguousarray(self.counts[:, a : a + 1])
            problem.backend.recount(
                problem.codes_of(l),
                problem.offsets,
                before,
                xp.ascontiguousarray(assignment[l : l + 1, None]),
                single,
            )
            self.counts[:, a : a + 1] = single
            on_host[:, a : a + 1] = problem.backend.to_host(single)
            if self.lazy is not None:
                self.lazy.forget(q, l)
            repairs.append((l, int(k)))
        if self._absent_weight is not None:
            assert self.absent is not None
            assert absent is not None
            single = problem.weigh([assignment], self._absent_weight)
            self.absent[:, a : a + 1] = single
            absent[:, a : a + 1] = problem.backend.to_host(single)
        return repairs

    def _worst(self, table: Table, row_table: Table | None, number: int) -> list[int]:
        """Return the objects that fit their cluster worst, worst first."""
        problem = self.problem
        worst = np.empty(0, dtype=np.intp)
        score = np.empty(0, dtype=np.float32)
        for rows, codes in problem.blocks(1):
            best = problem.backend.assign(
                codes,
                problem.offsets,
                table,
                row_weight=self._row_weight(rows),
                row_table=row_table,
                best=True,
            ).best
            assert best is not None
            objects = np.arange(rows.start, rows.stop)
            labelled = np.isin(objects, problem.skip, invert=True, assume_unique=True)
            found = problem.backend.to_host(best)[0]
            worst = np.concatenate([worst, objects[labelled]])
            score = np.concatenate([score, found[labelled]])
            order = np.argsort(-score, kind="stable")[:number]
            worst, score = worst[order], score[order]
        return [int(l) for l in worst]

    def _undo(self, a: int) -> None:
        """Put back assignment and counts of a restart before this iteration."""
        problem, q = self.problem, self.active[a]
        xp, backend = problem.backend.xp, problem.backend
        assignment, step = self.state.assignment[q], self.steps.get(q)
        undone = assignment.copy()
        if q in self.origin:
            assignment[:] = self.origin[q]
        else:
            assert step is not None
            tables = _restart(xp, step.table, step.row_table, step.column)
            for rows, codes in problem.blocks(1):
                assignment[rows] = self._assign_block(rows, codes, *tables)[0]
            for l, k in step.repairs:
                assignment[l] = k
        single = xp.ascontiguousarray(self.counts[:, a : a + 1])
        for rows, codes in problem.blocks(1):
            backend.recount(
                codes,
                problem.offsets,
                undone[None, rows],
                assignment[None, rows],
                single,
            )
        self.counts[:, a : a + 1] = single

    def _hash(self, row: Assignment) -> Any:
        backend, n_clusters = self.problem.backend, self.problem.n_clusters
        return backend.to_host(hash_assignments(backend.xp, [row], n_clusters))[0]

    def _repeats(self, q: int, found: int) -> bool:
        """Whether the assignment of this 64-bit hash was there before."""
        repeated = found in self.state.seen[q]
        self.state.seen[q].add(found)
        return repeated


def _restart(
    xp: Any, table: Table, row_table: Table | None, a: int
) -> tuple[Table, Table | None]:
    """Return the tables of one restart; row tables have one of two shapes."""
    single: Table = xp.ascontiguousarray(table[:, a : a + 1])
    if row_table is None:
        return single, None
    return single, xp.ascontiguousarray(row_table[..., a : a + 1, :])
