"""The command ``gpu-consensus``, from its first moment.

Loading the package takes a second, more where nothing is cached. In that time a process
that is number 1, as in a container, would not hear SIGTERM, and Ctrl-C would show where
Python was. So what listens lies outside the package, and loads next to nothing.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from types import FrameType
from typing import NoReturn

_WORDS = {signal.SIGINT: b"interrupted", signal.SIGTERM: b"terminated"}


def run() -> NoReturn:
    """Listen to signals, then load the command line and hand over to it."""
    for number in _WORDS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    from gpu_consensus.cli.main import run as be_the_program

    be_the_program()


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    """End at once: nothing has begun that could be left half done."""
    with suppress(OSError):
        os.write(2, b"gpu-consensus: " + _WORDS[signal.Signals(number)] + b"\n")
    os._exit(128 + number)
