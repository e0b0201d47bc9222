"""The reference backend: NumPy, readable first."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.arrays import to_host
from gpu_consensus.backends.protocol import (
    Assigned,
    Assignment,
    Coassociation,
    Codes,
    Counts,
    Offsets,
    Table,
)
from gpu_consensus.checks import check_int
from gpu_consensus.loop.segments import LabelSums, label_sums

if TYPE_CHECKING:
    from gpu_consensus.loop.problem import Rule

_TILE = 1 << 18  # numbers in one tile: the scores of a tile stay in the cache
_DEFAULT_MEMORY = 64 << 20


class NumpyBackend:
    """All primitives of :class:`gpu_consensus.backends.protocol.Backend` in NumPy.

    Parameters
    ----------
    n_jobs : int, optional
        Threads; all usable cores by default. They change no result.
    """

    name = "numpy"
    xp: Any = np

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_threads = n_threads(n_jobs)

    def to_device(self, array: Any) -> Any:
        """See the Protocol."""
        return array

    def to_host(self, array: Any) -> Any:
        """See the Protocol."""
        return array

    def bring(self, *arrays: Any) -> tuple[Any, ...]:
        """See the Protocol."""
        return arrays

    def stage(self, name: str) -> AbstractContextManager[Any]:
        """See the Protocol."""
        return nullcontext()

    def memory_for(self, what: str, cure: str) -> AbstractContextManager[None]:
        """See the Protocol."""
        return nullcontext()

    def hold(self, codes: Codes, beside: int = 0) -> Any:
        """See the Protocol."""
        return to_host(codes)

    def chunk_rows(self, n_restarts: int, memory_limit: int | None) -> int:
        """Return how many objects fit the working memory."""
        limit = _DEFAULT_MEMORY if memory_limit is None else memory_limit
        return max(1, limit // (32 * n_restarts))

    def blocks(
        self, codes: Any, n_restarts: int, memory_limit: int | None
    ) -> Iterator[tuple[slice, Codes]]:
        """See the Protocol."""
        for rows in _tiles(codes.shape[1], self.chunk_rows(n_restarts, memory_limit)):
            yield rows, codes[:, rows]

    def table(
        self,
        rule: Rule,
        counts: Counts,
        absent: Counts | None,
        on_host: Counts | None = None,
    ) -> tuple[Table, Table | None]:
        """See the Protocol."""
        return rule.table(counts, absent)

    def label_sums(
        self,
        offsets: Offsets,
        counts: Counts,
        marginals: npt.NDArray[np.int64],
        entropy: bool = False,
    ) -> LabelSums:
        """See the Protocol."""
        return label_sums(offsets, counts, marginals, entropy)

    def count(
        self, codes: Codes, offsets: Offsets, assignment: Assignment, n_clusters: int
    ) -> Counts:
        """See the Protocol."""
        n_restarts = assignment.shape[0]
        counts = np.zeros((int(offsets[-1]), n_restarts, n_clusters), dtype=np.int64)
        width = n_restarts * (n_clusters + 1)
        first = (np.arange(n_restarts) * (n_clusters + 1))[:, None]
        for rows in _tiles(codes.shape[1], _TILE // n_restarts):
            column = first + assignment[:, rows]
            for i, (begin, end) in enumerate(pairwise(offsets)):
                bins = codes[i, rows].astype(np.intp) * width + column
                found = np.bincount(bins.ravel(), minlength=(end - begin) * width)
                counts[begin:end] += found.reshape(-1, n_restarts, n_clusters + 1)[
                    :, :, :n_clusters
                ]
        return counts

    def recount(
        self,
        codes: Codes,
        offsets: Offsets,
        before: Assignment,
        after: Assignment,
        counts: Counts,
    ) -> None:
        """See the Protocol."""
        _, n_restarts, n_clusters = counts.shape
        restart, moved = np.nonzero(before != after)
        if 4 * moved.size > before.size:
            counts += self.count(codes, offsets, after, n_clusters)
            counts -= self.count(codes, offsets, before, n_clusters)
            return
        flat = counts.reshape(-1)
        first_row = offsets[:-1, None]
        for part in _tiles(moved.size, _TILE // len(codes)):
            q, l = restart[part], moved[part]
            row = (codes[:, l] + first_row) * n_restarts + q
            for cluster, step in ((before[q, l], -1), (after[q, l], 1)):
                counted = cluster < n_clusters
                bins = row[:, counted] * n_clusters + cluster[counted]
                np.add.at(flat, bins.ravel(), step)

    def assign(
        self,
        codes: Codes,
        offsets: Offsets,
        table: Table,
        *,
        row_weight: npt.NDArray[np.float32] | None = None,
        row_table: Table | None = None,
        best: bool = False,
        gap: bool = False,
    ) -> Assigned:
        """See the Protocol."""
        _, n_restarts, n_clusters = table.shape
        n_samples = codes.shape[1]
        shape = (n_restarts, n_samples)
        assignment = np.empty(shape, dtype=smallest_unsigned(n_clusters))
        lowest = np.empty(shape, dtype=np.float32) if best else None
        gaps = np.empty(shape, dtype=np.float32) if gap else None

        def one_tile(rows: slice) -> None:
            score = _sum_rows(codes[:, rows], offsets, table)
            if row_table is not None and row_weight is not None:
                if row_table.ndim == 3:
                    factor = _sum_rows(codes[:, rows], offsets, row_table)
                else:
                    factor = row_table[None]
                score += row_weight[rows, None, None] * factor
            winner = score.argmin(axis=2)
            assignment[:, rows] = winner.T
            if lowest is None and gaps is None:
                return
            least = np.take_along_axis(score, winner[:, :, None], axis=2)
            if lowest is not None:
                lowest[:, rows] = least[:, :, 0].T
            if gaps is not None:
                np.put_along_axis(score, winner[:, :, None], np.float32(np.inf), axis=2)
                gaps[:, rows] = (score.min(axis=2) - least[:, :, 0]).T

        self._for_each(one_tile, n_samples, _TILE // (n_restarts * n_clusters))
        return Assigned(assignment, lowest, gaps)

    def scores(
        self, codes: Codes, offsets: Offsets, table: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        """See the Protocol."""
        _, n_restarts, n_clusters = table.shape
        n_samples = codes.shape[1]
        score = np.empty((n_samples, n_restarts, n_clusters), dtype=np.float64)

        def one_tile(rows: slice) -> None:
            score[rows] = _sum_rows(codes[:, rows], offsets, table)

        self._for_each(one_tile, n_samples, _TILE // (n_restarts * n_clusters))
        return score

    def soft_count(
        self,
        codes: Codes,
        offsets: Offsets,
        responsibilities: npt.NDArray[np.float64],
    ) -> Counts:
        """See the Protocol."""
        _, n_restarts, n_clusters = responsibilities.shape
        units = np.rint(responsibilities * 2.0**32).astype(np.int64)
        counts = np.zeros((int(offsets[-1]), n_restarts, n_clusters), dtype=np.int64)
        for i in range(len(codes)):
            np.add.at(counts, offsets[i] + codes[i], units)
        return counts

    def weigh(
        self,
        codes: Codes,
        offsets: Offsets,
        assignment: Assignment,
        row_weight: npt.NDArray[np.int64],
        n_clusters: int,
    ) -> Counts:
        """See the Protocol."""
        total = np.zeros((len(codes), len(assignment), n_clusters), dtype=np.int64)
        for i, size in enumerate(np.diff(offsets)):
            absent = np.flatnonzero(codes[i] == size - 1)
            for q, cluster in enumerate(assignment[:, absent]):
                counted = cluster < n_clusters
                np.add.at(total[i, q], cluster[counted], row_weight[absent[counted]])
        return total

    def reweigh(
        self,
        codes: Codes,
        offsets: Offsets,
        before: Assignment,
        after: Assignment,
        row_weight: npt.NDArray[np.int64],
        total: Counts,
    ) -> None:
        """See the Protocol."""
        restart, moved = np.nonzero(before != after)
        for i, size in enumerate(np.diff(offsets)):
            absent = codes[i, moved] == size - 1
            q, l = restart[absent], moved[absent]
            for cluster, sign in ((before[q, l], -1), (after[q, l], 1)):
                counted = cluster < total.shape[2]
                where = (q[counted], cluster[counted])
                np.add.at(total[i], where, sign * row_weight[l[counted]])

    def coassociation(
        self, codes: Codes, n_labels: npt.NDArray[np.int64], rows: Any, columns: Any
    ) -> Coassociation:
        """See the Protocol."""
        left, right = codes[:, rows], codes[:, columns]
        shape = (left.shape[1], right.shape[1])
        same = np.zeros(shape, dtype=np.int32)
        both = np.zeros(shape, dtype=np.int32)
        for i, k_i in enumerate(n_labels):
            present = (left[i] != k_i)[:, None] & (right[i] != k_i)[None]
            same += (left[i][:, None] == right[i][None]) & present
            both += present
        return Coassociation(same, both)

    def pairs(
        self, held: Any, n_labels: npt.NDArray[np.int64], rows: Any, columns: Any
    ) -> Coassociation:
        """See the Protocol."""
        return self.coassociation(held, n_labels, rows, columns)

    def _for_each(self, work: Callable[[slice], None], size: int, tile: int) -> None:
        """Do the work tile by tile, on all threads; tiles are independent."""
        tiles = list(_tiles(size, tile))
        if self.n_threads == 1 or len(tiles) < 2:
            for rows in tiles:
                work(rows)
            return
        with ThreadPoolExecutor(self.n_threads) as pool:
            for done in [pool.submit(work, rows) for rows in tiles]:
                done.result()


def n_threads(n_jobs: int | None) -> int:
    """Return the number of threads that ``n_jobs`` means: None or -1, all cores."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    cores = usable or os.cpu_count() or 1
    if n_jobs is None:
        return asked_threads() or cores
    number = check_int("n_jobs", n_jobs, -cores, cure="-1 or None for all cores")
    if number == 0:
        raise ValueError("n_jobs=0 should be >= 1, or -1 or None for all cores.")
    return number if number > 0 else cores + 1 + number


def asked_threads() -> int | None:
    """Return the number of threads that the environment asks for, if it does."""
    asked = os.environ.get("GPU_CONSENSUS_NUM_THREADS", "").strip()
    if not asked:
        return None
    number = int(asked) if asked.isdecimal() else asked
    return check_int("GPU_CONSENSUS_NUM_THREADS", number, 1)


def smallest_unsigned(n_clusters: int) -> npt.DTypeLike:
    """Return the smallest unsigned type that holds 0..n_clusters."""
    return np.min_scalar_type(n_clusters)


def _sum_rows(codes: Codes, offsets: Offsets, table: Any) -> Any:
    """Add up the table rows of every object, in partition order: (n, R, K)."""
    flat = table.reshape(table.shape[0], -1)
    total = flat[offsets[0] : offsets[1]].take(codes[0], axis=0, mode="clip")
    row = np.empty_like(total)
    for i in range(1, len(codes)):
        part = flat[offsets[i] : offsets[i + 1]]
        part.take(codes[i], axis=0, out=row, mode="clip")
        total += row
    return total.reshape(codes.shape[1], *table.shape[1:])


def _tiles(size: int, tile: int) -> Iterator[slice]:
    for begin in range(0, size, max(1, tile)):
        yield slice(begin, min(size, begin + max(1, tile)))
