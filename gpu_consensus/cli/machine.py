"""The commands ``doctor`` and ``accept``: what runs on this machine, and how."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import gpu_consensus as gpc
from gpu_consensus.cli import options as cli_options
from gpu_consensus.cli import signals
from gpu_consensus.cli.printing import RunError, say, show

DOCTOR = "Tell what runs on this machine."
ACCEPT = "Try everything on this machine's GPU, and write a report to send back."


def add_doctor(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``doctor``."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--quick", action="store_true", help="versions and backends, no self-test"
    )
    cli_options.add_traceback(parser)


def run_doctor(arguments: argparse.Namespace) -> None:
    """Print what runs here."""
    report = gpc.doctor(quick=arguments.quick)
    show(json.dumps(report.as_dict(), indent=2) if arguments.json else str(report))
    if not report.healthy:
        raise RunError(
            "a backend fails, or gives wrong results; see above, and report it."
        )


def add_accept(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``accept``."""
    parser.add_argument(
        "--output",
        type=cli_options.path,
        default=Path("accept.json"),
        help="JSON file, with a page of text beside it (default: accept.json)",
    )
    parser.add_argument(
        "--budget", type=float, default=600.0, help="seconds it may take (default: 600)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, whose speeds tell little"
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    cli_options.add_traceback(parser)


def run_accept(arguments: argparse.Namespace) -> None:
    """Run the acceptance, and print its page."""
    from gpu_consensus import accept

    signals.be_patient(8)  # what was measured is written; docker stop waits 10 s
    report = accept.accept(
        arguments.output,
        sizes=accept.QUICK if arguments.quick else accept.FULL,
        budget=arguments.budget,
        progress=not arguments.quiet,
        log=_say_nothing if arguments.quiet else say,
    )
    show(accept.render(report).rstrip("\n"))
    if report["state"] != "passed":
        raise RunError(f"the acceptance run is {report['state']}; see above.")


def _say_nothing(text: str) -> None:
    """Show nothing."""
