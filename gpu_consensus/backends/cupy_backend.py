"""The CUDA backend: the primitives of the seam as launches of our own kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.arrays import on_device
from gpu_consensus.backends.cuda_add_rem_add import add_rem_add
from gpu_consensus.backends.cuda_compile import stage
from gpu_consensus.backends.cuda_launcher import (
    MOST_GRID_Y,
    NULL,
    Launcher,
    type_name,
)
from gpu_consensus.backends.cuda_source import (
    code_kernel,
    count_kernel,
    weigh_kernel,
)
from gpu_consensus.backends.device_table import make_table
from gpu_consensus.backends.launch_plan import count_groups, plan_assign
from gpu_consensus.backends.numpy_backend import smallest_unsigned
from gpu_consensus.backends.protocol import (
    Assigned,
    Assignment,
    Climbs,
    Coassociation,
    Codes,
    Counts,
    Offsets,
    Table,
    Threshold,
)
from gpu_consensus.backends.streamed_codes import StreamedCodes
from gpu_consensus.progress import Advance

if TYPE_CHECKING:
    from gpu_consensus.lloyd import Rule


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
        return self.xp.asarray(array)

    def to_host(self, array: Any) -> Any:
        """See the Protocol."""
        return self.xp.asnumpy(array)

    def hold(self, codes: Codes) -> Any:
        """See the Protocol: on the device if they fit, else streamed."""
        if on_device(codes):
            there = codes.device.id  # type: ignore[attr-defined]
            if there != self.gpu.device.id:
                raise ValueError(
                    f"the codes are on CUDA device {there} but the current device is "
                    f"{self.gpu.device.id}; call this inside 'with cupy.cuda.Device("
                    f"{there})'."
                )
            return codes
        free = self.gpu.free_memory()
        if codes.nbytes <= 0.6 * free:
            try:
                return self.xp.asarray(codes)
            except MemoryError:
                self.gpu.release()
        return StreamedCodes(self.xp, codes)

    def blocks(
        self, codes: Any, n_restarts: int, memory_limit: int | None
    ) -> Iterator[tuple[slice, Codes]]:
        """See the Protocol."""
        free = self.gpu.free_memory()
        limit = free // 4 if memory_limit is None else memory_limit
        per_object = 32 * n_restarts
        if isinstance(codes, StreamedCodes):
            per_object += 2 * len(codes.host) * codes.host.itemsize
        step = max(1, limit // per_object)
        if isinstance(codes, StreamedCodes):
            yield from codes.blocks(step)
            return
        for begin in range(0, codes.shape[1], step):
            rows = slice(begin, min(begin + step, codes.shape[1]))
            yield rows, codes[:, rows]

    def table(
        self, rule: Rule, counts: Counts, rows: Sequence[Assignment]
    ) -> tuple[Table, Table | None]:
        """See the Protocol; rules without a kernel make their table on the host."""
        recipe = getattr(rule, "recipe", None)
        if recipe is None:
            table, row_table = rule.table(self.to_host(counts), rows)
            moved = None if row_table is None else self.to_device(row_table)
            return self.to_device(table), moved
        with stage("table"):
            gpu, row_table, norm = self.gpu, None, None
            if recipe.norm is not None:
                norm = recipe.norm(self.to_host(counts), rows)
            table = make_table(gpu, recipe, recipe.utility, counts, norm)
            if recipe.row_utility is not None:
                row_table = make_table(gpu, recipe, recipe.row_utility, counts, norm)
            elif recipe.row_sum is not None:
                found = recipe.row_sum(self.to_host(counts), rows)
                row_table = self.to_device(found)
            return table, row_table

    def count(
        self, codes: Codes, offsets: Offsets, assignment: Assignment, n_clusters: int
    ) -> Counts:
        """See the Protocol."""
        shape = (int(offsets[-1]), len(assignment), n_clusters)
        counts: Counts = self.xp.zeros(shape, dtype=np.int64)
        with stage("count"):
            self._count(codes, offsets, None, assignment, counts)
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
        with stage("recount"):
            self._count(codes, offsets, before, after, counts)

    def _count(
        self,
        codes: Codes,
        offsets: Offsets,
        before: Assignment | None,
        after: Assignment,
        counts: Counts,
    ) -> None:
        rows_of_codes = self.gpu.rows(codes, offsets)
        after = self.xp.ascontiguousarray(after)
        if before is not None:
            before = self.xp.ascontiguousarray(before)
        n_restarts, n_rows = after.shape
        n_clusters = counts.shape[2]
        groups, bins = count_groups(offsets, n_clusters, self.gpu.shared_free // 4)
        work = (len(groups) - 1) * n_restarts
        grid = (self.gpu.grid(n_rows, 2048)[0], min(work, MOST_GRID_Y))
        self.gpu.launch(
            count_kernel(type_name(codes), type_name(after)),
            grid,
            (256,),
            (
                *rows_of_codes,
                self.xp.asarray(groups),
                np.int32(len(groups) - 1),
                np.int32(bins),
                NULL if before is None else before,
                after,
                np.int64(n_rows),
                np.int32(n_restarts),
                np.int32(n_clusters),
                counts,
            ),
            shared=4 * bins,
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
    ) -> Assigned:
        """See the Protocol."""

        def one_part(rows: slice) -> Assigned:
            weight = None if row_weight is None else row_weight[rows]
            return self._assign(
                codes[:, rows], offsets, table, weight, row_table, best, gap
            )

        with stage("assign"):
            parts = self.gpu.in_parts(one_part, codes.shape[1])
        if len(parts) == 1:
            return parts[0]
        join = self.xp.concatenate
        return Assigned(
            join([part.assignment for part in parts], axis=1),
            join([part.best for part in parts], axis=1) if best else None,
            join([part.gap for part in parts], axis=1) if gap else None,
        )

    def _assign(
        self,
        codes: Codes,
        offsets: Offsets,
        table: Table,
        row_weight: npt.NDArray[np.float32] | None,
        row_table: Table | None,
        best: bool,
        gap: bool,
    ) -> Assigned:
        xp = self.xp
        rows_of_codes = self.gpu.rows(codes, offsets)
        _, n_restarts, n_clusters = table.shape
        n_rows, n_columns = codes.shape[1], n_restarts * n_clusters
        plan = plan_assign(
            offsets,
            n_restarts,
            n_clusters,
            shared_limit=self.gpu.shared_limit,
            row_table=0 if row_table is None else row_table.ndim - 1,
            code=type_name(codes),
        )
        shape = (n_restarts, n_rows)
        winner = xp.empty(shape, np.int32)
        keep = best or gap or plan.continues
        lowest: Any = xp.empty(shape, np.float32) if keep else NULL
        second: Any = xp.empty(shape, np.float32) if keep else NULL
        together = max(1, self.gpu.shared_per_processor // (plan.shared + 1024))
        rows_per_block = plan.threads * plan.rows
        blocks = -(-n_rows // rows_per_block)
        grid = (min(blocks, self.gpu.n_processors * min(together, 4)),)
        pieces, table = xp.asarray(plan.pieces), xp.ascontiguousarray(table)
        for begin, end in plan.tiles:
            self.gpu.launch(
                plan.kernel,
                grid,
                (plan.threads,),
                (
                    *rows_of_codes,
                    pieces,
                    np.int32(len(plan.pieces)),
                    table,
                    NULL if row_table is None else xp.ascontiguousarray(row_table),
                    NULL if row_weight is None else row_weight,
                    np.int32(n_columns),
                    np.int32(begin),
                    np.int32(end),
                    np.int32(n_clusters),
                    winner,
                    lowest,
                    second,
                ),
                shared=plan.shared,
            )
        return Assigned(
            winner.astype(smallest_unsigned(n_clusters)),
            lowest if best else None,
            second - lowest if gap else None,
        )

    def scores(
        self, codes: Codes, offsets: Offsets, table: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        """See the Protocol."""
        rows_of_codes = self.gpu.rows(codes, offsets)
        n_rows, n_columns = codes.shape[1], int(np.prod(table.shape[1:]))
        score: npt.NDArray[np.float64] = self.xp.empty(
            (n_rows, *table.shape[1:]), np.float64
        )
        with stage("scores"):
            self.gpu.launch(
                code_kernel("scores", type_name(codes)),
                self.gpu.grid(n_rows, 8),
                (32, 8),
                (
                    *rows_of_codes,
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
        rows_of_codes = self.gpu.rows(codes, offsets)
        n_rows, n_restarts, n_clusters = responsibilities.shape
        n_columns = n_restarts * n_clusters
        shape = (int(offsets[-1]), n_restarts, n_clusters)
        counts: Counts = self.xp.zeros(shape, dtype=np.int64)
        lines = min(int(np.diff(offsets).max()), self.gpu.shared_free // 256)
        work = len(codes) * -(-n_columns // 32)
        with stage("soft_count"):
            self.gpu.launch(
                code_kernel("soft_count", type_name(codes)),
                (self.gpu.grid(n_rows, 256)[0], min(work, MOST_GRID_Y)),
                (32, 8),
                (
                    *rows_of_codes,
                    np.int32(len(codes)),
                    np.int32(lines),
                    self.xp.ascontiguousarray(responsibilities),
                    np.int32(n_columns),
                    counts,
                ),
                shared=256 * lines,
            )
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
        rows_of_codes = self.gpu.rows(codes, offsets)
        assignment = self.xp.ascontiguousarray(assignment)
        n_restarts, n_rows = assignment.shape
        shape = (len(codes), n_restarts, n_clusters)
        total: Counts = self.xp.zeros(shape, dtype=np.int64)
        with stage("weigh"):
            self.gpu.launch(
                weigh_kernel(type_name(codes), type_name(assignment)),
                self.gpu.grid(n_rows, 256),
                (256,),
                (
                    *rows_of_codes,
                    np.int32(len(codes)),
                    assignment,
                    row_weight,
                    np.int32(n_restarts),
                    np.int32(n_clusters),
                    total,
                ),
            )
        return total

    def coassociation(
        self, codes: Codes, n_labels: npt.NDArray[np.int64], rows: Any, columns: Any
    ) -> Coassociation:
        """See the Protocol."""
        xp = self.xp
        codes, stride = self.gpu.strided(codes)
        left, right = xp.asarray(rows, np.int64), xp.asarray(columns, np.int64)
        shape = (len(left), len(right))
        same, both = xp.empty(shape, np.int32), xp.empty(shape, np.int32)
        tiles = -(-shape[0] // 32) * -(-shape[1] // 32)
        with stage("coassociation"):
            self.gpu.launch(
                code_kernel("coassociation", type_name(codes)),
                (tiles,),
                (32, 32),
                (
                    codes,
                    np.int64(stride),
                    xp.asarray(np.asarray(n_labels, dtype=np.int32)),
                    np.int32(len(codes)),
                    left,
                    np.int32(shape[0]),
                    right,
                    np.int32(shape[1]),
                    same,
                    both,
                ),
            )
        return Coassociation(same, both)

    def add_rem_add(
        self,
        codes: Codes,
        n_labels: npt.NDArray[np.int64],
        starts: npt.NDArray[np.int64],
        threshold: Threshold,
        similarity: Any = None,
        advance: Advance | None = None,
    ) -> Climbs:
        """See the Protocol."""
        with stage("add_rem_add"):
            return add_rem_add(
                self.gpu, codes, n_labels, starts, threshold, similarity, advance
            )

    def kmeans(
        self,
        X: Any,
        n_clusters: int,
        seed: int,
        *,
        metric: str = "euclidean",
    ) -> npt.NDArray[np.int32]:
        """See the Protocol."""
        from gpu_consensus.generation import device

        device.wants_device("cupy", X, "kmeans")  # or raises, and says why
        X = device.load_features(X, metric)
        labels = device.cuml_kmeans(X, n_clusters, seed).labels_
        _, found = self.xp.unique(labels, return_inverse=True)
        compact: npt.NDArray[np.int32] = found.astype(np.int32)
        return compact
