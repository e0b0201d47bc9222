"""Lambda-consensus: R_n by round on the data of its paper, rounds 0 to 9."""

from __future__ import annotations

import statistics
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import gpu_consensus as gpc
from gpu_consensus.examples import load_example

from .suite import (
    Claim,
    Column,
    Context,
    Skipped,
    Table,
    collect_warnings,
    warning_notes,
)

_ROUNDS = (0, 1, 2, 5, 9)
_NEAR = 0.02  # "very similar" of two R_n
_NO_BETTER = 0.001

_COLUMNS = [
    Column("data", "data"),
    Column("clusterer", "clusterers"),
    Column("update", "update"),
    Column("scale", "scale"),
    Column("feedback", "feedback"),
    *(Column(f"consensus_{t}", f"consensus, t={t}", ".4f") for t in _ROUNDS),
    *(Column(f"clusterers_{t}", f"clusterers, t={t}", ".4f") for t in _ROUNDS),
    *(Column(f"pairwise_{t}", f"pairwise, t={t}", ".3f") for t in (0, 1, 5)),
    Column("better", "runs better / worse, t=1"),
]

_WHERE = (
    "needs --data-dir with vote.npz: X (435 x 16, yes 1, no 0, missing -1) and the "
    "classes y, UCI Congressional Voting Records"
)


@dataclass(frozen=True)
class _Features:
    name: str
    X: npt.NDArray[np.float64]
    y: npt.NDArray[Any]
    source: str


@dataclass(frozen=True)
class _Cell:
    """One row of the table."""

    data: _Features
    clusterer: str
    update: str
    scale: str | None
    feedback: str
    n_rounds: int


def lambda_table(context: Context) -> Table:
    """Measure R_n of the consensus and of its clusterers in every round."""
    data_sets, skipped = _load(context)
    table = Table("lambda", "lambda-consensus: R_n by round", _COLUMNS, skipped=skipped)
    messages: dict[str, int] = {}
    cells = list(_cells(context, data_sets))
    with context.progress("lambda", len(cells)) as advance:
        for cell in cells:
            with collect_warnings(messages):
                table.rows.append(_row(context, cell))
            advance(1, f"{cell.data.name} {cell.clusterer} {cell.update}")
    whole = not context.quick and {data.name for data in data_sets} == {"iris", "vote"}
    table.claims = list(_claims(table.rows, whole))
    table.notes = [
        *(f"{data.name}: {data.source}." for data in data_sets),
        f"{_n_clusterers(context)} clusterers, lambda 0.9; means over "
        f"{len(context.seeds)} seeds. consensus: R_n with the classes; clusterers: "
        "median of the clusterers' R_n with the classes; pairwise: mean R_n of two "
        "clusterers. t=0 is consensus without feedback.",
        "kmeans: a random projection to 3 dimensions each, consensus by kcc with "
        "utility c. prc: one Gaussian similarity of all dimensions, consensus by prc. "
        "scale None is the paper's literal form, rms our default.",
        "The paper shows its results as plots only, so there are no numbers to set "
        "beside these.",
        *warning_notes(messages),
    ]
    return table


def _n_clusterers(context: Context) -> int:
    return 10 if context.quick else 100


def _load(context: Context) -> tuple[list[_Features], list[Skipped]]:
    skipped = [
        Skipped("14cancer", "the third data set of the paper could not be obtained"),
    ]
    found = []
    for name in ("iris", "vote"):
        if name == "vote" and context.quick:
            skipped.append(Skipped(name, "not in this run (--quick)"))
            continue
        path = None if context.data_dir is None else context.data_dir / f"{name}.npz"
        if path is None or not path.is_file():
            if name == "vote":
                skipped.append(Skipped(name, _WHERE))
            else:
                example = load_example(name)
                found.append(_Features(name, example.X, example.y, "scikit-learn's"))
            continue
        try:
            with np.load(path, allow_pickle=False) as archive:
                X, y = archive["X"].astype(np.float64), archive["y"].ravel()
        except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
            skipped.append(Skipped(name, f"{path.name} cannot be used ({error})"))
            continue
        source = path.name
        if name == "vote":
            X[X < 0] = 0.5
            source += ", yes 1, no 0, missing 0.5 (the paper does not say how it did)"
        found.append(_Features(name, X, y, source))
    return found, skipped


def _cells(context: Context, data_sets: list[_Features]) -> Iterator[_Cell]:
    n_rounds = 2 if context.quick else 9
    for data in data_sets:
        for scale in (None, "rms"):
            for update in ("full", "truncated"):
                yield _Cell(data, "kmeans", update, scale, "consensus", n_rounds)
        if context.quick:
            continue
        # on vote nothing changes after round 1, and a round takes seconds
        n_prc = 1 if data.name == "vote" else n_rounds
        for feedback in ("consensus", "all"):
            yield _Cell(data, "prc", "similarities", None, feedback, n_prc)


def _row(context: Context, cell: _Cell) -> dict[str, Any]:
    data = cell.data
    runs = [
        gpc.lambda_consensus(
            data.X,
            len(np.unique(data.y)),
            0.9,
            cell.n_rounds,
            cell.update,
            n_clusterers=_n_clusterers(context),
            clusterer=cell.clusterer,
            scale=cell.scale,
            feedback=cell.feedback,
            method="prc" if cell.clusterer == "prc" else "kcc",
            stop_on_repeat=False,
            keep_ensembles=True,
            random_state=seed,
        )
        for seed in context.seeds
    ]
    consensus = np.array(
        [
            [
                gpc.metrics.adjusted_rand(data.y, labels)
                for labels in run.details["labels"]
            ]
            for run in runs
        ]
    )
    clusterers = np.array(
        [
            [_median(data.y, ensemble) for ensemble in run.details["ensembles"]]
            for run in runs
        ]
    )
    pairwise = np.array([run.details["pairwise"] for run in runs])
    gain = consensus[:, 1] - consensus[:, 0]
    return {
        "data": data.name,
        "clusterer": cell.clusterer,
        "update": cell.update,
        "scale": str(cell.scale),
        "feedback": cell.feedback,
        **_by_round("consensus", consensus, _ROUNDS),
        **_by_round("clusterers", clusterers, _ROUNDS),
        **_by_round("pairwise", pairwise, _ROUNDS),
        "better": f"{int((gain > 0).sum())} / {int((gain < 0).sum())}",
        "consensus_all": consensus.tolist(),
        "clusterers_all": clusterers.tolist(),
        "pairwise_all": pairwise.tolist(),
    }


def _by_round(
    name: str, values: npt.NDArray[np.float64], rounds: tuple[int, ...]
) -> dict[str, float | None]:
    return {
        f"{name}_{t}": float(values[:, t].mean()) if t < values.shape[1] else None
        for t in rounds
    }


def _median(y: npt.NDArray[Any], ensemble: gpc.Ensemble) -> float:
    return statistics.median(
        gpc.metrics.adjusted_rand(y, labels) for labels in ensemble.labels.T
    )


def _claims(rows: list[dict[str, Any]], whole: bool) -> Iterator[Claim]:
    kmeans = [row for row in rows if row["clusterer"] == "kmeans"]
    literal = [row for row in kmeans if row["scale"] == "None"]
    prc = [row for row in rows if row["clusterer"] == "prc"]
    for what, who in (("clusterers", "median clusterer"), ("consensus", "consensus")):
        for scale in ("None", "rms"):
            some = [row for row in kmeans if row["scale"] == scale]
            yield _decide(
                f"k-means, scale {scale}: the {who} is better in round 1 than in "
                "round 0 (Figure 1)",
                some,
                whole,
                partial(_gain, what),
                lambda gain: gain > 0,
            )
    yield _compare(
        f"k-means: the last consensus of both updates within {_NEAR} (Figure 1)",
        _pairs_of(kmeans, "update"),
        whole,
        lambda a, b: _last(a) - _last(b),
        lambda gap: abs(gap) <= _NEAR,
    )
    yield _compare(
        "k-means, scale None: clusterers agree sooner without truncation (pairwise, "
        "t=5, full minus truncated; the paper: on two of three data sets)",
        _pairs_of([row for row in literal if row["pairwise_5"] is not None], "update"),
        whole,
        lambda a, b: float(a["pairwise_5"] - b["pairwise_5"]),
        lambda gap: gap > 0,
    )
    yield _compare(
        f"prc: the last consensus of both feedbacks within {_NEAR} (Figure 2)",
        _pairs_of(prc, "feedback"),
        whole,
        lambda a, b: _last(a) - _last(b),
        lambda gap: abs(gap) <= _NEAR,
    )
    yield _decide(
        "prc on vote: clusterers differ so little that the consensus is no better than "
        f"the median clusterer, t=0, to {_NO_BETTER} (section IV)",
        [row for row in prc if row["data"] == "vote"],
        whole,
        lambda row: float(row["consensus_0"] - row["clusterers_0"]),
        lambda gain: gain <= _NO_BETTER,
    )


def _gain(what: str, row: dict[str, Any]) -> float:
    return float(row[f"{what}_1"] - row[f"{what}_0"])


def _last(row: dict[str, Any]) -> float:
    return statistics.fmean(run[-1] for run in row["consensus_all"])


def _pairs_of(
    rows: list[dict[str, Any]], key: str
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Pair the rows that differ only in ``key``, in the order of the table."""
    names = {"data", "clusterer", "update", "scale", "feedback"} - {key}
    return [
        (a, b)
        for i, a in enumerate(rows)
        for b in rows[i + 1 :]
        if all(a[name] == b[name] for name in names)
    ]


def _decide(
    claim: str,
    rows: list[dict[str, Any]],
    whole: bool,
    measure: Callable[[dict[str, Any]], float],
    good: Callable[[float], bool],
) -> Claim:
    """Judge a claim by a number per row; only the whole measurement decides it."""
    if not rows:
        return Claim(claim, "not run", None)
    numbers = [measure(row) for row in rows]
    measured = "; ".join(
        f"{_name(row)}: {number:+.4f}"
        for row, number in zip(rows, numbers, strict=True)
    )
    return Claim(claim, measured, all(map(good, numbers)) if whole else None)


def _compare(
    claim: str,
    pairs: list[tuple[dict[str, Any], dict[str, Any]]],
    whole: bool,
    measure: Callable[[dict[str, Any], dict[str, Any]], float],
    good: Callable[[float], bool],
) -> Claim:
    """As ``_decide``, by a number per pair of rows."""
    second = {id(a): b for a, b in pairs}
    return _decide(
        claim,
        [a for a, _ in pairs],
        whole,
        lambda row: measure(row, second[id(row)]),
        good,
    )


def _name(row: dict[str, Any]) -> str:
    return f"{row['data']} {row['update']}, scale {row['scale']}, {row['feedback']}"
