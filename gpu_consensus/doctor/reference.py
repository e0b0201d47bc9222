"""What every backend is compared with: NumPy, also where NumPy needs no such thing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.numpy_backend import NumpyBackend
from gpu_consensus.backends.protocol import (
    Assignment,
    Codes,
    Counts,
    Groups,
    Offsets,
    Table,
)
from gpu_consensus.checks import FloatArray, IntArray


class Reference(NumpyBackend):
    """The numpy backend, and in plain NumPy what only the numba backend has."""

    def pick(self, table: Table, restarts: Sequence[int]) -> Table:
        """Return the table of some restarts."""
        return table[:, list(restarts)]

    def reassign(
        self,
        codes: Codes,
        offsets: Offsets,
        table: Table,
        objects: IntArray,
        assignment: Assignment,
        gap: npt.NDArray[np.float32],
        *,
        row_weight: npt.NDArray[np.float32],
        row_table: Table,
    ) -> None:
        """Assign some objects, in place."""
        found = self.assign(
            codes[:, objects],
            offsets,
            table,
            row_weight=row_weight[objects],
            row_table=row_table,
            gap=True,
        )
        assignment[:, objects] = found.assignment
        gap[:, objects] = found.gap

    def table_change(
        self, offsets: Offsets, old: Table, new: Table, pairs: Any
    ) -> list[FloatArray]:
        """Return the sums over partitions of the largest change and the largest entry.

        Each of shape (pairs, K).
        """
        was, now = (
            table[:, list(restarts)].astype(np.float64)
            for table, restarts in zip(
                (old, new), zip(*pairs, strict=True), strict=True
            )
        )
        largest = np.maximum(np.abs(was), np.abs(now))
        return [
            np.maximum.reduceat(entries, offsets[:-1], axis=0).sum(axis=0)
            for entries in (np.abs(now - was), largest)
        ]

    def unsettled(
        self,
        assignment: Assignment,
        gap: npt.NDArray[np.float32],
        limit: FloatArray,
        row_limit: FloatArray,
        row_weight: npt.NDArray[np.float32],
    ) -> npt.NDArray[np.intp]:
        """Return the objects whose gap is not above the limit; shrink other gaps."""
        most = limit[assignment] + row_weight * row_limit[assignment]
        settled = gap > most
        gap[settled] = (gap - most)[settled]
        return np.flatnonzero(~settled)

    def groups(self, codes: Codes, most: int) -> Groups | None:
        """Put objects with equal labels together, in the order in which they come."""
        found: dict[bytes, int] = {}
        place = [found.setdefault(row.tobytes(), len(found)) for row in codes.T]
        if len(found) > most:
            return None
        _, first, times = np.unique(place, return_index=True, return_counts=True)
        return Groups(
            codes[:, first],
            np.array(place, dtype=np.int32),
            first.astype(np.int64),
            times.astype(np.int32),
        )

    def recount_groups(
        self,
        groups: Groups,
        offsets: Offsets,
        before: Assignment,
        after: Assignment,
        counts: Counts,
    ) -> IntArray:
        """Recount all objects of the rows; return how many moved."""
        was, now = before[:, groups.place], after[:, groups.place]
        self.recount(groups.codes[:, groups.place], offsets, was, now, counts)
        return np.asarray((was != now).sum(axis=1))

    def spread(
        self,
        groups: Groups,
        found: Assignment,
        restarts: IntArray,
        assignment: Assignment,
    ) -> None:
        """Give every object the cluster of its row."""
        assignment[restarts] = found[:, groups.place]
