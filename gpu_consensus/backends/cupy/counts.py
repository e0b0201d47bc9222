"""Sums over objects by cluster: the launches of ``count`` and ``weigh``.

With ``before``, only objects whose cluster changed are looked at.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.cupy.launch_plan import plan_count
from gpu_consensus.backends.cupy.launcher import NULL, Launcher, type_name
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

    def one_part(rows: slice) -> None:
        contiguous = gpu.xp.ascontiguousarray
        plan = plan_count(
            offsets,
            n_restarts,
            n_clusters,
            rows.stop - rows.start,
            moved=before is not None,
            shared_free=gpu.shared_free,
            n_processors=gpu.n_processors,
        )
        gpu.launch(
            count_kernel(type_name(codes), type_name(after)),
            plan.grid,
            (256,),
            (
                *gpu.rows(codes[:, rows], offsets),
                gpu.constant(plan.groups),
                np.int32(plan.bins),
                np.int64(plan.rows),
                NULL if before is None else contiguous(before[:, rows]),
                contiguous(after[:, rows]),
                np.int32(n_restarts),
                np.int32(n_clusters),
                counts,
            ),
            shared=plan.shared,
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
