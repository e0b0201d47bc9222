"""The command ``gpu-consensus select-k``: how many clusters there are, and why."""

from __future__ import annotations

import argparse
import csv
import io
import json
from pathlib import Path
from typing import Any

import gpu_consensus as gpc
from gpu_consensus import data_files
from gpu_consensus.cli import inputs, outputs
from gpu_consensus.cli import options as cli_options
from gpu_consensus.cli.printing import show
from gpu_consensus.ensemble.storage import write_atomic
from gpu_consensus.select.select_n_clusters import check_candidates

TEXT = "Features or labels to the number of clusters, with the reason."
EXAMPLES = """\
examples:
  gpu-consensus select-k data.csv --candidates 2:12 --output k.csv --seed 0
  gpu-consensus select-k ensemble --labels --json
"""
_SUFFIXES = (".csv", ".json")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    cli_options.add_features(parser)
    parser.add_argument(
        "--labels",
        action="store_true",
        help="the file holds labels, one column per partition, or a saved ensemble",
    )
    parser.add_argument(
        "--candidates",
        type=_candidates,
        default=range(2, 11),
        metavar="LOW:HIGH",
        help="numbers of clusters to choose from, both ends included, or a list like "
        "2,3,5; default 2:10",
    )
    parser.add_argument("--metric", default="euclidean", help="or cosine, for text")
    parser.add_argument(
        "--method", default="auto", help="consensus method for labels, default kcc"
    )
    parser.add_argument(
        "--alpha", type=float, default=0.05, help="default 0.05: above this p, 1"
    )
    parser.add_argument(
        "--n-null", type=int, default=39, help="draws of each null, default 39"
    )
    parser.add_argument(
        "--max-objects", type=int, default=2_000, help="objects looked at, default 2000"
    )
    parser.add_argument(
        "--output",
        type=cli_options.path,
        metavar="FILE",
        help="the table, .csv or .json",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    cli_options.add_common(parser)


def run(arguments: argparse.Namespace) -> None:
    """Choose the number of clusters, write the table, and print the answer."""
    inputs.check_source(arguments)
    _check_output(arguments.output)
    outputs.check_paths(arguments, [arguments.data])
    if arguments.checkpoint is not None:
        data_files.check_writable("--checkpoint", arguments.checkpoint)
    data, kind = _read(arguments)
    found = gpc.select_n_clusters(
        data,
        arguments.candidates,
        kind=kind,
        method=arguments.method,
        metric=arguments.metric,
        alpha=arguments.alpha,
        n_null=arguments.n_null,
        max_objects=arguments.max_objects,
        backend=arguments.backend,
        n_jobs=arguments.n_jobs,
        checkpoint=arguments.checkpoint,
        random_state=arguments.seed,
        progress=not arguments.quiet,
    )
    if arguments.output is not None:
        text = _written(found, arguments.output.suffix.lower())
        write_atomic(arguments.output, lambda file: file.write(text.encode()))
    if arguments.json:
        show(json.dumps(found.as_dict(), indent=2))
        return
    kept = "" if arguments.output is None else f"\ntable written to {arguments.output}"
    show(f"{_shown(found)}{kept}")


def _candidates(text: str) -> Any:
    low, colon, high = text.partition(":")
    parts = [low, high] if colon else text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(
            f"{text!r} should be two numbers like 2:10, or a list like 2,3,5"
        )
    numbers = [int(part) for part in parts]
    try:
        return check_candidates(range(numbers[0], numbers[1] + 1) if colon else numbers)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r}: {str(error).rstrip('.')}"
        ) from None


def _check_output(path: Path | None) -> None:
    if path is None:
        return
    if path.suffix.lower() not in _SUFFIXES:
        raise ValueError(f"--output {str(path)!r} should end in .csv or .json.")
    if path.is_dir():
        raise IsADirectoryError(
            f"--output {str(path)!r} is a folder; choose the name of a file."
        )
    data_files.check_writable("--output", path)


def _read(arguments: argparse.Namespace) -> tuple[Any, str]:
    """Return the data, and whether they are features or labels."""
    path = arguments.data
    if path is None or not (arguments.labels or path.is_dir()):
        if arguments.labels:
            raise ValueError("--labels needs a file; the examples hold features.")
        return inputs.read_features(arguments)[0].values, "features"
    return inputs.read_ensemble(arguments, path)[0], "labels"


def _written(found: gpc.Selection, suffix: str) -> str:
    plain = found.as_dict()
    if suffix == ".json":
        return json.dumps(plain, indent=1) + "\n"
    text = io.StringIO()
    writer = csv.DictWriter(text, list(found.table[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(plain["table"])
    return text.getvalue()


def _shown(found: gpc.Selection) -> str:
    """Return the answer, the reason and the table as text."""
    names = [name for name in found.table[0] if not name.startswith("scatter_")]
    lines = ["  ".join(f"{name:>10}" for name in names)]
    for row in found.table:
        cells = [f"{row['n_clusters']:>10}"]
        cells += [f"{row[name]:>10.4g}" for name in names[1:]]
        mark = ""
        if row["n_clusters"] == found.n_clusters:
            mark = "  chosen"
        elif row["n_clusters"] in found.alternatives:
            mark = "  alternative"
        lines.append("  ".join(cells) + mark)
    noun = "cluster" if found.n_clusters == 1 else "clusters"
    return "\n".join([f"{found.n_clusters} {noun}: {found.reason}", "", *lines])
