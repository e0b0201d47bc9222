"""KCC on incomplete partitions: labels removed at random (Strategy-II, section 6.5)."""

from __future__ import annotations

import statistics
from typing import Any

import gpu_consensus as gpc

from .data import DataSet, load_all
from .kcc_paper import UTILITIES
from .runs import run_kcc
from .suite import Claim, Column, Context, Table, warning_notes

_ROUNDING = 1e-12
_SAME_F = 1e-9

_MISSING_COLUMNS = [
    Column("data", "data"),
    Column("utility", "utility"),
    Column("missing", "labels missing", ".3f"),
    Column("runs", "runs"),
    Column("n_clusters", "K asked"),
    Column("clusters_out", "fewest out"),
    Column("rise", "largest rise of F", ".1e"),
    Column("difference", "F check", ".1e"),
    Column("r_n", "R_n mean", ".4f"),
]

_REMOVAL_COLUMNS = [
    Column("data", "data"),
    Column("utility", "utility"),
    Column("removed", "removed", ".0%"),
    Column("r_n", "R_n mean", ".4f"),
    Column("r_n_min", "min", ".4f"),
    Column("r_n_max", "max", ".4f"),
]


def missing_table(context: Context) -> Table:
    """Remove 90% of the labels of iris and look at all ten utilities."""
    data_sets, skipped = load_all(context, ["iris"])
    skipped = [entry for entry in skipped if entry.name == "iris"]
    table = Table(
        "missing",
        "KCC: 90% of the labels missing",
        _MISSING_COLUMNS,
        skipped=skipped,
        notes=[
            "Labels are removed at random, each object keeps at least one (Strategy-II "
            f"of section 6.5). Per seed one run with n_init=10 and {_singles(context)} "
            "with n_init=1, whose whole history is seen; R_n from n_init=10."
        ],
    )
    messages: dict[str, int] = {}
    cells = [(data, utility) for data in data_sets for utility in UTILITIES]
    with context.progress("missing", len(cells)) as advance:
        for data, utility in cells:
            table.rows.append(_missing_row(context, data, utility, messages))
            advance(1, f"{data.name} {utility}")
    table.claims = _claims(table.rows)
    table.notes += warning_notes(messages)
    return table


def _singles(context: Context) -> int:
    """Return how many runs of one start go beside each run of ten."""
    return 1 if context.quick else 5


def _missing_row(
    context: Context, data: DataSet, utility: str, messages: dict[str, int]
) -> dict[str, Any]:
    runs, best, absent = [], [], []
    for seed in context.seeds:
        ensemble = gpc.drop_labels(data.ensemble, 0.9, random_state=seed)
        absent.append(ensemble.n_missing.sum() / ensemble.codes.size)
        best.append(run_kcc(data, utility, messages, ensemble, random_state=seed))
        runs += [
            run_kcc(data, utility, messages, ensemble, n_init=1, random_state=start)
            for start in range(_singles(context))
        ]
    runs += best
    return {
        "data": data.name,
        "source": data.source,
        "utility": utility,
        "missing": statistics.fmean(float(share) for share in absent),
        "runs": len(runs),
        "n_clusters": data.n_clusters,
        "clusters_out": min(run.n_clusters for run in runs),
        "rise": max(run.rise for run in runs),
        "difference": max(run.difference for run in runs),
        "r_n": statistics.fmean(run.r_n for run in best),
    }


def _claims(rows: list[dict[str, Any]]) -> list[Claim]:
    texts = (
        "90% missing on iris: K clusters come out, all utilities",
        "90% missing on iris: the objective never rises, all utilities",
        f"90% missing on iris: F as recomputed, to {_SAME_F:.0e}",
    )
    if not rows:
        return [Claim(text, "not run", None) for text in texts]
    full = sum(row["clusters_out"] == row["n_clusters"] for row in rows)
    rise = max(row["rise"] for row in rows)
    difference = max(row["difference"] for row in rows)
    number = len(rows)
    return [
        Claim(texts[0], f"{full} of {number} utilities", full == number),
        Claim(texts[1], f"largest relative rise {rise:.1e}", rise <= _ROUNDING),
        Claim(
            texts[2],
            f"largest relative difference {difference:.1e}",
            difference <= _SAME_F,
        ),
    ]


def removal_table(context: Context) -> Table:
    """R_n as more and more labels are removed (Fig. 11), utility h."""
    names = ["iris"] if context.quick else ["iris", "breast_w", "mm"]
    data_sets, skipped = load_all(context, names)
    table = Table(
        "removal",
        "KCC: R_n against the share of labels removed",
        _REMOVAL_COLUMNS,
        skipped=[entry for entry in skipped if entry.name in names],
        notes=["The form of Fig. 11, Strategy-II; the paper draws it without numbers."],
    )
    tenths = (0, 5, 9) if context.quick else range(10)
    messages: dict[str, int] = {}
    cells = [(data, tenth / 10) for data in data_sets for tenth in tenths]
    with context.progress("removal", len(cells)) as advance:
        for data, share in cells:
            found = []
            for seed in context.seeds:
                ensemble = gpc.drop_labels(data.ensemble, share, random_state=seed)
                run = run_kcc(data, "h", messages, ensemble, random_state=seed)
                found.append(run.r_n)
            table.rows.append(
                {
                    "data": data.name,
                    "source": data.source,
                    "utility": "h",
                    "removed": share,
                    "r_n": statistics.fmean(found),
                    "r_n_min": min(found),
                    "r_n_max": max(found),
                }
            )
            advance(1, f"{data.name} {share:.0%}")
    table.notes += warning_notes(messages)
    return table
