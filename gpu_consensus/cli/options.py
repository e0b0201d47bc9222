"""Options that commands of ``gpu-consensus`` share."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import gpu_consensus as gpc
from gpu_consensus import backends, examples
from gpu_consensus.util.options import check_options

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


class Parser(argparse.ArgumentParser):
    """A parser that says in one line what is wrong."""

    def error(self, message: str) -> NoReturn:
        """Print the message, and exit with 2."""
        self.exit(2, f"gpu-consensus: {message}; see {self.prog} --help.\n")


def add_features(parser: argparse.ArgumentParser) -> None:
    """Add options for the features and for columns to leave out."""
    parser.add_argument(
        "data", type=Path, nargs="?", help="features (.csv, .tsv, .npy, sparse .npz)"
    )
    parser.add_argument(
        "--example", metavar="NAME", help=f"a built-in set: {', '.join(examples.NAMES)}"
    )
    parser.add_argument(
        "--drop",
        action="append",
        default=[],
        metavar="COLUMN",
        help="leave out, by name or by number from 0",
    )
    add_header(parser)


def add_header(
    parser: argparse.ArgumentParser,
    option: str = "--header",
    text: str = "whether the first line holds names; guessed by default",
) -> None:
    """Add the option that says whether the first line of a text file holds names."""
    action = argparse.BooleanOptionalAction
    parser.add_argument(option, action=action, default=None, help=text)


def add_generation(parser: argparse.ArgumentParser) -> None:
    """Add options for making partitions."""
    parser.add_argument("--n-partitions", type=int, default=100, help="default 100")
    parser.add_argument("--strategy", default="rps", help="default rps")
    parser.add_argument(
        "--k-range", type=_pair, metavar="LOW:HIGH", help="clusters of the partitions"
    )
    parser.add_argument("--metric", default="euclidean", help="or cosine, for text")
    _add_option(
        parser, "--generate-option", "how partitions are made: sample_share=0.5"
    )


def add_consensus(parser: argparse.ArgumentParser) -> None:
    """Add options for finding the consensus, and for the output."""
    parser.add_argument(
        "--n-clusters",
        type=_number_or_auto,
        metavar="NUMBER",
        help="clusters of the consensus, or auto to choose 2 to 10 of them, or none by "
        "a test; a method that finds their number needs none: "
        "then it is only what partitions are made with",
    )
    parser.add_argument(
        "--method",
        default="auto",
        help=f"one of {', '.join(gpc.METHODS)}; auto, the default, takes the best of "
        "several",
    )
    parser.add_argument("--utility", help="utility of kcc, default h")
    parser.add_argument("--n-init", type=int, help="starts, default: the method's own")
    _add_option(parser, "--option", "the method, like refine=false")
    parser.add_argument("--output", type=Path, help="labels, .csv or .npy")
    add_common(parser)


def add_common(parser: argparse.ArgumentParser) -> None:
    """Add options that every computation takes."""
    parser.add_argument("--seed", type=_seed, help="same seed, same labels")
    parser.add_argument(
        "--backend", default="auto", help=f"one of {', '.join(backends.NAMES)}"
    )
    parser.add_argument("--n-jobs", type=int, help="threads, default all cores")
    parser.add_argument(
        "--checkpoint", type=Path, help="go on from here if interrupted"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def _add_option(parser: argparse.ArgumentParser, flag: str, example: str) -> None:
    parser.add_argument(
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
