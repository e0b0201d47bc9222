"""The CPU backend in C: the primitives of the seam, bit for bit those of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.host_arrays import HostArrays
from gpu_consensus.backends.native import assign as assign_module
from gpu_consensus.backends.native import counts as counts_module
from gpu_consensus.backends.native import pairs as pairs_module
from gpu_consensus.backends.native import table as table_module
from gpu_consensus.backends.native.library import load
from gpu_consensus.backends.native.screened import Screening
from gpu_consensus.backends.numpy import n_threads
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
    TableRecipe,
)
from gpu_consensus.backends.segments import LabelSums


class NativeBackend(HostArrays):
    """All primitives of the seam in C.

    Parameters
    ----------
    n_jobs : int, optional
        Threads; all usable cores by default. They change no result.
    level : str, optional
        A lower level of the library than the best one, for tests.

    Raises
    ------
    NativeUnavailable
        If the package was installed without its compiled code, or it is turned off.
    """

    name = "native"

    def __init__(self, n_jobs: int | None = None, level: str | None = None) -> None:
        self._n_threads = n_threads(n_jobs)
        self._library = load(level)
        self._call = self._library.call
        self._screening = Screening()

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
        counts_module.count(
            self._call,
            self._n_threads,
            codes,
            offsets,
            before,
            after,
            out,
            weight,
            absent,
        )

    def table(
        self,
        recipe: TableRecipe,
        counts: Counts,
        absent: Counts | None = None,
        on_host: Counts | None = None,
    ) -> tuple[Table, Table | None]:
        """See the Protocol."""
        return table_module.table(
            self._call, self._n_threads, recipe, counts, absent, on_host
        )

    def label_sums(
        self,
        offsets: Offsets,
        counts: Counts,
        marginals: npt.NDArray[np.int64],
        entropy: bool = False,
    ) -> LabelSums:
        """See the Protocol; counts are (S, ...)."""
        return table_module.label_sums(
            self._call, self._n_threads, offsets, counts, marginals, entropy
        )

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
        return assign_module.assign(
            self._call,
            self._n_threads,
            self._screening,
            codes,
            offsets,
            table,
            row_weight=row_weight,
            row_table=row_table,
            best=best,
            gap=gap,
            own=own,
            stay=stay,
        )

    def scores(
        self, codes: Codes, offsets: Offsets, table: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        """See the Protocol."""
        return assign_module.scores(self._call, self._n_threads, codes, offsets, table)

    def soft_count(
        self,
        codes: Codes,
        offsets: Offsets,
        responsibilities: npt.NDArray[np.float64],
    ) -> Counts:
        """See the Protocol."""
        return counts_module.soft_count(
            self._call, self._n_threads, codes, offsets, responsibilities
        )

    def pairs(
        self, resident: Any, n_labels: npt.NDArray[np.int64], rows: Any, columns: Any
    ) -> PairCounts:
        """See the Protocol."""
        return pairs_module.pairs(
            self._call, self._n_threads, resident, n_labels, rows, columns
        )
