"""The primitives of the seam on the CPU: compiled kernels, threads of our own."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends import numba_assign, numba_counts, numba_tables
from gpu_consensus.backends.numba_jit import for_each
from gpu_consensus.backends.numba_layout import (
    as_protocol,
    blank_table,
    code_lines,
    padded_rows,
)
from gpu_consensus.backends.numpy import NumpyBackend, smallest_unsigned
from gpu_consensus.backends.protocol import (
    Assigned,
    Assignment,
    Codes,
    Counts,
    Offsets,
    PairCounts,
    Table,
)
from gpu_consensus.backends.recipe import (
    UTILITIES,
    TableRecipe,
    lp_norms,
    sec_row_sums,
    sec_weights,
)
from gpu_consensus.backends.segments import LabelSums

_WORTH_A_THREAD = 1 << 18  # operations; to wake a thread takes some microseconds
_PARTS = 4  # per thread, so that one that is held up delays nobody
_NO_ROW = np.empty(0, dtype=np.float32)
_NO_OUTPUT = np.empty((0, 0), dtype=np.float32)


class NumbaBackend(NumpyBackend):
    """The primitives of :class:`gpu_consensus.backends.protocol.Backend`, compiled.

    Results are those of the numpy backend, bit for bit.

    Parameters
    ----------
    n_jobs : int, optional
        Threads; all usable cores by default. They change no result.
    """

    name = "numba"

    def table(
        self,
        recipe: TableRecipe,
        counts: Counts,
        absent: Counts | None = None,
        on_host: Counts | None = None,
    ) -> tuple[Table, Table | None]:
        """See the Protocol."""
        if recipe.present_weight is None:
            norm = lp_norms(recipe, counts) if recipe.power else None
            return self._make_table(recipe, recipe.utility, counts, norm), None
        sums = self.label_sums(recipe.offsets, counts, recipe.marginals)
        weight = sec_weights(recipe, sums, absent)
        norm = np.maximum(weight, 1).astype(np.float64)
        table = self._make_table(recipe, "SEC", counts, norm)
        if recipe.row == "sum":
            return table, sec_row_sums(recipe, sums, weight)
        return table, self._make_table(recipe, "SEC_ROW", counts, norm)

    def _make_table(
        self,
        recipe: TableRecipe,
        utility: str,
        counts: Counts,
        norm: npt.NDArray[np.float64] | None,
    ) -> Table:
        n_rows, n_restarts, n_clusters = counts.shape
        table = blank_table(n_rows, n_restarts * n_clusters, make=np.empty)
        flat = np.ascontiguousarray(counts).reshape(n_rows, -1)
        scale = np.empty((0, 0)) if norm is None else norm.reshape(len(norm), -1)

        def some(part: tuple[int, int]) -> None:
            numba_tables.fill_table(
                UTILITIES.index(utility),
                flat,
                recipe.offsets,
                recipe.marginals,
                recipe.weights,
                scale,
                recipe.power,
                n_restarts,
                *part,
                table,
            )

        self._over(some, len(recipe.offsets) - 1, flat.size)
        return as_protocol(table, n_restarts, n_clusters)

    def label_sums(
        self,
        offsets: Offsets,
        counts: Counts,
        marginals: npt.NDArray[np.int64],
        entropy: bool = False,
    ) -> LabelSums:
        """See the Protocol."""
        flat = np.ascontiguousarray(counts).reshape(len(counts), -1)
        n_partitions = len(offsets) - 1
        shape = (n_partitions, flat.shape[1])
        integers = np.zeros((4, *shape), dtype=np.int64)
        bits = np.zeros(shape if entropy else (0, 0))

        def some(part: tuple[int, int]) -> None:
            numba_tables.sum_labels(flat, offsets, marginals, *part, *integers, bits)

        self._over(some, n_partitions, flat.size)
        shape = (n_partitions, *counts.shape[1:])
        size, square, heavy, most = integers.reshape(4, *shape)
        found = bits.reshape(shape) if entropy else None
        return LabelSums(size, square, heavy, most, found)

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
        after = np.ascontiguousarray(after)
        nowhere = np.empty((0, 0), dtype=after.dtype)
        before = nowhere if before is None else np.ascontiguousarray(before)
        self._count(codes, offsets, before, after, out)
        if weight is not None:
            assert absent is not None
            lines, stride = code_lines(codes)
            weight = np.ascontiguousarray(weight)

            def some(part: tuple[int, int]) -> None:
                numba_counts.weigh_rows(
                    lines, stride, offsets, *part, before, after, weight, absent
                )

            self._over(some, len(codes), codes.size, parts=1)

    def _count(
        self,
        codes: Codes,
        offsets: Offsets,
        before: Assignment,
        after: Assignment,
        counts: Counts,
    ) -> None:
        """Go from one assignment to another, whichever way is quicker."""
        n_rows, _, n_clusters = counts.shape
        flat = counts.reshape(n_rows, -1)
        additions, objects = numba_counts.count_moves(before, after, n_clusters)
        n_partitions, n_samples = codes.shape
        lines, stride = code_lines(codes)
        vectors = -(-2 * flat.shape[1] // numba_counts.VECTOR)
        by_rows = objects * n_partitions * vectors + flat.size // 2
        one_by_one = additions * n_partitions
        step = numba_counts.step_each
        if by_rows < one_by_one:
            step = numba_counts.step_rows

        def some(part: tuple[int, int]) -> None:
            step(
                lines,
                stride,
                offsets,
                *part,
                before,
                after,
                0,
                n_samples,
                n_clusters,
                flat,
            )

        if additions:
            self._over(some, n_partitions, min(by_rows, one_by_one), parts=1)

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
        n_partitions, n_samples = codes.shape
        shape = (table.shape[1], n_samples)
        assignment = np.empty(shape, dtype=smallest_unsigned(table.shape[2]))
        lowest = np.empty(shape, dtype=np.float32) if best else _NO_OUTPUT
        gaps = np.empty(shape, dtype=np.float32) if gap else _NO_OUTPUT
        lines, stride = code_lines(codes)
        flat, width = padded_rows(table)
        full, row_sum, weight = _NO_ROW, _NO_ROW, _NO_ROW
        if row_table is not None and row_weight is not None:
            weight = np.ascontiguousarray(row_weight)
            if row_table.ndim == 3:
                full, _ = padded_rows(row_table)
            else:
                row_sum, _ = padded_rows(row_table[None])

        def some(part: tuple[int, int]) -> None:
            numba_assign.assign_rows(
                flat,
                width,
                full,
                row_sum,
                weight,
                lines,
                stride,
                offsets,
                *part,
                table.shape[2],
                assignment,
                lowest,
                gaps,
            )

        self._over(some, n_samples, n_samples * n_partitions * width // 16)
        return Assigned(assignment, lowest if best else None, gaps if gap else None)

    def scores(
        self, codes: Codes, offsets: Offsets, table: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        """See the Protocol."""
        n_partitions, n_samples = codes.shape
        n_rows, n_restarts, n_clusters = table.shape
        n_columns = n_restarts * n_clusters
        score = np.empty((n_samples, n_columns), dtype=np.float64)
        lines, stride = code_lines(codes)
        padded = blank_table(n_rows, n_columns, np.float64)
        padded[:, :n_columns] = table.reshape(n_rows, -1)

        def some(part: tuple[int, int]) -> None:
            numba_assign.score_rows(
                padded.reshape(-1),
                padded.shape[1],
                lines,
                stride,
                offsets,
                *part,
                score,
            )

        self._over(some, n_samples, n_samples * n_partitions * n_columns // 8)
        return score.reshape(n_samples, n_restarts, n_clusters)

    def soft_count(
        self,
        codes: Codes,
        offsets: Offsets,
        responsibilities: npt.NDArray[np.float64],
    ) -> Counts:
        """See the Protocol."""
        n_samples, n_restarts, n_clusters = responsibilities.shape
        n_columns, lanes = n_restarts * n_clusters, numba_counts.VECTOR // 8
        shape = (int(offsets[-1]), -(-n_columns // lanes) * lanes)
        counts = np.zeros(shape, dtype=np.int64)
        flat = np.ascontiguousarray(responsibilities).reshape(n_samples, -1)
        lines, stride = code_lines(codes)

        def some(part: tuple[int, int]) -> None:
            numba_counts.soft_count_rows(lines, stride, offsets, *part, flat, counts)

        work = codes.size * shape[1] // lanes
        self._over(some, len(codes), work, parts=1)
        found = np.ascontiguousarray(counts[:, :n_columns])
        return found.reshape(-1, n_restarts, n_clusters)

    def pairs(
        self, resident: Any, n_labels: npt.NDArray[np.int64], rows: Any, columns: Any
    ) -> PairCounts:
        """See the Protocol."""
        left = np.ascontiguousarray(resident[:, rows])
        right = np.ascontiguousarray(resident[:, columns])
        shape = (left.shape[1], right.shape[1])
        same = np.zeros(shape, dtype=np.int32)
        both = np.zeros(shape, dtype=np.int32)
        missing = np.asarray(n_labels, dtype=np.int64)
        complete = not (right == missing[:, None].astype(right.dtype)).any()

        def some(part: tuple[int, int]) -> None:
            numba_counts.pair_rows(left, right, missing, complete, *part, same, both)

        self._over(some, shape[0], same.size * len(left) // 16)
        if complete:
            both += (left != missing[:, None]).sum(axis=0, dtype=np.int32)[:, None]
        return PairCounts(same, both)

    def _over(self, work: Any, size: int, operations: int, parts: int = _PARTS) -> None:
        """Cut ``size`` things into ranges and work on them on all threads."""
        threads = min(self._n_threads, max(1, operations // _WORTH_A_THREAD))
        if threads == 1:
            if size:
                work((0, size))
            return
        number = min(size, threads * parts)
        ends = [size * part // number for part in range(number + 1)]
        for_each(work, pairwise(ends), threads)
