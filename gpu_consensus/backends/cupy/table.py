"""Tables made on the device from counts, bit for bit those of the host."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.cupy.launcher import NULL, Launcher
from gpu_consensus.backends.cupy.source import table_kernel
from gpu_consensus.backends.device_memory import ELSEWHERE, room_for, what_helps
from gpu_consensus.backends.protocol import Counts, Table
from gpu_consensus.backends.recipe import TableRecipe


def what_table_needs(shape: tuple[int, ...]) -> tuple[str, str]:
    """Return what to call a table of this shape, and what helps when it is too large.

    Its size does not depend on the objects, so fewer of them at a time do not help.
    """
    return (
        f"{shape[1]} tables of {shape[0]} labels x n_clusters={shape[2]}",
        what_helps(f"lower n_clusters, or {ELSEWHERE}"),
    )


def make_tables(
    gpu: Launcher,
    recipe: TableRecipe,
    counts: Counts,
    absent: Counts | None = None,
    norm: npt.NDArray[np.float64] | None = None,
) -> tuple[Table, Table | None]:
    """Return the table of a recipe, (S, R, K), and its row table, on the device.

    Counts, absent weights and norms (r, R, K) are on the device. SEC makes its own
    norms.
    """
    xp, (n_rows, *columns) = gpu.xp, counts.shape
    n_partitions, n_columns = len(recipe.offsets) - 1, columns[0] * columns[1]
    shape = (n_partitions, n_columns)
    with room_for(*what_table_needs(counts.shape)):
        partition_of = np.repeat(np.arange(n_partitions), np.diff(recipe.offsets))
        marginals = gpu.constant(recipe.marginals)
        first_row = gpu.constant(recipe.offsets.astype(np.int32))
        size, square = xp.empty(shape, np.int64), xp.empty(shape, np.int64)
        empty, row_table = xp.empty(shape, np.uint8), None
        is_sec = recipe.present_weight is not None
        marginal_weighted = xp.empty(shape, np.int64) if is_sec else NULL
        gpu.launch(
            table_kernel("table_sums", recipe.utility),
            gpu.grid(n_partitions * n_columns, 256),
            (256,),
            (
                counts,
                marginals,
                first_row,
                np.int32(n_partitions),
                np.int32(n_columns),
                size,
                square,
                empty,
                marginal_weighted,
            ),
        )
        if recipe.present_weight is not None:
            norm = xp.empty(shape, np.float64)
            if recipe.row == "sum":
                row_table = xp.empty(columns, np.float32)
            gpu.launch(
                table_kernel("table_norm", recipe.utility),
                gpu.grid(n_columns, 32),
                (32,),
                (
                    square,
                    empty,
                    marginal_weighted,
                    NULL if absent is None else absent,
                    gpu.constant(recipe.present_weight),
                    np.int32(n_partitions),
                    np.int32(n_columns),
                    norm,
                    NULL if row_table is None else row_table,
                ),
            )

        def fill(utility: str) -> Table:
            table: Table = xp.empty(counts.shape, np.float32)
            gpu.launch(
                table_kernel("table", utility),
                gpu.grid(n_rows * n_columns, 256),
                (256,),
                (
                    counts,
                    marginals,
                    first_row,
                    gpu.constant(partition_of.astype(np.int32)),
                    np.int32(n_rows),
                    np.int32(n_columns),
                    size,
                    square,
                    empty,
                    gpu.constant(recipe.weights),
                    NULL if norm is None else norm,
                    np.int32(recipe.power),
                    table,
                ),
            )
            return table

        if recipe.row == "labels":
            row_table = fill("SEC_ROW")
        return fill(recipe.utility), row_table
