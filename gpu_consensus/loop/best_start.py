"""One start from a search: the best answer found, with which the loop goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.numpy import smallest_unsigned
from gpu_consensus.backends.protocol import Codes
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.loop.checkpoint import Checkpoint
from gpu_consensus.loop.code_blocks import CodeBlocks
from gpu_consensus.loop.lloyd import fill_empty
from gpu_consensus.loop.local_rows import LocalRows
from gpu_consensus.loop.rule import Rule, tables_of
from gpu_consensus.loop.saved_state import check_state
from gpu_consensus.loop.search import MOST_OBJECTS, Answers, Search
from gpu_consensus.loop.searching import n_generations
from gpu_consensus.loop.seeding import encode_init, seed_starts
from gpu_consensus.loop.starts import Starts
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.checks import FloatArray, IntArray
from gpu_consensus.util.progress import Advance
from gpu_consensus.util.weights import useful_partitions

if TYPE_CHECKING:
    from gpu_consensus.loop.fit import LoopOptions

MERGED = ("auto", "merge")
"""Names of ``init`` whose starts are merged from cells."""


class Sample(NamedTuple):
    """Some objects of an ensemble, with all of its labels, used or not.

    It has what rules and seeding ask an ensemble for.
    """

    codes: Codes
    n_labels: IntArray
    offsets: IntArray
    marginals: IntArray


def take_sample(ensemble: Ensemble, objects: npt.NDArray[np.intp]) -> Sample:
    """Return some objects of an ensemble, on the host."""
    codes = np.empty((ensemble.n_partitions, len(objects)), dtype=ensemble.codes.dtype)
    for row, given in zip(codes, ensemble.codes, strict=True):
        row[:] = to_host(given)[objects]
    marginals = [
        np.bincount(row, minlength=k + 1)
        for row, k in zip(codes, ensemble.n_labels.tolist(), strict=True)
    ]
    return Sample(codes, ensemble.n_labels, ensemble.offsets, np.concatenate(marginals))


class BestStart:
    """Search for the start of a fit; see :mod:`gpu_consensus.loop.search`.

    Parameters
    ----------
    rows : LocalRows
        All objects; left with the winner as their one restart.
    ensemble : Ensemble
    rule : Rule
    weights : ndarray of shape (r,)
    options : LoopOptions
    saved : Checkpoint
        Has the state of an interrupted search, and gets that of this one.
    seed : SeedSequence
    together : int
        Restarts that may share a table.
    n_threads : int
    """

    def __init__(
        self,
        rows: LocalRows,
        ensemble: Ensemble,
        rule: Rule,
        weights: FloatArray,
        options: LoopOptions,
        saved: Checkpoint,
        seed: np.random.SeedSequence,
        *,
        together: int,
        n_threads: int,
    ) -> None:
        self.all_rows, self.all_rule = rows, rule
        self.options, self.saved, self.seed = options, saved, seed
        self.labelled = np.delete(np.arange(ensemble.n_samples), rows.skip)
        self.sample: npt.NDArray[np.intp] | None = None
        self.ensemble: Ensemble | Sample = ensemble
        self.rows, self.rule = rows, rule
        if len(self.labelled) > MOST_OBJECTS and rule.restricted is not None:
            self._draw_sample(ensemble, rule.restricted)
        self.search = Search(
            self.rows,
            self.rule,
            ensemble.n_labels,
            useful_partitions(ensemble.n_labels, weights),
            self.labelled if self.sample is None else np.arange(MOST_OBJECTS),
            together=together,
            n_threads=n_threads,
        )
        fresh = n_generations(options.generations, len(self.labelled))
        kept = saved.searching
        if kept is not None and kept.most != fresh.most:
            raise ValueError(
                f"checkpoint={str(saved.path)!r} is damaged (its search is not that of "
                "this call); delete it to start anew."
            )
        self.state = saved.searching = fresh if kept is None else kept

    def _draw_sample(
        self, ensemble: Ensemble, restricted: Callable[[Any], Rule]
    ) -> None:
        """Go on with a sample of the objects, drawn by the seed."""
        key = (*self.seed.spawn_key, 2**31 - 1)
        rng = np.random.default_rng(
            np.random.SeedSequence(self.seed.entropy, spawn_key=key)
        )
        chosen = rng.choice(self.labelled, MOST_OBJECTS, replace=False, shuffle=False)
        self.sample = np.sort(chosen)
        self.ensemble = take_sample(ensemble, self.sample)
        self.rule = restricted(self.ensemble)
        blocks = self.all_rows.blocks
        self.rows = LocalRows(
            CodeBlocks(
                blocks.backend,
                self.ensemble.codes,
                self.ensemble.offsets,
                blocks.memory_limit,
            ),
            self.all_rows.n_clusters,
            np.empty(0, dtype=np.intp),
            hashed=self.all_rows.hashed,
        )

    def find(self, advance: Advance) -> Starts:
        """Return the start that is left, whose assignment is in ``rows``."""
        answers = self._begun()
        advance(1, f"starts, F {answers.objective.min():.6g}")
        self._save(answers, force=True)

        def after_generation(now: Answers) -> None:
            note = f"generation {self.state.generation}, F {now.objective.min():.6g}"
            advance(1, note)
            self._save(now)

        answers = self.search.evolve(answers, self.state, self.seed, after_generation)
        starts = Starts.fresh(1)
        if self.sample is None:
            self.all_rows.start(answers.assignment[:1])
            starts.objective[:] = answers.objective[:1]
        else:
            starts.objective[:] = self._assign_all(answers.assignment[:1])
        return starts

    def details(self) -> dict[str, Any]:
        """Return what was tried, for the result."""
        return {
            "search": {
                "starts": self.options.n_init,
                "generations": self.state.generation,
                "overlays": self.state.n_children,
                "objective": list(self.state.best),
                "objects": len(self.labelled)
                if self.sample is None
                else len(self.sample),
            }
        }

    def _begun(self) -> Answers:
        """Return the answers to begin with: saved, given, merged or seeded ones."""
        backend, options = self.rows.blocks.backend, self.options
        if self.saved.state is not None:
            state = self.saved.state
            check_state(
                self.saved.path, state, self.rows, self.rule, self.search.together
            )
            return Answers(backend.to_device(state.assignment), state.objective)
        if not isinstance(options.init, str):
            given = self._encoded(options.init)
            return self.search.look_around(backend.to_device(given))
        seeds = self.seed.spawn(options.n_init)
        if options.init in MERGED:
            merged = self.search.starts(seeds)
            if options.also is None:
                return merged
            # before the others, so that it is among those that evolve
            extra = self._encoded(options.also())
            return self.search.joined(
                [self.search.look_around(backend.to_device(extra)), merged]
            )
        seeded = seed_starts(
            options.init,
            cast(Ensemble, self.ensemble),
            self.rows,
            backend,
            self.rule,
            self.search.useful,
            self.search.labelled,
            self.rows.n_clusters,
            seeds,
        )
        self.rows.start(seeded)
        everyone = list(range(len(seeded)))
        self.rows.take(everyone)
        return self.search.look_around(self.rows.held(everyone))

    def _encoded(self, labels: Any) -> npt.NDArray[Any]:
        """Return an assignment (1, m) of the objects that are searched."""
        n_clusters, skip = self.rows.n_clusters, self.all_rows.skip
        n_samples = self.all_rows.blocks.n_samples
        assignment = encode_init(labels, n_samples, n_clusters)
        assignment[:, skip] = n_clusters
        return assignment if self.sample is None else assignment[:, self.sample]

    def _assign_all(self, assignment: Any) -> FloatArray:
        """Put all objects where the winner of the sample would; return the cost."""
        rows, backend = self.all_rows, self.all_rows.blocks.backend
        self.rows.start(assignment)
        tally = self.rows.take([0])
        table, row_table = tables_of(
            backend,
            self.rule,
            tally.counts,
            tally.there,
            tally.absent,
            tally.absent_there,
            smoothed=True,
        )
        kind = smallest_unsigned(rows.n_clusters)
        shape = (1, rows.blocks.n_samples)
        rows.start(np.full(shape, rows.n_clusters, dtype=kind))
        rows.take([0])
        tally = rows.step(table, row_table)
        fill_empty(rows, backend.xp, [0], tally, table, row_table)
        return self.all_rule.objective(tally.counts, tally.absent)

    def _save(self, answers: Answers, force: bool = False) -> None:
        if self.saved.path is None:
            return
        starts = Starts.fresh(len(answers.objective))
        starts.objective[:] = answers.objective
        self.rows.start(answers.assignment)
        self.saved.save(starts, self.rows, force=force)
