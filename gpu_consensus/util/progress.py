"""Progress of long work, shown only when asked for.

On a terminal it is a bar with rate and time left; elsewhere, as in a log, it is a line
now and then, and none for what is quick.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gpu_consensus.util.arrays import size_text

Advance = Callable[..., None]

_FIRST = 10.0  # seconds until a log hears of it
_AGAIN = 30.0


@contextmanager
def progress_bar(
    enabled: bool, description: str, total: int | None, *, of_bytes: bool = False
) -> Iterator[Advance]:
    """Yield ``advance(steps=1, note="")``, which moves a bar on standard error.

    Nothing is imported or drawn unless ``enabled``.

    Parameters
    ----------
    enabled : bool
    description : str
    total : int or None
        Steps in all, if known.
    of_bytes : bool, default False
        Whether steps are bytes.
    """
    if not enabled:
        yield lambda steps=1, note="": None
    elif sys.stderr.isatty():
        with _bar(description, total, of_bytes) as advance:
            yield advance
    else:
        yield _Lines(description, total, of_bytes)


@contextmanager
def _bar(description: str, total: int | None, of_bytes: bool) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.text import Text

    class Measure(ProgressColumn):
        """How far, how fast, and how long still."""

        def render(self, task: Task) -> Text:
            measure = _measure(task.completed, task.total, task.elapsed or 0, of_bytes)
            return Text(measure)

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        Measure(),
        TextColumn("{task.fields[note]}"),
        console=Console(stderr=True),
    )
    with bar:
        task = bar.add_task(description, total=total, note="")

        def advance(steps: int = 1, note: str = "") -> None:
            bar.update(task, advance=steps, note=note)

        yield advance


class _Lines:
    """A line after some seconds, and again after more."""

    def __init__(self, description: str, total: int | None, of_bytes: bool) -> None:
        self._description = description
        self._total = total
        self._of_bytes = of_bytes
        self._done = 0
        self._began = time.monotonic()
        self._next = self._began + _FIRST

    def __call__(self, steps: int = 1, note: str = "") -> None:
        self._done += steps
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _AGAIN
        measure = _measure(self._done, self._total, now - self._began, self._of_bytes)
        words = [self._description + ":", measure, note]
        sys.stderr.write(" ".join(word for word in words if word) + "\n")
        sys.stderr.flush()


def _measure(
    done: float, total: float | None, seconds: float, of_bytes: bool = False
) -> str:
    """Return how far work is, how fast it goes, and how long it will still take.

    Examples
    --------
    >>> _measure(25, 100, 50.0)
    '25/100, 0.5/s, 0:50 gone, 2:30 left'
    >>> _measure(3, None, 61.0)
    '3, 0.049/s, 1:01 gone'
    """
    many = size_text if of_bytes else str
    parts = [many(int(done))]
    if total is not None:
        parts = [f"{many(int(done))}/{many(int(total))}"]
    rate = done / seconds if seconds > 0 else 0.0
    if rate > 0:
        plain = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
        parts.append(f"{size_text(rate) if of_bytes else plain}/s")
    parts.append(f"{_clock(seconds)} gone")
    if rate > 0 and total is not None and total > done:
        parts.append(f"{_clock((total - done) / rate)} left")
    return ", ".join(parts)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{rest:02d}"
    return f"{minutes}:{rest:02d}"
