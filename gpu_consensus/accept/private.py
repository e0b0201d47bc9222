"""What a report must not contain: who the user is, and where files are."""

from __future__ import annotations

import getpass
import re
import socket
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

_QUOTED_PATH = re.compile(r"""(['"])(?:[A-Za-z]:)?[/\\][^'"]*[/\\]([^'"/\\]+)\1""")
_PATH = re.compile(
    # also in flags of compilers (-I/folder); not within an address or a word
    r"(?:(?<![\w/.<>])|(?<=-[IL])|(?<=file://))/(?:[\w.+@~-]+/)*([\w.+@~-]+)/?"
)
_NETWORK_PATH = re.compile(r"\\\\[^\s'\"]+\\([^\\\s'\"]*)")
_WINDOWS_PATH = re.compile(r"\b[A-Za-z]:\\(?:[^\\\s'\"]+\\)*([^\\\s'\"]*)")
_LONGEST = 1000


def redact(what: str | Exception) -> str:
    """Return a text or an error in one line, without paths and names of the user.

    Examples
    --------
    >>> redact(OSError("no file '/home/me/.cache/kernel.cu' here"))
    "OSError: no file '<path>/kernel.cu' here"
    """
    if isinstance(what, Exception):
        what = f"{type(what).__name__}: {what}"
    text = " ".join(what.split())
    for folder in _folders():
        text = re.sub(rf"{re.escape(folder)}(?![\w-])", "/<path>", text)
    text = _QUOTED_PATH.sub(r"\1<path>/\2\1", text)
    text = _NETWORK_PATH.sub(r"<path>/\1", text)
    text = _PATH.sub(r"<path>/\1", text).replace("/<path>", "<path>")
    text = _WINDOWS_PATH.sub(r"<path>/\1", text)
    for name in _names():
        text = re.sub(rf"\b{re.escape(name)}\b", "<name>", text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def redact_all(value: Any) -> Any:
    """Return a JSON value with every text in it passed through :func:`redact`."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {key: redact_all(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [redact_all(part) for part in value]
    return value


def _folders() -> list[str]:
    """Return folders that may have blanks in their names, the longest first."""
    known = {Path.cwd(), Path(tempfile.gettempdir()), Path(sys.prefix)}
    with suppress(RuntimeError):  # there is no home
        known.add(Path.home())
    texts = {str(path) for path in known if len(path.parts) > 1}
    return sorted(texts, key=len, reverse=True)


def _names() -> list[str]:
    """Return the names of this machine and its user."""
    names = {socket.gethostname(), socket.gethostname().partition(".")[0]}
    with suppress(OSError, KeyError, ImportError):  # not on every system
        names.add(getpass.getuser())
    return sorted((name for name in names if len(name) > 2), key=len, reverse=True)
