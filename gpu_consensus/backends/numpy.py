"""The reference backend: NumPy, readable first."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.host_arrays import HostArrays
from gpu_consensus.backends.protocol import (
    Assigned,
    Assignment,
    Codes,
    Counts,
    Offsets,
    PairCounts,
    Table,
)
from gpu_consensus.backends.recipe import TableRecipe, make_tables
from gpu_consensus.backends.segments import LabelSums, label_sums
from gpu_consensus.util.checks import check_int

_TILE = 1 << 18  # numbers in one tile: the scores of a tile stay in the cache


class NumpyBackend(HostArrays):
    """All primitives of :class:`gpu_consensus.backends.protocol.Backend` in NumPy.

    Parameters
    ----------
    n_jobs : int, optional
        Threads; all usable cores by default. They change no result.
    """

    name = "numpy"

    def __init__(self, n_jobs: int | None = None) -> None:
        self._n_threads = n_threads(n_jobs)

    def table(
        self,
        recipe: TableRecipe,
        counts: Counts,
        absent: Counts | None = None,
        on_host: Counts | None = None,
    ) -> tuple[Table, Table | None]:
        """See the Protocol."""
        return make_tables(recipe, counts, absent)

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
        self,
        codes: Codes,
        offsets: Offsets,
        before: Assignment | None,
        after: Assignment,
        out: Counts,
        weight: npt.NDArray[np.int64] | None = None,
        absent: Counts | None = None,
    ) -> None:
        """See the Protocol."""
        if before is None:
            _count_all(codes, offsets, after, 1, out)
        else:
            restart, moved = np.nonzero(before != after)
            if 4 * moved.size > before.size:
                _count_all(codes, offsets, after, 1, out)
                _count_all(codes, offsets, before, -1, out)
            else:
                _count_moved(codes, offsets, before, after, restart, moved, out)
        if weight is not None:
            assert absent is not None
            _sum_absent(codes, offsets, after, weight, absent)
            if before is not None:
                _sum_absent(codes, offsets, before, -weight, absent)

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
        own: Assignment | None = None,
        stay: Table | None = None,
    ) -> Assigned:
        """See the Protocol."""
        _, n_restarts, n_clusters = table.shape
        n_samples = codes.shape[1]
        shape = (n_restarts, n_samples)
        assignment = np.empty(shape, dtype=smallest_unsigned(n_clusters))
        lowest = np.empty(shape, dtype=np.float32) if best else None
        gaps = np.empty(shape, dtype=np.float32) if gap else None
        gains = None if own is None else np.empty(shape, dtype=np.float32)

        def one_tile(rows: slice) -> None:
            score = _sum_rows(codes[:, rows], offsets, table)
            if row_table is not None and row_weight is not None:
                if row_table.ndim == 3:
                    factor = _sum_rows(codes[:, rows], offsets, row_table)
                else:
                    factor = row_table[None]
                score += row_weight[rows, None, None] * factor
            if own is not None and stay is not None and gains is not None:
                price = _own_scores(codes[:, rows], offsets, stay, own[:, rows])
                counted = n_clusters > own[:, rows].T
                l, q = np.nonzero(counted)
                score[l, q, own[:, rows].T[counted]] = price[counted]
                gains[:, rows] = gains_of(price, score.min(axis=2), len(codes)).T
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
        return Assigned(assignment, lowest, gaps, gains)

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

    def pairs(
        self, resident: Any, n_labels: npt.NDArray[np.int64], rows: Any, columns: Any
    ) -> PairCounts:
        """See the Protocol."""
        left, right = resident[:, rows], resident[:, columns]
        shape = (left.shape[1], right.shape[1])
        same = np.zeros(shape, dtype=np.int32)
        both = np.zeros(shape, dtype=np.int32)
        for i, k_i in enumerate(n_labels):
            present = (left[i] != k_i)[:, None] & (right[i] != k_i)[None]
            same += (left[i][:, None] == right[i][None]) & present
            both += present
        return PairCounts(same, both)

    def _for_each(self, work: Callable[[slice], None], size: int, tile: int) -> None:
        """Do the work tile by tile, on all threads; tiles are independent."""
        tiles = list(_tiles(size, tile))
        if self._n_threads == 1 or len(tiles) < 2:
            for rows in tiles:
                work(rows)
            return
        with ThreadPoolExecutor(self._n_threads) as pool:
            for done in [pool.submit(work, rows) for rows in tiles]:
                done.result()


MOST_THREADS = 1024
"""More are refused: no answer depends on their number, and none comes sooner."""


def n_threads(n_jobs: int | None) -> int:
    """Return the number of threads that ``n_jobs`` means: None or -1, all cores."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    cores = usable or os.cpu_count() or 1
    if n_jobs is None:
        return asked_threads() or cores
    cure = "-1 or None for all cores"
    number = check_int("n_jobs", n_jobs, -cores, MOST_THREADS, cure=cure)
    if number == 0:
        raise ValueError("n_jobs=0 should be >= 1, or -1 or None for all cores.")
    return number if number > 0 else cores + 1 + number


def asked_threads() -> int | None:
    """Return the number of threads that the environment sets, or None."""
    asked = os.environ.get("GPU_CONSENSUS_NUM_THREADS", "").strip()
    if not asked:
        return None
    number = int(asked) if asked.isdecimal() else asked
    return check_int("GPU_CONSENSUS_NUM_THREADS", number, 1)


def smallest_unsigned(n_clusters: int) -> npt.DTypeLike:
    """Return the smallest unsigned type that holds 0..n_clusters."""
    return np.min_scalar_type(n_clusters)


def _count_all(
    codes: Codes, offsets: Offsets, assignment: Assignment, sign: int, out: Counts
) -> None:
    """Add all objects to counts (S, R, K), or subtract them."""
    _, n_restarts, n_clusters = out.shape
    width = n_restarts * (n_clusters + 1)
    first = (np.arange(n_restarts) * (n_clusters + 1))[:, None]
    for rows in _tiles(codes.shape[1], _TILE // n_restarts):
        column = first + assignment[:, rows]
        for i, (begin, end) in enumerate(pairwise(offsets)):
            bins = codes[i, rows].astype(np.intp) * width + column
            added = np.bincount(bins.ravel(), minlength=(end - begin) * width)
            added = added.reshape(-1, n_restarts, n_clusters + 1)
            out[begin:end] += sign * added[:, :, :n_clusters]


def _count_moved(
    codes: Codes,
    offsets: Offsets,
    before: Assignment,
    after: Assignment,
    restart: npt.NDArray[np.intp],
    moved: npt.NDArray[np.intp],
    out: Counts,
) -> None:
    """Move some objects of some restarts from cluster to cluster in the counts."""
    _, n_restarts, n_clusters = out.shape
    flat = out.reshape(-1)
    first_row = offsets[:-1, None]
    for part in _tiles(moved.size, _TILE // len(codes)):
        q, l = restart[part], moved[part]
        row = (codes[:, l] + first_row) * n_restarts + q
        for cluster, step in ((before[q, l], -1), (after[q, l], 1)):
            counted = cluster < n_clusters
            bins = row[:, counted] * n_clusters + cluster[counted]
            np.add.at(flat, bins.ravel(), step)


def _sum_absent(
    codes: Codes,
    offsets: Offsets,
    assignment: Assignment,
    weight: npt.NDArray[np.int64],
    absent: Counts,
) -> None:
    """Add the weights of the objects that are missing in each partition."""
    n_clusters = absent.shape[2]
    for i, size in enumerate(np.diff(offsets)):
        missing = np.flatnonzero(codes[i] == size - 1)
        for q, cluster in enumerate(assignment[:, missing]):
            counted = cluster < n_clusters
            np.add.at(absent[i, q], cluster[counted], weight[missing[counted]])


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


def _own_scores(codes: Codes, offsets: Offsets, stay: Any, own: Assignment) -> Any:
    """Add up the entries of every object's own cluster, in partition order: (n, R)."""
    n_clusters = stay.shape[2]
    column = np.minimum(own.T, n_clusters - 1).astype(np.intp)
    restart = np.arange(len(own))
    total = np.zeros(column.shape, dtype=np.float32)
    for labels, begin in zip(codes, offsets, strict=False):
        total += stay[(begin + labels.astype(np.intp))[:, None], restart, column]
    total[n_clusters <= own.T] = -np.inf
    return total


def gains_of(price: Any, lowest: Any, n_partitions: int) -> Any:
    """Return what moving saves, as ``assign`` does; 0 where that may be rounding."""
    least = np.float32(n_partitions * 2.0**-23) * np.abs(price)
    gain = price - lowest
    return np.where(gain > least, gain, np.float32(0.0))


def _tiles(size: int, tile: int) -> Iterator[slice]:
    for begin in range(0, size, max(1, tile)):
        yield slice(begin, min(size, begin + max(1, tile)))
