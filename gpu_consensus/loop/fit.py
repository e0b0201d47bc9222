"""What every method of the k-means family does around the loop."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from gpu_consensus.arrays import to_host
from gpu_consensus.backends.protocol import Assignment, Backend, Codes, Counts, Table
from gpu_consensus.checks import (
    FloatArray,
    check_choice,
    check_int,
    check_path,
    seed_sequence,
)
from gpu_consensus.ensemble import Ensemble
from gpu_consensus.loop.checkpoint import Checkpoint, open_checkpoint
from gpu_consensus.loop.collapse import find_groups
from gpu_consensus.loop.lloyd import lloyd
from gpu_consensus.loop.problem import Problem, Rule, Starts
from gpu_consensus.loop.refine import refine, runs_compiled
from gpu_consensus.loop.seeding import NAMES as INITS
from gpu_consensus.loop.seeding import encode_init, seed_starts
from gpu_consensus.loop.segments import Segments
from gpu_consensus.loop.utilities import Formula
from gpu_consensus.progress import progress_bar

_REFINE_EVERY, _REFINE_WINNER = 2**26, 2**30
_TABLE_MEMORY = 256 << 20
_FEWER = "lower n_init or n_clusters, or set memory_limit lower"


class RefinableRule(Rule, Protocol):
    """A rule that knows the exact change of its objective by a single move."""

    formula: Formula
    segments: Segments
    weights: FloatArray


@dataclass
class LoopOptions:
    """The options of the loop itself; see ``kcc``."""

    init: Any = "partition"
    n_init: int = 10
    max_iter: int = 100
    checkpoint: str | os.PathLike[str] | None = None
    refine: bool | str = False

    def check(self) -> None:
        """Raise an error for an option that is out of its bounds."""
        check_int("n_init", self.n_init, 1)
        check_int("max_iter", self.max_iter, 1)
        if self.checkpoint is not None:
            check_path("checkpoint", self.checkpoint)
        if isinstance(self.refine, (bool, np.bool_)):
            self.refine = bool(self.refine)
        elif not isinstance(self.refine, str) or self.refine != "auto":
            raise ValueError(f"refine={self.refine!r} should be 'auto', True or False.")
        if isinstance(self.init, str):
            check_choice("init", self.init, INITS)


class Ended(NamedTuple):
    """Where the best start came to.

    Attributes
    ----------
    labels : ndarray of shape (n_samples,), int32
        -1 for objects without any label.
    counts : ndarray of shape (S, K)
    table, row_table : ndarray, ndarray or None
        What assigns new objects.
    objective, value : float
    history : list of float
        The objective after each iteration.
    converged : bool
    """

    labels: npt.NDArray[np.int32]
    counts: Counts
    table: Table
    row_table: Table | None
    objective: float
    value: float
    history: list[float]
    converged: bool


def fit(
    ensemble: Ensemble,
    n_clusters: int,
    rule: Any,
    weights: FloatArray,
    method: str,
    options: LoopOptions,
    *,
    backend: Backend,
    skip: npt.NDArray[np.intp],
    memory_limit: int | None = None,
    random_state: Any = None,
    progress: bool = False,
    refine_cost: float = 1.0,
    run: Callable[..., None] = lloyd,
) -> Ended:
    """Seed, run the loop and refine; all arguments have been checked.

    Parameters
    ----------
    ensemble : Ensemble
    n_clusters : int
    rule : Rule
        With ``formula``, ``segments`` and ``weights`` if it is to be refined.
    weights : ndarray of shape (r,)
        Weights of the partitions; those of weight 0 do not count.
    method : str
        What progress and checkpoints call the method.
    options : LoopOptions
    backend : Backend
    skip : ndarray of int
        Objects without any label.
    memory_limit, random_state, progress
        As in ``kcc``.
    refine_cost : float, default 1.0
        How much longer than usual it takes to visit an object.
    run : callable, default lloyd
        What brings the starts to their ends, called as ``lloyd`` is.
    """
    with backend.memory_for("the restarts that run together", _FEWER):
        problem = Problem(
            backend,
            ensemble.codes,
            ensemble.offsets,
            n_clusters,
            skip,
            memory_limit,
        )
        if run is lloyd:
            problem.groups = find_groups(problem, options.n_init)
        saved = open_checkpoint(
            ensemble, weights, method, n_clusters, options, rule, random_state
        )
        with backend.stage("seeding"):
            starts = _first(problem, rule, ensemble, weights, options, saved)
        saved.save(starts, force=True)  # a path that cannot be written fails now
        n_init = len(starts.assignment)
        with progress_bar(progress, method, n_init) as advance:
            done = 0

            def after_iteration(state: Starts) -> None:
                nonlocal done
                finished = int(state.converged.sum())
                lowest = f"F {state.objective.min():.6g}"
                iteration = len(max(state.history, key=len))
                advance(finished - done, f"iteration {iteration}, {lowest}")
                done = finished
                saved.save(state)

            run(
                problem,
                rule,
                starts,
                max_iter=options.max_iter,
                together=_together(problem, memory_limit),
                after_iteration=after_iteration,
            )
            with backend.stage("refine"):
                _refine(problem, rule, starts, options, saved, refine_cost, progress)
            saved.save(starts, force=True)
        return _end(problem, rule, starts)


def _together(problem: Problem, memory_limit: int | None) -> int:
    """Return how many restarts may share a table within the working memory."""
    limit = _TABLE_MEMORY if memory_limit is None else memory_limit
    one = 32 * int(problem.offsets[-1]) * problem.n_clusters
    return max(1, limit // one)


def _first(
    problem: Problem,
    rule: Rule,
    ensemble: Ensemble,
    weights: FloatArray,
    options: LoopOptions,
    saved: Checkpoint,
) -> Starts:
    """Return the state to begin with: saved, given by labels, or seeded."""
    if saved.state is not None:
        saved_assignment, objective, converged, history, seen = saved.state
        assignment = problem.backend.to_device(saved_assignment)
        counts = problem.count(assignment)
        return Starts(assignment, counts, objective, converged, history, seen)
    if not isinstance(options.init, str):
        n_clusters, n_samples = problem.n_clusters, ensemble.n_samples
        assignment = encode_init(options.init, n_samples, n_clusters)
        assignment[:, problem.skip] = n_clusters
        state = Starts.seeded(problem, assignment)
        labelled = np.delete(assignment[0], problem.skip)
        if len(np.unique(labelled)) == n_clusters and labelled.max() < n_clusters:
            counts = problem.backend.to_host(state.counts)
            absent = _absent(problem, rule, list(state.assignment))
            state.objective[:] = rule.objective(counts, absent)
        return state
    seeds = seed_sequence(saved.random_state)
    seeded = seed_starts(
        options.init, ensemble, problem, rule, weights, options.n_init, seeds
    )
    return Starts.seeded(problem, seeded)


def _absent(
    problem: Problem, rule: Rule, assignments: list[Assignment]
) -> Counts | None:
    """Return the sums beside the counts that the rule needs, on the host."""
    if rule.absent_weight is None:
        return None
    there = problem.weigh(assignments, problem.parted(rule.absent_weight))
    absent: Counts = problem.backend.to_host(there)
    return absent


def _refine(
    problem: Problem,
    rule: RefinableRule,
    starts: Starts,
    options: LoopOptions,
    saved: Checkpoint,
    refine_cost: float,
    progress: bool,
) -> None:
    """Refine the starts that ``options.refine`` names."""
    if options.refine is False or problem.n_clusters == 1:
        return
    n_partitions, n_samples = problem.codes.shape
    one = n_samples * n_partitions * problem.n_clusters * refine_cost
    every = list(range(len(starts.assignment)))
    if options.refine == "auto":
        if one * len(every) > _REFINE_EVERY:
            every = [starts.winner()] if one <= _REFINE_WINNER else []
    else:
        every = [starts.winner()]
    todo = [q for q in every if q not in saved.refined]
    codes = to_host(problem.codes) if todo else problem.codes
    lock = threading.Lock()
    # NumPy's many small steps hold the GIL, and a function of the caller's own is
    # called from no thread but the caller's
    threads = 1
    if runs_compiled(codes, rule.formula, problem.n_clusters):
        threads = getattr(problem.backend, "n_threads", 1)
    with progress_bar(progress, "refine", len(every)) as advance:
        advance(len(every) - len(todo))

        def refine_one(q: int) -> None:
            refined = _refine_start(problem, rule, starts, q, codes, options)
            with lock:  # a checkpoint never holds half a start
                _take_over(problem, starts, q, refined)
                saved.refined.append(q)
                saved.save(starts)
                advance(1, f"F {starts.objective.min():.6g}")

        if threads == 1 or len(todo) < 2:
            for q in todo:
                refine_one(q)
            return
        with ThreadPoolExecutor(min(threads, len(todo))) as pool:
            futures = [pool.submit(refine_one, q) for q in todo]
            try:
                for future in futures:
                    future.result()
            finally:
                for future in futures:
                    future.cancel()


class _Refined(NamedTuple):
    """What refinement made of a start; ``history`` has F after every sweep."""

    assignment: Assignment
    counts: Counts
    history: list[float]
    finished: bool


def _refine_start(
    problem: Problem,
    rule: RefinableRule,
    starts: Starts,
    q: int,
    codes: Codes,
    options: LoopOptions,
) -> _Refined:
    """Refine one start, and keep its objective after every sweep."""
    assignment, counts = starts.on_host(q)
    history: list[float] = []
    finished = refine(
        codes,
        rule.formula,
        rule.segments,
        rule.weights,
        assignment,
        counts,
        max_sweeps=options.max_iter,
        after_sweep=lambda counts: history.append(
            float(rule.objective(counts[:, None], None)[0])
        ),
    )
    return _Refined(assignment, counts, history, finished)


def _take_over(problem: Problem, starts: Starts, q: int, refined: _Refined) -> None:
    """Put a refined start in the place of what it came from."""
    starts.assignment[q] = problem.backend.to_device(refined.assignment)
    starts.counts[:, q] = problem.backend.to_device(refined.counts)
    starts.history[q].extend(refined.history)
    starts.objective[q] = refined.history[-1]
    starts.converged[q] &= refined.finished


def _end(problem: Problem, rule: Rule, starts: Starts) -> Ended:
    q = starts.winner()
    assignment, counts = starts.on_host(q)
    labels = assignment.astype(np.int32)
    labels[problem.skip] = -1
    absent = _absent(problem, rule, [starts.assignment[q]])
    table, row_table = rule.full_table(counts[:, None], absent)
    objective = float(starts.objective[q])
    return Ended(
        labels,
        counts,
        table,
        row_table,
        objective,
        rule.value(objective, len(labels) - len(problem.skip)),
        starts.history[q],
        bool(starts.converged[q]),
    )
