"""The picture of ``bench quality``: mean ranks, and ARI by kind of set."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from .quality_methods import OUTSIDE
from .quality_ranks import critical_difference
from .quality_sets import KINDS


def draw_quality(result: dict[str, Any], path: Path) -> None:
    """Draw mean ranks with critical differences, and beside them ARI by kind.

    Parameters
    ----------
    result : dict
        What the page is made from; sets held back are drawn, else those to decide on.
    path : Path
        Picture to write; its suffix says in which format.
    """
    tables = {table["name"]: table for table in result["tables"]}
    use = next((u for u in ("fresh", "hold", "decide") if f"ranks_{u}" in tables), None)
    if use is None or not tables[f"ranks_{use}"]["rows"]:
        raise ValueError("--picture: two methods on two sets are needed to draw ranks.")
    check_matplotlib()
    from matplotlib.figure import Figure

    ranks = tables[f"ranks_{use}"]["rows"]
    kinds = {row["method"]: row for row in tables[f"kinds_{use}"]["rows"]}
    methods = [row["method"] for row in ranks]
    at = list(range(len(methods)))
    figure = Figure(figsize=(10, 1.6 + 0.28 * len(methods)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    n_sets = _n_sets(tables[f"values_{use}"]["rows"], methods)
    half = critical_difference(len(methods), n_sets) / 2
    colour = {m: "tab:orange" if m in OUTSIDE else "tab:blue" for m in methods}
    colour["default"] = "tab:red"
    for y, row in zip(at, ranks, strict=True):
        shade = colour[row["method"]]
        left.errorbar(row["rank"], y, xerr=half, fmt="o", color=shade, capsize=3)
    left.set(
        yticks=at,
        yticklabels=methods,
        xlabel="mean rank, 1 is best; bars that do not meet differ at 5%",
    )
    left.invert_yaxis()
    means = [row["ari"] for row in ranks]
    right.barh(at, means, color=[colour[m] for m in methods], alpha=0.35, height=0.7)
    for kind, marker in zip(KINDS, "os^Dv*", strict=True):
        points = [(kinds[m].get(kind), y) for m, y in zip(methods, at, strict=True)]
        shown = [(x, y) for x, y in points if x is not None]
        if shown:
            right.plot(*zip(*shown, strict=True), marker, markersize=4, label=kind)
    right.set(xlabel="mean ARI; marks: by kind of set", xlim=(-0.05, 1.02))
    right.tick_params(labelleft=True)
    figure.legend(fontsize="small", ncols=len(KINDS), loc="outside upper right")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    words = "to decide on" if use == "decide" else "held back"
    figure.suptitle(f"{n_sets} sets {words}", x=0.01, ha="left", fontsize="medium")
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def check_matplotlib() -> None:
    """Say what is missing, best before hours of measuring."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError("--picture needs matplotlib: pip install matplotlib")


def _n_sets(rows: list[dict[str, Any]], methods: list[str]) -> int:
    return sum(all(row.get(method) is not None for method in methods) for row in rows)
