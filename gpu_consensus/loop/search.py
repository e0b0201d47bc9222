"""Search: overlay two good answers, merge the cells in which they meet, look around.

A start from one partition ends in a local optimum that depends on it. Two answers agree
about most objects, and where they meet they cut the objects into cells that neither
would split. Merged to K clusters by the objective itself (:mod:`merging`), they give a
third answer, mostly better than both; an answer and a basic partition do so too. Every
generation makes ten such children, and the ten best of parents and children go on.

Each child is looked at once: a step with a smoothed table, in which no label of a
cluster is missed for good, and an exact step. All of it is counts, tables and batched
restarts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.host_loops import for_each
from gpu_consensus.backends.protocol import Assignment, Backend
from gpu_consensus.loop.exact_step import price_tables
from gpu_consensus.loop.lloyd import fill_empty
from gpu_consensus.loop.merging import merge_cells
from gpu_consensus.loop.rows import Layer, Rows, Seeds, Tally
from gpu_consensus.loop.rule import Rule, tables_of
from gpu_consensus.loop.searching import POPULATION, Searching
from gpu_consensus.loop.settling import add_cells
from gpu_consensus.util.checks import FloatArray, IntArray

MOST_OBJECTS = 200_000
"""Search beyond looks at a sample of so many objects."""
_CELLS = 4  # per cluster, that are kept of an overlay
_CELLS_ANY = 2  # where merges ask the objective itself, which takes long
_FALL = 1e-4  # of the objective, that is worth another generation
_SAME = 1e-9  # objectives that are closer are of the same answer


class Answers(NamedTuple):
    """The numbers of some restarts, and their objectives (m,)."""

    restarts: list[int]
    objective: FloatArray

    def chosen(self, places: npt.NDArray[np.intp]) -> Answers:
        """Return some of them, in the order given."""
        return Answers([self.restarts[a] for a in places], self.objective[places])


class Search:
    """A search over the objects of ``rows``, by the objective of ``rule``.

    Parameters
    ----------
    rows : Rows
    backend : Backend
        What makes tables.
    rule : Rule
        Of these objects.
    n_labels : ndarray of shape (r,)
    useful : ndarray of int
        Partitions to draw from.
    labelled : ndarray of int
        Objects with a label.
    together : int
        Restarts that may share a table.
    n_threads : int
    """

    def __init__(
        self,
        rows: Rows,
        backend: Backend,
        rule: Rule,
        n_labels: IntArray,
        useful: npt.NDArray[np.intp],
        labelled: npt.NDArray[np.intp],
        *,
        together: int,
        n_threads: int,
    ) -> None:
        self.rows, self.backend, self.rule = rows, backend, rule
        self.n_labels, self.useful, self.labelled = n_labels, useful, labelled
        self.together, self.n_threads = together, n_threads
        cells = _CELLS if rule.merging is not None else _CELLS_ANY
        self.n_cells = cells * rows.n_clusters

    def starts(self, seeds: list[np.random.SeedSequence]) -> Answers:
        """Merge the labels of a random partition each, or of two where one has few."""
        overlays = []
        for seed in seeds:
            rng = np.random.default_rng(seed)
            i = self._draw_partition(rng)
            layers = [Layer(partition=i)]
            if self.n_labels[i] <= self.rows.n_clusters:
                layers.append(Layer(partition=self._draw_partition(rng)))
            overlays.append((layers, rng))
        return self._children(overlays)

    def look_around(self, first: Sequence[Seeds] | Assignment) -> Answers:
        """Step from seeds or assignments (m, n); some objects may not count."""
        restarts, parts = self.rows.start(first), []
        for begin in range(0, len(restarts), self.together):
            some = restarts[begin : begin + self.together]
            parts.append(self._local(some, self.rows.take(some)))
        return joined(parts)

    def keep(self, *parts: Answers) -> list[Answers]:
        """Forget all restarts but these, which get new numbers; return the same."""
        self.rows.keep([q for part in parts for q in part.restarts])
        kept, begin = [], 0
        for part in parts:
            end = begin + len(part.restarts)
            kept.append(part._replace(restarts=list(range(begin, end))))
            begin = end
        return kept

    def evolve(
        self,
        answers: Answers,
        state: Searching,
        seed: np.random.SeedSequence,
        after_generation: Callable[[Answers], None] = lambda answers: None,
    ) -> Answers:
        """Run generations until ``state`` says to end; return answers, best first.

        Parameters
        ----------
        answers : Answers
            The starts, or where an earlier search was.
        state : Searching
            Changed in place.
        seed : SeedSequence
            Every generation has a stream of its own.
        after_generation : callable, optional
            Called with the answers after every generation.
        """
        everyone = np.arange(len(answers.objective))
        first = answers.chosen(everyone[: state.n_evolving])
        rest = answers.chosen(everyone[state.n_evolving :])
        population, rest = self.keep(first.chosen(self._fittest(first)), rest)
        if not state.best:
            state.best.append(float(population.objective[0]))
        while not state.is_done:
            if state.generation >= state.most or state.waited >= state.patience:
                state.is_done = True
                break
            key = (*seed.spawn_key, 2**31 + state.generation)
            rng = np.random.default_rng(
                np.random.SeedSequence(seed.entropy, spawn_key=key)
            )
            overlays = self._pairs(population, rng, state.with_partitions)
            full = len(population.objective) == POPULATION
            worst = float(population.objective[-1]) if full else np.inf
            children = self._children(overlays, worst)
            both = joined([population, children])
            chosen = self._fittest(both)
            population, rest = self.keep(both.chosen(chosen), rest)
            best, last = float(population.objective[0]), state.best[-1]
            state.best.append(best)
            falls = last - best > _FALL * abs(last)
            state.waited = 0 if falls else state.waited + 1
            of_partitions = len(both.objective) - POPULATION // 2
            if state.with_partitions:
                state.useful = bool((chosen >= of_partitions).any())
            state.with_partitions = state.useful or not falls
            state.n_children += len(children.objective)
            state.generation += 1
            state.n_evolving = len(population.objective)
            after_generation(joined([population, rest]))
        everything = joined([population, rest])
        return everything.chosen(np.argsort(everything.objective, kind="stable"))

    def _pairs(
        self, population: Answers, rng: np.random.Generator, with_partitions: bool
    ) -> list[Any]:
        """Choose what is overlaid: two answers, or an answer and a partition."""
        size, half = len(population.objective), POPULATION // 2
        overlays: list[Any] = []
        for _ in range(half if size > 1 else 0):
            a, b = rng.choice(size, 2, replace=False).tolist()
            layers = [Layer(population.restarts[a]), Layer(population.restarts[b])]
            overlays.append((layers, rng))
        for q in range(half if with_partitions or size == 1 else 0):
            i = self._draw_partition(rng)
            layers = [Layer(population.restarts[q % size]), Layer(partition=i)]
            overlays.append((layers, rng))
        return overlays

    def _draw_partition(self, rng: np.random.Generator) -> int:
        return int(self.useful[rng.integers(self.useful.size)])

    def _children(self, overlays: list[Any], most: float = np.inf) -> Answers:
        parts = []
        for begin in range(0, len(overlays), self.together):
            some = overlays[begin : begin + self.together]
            parts.append(self._merged(some, most))
        return joined(parts)

    def _merged(self, overlays: list[Any], most: float) -> Answers:
        """Keep the largest cells of each overlay, merge them to K, and look around."""
        rows, n_clusters, n_cells = self.rows, self.rows.n_clusters, self.n_cells
        layers = [overlay for overlay, _ in overlays]
        sizes = rows.cells(layers)
        kept = [self._largest(*both) for both in zip(layers, sizes, strict=True)]
        places = []
        for size, cells in zip(sizes, kept, strict=True):
            place = np.full(len(size), n_cells)
            place[cells] = np.arange(len(cells))
            places.append(place)
        counts, absent = rows.count_cells(layers, places, n_cells)
        merged: list[Any] = [None] * len(overlays)

        def merge(c: int) -> None:
            m = len(kept[c])
            gone = None if absent is None else absent[:, c, :m]
            merged[c] = merge_cells(self.rule, counts[:, c, :m], gone, n_clusters)

        for_each(merge, range(len(overlays)), self.n_threads)
        clusters, alone = [], []
        for size, cells, (name, _), (_, rng) in zip(
            sizes, kept, merged, overlays, strict=True
        ):
            cluster_of = np.full(len(size), n_clusters)
            cluster_of[cells] = name
            clusters.append(cluster_of)
            found = int(name.max(initial=-1)) + 1
            drawn = np.empty(0, dtype=np.intp)
            if found < n_clusters:
                drawn = rng.choice(self.labelled, n_clusters - found, replace=False)
            alone.append(Seeds(drawn, np.arange(found, n_clusters)))
        known, gone = None, None
        if min(map(len, kept)) >= n_clusters:
            known = np.stack([total for _, total in merged], axis=1)
        if known is not None and absent is not None:
            gone = np.stack(
                [
                    add_cells(absent[:, c, : len(name)], name, n_clusters)
                    for c, (name, _) in enumerate(merged)
                ],
                axis=1,
            )
        restarts = rows.join(layers, clusters, alone, known, gone)
        return self._local(restarts, rows.take(restarts), most)

    def _largest(
        self, layers: list[Layer], size: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.intp]:
        """Return the largest cells, of objects that all layers have."""
        widths = [
            1 + (int(self.n_labels[i]) if i >= 0 else self.rows.n_clusters)
            for _, i in layers
        ]
        inside = np.ones(widths, dtype=bool)
        for axis in range(len(widths)):
            inside[(slice(None),) * axis + (-1,)] = False
        size = np.where(inside.ravel(), size, 0)
        order = np.argsort(-size, kind="stable")[: self.n_cells]
        return order[size[order] > 0]

    def _local(
        self, restarts: list[int], tally: Tally, most: float = np.inf
    ) -> Answers:
        """Make one smoothed step and one exact one with the restarts at work.

        A step that does not lower the objective is taken back. Rules without an exact
        step make a second plain one. Where the objective is above ``most`` after the
        first, there is no exact step.
        """
        rows, rule, backend = self.rows, self.rule, self.backend
        objective = np.full(len(restarts), np.inf)
        whole = tally.sizes.sum(axis=1) == len(self.labelled)
        if whole.any():
            known = rule.objective(tally.counts, tally.absent)
            objective[whole] = known[whole]
        for smoothed in (True, False) if rule.refinement is None else (True,):
            table, row_table = tables_of(
                backend,
                rule,
                tally.counts,
                tally.there,
                tally.absent,
                tally.absent_there,
                smoothed,
            )
            tally = rows.step(table, row_table)
            fill_empty(rows, backend.xp, restarts, tally, table, row_table)
            tally = self._judge(restarts, tally, objective)
        near = np.flatnonzero(objective <= most)
        if rule.refinement is not None and rows.n_clusters > 1 and near.size:
            some = [restarts[a] for a in near]
            objective[near] = self._exact(some, objective[near])
        return Answers(restarts, objective)

    def _exact(self, near: list[int], objective: FloatArray) -> FloatArray:
        """Make an exact step with some of the restarts; return the objectives."""
        assert self.rule.refinement is not None
        tally, there = self.rows.take(near), self.backend.to_device
        enter, stay = price_tables(
            self.rule.refinement, tally.counts, tally.sizes, self.n_threads
        )
        least = np.zeros(len(near), dtype=np.float32)
        after = self.rows.step(there(enter), None, there(stay), least)
        found = self.rule.objective(after.counts, after.absent)
        falls = (found < objective) & after.sizes.all(axis=1)
        undone = [near[a] for a in np.flatnonzero(~falls & (after.moved > 0))]
        if undone:
            self.rows.back(undone)
        return np.where(falls, found, objective)

    def _judge(self, restarts: list[int], tally: Tally, objective: FloatArray) -> Tally:
        found = self.rule.objective(tally.counts, tally.absent)
        worse = ~(found < objective)
        objective[~worse] = found[~worse]
        if worse.any():
            self.rows.back([restarts[a] for a in np.flatnonzero(worse)])
            tally = self.rows.take(restarts)
        return tally

    def _fittest(self, answers: Answers) -> npt.NDArray[np.intp]:
        """Return which answers of lowest objective differ, best first."""
        order = np.argsort(answers.objective, kind="stable")
        chosen: list[int] = []
        for a in order.tolist():
            if chosen:
                last = answers.objective[chosen[-1]]
                if answers.objective[a] - last <= _SAME * abs(last):
                    continue
            chosen.append(a)
        return np.array(chosen[:POPULATION])


def joined(parts: list[Answers]) -> Answers:
    """Return several answers as one, in order."""
    return Answers(
        [q for part in parts for q in part.restarts],
        np.concatenate([part.objective for part in parts]),
    )
