"""Tables made on the device from counts, bit for bit those of the host."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.cuda_launcher import NULL, Launcher
from gpu_consensus.backends.cuda_source import table_kernel
from gpu_consensus.backends.device_memory import ELSEWHERE, room_for, what_helps
from gpu_consensus.backends.protocol import Counts, Table, TableRecipe


def what_table_needs(shape: tuple[int, ...]) -> tuple[str, str]:
    """Return what to call a table of this shape, and what helps when it is too large.

    Its size does not depend on the objects, so fewer of them at a time do not help.
    """
    return (
        f"{shape[1]} tables of {shape[0]} labels x n_clusters={shape[2]}",
        what_helps(f"lower n_clusters, or {ELSEWHERE}"),
    )


def make_table(
    gpu: Launcher,
    recipe: TableRecipe,
    utility: str,
    counts: Counts,
    norms: npt.NDArray[np.float64] | None,
) -> Table:
    """Return the table of a recipe, or its row table, (S, R, K), on the device.

    Counts and norms (r, R, K) are there.
    """
    n_rows, n_restarts, n_clusters = counts.shape
    n_columns = n_restarts * n_clusters
    n_partitions = len(recipe.offsets) - 1
    xp, shape = gpu.xp, (n_partitions, n_columns)
    with room_for(*what_table_needs(counts.shape)):
        partition_of = np.repeat(np.arange(n_partitions), np.diff(recipe.offsets))
        norm = NULL if norms is None else norms
        size, square = xp.empty(shape, np.int64), xp.empty(shape, np.int64)
        empty = xp.empty(shape, np.uint8)
        marginals = gpu.constant(recipe.marginals)
        first_row = gpu.constant(recipe.offsets.astype(np.int32))
        table: Table = xp.empty(counts.shape, np.float32)
        gpu.launch(
            table_kernel("table_sums", utility),
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
            ),
        )
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
                norm,
                np.int32(recipe.power),
                table,
            ),
        )
        return table
