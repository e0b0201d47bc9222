"""One start from a search: the best answer found, with which the loop goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.protocol import Backend, Codes
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.loop.checkpoint import Checkpoint
from gpu_consensus.loop.code_blocks import CodeBlocks
from gpu_consensus.loop.lloyd import fill_empty
from gpu_consensus.loop.local_rows import LocalRows
from gpu_consensus.loop.rows import Rows, Seeds
from gpu_consensus.loop.rule import Rule, tables_of
from gpu_consensus.loop.saved_state import check_state
from gpu_consensus.loop.search import MOST_OBJECTS, Answers, Search, joined
from gpu_consensus.loop.searching import n_generations
from gpu_consensus.loop.seeding import encode_init, seed_starts
from gpu_consensus.loop.starts import Starts
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


def take_sample(ensemble: Ensemble, codes: Codes) -> Sample:
    """Return some objects of an ensemble by their codes (r, m), on the host."""
    marginals = [
        np.bincount(row, minlength=k + 1)
        for row, k in zip(codes, ensemble.n_labels.tolist(), strict=True)
    ]
    return Sample(codes, ensemble.n_labels, ensemble.offsets, np.concatenate(marginals))


class BestStart:
    """Search for the start of a fit; see :mod:`gpu_consensus.loop.search`.

    Parameters
    ----------
    rows : Rows
        All objects; left with the winner as their one restart.
    backend : Backend
        What makes tables, and works on a sample.
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
    memory_limit : int, optional
    """

    def __init__(
        self,
        rows: Rows,
        backend: Backend,
        ensemble: Ensemble,
        rule: Rule,
        weights: FloatArray,
        options: LoopOptions,
        saved: Checkpoint,
        seed: np.random.SeedSequence,
        *,
        together: int,
        n_threads: int,
        memory_limit: int | None = None,
    ) -> None:
        self.all_rows, self.all_rule, self.backend = rows, rule, backend
        self.options, self.saved, self.seed = options, saved, seed
        self.labelled = np.delete(np.arange(ensemble.n_samples), rows.skip)
        self.sample: npt.NDArray[np.intp] | None = None
        self.ensemble: Ensemble | Sample = ensemble
        self.rows: Rows = rows
        self.rule = rule
        if len(self.labelled) > MOST_OBJECTS and rule.restricted is not None:
            self._draw_sample(ensemble, rule, memory_limit)
        self.search = Search(
            self.rows,
            backend,
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
        self, ensemble: Ensemble, rule: Rule, memory_limit: int | None
    ) -> None:
        """Go on with a sample of the objects, drawn by the seed."""
        key = (*self.seed.spawn_key, 2**31 - 1)
        rng = np.random.default_rng(
            np.random.SeedSequence(self.seed.entropy, spawn_key=key)
        )
        chosen = rng.choice(self.labelled, MOST_OBJECTS, replace=False, shuffle=False)
        self.sample = np.sort(chosen)
        codes = self.all_rows.codes(self.sample)
        self.ensemble = take_sample(ensemble, codes)
        assert rule.restricted is not None
        self.rule = rule.restricted(self.ensemble)
        self.rows = LocalRows(
            CodeBlocks(self.backend, codes, ensemble.offsets, memory_limit),
            self.all_rows.n_clusters,
            np.empty(0, dtype=np.intp),
            hashed=not rule.monotone,
        )

    def find(self, advance: Advance) -> Starts:
        """Return the start that is left, whose assignment is in ``rows``."""
        (answers,) = self.search.keep(self._begun())
        advance(1, f"starts, F {answers.objective.min():.6g}")
        self._save(answers, force=True)

        def after_generation(now: Answers) -> None:
            note = f"generation {self.state.generation}, F {now.objective.min():.6g}"
            advance(1, note)
            self._save(now)

        answers = self.search.evolve(answers, self.state, self.seed, after_generation)
        starts = Starts.fresh(1)
        self.search.keep(answers.chosen(np.arange(1)))
        if self.sample is None:
            starts.objective[:] = answers.objective[:1]
        else:
            starts.objective[:] = self._assign_all()
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
        options = self.options
        if self.saved.state is not None:
            state = self.saved.state
            check_state(
                self.saved.path, state, self.rows, self.rule, self.search.together
            )
            return Answers(list(range(len(state.objective))), state.objective)
        if not isinstance(options.init, str):
            return self.search.look_around(self._encoded(options.init))
        seeds = self.seed.spawn(options.n_init)
        if options.init in MERGED:
            merged = self.search.starts(seeds)
            if options.also is None:
                return merged
            # before the others, so that it is among those that evolve
            extra = self._encoded(options.also())
            return joined([self.search.look_around(extra), merged])
        seeded = seed_starts(
            options.init,
            cast(Ensemble, self.ensemble),
            self.rows,
            self.backend,
            self.rule,
            self.search.useful,
            self.search.labelled,
            self.rows.n_clusters,
            seeds,
        )
        return self.search.look_around(seeded)

    def _encoded(self, labels: Any) -> npt.NDArray[Any]:
        """Return an assignment (1, m) of the objects that are searched."""
        n_clusters, skip = self.rows.n_clusters, self.all_rows.skip
        n_samples = self.all_rows.n_samples
        assignment = encode_init(labels, n_samples, n_clusters)
        assignment[:, skip] = n_clusters
        return assignment if self.sample is None else assignment[:, self.sample]

    def _assign_all(self) -> FloatArray:
        """Put all objects where the winner of the sample would; return the cost."""
        rows, backend = self.all_rows, self.backend
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
        nobody = np.empty(0, dtype=np.intp)
        rows.start([Seeds(nobody, nobody)])
        rows.take([0])
        tally = rows.step(table, row_table)
        fill_empty(rows, backend.xp, [0], tally, table, row_table)
        return self.all_rule.objective(tally.counts, tally.absent)

    def _save(self, answers: Answers, force: bool = False) -> None:
        if self.saved.path is None:
            return
        starts = Starts.fresh(len(answers.objective))
        starts.objective[:] = answers.objective
        self.saved.save(starts, self.rows, force=force)
