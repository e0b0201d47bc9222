"""The CUDA backend: the primitives of the seam as launches of our own kernels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.arrays import on_device, size_text
from gpu_consensus.backends.cuda_compile import stage
from gpu_consensus.backends.cuda_launcher import (
    MOST_GRID_Y,
    Launcher,
    type_name,
)
from gpu_consensus.backends.cuda_source import (
    code_kernel,
)
from gpu_consensus.backends.device_assign import assign_rows
from gpu_consensus.backends.device_counts import count_rows, weigh_rows
from gpu_consensus.backends.device_errors import cuda_errors
from gpu_consensus.backends.device_memory import (
    DeviceMemoryWarning,
    cured_by,
    for_fewer,
    in_parts,
    room_for,
    what_helps,
)
from gpu_consensus.backends.device_pairs import count_pairs
from gpu_consensus.backends.device_table import make_tables, what_table_needs
from gpu_consensus.backends.numpy_backend import smallest_unsigned
from gpu_consensus.backends.protocol import (
    Assigned,
    Assignment,
    Coassociation,
    Codes,
    Counts,
    Offsets,
    Table,
)
from gpu_consensus.backends.streamed_codes import LARGE, StreamedCodes, upload
from gpu_consensus.loop.segments import LabelSums, label_sums
from gpu_consensus.warn import warn

if TYPE_CHECKING:
    from gpu_consensus.loop.problem import Rule


_FEWER = "set memory_limit lower, so that fewer objects are worked on at a time"


class CupyBackend:
    """All primitives of :class:`gpu_consensus.backends.protocol.Backend` in CUDA.

    Results are those of the numpy backend, bit for bit, where the Protocol says so.
    """

    name = "cupy"

    def __init__(self) -> None:
        self.gpu = Launcher()
        self.xp: Any = self.gpu.xp

    def to_device(self, array: Any) -> Any:
        """See the Protocol."""
        with room_for(f"an array of {size_text(array.nbytes)}", what_helps()):
            if on_device(array) or array.nbytes < LARGE:
                return self.xp.asarray(array)
            return upload(self.xp, array)

    def to_host(self, array: Any) -> Any:
        """See the Protocol: where errors of all work before show."""
        with cuda_errors():
            return self.xp.asnumpy(array)

    def bring(self, *arrays: Any) -> tuple[Any, ...]:
        """See the Protocol: packed on the device, so that the host waits once."""
        ends = np.cumsum([0 if array is None else int(array.size) for array in arrays])
        places = [slice(*pair) for pair in pairwise([0, *ends.tolist()])]
        try:
            with cuda_errors():
                packed = self.xp.empty(int(ends[-1]), np.int64)
        except MemoryError:  # one after the other needs none, and is only slower
            return tuple(None if x is None else self.to_host(x) for x in arrays)
        for array, place in zip(arrays, places, strict=True):
            if array is not None:
                packed[place] = array.reshape(-1).view(np.int64)
        there = self.to_host(packed)
        return tuple(
            None if x is None else there[place].view(x.dtype).reshape(x.shape)
            for x, place in zip(arrays, places, strict=True)
        )

    def stage(self, name: str) -> AbstractContextManager[Any]:
        """See the Protocol."""
        return stage(name)

    def memory_for(self, what: str, cure: str) -> AbstractContextManager[None]:
        """See the Protocol."""
        return cured_by(what, cure)

    def hold(self, codes: Codes, beside: int = 0) -> Any:
        """See the Protocol: on the device if they fit, else streamed."""
        if on_device(codes):
            held: Any = codes  # NumPy's type has a device that is only a name
            there = held.device.id
            if there != self.gpu.device.id:
                raise ValueError(
                    f"the codes are on CUDA device {there} but the current device is "
                    f"{self.gpu.device.id}; call this inside 'with cupy.cuda.Device("
                    f"{there})'."
                )
            return codes
        free = self.gpu.free_memory()
        if codes.nbytes <= min(0.6 * free, free - beside):
            try:
                with cuda_errors(), stage("upload"):
                    return upload(self.xp, codes)
            except MemoryError:
                warn(
                    f"the device has no memory left for {size_text(codes.nbytes)} of "
                    "codes; going on with a range of objects at a time.",
                    DeviceMemoryWarning,
                )
        return StreamedCodes(self.xp, codes)

    def blocks(
        self, codes: Any, n_restarts: int, memory_limit: int | None
    ) -> Iterator[tuple[slice, Codes]]:
        """See the Protocol; also what the caller computes with a range must fit."""
        free, scratch = self.gpu.free_memory(), 32 * n_restarts
        limit = free // 4 if memory_limit is None else memory_limit
        if isinstance(codes, StreamedCodes):
            buffers = 2 * len(codes.host) * codes.host.itemsize
            yield from codes.blocks(max(1, limit // (scratch + buffers)), scratch)
            return

        def reserve(n_rows: int) -> None:
            self.xp.empty(n_rows * scratch, np.uint8)  # CuPy keeps it for the caller

        n_samples = codes.shape[1]
        step = max(1, min(limit // scratch, n_samples))
        _, step = for_fewer(self.xp, reserve, step)
        for begin in range(0, n_samples, step):
            rows = slice(begin, min(begin + step, n_samples))
            yield rows, codes[:, rows]

    def table(
        self,
        rule: Rule,
        counts: Counts,
        absent: Counts | None,
        on_host: Counts | None = None,
    ) -> tuple[Table, Table | None]:
        """See the Protocol; rules without a kernel make their table on the host."""
        self.gpu.check(None, counts=counts, absent=absent)
        recipe = rule.recipe

        def moved(made: Any) -> Any:
            with room_for(*what_table_needs(counts.shape)):
                return self.xp.asarray(np.ascontiguousarray(made))

        with stage("table"):
            if recipe is not None and not recipe.wants_host:
                return make_tables(self.gpu, recipe, counts, absent)
            if on_host is None:
                on_host = self.to_host(counts)
            if recipe is not None and recipe.norm is not None:
                norm = moved(recipe.norm(on_host))
                return make_tables(self.gpu, recipe, counts, norm=norm)
            sums = None if absent is None else self.to_host(absent)
            table, row_table = rule.table(on_host, sums)
            return moved(table), None if row_table is None else moved(row_table)

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
        self.gpu.check(codes, assignment=assignment)
        counts = self._zeros(int(offsets[-1]), len(assignment), n_clusters)
        with stage("count"):
            count_rows(self.gpu, codes, offsets, None, assignment, counts)
        return counts

    def _zeros(self, n_rows: int, n_restarts: int, n_clusters: int) -> Counts:
        shape = (n_rows, n_restarts, n_clusters)
        with room_for(*what_table_needs(shape)):
            counts: Counts = self.xp.zeros(shape, dtype=np.int64)
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
        self.gpu.check(codes, before=before, after=after, counts=counts)
        with stage("recount"):
            count_rows(self.gpu, codes, offsets, before, after, counts)

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
        self.gpu.check(codes, table=table, row_weight=row_weight, row_table=row_table)
        _, n_restarts, n_clusters = table.shape
        shape, xp = (n_restarts, codes.shape[1]), self.xp
        with room_for(f"the clusters of {shape[1]} objects", _FEWER):
            found = Assigned(
                xp.empty(shape, smallest_unsigned(n_clusters)),
                xp.empty(shape, np.float32) if best else None,
                xp.empty(shape, np.float32) if gap else None,
            )

        def one_part(rows: slice) -> None:
            assign_rows(
                self.gpu, rows, codes, offsets, table, row_weight, row_table, found
            )

        with stage("assign"):
            in_parts(xp, one_part, shape[1])
        return found

    def scores(
        self, codes: Codes, offsets: Offsets, table: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        """See the Protocol."""
        self.gpu.check(codes, table=table)
        n_rows, n_columns = codes.shape[1], int(np.prod(table.shape[1:]))
        with stage("scores"), room_for(f"all scores of {n_rows} objects", _FEWER):
            score: npt.NDArray[np.float64] = self.xp.empty(
                (n_rows, *table.shape[1:]), np.float64
            )
            self.gpu.launch(
                code_kernel("scores", type_name(codes)),
                self.gpu.grid(n_rows, 8),
                (32, 8),
                (
                    *self.gpu.rows(codes, offsets),
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
        self.gpu.check(codes, responsibilities=responsibilities)
        n_samples, n_restarts, n_clusters = responsibilities.shape
        n_columns = n_restarts * n_clusters
        counts = self._zeros(int(offsets[-1]), n_restarts, n_clusters)
        lines = min(int(np.diff(offsets).max()), self.gpu.shared_free // 256)
        work = len(codes) * -(-n_columns // 32)

        def one_part(rows: slice) -> None:
            n_rows = rows.stop - rows.start
            self.gpu.launch(
                code_kernel("soft_count", type_name(codes)),
                (*self.gpu.grid(n_rows, 256), min(work, MOST_GRID_Y)),
                (32, 8),
                (
                    *self.gpu.rows(codes[:, rows], offsets),
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

    def weigh(
        self,
        codes: Codes,
        offsets: Offsets,
        assignment: Assignment,
        row_weight: npt.NDArray[np.int64],
        n_clusters: int,
    ) -> Counts:
        """See the Protocol."""
        self.gpu.check(codes, assignment=assignment, row_weight=row_weight)
        total = self._zeros(len(codes), len(assignment), n_clusters)
        with stage("weigh"):
            weigh_rows(self.gpu, codes, offsets, None, assignment, row_weight, total)
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
        self.gpu.check(
            codes, before=before, after=after, row_weight=row_weight, total=total
        )
        with stage("reweigh"):
            weigh_rows(self.gpu, codes, offsets, before, after, row_weight, total)

    def coassociation(
        self, codes: Codes, n_labels: npt.NDArray[np.int64], rows: Any, columns: Any
    ) -> Coassociation:
        """See the Protocol."""
        xp, shape = self.xp, (len(rows), len(columns))
        tiles = -(-shape[0] // 32) * -(-shape[1] // 32)
        what = f"a tile of {shape[0]} x {shape[1]} pairs"
        with stage("coassociation"), room_for(what, "ask for fewer pairs at a time"):
            codes, stride = self.gpu.strided(codes)
            same, both = xp.empty(shape, np.int32), xp.empty(shape, np.int32)
            self.gpu.launch(
                code_kernel("coassociation", type_name(codes)),
                (tiles,),
                (32, 32),
                (
                    codes,
                    np.int64(stride),
                    self.gpu.constant(np.asarray(n_labels, dtype=np.int32)),
                    np.int32(len(codes)),
                    xp.asarray(rows, np.int64),
                    np.int32(shape[0]),
                    xp.asarray(columns, np.int64),
                    np.int32(shape[1]),
                    same,
                    both,
                ),
            )
        return Coassociation(same, both)

    def pairs(
        self, held: Any, n_labels: npt.NDArray[np.int64], rows: Any, columns: Any
    ) -> Coassociation:
        """See the Protocol."""
        return count_pairs(self, held, n_labels, rows, columns)
