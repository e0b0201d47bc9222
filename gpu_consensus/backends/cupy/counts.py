"""Sums over objects by cluster: the launches of ``count`` and ``weigh``.

With ``before``, only objects whose cluster changed are looked at.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.cupy.launch_plan import histogram_groups
from gpu_consensus.backends.cupy.launcher import (
    MOST_GRID_Y,
    NULL,
    Launcher,
    type_name,
)
from gpu_consensus.backends.cupy.source import count_kernel, weigh_kernel
from gpu_consensus.backends.device_memory import in_parts
from gpu_consensus.backends.protocol import Assignment, Codes, Counts, Offsets


def count_rows(
    gpu: Launcher,
    codes: Codes,
    offsets: Offsets,
    before: Assignment | None,
    after: Assignment,
    counts: Counts,
) -> None:
    """Add objects by label and cluster to counts (S, R, K), in place."""
    n_restarts, n_clusters = counts.shape[1:]
    groups, bins = histogram_groups(offsets, n_clusters, gpu.shared_free // 4)
    work = (len(groups) - 1) * n_restarts

    def one_part(rows: slice) -> None:
        contiguous = gpu.xp.ascontiguousarray
        n_rows = rows.stop - rows.start
        gpu.launch(
            count_kernel(type_name(codes), type_name(after)),
            (*gpu.grid(n_rows, 2048), min(work, MOST_GRID_Y)),
            (256,),
            (
                *gpu.rows(codes[:, rows], offsets),
                gpu.constant(groups),
                np.int32(len(groups) - 1),
                np.int32(bins),
                NULL if before is None else contiguous(before[:, rows]),
                contiguous(after[:, rows]),
                np.int32(n_restarts),
                np.int32(n_clusters),
                counts,
            ),
            shared=4 * bins,
        )

    in_parts(gpu.xp, one_part, after.shape[1])


def weigh_rows(
    gpu: Launcher,
    codes: Codes,
    offsets: Offsets,
    before: Assignment | None,
    after: Assignment,
    row_weight: npt.NDArray[np.int64],
    total: Counts,
) -> None:
    """Add weights of objects without a label to sums (r, R, K), in place."""
    _, n_restarts, n_clusters = total.shape

    def one_part(rows: slice) -> None:
        contiguous = gpu.xp.ascontiguousarray
        gpu.launch(
            weigh_kernel(type_name(codes), type_name(after)),
            gpu.grid(rows.stop - rows.start, 256),
            (256,),
            (
                *gpu.rows(codes[:, rows], offsets),
                np.int32(len(codes)),
                NULL if before is None else contiguous(before[:, rows]),
                contiguous(after[:, rows]),
                contiguous(row_weight[rows]),
                np.int32(n_restarts),
                np.int32(n_clusters),
                total,
            ),
        )

    in_parts(gpu.xp, one_part, after.shape[1])
