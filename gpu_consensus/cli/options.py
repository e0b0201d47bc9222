"""Options that commands of ``gpu-consensus`` share."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import gpu_consensus as gpc
from gpu_consensus import backends, examples
from gpu_consensus.data_files.form import DECIMALS, SEPARATORS
from gpu_consensus.generate.views import STRATEGIES
from gpu_consensus.util.options import check_options
from gpu_consensus.util.paths import check_path

_FLAGS = {
    "utility": "--utility",
    "n_init": "--n-init",
    "n_clusters": "--n-clusters",
    "n_partitions": "--n-partitions",
    "strategy": "--strategy",
    "k_range": "--k-range",
    "metric": "--metric",
    "backend": "--backend",
    "n_jobs": "--n-jobs",
    "checkpoint": "--checkpoint",
    "random_state": "--seed",
    "progress": "--quiet",
}
"""The options of methods and of generation that have a flag of their own."""


AUTO = "auto"
"""What --n-clusters says to have the number chosen."""

FEATURES = ".csv .tsv .txt (also .gz) .npy .npz .parquet .h5ad, - for standard input"
LABELS = ".csv .tsv .txt (also .gz) .npy .parquet .h5ad, - for standard input"


class Parser(argparse.ArgumentParser):
    """A parser that says in one line what is wrong."""

    def __init__(self, **settings: Any) -> None:
        settings["formatter_class"] = argparse.RawDescriptionHelpFormatter
        super().__init__(**settings)

    def error(self, message: str) -> NoReturn:
        """Print the message, and exit with 2."""
        self.exit(2, f"gpu-consensus: {message}; see {self.prog} --help.\n")


def path(text: str) -> Path:
    """Return a path; an empty one would be the current folder."""
    try:
        return check_path("path", text)
    except (ValueError, TypeError, OSError) as error:
        reason = str(error).removeprefix("path=").rstrip(".")
        raise argparse.ArgumentTypeError(reason) from None


def add_features(parser: argparse.ArgumentParser) -> None:
    """Add options for the features and for how they are read."""
    group = parser.add_argument_group("data")
    group.add_argument("data", type=path, nargs="?", help=f"features: {FEATURES}")
    group.add_argument(
        "--example", metavar="NAME", help=f"a built-in set: {', '.join(examples.NAMES)}"
    )
    add_columns(group)
    add_form(group)


def add_columns(group: Any) -> None:
    """Add options that say which columns are wanted."""
    group.add_argument(
        "--columns",
        action="append",
        default=[],
        metavar="A,B,...",
        help="take these alone: names, numbers from 0, or patterns like x_*",
    )
    group.add_argument(
        "--drop",
        action="append",
        default=[],
        metavar="A,B,...",
        help="leave these out",
    )
    group.add_argument(
        "--id",
        metavar="COLUMN",
        help="names the objects, and is written beside their labels; recognised by "
        "default",
    )
    group.add_argument(
        "--no-id", action="store_true", help="recognise no column of names"
    )


def add_form(group: Any) -> None:
    """Add options that say how a file of text is written."""
    add_header(group)
    group.add_argument(
        "--separator",
        metavar="MARK",
        help=f"of cells: {', '.join(SEPARATORS)}; recognised by default",
    )
    group.add_argument(
        "--decimal",
        metavar="MARK",
        help=f"of numbers: {' or '.join(DECIMALS)}; recognised by default",
    )
    group.add_argument(
        "--encoding",
        metavar="NAME",
        help="of text, like utf-8, utf-16, cp1252; recognised by default",
    )


def add_header(
    parser: Any,
    option: str = "--header",
    text: str = "whether the first line holds names; recognised by default",
) -> None:
    """Add the option that says whether the first line of a text file holds names."""
    action = argparse.BooleanOptionalAction
    parser.add_argument(option, action=action, default=None, help=text)


def add_generation(parser: argparse.ArgumentParser) -> None:
    """Add options for making partitions."""
    group = parser.add_argument_group("partitions")
    group.add_argument(
        "--n-partitions", type=int, default=100, metavar="NUMBER", help="default 100"
    )
    group.add_argument(
        "--strategy",
        default="rps",
        metavar="NAME",
        help=f"what varies between them: {', '.join(STRATEGIES)}; default rps",
    )
    group.add_argument(
        "--k-range", type=_pair, metavar="LOW:HIGH", help="clusters of each"
    )
    group.add_argument(
        "--metric",
        default="euclidean",
        metavar="NAME",
        help="euclidean, or cosine for text",
    )
    _add_option(group, "--generate-option", "generation, like sample_share=0.5")


def add_consensus(parser: argparse.ArgumentParser) -> None:
    """Add options for finding the consensus, and for the output."""
    group = parser.add_argument_group("consensus")
    group.add_argument(
        "--n-clusters",
        type=_number_or_auto,
        metavar="NUMBER",
        help="how many; auto: 2 to 10 by what is stable, or 1 where a test finds no "
        "structure; methods that find their number need none",
    )
    group.add_argument(
        "--method",
        default="auto",
        metavar="NAME",
        help=f"auto (the best of several, default) or one of {_methods()}",
    )
    group.add_argument("--utility", metavar="NAME", help="of kcc, default h")
    group.add_argument(
        "--n-init", type=int, metavar="NUMBER", help="starts; default: the method's own"
    )
    _add_option(group, "--option", "the method, like refine=false")
    output = parser.add_argument_group("output")
    output.add_argument(
        "--output",
        type=path,
        metavar="FILE",
        help="labels with ids and confidence: .csv .tsv .parquet, .npy for labels "
        "alone, - for standard output",
    )
    output.add_argument("--json", action="store_true", help="print the summary as JSON")


def _methods() -> str:
    return ", ".join(name for name in gpc.METHODS if name != AUTO)


def add_common(parser: argparse.ArgumentParser, *, plan: bool = False) -> None:
    """Add options that every computation takes."""
    group = parser.add_argument_group("running")
    group.add_argument(
        "--seed", type=_seed, metavar="NUMBER", help="same seed, same labels"
    )
    group.add_argument(
        "--backend",
        default="auto",
        metavar="NAME",
        help=f"one of {', '.join(backends.NAMES)}",
    )
    group.add_argument(
        "--n-jobs", type=int, metavar="NUMBER", help="threads, default all cores"
    )
    group.add_argument(
        "--checkpoint",
        type=path,
        metavar="PATH",
        help="keep the state here; the same call goes on from it",
    )
    if plan:
        group.add_argument(
            "--dry-run",
            action="store_true",
            help="try a small part, print plan, time and memory, and write nothing",
        )
    group.add_argument("--quiet", action="store_true", help="no progress, no notes")
    add_traceback(group)


def add_traceback(group: Any) -> None:
    """Add the option that shows where an error arose."""
    group.add_argument(
        "--traceback", action="store_true", help="show where an error arose"
    )


def _add_option(group: Any, flag: str, example: str) -> None:
    group.add_argument(
        flag,
        type=_named_value,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"any other option of {example}; may be repeated",
    )


def read_options(
    flag: str,
    given: list[tuple[str, Any]],
    name: str,
    function: Callable[..., Any],
) -> dict[str, Any]:
    """Return options of a function given as ``--option NAME=VALUE``.

    Parameters
    ----------
    flag : str
        The flag as the user typed it.
    given : list of (str, value)
    name : str
        How messages call the function.
    function : callable
    """
    options: dict[str, Any] = {}
    for option, value in given:
        if option in _FLAGS:
            raise ValueError(
                f"{flag} {option} has a flag of its own; give it as {_FLAGS[option]}."
            )
        if option in options:
            raise ValueError(f"{flag} {option} is given twice; leave one out.")
        options[option] = value
    check_options(name, function, options)
    return options


def _named_value(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} should be a name=value")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _number_or_auto(text: str) -> int | str:
    if text == AUTO:
        return AUTO
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"invalid value: {text!r} should be a number, or auto"
        ) from None


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} should be an integer >= 0")
    return int(text)


def _pair(text: str) -> tuple[int, int]:
    low, _, high = text.partition(":")
    if not (low.isdecimal() and high.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} should be two numbers like 2:10")
    return int(low), int(high)
