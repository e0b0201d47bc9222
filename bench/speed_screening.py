"""``assign`` screened in 8 or 16 bits beside ``assign`` in float32."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import gpu_consensus as gpc
from gpu_consensus.backends import why_unavailable
from gpu_consensus.backends.native.backend import NativeBackend

from .suite import Claim, Column, Context, Skipped, Table, collect_warnings

_R = 100
_LABELS = (10, 100, 300)
_SHAPES = ((1, 10), (1, 32), (10, 10))
_NEEDED = {10: 1.2, 32: 1.2, 100: 1.5}
"""Times faster that screening has to be, by columns of the table."""


def screening_table(context: Context) -> Table:
    """Time both on tables as the loop makes them, at the second and last iteration."""
    table = Table(
        "screening",
        "assign screened in 8 or 16 bits and in float32",
        [
            Column("columns", "columns"),
            Column("labels", "labels per partition"),
            Column("iteration", "table of iteration"),
            Column("equal", "same clusters"),
            Column("float_ms", "float32, ms", ".2f"),
            Column("screened_ms", "screened, ms", ".2f"),
            Column("ratio", "float32 / screened", ".2f"),
            Column("doubt", "in doubt, of objects and restarts", ".2%"),
        ],
    )
    reason = why_unavailable("native")
    if reason:
        table.skipped = [Skipped("screening", reason)]
        return table
    n = 10_000 if context.quick else 100_000
    for shape in _SHAPES:
        for labels in _LABELS:
            for iteration in (2, 5):
                table.rows.append(_measure(n, labels, *shape, iteration))
    for columns, needed in _NEEDED.items():
        last = [
            row["ratio"]
            for row in table.rows
            if row["columns"] == columns and row["iteration"] == 5
        ]
        table.claims.append(
            Claim(
                f"screening at {columns} columns: at least {needed} times float32",
                " and ".join(f"{ratio:.2f}" for ratio in last),
                None if context.quick else min(last) >= needed,
            )
        )
    worst = min(table.rows, key=lambda row: row["ratio"])
    table.claims.append(
        Claim(
            "screening is slower than float32 nowhere",
            f"{worst['ratio']:.2f} at {worst['columns']} columns and "
            f"{worst['labels']} labels",
            None if context.quick else worst["ratio"] >= 0.97,
        )
    )
    table.notes = [
        f"kcc(utility='h'), n={n:,}, r={_R}, planted clusters with half of the labels "
        "at random, CPU time of one thread, the least of several calls in turn; making "
        "the table of small numbers is part of the time. Where too much stays in "
        "doubt, the call turns to float32 by itself: then what its first objects left "
        "is shown. Doubts are restarts of an object, or clusters of them where so few "
        "are left that these are summed one by one."
    ]
    return table


def _measure(
    n: int, labels: int, n_restarts: int, n_clusters: int, iteration: int
) -> dict[str, Any]:
    codes, offsets, table = _last_table(n, labels, n_restarts, n_clusters, iteration)
    backend = NativeBackend(1)
    least = [np.inf, np.inf]
    answers: list[Any] = [None, None]
    for _ in range(5):
        for way, best in enumerate((True, False)):  # scores are never screened
            begin = time.thread_time()
            answers[way] = backend.assign(codes, offsets, table, best=best).assignment
            least[way] = min(least[way], time.thread_time() - begin)
    seen = backend._screening
    return {
        "columns": n_restarts * n_clusters,
        "labels": labels,
        "iteration": iteration,
        "equal": bool(np.array_equal(*answers)),
        "float_ms": 1000 * least[0],
        "screened_ms": 1000 * least[1],
        "ratio": least[0] / least[1],
        "doubt": seen.undecided / max(seen.screened * n_restarts, 1),
    }


def _last_table(
    n: int, labels: int, n_restarts: int, n_clusters: int, iteration: int
) -> tuple[Any, Any, Any]:
    """Return codes, offsets and the table that an iteration of kcc assigns by."""
    rng = np.random.default_rng(0)
    planted = rng.integers(n_clusters, size=n)
    owner = rng.permutation(np.arange(labels) % n_clusters)
    codes = np.empty((_R, n), dtype=np.uint16)
    for line in codes:
        own = rng.permutation(labels)
        first = np.argsort(owner, kind="stable")
        sizes = np.bincount(owner, minlength=n_clusters)
        begin = np.cumsum(sizes) - sizes
        drawn = begin[planted] + (rng.random(n) * sizes[planted]).astype(np.int64)
        kept = own[first[np.minimum(drawn, labels - 1)]]
        stray = (rng.random(n) < 0.5) | (sizes[planted] == 0)
        line[:] = np.where(stray, rng.integers(labels, size=n), kept)
    ensemble = gpc.Ensemble.from_codes(codes, [labels] * _R)
    seen: list[Any] = []

    class Watched(NativeBackend):
        def assign(self, *arguments: Any, **options: Any) -> Any:
            seen.append(arguments)
            return super().assign(*arguments, **options)

    with collect_warnings({}):
        gpc.kcc(
            ensemble,
            n_clusters,
            "h",
            init="random",
            n_init=n_restarts,
            search=False,
            refine=False,
            max_iter=iteration,
            backend=Watched(1),
            random_state=0,
        )
    codes, offsets, table = seen[-1][:3]
    return codes, offsets, table
