"""What the program says: results on standard output, all else on standard error."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable
from typing import Any

NAME = "gpu-consensus"


class RunError(RuntimeError):
    """The run failed, for a reason that a person can read."""


def show(text: str) -> None:
    """Print to standard output now: at exit it would be too late to say what failed."""
    if not text:
        return
    try:
        print(text, flush=True)
    except OSError as error:
        # what is left in the buffer must go somewhere, or Python complains at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise RunError(
                f"standard output cannot be written: {error.strerror or error}."
            ) from error


def say(text: str) -> None:
    """Say a line on standard error."""
    with contextlib.suppress(OSError):
        print(f"{NAME}: {' '.join(text.split())}", file=sys.stderr, flush=True)


def say_block(text: str) -> None:
    """Say lines on standard error as they are."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def say_notes(notes: Iterable[str], *, quiet: bool = False) -> None:
    """Say what was recognised, unless nobody wants to know."""
    for note in () if quiet else notes:
        say(note)


def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Show a warning in one line, without the file and line that it came from."""
    say(f"warning: {message}")
