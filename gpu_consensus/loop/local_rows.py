"""Objects in this process: one backend, block by block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.numpy import smallest_unsigned
from gpu_consensus.backends.protocol import Assignment, Codes, Counts, Table
from gpu_consensus.loop.code_blocks import CodeBlocks
from gpu_consensus.loop.filling import choose_fillers, n_candidates
from gpu_consensus.loop.hashing import hash_assignments
from gpu_consensus.loop.overlays import Overlays
from gpu_consensus.loop.rows import Overlay, Seeds, Tally
from gpu_consensus.util.arrays import to_host

GAIN_BINS = 1 << 15
"""The upper 16 bits of a float32 that is not negative."""


class LocalRows:
    """The objects of an ensemble; see :class:`gpu_consensus.loop.rows.Rows`.

    Parameters
    ----------
    blocks : CodeBlocks
    n_clusters : int
    skip : ndarray of int
        Objects without any label, ascending; they are never counted.
    row_weight : ndarray of shape (n,), float32, optional
        Goes with row tables.
    absent_weight : ndarray of shape (n,), int64, optional
        Summed over the members that have no label in a partition.
    hashed : bool, default False
        Whether to hash assignments, so that repeats are seen.
    first : int, default 0
        The number of the first of these objects in hashes.
    """

    def __init__(
        self,
        blocks: CodeBlocks,
        n_clusters: int,
        skip: npt.NDArray[np.intp],
        *,
        row_weight: npt.NDArray[np.float32] | None = None,
        absent_weight: npt.NDArray[np.int64] | None = None,
        hashed: bool = False,
        first: int = 0,
    ) -> None:
        self.blocks = blocks
        self.n_samples = blocks.n_samples
        self.n_clusters = n_clusters
        self.skip = skip
        self.hashed = hashed
        self._first = first
        self._row_weight = blocks.per_range(row_weight)
        self._weighs_absent = absent_weight is not None
        self._absent_weight = blocks.per_range(absent_weight)
        self._is_skipped = blocks.per_range(self._skipped() if skip.size else None)
        self._overlays = Overlays(blocks, n_clusters, self._assignment)
        # assignments (n,) of the restarts that are not at work, by restart
        self._stored: dict[int, Assignment] = {}
        # those at work: assignments (A, n) and counts
        self._restarts: list[int] = []
        self._current: Any = None
        self._previous: Any = None
        self._counts: Any = None
        self._absent: Any = None
        # restarts that have just begun, and whether most objects are going to move, so
        # that all are counted anew
        self._fresh: set[int] = set()
        self._restless = False
        # what the last exact step saves, in bins (A, size) of each range of objects
        self._gain_bins: list[Any] = []
        # careful seeding: the lowest score of each object so far, and who was drawn
        self._nearest = np.empty(0, dtype=np.float32)
        self._drawn: list[int] = []

    def _skipped(self) -> npt.NDArray[np.bool_]:
        skipped = np.zeros(self.blocks.n_samples, dtype=np.bool_)
        skipped[self.skip] = True
        return skipped

    def start(self, first: Sequence[Seeds] | Assignment) -> list[int]:
        """See :class:`Rows`."""
        if isinstance(first, list):
            first = np.stack([self._seeded(seeds) for seeds in first])
        there = self.blocks.backend.to_device(first)
        numbers = self._next(len(there))
        self._stored.update(zip(numbers, there, strict=True))
        self._fresh.update(numbers)
        return numbers

    def _next(self, number: int) -> list[int]:
        known = len(self._stored) + len(self._restarts)
        return list(range(known, known + number))

    def keep(self, restarts: list[int]) -> None:
        """See :class:`Rows`."""
        self._overlays.forget()
        kept = {}
        for new, q in enumerate(restarts):
            row = self._assignment(q)
            kept[new] = row.copy() if q in self._restarts else row
        self._stored, self._restarts = kept, []
        self._fresh = set()
        self._current = self._previous = self._counts = self._absent = None

    def _leave(self) -> None:
        """Put no restart to work."""
        for a, q in enumerate(self._restarts):
            self._stored[q] = self._current[a]
        self._restarts = []
        self._restless = False

    def _seeded(self, seeds: Seeds) -> Assignment:
        """Return the assignment (n,) that seeds stand for, on the host."""
        kind = smallest_unsigned(self.n_clusters)
        if seeds.partition < 0:
            row = np.full(self.blocks.n_samples, self.n_clusters, dtype=kind)
        else:
            codes = to_host(self.blocks.codes[seeds.partition])
            row = seeds.cluster_of.astype(kind)[codes]
        row[seeds.objects] = seeds.clusters
        return row

    def take(self, restarts: list[int]) -> Tally:
        """See :class:`Rows`."""
        xp = self.blocks.backend.xp
        known = self._restarts
        if not known or not set(restarts) <= set(known):
            self._leave()
            stored = [self._stored.pop(q) for q in restarts]
            shape = (len(stored), self.blocks.n_samples)
            self._current = xp.empty(shape, stored[0].dtype)
            self._previous = xp.empty(shape, stored[0].dtype)
            for row, assignment in zip(self._current, stored, strict=True):
                row[...] = assignment
            self._restarts = list(restarts)
            self._restless = self._fresh.issuperset(restarts)
            self._count_all()
        elif restarts != known:
            places = [known.index(q) for q in restarts]
            for a, q in enumerate(known):
                if q not in restarts:
                    self._stored[q] = self._current[a].copy()
            self._current = xp.ascontiguousarray(self._current[places])
            self._previous = xp.ascontiguousarray(self._previous[places])
            self._counts = xp.ascontiguousarray(self._counts[:, places])
            if self._absent is not None:
                self._absent = xp.ascontiguousarray(self._absent[:, places])
            self._restarts = list(restarts)
        nobody = xp.zeros(len(restarts), dtype=np.int64)
        return self._tally(self._current, self._counts, self._absent, nobody)

    def _forget_counts(self) -> None:
        blocks, n_restarts = self.blocks, len(self._restarts)
        self._counts = blocks.zeros(n_restarts, self.n_clusters)
        if self._weighs_absent:
            shape = (len(blocks.codes), n_restarts, self.n_clusters)
            self._absent = blocks.backend.xp.zeros(shape, dtype=np.int64)

    def _count_all(self) -> None:
        self._forget_counts()
        for rows, codes in self.blocks.blocks(len(self._restarts)):
            self._count(rows, codes, None, self._current[:, rows])

    def _count(
        self, rows: slice, codes: Codes, before: Assignment | None, after: Assignment
    ) -> None:
        self.blocks.backend.count(
            codes,
            self.blocks.offsets,
            before,
            after,
            self._counts,
            self._absent_weight(rows),
            self._absent,
        )

    def _tally(
        self, assignment: Assignment, counts: Any, absent: Any, moved: Any
    ) -> Tally:
        """Return the tally of some restarts, in one copy from the device."""
        backend, hashes = self.blocks.backend, None
        if self.hashed:
            hashes = hash_assignments(
                backend.xp, assignment, self.n_clusters, self._first
            )
        here, absent_here, moved, hashes = backend.to_host(
            counts, absent, moved, hashes
        )
        # every object that counts has one code in partition 0
        sizes = here[: self.blocks.offsets[1]].sum(axis=0)
        return Tally(here, absent_here, sizes, moved, hashes, counts, absent)

    def step(
        self,
        table: Table,
        row_table: Table | None,
        stay: Table | None = None,
        least_gain: npt.NDArray[np.float32] | None = None,
    ) -> Tally:
        """See :class:`Rows`."""
        xp, n_samples = self.blocks.backend.xp, self.blocks.n_samples
        self._overlays.forget()
        moved = xp.zeros(len(self._restarts), dtype=np.int64)
        least = None
        if least_gain is not None:
            least = self.blocks.backend.to_device(least_gain[:, None])
        self._gain_bins = []
        if self._restless:
            self._forget_counts()
        whole = self._previous
        for rows, codes in self.blocks.blocks(len(self._restarts)):
            before = self._current[:, rows]
            if stay is None:
                after = self._assign(rows, codes, table, row_table)
            else:
                after = self._exact(codes, table, stay, before, least)
            self._count(rows, codes, None if self._restless else before, after)
            moved += (before != after).sum(axis=1)
            if rows == slice(0, n_samples):
                whole = after
            else:
                whole[:, rows] = after
        self._previous, self._current = self._current, whole
        tally = self._tally(self._current, self._counts, self._absent, moved)
        self._fresh.difference_update(self._restarts)
        self._restless = 2 * int(tally.moved.sum()) > whole.size
        return tally

    def _exact(
        self,
        codes: Codes,
        table: Table,
        stay: Table,
        before: Assignment,
        least: Any,
    ) -> Assignment:
        """Return where objects are that moved only if it saves enough."""
        backend = self.blocks.backend
        there = backend.assign(codes, self.blocks.offsets, table, own=before, stay=stay)
        assert there.gain is not None
        bins = there.gain.view(np.uint32) >> np.uint32(16)
        self._gain_bins.append(bins.astype(np.uint16))
        after: Assignment = backend.xp.where(
            there.gain > least, there.assignment, before
        )
        return after

    def _assign(
        self, rows: slice, codes: Codes, table: Table, row_table: Table | None
    ) -> Assignment:
        backend = self.blocks.backend
        after = backend.assign(
            codes,
            self.blocks.offsets,
            table,
            row_weight=self._row_weight(rows),
            row_table=row_table,
        ).assignment
        low, high = np.searchsorted(self.skip, (rows.start, rows.stop))
        if high > low:
            # not by an index: CuPy would make one for every entry, and wait for it
            none = after.dtype.type(self.n_clusters)
            after = backend.xp.where(self._is_skipped(rows), none, after)
        return after

    def gains(self, restart: int) -> npt.NDArray[np.int64]:
        """See :class:`Rows`."""
        xp, a = self.blocks.backend.xp, self._restarts.index(restart)
        number = xp.zeros(GAIN_BINS, dtype=np.int64)
        for bins in self._gain_bins:
            number += xp.bincount(bins[a], minlength=GAIN_BINS)
        found: npt.NDArray[np.int64] = self.blocks.backend.to_host(number)
        return found

    def back(self, restarts: list[int]) -> None:
        """See :class:`Rows`."""
        places = [self._restarts.index(q) for q in restarts]
        self._change(places, self._previous[places])

    def fill(
        self,
        restart: int,
        clusters: npt.NDArray[np.intp],
        table: Table,
        row_table: Table | None,
    ) -> Tally:
        """See :class:`Rows`."""
        a = self._restarts.index(restart)
        counts = to_host(self._counts[: self.blocks.offsets[1], a])
        worst, _ = self.worst(table, row_table, n_candidates(self.n_clusters))
        # every object has one code in partition 0
        sizes, owners = counts.sum(axis=0), self.clusters_of(restart, worst)
        chosen = choose_fillers(worst, owners, sizes, clusters)
        return self.move(restart, chosen, clusters)

    def clusters_of(
        self, restart: int, objects: npt.NDArray[np.intp]
    ) -> npt.NDArray[np.intp]:
        """Return the clusters of some objects, on the host."""
        there = self._assignment(restart)[self.blocks.backend.to_device(objects)]
        return np.asarray(to_host(there), dtype=np.intp)

    def move(
        self,
        restart: int,
        objects: npt.NDArray[np.intp],
        clusters: npt.NDArray[np.intp],
    ) -> Tally:
        """Put some objects into other clusters, in a restart at work."""
        a, there = self._restarts.index(restart), self.blocks.backend.to_device
        assignment = self._current[a].copy()
        assignment[there(objects)] = there(clusters.astype(assignment.dtype))
        return self._change([a], assignment[None])

    def _change(self, places: list[int], after: Assignment) -> Tally:
        """Give some restarts at work other assignments (m, n); return their tally."""
        backend, xp = self.blocks.backend, self.blocks.backend.xp
        self._overlays.forget()
        before = self._current[places]
        counts = xp.ascontiguousarray(self._counts[:, places])
        absent = None
        if self._absent is not None:
            absent = xp.ascontiguousarray(self._absent[:, places])
        for rows, codes in self.blocks.blocks(len(places)):
            backend.count(
                codes,
                self.blocks.offsets,
                before[:, rows],
                after[:, rows],
                counts,
                self._absent_weight(rows),
                absent,
            )
        self._counts[:, places] = counts
        if self._absent is not None:
            self._absent[:, places] = absent
        self._current[places] = after
        return self._tally(after, counts, absent, (before != after).sum(axis=1))

    def worst(
        self, table: Table, row_table: Table | None, number: int
    ) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float32]]:
        """Return the objects that fit their cluster worst, worst first, and how."""
        backend = self.blocks.backend
        worst = np.empty(0, dtype=np.intp)
        score = np.empty(0, dtype=np.float32)
        for rows, codes in self.blocks.blocks(1):
            best = backend.assign(
                codes,
                self.blocks.offsets,
                table,
                row_weight=self._row_weight(rows),
                row_table=row_table,
                best=True,
            ).best
            objects = np.arange(rows.start, rows.stop)
            labelled = np.isin(objects, self.skip, invert=True, assume_unique=True)
            worst = np.concatenate([worst, objects[labelled]])
            score = np.concatenate([score, backend.to_host(best)[0][labelled]])
            order = np.argsort(-score, kind="stable")[:number]
            worst, score = worst[order], score[order]
        return worst, score

    def draw(
        self, rng: np.random.Generator, table: Table | None = None
    ) -> tuple[int, Codes]:
        """See :class:`Rows`; scores are scaled to integers, whose sums are exact."""
        if table is None:
            self.lower(None, np.empty(0, dtype=np.intp))
            labelled = np.delete(np.arange(self.n_samples), self.skip)
            l = int(labelled[rng.integers(labelled.size)])
            self._drawn = [l]
            return l, to_host(self.blocks.codes[:, l])
        largest = self.lower(table, np.array(self._drawn))
        if largest > 0:
            ends = self.seed_ends(2.0**31 / largest)
            l = int(np.searchsorted(ends, rng.integers(ends[-1]), side="right"))
        else:  # all others are equal to one that was drawn
            labelled = np.delete(np.arange(self.n_samples), self.skip)
            rest = np.setdiff1d(labelled, self._drawn, assume_unique=True)
            l = int(rest[rng.integers(rest.size)])
        self._drawn.append(l)
        return l, to_host(self.blocks.codes[:, l])

    def lower(self, table: Table | None, drawn: npt.NDArray[np.intp]) -> float:
        """Lower the scores of ``draw`` by a table, or begin anew; return the largest.

        Those of objects that were drawn are 0.
        """
        if table is None:
            self._nearest = np.full(self.n_samples, np.inf, dtype=np.float32)
            self._nearest[self.skip] = 0.0
            return np.inf
        backend, nearest = self.blocks.backend, self._nearest
        for rows, codes in self.blocks.blocks(1):
            score = backend.assign(codes, self.blocks.offsets, table, best=True).best
            lowest = backend.to_host(score)[0]
            np.minimum(nearest[rows], lowest, out=nearest[rows])
        nearest[drawn] = 0
        return float(nearest.max())

    def seed_ends(self, scale: float) -> npt.NDArray[np.int64]:
        """Return the sums, up to each object, of the scores as whole numbers."""
        return np.cumsum((self._nearest * scale).astype(np.int64))

    def cells(self, overlays: Sequence[Overlay]) -> list[npt.NDArray[np.int64]]:
        """See :class:`Rows`."""
        return [self._overlays.sizes(overlay) for overlay in overlays]

    def count_cells(
        self,
        overlays: Sequence[Overlay],
        places: Sequence[npt.NDArray[Any]],
        n_cells: int,
    ) -> tuple[Counts, Counts | None]:
        """See :class:`Rows`."""
        blocks, xp = self.blocks, self.blocks.backend.xp
        kind = smallest_unsigned(n_cells)
        there = [blocks.backend.to_device(place.astype(kind)) for place in places]
        counts, absent = blocks.zeros(len(overlays), n_cells), None
        if self._weighs_absent:
            shape = (len(blocks.codes), len(overlays), n_cells)
            absent = xp.zeros(shape, dtype=np.int64)
        for rows, codes in blocks.blocks(len(overlays)):
            cells = xp.empty((len(overlays), rows.stop - rows.start), dtype=kind)
            for row, overlay, place in zip(cells, overlays, there, strict=True):
                row[...] = self._overlays.named(overlay, place, rows)
            blocks.backend.count(
                codes,
                blocks.offsets,
                None,
                cells,
                counts,
                self._absent_weight(rows),
                absent,
            )
        return tuple(blocks.backend.to_host(counts, absent))

    def join(
        self,
        overlays: Sequence[Overlay],
        clusters: Sequence[npt.NDArray[Any]],
        alone: Sequence[Seeds],
        counts: Counts | None = None,
        absent: Counts | None = None,
    ) -> list[int]:
        """See :class:`Rows`."""
        backend, kind = self.blocks.backend, smallest_unsigned(self.n_clusters)
        shape = (len(overlays), self.n_samples)
        joined = backend.xp.empty(shape, dtype=kind)
        for row, overlay, cluster_of, seeds in zip(
            joined, overlays, clusters, alone, strict=True
        ):
            there = backend.to_device(cluster_of.astype(kind))
            self._overlays.name_all(overlay, there, row)
            if seeds.objects.size:
                objects = backend.to_device(seeds.objects)
                row[objects] = backend.to_device(seeds.clusters.astype(kind))
        self._overlays.forget()
        numbers = self._next(len(overlays))
        if counts is None:
            self._stored.update(zip(numbers, joined, strict=True))
            return numbers
        self._leave()
        self._restarts = list(numbers)
        self._current = joined
        self._previous = backend.xp.empty(shape, kind)
        self._counts = backend.to_device(counts)
        self._absent = None if absent is None else backend.to_device(absent)
        return numbers

    def codes(self, objects: npt.NDArray[np.intp]) -> Codes:
        """See :class:`Rows`."""
        given = self.blocks.codes
        some = np.empty((len(given), len(objects)), dtype=given.dtype)
        for row, codes in zip(some, given, strict=True):
            row[:] = to_host(codes)[objects]
        return some

    def labels(self, restart: int) -> Assignment:
        """See :class:`Rows`."""
        return np.array(to_host(self._assignment(restart)))

    def _assignment(self, restart: int) -> Any:
        if restart in self._restarts:
            return self._current[self._restarts.index(restart)]
        return self._stored[restart]

    def put(self, restart: int, assignment: Assignment) -> None:
        """Give a restart another assignment (n,), made on the host.

        For work on one object after another, which only one process can do; the counts
        of this restart are made anew when it is taken.
        """
        if restart in self._restarts:
            self._leave()
        self._stored[restart] = self.blocks.backend.to_device(assignment)

    def counts(self, restart: int) -> Counts:
        """Return the counts of one restart, (S, K), on the host."""
        single = self._assignment(restart)[None]
        counts: Counts = self.blocks.backend.to_host(
            self.blocks.count(single, self.n_clusters)
        )
        return np.ascontiguousarray(counts[:, 0])
