"""A range of the objects, with a :class:`LocalRows` of them, and what it answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends import choose_backend
from gpu_consensus.backends.protocol import Assignment, Codes
from gpu_consensus.ensemble.distinct import distinct_rows, without_label
from gpu_consensus.ensemble.encoding import count_codes
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.loop.code_blocks import CodeBlocks
from gpu_consensus.loop.local_rows import LocalRows
from gpu_consensus.loop.object_weights import object_weights, weigh_objects
from gpu_consensus.loop.rows import Layer, Seeds, Tally
from gpu_consensus.methods.cvote import most_voted
from gpu_consensus.methods.label_graph import nearest_centres
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.checks import IntArray
from gpu_consensus.util.splitmix import splitmix64

_PART = 1 << 20  # objects that are digested at a time


class Range(NamedTuple):
    """Where the labels of some objects are.

    Attributes
    ----------
    path : str
        Of an ensemble that ``save`` wrote; every worker that may get the range reads it
        by this path.
    first, last : int
        The objects first .. last - 1 of all.
    begin : int
        The row of the ensemble at ``path`` that is object ``first``.
    """

    path: str
    first: int
    last: int
    begin: int


class Shard:
    """The objects of a range; every answer is a list of arrays of numbers.

    Objects are numbered as in the whole, and counts are those of the objects here.

    Parameters
    ----------
    where : Range
    given : Ensemble, optional
        What ``where`` refers to, if it is in memory.
    backend : str, default "auto"
    n_jobs, memory_limit
        As in ``kcc``.
    """

    def __init__(
        self,
        where: Range,
        given: Ensemble | None = None,
        *,
        backend: str = "auto",
        n_jobs: int | None = None,
        memory_limit: int | None = None,
    ) -> None:
        self.first, self.last = where.first, where.last
        if given is None:
            given = _opened(where.path)
        end = where.begin + self.last - self.first
        if end > given.n_samples:
            raise ValueError(
                f"{where.path!r} has {given.n_samples} objects but those to row {end} "
                "are asked for; give the range that it holds."
            )
        self.n_labels, self.offsets = given.n_labels, given.offsets
        self._codes: Codes = to_host(given.codes)[:, where.begin : end]
        self._backend = choose_backend(backend, self._codes, n_jobs)
        self._memory_limit = memory_limit
        self._rows: LocalRows | None = None

    @property
    def rows(self) -> LocalRows:
        """The restarts of these objects."""
        assert self._rows is not None
        return self._rows

    # about the objects

    def describe(self) -> list[Any]:
        """Return K_i, how many objects carry each code, and the range."""
        counted = [
            count_codes(row, int(k))
            for row, k in zip(self._codes, self.n_labels, strict=True)
        ]
        return [self.n_labels, np.concatenate(counted), self.first, self.last]

    def backend_name(self) -> list[Any]:
        """Return what computes here."""
        return [self._backend.name]

    def unlabelled(self, useful: npt.NDArray[np.intp]) -> list[Any]:
        """Return the objects without a label in useful partitions."""
        return [self.first + without_label(self._codes, self.n_labels, useful)]

    def distinct(
        self, useful: npt.NDArray[np.intp], skip: npt.NDArray[np.intp], number: int
    ) -> list[Any]:
        """Return up to so many rows of codes (m, r) that differ."""
        return [distinct_rows(self._codes, useful, self._here(skip), number)]

    def codes(self, objects: npt.NDArray[np.intp]) -> list[Any]:
        """Return the codes (r, m) of those of some objects that are here."""
        here = self._here(objects)
        return [np.stack([row[here] for row in self._codes])]

    def nearest(self, table: Any, centres: Any) -> list[Any]:
        """Return the centre that each object lies nearest to; see ``label_graph``."""
        return [nearest_centres(self._blocks(), table, centres)]

    def winners(self, table: Any) -> list[Any]:
        """Return the cluster of most votes of each object, and its share."""
        return list(most_voted(self._blocks(), table))

    def equal(self, useful: npt.NDArray[np.intp], row: Codes) -> list[Any]:
        """Return the objects with some codes in useful partitions."""
        equals = np.ones(self._codes.shape[1], dtype=bool)
        for i, code in zip(useful.tolist(), row.tolist(), strict=True):
            equals &= self._codes[i] == code
        return [self.first + np.flatnonzero(equals)]

    def count(self, labels: Assignment, n_clusters: int) -> list[Any]:
        """Count the labels of each cluster of a labelling (n,) of all objects."""
        here = labels[None, self.first : self.last]
        counts = self._blocks().count(here, n_clusters)
        return [self._backend.to_host(counts)[:, 0]]

    def _blocks(self) -> CodeBlocks:
        return CodeBlocks(self._backend, self._codes, self.offsets, self._memory_limit)

    def digest(self) -> list[Any]:
        """Return a 64-bit sum over all codes and their places."""
        total = np.zeros(1, dtype=np.uint64)
        for i, row in enumerate(self._codes):
            for begin in range(0, len(row), _PART):
                part = row[begin : begin + _PART].astype(np.uint64)
                place = np.arange(len(part), dtype=np.uint64)
                place += np.uint64(self.first + begin)
                word = splitmix64(place * np.uint64(len(self._codes)) + np.uint64(i))
                total += splitmix64(word + part).sum(dtype=np.uint64)
        return [total.view(np.int64)]

    def weigh_objects(self, label_weights: IntArray) -> list[Any]:
        """Return what SEC sums over objects; see :mod:`object_weights`."""
        _, present, ratios = weigh_objects(self._codes, self.offsets, label_weights)
        return [present, ratios]

    # the restarts

    def open(
        self,
        n_clusters: int,
        skip: npt.NDArray[np.intp],
        label_weights: IntArray | None,
        weighs_absent: bool,
        hashed: bool,
    ) -> list[Any]:
        """Begin without restarts."""
        weight = None
        if label_weights is not None:
            weight = object_weights(self._codes, self.offsets, label_weights)
        self._rows = LocalRows(
            self._blocks(),
            n_clusters,
            self._here(skip),
            row_weight=None if weight is None else weight.astype(np.float32),
            absent_weight=weight if weighs_absent else None,
            hashed=hashed,
            first=self.first,
        )
        return []

    def _here(self, objects: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Return which of some objects are here, by their places here."""
        mine = (objects >= self.first) & (objects < self.last)
        return np.asarray(objects[mine] - self.first, dtype=np.intp)

    def _seeds(self, plain: list[Any]) -> Seeds:
        objects, clusters, partition, cluster_of = plain
        objects = np.asarray(objects, dtype=np.intp)
        clusters = np.asarray(clusters, dtype=np.intp)
        mine = (objects >= self.first) & (objects < self.last)
        return Seeds(
            objects[mine] - self.first,
            clusters[mine],
            int(partition),
            np.asarray(cluster_of, dtype=np.intp),
        )

    def start(
        self, seeds: list[Any] | None, assignment: Assignment | None
    ) -> list[Any]:
        """Begin restarts by seeds, or by assignments (R, n) of all objects."""
        if seeds is not None:
            self.rows.start([self._seeds(plain) for plain in seeds])
        else:
            assert assignment is not None
            self.rows.start(assignment[:, self.first : self.last])
        return []

    def keep(self, restarts: list[int]) -> list[Any]:
        """See :class:`Rows`."""
        self.rows.keep(restarts)
        return []

    def take(self, restarts: list[int]) -> list[Any]:
        """Put some restarts to work; the answer counts only if all are new to it."""
        return _plain(self.rows.take(restarts))

    def step(self, table: Any, row_table: Any, stay: Any, least_gain: Any) -> list[Any]:
        """See :class:`Rows`; tables are on the host."""
        there = self._backend.to_device
        row = None if row_table is None else there(row_table)
        own = None if stay is None else there(stay)
        return _plain(self.rows.step(there(table), row, own, least_gain))

    def gains(self, restart: int) -> list[Any]:
        """See :class:`Rows`."""
        return [self.rows.gains(restart)]

    def back(self, restarts: list[int]) -> list[Any]:
        """See :class:`Rows`."""
        self.rows.back(restarts)
        return []

    def worst(self, restart: int, table: Any, row_table: Any, number: int) -> list[Any]:
        """Return the objects that fit worst, how badly, and their clusters."""
        there = self._backend.to_device
        row = None if row_table is None else there(row_table)
        objects, score = self.rows.worst(there(table), row, number)
        clusters = self.rows.clusters_of(restart, objects)
        return [self.first + objects, score, clusters.astype(np.int64)]

    def move(self, restart: int, objects: Any, clusters: Any) -> list[Any]:
        """Put some objects into other clusters, in a restart at work."""
        mine = (objects >= self.first) & (objects < self.last)
        return _plain(
            self.rows.move(restart, objects[mine] - self.first, clusters[mine])
        )

    def cells(self, overlays: list[Any]) -> list[Any]:
        """See :class:`Rows`."""
        return list(self.rows.cells(_layers(overlays)))

    def count_cells(
        self, overlays: list[Any], places: list[Any], n_cells: int
    ) -> list[Any]:
        """See :class:`Rows`."""
        return list(self.rows.count_cells(_layers(overlays), places, n_cells))

    def join(
        self, overlays: list[Any], clusters: list[Any], alone: list[Any], known: bool
    ) -> list[Any]:
        """See :class:`Rows`; with ``known`` counts the restarts are put to work."""
        seeds = [self._seeds(plain) for plain in alone]
        restarts = self.rows.join(_layers(overlays), clusters, seeds)
        if known:
            self.rows.take(restarts)
        return []

    def lower(self, table: Any, drawn: npt.NDArray[np.intp]) -> list[Any]:
        """Take careful seeding one seed further; return the largest score left."""
        there = None if table is None else self._backend.to_device(table)
        return [np.array([self.rows.lower(there, self._here(drawn))])]

    def weight(self, scale: float) -> list[Any]:
        """Return the sum of the scores as whole numbers."""
        return [np.array([self.rows.seed_ends(scale)[-1]])]

    def locate(self, scale: float, number: int) -> list[Any]:
        """Return the object at a place in these sums; none if it is not here."""
        ends = self.rows.seed_ends(scale)
        if not 0 <= number < ends[-1]:
            return [np.zeros(1, dtype=np.int64)]
        return [np.array([self.first + np.searchsorted(ends, number, side="right")])]

    def labels(self, restart: int) -> list[Any]:
        """Return the cluster of each object."""
        return [self.rows.labels(restart)]


def _plain(tally: Tally) -> list[Any]:
    return [tally.counts, tally.absent, tally.moved, tally.hashes]


def _layers(overlays: list[Any]) -> list[list[Layer]]:
    return [[Layer(*layer) for layer in overlay] for overlay in overlays]


def _opened(path: str) -> Ensemble:
    if not Path(path).exists():
        raise FileNotFoundError(
            f"a worker has no {path!r}; put the ensemble where all workers read it by "
            "the same path."
        )
    return Ensemble.load(path, mmap=True, verify=False)
