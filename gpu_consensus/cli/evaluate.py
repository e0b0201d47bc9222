"""The command ``gpu-consensus evaluate``: labels beside known classes."""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
import numpy.typing as npt

import gpu_consensus as gpc
from gpu_consensus import data_files
from gpu_consensus.cli import options as cli_options
from gpu_consensus.cli.inputs import form_of
from gpu_consensus.cli.printing import say_notes, show
from gpu_consensus.data_files import Form
from gpu_consensus.data_files.read import Labels
from gpu_consensus.ensemble.encoding import encode

TEXT = "Compare labels with known classes, matched by the names of objects if any."
EXAMPLES = """\
examples:
  gpu-consensus evaluate labels.csv --truth truth.csv
  gpu-consensus evaluate labels.csv --truth data.csv --truth-column kind --json
"""
_MEASURES = (
    "adjusted_rand",
    "nmi",
    "accuracy",
    "purity",
    "variation_of_information",
    "van_dongen",
    "rand_distance",
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    text = cli_options.LABELS
    path = cli_options.path
    parser.add_argument("labels", type=path, help=f"labels: {text}")
    parser.add_argument("--truth", type=path, required=True, help="known classes")
    parser.add_argument("--column", help="of the labels; default: label")
    parser.add_argument("--truth-column", metavar="COLUMN", help="of the classes")
    parser.add_argument(
        "--no-id",
        action="store_true",
        help="compare line by line, whatever names the objects have",
    )
    cli_options.add_form(parser)
    cli_options.add_header(parser, "--truth-header", "the same for --truth alone")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quiet", action="store_true", help="no notes")
    cli_options.add_traceback(parser)


def run(arguments: argparse.Namespace) -> None:
    """Compare, and print all measures."""
    form = form_of(arguments)
    truth_form = form
    if arguments.truth_header is not None:
        truth_form = Form(
            arguments.truth_header, form.separator, form.decimal, form.encoding
        )
    no_id = arguments.no_id
    given = data_files.read_labels(
        arguments.labels, arguments.column, form, no_id=no_id
    )
    known = data_files.read_labels(
        arguments.truth,
        arguments.truth_column,
        truth_form,
        no_id=no_id,
        role="truth",
        option="--truth-column",
    )
    say_notes([*given.notes, *known.notes], quiet=arguments.quiet)
    if len(given.values) != len(known.values):
        raise ValueError(
            f"labels has {len(given.values)} objects but truth has "
            f"{len(known.values)}; give both one line per object, and --header or "
            "--no-header if the first line was taken for what it is not."
        )
    labels = _codes("labels", given.values)
    truth = _codes("truth", in_order(known, given.ids, "truth", "labels"))
    if not ((labels >= 0) & (truth >= 0)).any():
        raise ValueError("no object has a label in both labels and truth.")
    scores = {
        name: float(getattr(gpc.metrics, name)(truth, labels)) for name in _MEASURES
    }
    if arguments.json:
        show(json.dumps(scores, indent=2))
    else:
        show("\n".join(f"{name:<26} {score:.6f}" for name, score in scores.items()))


def in_order(
    given: Labels, ids: list[str] | None, role: str, other: str
) -> npt.NDArray[Any]:
    """Return labels in the order of other objects, where both have ids."""
    if ids is None or given.ids is None or given.ids == ids:
        return given.values
    place = {name: l for l, name in enumerate(given.ids)}
    strange = next((name for name in ids if name not in place), None)
    if strange is not None:
        raise ValueError(
            f"{other} names an object {strange!r} that {role} does not have; give both "
            "the same ids, or --no-id to go by the order of the lines."
        )
    return given.values[[place[name] for name in ids]]


def _codes(name: str, labels: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return labels as numbers from 0, -1 where they are missing."""
    codes, categories = encode(labels, name)
    return np.where(codes == len(categories), -1, codes)
