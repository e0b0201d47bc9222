"""Draw the time of every method against n, from the JSON of ``bench methods``.

``python -m bench.methods_plot methods.json methods.svg``; needs matplotlib.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .render import check_format


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw seconds by n on logarithmic axes, one line per method.

    Parameters
    ----------
    result : dict
        What ``python -m bench methods --output`` wrote.
    path : Path
        Where the picture goes; its ending says which kind.
    """
    matplotlib: Any = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    (table,) = (table for table in result["tables"] if table["name"] == "time")
    sizes = [
        int(column["key"][2:])
        for column in table["columns"]
        if column["key"].startswith("s_")
    ]
    figure, axes = pyplot.subplots(figsize=(8, 5.5), layout="constrained")
    dashes = ["-", "--", ":", "-."]
    for number, row in enumerate(table["rows"]):
        points = [(n, row[f"s_{n}"]) for n in sizes if row.get(f"s_{n}") is not None]
        if points:
            axes.plot(
                *zip(*points, strict=True),
                dashes[number // 10 % 4],
                marker="o",
                markersize=3,
                label=row["method"],
            )
    axes.set(xscale="log", yscale="log", xlabel="objects n", ylabel="seconds")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", fontsize="small")
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)


def main(argv: Sequence[str]) -> int:
    """Draw the picture of a stored result; 2 if the call is wrong."""
    if len(argv) != 2:
        print("bench: methods_plot takes two files: JSON in, picture out.")
        return 2
    text = Path(argv[0]).read_text(encoding="utf-8")
    draw(check_format(json.loads(text)), Path(argv[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
