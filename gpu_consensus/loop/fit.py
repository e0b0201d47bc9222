"""What every method of the k-means family does around the loop."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from gpu_consensus.arrays import on_device, to_host
from gpu_consensus.backends import choose_backend, require_device
from gpu_consensus.backends.protocol import Assignment, Codes, Counts
from gpu_consensus.checks import (
    FloatArray,
    check_choice,
    check_int,
    check_n_clusters,
    check_path,
    seed_sequence,
)
from gpu_consensus.ensemble import Ensemble
from gpu_consensus.loop.checkpoint import Checkpoint, open_checkpoint
from gpu_consensus.loop.collapse import find_groups
from gpu_consensus.loop.lloyd import lloyd
from gpu_consensus.loop.problem import Problem, Rule, Starts
from gpu_consensus.loop.refine import refine
from gpu_consensus.loop.seeding import NAMES as INITS
from gpu_consensus.loop.seeding import encode_init, seed_starts
from gpu_consensus.loop.segments import Segments
from gpu_consensus.loop.utilities import Formula
from gpu_consensus.progress import progress_bar
from gpu_consensus.result import Centroids, Consensus, ConvergenceWarning
from gpu_consensus.warn import warn

_REFINE_EVERY, _REFINE_WINNER = 2**26, 2**30
_TABLE_MEMORY = 256 << 20
_FEWER = "lower n_init or n_clusters, or set memory_limit lower"


class ValuedRule(Rule, Protocol):
    """A rule whose objective also has a "larger is better" side."""

    def value(self, objective: float, n_samples: int) -> float:
        """Return the value that belongs to an objective over ``n_samples`` objects."""
        ...


class RefinableRule(ValuedRule, Protocol):
    """A rule that knows the exact change of its objective by a single move."""

    formula: Formula
    segments: Segments
    weights: FloatArray


@dataclass
class Options:
    """The keyword arguments that all methods of the family share; see ``kcc``."""

    init: Any = "partition"
    n_init: int = 10
    max_iter: int = 100
    refine: bool | str = False
    refine_cost: float = 1.0
    on_unlabelled: str = "raise"
    backend: str = "auto"
    n_jobs: int | None = None
    memory_limit: int | None = None
    checkpoint: str | os.PathLike[str] | None = None
    random_state: Any = None
    progress: bool = False

    @classmethod
    def from_keywords(cls, method: str, **keywords: Any) -> Options:
        """Take the options of a method that has no refinement; refuse others."""
        from gpu_consensus.methods import check_options

        check_options(method, keywords)
        return cls(**keywords)

    @classmethod
    def names(cls) -> set[str]:
        """Return what a method without refinement takes, ``weights`` included."""
        own = {field.name for field in fields(cls)}
        return own - {"refine", "refine_cost"} | {"weights"}

    def check(self) -> None:
        """Raise an error for an option that is out of its bounds."""
        check_int("n_init", self.n_init, 1)
        check_int("max_iter", self.max_iter, 1)
        if self.memory_limit is not None:
            check_int("memory_limit", self.memory_limit, 1)
        if self.checkpoint is not None:
            check_path("checkpoint", self.checkpoint)
        if isinstance(self.refine, (bool, np.bool_)):
            self.refine = bool(self.refine)
        elif not isinstance(self.refine, str) or self.refine != "auto":
            raise ValueError(f"refine={self.refine!r} should be 'auto', True or False.")
        check_choice("on_unlabelled", self.on_unlabelled, ["raise", "keep"])
        if isinstance(self.init, str):
            check_choice("init", self.init, INITS)


def fit(
    ensemble: Ensemble,
    n_clusters: int,
    rule: Any,
    weights: FloatArray,
    method: str,
    options: Options,
    *,
    loop: Callable[..., None] = lloyd,
) -> Consensus:
    """Seed, run the loop, refine, and make the result.

    Parameters
    ----------
    ensemble : Ensemble
    n_clusters : int
    rule : Rule
        With ``value`` beside, and ``formula``, ``segments``, ``weights`` if refined.
    weights : ndarray of shape (r,)
        Weights of the partitions; those of weight 0 do not count.
    method : str
        What the result calls the method.
    options : Options
    loop : callable, default lloyd
        What brings the starts to their ends, called as ``lloyd`` is.
    """
    options.check()
    n_clusters = check_n_clusters(n_clusters, ensemble.n_samples)
    lookups = ensemble.codes.size * n_clusters * options.n_init
    backend = choose_backend(
        options.backend, ensemble.codes, options.n_jobs, lookups=lookups
    )
    skip = find_unlabelled(ensemble, weights, options.on_unlabelled)
    check_distinct_rows(ensemble, weights, n_clusters, skip)
    if n_clusters == 1:
        warn("n_clusters=1 puts all objects into one cluster.")
    with backend.memory_for("the restarts that run together", _FEWER):
        problem = Problem(
            backend,
            ensemble.codes,
            ensemble.offsets,
            n_clusters,
            skip,
            options.memory_limit,
        )
        if loop is lloyd:
            problem.groups = find_groups(problem, options.n_init)
        if hasattr(rule, "bind"):
            rule.bind(problem)
        saved = open_checkpoint(
            options.checkpoint, ensemble, weights, method, n_clusters, options, rule
        )
        with backend.stage("seeding"):
            starts = _first(problem, rule, ensemble, weights, options, saved)
        saved.save(starts, force=True)  # a path that cannot be written fails now
        n_init = len(starts.assignment)
        with progress_bar(options.progress, method, n_init) as advance:
            done = 0

            def after_iteration(state: Starts) -> None:
                nonlocal done
                finished = int(state.converged.sum())
                lowest = f"F {state.objective.min():.6g}"
                iteration = len(max(state.history, key=len))
                advance(finished - done, f"iteration {iteration}, {lowest}")
                done = finished
                saved.save(state)

            loop(
                problem,
                rule,
                starts,
                max_iter=options.max_iter,
                together=_together(problem, options.memory_limit),
                after_iteration=after_iteration,
            )
            with backend.stage("refine"):
                _refine(problem, rule, starts, options, saved)
            saved.save(starts, force=True)
        return _result(problem, rule, ensemble, weights, starts, method, options)


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
    options: Options,
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
    options: Options,
    saved: Checkpoint,
) -> None:
    """Refine the starts that ``options.refine`` names."""
    if options.refine is False or problem.n_clusters == 1:
        return
    n_partitions, n_samples = problem.codes.shape
    one = n_samples * n_partitions * problem.n_clusters * options.refine_cost
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
    compiled = problem.backend.name == "numba"
    threads = 1
    if compiled and rule.formula.name:
        threads = getattr(problem.backend, "n_threads", 1)
    with progress_bar(options.progress, "refine", len(every)) as advance:
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
    options: Options,
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
        compiled=problem.backend.name == "numba",
    )
    return _Refined(assignment, counts, history, finished)


def _take_over(problem: Problem, starts: Starts, q: int, refined: _Refined) -> None:
    """Put a refined start in the place of what it came from."""
    starts.assignment[q] = problem.backend.to_device(refined.assignment)
    starts.counts[:, q] = problem.backend.to_device(refined.counts)
    starts.history[q].extend(refined.history)
    starts.objective[q] = refined.history[-1]
    starts.converged[q] &= refined.finished


def _result(
    problem: Problem,
    rule: ValuedRule,
    ensemble: Ensemble,
    weights: FloatArray,
    starts: Starts,
    method: str,
    options: Options,
) -> Consensus:
    q = starts.winner()
    if not starts.converged[q]:
        warn(
            f"{method} did not converge in max_iter={options.max_iter} iterations; "
            "raise max_iter.",
            ConvergenceWarning,
        )
    assignment, counts = starts.on_host(q)
    labels = assignment.astype(np.int32)
    labels[problem.skip] = -1
    make_table = getattr(rule, "full_table", rule.table)
    absent = _absent(problem, rule, [starts.assignment[q]])
    table, row_table = make_table(counts[:, None], absent)
    objective = float(starts.objective[q])
    return Consensus(
        labels=require_device().asarray(labels) if on_device(problem.codes) else labels,
        n_clusters=problem.n_clusters,
        objective=objective,
        value=rule.value(objective, ensemble.n_samples - len(problem.skip)),
        history=np.asarray(starts.history[q]),
        converged=bool(starts.converged[q]),
        backend=problem.backend.name,
        method=method,
        centroids=Centroids(
            ensemble, counts, table, row_table, np.flatnonzero(weights > 0)
        ),
    )


def find_unlabelled(
    ensemble: Ensemble, weights: FloatArray, on_unlabelled: str
) -> npt.NDArray[np.intp]:
    """Return the objects that no partition of positive weight has labelled."""
    useful = np.flatnonzero(weights > 0)
    if (ensemble.n_missing[useful] == 0).any():
        return np.empty(0, dtype=np.intp)
    absent = np.ones(ensemble.n_samples, dtype=bool)
    for i in useful:
        absent &= to_host(ensemble.codes[i]) == ensemble.n_labels[i]
    skip = np.flatnonzero(absent)
    if skip.size == ensemble.n_samples:
        raise ValueError("no object has any label; there is nothing to agree on.")
    if skip.size and on_unlabelled == "raise":
        named = ", ".join(str(l) for l in skip[:5]) + (", ..." if skip.size > 5 else "")
        raise ValueError(
            f"{skip.size} objects have no label in any partition (objects {named}); "
            "drop them, or pass on_unlabelled='keep' to give them the label -1."
        )
    return skip


def check_distinct_rows(
    ensemble: Ensemble,
    weights: FloatArray,
    n_clusters: int,
    skip: npt.NDArray[np.intp],
) -> None:
    """Raise an error if fewer than ``n_clusters`` objects differ in their labels."""
    useful = np.flatnonzero(weights > 0)
    found: set[bytes] = set()
    begin, step = 0, max(64, 2 * n_clusters)
    while begin < ensemble.n_samples and len(found) < n_clusters:
        rows = np.setdiff1d(
            np.arange(begin, min(begin + step, ensemble.n_samples)), skip
        )
        block = to_host(ensemble.codes[:, begin : begin + step])
        block = np.ascontiguousarray(block[np.ix_(useful, rows - begin)].T)
        whole = block.view(np.dtype((np.void, block.itemsize * len(useful))))
        found.update(row.tobytes() for row in np.unique(whole))
        begin, step = begin + step, min(4 * step, 1 << 16)
    if len(found) < n_clusters:
        raise ValueError(
            f"the ensemble has only {len(found)} distinct rows but "
            f"n_clusters={n_clusters}; ask for at most {len(found)} clusters."
        )
