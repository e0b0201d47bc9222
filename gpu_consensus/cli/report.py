"""The command ``gpu-consensus report``, and ``--report`` of other commands."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

import gpu_consensus as gpc
from gpu_consensus import data_files, examples
from gpu_consensus.cli import inputs
from gpu_consensus.cli import options as cli_options
from gpu_consensus.cli.evaluate import in_order
from gpu_consensus.cli.printing import say_notes, show
from gpu_consensus.data_files import STANDARD, Choice
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.report import check_installed, check_target
from gpu_consensus.result import Consensus
from gpu_consensus.util.paths import check_outputs

TEXT = "An ensemble and its consensus labels to a report, one HTML file."
EXAMPLES = """\
examples:
  gpu-consensus report ensemble labels.csv --data data.csv --output report.html
  gpu-consensus report ensemble labels.csv --truth truth.csv
"""
_UNTOLD = (
    *("run", "traceback", "words", "quiet", "report", "output", "title", "json"),
    *("no_id", "dry_run"),
)
"""Of a call, what does not change the answer."""


def add_report(parser: argparse.ArgumentParser) -> None:
    """Add the options with which a command writes a report too."""
    group = parser.add_argument_group("report")
    group.add_argument(
        "--report",
        type=cli_options.path,
        metavar="FILE.html",
        help="a page to look at, in one file",
    )
    _add_truth(group, "for the report: known labels to compare with")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    path = cli_options.path
    parser.add_argument(
        "ensemble",
        type=path,
        help="saved ensemble, or table with a partition in each column",
    )
    parser.add_argument("labels", type=path, help="consensus labels")
    parser.add_argument(
        "--output",
        type=path,
        default=Path("report.html"),
        metavar="FILE.html",
        help="file to write (default: report.html)",
    )
    parser.add_argument("--column", help="of the labels; default: label")
    parser.add_argument(
        "--id",
        metavar="COLUMN",
        help="of the labels' file, names the objects; recognised by default",
    )
    parser.add_argument(
        "--no-id", action="store_true", help="recognise no column of names"
    )
    parser.add_argument(
        "--columns",
        action="append",
        default=[],
        metavar="A,B,...",
        help="of the table of partitions: take these alone",
    )
    parser.add_argument(
        "--data",
        type=path,
        metavar="FILE",
        help="features, or two columns, to draw the objects by",
    )
    parser.add_argument(
        "--drop",
        action="append",
        default=[],
        metavar="A,B,...",
        help="of --data: leave out, by name or by number from 0",
    )
    _add_truth(parser, "known labels to compare with")
    parser.add_argument("--title", help="of the page")
    cli_options.add_form(parser)
    parser.add_argument("--quiet", action="store_true", help="no notes")
    cli_options.add_traceback(parser)


def _add_truth(group: Any, text: str) -> None:
    group.add_argument("--truth", type=cli_options.path, metavar="FILE", help=text)
    group.add_argument("--truth-column", metavar="COLUMN", help="column of --truth")


def check(arguments: argparse.Namespace) -> None:
    """Refuse before the work what a report would refuse after it."""
    if arguments.report is None:
        if arguments.truth is not None:
            raise ValueError(
                f"--truth {str(arguments.truth)!r} is for a report; add --report "
                "report.html, or compare with gpu-consensus evaluate."
            )
        return
    _check_output("--report", arguments.report)
    if arguments.truth is not None:
        _truth(arguments)


def write(
    arguments: argparse.Namespace,
    result: Consensus,
    X: Any = None,
    example: examples.Example | None = None,
    ids: list[str] | None = None,
) -> None:
    """Write the report that was asked for, if it was."""
    path: Path | None = arguments.report
    if path is None:
        return
    known = _truth(arguments, ids)
    if known is None and example is not None:
        known = [example.classes[c] for c in example.y]
    read = getattr(arguments, "data", None) or getattr(arguments, "ensemble", None)
    called = getattr(arguments, "example", None) or getattr(read, "name", "")
    called = "standard input" if read == STANDARD else called
    gpc.report(
        result,
        path,
        X=X,
        known=known,
        names=ids,
        title=f"Consensus clustering of {called}",
        command=_command(arguments),
        source=None if read == STANDARD else read,
        settings=_settings(arguments),
    )


def run(arguments: argparse.Namespace) -> None:
    """Write a report on labels that were found before."""
    _check_output("--output", arguments.output)
    path, form, quiet = arguments.ensemble, inputs.form_of(arguments), arguments.quiet
    read = (path, arguments.labels, arguments.data, arguments.truth)
    sources = [one for one in read if one is not None and one != STANDARD]
    check_outputs(
        [("--output", arguments.output)], [("the input", one) for one in sources]
    )
    if path.is_dir() or path.suffix.lower() == ".npz":
        ens = Ensemble.load(path)
    else:
        choice = Choice(tuple(arguments.columns), no_id=arguments.no_id)
        table = data_files.read_partitions(path, choice, form)
        ens = Ensemble(table.values)
    labels = data_files.read_labels(
        arguments.labels,
        arguments.column,
        form,
        id_column=arguments.id,
        no_id=arguments.no_id,
    )
    say_notes(labels.notes, quiet=quiet)
    X = None
    if arguments.data is not None:
        choice = Choice(drop=tuple(arguments.drop), no_id=arguments.no_id)
        features = data_files.read_features(arguments.data, choice, form)
        say_notes(features.notes, quiet=quiet)
        X = features.values
    gpc.report(
        labels.values,
        arguments.output,
        ensemble=ens,
        X=X,
        known=_truth(arguments, labels.ids),
        names=labels.ids,
        title=arguments.title or f"Consensus clustering of {path.name}",
        command=_command(arguments),
        source=sources,
        settings=_settings(arguments),
    )
    show(f"{ens}\nreport written to {arguments.output}")


def _check_output(option: str, path: Path) -> None:
    try:
        check_installed()
    except ImportError as error:
        raise ValueError(str(error)) from None
    check_target(f"{option} ", path)
    data_files.check_writable(option, path)


def _truth(arguments: argparse.Namespace, ids: list[str] | None = None) -> Any:
    """Read the known labels, in the order of the objects where both have ids."""
    if arguments.truth is None:
        return None
    known = data_files.read_labels(
        arguments.truth,
        arguments.truth_column,
        inputs.form_of(arguments),
        no_id=arguments.no_id,
        role="truth",
        option="--truth-column",
    )
    return in_order(known, ids, "truth", "the data")


def _command(arguments: argparse.Namespace) -> str:
    return shlex.join(["gpu-consensus", *arguments.words])


def _settings(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        name: value for name, value in vars(arguments).items() if name not in _UNTOLD
    }
