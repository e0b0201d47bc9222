"""Tables and claims of ``bench quality``, from its records and from nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .quality_methods import OUTSIDE, method_names
from .quality_ranks import Ranks, mean_ranks
from .quality_records import Record
from .quality_sets import KINDS, RINGED, SETS, QualitySet
from .suite import Claim, Column, Skipped, Table

Scores = dict[str, dict[str, float]]

LEAST_SETS = 40
"""Sets held back that are needed before anything is claimed of them."""

_NAMES = {
    "decide": "to decide on",
    "hold": "held back",
    "fresh": "held back anew",
}


def mean_scores(records: Iterable[Record], key: str) -> Scores:
    """Return the mean over seeds, by method and set, where all seeds have one."""
    values: dict[str, dict[str, list[float]]] = {}
    failed = set()
    for record in records:
        if "reason" in record:
            failed.add((record["method"], record["set"]))
        else:
            of = values.setdefault(record["method"], {})
            of.setdefault(record["set"], []).append(record[key])
    known = [name for name in method_names() if name in values]
    return {
        method: {
            name: float(np.mean(found))
            for name, found in values[method].items()
            if (method, name) not in failed
        }
        for method in known
    }


def feature_tables(records: Sequence[Record], use: str) -> list[Table]:
    """Return means by kind, ranks and all values of the sets of one use."""
    named = {item.name: item for item in SETS if item.use == use}
    records = [record for record in records if record["set"] in named]
    ari = mean_scores(records, "ari")
    sets = [
        item for item in named.values() if any(item.name in of for of in ari.values())
    ]
    if not sets:
        return []
    tables = [
        _by_kind(records, ari, sets, use),
        rank_table(ari, [item.name for item in sets], f"ranks_{use}", _NAMES[use]),
        _values(ari, sets, use),
    ]
    if use != "decide":
        tables[0].claims += claims(ari, sets, _NAMES[use])
    reasons = dict.fromkeys(
        (f"{record['method']} on {record['set']}", record["reason"])
        for record in records
        if "reason" in record
    )
    tables[0].skipped += [Skipped(*entry) for entry in reasons]
    return tables


def _mean(of: dict[str, float], names: Iterable[str]) -> float | None:
    found = [of[name] for name in names if name in of]
    return float(np.mean(found)) if found else None


def _by_kind(
    records: list[Record], ari: Scores, sets: list[QualitySet], use: str
) -> Table:
    kinds = [kind for kind in KINDS if any(item.kind == kind for item in sets)]
    nmi, seconds = mean_scores(records, "nmi"), mean_scores(records, "seconds")
    rows = []
    for method, of in ari.items():
        row: dict[str, Any] = {"method": method, "sets": len(of)}
        for kind in kinds:
            row[kind] = _mean(of, (item.name for item in sets if item.kind == kind))
        row |= {
            "all": _mean(of, of),
            "nmi": _mean(nmi[method], of),
            "seconds": _mean(seconds[method], of),
        }
        if method != "default" and "default" in ari:
            row["default"] = _mean(ari["default"], of)
        if method != "KMeans" and "KMeans" in ari:
            row["lost"] = f"{len(lost_to(ari, method, 'KMeans'))} of " + str(
                len(of.keys() & ari["KMeans"].keys())
            )
        rows.append(row)
    columns = [
        Column("method", "method"),
        Column("sets", "sets"),
        *(Column(kind, kind, ".3f") for kind in kinds),
        Column("all", "all", ".3f"),
        Column("default", "default on the same sets", ".3f"),
        Column("nmi", "NMI", ".3f"),
        Column("lost", "lost to KMeans"),
        Column("seconds", "seconds", ".2f"),
    ]
    notes = [
        "Mean adjusted Rand index by kind of set, over seeds and sets; of a method "
        "that was not tried everywhere, over its own sets. Lost: more than 0.01 below.",
        "default: gpc.cluster(X, K). Other methods of the library: on the partitions "
        "that it makes by default; their seconds include making these.",
        "scikit-learn: KMeans n_init=10; Ward to n = 10,000; GaussianMixture n_init=3; "
        "SpectralClustering with nearest neighbours, to n = 5,000. Text is tf-idf "
        "of the 2,000 terms in most documents, in rows of length 1, for Ward and "
        "GaussianMixture in 50 components; the library clusters it by cosine.",
    ]
    title = f"Sets {_NAMES[use]}: mean ARI"
    return Table(f"kinds_{use}", title, columns, rows, notes=notes)


def lost_to(ari: Scores, method: str, other: str, by: float = 0.01) -> list[str]:
    """Return the sets on which a method is below another by more than ``by``."""
    of, theirs = ari[method], ari[other]
    return [name for name in of if name in theirs and of[name] < theirs[name] - by]


def rank_table(scores: Scores, sets: list[str], name: str, words: str) -> Table:
    """Return the mean ranks as a table; none of its rows where there are too few."""
    columns = [Column("method", "method"), Column("rank", "mean rank", ".2f")]
    table = Table(name, f"Mean ranks, sets {words}", columns)
    ranks: Ranks | None = mean_ranks(scores, sets)
    if ranks is None:
        table.notes.append("Ranks need two methods and two sets that both have.")
        return table
    columns.append(Column("ari", "mean ARI on these", ".3f"))
    for method, rank in ranks.mean.items():
        value = _mean(scores[method], ranks.sets)
        table.rows.append({"method": method, "rank": rank, "ari": value})
    table.notes.append(
        f"Over the {len(ranks.sets)} sets that all these methods have. Two differ at "
        f"5% where their mean ranks are more than {ranks.difference:.2f} apart "
        f"(Nemenyi); Friedman's test that all are alike: p = {ranks.p:.1e}."
    )
    return table


def _values(ari: Scores, sets: list[QualitySet], use: str) -> Table:
    columns = [Column("set", "set"), Column("kind", "kind")]
    columns += [Column("n", "n", ",d"), Column("k", "K")]
    columns += [Column(method, method, ".3f") for method in ari]
    rows = [
        {"set": item.name, "kind": item.kind, "n": item.n, "k": item.k}
        | {method: of[item.name] for method, of in ari.items() if item.name in of}
        for item in sets
    ]
    return Table(f"values_{use}", f"Sets {_NAMES[use]}: ARI of each", columns, rows)


def claims(ari: Scores, sets: list[QualitySet], which: str) -> list[Claim]:
    """Return what the default must show on the sets held back."""
    enough = len(ari.get("default", {})) >= LEAST_SETS
    found = []
    for other in OUTSIDE:
        least = 0.10 if other == "KMeans" else 0.0
        words = f"by 0.10 or more above {other}" if least else f"above {other}"
        common = ari.get("default", {}).keys() & ari.get(other, {}).keys()
        if not common:
            measured, passed = "not in this run", None
        else:
            ours, theirs = _mean(ari["default"], common), _mean(ari[other], common)
            assert ours is not None
            assert theirs is not None
            measured = f"{ours:.3f} and {theirs:.3f} on {len(common)} sets"
            passed = ours - theirs >= least and ours > theirs if enough else None
        found.append(
            Claim(f"{which}: mean ARI of the default {words}", measured, passed)
        )
    if "default" in ari and "KMeans" in ari:
        lost = lost_to(ari, "default", "KMeans")
        common = ari["default"].keys() & ari["KMeans"].keys()
        share = len(lost) / max(1, len(common))
        found.append(
            Claim(
                f"{which}: at most 12% of the sets lost to KMeans by more than 0.01",
                f"{len(lost)} of {len(common)}: {', '.join(lost) or 'none'}",
                share <= 0.12 if enough else None,
            )
        )
    ringed = [item.name for item in sets if item.maker in RINGED]
    value = _mean(ari.get("default", {}), ringed)
    if value is not None:
        found.append(
            Claim(
                f"{which}: moons, circles and rings found with 0.9 in the mean",
                f"{value:.3f} on {len(ringed)} sets",
                value >= 0.9 if enough else None,
            )
        )
    return found
