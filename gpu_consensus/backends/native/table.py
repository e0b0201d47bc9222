"""Tables from counts, and sums over labels: table.c and label_sums.c."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.native.layout import (
    address,
    as_protocol,
    blank_table,
    check_array,
    check_offsets,
    dense,
)
from gpu_consensus.backends.native.threads import over, scratch
from gpu_consensus.backends.protocol import (
    Counts,
    Offsets,
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


def table(
    call: Any,
    n_threads: int,
    recipe: TableRecipe,
    counts: Counts,
    absent: Counts | None = None,
    on_host: Counts | None = None,
) -> tuple[Table, Table | None]:
    """See the Protocol."""
    counts = dense("counts", counts, np.int64, (None, None, None))
    check_offsets("recipe.offsets", recipe.offsets, len(counts))
    check_array("recipe.marginals", recipe.marginals, np.int64, (len(counts),))
    n_partitions = len(recipe.offsets) - 1
    check_array("recipe.weights", recipe.weights, np.float64, (n_partitions,))
    if recipe.utility == "LP" and recipe.power < 1:
        raise ValueError(f"recipe.power={recipe.power} should be >= 1 for LP.")
    if recipe.utility == "SEC" and recipe.present_weight is None:
        raise ValueError("recipe.present_weight is None and SEC needs it.")
    if recipe.present_weight is None:
        norm = lp_norms(recipe, counts) if recipe.power else None
        return _fill(call, n_threads, recipe, recipe.utility, counts, norm), None
    sums = label_sums(call, n_threads, recipe.offsets, counts, recipe.marginals)
    weight = sec_weights(recipe, sums, absent)
    norm = np.maximum(weight, 1).astype(np.float64)
    table = _fill(call, n_threads, recipe, "SEC", counts, norm)
    if recipe.row == "sum":
        return table, sec_row_sums(recipe, sums, weight)
    return table, _fill(call, n_threads, recipe, "SEC_ROW", counts, norm)


def _fill(
    call: Any,
    n_threads: int,
    recipe: TableRecipe,
    utility: str,
    counts: Counts,
    norm: npt.NDArray[np.float64] | None,
) -> Table:
    number = UTILITIES.index(utility)
    n_rows, n_restarts, n_clusters = counts.shape
    n_columns = n_restarts * n_clusters
    table = blank_table(n_rows, n_columns, make=np.empty)
    n_partitions = len(recipe.offsets) - 1
    if norm is not None:
        norm = dense("norm", norm, np.float64, (n_partitions, *counts.shape[1:]))

    def fill(first: int, last: int) -> None:
        memory, place = scratch(call.table_scratch(n_columns))
        call.table(
            number,
            address(counts),
            address(recipe.offsets),
            address(recipe.marginals),
            address(recipe.weights),
            address(norm),
            recipe.power,
            n_restarts,
            n_clusters,
            first,
            last,
            address(table),
            table.shape[1],
            place,
        )
        del memory

    over(fill, n_partitions, counts.size, n_threads)
    return as_protocol(table, n_restarts, n_clusters)


def label_sums(
    call: Any,
    n_threads: int,
    offsets: Offsets,
    counts: Counts,
    marginals: npt.NDArray[np.int64],
    entropy: bool = False,
) -> LabelSums:
    """See the Protocol; counts are (S, ...)."""
    counts = dense("counts", counts, np.int64, (None, *[None] * (counts.ndim - 1)))
    check_offsets("offsets", offsets, len(counts))
    heavy = dense("marginals", marginals, np.int64, (len(counts),))
    n_partitions, n_columns = len(offsets) - 1, counts.size // len(counts)
    shape = (n_partitions, *counts.shape[1:])
    size, square, weighted, most = np.empty((4, *shape), dtype=np.int64)
    bits = np.empty(shape) if entropy else None

    def add(first: int, last: int) -> None:
        call.label_sums(
            address(counts),
            n_columns,
            address(offsets),
            address(heavy),
            first,
            last,
            *map(address, (size, square, weighted, most)),
            address(bits),
        )

    work = counts.size * (8 if entropy else 1)
    over(add, n_partitions, work, n_threads)
    return LabelSums(size, square, weighted, most, bits)
