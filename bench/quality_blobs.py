"""The part "blobs" of ``bench quality``: easy clusters in great numbers.

Twelve Gaussian blobs in twenty dimensions, of equal size and of sizes up to 20 and 50
to 1. A clustering method has to find them at any n; what the default takes is told
candidate by candidate.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import gpu_consensus as gpc

from .memory import peak_bytes
from .quality_records import Record
from .suite import Claim, Column, Skipped, Table

K, D, DEVIATION = 12, 20, 4.0
METHODS = ("default", "kcc", "KMeans")
"""What is tried; kcc stands for method="kcc" on features."""

SLACK = 0.002
"""How far below KMeans the default may end, whatever the seed."""

SECONDS = 30.0
"""What the default may take for a million objects."""


@dataclass(frozen=True)
class Blobs:
    """Blobs of n objects, the largest ``ratio`` times the smallest."""

    n: int
    ratio: int = 1

    @property
    def name(self) -> str:
        """Return the name of the set."""
        return f"blobs-{self.n}" + (f"-{self.ratio}to1" if self.ratio > 1 else "")

    @property
    def claimed(self) -> bool:
        """Whether the default has to be as good as KMeans."""
        return self.n >= 100_000

    def make(self, seed: int) -> tuple[Any, Any]:
        """Return features (n, 20), in float64, and the blob of each object."""
        from sklearn.datasets import make_blobs

        share = float(self.ratio) ** -np.linspace(0.0, 1.0, K)
        sizes = np.floor(self.n * share / share.sum()).astype(int)
        sizes[0] += self.n - sizes.sum()
        rng = np.random.default_rng([seed, 1879])
        centres = None if self.ratio == 1 else rng.uniform(-10.0, 10.0, (K, D))
        X, y = make_blobs(
            self.n if centres is None else sizes.tolist(),
            n_features=D,
            centers=K if centres is None else centres,
            cluster_std=DEVIATION,
            random_state=seed,
        )
        return X, y


BLOBS = (
    Blobs(1_000),
    Blobs(10_000),
    Blobs(100_000),
    Blobs(100_000, 20),
    Blobs(100_000, 50),
    Blobs(1_000_000),
    Blobs(1_000_000, 20),
    Blobs(1_000_000, 50),
)


def run_blobs(of: str, method: str, seed: int) -> dict[str, Any]:
    """Run a method on blobs: ARI, seconds, memory above the features, candidates."""
    (item,) = (item for item in BLOBS if item.name == of)
    X, y = item.make(seed)
    features, before = X.nbytes, peak_bytes(reset=True)
    begin = time.perf_counter()
    told: dict[str, Any] = {}
    if method == "KMeans":
        from sklearn.cluster import KMeans

        labels = KMeans(K, n_init=10, random_state=seed).fit_predict(X)
    else:
        name = "auto" if method == "default" else method
        result = gpc.cluster(X, K, method=name, random_state=seed)
        labels = result.labels
        made, found = result.details["seconds"]
        told = {"method_name": result.method, "made": made, "consensus": found}
        if method == "default":
            told["candidates"] = {
                one["name"]: one["seconds"]
                for one in result.details["candidates"]
                if "seconds" in one
            }
    return {
        "ari": float(gpc.metrics.adjusted_rand(y, labels)),
        "seconds": round(time.perf_counter() - begin, 4),
        "features": features / 1e6,
        "memory": (peak_bytes() - before) / 1e6,
        **told,
    }


def blob_tables(records: Sequence[Record]) -> list[Table]:
    """Return ARI beside KMeans for every seed, and what each candidate takes."""
    skipped = [
        Skipped(f"{record['method']} on {record['set']}", record["reason"])
        for record in records
        if "reason" in record
    ]
    runs = [record for record in records if "reason" not in record]
    if not runs:
        return []
    ari = Table(
        "blobs",
        f"{K} blobs in {D} dimensions beside KMeans",
        [
            Column("set", "set"),
            Column("method", "method"),
            Column("seeds", "seeds"),
            Column("mean", "mean ARI", ".4f"),
            Column("lowest", "lowest ARI", ".4f"),
            Column("behind", "most behind KMeans", ".4f"),
            Column("seconds", "seconds", ".2f"),
            Column("features", "features, MB", ".1f"),
            Column("memory", "peak of memory beyond them, MB", ".1f"),
        ],
        list(_rows(runs)),
        claims=list(_claims(runs)),
        skipped=skipped,
        notes=[
            f"make_blobs, cluster_std={DEVIATION:g}; NtoM: sizes fall geometrically, "
            "the largest blob N times the smallest. KMeans has n_init=10; most behind: "
            "KMeans' ARI minus this method's with the same seed, the largest of all.",
        ],
    )
    return [ari, _candidates(runs)]


def _of(runs: Sequence[Record], name: str, method: str) -> dict[int, Record]:
    return {r["seed"]: r for r in runs if (r["set"], r["method"]) == (name, method)}


def _behind(runs: Sequence[Record], name: str, method: str) -> float | None:
    """Return how far a method is behind KMeans for its worst seed."""
    ours, theirs = _of(runs, name, method), _of(runs, name, "KMeans")
    seeds = ours.keys() & theirs.keys()
    return max((theirs[s]["ari"] - ours[s]["ari"] for s in seeds), default=None)


def _rows(runs: Sequence[Record]) -> Iterator[dict[str, Any]]:
    for item in BLOBS:
        for method in METHODS:
            found = list(_of(runs, item.name, method).values())
            if found:
                values = [record["ari"] for record in found]
                row = {"set": item.name, "method": method, "seeds": len(found)}
                if method != "KMeans":
                    row["behind"] = _behind(runs, item.name, method)
                yield row | {
                    "mean": float(np.mean(values)),
                    "lowest": min(values),
                    "seconds": float(np.mean([r["seconds"] for r in found])),
                    "features": found[0]["features"],
                    "memory": max(r["memory"] for r in found),
                }


def _claims(runs: Sequence[Record]) -> Iterator[Claim]:
    claimed = [item.name for item in BLOBS if item.claimed]
    behind = {name: _behind(runs, name, "default") for name in claimed}
    known = {name: value for name, value in behind.items() if value is not None}
    text = f"blobs: the default at most {SLACK} behind KMeans for every seed"
    if not known:
        yield Claim(text, "not in this run", None)
        return
    worst = max(known, key=lambda name: known[name])
    measured = f"{known[worst]:.4f} at most, on {worst}"
    yield Claim(text, measured, known[worst] <= SLACK)
    large = [r for r in runs if r["method"] == "default" and r["n"] == 1_000_000]
    if large:
        seconds = max(record["seconds"] for record in large)
        yield Claim(
            f"blobs: the default takes at most {SECONDS:g} s for a million objects",
            f"{seconds:.1f} s at most",
            seconds <= SECONDS,
        )
        memory = max(record["memory"] / record["features"] for record in large)
        yield Claim(
            "blobs: memory of the default within twice the features, these included",
            f"{1 + memory:.2f} times",
            1 + memory <= 2,
        )


def _candidates(runs: Sequence[Record]) -> Table:
    equal = [item for item in BLOBS if item.ratio == 1]
    found = {item: list(_of(runs, item.name, "default").values()) for item in equal}
    names = dict.fromkeys(
        name for of in found.values() for record in of for name in record["candidates"]
    )
    table = Table(
        "candidates",
        "What each candidate of the default takes",
        [
            Column("n", "n", ",d"),
            Column("made", "making partitions, s", ".2f"),
            *(Column(name, f"{name}, s", ".2f") for name in names),
            Column("consensus", "auto, s", ".2f"),
            Column("kcc", "method='kcc', s", ".2f"),
            Column("won", "won"),
        ],
        notes=["Means over seeds; blobs of equal size."],
    )
    for item, of in found.items():
        if not of:
            continue
        row: dict[str, Any] = {"n": item.n}
        for key in ("made", "consensus"):
            row[key] = float(np.mean([record[key] for record in of]))
        for name in names:
            taken = [r["candidates"][name] for r in of if name in r["candidates"]]
            row[name] = float(np.mean(taken)) if taken else None
        alone = [r["consensus"] for r in _of(runs, item.name, "kcc").values()]
        row["kcc"] = float(np.mean(alone)) if alone else None
        winners = [record["method_name"] for record in of]
        row["won"] = ", ".join(
            f"{name.removeprefix('auto:')} {winners.count(name)}"
            for name in sorted(set(winners))
        )
        table.rows.append(row)
    return table
