"""A progress bar for long work, drawn only when asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[..., None]


@contextmanager
def progress_bar(
    enabled: bool, description: str, total: int | None
) -> Iterator[Advance]:
    """Yield ``advance(steps=1, note="")``, which moves a bar on standard error.

    Nothing is imported or drawn unless ``enabled``.
    """
    if not enabled:
        yield lambda steps=1, note="": None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
        console=Console(stderr=True),
    )
    with bar:
        task = bar.add_task(description, total=total, note="")

        def advance(steps: int = 1, note: str = "") -> None:
            bar.update(task, advance=steps, note=note)

        yield advance
