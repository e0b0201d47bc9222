"""The CUDA backend: the primitives of the seam as launches of our own kernels."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.cupy.assign import assign_rows
from gpu_consensus.backends.cupy.counts import count_rows, weigh_rows
from gpu_consensus.backends.cupy.launch_plan import MOST_GRID_Y
from gpu_consensus.backends.cupy.launcher import Launcher, type_name
from gpu_consensus.backends.cupy.pairs import count_pairs
from gpu_consensus.backends.cupy.source import (
    code_kernel,
)
from gpu_consensus.backends.cupy.streamed_codes import (
    LARGE,
    StreamedCodes,
    aligned,
    upload,
    upload_codes,
)
from gpu_consensus.backends.cupy.table import make_tables, what_table_needs
from gpu_consensus.backends.device_errors import cuda_errors
from gpu_consensus.backends.device_memory import (
    DeviceMemoryWarning,
    for_fewer,
    in_parts,
    room_for,
    what_helps,
)
from gpu_consensus.backends.numpy import smallest_unsigned
from gpu_consensus.backends.profiling import stage
from gpu_consensus.backends.protocol import (
    Assigned,
    Assignment,
    Codes,
    Counts,
    Offsets,
    PairCounts,
    Table,
)
from gpu_consensus.backends.recipe import TableRecipe, lp_norms
from gpu_consensus.backends.segments import LabelSums, label_sums
from gpu_consensus.util.arrays import on_device, size_text
from gpu_consensus.util.warn import warn

_FEWER = "set memory_limit lower, so that fewer objects are worked on at a time"


class CupyBackend:
    """All primitives of :class:`gpu_consensus.backends.protocol.Backend` in CUDA.

    Results are those of the numpy backend, bit for bit, where the Protocol says so.

    Parameters
    ----------
    gpu : Launcher, optional
        What launches the kernels.
    """

    name = "cupy"

    def __init__(self, gpu: Launcher | None = None) -> None:
        self._gpu = Launcher() if gpu is None else gpu
        self.xp: Any = self._gpu.xp

    def to_device(self, array: Any) -> Any:
        """See the Protocol."""
        with room_for(f"an array of {size_text(array.nbytes)}", what_helps()):
            if on_device(array) or array.nbytes < LARGE:
                return self.xp.asarray(array)
            return upload(self.xp, array)

    def to_host(self, *arrays: Any) -> Any:
        """See the Protocol; errors of all earlier work are raised here.

        Several are packed on the device, so that the host waits once.
        """
        if len(arrays) == 1:
            with cuda_errors():
                return self.xp.asnumpy(arrays[0])
        ends = np.cumsum([0 if array is None else int(array.size) for array in arrays])
        places = [slice(*pair) for pair in pairwise([0, *ends.tolist()])]
        try:
            with cuda_errors():
                packed = self.xp.empty(int(ends[-1]), np.int64)
        except MemoryError:  # one after the other needs no memory, and is slower
            return tuple(None if x is None else self.to_host(x) for x in arrays)
        for array, place in zip(arrays, places, strict=True):
            if array is not None:
                packed[place] = array.reshape(-1).view(np.int64)
        there = self.to_host(packed)
        return tuple(
            None if x is None else there[place].view(x.dtype).reshape(x.shape)
            for x, place in zip(arrays, places, strict=True)
        )

    def resident(self, codes: Codes, reserve: int = 0) -> Any:
        """See the Protocol: on the device if they fit, else streamed."""
        if on_device(codes):
            array: Any = codes  # typed Any: in NumPy's type a device is only a name
            there = array.device.id
            if there != self._gpu.device.id:
                raise ValueError(
                    f"the codes are on CUDA device {there} but the current device is "
                    f"{self._gpu.device.id}; call this inside 'with cupy.cuda.Device("
                    f"{there})'."
                )
            return codes
        free = self._gpu.free_memory()
        if codes.nbytes <= min(0.6 * free, free - reserve):
            try:
                with cuda_errors(), stage("upload"):
                    return upload_codes(self.xp, codes)
            except MemoryError:
                warn(
                    f"the device has no memory left for {size_text(codes.nbytes)} of "
                    "codes; going on with a range of objects at a time.",
                    DeviceMemoryWarning,
                )
        return StreamedCodes(self.xp, codes)

    def blocks(
        self, resident: Any, n_restarts: int, memory_limit: int | None
    ) -> Iterator[tuple[slice, Codes]]:
        """See the Protocol; what the caller computes for a range must fit too."""
        free, scratch = self._gpu.free_memory(), 32 * n_restarts
        limit = free // 4 if memory_limit is None else memory_limit
        if isinstance(resident, StreamedCodes):
            buffers = 2 * len(resident.host) * resident.host.itemsize
            yield from resident.blocks(max(1, limit // (scratch + buffers)), scratch)
            return

        def reserve(n_rows: int) -> None:
            self.xp.empty(n_rows * scratch, np.uint8)  # CuPy keeps it for the caller

        n_samples = resident.shape[1]
        step = max(1, min(limit // scratch, n_samples))
        _, step = for_fewer(self.xp, reserve, step)
        step = step if step == n_samples else aligned(step)
        for begin in range(0, n_samples, step):
            rows = slice(begin, min(begin + step, n_samples))
            yield rows, resident[:, rows]

    def table(
        self,
        recipe: TableRecipe,
        counts: Counts,
        absent: Counts | None = None,
        on_host: Counts | None = None,
    ) -> tuple[Table, Table | None]:
        """See the Protocol."""
        self._gpu.check(None, counts=counts, absent=absent)
        with stage("table"):
            norm = None
            if recipe.power:
                norms = lp_norms(
                    recipe, self.to_host(counts) if on_host is None else on_host
                )
                with room_for(*what_table_needs(counts.shape)):
                    norm = self.xp.asarray(norms)
            return make_tables(self._gpu, recipe, counts, absent, norm)

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
        self._gpu.check(
            codes, before=before, after=after, out=out, weight=weight, absent=absent
        )
        with stage("count"):
            count_rows(self._gpu, codes, offsets, before, after, out)
        if weight is not None:
            assert absent is not None
            with stage("weigh"):
                weigh_rows(self._gpu, codes, offsets, before, after, weight, absent)

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
        """See the Protocol; without a row table where ``own`` is given."""
        assert own is None or row_table is None
        self._gpu.check(
            codes,
            table=table,
            row_weight=row_weight,
            row_table=row_table,
            own=own,
            stay=stay,
        )
        _, n_restarts, n_clusters = table.shape
        shape, xp = (n_restarts, codes.shape[1]), self.xp
        with room_for(f"the clusters of {shape[1]} objects", _FEWER):
            assigned = Assigned(
                xp.empty(shape, smallest_unsigned(n_clusters)),
                xp.empty(shape, np.float32) if best else None,
                xp.empty(shape, np.float32) if gap else None,
                None if own is None else xp.empty(shape, np.float32),
            )

        def one_part(rows: slice) -> None:
            assign_rows(
                self._gpu,
                rows,
                codes,
                offsets,
                table,
                row_weight,
                row_table,
                own,
                stay,
                assigned,
            )

        with stage("assign"):
            in_parts(xp, one_part, shape[1])
        return assigned

    def scores(
        self, codes: Codes, offsets: Offsets, table: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        """See the Protocol."""
        self._gpu.check(codes, table=table)
        n_rows, n_columns = codes.shape[1], int(np.prod(table.shape[1:]))
        with stage("scores"), room_for(f"all scores of {n_rows} objects", _FEWER):
            score: npt.NDArray[np.float64] = self.xp.empty(
                (n_rows, *table.shape[1:]), np.float64
            )
            self._gpu.launch(
                code_kernel("scores", type_name(codes)),
                self._gpu.grid(n_rows, 8),
                (32, 8),
                (
                    *self._gpu.rows(codes, offsets),
                    np.int32(len(codes)),
                    self.xp.ascontiguousarray(table),
                    np.int32(n_columns),
                    score,
                ),
            )
        return score

    def soft_count(
        self,
        codes: Codes,
        offsets: Offsets,
        responsibilities: npt.NDArray[np.float64],
    ) -> Counts:
        """See the Protocol."""
        self._gpu.check(codes, responsibilities=responsibilities)
        n_samples, n_restarts, n_clusters = responsibilities.shape
        n_columns = n_restarts * n_clusters
        shape = (int(offsets[-1]), n_restarts, n_clusters)
        with room_for(*what_table_needs(shape)):
            counts: Counts = self.xp.zeros(shape, dtype=np.int64)
        lines = min(int(np.diff(offsets).max()), self._gpu.shared_free // 256)
        work = len(codes) * -(-n_columns // 32)

        def one_part(rows: slice) -> None:
            n_rows = rows.stop - rows.start
            self._gpu.launch(
                code_kernel("soft_count", type_name(codes)),
                (*self._gpu.grid(n_rows, 256), min(work, MOST_GRID_Y)),
                (32, 8),
                (
                    *self._gpu.rows(codes[:, rows], offsets),
                    np.int32(len(codes)),
                    np.int32(lines),
                    self.xp.ascontiguousarray(responsibilities[rows]),
                    np.int32(n_columns),
                    counts,
                ),
                shared=256 * lines,
            )

        with stage("soft_count"):
            in_parts(self.xp, one_part, n_samples)
        return counts

    def pairs(
        self, resident: Any, n_labels: npt.NDArray[np.int64], rows: Any, columns: Any
    ) -> PairCounts:
        """See the Protocol."""
        return count_pairs(self._gpu, resident, n_labels, rows, columns)
