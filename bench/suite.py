"""What a suite is made of.

A suite is a module with ``NAME``, a one-line docstring, and ``run(context)``, which
yields :class:`Table` objects as they are finished; one line in ``cli.SUITES`` makes it
known.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_consensus.util.progress import Advance, progress_bar


@dataclass(frozen=True)
class Context:
    """What the caller asked for.

    Attributes
    ----------
    quick : bool
        Seconds instead of the whole measurement.
    data_dir : Path or None
        Folder with data sets that scikit-learn does not ship.
    seeds : tuple of int
        Seeds of repeated runs.
    counts : bool
        Of the suite "speed", only the instructions of the kernels.
    only : tuple of str
        Of the suite "papers", only these parts; all if there are none.
    """

    quick: bool = False
    data_dir: Path | None = None
    seeds: tuple[int, ...] = tuple(range(10))
    counts: bool = False
    only: tuple[str, ...] = ()

    def progress(
        self, description: str, total: int | None
    ) -> AbstractContextManager[Advance]:
        """Return a bar on standard error; ``advance()`` moves it."""
        return progress_bar(True, description, total)


@dataclass(frozen=True)
class Column:
    """Key in the rows, heading, and how to print its numbers."""

    key: str
    title: str
    form: str = ""


@dataclass(frozen=True)
class Claim:
    """Something that should hold.

    Attributes
    ----------
    claim, measured : str
        What is asked for, and what came out.
    passed : bool or None
        None where this run cannot decide it; ``measured`` then says why.
    """

    claim: str
    measured: str
    passed: bool | None


@dataclass(frozen=True)
class Skipped:
    """Something that was left out, and why."""

    name: str
    reason: str


@dataclass
class Table:
    """One table of results, ready for JSON."""

    name: str
    title: str
    columns: list[Column]
    rows: list[dict[str, Any]] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@contextmanager
def collect_warnings(messages: dict[str, int]) -> Iterator[None]:
    """Count warnings by their text instead of showing them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        text = f"{warning.category.__name__}: {warning.message}"
        messages[text] = messages.get(text, 0) + 1


def warning_notes(messages: dict[str, int]) -> list[str]:
    """Return one note per kind of warning that was collected."""
    return [f"{number} times {text}" for text, number in messages.items()]
