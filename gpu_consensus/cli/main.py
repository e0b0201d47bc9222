"""The command ``gpu-consensus``.

Exit codes: 0 done; 1 the run failed; 2 the call or the input is wrong; 130 interrupted
by Ctrl-C, 143 by SIGTERM. An error is one line on standard error that says what is
wrong and how to mend it.

Results are printed when all work is done and ``--output`` is written. If the reader of
standard output ends early, as ``head`` does, only text is lost: the exit code is 0.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import textwrap
import traceback
import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

import gpu_consensus as gpc
from gpu_consensus import backends
from gpu_consensus.backends.device_errors import DeviceLostError
from gpu_consensus.cli import (
    cluster,
    consensus,
    evaluate,
    generate,
    machine,
    report,
    select_k,
    signals,
)
from gpu_consensus.cli.options import Parser
from gpu_consensus.cli.printing import RunError, say, show, show_warning

_BENCH = "Measure speed and quality; see bench --help."
_SHORT = """\
gpu-consensus: many clusterings of the same objects in, the one that agrees
with them best out.

try it:
  gpu-consensus cluster --example iris --seed 0 --report report.html

your table, and how many clusters it has:
  gpu-consensus cluster data.csv --n-clusters auto --output labels.csv --seed 0
  gpu-consensus select-k data.csv

clusterings that you have, one in each column:
  gpu-consensus consensus mine.csv --n-clusters 4 --output labels.csv --seed 0

then:
  gpu-consensus evaluate labels.csv --truth truth.csv
  gpu-consensus doctor --quick

all commands:           gpu-consensus --help
all options of one:     gpu-consensus cluster --help"""


def run() -> NoReturn:
    """Run the command line as a program: handle signals, and exit."""
    signals.watch_signals()
    try:
        code = main()
        signals.leave_to_watcher()
    except KeyboardInterrupt as error:
        code = signals.say_ended(error)
    sys.exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    with warnings.catch_warnings():
        warnings.showwarning = show_warning
        return _main(argv)


def _main(argv: Sequence[str] | None) -> int:
    shown = io.StringIO()  # help, or the version
    given = sys.argv[1:] if argv is None else list(argv)
    show_traceback = False
    try:
        if not given:
            show(_SHORT)
            return 0
        if given[:1] == ["bench"]:  # it has a parser of its own
            show_traceback = "--traceback" in given
            return _bench([word for word in given[1:] if word != "--traceback"])
        try:
            with contextlib.redirect_stdout(shown):
                arguments = _parser().parse_args(given)
                arguments.words = given
        except SystemExit as stop:
            show(shown.getvalue().rstrip("\n"))
            return int(stop.code or 0)
        show_traceback = arguments.traceback
        arguments.run(arguments)
    except (Exception, KeyboardInterrupt) as error:
        if signals.is_ended(error):
            return signals.say_ended(error)
        return _fail(*_message_and_code(error), show_traceback)
    return 0


def _message_and_code(error: BaseException) -> tuple[str, int]:
    """Return the message and the exit code for an error."""
    if isinstance(error, (RunError, DeviceLostError)):
        return str(error), 1
    if isinstance(error, (ValueError, TypeError, OSError, backends.BackendError)):
        return str(error), 2
    return f"{type(error).__name__}: {error}", 1


def _fail(message: str, code: int, show_traceback: bool) -> int:
    if show_traceback:
        with contextlib.suppress(OSError):
            traceback.print_exc()
    say(message)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="gpu-consensus",
        usage="gpu-consensus COMMAND [options]",
        description=textwrap.fill(str(gpc.__doc__), 78),
        epilog="gpu-consensus without a command shows examples.",
    )
    parser.add_argument("--version", action="version", version=gpc.__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")

    def command(
        name: str,
        words: str,
        run: Any,
        add: Any,
        text: str,
        examples: str | None = None,
    ) -> None:
        usage = " ".join(f"gpu-consensus {name} {words} [options]".split())
        added = commands.add_parser(
            name, usage=usage, help=text, description=text, epilog=examples
        )
        add(added)
        added.set_defaults(run=run)

    for name, words, room in (
        ("cluster", "[data]", cluster),
        ("generate", "[data] --output PATH", generate),
        ("consensus", "ensemble", consensus),
        ("select-k", "[data]", select_k),
        ("evaluate", "labels --truth FILE", evaluate),
        ("report", "ensemble labels", report),
    ):
        command(name, words, room.run, room.add_options, room.TEXT, room.EXAMPLES)
    command("doctor", "", machine.run_doctor, machine.add_doctor, machine.DOCTOR)
    command("accept", "", machine.run_accept, machine.add_accept, machine.ACCEPT)
    commands.add_parser("bench", help=_BENCH)
    return parser


def _bench(given: list[str]) -> int:
    from gpu_consensus.cli.bench import run_bench

    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        code = run_bench(given)
    show(shown.getvalue().rstrip("\n"))
    if code and signals.was_heard():  # what was finished is written
        raise KeyboardInterrupt
    return code


if __name__ == "__main__":
    run()
