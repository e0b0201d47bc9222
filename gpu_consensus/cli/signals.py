"""A command that ends soon after SIGTERM or Ctrl-C, and leaves nothing half done.

Python runs a signal's handler in the main thread, once that thread is back in Python,
and at exit waits for all others: either may take minutes while threads compute. And a
process that is number 1, as in a container, is not ended by SIGTERM at all unless it
handles it. So a watching thread hears of the signal at once, gives the program a moment
to end by itself, and then ends it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from types import FrameType

from gpu_consensus.ensemble.storage import remove_unfinished

_SHOW_CURSOR = "\x1b[?25h"
_WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
_SHORT = 0.5  # seconds in which a terminal or a pipe should have taken a line
_patience = 0.6
_raises = True
_heard: signal.Signals | None = None
_was_reported = threading.Event()


class Terminated(KeyboardInterrupt):
    """SIGTERM ends the program; it cleans up as after Ctrl-C."""


def watch_signals() -> None:
    """End soon after SIGTERM or Ctrl-C, from here until the end of the process."""
    here, there = socket.socketpair()
    there.setblocking(False)  # as set_wakeup_fd demands
    signal.set_wakeup_fd(there.detach(), warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, _hear)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as shells set it for &
        signal.signal(signal.SIGINT, _hear)
    threading.Thread(
        target=_watch, args=(here,), name="gpc-signals", daemon=True
    ).start()


def be_patient(seconds: float) -> None:
    """Give the program longer to end by itself, because it has something to write.

    A second signal ends it at once.
    """
    global _patience
    _patience = seconds


def leave_to_watcher() -> None:
    """Raise nothing from here on: the program is done and only has to exit."""
    global _raises
    _raises = False


def was_heard() -> bool:
    """Whether a signal came that ends the program."""
    return _heard is not None


def is_ended(error: BaseException) -> bool:
    """Whether a signal is behind an error.

    Some libraries raise an error of their own when one strikes while they are loaded.
    """
    return isinstance(error, KeyboardInterrupt) or was_heard()


def say_ended(error: BaseException) -> int:
    """Say that a signal ended the program; return its exit code.

    That is 128 and the number of the signal, as in shells.
    """
    default = signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT
    number = _heard or default
    _say(number)
    return 128 + number


def _hear(number: int, _frame: FrameType | None) -> None:
    """Raise once: others may pass on what the terminal has sent already."""
    global _heard, _raises
    _heard = _heard or signal.Signals(number)
    if _raises:
        _raises = False
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


def _watch(here: socket.socket) -> None:
    """Wait for a signal, then for the program to end, then end it."""
    number = 0
    while number not in _WORDS:  # others have handlers of their own
        number = here.recv(1)[0]
    here.settimeout(_patience)
    with contextlib.suppress(TimeoutError):
        here.recv(1)
    remove_unfinished()
    # a terminal that was stopped takes no line, and must not keep us
    last = threading.Thread(target=_tidy, args=(signal.Signals(number),), daemon=True)
    last.start()
    last.join(_SHORT)
    os._exit(128 + number)


def _tidy(number: signal.Signals) -> None:
    """Show the cursor, which a progress bar hides, and say what happened."""
    with contextlib.suppress(OSError, ValueError):
        if sys.stderr.isatty():
            sys.stderr.write(_SHOW_CURSOR)
    if not _was_reported.is_set():
        _say(number)


def _say(number: signal.Signals) -> None:
    _was_reported.set()
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"gpu-consensus: {_WORDS[number]}\n")
        sys.stderr.flush()
