"""What choosing the number of clusters takes as n grows."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import gpu_consensus as gpc

from . import select_k_data as data
from .suite import Claim, Column, Context, Table

_TIMED: dict[str, Callable[[Any], Any]] = {
    "one": lambda X: gpc.select_n_clusters(X, n_jobs=1, random_state=0),
    "all": lambda X: gpc.select_n_clusters(X, random_state=0),
    "fit": lambda X: gpc.cluster(X, 6, random_state=0),
    "cluster": lambda X: gpc.cluster(X, "auto", random_state=0),
}
"""What is timed, by column."""


def times_table(context: Context) -> Table:
    """Time a selection as n grows, and with the last fit."""
    table = Table(
        "times",
        "Time: 20 features, 6 clusters, candidates 2 to 10",
        [
            Column("n", "n", ",d"),
            Column("answer", "answer"),
            Column("one", "one thread, s", ".2f"),
            Column("all", "all threads, s", ".2f"),
            Column("cluster", "cluster(X, 'auto'), s", ".2f"),
            Column("fit", "cluster(X, 6), s", ".2f"),
        ],
        notes=["2,000 objects are looked at, whatever n."],
    )
    sizes = (2_000, 20_000) if context.quick else (2_000, 100_000, 1_000_000)
    for n in sizes:
        X, _ = data.blobs(np.random.default_rng(6), 6, 20, 7.0, "near", n=n)
        row: dict[str, Any] = {"n": n}
        for name, call in _TIMED.items():
            begin = time.perf_counter()
            found = call(X)
            row[name] = time.perf_counter() - begin
            row["answer"] = found.n_clusters
        table.rows.append(row)
    first, last = table.rows[0], table.rows[-1]
    table.claims += [
        Claim(
            "2,000 x 20 takes at most 10 s on one thread",
            f"{first['one']:.1f} s",
            first["one"] <= 10,
        ),
        Claim(
            f"{last['n']:,} x 20 takes at most 2 s more than 2,000 x 20",
            f"{last['one'] - first['one']:.1f} s more",
            last["one"] - first["one"] <= 2,
        ),
        Claim(
            f"cluster(X, 'auto') at {last['n']:,} takes the selection and the fit, "
            "and at most 20% more",
            f"{last['cluster']:.1f} s beside {last['all']:.1f} + {last['fit']:.1f} s",
            last["cluster"] <= 1.2 * (last["all"] + last["fit"]),
        ),
    ]
    return table
