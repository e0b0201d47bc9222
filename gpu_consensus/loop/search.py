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

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.host_loops import for_each
from gpu_consensus.backends.numpy import smallest_unsigned
from gpu_consensus.loop.exact_step import price_tables
from gpu_consensus.loop.lloyd import fill_empty
from gpu_consensus.loop.local_rows import LocalRows
from gpu_consensus.loop.merging import merge_cells
from gpu_consensus.loop.rows import Tally
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
    """Assignments (m, n) where the backend computes, and their objectives (m,)."""

    assignment: Any
    objective: FloatArray


class Search:
    """A search over the objects of ``rows``, by the objective of ``rule``.

    Parameters
    ----------
    rows : LocalRows
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
        rows: LocalRows,
        rule: Rule,
        n_labels: IntArray,
        useful: npt.NDArray[np.intp],
        labelled: npt.NDArray[np.intp],
        *,
        together: int,
        n_threads: int,
    ) -> None:
        self.rows, self.rule = rows, rule
        self.backend = rows.blocks.backend
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
            layers = [self._partition(i)]
            if self.n_labels[i] <= self.rows.n_clusters:
                layers.append(self._partition(self._draw_partition(rng)))
            overlays.append((layers, rng))
        return self._children(overlays)

    def look_around(self, assignment: Any) -> Answers:
        """Step from given assignments (m, n), of which some objects may not count."""
        parts = []
        for begin in range(0, len(assignment), self.together):
            some = assignment[begin : begin + self.together]
            self.rows.start(some)
            tally = self.rows.take(list(range(len(some))))
            parts.append(self._local(tally))
        return self.joined(parts)

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
        end = state.n_evolving
        first = Answers(answers.assignment[:end], answers.objective[:end])
        rest = Answers(answers.assignment[end:], answers.objective[end:])
        population = self._chosen(first, self._fittest(first))
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
            everyone = self.joined([population, children])
            chosen = self._fittest(everyone)
            population = self._chosen(everyone, chosen)
            best, last = float(population.objective[0]), state.best[-1]
            state.best.append(best)
            falls = last - best > _FALL * abs(last)
            state.waited = 0 if falls else state.waited + 1
            of_partitions = len(everyone.objective) - POPULATION // 2
            if state.with_partitions:
                state.useful = bool((chosen >= of_partitions).any())
            state.with_partitions = state.useful or not falls
            state.n_children += len(children.objective)
            state.generation += 1
            state.n_evolving = len(population.objective)
            after_generation(self.joined([population, rest]))
        everything = self.joined([population, rest])
        order = np.argsort(everything.objective, kind="stable")
        return self._chosen(everything, order)

    def _pairs(
        self, population: Answers, rng: np.random.Generator, with_partitions: bool
    ) -> list[Any]:
        """Choose what is overlaid: two answers, or an answer and a partition."""
        size, half = len(population.objective), POPULATION // 2
        overlays: list[Any] = []
        for _ in range(half if size > 1 else 0):
            a, b = rng.choice(size, 2, replace=False).tolist()
            layers = [self._answer(population, a), self._answer(population, b)]
            overlays.append((layers, rng))
        for q in range(half if with_partitions or size == 1 else 0):
            i = self._draw_partition(rng)
            overlays.append(
                ([self._answer(population, q % size), self._partition(i)], rng)
            )
        return overlays

    def _draw_partition(self, rng: np.random.Generator) -> int:
        return int(self.useful[rng.integers(self.useful.size)])

    def _partition(self, i: int) -> tuple[Any, int]:
        """Return a layer: codes (n,), and the code of objects that it does not have."""
        codes = self.backend.to_device(self.rows.blocks.codes[i])
        return codes, int(self.n_labels[i])

    def _answer(self, population: Answers, a: int) -> tuple[Any, int]:
        return population.assignment[a], self.rows.n_clusters

    def _children(self, overlays: list[Any], most: float = np.inf) -> Answers:
        parts = []
        for begin in range(0, len(overlays), self.together):
            some = overlays[begin : begin + self.together]
            parts.append(self._merged(some, most))
        return self.joined(parts)

    def _merged(self, overlays: list[Any], most: float) -> Answers:
        """Keep the largest cells of each overlay, merge them to K, and look around."""
        xp, n_clusters, n_cells = self.backend.xp, self.rows.n_clusters, self.n_cells
        kind = smallest_unsigned(n_cells)
        shape = (len(overlays), self.rows.blocks.n_samples)
        cells = xp.empty(shape, dtype=kind)
        kept = []
        for row, (layers, _) in zip(cells, overlays, strict=True):
            number, cell_of = self._cells(layers)
            kept.append(number)
            row[...] = cell_of
        counts, absent = self.rows.count_cells(cells, n_cells)
        merged: list[Any] = [None] * len(overlays)

        def merge(c: int) -> None:
            m = kept[c]
            gone = None if absent is None else absent[:, c, :m]
            merged[c] = merge_cells(self.rule, counts[:, c, :m], gone, n_clusters)

        for_each(merge, range(len(overlays)), self.n_threads)
        assignment = xp.empty(shape, dtype=smallest_unsigned(n_clusters))
        for row, cell_of, (name, _), (_, rng) in zip(
            assignment, cells, merged, overlays, strict=True
        ):
            cluster_of = np.full(n_cells + 1, n_clusters, dtype=assignment.dtype)
            cluster_of[: len(name)] = name
            row[...] = self.backend.to_device(cluster_of)[cell_of]
            found = int(name.max(initial=-1)) + 1
            if found < n_clusters:
                alone = rng.choice(self.labelled, n_clusters - found, replace=False)
                clusters = np.arange(found, n_clusters).astype(assignment.dtype)
                row[self.backend.to_device(alone)] = self.backend.to_device(clusters)
        if min(kept) < n_clusters:
            self.rows.start(assignment)
            tally = self.rows.take(list(range(len(assignment))))
            return self._local(tally, most)
        gone = None
        if absent is not None:
            gone = np.stack(
                [
                    add_cells(absent[:, c, : len(name)], name, n_clusters)
                    for c, (name, _) in enumerate(merged)
                ],
                axis=1,
            )
        known = np.stack([total for _, total in merged], axis=1)
        return self._local(self.rows.place(assignment, known, gone), most)

    def _cells(self, layers: list[tuple[Any, int]]) -> tuple[int, Any]:
        """Number the largest cells where layers meet; return how many, and (n,)."""
        xp, most = self.backend.xp, self.n_cells
        cell, sizes = layers[0][0].astype(np.int32), [layers[0][1] + 1]
        for codes, absent in layers[1:]:
            cell = cell * np.int32(absent + 1) + codes
            sizes.append(absent + 1)
        number = int(np.prod(sizes))
        size = self.backend.to_host(xp.bincount(cell, minlength=number))
        inside = np.ones(sizes, dtype=bool)  # cells of objects that all layers have
        for axis in range(len(sizes)):
            inside[(slice(None),) * axis + (-1,)] = False
        size = np.where(inside.ravel(), size, 0)
        order = np.argsort(-size, kind="stable")[:most]
        order = order[size[order] > 0]
        place = np.full(number, most, dtype=smallest_unsigned(most))
        place[order] = np.arange(len(order))
        return len(order), self.backend.to_device(place)[cell]

    def _local(self, tally: Tally, most: float = np.inf) -> Answers:
        """Make one smoothed step and one exact one with the restarts at work.

        A step that does not lower the objective is taken back. Rules without an exact
        step make a second plain one. Where the objective is above ``most`` after the
        first, there is no exact step.
        """
        rows, rule, backend = self.rows, self.rule, self.backend
        active = list(range(len(tally.sizes)))
        objective = np.full(len(active), np.inf)
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
            fill_empty(rows, backend.xp, active, tally, table, row_table)
            tally = self._judge(active, tally, objective)
        found = rows.held(active)
        near = [q for q in active if objective[q] <= most]
        if rule.refinement is not None and rows.n_clusters > 1 and near:
            objective[near] = self._exact(near, objective[near])
            found[self.backend.to_device(np.array(near))] = rows.held(near)
        return Answers(found, objective)

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

    def _judge(self, active: list[int], tally: Tally, objective: FloatArray) -> Tally:
        found = self.rule.objective(tally.counts, tally.absent)
        worse = ~(found < objective)
        objective[~worse] = found[~worse]
        if worse.any():
            self.rows.back([q for q in active if worse[q]])
            tally = self.rows.take(active)
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

    def _chosen(self, answers: Answers, places: npt.NDArray[np.intp]) -> Answers:
        there = self.backend.to_device(places)
        return Answers(answers.assignment[there], answers.objective[places])

    def joined(self, parts: list[Answers]) -> Answers:
        """Return several answers as one, in order."""
        if len(parts) == 1:
            return parts[0]
        objective = np.concatenate([part.objective for part in parts])
        shape = (len(objective), self.rows.blocks.n_samples)
        whole = self.backend.xp.empty(shape, dtype=parts[0].assignment.dtype)
        begin = 0
        for part in parts:
            whole[begin : begin + len(part.objective)] = part.assignment
            begin += len(part.objective)
        return Answers(whole, objective)
