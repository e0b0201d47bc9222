"""Tables of the parts "labels" and "regret" of ``bench quality``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .quality_best import case_name
from .quality_ensembles import ENSEMBLES, FIRST, PROBLEMS
from .quality_records import Record
from .quality_summary import mean_scores, rank_table
from .suite import Claim, Column, Skipped, Table

DRAWN = 10
"""Partitions of a draw."""

BOUNDS = (0.05, 0.5, 1.0)
"""Per cent of F: what median, 95th percentile and worst of the regret may be."""


def label_tables(records: Sequence[Record]) -> list[Table]:
    """Return the ARI of every method on draws of partitions, and on all of them."""
    tables = []
    for partitions, name, words in (
        (DRAWN, "draws", f"{DRAWN} partitions drawn by the seed"),
        (0, "whole", "all 100 partitions"),
    ):
        chosen = [record for record in records if record["partitions"] == partitions]
        ari, seconds = mean_scores(chosen, "ari"), mean_scores(chosen, "seconds")
        sets = [e for e in ENSEMBLES if any(e.name in of for of in ari.values())]
        if not sets:
            continue
        rows = [
            {"method": method, **of}
            | {use: _mean_of_use(of, use) for use in ("decide", "hold")}
            | {"seconds": float(np.mean(list(seconds[method].values())))}
            for method, of in ari.items()
        ]
        columns = [Column("method", "method")]
        columns += [Column(e.name, f"{e.name} ({e.use})", ".3f") for e in sets]
        columns += [Column("decide", "mean, to decide on", ".3f")]
        columns += [Column("hold", "mean, held back", ".3f")]
        columns += [Column("seconds", "seconds", ".2f")]
        table = Table(f"labels_{name}", f"ARI from labels: {words}", columns, rows)
        table.notes.append("Means over seeds; rows of the ensembles are shuffled.")
        reasons = dict.fromkeys(
            (f"{r['method']} on {r['set']}, {words}", r["reason"])
            for r in chosen
            if "reason" in r
        )
        table.skipped += [Skipped(*entry) for entry in reasons]
        table.claims += _label_claims(ari, partitions)
        names = [e.name for e in sets]
        ranks = rank_table(ari, names, f"label_ranks_{name}", f"of labels, {words}")
        tables += [table, ranks]
    return tables


def _label_claims(ari: Mapping[str, Mapping[str, float]], drawn: int) -> list[Claim]:
    """Return what the default must show beside cvote on the pools."""
    least = 0.015 if drawn else 0.0
    words = f"{least} above" if drawn else "not below"
    text = f"pools, {drawn or 100} partitions: mean ARI of the default {words} cvote's"
    pools = [e.name for e in ENSEMBLES if e.name.startswith("pool_")]
    both = [n for n in pools if all(n in ari.get(m, {}) for m in ("default", "cvote"))]
    if len(both) < len(pools):
        return [Claim(text, "not in this run", None)]
    ours, theirs = (np.mean([ari[m][n] for n in both]) for m in ("default", "cvote"))
    return [Claim(text, f"{ours:.3f} and {theirs:.3f}", bool(ours - theirs >= least))]


def _mean_of_use(of: Mapping[str, float], use: str) -> float | None:
    found = [of[e.name] for e in ENSEMBLES if e.use == use and e.name in of]
    return float(np.mean(found)) if found else None


def regret_tables(
    records: Sequence[Record], best: Mapping[str, Mapping[str, Any]]
) -> list[Table]:
    """Return how far F lies above the best that is known, relative to that.

    Parameters
    ----------
    records : sequence of dict
    best : mapping
        What ``read_best`` returns.
    """
    groups: dict[tuple[str, int, str], list[Record]] = {}
    for record in records:
        if "reason" not in record:
            key = record["set"], record["partitions"], record["method"]
            groups.setdefault(key, []).append(record)
    if not groups:
        return []
    rows, skipped, beaten = [], [], 0
    pooled: dict[tuple[str, int], list[Any]] = {}
    for (name, first, problem), found in groups.items():
        case = case_name(name, first, problem)
        kept = best.get(case)
        if kept is None or kept["digest"] != found[0]["digest"]:
            why = "the kept list has no value for this ensemble; --search-best makes it"
            skipped.append(Skipped(f"regret of {case}", why))
            continue
        F = np.array([record["objective"] for record in found])
        # what rounding does to a sum is not a better value
        beaten += bool(F.min() < kept["objective"] * (1 - 1e-12))
        lowest = min(kept["objective"], F.min())
        regret = F / lowest - 1
        pooled.setdefault((problem, first), []).append(regret)
        rows.append(
            {"data": name, "partitions": first, "problem": problem, "best": lowest}
            | _quantiles(regret)
            | {
                "equal": float((regret <= 1e-12).mean()),
                "seconds": float(np.mean([record["seconds"] for record in found])),
                "searched": kept["seconds"],
            }
        )
    spread = [
        Column("median", "median", ".1e"),
        Column("high", "95th percentile", ".1e"),
        Column("worst", "worst", ".1e"),
    ]
    what = [Column("problem", "problem"), Column("partitions", "partitions")]
    together = Table("regret", "Regret of F", [*what, Column("runs", "runs"), *spread])
    for task in ((p, first) for p in PROBLEMS for first in FIRST):
        if task in pooled:
            values = np.concatenate(pooled[task])
            row = {"problem": task[0], "partitions": task[1], "runs": len(values)}
            together.rows.append(row | _quantiles(values))
    together.claims += [_regret_claim(row) for row in together.rows]
    together.skipped += skipped
    together.notes += [
        "(F - best) / best, options as by default, over ensembles and seeds; best: the "
        "lowest F of long searches (`quality_best.json`) and of this run.",
        f"This run found a lower F than the list in {beaten} of {len(rows)} problems.",
    ]
    each = Table(
        "regret_each",
        "Regret of F, each ensemble",
        [
            Column("data", "ensemble"),
            *what,
            Column("best", "best F", ".6f"),
            *spread,
            Column("equal", "share of runs at the best", ".2f"),
            Column("seconds", "seconds of a run", ".2f"),
            Column("searched", "seconds of search", ".0f"),
        ],
        rows,
    )
    return [together, each]


def _regret_claim(row: Mapping[str, Any]) -> Claim:
    """Return whether the default is as near to the best as it has to be."""
    found = [100 * row[key] for key in ("median", "high", "worst")]
    return Claim(
        f"regret of {row['problem']}, {row['partitions']} partitions: median, 95th "
        f"percentile, worst at most {' / '.join(f'{bound:g}' for bound in BOUNDS)}%",
        f"{' / '.join(f'{value:.3f}' for value in found)}% of {row['runs']} runs",
        all(value <= bound for value, bound in zip(found, BOUNDS, strict=True)),
    )


def _quantiles(regret: Any) -> dict[str, float]:
    return {
        "median": float(np.median(regret)),
        "high": float(np.quantile(regret, 0.95)),
        "worst": float(regret.max()),
    }
