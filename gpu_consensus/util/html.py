"""A table for notebooks, as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any


def html_table(
    caption: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]
) -> str:
    """Return a table; all text is escaped.

    Examples
    --------
    >>> "<td>a &lt; b</td>" in html_table("words", ["text"], [["a < b"]])
    True
    """
    head = "".join(f'<th scope="col">{escape(str(name))}</th>' for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return (
        f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )
