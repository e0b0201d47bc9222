"""The fast CPU backend: the primitives of the seam, and what laziness needs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends import numba_groups, numba_tables
from gpu_consensus.backends.numba_layout import (
    as_protocol,
    blank_table,
    code_lines,
    padded_rows,
)
from gpu_consensus.backends.numba_primitives import NumbaPrimitives
from gpu_consensus.backends.protocol import (
    Assignment,
    Codes,
    Counts,
    Groups,
    Offsets,
    Table,
)

_NO_ROW = np.empty(0, dtype=np.float32)
_NO_OUTPUT = np.empty((0, 0), dtype=np.float32)


class NumbaBackend(NumbaPrimitives):
    """All primitives compiled, and more, to leave out work that changes nothing."""

    name = "numba"

    def reassign(
        self,
        codes: Codes,
        offsets: Offsets,
        table: Table,
        objects: npt.NDArray[np.int64],
        assignment: Assignment,
        gap: npt.NDArray[np.float32],
        *,
        row_weight: npt.NDArray[np.float32] | None = None,
        row_table: Table | None = None,
    ) -> None:
        """As ``assign``, for some objects, whose cluster and gap are written in place.

        Parameters
        ----------
        objects : ndarray of int64
            None of them twice.
        assignment, gap : ndarray of shape (R, n)
        """
        if len(objects):
            self._assign(
                codes,
                offsets,
                table,
                objects,
                row_weight,
                row_table,
                assignment,
                _NO_OUTPUT,
                gap,
            )

    def pick(self, table: Table, restarts: Sequence[int]) -> Table:
        """Return the table (S, A, K) of some restarts."""
        n_rows, n_restarts, n_clusters = table.shape
        flat, width = padded_rows(table)
        chosen = np.asarray(restarts, dtype=np.int64)
        columns = (np.arange(n_clusters)[:, None] * n_restarts + chosen).ravel()
        found = blank_table(n_rows, len(columns))

        def some(part: tuple[int, int]) -> None:
            numba_tables.copy_columns(flat, width, columns, *part, found)

        self._over(some, n_rows, n_rows * len(columns))
        return as_protocol(found, len(chosen), n_clusters)

    def table_change(
        self,
        offsets: Offsets,
        old: Table,
        new: Table,
        pairs: Sequence[tuple[int, int]],
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Bound by how much scores differ between two tables, and how large they are.

        Parameters
        ----------
        old, new : ndarray of shape (S, R, K), (S, R', K)
        pairs : sequence of (q, q')
            Restarts to compare, A of them.

        Returns
        -------
        change, level : ndarray of shape (A, K)
            Sum over partitions of the largest abs(new - old), and of the largest entry
            of both.
        """
        n_partitions, n_clusters = len(offsets) - 1, new.shape[2]
        clusters = np.arange(n_clusters)
        (before, was), (after, now) = padded_rows(old), padded_rows(new)
        columns = [
            np.concatenate([clusters * table.shape[1] + q for q in restarts])
            for table, restarts in zip(
                (old, new), zip(*pairs, strict=True), strict=True
            )
        ]
        change = np.zeros((n_partitions, len(columns[0])))
        level = np.zeros_like(change)

        def some(part: tuple[int, int]) -> None:
            numba_tables.compare_tables(
                before, was, after, now, *columns, offsets, *part, change, level
            )

        self._over(some, n_partitions, int(offsets[-1]) * len(columns[0]))
        shape = (len(pairs), n_clusters)
        return change.sum(axis=0).reshape(shape), level.sum(axis=0).reshape(shape)

    def unsettled(
        self,
        assignment: Assignment,
        gap: npt.NDArray[np.float32],
        limit: npt.NDArray[np.float64],
        row_limit: npt.NDArray[np.float64],
        row_weight: npt.NDArray[np.float32] | None,
    ) -> npt.NDArray[np.int64]:
        """Return the objects whose gap is not above the limit of their cluster.

        Other gaps shrink by the limit. Weighted ``row_limit`` is added to ``limit``.
        """
        weight = _NO_ROW if row_weight is None else row_weight
        objects = np.empty(len(gap), dtype=np.int64)
        found = numba_tables.find_unsettled(
            assignment, gap, limit, row_limit, weight, objects
        )
        return objects[:found]

    def groups(self, codes: Codes, most: int) -> Groups | None:
        """Put objects with equal labels together; None if over ``most`` rows differ.

        Also None where the first objects promise no better, or if two rows could not be
        told apart by their 64 bits, so that it never costs much and is always exact.
        """
        n_partitions, n_samples = codes.shape
        lines, stride = code_lines(codes)
        place = np.empty(n_samples, dtype=np.int32)
        first = np.empty(most, dtype=np.int64)
        keys = np.empty(most, dtype=np.uint64)
        slots = np.full(1 << (2 * most).bit_length(), -1, dtype=np.int32)
        found = numba_groups.number_rows(
            lines, stride, n_partitions, most, place, first, keys, slots
        )
        if found < 0:
            return None
        first = first[:found].copy()
        distinct = np.ascontiguousarray(codes[:, first])
        equal: list[bool] = []

        def some(part: tuple[int, int]) -> None:
            equal.append(numba_groups.same_rows(lines, stride, place, distinct, *part))

        self._over(some, n_partitions, codes.size)
        if not all(equal):
            return None
        times = np.bincount(place, minlength=found).astype(np.int32)
        return Groups(distinct, place, first, times)

    def recount_groups(
        self,
        groups: Groups,
        offsets: Offsets,
        before: Assignment,
        after: Assignment,
        counts: Counts,
    ) -> npt.NDArray[np.int64]:
        """As ``recount`` for rows (R, G); return how many objects moved, (R,)."""
        before = np.ascontiguousarray(before)
        return self._step(groups.codes, offsets, before, after, counts, groups.times)

    def spread(
        self,
        groups: Groups,
        found: Assignment,
        restarts: npt.NDArray[np.int64],
        assignment: Assignment,
    ) -> None:
        """Give every object the cluster of its row: ``found`` (A, G) to (R, n)."""

        def some(part: tuple[int, int]) -> None:
            numba_groups.spread_rows(found, restarts, groups.place, *part, assignment)

        self._over(some, len(groups.place), len(groups.place) * len(found))
