"""What every picture has: axes, a title, a text alternative and its numbers."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from gpu_consensus.util.numbers import shown


class Note(NamedTuple):
    """What a picture says, without the picture.

    Attributes
    ----------
    title : str
    text : str
        The text alternative: what is drawn, and what it shows here.
    columns : tuple of str
        Names of the columns of ``rows``.
    rows : list of tuple
        The numbers behind the picture, or a summary of them where they are too many.
    """

    title: str
    text: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


_notes: WeakKeyDictionary[Any, Note] = WeakKeyDictionary()


def require(name: str, what: str) -> Any:
    """Import a library of the extra ``report``, or say how to install it.

    Parameters
    ----------
    name : str
        Of the module to import.
    what : str
        What needs it, as the subject of the message.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if error.name is None or error.name.split(".")[0] != name.split(".")[0]:
            raise
        raise ImportError(
            f"{what} needs {name.split('.')[0]}, which is not installed; get it with "
            'pip install "gpu-consensus[report]".',
            name=error.name,
        ) from None


def open_axes(ax: Any, width: float = 5.4, height: float = 4.4) -> Any:
    """Return ``ax``, or the axes of a new figure of pyplot if it is None."""
    if ax is not None:
        if not hasattr(ax, "get_figure") or not hasattr(ax, "transAxes"):
            raise TypeError(
                f"ax={shown(ax)} should be one Axes of matplotlib; pass one of them, "
                "or None for a new figure."
            )
        return ax
    pyplot = require("matplotlib.pyplot", "a picture")
    _, ax = pyplot.subplots(figsize=(width, height), layout="constrained")
    return ax


def close_axes(
    ax: Any,
    title: str,
    text: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    framed: bool = False,
) -> Any:
    """Set the title, take away what is no data, keep the note; return ``ax``."""
    ax.set_title(title, loc="left", fontweight="bold", fontsize="medium")
    if not framed:
        ax.spines[["top", "right"]].set_visible(False)
    _notes[ax] = Note(title, text, tuple(columns), [tuple(row) for row in rows])
    return ax


def text_of(ax: Any) -> str:
    """Return the text alternative of a picture, for those who do not see it.

    Parameters
    ----------
    ax : Axes
        That a function of this module has drawn on.

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> from matplotlib.figure import Figure
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [0, 0, 0, 1]])
    >>> ax = gpc.plot.pair_distribution(ens, ax=Figure().subplots())
    >>> gpc.plot.text_of(ax).startswith("Cumulative distribution")
    True
    """
    return note_of(ax).text


def table_of(ax: Any) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Return the numbers of a picture: names of columns, and rows.

    Parameters
    ----------
    ax : Axes
        That a function of this module has drawn on.

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> from matplotlib.figure import Figure
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [0, 0, 0, 1]])
    >>> ax = gpc.plot.pair_distribution(ens, ax=Figure().subplots())
    >>> gpc.plot.table_of(ax)[0][:2]
    ('partitions with', 'partitions')
    """
    note = note_of(ax)
    return note.columns, note.rows


def note_of(ax: Any) -> Note:
    """Return title, text alternative and numbers of a picture."""
    try:
        return _notes[ax]
    except (KeyError, TypeError):
        raise ValueError(
            f"ax={shown(ax)} holds no picture of gpu_consensus.plot; draw one on it "
            "first."
        ) from None
