"""Whether the number of clusters is found, and how often one is found in nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import gpu_consensus as gpc

from . import select_k_data as data
from .features import load_features
from .select_k_times import times_table
from .suite import Claim, Column, Context, Skipped, Table

NAME = "select-k"

_SEED = 20_261
_NULL_REPEATS = 10  # for each seed
_SKEWED_REPEATS = 5
_LABEL_KS = (2, 3, 4, 5, 6)


def run(context: Context) -> Iterator[Table]:
    """Yield a table for each kind of data."""
    yield _one_mode(context)
    yield _separated(context)
    yield _skewed(context)
    yield _real(context)
    yield _labels(context)
    yield times_table(context)


def _rng(*path: int) -> np.random.Generator:
    return np.random.default_rng([_SEED, *path])


def _select(X: Any, seed: int, **options: Any) -> gpc.Selection:
    return gpc.select_n_clusters(X, n_jobs=1, random_state=seed, **options)


def _share(part: int, total: int) -> str:
    return f"{part} of {total}"


def _one_mode(context: Context) -> Table:
    """Count how often one mode is called structure."""
    table = Table(
        "one mode",
        "Data without clusters: how often structure is found",
        [
            Column("data", "data"),
            Column("runs", "data sets"),
            Column("found", "called structure"),
            Column("found_025", "with alpha = 0.025"),
            Column("bound", "at most, of 100"),
            Column("draws", "draws, mean", ".1f"),
            Column("seconds", "s, mean", ".2f"),
        ],
        notes=[
            f"{data.N} objects in 2, 5 and 20 dimensions in turn, candidates 2 to 10, "
            "39 draws. The bounds are those set before this run.",
            "The principal components of a square that is turned against the columns "
            "have no direction of their own: it takes the null of flattest axes, and "
            "without it 83 of 100 were called structure.",
        ],
    )
    makers = [(name, make, 3) for name, make in data.ONE_MODE.items()]
    makers += [(name, make, 13) for name, make in data.UNIFORM.items()]
    repeats = len(context.seeds) * (1 if context.quick else _NULL_REPEATS)
    with context.progress("one mode", len(makers) * repeats) as advance:
        for place, (name, make, bound) in enumerate(makers):
            p_values, draws, begin = [], [], time.perf_counter()
            for repeat in range(repeats):
                d = data.DIMENSIONS[repeat % len(data.DIMENSIONS)]
                found = _select(make(_rng(0, place, repeat), d), repeat)
                p_values.append(found.p_value)
                null = found.details["null"].values()
                draws.append(sum(len(drawn) for drawn in null))
                advance()
            wrong = int((np.array(p_values) <= 0.05).sum())
            row = {
                "data": name,
                "runs": repeats,
                "found": wrong,
                "found_025": int((np.array(p_values) <= 0.025).sum()),
                "bound": bound,
                "draws": float(np.mean(draws)),
                "seconds": (time.perf_counter() - begin) / repeats,
            }
            table.rows.append(row)
            table.claims.append(
                Claim(
                    f"{name}: called structure in at most {bound} of 100",
                    _share(wrong, repeats),
                    wrong <= bound / 100 * repeats,
                )
            )
    return table


_Cell = tuple[str, Sequence[tuple[int, int, str]], float, float]


def _count(
    context: Context, table: Table, cells: Sequence[_Cell], path: int, repeats: int
) -> dict[str, tuple[int, int, int]]:
    """Fill rows by cells; return right answers, tests passed and runs by name."""
    totals: dict[str, tuple[int, int, int]] = {}
    n_runs = sum(len(cases) for _, cases, _, _ in cells) * repeats
    with context.progress(table.name, n_runs) as advance:
        for place, (name, cases, apart, ratio) in enumerate(cells):
            answers, begin = [], time.perf_counter()
            for number, (k, d, layout) in enumerate(cases):
                for repeat in range(repeats):
                    rng = _rng(path, place, number, repeat)
                    X, _ = data.blobs(rng, k, d, apart, layout, ratio)
                    found = _select(X, repeat)
                    answers.append((found.n_clusters - k, found.best - k))
                    advance()
            off, before = np.array(answers).T
            right, tested = int((off == 0).sum()), int((off == before).sum())
            totals[name] = (right, tested, len(off))
            table.rows.append(
                {
                    "data": name,
                    "runs": len(off),
                    "right": right,
                    "share": right / len(off),
                    "missed": len(off) - tested,
                    "fewer": int(((off == before) & (off < 0)).sum()),
                    "more": int((off > 0).sum()),
                    "seconds": (time.perf_counter() - begin) / len(off),
                }
            )
    return totals


_COUNTED = [
    Column("data", "data"),
    Column("runs", "data sets"),
    Column("right", "right"),
    Column("share", "share", ".3f"),
    Column("missed", "no structure found"),
    Column("fewer", "too few"),
    Column("more", "too many"),
    Column("seconds", "s, mean", ".2f"),
]


def _separated(context: Context) -> Table:
    """Count right answers for clusters of one size."""
    layouts = data.LAYOUTS
    cells: list[_Cell] = []
    for apart, largest in ((7.0, 8), (4.0, 6)):
        for d in data.DIMENSIONS:
            ks = range(2, largest + 1)
            cases = [(k, d, layouts[(k + d) % 2]) for k in ks]
            cells.append(
                (f"{apart:g} sd, K = 2 to {largest}, d = {d}", cases, apart, 1)
            )
    table = Table("separated", "Clusters of one size", _COUNTED)
    repeats = len(context.seeds) if not context.quick else 1
    totals = _count(context, table, cells, 1, repeats)
    for words in ("7 sd", "4 sd"):
        mine = [value for name, value in totals.items() if name.startswith(words)]
        right, runs = sum(v[0] for v in mine), sum(v[2] for v in mine)
        table.claims.append(
            Claim(
                f"{words} apart: right in at least 97%",
                f"{_share(right, runs)}, {right / runs:.1%}",
                right >= 0.97 * runs,
            )
        )
    table.notes.append(_layout_note())
    return table


def _layout_note() -> str:
    return (
        f"{data.N} objects, unit deviations, candidates 2 to 10. Centres: every one so "
        "far from its nearest (near), or only the nearest two so far apart (spread); "
        "one or the other by K and d."
    )


def _skewed(context: Context) -> Table:
    """Count right answers for clusters of sizes 20:1."""
    table = Table("unequal", "Clusters of sizes 20:1, 7 sd apart", _COUNTED)
    cells: list[_Cell] = [
        (
            f"K = 3 to 6, d = 2 and 5, {layout}",
            [(k, d, layout) for k in range(3, 7) for d in (2, 5)],
            7.0,
            20.0,
        )
        for layout in data.LAYOUTS
    ]
    twice = [(2, d, "near") for d in (2, 5)]
    repeats = len(context.seeds)
    few = repeats // 2 if not context.quick else 1
    totals = _count(context, table, cells, 2, max(few, 1))
    two = "K = 2, d = 2 and 5"
    more = repeats * (1 if context.quick else _SKEWED_REPEATS)
    totals |= _count(context, table, [(two, twice, 7.0, 20.0)], 3, more)
    wide: list[_Cell] = [
        ("K = 3 to 6, d = 20", [(k, 20, "near") for k in range(3, 7)], 7.0, 20.0)
    ]
    _count(context, table, wide, 4, max(few // 2, 1))
    for layout in data.LAYOUTS:
        (name,) = (name for name in totals if name.endswith(layout))
        right, _, runs = totals[name]
        table.claims.append(
            Claim(
                f"sizes 20:1, d <= 5, K = 3 to 6, {layout}: right in at least 92%",
                f"{_share(right, runs)}, {right / runs:.1%}",
                right >= 0.92 * runs,
            )
        )
    _, tested, runs = totals[two]
    table.claims.append(
        Claim(
            "sizes 20:1, K = 2: the test finds structure in at least 88%",
            f"{_share(tested, runs)}, {tested / runs:.1%}",
            tested >= 0.88 * runs,
        )
    )
    table.notes.append(
        "Sizes fall geometrically, the largest 20 times the smallest; of two clusters "
        "the smaller has 19 objects. d = 20 has no bound: the smallest cluster is "
        "known to be missed."
    )
    return table


_Check = Callable[[gpc.Selection], bool]
_SETS: dict[str, tuple[str, bool, _Check]] = {
    "iris": (
        "3, with 2 among the alternatives",
        False,
        lambda s: s.n_clusters == 3 and 2 in s.alternatives,
    ),
    "wine": ("3", True, lambda s: s.n_clusters == 3),
    "breast_w": ("2", False, lambda s: s.n_clusters == 2),
    "digits": ("9 to 11", False, lambda s: 9 <= s.n_clusters <= 11),
}
"""What is expected, and whether columns are brought to unit deviation."""


def _real(context: Context) -> Table:
    """Compare with the classes of known sets."""
    table = Table(
        "sets",
        "Sets with known classes",
        [
            Column("set", "set"),
            Column("n", "n"),
            Column("d", "features"),
            Column("expected", "expected"),
            Column("answers", "answers, one for each seed"),
            Column("others", "alternatives"),
            Column("seconds", "s, mean", ".2f"),
        ],
        notes=["Columns of wine have unit deviation; candidates 2 to 11."],
    )
    seeds = context.seeds[:1] if context.quick else context.seeds
    names = [n for n in _SETS if n != "digits"] if context.quick else list(_SETS)
    for name in names:
        expected, scaled, check = _SETS[name]
        claim = f"{name}: {expected}, for most seeds"
        try:
            X = _features(context, name)
        except ValueError as error:
            table.skipped.append(Skipped(name, str(error)))
            table.claims.append(Claim(claim, "not in this run", None))
            continue
        X = X / X.std(axis=0) if scaled else X
        begin = time.perf_counter()
        mine = seeds[:3] if name == "digits" else seeds  # which takes long
        found = [_select(X, seed, candidates=range(2, 12)) for seed in mine]
        seconds = (time.perf_counter() - begin) / len(mine)
        answers = ", ".join(str(one.n_clusters) for one in found)
        others = "; ".join(
            dict.fromkeys(", ".join(map(str, one.alternatives)) for one in found)
        )
        table.rows.append(
            {
                "set": name,
                "n": X.shape[0],
                "d": X.shape[1],
                "expected": expected,
                "answers": answers,
                "others": others or "none",
                "seconds": seconds,
            }
        )
        right = sum(check(one) for one in found)
        measured = f"{_share(right, len(found))} seeds"
        table.claims.append(Claim(claim, measured, right > len(found) / 2))
    return table


def _features(context: Context, name: str) -> Any:
    if name == "digits":
        from sklearn.datasets import load_digits

        return load_digits().data
    if context.data_dir is None and name in ("iris", "wine"):
        from sklearn.datasets import load_iris, load_wine

        return (load_iris if name == "iris" else load_wine)().data
    return np.asarray(load_features(context, name).X, dtype=np.float64)


def _labels(context: Context) -> Table:
    """Count right answers from ensembles."""
    table = Table(
        "labels",
        "Labels alone: ensembles of 7 sd clusters",
        [
            Column("labels", "labels of the partitions"),
            Column("r", "partitions"),
            Column("runs", "ensembles"),
            Column("right", "right"),
            Column("near", "off by one"),
            Column("seconds", "s, mean", ".2f"),
        ],
        notes=[
            f"{data.N} objects in 5 dimensions, K = 2 to 6, every centre 7 sd from its "
            "nearest; candidates 2 to 10. Graphs of 15 nearest neighbours for Louvain.",
        ],
    )
    repeats = max(len(context.seeds) // 2, 1) if not context.quick else 1
    ks = _LABEL_KS[:2] if context.quick else _LABEL_KS
    with context.progress("labels", len(data.ENSEMBLES) * len(ks) * repeats) as advance:
        for place, (kind, r) in enumerate(data.ENSEMBLES.items()):
            claim = f"labels, {kind}: right in at least 90%"
            try:
                off, begin = [], time.perf_counter()
                for k in ks:
                    for repeat in range(repeats):
                        rng = _rng(5, place, k, repeat)
                        X, _ = data.blobs(rng, k, 5, 7.0, "near")
                        ens = data.ensemble(kind, X, k, rng)
                        off.append(_select(ens, repeat).n_clusters - k)
                        advance()
            except ImportError as error:
                table.skipped.append(Skipped(f"ensembles of {kind}", str(error)))
                table.claims.append(Claim(claim, "not in this run", None))
                continue
            right = int((np.array(off) == 0).sum())
            table.rows.append(
                {
                    "labels": kind,
                    "r": r,
                    "runs": len(off),
                    "right": right,
                    "near": int((np.abs(off) == 1).sum()),
                    "seconds": (time.perf_counter() - begin) / len(off),
                }
            )
            measured = f"{_share(right, len(off))}, {right / len(off):.1%}"
            table.claims.append(Claim(claim, measured, right >= 0.9 * len(off)))
    return table
