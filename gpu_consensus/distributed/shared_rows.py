"""Objects that a crew holds, as the loop sees them; see :class:`Rows`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.protocol import Assignment, Backend, Codes, Counts, Table
from gpu_consensus.distributed.crew import Command, Crew
from gpu_consensus.loop.filling import choose_fillers, n_candidates
from gpu_consensus.loop.rows import Layer, Overlay, Seeds, Tally
from gpu_consensus.loop.rule import Rule
from gpu_consensus.util.checks import IntArray


class SharedRows:
    """Restarts of objects on workers.

    The assignments are there; the counts that workers answer with add up to those of
    all objects. What needs no answer is told along with the next question, so that an
    iteration is one table down and one sum up.

    Parameters
    ----------
    crew : Crew
    backend : Backend
        What makes tables here.
    rule : Rule
    offsets : ndarray of shape (r + 1,)
    n_samples, n_clusters : int
    skip : ndarray of int
    """

    def __init__(
        self,
        crew: Crew,
        backend: Backend,
        rule: Rule,
        offsets: IntArray,
        n_samples: int,
        n_clusters: int,
        skip: npt.NDArray[np.intp],
    ) -> None:
        self.n_samples, self.n_clusters, self.skip = n_samples, n_clusters, skip
        self._crew, self._backend, self._offsets = crew, backend, offsets
        weighs_absent, hashed = rule.weighs_absent, not rule.monotone
        given = [n_clusters, skip, rule.label_weights, weighs_absent, hashed]
        self._untold: list[Command] = [("open", given)]
        self._n_restarts = 0
        # those at work: counts now, and before the last step
        self._restarts: list[int] = []
        self._counts: Any = None
        self._absent: Any = None
        self._before: tuple[Any, Any] = (None, None)
        self._drawn: list[int] = []

    def _tell(self, name: str, *given: Any) -> None:
        self._untold.append((name, list(given)))

    def _ask(self, name: str, *given: Any) -> list[Command]:
        commands = [*self._untold, (name, list(given))]
        self._untold = []
        return commands

    def _sum(self, name: str, *given: Any) -> list[Any]:
        return self._crew.sum(self._ask(name, *given))

    def _gather(self, name: str, *given: Any) -> list[list[Any]]:
        return self._crew.gather(self._ask(name, *given))

    def start(self, first: Sequence[Seeds] | Assignment) -> list[int]:
        """See :class:`Rows`."""
        if isinstance(first, np.ndarray):
            self._tell("start", None, first)
        else:
            self._tell("start", [list(seeds) for seeds in first], None)
        return self._next(len(first))

    def _next(self, number: int) -> list[int]:
        known = self._n_restarts
        self._n_restarts += number
        return list(range(known, known + number))

    def keep(self, restarts: list[int]) -> None:
        """See :class:`Rows`."""
        self._tell("keep", restarts)
        self._n_restarts, self._restarts = len(restarts), []

    def take(self, restarts: list[int]) -> Tally:
        """See :class:`Rows`."""
        known = self._restarts
        if not known or not set(restarts) <= set(known):
            self._counts, self._absent, _, _ = self._sum("take", restarts)
            self._before = (None, None)
        elif restarts != known:
            self._tell("take", restarts)
            places = [known.index(q) for q in restarts]
            self._counts, self._absent = (
                _some(part, places) for part in (self._counts, self._absent)
            )
            self._before = tuple(_some(part, places) for part in self._before)
        self._restarts = list(restarts)
        nobody = np.zeros(len(restarts), dtype=np.int64)
        return self._tally(self._counts, self._absent, nobody, None)

    def _tally(self, counts: Any, absent: Any, moved: Any, hashes: Any) -> Tally:
        there = self._backend.to_device
        return Tally(
            counts,
            absent,
            counts[: self._offsets[1]].sum(axis=0),
            moved,
            hashes,
            there(counts),
            None if absent is None else there(absent),
        )

    def step(
        self,
        table: Table,
        row_table: Table | None,
        stay: Table | None = None,
        least_gain: npt.NDArray[np.float32] | None = None,
    ) -> Tally:
        """See :class:`Rows`."""
        tables = [self._here(one) for one in (table, row_table, stay)]
        counts, absent, moved, hashes = self._sum("step", *tables, least_gain)
        self._before = (self._counts, self._absent)
        self._counts, self._absent = counts, absent
        return self._tally(self._counts, self._absent, moved, hashes)

    def _here(self, table: Table | None) -> Any:
        return None if table is None else self._backend.to_host(table)

    def gains(self, restart: int) -> npt.NDArray[np.int64]:
        """See :class:`Rows`."""
        found: npt.NDArray[np.int64] = self._sum("gains", restart)[0]
        return found

    def back(self, restarts: list[int]) -> None:
        """See :class:`Rows`."""
        self._tell("back", restarts)
        places = [self._restarts.index(q) for q in restarts]
        now = (self._counts, self._absent)
        for part, before in zip(now, self._before, strict=True):
            if part is not None:
                part[:, places] = before[:, places]

    def fill(
        self,
        restart: int,
        clusters: npt.NDArray[np.intp],
        table: Table,
        row_table: Table | None,
    ) -> Tally:
        """See :class:`Rows`."""
        a = self._restarts.index(restart)
        sizes = self._counts[: self._offsets[1], a].sum(axis=0)
        number = n_candidates(self.n_clusters)
        tables = self._here(table), self._here(row_table)
        parts = self._gather("worst", restart, *tables, number)
        worst, score, owners = (
            np.concatenate([part[place] for part in parts]) for place in range(3)
        )
        order = np.argsort(-score, kind="stable")[:number]
        chosen = choose_fillers(worst[order], owners[order], sizes, clusters)
        counts, absent, moved, hashes = self._sum("move", restart, chosen, clusters)
        self._counts[:, [a]] = counts
        gone = None
        if absent is not None:
            self._absent[:, [a]] = absent
            gone = self._absent[:, [a]]
        return self._tally(self._counts[:, [a]], gone, moved, hashes)

    def draw(
        self, rng: np.random.Generator, table: Table | None = None
    ) -> tuple[int, Codes]:
        """See :class:`Rows`."""
        drawn = np.array(self._drawn, dtype=np.intp)
        if table is None:
            self._tell("lower", None, drawn[:0])
            self._drawn = [self._nth_labelled(int(rng.integers(self._n_labelled)))]
            return self._drawn[0], self.codes(np.array(self._drawn))[:, 0]
        largest = max(
            float(part[0][0])
            for part in self._gather("lower", self._here(table), drawn)
        )
        if largest > 0:
            scale = 2.0**31 / largest
            ends = np.cumsum(
                [int(part[0][0]) for part in self._gather("weight", scale)]
            )
            number = int(rng.integers(ends[-1]))
            shard = int(np.searchsorted(ends, number, side="right"))
            begin = 0 if shard == 0 else int(ends[shard - 1])
            l = int(self._gather("locate", scale, number - begin)[shard][0][0])
        else:  # all others are equal to one that was drawn
            known = np.sort(np.concatenate([self.skip, drawn]))
            number = int(rng.integers(self.n_samples - len(known)))
            l = _nth_without(known, number)
        self._drawn.append(l)
        return l, self.codes(np.array([l]))[:, 0]

    @property
    def _n_labelled(self) -> int:
        return self.n_samples - len(self.skip)

    def _nth_labelled(self, number: int) -> int:
        return _nth_without(self.skip, number)

    def labels(self, restart: int) -> Assignment:
        """See :class:`Rows`."""
        return np.concatenate([part[0] for part in self._gather("labels", restart)])

    def cells(self, overlays: Sequence[Overlay]) -> list[npt.NDArray[np.int64]]:
        """See :class:`Rows`."""
        return self._sum("cells", _plain(overlays))

    def count_cells(
        self,
        overlays: Sequence[Overlay],
        places: Sequence[npt.NDArray[Any]],
        n_cells: int,
    ) -> tuple[Counts, Counts | None]:
        """See :class:`Rows`."""
        given = _plain(overlays), list(places), n_cells
        counts, absent = self._sum("count_cells", *given)
        return counts, absent

    def join(
        self,
        overlays: Sequence[Overlay],
        clusters: Sequence[npt.NDArray[Any]],
        alone: Sequence[Seeds],
        counts: Counts | None = None,
        absent: Counts | None = None,
    ) -> list[int]:
        """See :class:`Rows`."""
        seeds = [list(one) for one in alone]
        given = _plain(overlays), list(clusters), seeds, counts is not None
        self._tell("join", *given)
        numbers = self._next(len(overlays))
        if counts is not None:
            self._restarts = list(numbers)
            self._counts, self._absent = counts.copy(), absent
            self._before = (None, None)
        return numbers

    def codes(self, objects: npt.NDArray[np.intp]) -> Codes:
        """See :class:`Rows`."""
        once, place = np.unique(objects, return_inverse=True)
        parts = self._gather("codes", once)
        return np.concatenate([part[0] for part in parts], axis=1)[:, place]


def _plain(overlays: Sequence[Overlay]) -> list[list[list[int]]]:
    return [[_digits(layer) for layer in overlay] for overlay in overlays]


def _digits(layer: Layer) -> list[int]:
    return [int(layer.restart), int(layer.partition)]


def _some(part: Any, places: list[int]) -> Any:
    return None if part is None else np.ascontiguousarray(part[:, places])


def _nth_without(known: npt.NDArray[np.intp], number: int) -> int:
    """Return the n-th object that is not among some, which ascend."""
    before = np.searchsorted(known - np.arange(len(known)), number, side="right")
    return number + int(before)
