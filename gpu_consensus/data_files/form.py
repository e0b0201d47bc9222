"""How text is written: separator, header, decimal mark; named or recognised."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from gpu_consensus.data_files.source import PLAIN, Source

SEPARATORS = {
    "comma": ",",
    "semicolon": ";",
    "tab": "\t",
    "pipe": "|",
    "blanks": " ",
}
DECIMALS = {"point": ".", "comma": ","}
MISSING = frozenset(
    ("", "-1", "-1.0", "na", "n/a", "#n/a", "<na>", "nan", "-nan", "none", "null")
)
"""Cells that stand for a missing label, in small letters."""
GAPS = MISSING - {"-1", "-1.0"}
"""Cells that stand for a missing number."""

_USUAL = {".csv": ",", ".tsv": "\t", ".txt": " ", "": ","}
_LOOK = 1_000  # lines by which a file is judged
_LOOK_CELLS = 200_000
_NUMBER = re.compile(
    r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(inf|infinity|nan)", re.IGNORECASE
)
_COMMA = re.compile(r"[+-]?(\d+,\d*|,\d+)(e[+-]?\d+)?", re.IGNORECASE)
_ONE_GROUP = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")
_GROUPS = re.compile(
    r"[+-]?\d{1,3}((,\d{3}){2,}(\.\d*)?|(\.\d{3}){2,}(,\d*)?|,\d{3}\.\d*|\.\d{3},\d*"
    r"|([ '’_\u00a0\u202f]\d{3})+([.,]\d*)?)"
)


@dataclass(frozen=True)
class Form:
    """How files of text are written; what is None is recognised.

    Attributes
    ----------
    header : bool, optional
        Whether the first line holds names.
    separator, decimal : str, optional
        A key or a value of ``SEPARATORS`` and of ``DECIMALS``.
    encoding : str, optional
    """

    header: bool | None = None
    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None


class Layout(NamedTuple):
    """What the first lines of a file show.

    Attributes
    ----------
    separator : str
        " " for any number of blanks.
    names : list of str
        Of columns; empty without a header.
    rows : list of list of str
        The first objects.
    n_above : int
        Lines before the first object.
    has_row_names : bool
        Whether the header has no name for the first column, as R writes it.
    width : int
        Cells of an object.
    is_told : bool
        Whether the separator is not the usual one of such a file, nor named.
    """

    separator: str
    names: list[str]
    rows: list[list[str]]
    n_above: int
    has_row_names: bool
    width: int
    is_told: bool


def read_layout(source: Source, form: Form, labels: bool) -> Layout:
    """Recognise what is not named; ``labels`` says what the cells should be."""
    head = source.head()
    if not head.strip():
        raise ValueError(f"{source.where} is empty; it should hold one object a line.")
    lines = list(islice((s for s in _logical_lines(head) if s.strip()), _LOOK))
    usual = _USUAL.get(source.suffix, ",")
    separator = named("--separator", form.separator, SEPARATORS)
    if separator is None:
        separator = _recognised(lines, usual)
    rows = [row for _, row in split(head, separator) if row]
    first, *below = rows[: max(20, min(_LOOK, _LOOK_CELLS // len(rows[0])))]
    row_names = _has_row_names(first, below)
    header = form.header
    if header is None:
        header = row_names or _has_header(first, below, labels)
    if header and not below:
        raise ValueError(
            f"{source.where} holds one line, taken for column names, and no objects; "
            "add them, or pass --no-header if that line is one."
        )
    n_above = 0
    if header:
        n_above = next(line for line, row in split(head, separator) if row)
    row_names = row_names and header
    width = len(below[0]) if row_names else len(first)
    return Layout(
        separator,
        [*([""] if row_names else []), *first] if header else [],
        below if header else [first, *below],
        n_above,
        row_names,
        width,
        form.separator is None and len(rows[-1]) > 1 and separator not in (usual, ","),
    )


def split(text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the last line of each row, from 1, and its cells; a blank line has none."""
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    if separator == " ":
        lines = [" ".join(line.split()) for line in lines]
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=separator)
    try:
        for row in reader:
            blank = not any(row) or (len(row) == 1 and row[0].isspace())
            if blank and len(row) == 1 and '"' in lines[reader.line_num - 1]:
                blank = False
            yield (
                reader.line_num,
                [] if blank and len(row) < 2 else [cell.strip() for cell in row],
            )
    except csv.Error as error:
        raise ValueError(
            f"line {reader.line_num} is not one of a table ({error}); save the table "
            "anew."
        ) from None


def decimal_of(
    columns: Sequence[tuple[str, Sequence[str]]], layout: Layout, form: Form, where: str
) -> str:
    """Return the decimal mark of some columns, and refuse thousands separators.

    Parameters
    ----------
    columns : sequence of (str, sequence of str)
        Names and cells, of those that are wanted as numbers.
    """
    mark = named("--decimal", form.decimal, DECIMALS)
    points = commas = ""
    grouped = True
    for name, cells in columns:
        for cell in cells:
            if _GROUPS.fullmatch(cell):
                raise _thousands(where, name, cell)
            if _COMMA.fullmatch(cell):
                commas = commas or f"{cell!r} in column {name!r}"
                grouped = grouped and _ONE_GROUP.fullmatch(cell) is not None
            elif "." in cell and _NUMBER.fullmatch(cell):
                points = points or f"{cell!r} in column {name!r}"
    if mark is None and commas and layout.separator == "," and grouped:
        raise ValueError(
            f"{where} has {commas}: a comma in a file of commas may part thousands or "
            "be a decimal comma; write the numbers without it, or pass --decimal comma."
        )
    if points and (mark == "," or (mark is None and commas)):
        raise ValueError(
            f"{where} has {points}"
            + (f" and {commas}" if commas else " where decimals have a comma")
            + "; write all numbers with a decimal point, and thousands without a mark."
        )
    if mark is None:
        mark = "," if commas else "."
    return mark


def is_number(cell: str, *, comma: bool = True) -> bool:
    """Whether a cell is a number, by a decimal point or (``comma``) a decimal comma."""
    return bool(_NUMBER.fullmatch(cell) or (comma and _COMMA.fullmatch(cell)))


def looks_like_number(cell: str) -> bool:
    """Whether a person would call it a number, thousands separators included."""
    return is_number(cell) or _GROUPS.fullmatch(cell) is not None


def is_word(cell: str) -> bool:
    """Whether a cell is neither a number nor missing."""
    return cell.lower() not in MISSING and not looks_like_number(cell)


def told(source: Source, layout: Layout, decimal: str, form: Form) -> list[str]:
    """Return a line on what was recognised and is not the plain case, or none."""
    found = []
    if layout.is_told:
        name = next(k for k, mark in SEPARATORS.items() if mark == layout.separator)
        found.append(("--separator", f"cells parted by {name}"))
    if decimal == "," and form.decimal is None:
        found.append(("--decimal", "decimal commas"))
    if source.encoding not in PLAIN and form.encoding is None:
        found.append(("--encoding", f"{source.encoding} text"))
    if not found:
        return []
    how = ", ".join(text for _, text in found)
    flags = ", ".join(flag for flag, _ in found)
    return [f"{source.where}: recognised {how} (otherwise name it with {flags})."]


def named(flag: str, given: str | None, known: dict[str, str]) -> str | None:
    r"""Return the mark for a name or for itself; "\t" may be typed."""
    if given is None:
        return None
    given = {"\\t": "\t", "space": " ", "whitespace": " "}.get(given, given)
    mark = known.get(given, given)
    if mark not in known.values():
        listed = ", ".join(f"{name} ({mark!r})" for name, mark in known.items())
        raise ValueError(f"{flag} {given!r} is unknown; choose one of {listed}.")
    return mark


def _logical_lines(text: str) -> Iterator[str]:
    """Yield lines; a line that ends within quotes goes on."""
    rest = ""
    for line in text.split("\n"):
        rest = f"{rest}\n{line}" if rest else line
        if rest.count('"') % 2 == 0:
            yield rest
            rest = ""
    if rest:
        yield rest


def _recognised(lines: list[str], usual: str) -> str:
    """Return the mark of which every line has the same number."""
    bare = ["".join(line.split('"')[::2]) for line in lines]
    marks = ("\t", ";", "|", ",")
    for mark in marks:
        first, *counts = [line.count(mark) for line in bare]
        # names may be one less than cells, as R writes them
        short = (counts or [first])[0] - first
        whole = len(set(counts)) < 2 and 0 <= short <= bool(first)
        if (first or short) and whole and not (mark == "," and _parts_numbers(bare)):
            return mark
    if _parts_numbers(bare):
        return " "
    single = "," not in bare[0] and any("," in line for line in bare)
    if single and all(is_number(line.strip()) for line in bare[1:]):
        return ";"  # one column, with decimal commas
    there = [mark for mark in (usual, ",", ";", *marks) if mark in bare[0]]
    return there[0] if there and usual != "\t" else usual


def _parts_numbers(lines: list[str]) -> bool:
    """Whether blanks part numbers in every line but the first."""
    cells = [line.split() for line in lines[1:] or lines]
    sizes = {len(row) for row in cells}
    numbers = all(is_number(cell) for row in cells for cell in row)
    return len(sizes) == 1 and sizes != {1} and numbers


def _has_row_names(first: list[str], below: list[list[str]]) -> bool:
    """Whether objects have one cell more than the names above them, as R writes it."""
    if not below or any(len(row) != len(first) + 1 for row in below):
        return False
    if not all(is_word(cell) for cell in first) or not any(row[-1] for row in below):
        return False
    names = [row[0] for row in below]
    counted = names == [str(l) for l in range(1, len(names) + 1)]
    return all(map(is_word, names)) or (counted and len(names) > 2)


def _has_header(first: list[str], below: list[list[str]], labels: bool) -> bool:
    words = [(c, cell) for c, cell in enumerate(first) if is_word(cell)]
    if labels:
        again = any(row[c : c + 1] == [cell] for c, cell in words for row in below)
        return bool(words) and not again
    if not below:
        return bool(words)
    return any(
        is_word(cell) and looks_like_number(under)
        for cell, under in zip(first, below[0], strict=False)
    )


def _thousands(where: str, name: str, cell: str) -> ValueError:
    return ValueError(
        f"{where} has {cell!r} in column {name!r}: thousands separators are not read; "
        "write such numbers without them."
    )
