"""Which columns of a table are wanted, and which of them names the objects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np

_ID_NAMES = re.compile(
    r"(?i:(.*[_. -])?(ids?|uuid|barcodes?)|index|idx|unnamed: 0|__index_level_0__"
    r"|(sample|object|row|cell|gene)?[_. -]?names?)|.*[a-z](Id|ID)"
)


@dataclass(frozen=True)
class Choice:
    """Which columns a person wants; names, or numbers from 0.

    Attributes
    ----------
    columns : sequence of str
        All others are left out; none: all that fit. An asterisk stands for any text.
    drop : sequence of str
        To leave out.
    id : str, optional
        Names the objects; by default recognised.
    no_id : bool
        Recognise none.
    """

    columns: Sequence[str] = ()
    drop: Sequence[str] = ()
    id: str | None = None
    no_id: bool = False


class Table(NamedTuple):
    """What was read.

    Attributes
    ----------
    values : ndarray or scipy sparse matrix
        One row per object.
    names : list of str
        Of columns; empty where there are none.
    ids : list of str or None
        Of objects.
    id_name : str
        What the column of the ids is called.
    notes : list of str
        What a person should be told, a line each.
    """

    values: Any
    names: list[str]
    ids: list[str] | None = None
    id_name: str = "id"
    notes: list[str] = []  # noqa: RUF012 - nothing is ever added to it


class Picked(NamedTuple):
    """Columns by number: to read, of the ids if named, and that may hold ids if not."""

    kept: list[int]
    id: int | None
    are_named: bool
    may_be_id: list[int]


def pick(where: str, choice: Choice, names: Sequence[str], width: int) -> Picked:
    """Return the columns that a person named, or all but those to leave out."""
    id_column = None
    if choice.id is not None:
        id_column = find_columns(where, [choice.id], names, width)[0]
    dropped = {*find_columns(where, choice.drop, names, width)}
    if choice.columns:
        kept = find_columns(where, choice.columns, names, width)
        kept = [c for c in dict.fromkeys(kept) if c not in dropped]
    else:
        kept = [c for c in range(width) if c not in dropped and c != id_column]
    if not kept:
        raise ValueError(f"no column of {where} is left; drop fewer.")
    others: list[int] = []
    if id_column is None and not choice.no_id:
        others = [c for c in range(width) if c not in dropped]
    if choice.columns:
        others = [c for c in others if c not in kept]
    return Picked(kept, id_column, bool(choice.columns), others)


def find_columns(
    where: str, wanted: Iterable[str], names: Sequence[str], width: int
) -> list[int]:
    """Return the numbers of columns given by name, number or pattern.

    Several may stand in one text, parted by commas.

    Examples
    --------
    >>> find_columns("'a.csv'", ["b,x_*", "0"], ["a", "b", "x_1", "x_2"], 4)
    [1, 2, 3, 0]
    """
    found: list[int] = []
    for text in wanted:
        whole = _matching(where, text, names, width)
        parts = [part.strip() for part in text.split(",")]
        for part in [] if whole else parts:
            some = _matching(where, part, names, width)
            if not some:
                raise ValueError(
                    f"{where} has no column {part!r}; it has {_listed(names, width)}."
                )
            whole += some
        found += whole
    return found


def _matching(where: str, text: str, names: Sequence[str], width: int) -> list[int]:
    count = list(names).count(text)
    if count > 1:
        raise ValueError(
            f"{where} has several columns {text!r}; give the number, from 0."
        )
    if count:
        return [list(names).index(text)]
    if text.isdecimal() and int(text) < width:
        return [int(text)]
    if "*" in text:
        return [c for c, name in enumerate(names) if fnmatchcase(name, text)]
    return []


def _listed(names: Sequence[str], width: int) -> str:
    if not names:
        return f"0..{width - 1}"
    most = 20
    more = f", ... ({len(names)} in all)" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def is_id_name(name: str) -> bool:
    """Whether a column is called as one that names the objects.

    Examples
    --------
    >>> [is_id_name(name) for name in ("id", "Sample_ID", "name", "width", "idle")]
    [True, True, True, False, False]
    """
    return _ID_NAMES.fullmatch(name.strip()) is not None


def first_twice(cells: Iterable[Any]) -> tuple[Any, int, int] | None:
    """Return a cell that comes twice and where, from 0; None where all differ."""
    seen: dict[Any, int] = {}
    for l, cell in enumerate(cells):
        if cell in seen:
            return cell, seen[cell], l
        seen[cell] = l
    return None


def check_ids(where: str, name: str, ids: Sequence[str]) -> None:
    """Refuse ids that do not tell objects apart."""
    twice = first_twice(ids)
    if twice is not None:
        cell, one, other = twice
        raise ValueError(
            f"the ids in column {name!r} of {where} are not unique: {cell!r} is that "
            f"of objects {one} and {other}, counted from 0; mend them, or pass --no-id "
            f"--drop {name} to do without."
        )


def counts_rows(values: Any) -> bool:
    """Whether numbers are 0, 1, 2, ... or 1, 2, 3, ..., of three objects or more.

    Examples
    --------
    >>> counts_rows(np.array([1.0, 2.0, 3.0])), counts_rows(np.array([1.0, 3.0, 4.0]))
    (True, False)
    """
    if len(values) < 3 or values[0] not in (0, 1):
        return False
    return bool((values == np.arange(len(values)) + values[0]).all())
