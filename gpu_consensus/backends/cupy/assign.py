"""The launches of ``assign``: every object where its score is lowest."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.cupy.launch_plan import MOST_GRID_Y, plan_assign
from gpu_consensus.backends.cupy.launcher import NULL, Launcher, type_name
from gpu_consensus.backends.cupy.source import own_scores_kernel
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
    xp = gpu.xp
    rows_of_codes = gpu.rows(codes[:, rows], offsets)
    _, n_restarts, n_clusters = table.shape
    n_rows, n_columns = rows.stop - rows.start, n_restarts * n_clusters
    plan = plan_assign(
        offsets,
        n_restarts,
        n_clusters,
        shared_limit=gpu.shared_limit,
        row_table=0 if row_table is None else row_table.ndim - 1,
        code=type_name(codes),
        own=own is not None,
    )
    shape = (n_restarts, n_rows)
    winner = xp.empty(shape, np.int32)
    keep = assigned.best is not None or assigned.gap is not None or plan.continues
    lowest: Any = NULL
    if keep or own is not None:
        lowest = xp.empty(shape, np.float32)
    second: Any = xp.empty(shape, np.float32) if keep else NULL
    together = max(1, gpu.shared_per_processor // (plan.shared + 1024))
    blocks = -(-n_rows // (plan.threads * plan.rows))
    grid = (min(blocks, gpu.n_processors * min(together, 4)),)
    pieces, table = gpu.constant(plan.pieces), xp.ascontiguousarray(table)
    flat = NULL if row_table is None else xp.ascontiguousarray(row_table)
    weight = NULL if row_weight is None else xp.ascontiguousarray(row_weight[rows])
    staying: tuple[Any, ...] = ()
    if own is not None and stay is not None:
        rounding = np.float32(len(codes) * 2.0**-23)
        staying = (
            *_own_scores(gpu, codes, rows_of_codes, own[:, rows], stay),
            rounding,
        )
    for begin, end in plan.tiles:
        gpu.launch(
            plan.kernel,
            grid,
            (plan.threads,),
            (
                *rows_of_codes,
                pieces,
                np.int32(len(plan.pieces)),
                table,
                flat,
                weight,
                np.int32(n_columns),
                np.int32(begin),
                np.int32(end),
                np.int32(n_clusters),
                winner,
                lowest,
                second,
                *staying,
            ),
            shared=plan.shared,
        )
    assigned.assignment[:, rows] = winner
    if assigned.best is not None:
        assigned.best[:, rows] = lowest
    if assigned.gap is not None:
        xp.subtract(second, lowest, out=assigned.gap[:, rows])
    if assigned.gain is not None:
        assigned.gain[:, rows] = staying[1]


def _own_scores(
    gpu: Launcher,
    codes: Codes,
    rows_of_codes: tuple[Any, ...],
    own: Assignment,
    stay: Table,
) -> tuple[Any, Any]:
    """Return the column of every object's own cluster, and what staying costs it."""
    xp, (_, n_restarts, n_clusters) = gpu.xp, stay.shape
    column, score = xp.empty(own.shape, np.int32), xp.empty(own.shape, np.float32)
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
        ),
    )
    return column, score
