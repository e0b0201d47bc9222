"""A plot of throughput, from the JSON of a benchmark and from nothing else."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any


def draw_throughput(result: dict[str, Any], path: Path) -> None:
    """Draw lookups per second over the columns of a table, and the machine's limits.

    Parameters
    ----------
    result : dict
        What the JSON file of the suite "speed" holds.
    path : Path
        Picture to write; its suffix says in which format.
    """
    rows: list[dict[str, Any]] = next(
        (table["rows"] for table in result["tables"] if table["name"] == "throughput"),
        [],
    )
    if not rows:
        raise ValueError("it has no throughput table")
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError("matplotlib is not installed: pip install matplotlib")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.5), layout="constrained")
    sizes = sorted({row["labels"] for row in rows})
    panels = figure.subplots(1, len(sizes), sharey=True, squeeze=False)[0]
    lines = {
        "native": "native",
        "native_all": "native, all threads",
        "c": "C loop",
        "numpy": "numpy",
        "memory": "codes at memory speed",
    }
    for panel, labels in zip(panels, sizes, strict=True):
        chosen = [row for row in rows if row["labels"] == labels]
        for key, name in lines.items():
            points = [(row["columns"], row[key]) for row in chosen if row.get(key)]
            if points:
                panel.loglog(*zip(*points, strict=True), marker="o", label=name)
        panel.set_title(f"{labels} labels per partition")
        panel.set_xlabel("columns (starts x clusters)")
    panels[0].set_ylabel("10^9 lookups per second")
    panels[0].legend(fontsize="small")
    figure.savefig(path)
