"""The command ``gpu-consensus report``, and ``--report`` of other commands."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gpu_consensus as gpc
from gpu_consensus import examples
from gpu_consensus.cli import options as cli_options
from gpu_consensus.ensemble import data_files
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.report import check_installed, check_target
from gpu_consensus.result import Consensus

_UNTOLD = ("run", "traceback", "words", "quiet", "report", "output", "title")
"""Of a call, what does not change the answer."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options with which a command writes a report too."""
    parser.add_argument(
        "--report", type=Path, metavar="FILE.html", help="write a report to look at"
    )
    _add_truth(parser, "for the report: known labels to compare with")


def add_command(
    command: Callable[[str, Any, str], argparse.ArgumentParser],
    show: Callable[[str], None],
) -> None:
    """Add the command ``report``; ``show`` prints what it has to say."""
    parser = command(
        "report",
        lambda arguments: show(_run(arguments)),
        "An ensemble and its consensus labels to a report, one HTML file.",
    )
    parser.add_argument(
        "ensemble", type=Path, help="saved ensemble, or table of labels (.csv, .npy)"
    )
    parser.add_argument("labels", type=Path, help="consensus labels (.csv, .npy)")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("report.html"),
        help="file to write (default: report.html)",
    )
    parser.add_argument("--column", help="column of the labels")
    parser.add_argument("--id", help="column of the labels' file that names objects")
    parser.add_argument(
        "--data", type=Path, help="features, or two columns, to draw the objects by"
    )
    parser.add_argument(
        "--drop",
        action="append",
        default=[],
        metavar="COLUMN",
        help="of --data: leave out, by name or by number from 0",
    )
    _add_truth(parser, "known labels to compare with")
    parser.add_argument("--title", help="of the page")
    cli_options.add_header(parser)


def _add_truth(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--truth", type=Path, help=text)
    parser.add_argument("--truth-column", help="column of --truth")


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
) -> str:
    """Write the report that was asked for; return a line that names it."""
    path: Path | None = arguments.report
    if path is None:
        return ""
    known = _truth(arguments)
    if known is None and example is not None:
        known = [example.classes[c] for c in example.y]
    read = getattr(arguments, "data", None) or getattr(arguments, "ensemble", None)
    called = getattr(arguments, "example", None) or getattr(read, "name", "")
    gpc.report(
        result,
        path,
        X=X,
        known=known,
        title=f"Consensus clustering of {called}",
        command=_command(arguments),
        source=read,
        settings=_settings(arguments),
    )
    return f"\nreport written to {path}"


def _run(arguments: argparse.Namespace) -> str:
    """Write a report on labels that were found before."""
    _check_output("--output", arguments.output)
    path, header = arguments.ensemble, arguments.header
    if path.is_dir() or path.suffix.lower() == ".npz":
        ens = Ensemble.load(path)
    else:
        ens = Ensemble(data_files.read_partitions(path, header))
    labels = data_files.read_labels(arguments.labels, arguments.column, header)
    names = None
    if arguments.id is not None:
        names = data_files.read_labels(arguments.labels, arguments.id, header)
    X = None
    if arguments.data is not None:
        X = data_files.read_features(arguments.data, arguments.drop, header)
    read = (path, arguments.labels, arguments.data, arguments.truth)
    gpc.report(
        labels,
        arguments.output,
        ensemble=ens,
        X=X,
        known=_truth(arguments),
        names=names,
        title=arguments.title or f"Consensus clustering of {path.name}",
        command=_command(arguments),
        source=[one for one in read if one is not None],
        settings=_settings(arguments),
    )
    return f"{ens}\nreport written to {arguments.output}"


def _check_output(option: str, path: Path) -> None:
    try:
        check_installed()
    except ImportError as error:
        raise ValueError(str(error)) from None
    check_target(f"{option} ", path)
    data_files.check_writable(option, path)


def _truth(arguments: argparse.Namespace) -> Any:
    if arguments.truth is None:
        return None
    return data_files.read_labels(
        arguments.truth,
        arguments.truth_column,
        arguments.header,
        role="truth",
        option="--truth-column",
    )


def _command(arguments: argparse.Namespace) -> str:
    return shlex.join(["gpu-consensus", *arguments.words])


def _settings(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        name: value for name, value in vars(arguments).items() if name not in _UNTOLD
    }
