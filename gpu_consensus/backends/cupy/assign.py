"""The launches of ``assign``: every object where its score is lowest."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.cupy.launch_plan import plan_assign
from gpu_consensus.backends.cupy.launcher import NULL, Launcher, type_name
from gpu_consensus.backends.protocol import Assigned, Codes, Offsets, Table


def assign_rows(
    gpu: Launcher,
    rows: slice,
    codes: Codes,
    offsets: Offsets,
    table: Table,
    row_weight: npt.NDArray[np.float32] | None,
    row_table: Table | None,
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
    )
    shape = (n_restarts, n_rows)
    winner = xp.empty(shape, np.int32)
    keep = assigned.best is not None or assigned.gap is not None or plan.continues
    lowest: Any = xp.empty(shape, np.float32) if keep else NULL
    second: Any = xp.empty(shape, np.float32) if keep else NULL
    together = max(1, gpu.shared_per_processor // (plan.shared + 1024))
    blocks = -(-n_rows // (plan.threads * plan.rows))
    grid = (min(blocks, gpu.n_processors * min(together, 4)),)
    pieces, table = gpu.constant(plan.pieces), xp.ascontiguousarray(table)
    flat = NULL if row_table is None else xp.ascontiguousarray(row_table)
    weight = NULL if row_weight is None else xp.ascontiguousarray(row_weight[rows])
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
            ),
            shared=plan.shared,
        )
    assigned.assignment[:, rows] = winner
    if assigned.best is not None:
        assigned.best[:, rows] = lowest
    if assigned.gap is not None:
        xp.subtract(second, lowest, out=assigned.gap[:, rows])
