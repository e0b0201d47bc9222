"""The command: run a suite, write JSON and Markdown.

Exit codes: 0 done; 1 the run or the writing failed; 2 the call is wrong, with one line
on standard error that says what to do. A claim that fails is a result, not an error.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from gpu_consensus.ensemble.storage import write_atomic
from gpu_consensus.util.checks import check_choice

from . import environment, papers, quality
from .plot import draw_throughput
from .quality_plot import check_matplotlib, draw_quality
from .render import FORMAT, VERSION, check_format, to_markdown
from .suite import Context, Table

SUITES = {
    "papers": ".papers",
    "speed": ".speed",
    "methods": ".methods",
    "select-k": ".select_k",
}
"""Name of a suite and its module."""

_PATHS = ("--data-dir", "--output", "--markdown", "--picture")
_PROG = f"python -m {__package__}"


def main(
    argv: Sequence[str] | None = None, prog: str = _PROG, name: str = "bench"
) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        The words after the name of the command; None takes those of this process.
    prog, name : str
        What is called, for help and results, and who says that the call is wrong.
    """
    given = sys.argv[1:] if argv is None else list(argv)
    command = _command(given, prog)
    try:
        if given[:1] == ["render"]:
            print(_render(given[1:], prog), end="")
            return 0
        if given[:1] == ["plot"]:
            _plot(given[1:], prog)
            return 0
        if given[:1] == [quality.NAME]:
            return _quality(given, prog, command)
        arguments = _parse(given, prog)
        context = _context(arguments)
    except ValueError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    except SystemExit as stop:  # --help
        return int(stop.code or 0)
    suite = importlib.import_module(SUITES[arguments.suite], __package__)
    return _run(suite.run, context, arguments, command)


def _run(
    run: Callable[[Context], Iterator[Table]],
    context: Context,
    arguments: argparse.Namespace,
    command: str,
) -> int:
    """Run a suite; what is finished is written after every table."""
    begin = time.perf_counter()
    result: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "suite": arguments.suite,
        "quick": context.quick,
        "complete": False,
        "command": command,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": 0.0,
        "seeds": list(context.seeds),
        **environment.describe(),
        "tables": [],
    }
    try:
        for table in run(context):
            result["tables"].append(asdict(table))
            result["seconds"] = round(time.perf_counter() - begin, 3)
            for entry in table.skipped:
                print(f"bench: {entry.name}: {entry.reason}", file=sys.stderr)
            write(result, arguments.output, arguments.markdown)
        result["complete"] = True
        write(result, arguments.output, arguments.markdown)
    except KeyboardInterrupt:
        print("bench: interrupted; finished tables were written.", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"bench: {error}", file=sys.stderr)
        print(json.dumps(result))  # hours of work are not lost for want of a path
        return 1
    if arguments.markdown is None:
        print(to_markdown(result), end="")
    return 0


def _quality(given: list[str], prog: str, command: str) -> int:
    """Measure quality: JSON lines, then the page and the picture of them."""
    parser = _parser(prog, "Measure how good the clusters of all methods are.")
    quality.add_options(parser)
    arguments = parser.parse_args(given)
    _check_paths(arguments, ("output", "markdown", "picture"))
    plan = quality.Plan(arguments)
    _check_folder(arguments.data_dir)
    if arguments.picture is not None:
        check_matplotlib()
    try:
        if arguments.search_best is not None:
            quality.search(plan.context, arguments.search_best)
            return 0
        result = quality.run(plan, arguments.output, command)
        page = to_markdown(result)
        if arguments.markdown is None:
            print(page, end="")
        else:
            if arguments.picture is not None:
                page = _show_picture(page, arguments.markdown, arguments.picture)
            write_atomic(arguments.markdown, lambda file: file.write(page.encode()))
        if arguments.picture is not None:
            draw_quality(result, arguments.picture)
    except OSError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0 if result["complete"] else 1


def _show_picture(page: str, markdown: Path, picture: Path) -> str:
    """Return the page with a picture below its head."""
    folder = markdown.resolve().parent
    where = Path(os.path.relpath(picture.resolve(), folder)).as_posix()
    head, line, rest = page.partition("\n\n## ")
    return f"{head}\n\n![Mean ranks and mean ARI of all methods]({where}){line}{rest}"


def write(result: dict[str, Any], output: Path | None, markdown: Path | None) -> None:
    """Write JSON and Markdown; each file is the old one or the whole new one."""
    text = json.dumps(result, indent=1, allow_nan=False) + "\n"
    if output is not None:
        write_atomic(output, lambda file: file.write(text.encode()))
    if markdown is not None:
        page = to_markdown(json.loads(text))
        write_atomic(markdown, lambda file: file.write(page.encode()))


def _render(arguments: list[str], prog: str) -> str:
    if len(arguments) != 1 or arguments[0].startswith("-"):
        raise ValueError(f"render takes one file: {prog} render results.json")
    page: str = _from_stored(arguments[0], "render", to_markdown)
    return page


def _plot(arguments: list[str], prog: str) -> None:
    if len(arguments) != 2 or arguments[0].startswith("-"):
        raise ValueError(f"plot takes two files: {prog} plot speed.json speed.png")
    _from_stored(arguments[0], "plot", lambda x: draw_throughput(x, Path(arguments[1])))


def _from_stored(path: str, what: str, work: Callable[[dict[str, Any]], Any]) -> Any:
    """Do some work on a stored result."""
    try:
        return work(check_format(json.loads(Path(path).read_text(encoding="utf-8"))))
    except KeyError as error:
        reason = f"it lacks {error}"
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
    raise ValueError(
        f"cannot {what} {path!r} ({reason}); give a file that --output wrote."
    )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Turn what argparse says into one line."""
        raise ValueError(f"{message}; see {self.prog} --help.")


def _parser(prog: str, description: str) -> _Parser:
    """Return a parser with the options of all suites."""
    parser = _Parser(prog=prog, description=description)
    known = ", ".join([*SUITES, quality.NAME])
    parser.add_argument("suite", help=f"{known}, render or plot")
    parser.add_argument("--quick", action="store_true", help="a small run, in seconds")
    parser.add_argument("--data-dir", type=Path, help="folder with data sets to read")
    parser.add_argument(
        "--output", type=Path, help="JSON file to write; of quality JSON lines"
    )
    parser.add_argument("--markdown", type=Path, help="Markdown file to write")
    parser.add_argument(
        "--seeds",
        type=int,
        help="number of seeds; default 10, of features in quality 1",
    )
    return parser


def _parse(given: list[str], prog: str) -> argparse.Namespace:
    parser = _parser(
        prog,
        "Run a benchmark suite, or show a stored result: render x.json, "
        "plot speed.json speed.png. More options: quality --help.",
    )
    parser.add_argument(
        "--counts",
        action="store_true",
        help="of speed, only the instructions per lookup; needs valgrind, a compiler",
    )
    parser.add_argument("--only", help=f"of papers, some of {', '.join(papers.PARTS)}")
    arguments = parser.parse_args(given)
    check_choice("suite", arguments.suite, [*SUITES, quality.NAME, "render", "plot"])
    if arguments.counts and arguments.suite != "speed":
        raise ValueError(
            f"--counts belongs to the suite speed, not to {arguments.suite}; leave it "
            "out."
        )
    if arguments.only is not None and arguments.suite != papers.NAME:
        raise ValueError(
            f"--only belongs to the suite papers, not to {arguments.suite}; leave it "
            "out."
        )
    _check_paths(arguments, ("output", "markdown"))
    return arguments


def _check_paths(arguments: argparse.Namespace, names: Sequence[str]) -> None:
    for name in names:
        path = getattr(arguments, name)
        if path is not None and (path.is_dir() or not path.parent.is_dir()):
            raise ValueError(
                f"--{name} {str(path)!r} should be a file in a folder that exists."
            )


def _check_folder(folder: Path | None) -> None:
    if folder is not None and not folder.is_dir():
        raise ValueError(
            f"--data-dir {str(folder)!r} is not a folder; leave it out to use the data "
            "sets that scikit-learn ships."
        )


def _context(arguments: argparse.Namespace) -> Context:
    folder = arguments.data_dir
    _check_folder(folder)
    seeds = arguments.seeds
    if seeds is None:
        seeds = 2 if arguments.quick else 10
    if seeds < 1:
        raise ValueError(f"--seeds {seeds} should be >= 1.")
    only = () if arguments.only is None else tuple(arguments.only.split(","))
    for word in only:
        check_choice("--only", word, papers.PARTS)
    return Context(arguments.quick, folder, tuple(range(seeds)), arguments.counts, only)


def _command(given: list[str], prog: str) -> str:
    """Return the command; of paths only the name, for the result may be published."""
    words = []
    for before, word in zip(["", *given], given, strict=False):
        name, equals, value = word.partition("=")
        if before in _PATHS:
            words.append(Path(word).name)
        elif equals and name in _PATHS:
            words.append(f"{name}={Path(value).name}")
        else:
            words.append(word)
    return f"{prog} {shlex.join(words)}"
