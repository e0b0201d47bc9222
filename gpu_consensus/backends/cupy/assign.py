"""The launches of ``assign``: every object where its score is lowest."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.cupy.launch_plan import (
    MOST_GRID_Y,
    AssignPlan,
    plan_assign,
)
from gpu_consensus.backends.cupy.launcher import NULL, Launcher, type_name
from gpu_consensus.backends.cupy.source import own_scores_kernel, tiles_kernel
from gpu_consensus.backends.protocol import Assigned, Assignment, Codes, Offsets, Table

_TOGETHER = 4  # restarts of a thread, as in own_scores.cu


def assign_rows(
    gpu: Launcher,
    rows: slice,
    codes: Codes,
    offsets: Offsets,
    table: Table,
    row_weight: npt.NDArray[np.float32] | None,
    row_table: Table | None,
    own: Assignment | None,
    stay: Table | None,
    assigned: Assigned,
) -> None:
    """Assign a range of objects and write what is asked for into ``assigned``."""
    rows_of_codes = gpu.rows(codes[:, rows], offsets)
    _, n_restarts, n_clusters = table.shape
    n_rows = rows.stop - rows.start
    plan = plan_assign(
        offsets,
        n_restarts,
        n_clusters,
        shared_limit=gpu.shared_limit,
        row_table=0 if row_table is None else row_table.ndim - 1,
        code=type_name(codes),
        own=own is not None,
    )
    sums: Any = NULL
    if row_table is not None and row_table.ndim == 2:
        sums, row_table = gpu.xp.ascontiguousarray(row_table), None
    laid_out = _lay_out(gpu, plan, table, row_table)
    weight = NULL
    if row_weight is not None:
        weight = gpu.xp.ascontiguousarray(row_weight[rows])
    winner, best, gap, gain = (
        NULL if array is None else array[:, rows] for array in assigned
    )
    out_stride = np.int64(assigned.assignment.shape[1])
    staying: tuple[Any, ...] = ()
    if own is not None and stay is not None:
        column = _own_scores(
            gpu, codes, rows_of_codes, own[:, rows], stay, gain, out_stride
        )
        staying = column, gain, np.float32(len(codes) * 2.0**-23)
    blocks = plan.blocks(n_rows, gpu.n_processors, gpu.shared_per_processor)
    gpu.launch(
        plan.kernel,
        (blocks,),
        (plan.threads,),
        (
            *rows_of_codes[:3],
            gpu.constant(plan.pieces),
            np.int32(len(plan.pieces)),
            gpu.constant(plan.lines),
            np.int32(len(table)),
            np.int32(n_restarts * n_clusters),
            np.int32(plan.step),
            np.int32(plan.n_tiles),
            np.int32(plan.tiles_of_chain),
            np.int32(plan.n_chains),
            laid_out,
            sums,
            weight,
            np.int32(n_clusters),
            winner,
            np.int32(assigned.assignment.itemsize),
            best,
            gap,
            out_stride,
            *staying,
        ),
        shared=plan.shared,
    )


def _lay_out(
    gpu: Launcher, plan: AssignPlan, table: Table, row_table: Table | None
) -> Any:
    """Return a table, and a row table of its own beside it, in tiles."""
    contiguous, out = gpu.xp.ascontiguousarray, gpu.xp.empty(plan.floats, np.float32)
    gpu.launch(
        tiles_kernel(),
        gpu.grid(plan.floats, 256),
        (256,),
        (
            contiguous(table),
            NULL if row_table is None else contiguous(row_table),
            np.int32(len(table)),
            np.int32(table[0].size),
            np.int32(plan.step),
            np.int64(plan.floats),
            out,
        ),
    )
    return out


def _own_scores(
    gpu: Launcher,
    codes: Codes,
    rows_of_codes: tuple[Any, ...],
    own: Assignment,
    stay: Table,
    score: Any,
    out_stride: np.int64,
) -> Any:
    """Return the column of every object's own cluster; write what staying costs it."""
    xp, (_, n_restarts, n_clusters) = gpu.xp, stay.shape
    column = xp.empty(own.shape, np.int32)
    groups = min(-(-n_restarts // _TOGETHER), MOST_GRID_Y)
    gpu.launch(
        own_scores_kernel(type_name(codes), type_name(own)),
        (*gpu.grid(own.shape[1], 256), groups),
        (256,),
        (
            *rows_of_codes,
            np.int32(len(codes)),
            xp.ascontiguousarray(own),
            xp.ascontiguousarray(stay),
            np.int32(n_restarts),
            np.int32(n_clusters),
            column,
            score,
            out_stride,
        ),
    )
    return column
