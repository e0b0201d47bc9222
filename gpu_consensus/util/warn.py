"""Warnings that point at the line of the user."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType

_BETWEEN = frozenset({"gpu_consensus", "sklearn", "contextlib"})
"""Packages whose frames lie between a user's line and what we warn of."""

_silent = ContextVar("_silent", default=False)


@contextmanager
def own_warnings_off() -> Iterator[None]:
    """Silence the warnings of this package, in this thread alone.

    For methods that are run on trial: what fell short there is no one's concern.
    """
    before = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(before)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, and name the innermost line that is neither ours nor scikit-learn's.

    Parameters
    ----------
    message : str
    category : type of Warning, default UserWarning
    """
    if _silent.get():
        return
    frame: FrameType = sys._getframe(1)
    level = 2
    while frame.f_back is not None and _lies_between(frame):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


def _lies_between(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).split(".")[0] in _BETWEEN
