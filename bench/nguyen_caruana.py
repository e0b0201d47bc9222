"""Nguyen and Caruana's comparison: fourteen methods, six measures, two generators."""

from __future__ import annotations

import statistics
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import gpu_consensus as gpc
from gpu_consensus.examples import load_example

from .suite import Column, Context, Skipped, Table, collect_warnings, warning_notes

_SAME = 1e-12
_QUICK_STARTS = 10

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "IVC": ("ivc", {"n_init": 100}),
    "IPVC": ("ipvc", {"n_init": 100}),
    "IPC": ("ipc", {"n_init": 100}),
    "BEST": ("best", {}),
    "FC": ("furthest", {}),
    "HAC": ("hac", {}),
    "CSPA": ("cspa", {}),
    "HGPA": ("hgpa", {}),
    "MCLA": ("mcla", {}),
    "EM": ("em", {}),
    "QMI": ("qmi", {}),
    "CCC": ("correspondence", {"variant": "constrained"}),
    "CCU": ("correspondence", {"variant": "unconstrained"}),
    "CCSVD": ("correspondence", {"variant": "svd"}),
}
"""The paper's name, ours, and options; in the order of its Table 2."""

MEASURES = {
    "variation_of_information": ("VI", False),
    "van_dongen": ("van Dongen", False),
    "rand_distance": ("Rand distance", False),
    "nmi": ("NMI", True),
    "accuracy": ("accuracy", True),
    "compactness": ("compactness", False),
}
"""Our name, the heading, and whether more is better; in the order of Table 2."""

_AGREEMENT = tuple(MEASURES)[:4]

GENERATORS = {"k-means": "restarts", "feature weighting": "zipf"}
"""The paper's name and our strategy."""

_CELLS = [Column("data", "data"), Column("generator", "generator")]
_NUMBERS = [Column(key, title, ".4f") for key, (title, _) in MEASURES.items()]


@dataclass(frozen=True)
class _Data:
    name: str
    X: npt.NDArray[np.float64]
    y: npt.NDArray[Any]
    n_clusters: int


def comparison_tables(context: Context) -> Iterator[Table]:
    """Yield every cell, the averages (Figure 3) and the wins (Table 2)."""
    data_sets, skipped = _load_all(context)
    absent = [
        Skipped(name, f"this release has no {ours!r}")
        for name, (ours, _) in METHODS.items()
        if ours not in gpc.METHODS
    ]
    names = [name for name, (ours, _) in METHODS.items() if ours in gpc.METHODS]
    n_partitions = 30 if context.quick else 200
    cells = Table(
        "nguyen_caruana",
        "Nguyen and Caruana: six measures of the fourteen methods",
        [
            *_CELLS,
            Column("method", "method"),
            *_NUMBERS,
            Column("clusters", "clusters"),
            Column("seconds", "s", ".2f"),
        ],
        skipped=skipped + absent,
    )
    messages: dict[str, int] = {}
    work = [(data, name) for data in data_sets for name in GENERATORS]
    with context.progress("nguyen_caruana", len(work) * len(names)) as advance:
        for data, generator in work:
            ensemble = gpc.generate_partitions(
                data.X,
                n_partitions,
                GENERATORS[generator],
                n_clusters=data.n_clusters,
                random_state=context.seeds[0],
            )
            for name in names:
                with collect_warnings(messages):
                    row = _row(context, data, ensemble, name)
                head = {"data": data.name, "generator": generator, "method": name}
                cells.rows.append({**head, **row})
                advance(1, f"{data.name} {generator} {name}")
    cells.notes = _notes(data_sets, n_partitions) + warning_notes(messages)
    yield cells
    yield _averages(cells.rows, names)
    yield _wins(cells.rows, names)


def _row(
    context: Context, data: _Data, ensemble: gpc.Ensemble, name: str
) -> dict[str, Any]:
    """Run one method and measure what comes out."""
    ours, options = METHODS[name]
    if context.quick and "n_init" in options:
        options = {"n_init": _QUICK_STARTS}
    begin = time.perf_counter()
    if ours == "best":
        # given an objective, the paper says: each measure has a best of its own
        found = {key: gpc.best(ensemble, key).labels for key in _AGREEMENT}
    else:
        result = gpc.METHODS[ours](
            ensemble, data.n_clusters, random_state=context.seeds[0], **options
        )
        found = dict.fromkeys(_AGREEMENT, result.labels)
    seconds = time.perf_counter() - begin
    labels = found["nmi"]
    row: dict[str, Any] = {
        key: gpc.metrics.consensus_criterion(ensemble, found[key], key)
        for key in _AGREEMENT
    }
    row["accuracy"] = gpc.metrics.purity(data.y, labels)  # Eq. 12
    row["compactness"] = gpc.metrics.compactness(data.X, labels)
    return {**row, "clusters": len(np.unique(labels)), "seconds": seconds}


def _notes(data_sets: list[_Data], n_partitions: int) -> list[str]:
    described = "; ".join(
        f"{data.name}: {data.X.shape[0]} objects, {data.X.shape[1]} features, "
        f"{len(np.unique(data.y))} classes, K = {data.n_clusters}"
        for data in data_sets
    )
    return [
        f"{described}. {n_partitions} partitions each, all with K clusters, as the "
        "consensus. Features are divided by their standard deviation. Of the paper's "
        "data only covertype can be had, as another sample, so its numbers do not "
        "stand beside ours.",
        "VI (bits), van Dongen, Rand distance and NMI are means over the ensemble (Eq. "
        "4), accuracy is purity (Eq. 12), compactness Eq. 11. IVC, IPVC and IPC take "
        f"the best of 100 starts ({_QUICK_STARTS} with --quick). BEST is, for each of "
        "the four means, the partition that is best by it; accuracy and compactness "
        "are those of the best by NMI. HAC is average linkage.",
    ]


def _averages(rows: list[dict[str, Any]], names: list[str]) -> Table:
    """Average every measure over the cells, as Figure 3 draws it."""
    table = Table(
        "nguyen_caruana_averages",
        "Nguyen and Caruana, Figure 3: averages over data and generators",
        [Column("method", "method"), *_NUMBERS, Column("seconds", "s", ".2f")],
    )
    for name in names:
        own = [row for row in rows if row["method"] == name]
        if own:
            means = {
                key: statistics.fmean(row[key] for row in own)
                for key in (*MEASURES, "seconds")
            }
            table.rows.append({"method": name, **means})
    return table


def _wins(rows: list[dict[str, Any]], names: list[str]) -> Table:
    """Count how often each method comes first, in the form of Table 2."""
    titles = [Column(key, title) for key, (title, _) in MEASURES.items()]
    table = Table(
        "nguyen_caruana_wins",
        "Nguyen and Caruana, Table 2: how often each method comes first",
        [Column("method", "method"), *titles, Column("total", "total")],
        notes=[
            "Out of the pairs of data and generator; all that are first to "
            f"{_SAME:.0e} count, so a column may add up to more."
        ],
    )
    cells = sorted({(row["data"], row["generator"]) for row in rows})
    wins = {name: dict.fromkeys(MEASURES, 0) for name in names}
    for cell in cells:
        own = [row for row in rows if (row["data"], row["generator"]) == cell]
        for key, (_, is_higher) in MEASURES.items():
            choose: Callable[..., float] = max if is_higher else min
            top = choose(row[key] for row in own)
            for row in own:
                wins[row["method"]][key] += abs(row[key] - top) <= _SAME
    for name in names if cells else []:
        counts = {key: f"{n}/{len(cells)}" for key, n in wins[name].items()}
        total = f"{sum(wins[name].values())}/{len(cells) * len(MEASURES)}"
        table.rows.append({"method": name, **counts, "total": total})
    return table


def _load_all(context: Context) -> tuple[list[_Data], list[Skipped]]:
    """Return the data sets that can be had, and why the others cannot."""
    n_rows = 200 if context.quick else 1000
    if context.data_dir is None:
        names = ["iris"] if context.quick else ["iris", "wine", "digits"]
        found = []
        for name in names:
            example = load_example(name)
            n_classes = len(np.unique(example.y))
            found.append(_sample(name, example.X, example.y, n_classes, n_rows))
        files = ", ".join(f"{file}.npz" for file, _ in _FILES.values())
        reason = f"needs --data-dir with {files} (X: features, y: classes)"
        return found, [Skipped("covertype, pendigits, vote", reason)]
    found, skipped = [], []
    for name, (file, n_clusters) in _FILES.items():
        path = context.data_dir / f"{file}.npz"
        try:
            with np.load(path, allow_pickle=False) as archive:
                X, y = archive["X"].astype(np.float64), archive["y"].ravel()
        except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
            reason = getattr(error, "strerror", None) or str(error)
            skipped.append(Skipped(name, f"{path.name} cannot be used ({reason})"))
            continue
        if name == "vote":
            X[X < 0] = 0.5  # neither yes nor no
        found.append(_sample(name, X, y, n_clusters, n_rows))
    return found, skipped


_FILES = {
    "covertype": ("covtype_15120", 15),
    "pendigits": ("pendigits", 10),
    "vote": ("vote", 2),
}
"""Data set: its file, and K."""


def _sample(
    name: str,
    X: npt.NDArray[np.float64],
    y: npt.NDArray[Any],
    n_clusters: int,
    n_rows: int,
) -> _Data:
    """Draw rows, drop columns that do not vary, bring the others to one scale."""
    if len(X) > n_rows:
        rows = np.random.default_rng(0).choice(len(X), n_rows, replace=False)
        X, y = X[np.sort(rows)], y[np.sort(rows)]
    spread = X.std(axis=0)
    return _Data(name, X[:, spread > 0] / spread[spread > 0], y, n_clusters)
