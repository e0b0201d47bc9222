"""What every method of the k-means family does around the loop."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.device_memory import memory_for
from gpu_consensus.backends.numpy import n_threads
from gpu_consensus.backends.profiling import stage
from gpu_consensus.backends.protocol import Backend, Counts, Table
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.loop.best_start import MERGED, BestStart
from gpu_consensus.loop.checkpoint import Checkpoint, open_checkpoint
from gpu_consensus.loop.code_blocks import CodeBlocks
from gpu_consensus.loop.exact_step import Refining, refine
from gpu_consensus.loop.lloyd import lloyd
from gpu_consensus.loop.local_rows import LocalRows
from gpu_consensus.loop.room import check_starts
from gpu_consensus.loop.rows import Rows
from gpu_consensus.loop.rule import Rule, tables_of
from gpu_consensus.loop.saved_state import check_state
from gpu_consensus.loop.seeding import NAMES as INITS
from gpu_consensus.loop.seeding import Everyone, encode_init, seed_starts
from gpu_consensus.loop.starts import Starts
from gpu_consensus.util.checks import (
    FloatArray,
    check_choice,
    check_int,
    seed_sequence,
)
from gpu_consensus.util.numbers import shown
from gpu_consensus.util.paths import check_path
from gpu_consensus.util.progress import Advance, progress_bar
from gpu_consensus.util.weights import useful_partitions

_INIT_ALIASES = {"k-means++": "careful"}
_FEW_STEPS = 10  # of refinement, however short the loop was
_SMALL = 2**26  # n r K n_init, up to which all starts are refined
_TABLE_MEMORY = 256 << 20
_FEWER = "lower n_init or n_clusters, or set memory_limit lower"


@dataclass
class LoopOptions:
    """The options of the loop itself; see ``kcc``."""

    init: Any = "partition"
    n_init: int = 10
    max_iter: int = 100
    checkpoint: str | os.PathLike[str] | None = None
    refine: bool | str = False
    search: bool | str | int = False
    also: Callable[[], npt.NDArray[Any]] | None = None
    """Makes labels (n,) that compete with merged starts, -1 for none."""

    def check(self) -> None:
        """Raise an error for an option that is out of its bounds."""
        self.n_init = check_int("n_init", self.n_init, 1)
        self.max_iter = check_int("max_iter", self.max_iter, 1)
        if self.checkpoint is not None:
            self.checkpoint = check_path("checkpoint", self.checkpoint)
        if isinstance(self.refine, (bool, np.bool_)):
            self.refine = bool(self.refine)
        elif not isinstance(self.refine, str) or self.refine != "auto":
            raise ValueError(
                f"refine={shown(self.refine)} should be 'auto', True or False."
            )
        if isinstance(self.init, str):
            self.init = _INIT_ALIASES.get(self.init, self.init)
            check_choice("init", self.init, INITS)
        if isinstance(self.search, (bool, np.bool_)) and not self.search:
            self.search = False
        elif isinstance(self.search, str):
            if self.search != "auto":
                raise ValueError(
                    f"search={shown(self.search)} should be 'auto', False or a number "
                    "of generations."
                )
        else:
            self.search = check_int("search", self.search, 0)

    @property
    def searches(self) -> bool:
        """Whether a search finds the start, be it of merged starts alone."""
        merged = isinstance(self.init, str) and self.init in MERGED
        return merged or bool(self.generations)

    @property
    def generations(self) -> bool | str | int:
        """What ``search`` comes to: "auto" holds for merged starts alone."""
        if self.search == "auto":
            own = isinstance(self.init, str) and self.init == "auto"
            return "auto" if own else False
        return self.search


class Ended(NamedTuple):
    """The result of the best start.

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
    details: dict[str, Any]


def fit(
    ensemble: Ensemble,
    n_clusters: int,
    rule: Rule,
    weights: FloatArray,
    method: str,
    options: LoopOptions,
    *,
    backend: Backend,
    skip: npt.NDArray[np.intp],
    memory_limit: int | None = None,
    random_state: Any = None,
    progress: bool = False,
    n_jobs: int | None = None,
    refine_cost: float = 1.0,
    run: Callable[..., None] = lloyd,
) -> Ended:
    """Seed, run the loop and refine; all arguments have been checked.

    Parameters
    ----------
    ensemble : Ensemble
    n_clusters : int
    rule : Rule
        With a ``formula`` if it is to be refined.
    weights : ndarray of shape (r,)
        Weights of the partitions; those of weight 0 do not count.
    method : str
        What progress and checkpoints call the method.
    options : LoopOptions
    backend : Backend
    skip : ndarray of int
        Objects without any label.
    memory_limit, random_state, progress, n_jobs
        As in ``kcc``.
    refine_cost : float, default 1.0
        How much longer than usual it takes to price a move.
    run : callable, default lloyd
        Runs the starts to their ends; has the arguments of ``lloyd``.
    """
    weights_of = [rule.row_weight, rule.absent_weight]
    check_starts(
        method,
        options.n_init if isinstance(options.init, str) else 1,
        n_clusters,
        ensemble.n_samples,
        table_bytes=_one_table(ensemble, n_clusters),
        together=_together(ensemble, n_clusters, memory_limit),
        fixed=4 * ensemble.n_samples
        + sum(weight.nbytes for weight in weights_of if weight is not None),
    )
    with memory_for("the restarts that run together", _FEWER):
        rows = _rows(ensemble, n_clusters, rule, backend, skip, memory_limit)
        saved = open_checkpoint(
            ensemble, weights, method, n_clusters, options, rule, random_state
        )
        seed = seed_sequence(saved.random_state)
        threads = n_threads(n_jobs)
        together = _together(ensemble, n_clusters, memory_limit)
        best = None
        if options.searches and n_clusters > 1:
            best = BestStart(
                rows,
                backend,
                ensemble,
                rule,
                weights,
                options,
                saved,
                seed,
                together=together,
                n_threads=threads,
                memory_limit=memory_limit,
            )
        parts = options.n_init if best is None else best.state.most + 2
        with progress_bar(progress, method, parts) as advance:
            details: dict[str, Any] = {}
            if best is not None and not best.state.is_done:
                with stage("search"):
                    starts = best.find(advance)
            else:
                with stage("seeding"):
                    starts = _first(
                        rows,
                        backend,
                        rule,
                        ensemble,
                        weights,
                        options,
                        saved,
                        seed,
                        together,
                    )
            if best is not None:
                details |= best.details()
            saved.save(starts, rows, force=True)  # fails now if it cannot be written
            done = 0

            def after_iteration(state: Starts) -> None:
                nonlocal done
                finished = int(state.converged.sum())
                lowest = f"F {state.objective.min():.6g}"
                iteration = len(max(state.history, key=len))
                advance(finished - done, f"iteration {iteration}, {lowest}")
                done = finished
                saved.save(state, rows)

            run(
                rows,
                backend,
                rule,
                starts,
                max_iter=options.max_iter,
                together=together,
                after_iteration=after_iteration,
            )
            with stage("refine"):
                details |= _refine(
                    rows,
                    backend,
                    rule,
                    starts,
                    options,
                    saved,
                    ensemble.n_partitions,
                    math.ceil(refine_cost),
                    threads,
                    advance,
                )
            saved.save(starts, rows, force=True)
        return _end(rows, backend, rule, starts, details)


def _rows(
    ensemble: Ensemble,
    n_clusters: int,
    rule: Rule,
    backend: Backend,
    skip: npt.NDArray[np.intp],
    memory_limit: int | None,
) -> Rows:
    """Return the objects of an ensemble, here or elsewhere."""
    if ensemble.elsewhere is not None:
        found: Rows = ensemble.elsewhere.rows(backend, rule, n_clusters, skip)
        return found
    return LocalRows(
        CodeBlocks(backend, ensemble.codes, ensemble.offsets, memory_limit),
        n_clusters,
        skip,
        row_weight=rule.row_weight,
        absent_weight=rule.absent_weight,
        hashed=not rule.monotone,
    )


def _together(ensemble: Ensemble, n_clusters: int, memory_limit: int | None) -> int:
    """Return how many restarts may share a table within the working memory."""
    limit = _TABLE_MEMORY if memory_limit is None else memory_limit
    return max(1, limit // _one_table(ensemble, n_clusters))


def _one_table(ensemble: Ensemble, n_clusters: int) -> int:
    """Return the bytes that the counts and tables of one restart take."""
    return 32 * int(ensemble.offsets[-1]) * n_clusters


def _first(
    rows: Rows,
    backend: Backend,
    rule: Rule,
    ensemble: Ensemble,
    weights: FloatArray,
    options: LoopOptions,
    saved: Checkpoint,
    seed: np.random.SeedSequence,
    together: int,
) -> Starts:
    """Begin the restarts: from a checkpoint, from given labels, or from seeds."""
    n_clusters, n_samples = rows.n_clusters, ensemble.n_samples
    if saved.state is not None:
        check_state(saved.path, saved.state, rows, rule, together)
        _, objective, converged, history, seen = saved.state
        return Starts(objective, converged, history, seen)
    if not isinstance(options.init, str):
        assignment = encode_init(options.init, n_samples, n_clusters)
        assignment[:, rows.skip] = n_clusters
        rows.start(assignment)
        starts = Starts.fresh(1)
        labelled = np.delete(assignment[0], rows.skip)
        if len(np.unique(labelled)) == n_clusters and labelled.max() < n_clusters:
            tally = rows.take([0])
            starts.objective[:] = rule.objective(tally.counts, tally.absent)
        return starts
    rows.start(
        seed_starts(
            options.init,
            ensemble,
            rows,
            backend,
            rule,
            useful_partitions(ensemble.n_labels, weights),
            Everyone(n_samples, rows.skip),
            n_clusters,
            seed.spawn(options.n_init),
        )
    )
    return Starts.fresh(options.n_init)


def _refine(
    rows: Rows,
    backend: Backend,
    rule: Rule,
    starts: Starts,
    options: LoopOptions,
    saved: Checkpoint,
    n_partitions: int,
    cost: int,
    threads: int,
    advance: Advance,
) -> dict[str, Any]:
    """Refine as ``options.refine`` says; return what ``details`` tells of it.

    "auto" makes a few steps with all starts together where that is little work, then
    the winner goes on alone, in proportion to the length of the loop.
    """
    if options.refine is False or rows.n_clusters == 1:
        return {}
    n_restarts = len(starts.history)
    if saved.refining is None:
        longest = max(len(history) for history in starts.history)
        joint, alone = 0, options.max_iter
        if options.refine == "auto":
            alone = -(-4 * max(_FEW_STEPS, longest) // cost)
            lookups = n_restarts * rows.n_clusters * rows.n_samples * n_partitions
            if lookups * cost <= _SMALL:
                joint = _FEW_STEPS
        saved.refining = [
            Refining(list(range(n_restarts)), joint),
            Refining([], alone),
        ]
    together, winner = saved.refining

    def after_step() -> None:
        saved.save(starts, rows)
        steps = together.n_steps + winner.n_steps
        advance(0, f"refinement, step {steps}, F {starts.objective.min():.6g}")

    for state in (together, winner):
        if state is winner and not winner.n_steps:
            best = starts.winner()
            # one that has come to its end has no move left
            at_end = together.n_steps and best not in together.active
            winner.active = [] if at_end else [best]
            winner.least_gain = together.least_gain.copy()
        refine(
            rows,
            backend,
            rule,
            starts,
            state,
            n_threads=threads,
            after_step=after_step,
        )
    if options.refine is True and winner.active:
        starts.converged[starts.winner()] = False
    return {
        "refinement": {
            "steps": together.n_steps + winner.n_steps,
            "finished": not winner.active,
        }
    }


def _end(
    rows: Rows, backend: Backend, rule: Rule, starts: Starts, details: dict[str, Any]
) -> Ended:
    q = starts.winner()
    labels = rows.labels(q).astype(np.int32)
    labels[rows.skip] = -1
    tally = rows.take([q])
    table, row_table = tables_of(
        backend,
        rule,
        tally.counts,
        tally.there,
        tally.absent,
        tally.absent_there,
        for_new=True,
    )
    if row_table is not None:
        row_table = backend.to_host(row_table)
    objective = float(starts.objective[q])
    return Ended(
        labels,
        np.ascontiguousarray(tally.counts[:, 0]),
        np.ascontiguousarray(backend.to_host(table)),
        row_table,
        objective,
        rule.value(objective, len(labels) - len(rows.skip)),
        starts.history[q],
        bool(starts.converged[q]),
        details,
    )
