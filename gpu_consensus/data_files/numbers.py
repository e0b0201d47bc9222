"""Features from text: NumPy's reader, block by block, and what is wrong by line."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.data_files.columns import (
    Choice,
    Table,
    check_ids,
    counts_rows,
    first_twice,
    is_id_name,
    pick,
)
from gpu_consensus.data_files.form import (
    GAPS,
    Form,
    Layout,
    decimal_of,
    is_number,
    looks_like_number,
    read_layout,
    split,
    told,
)
from gpu_consensus.data_files.source import Source
from gpu_consensus.util.memory import check_memory
from gpu_consensus.util.progress import progress_bar

_UNIT = "\x1f"  # parts cells that stood in quotes; no text has it


def read_numbers(
    source: Source, choice: Choice, form: Form, progress: bool = False
) -> Table:
    """Read the columns that hold numbers, and the ids of the objects."""
    layout = read_layout(source, form, labels=False)
    names, width = layout.names, layout.width
    where = source.where
    picked = pick(where, choice, names, width)
    columns = [
        [row[c] if c < len(row) else "" for row in layout.rows] for c in range(width)
    ]
    looked_at = {*picked.kept, *picked.may_be_id}
    kinds = [_kind(columns[c]) if c in looked_at else "" for c in range(width)]
    is_unnamed = not names or not names[-1]
    if is_unnamed and not picked.are_named and not any(columns[-1]):
        kinds[-1] = ""  # behind a mark at the end of every line
    id_column, is_text = picked.id, False
    if id_column is None:
        id_column = _id_column(layout, columns, kinds, picked.may_be_id)
        if id_column is not None:
            is_text = kinds[id_column] == "text"
            kinds[id_column] = ""
    texts = [c for c in picked.kept if kinds[c] == "text"]
    if texts and picked.are_named:
        raise _not_a_number(where, layout, columns, texts[0])
    empty = [c for c in picked.kept if kinds[c] == "empty" and not picked.are_named]
    kept = [c for c in picked.kept if kinds[c] in ("number", "mixed", "empty")]
    kept = [c for c in kept if c not in empty]
    for c in kept:
        if kinds[c] == "mixed":
            raise _mixed(where, layout, columns, c)
    if not kept:
        raise ValueError(
            f"{where} has no column of numbers; features are numbers: leave labels to "
            "gpu-consensus consensus."
        )
    named = [(_name(layout, c), columns[c]) for c in kept]
    decimal = decimal_of(named, layout, form, where)
    notes = told(source, layout, decimal, form)
    if texts:
        notes.append(_left_out(where, [_name(layout, c) for c in texts]))
    if empty:
        listed = ", ".join(repr(_name(layout, c)) for c in empty)
        notes.append(f"{where}: nothing stands in {listed}, left out.")
    X, ids = _read(source, layout, kept, id_column, decimal, progress)
    kept_names = [names[c] for c in kept] if names else []
    if id_column is not None and ids is not None:
        name = _name(layout, id_column)
        twice = first_twice(ids)
        if twice is None or picked.id is not None or not is_text:
            check_ids(where, name, ids)
        else:
            ids = None
            notes.append(
                f"{where}: {name!r} holds {twice[0]!r} twice, so it names no objects; "
                "it is left out."
            )
    elif (
        0 in picked.may_be_id and not picked.are_named and _is_counter(layout, kept, X)
    ):
        ids = [str(int(value)) for value in X[:, 0]]
        X, kept_names, id_column = X[:, 1:], kept_names[1:], 0
    if ids is None:
        return Table(X, kept_names, None, "id", notes)
    name = (names[id_column or 0] if names else "") or "id"
    if picked.id is None:
        shown = repr(name) if names else "0"
        notes.append(
            f"{where}: column {shown} names the objects (--no-id if it does not)."
        )
    return Table(X, kept_names, ids, name, notes)


def _kind(cells: Sequence[str]) -> str:
    """Return whether a column holds numbers, text, both, or nothing."""
    filled = [cell for cell in cells if cell.lower() not in GAPS]
    if not filled:
        return "empty"
    numbers = sum(map(looks_like_number, filled))
    if numbers == len(filled):
        return "number"
    return "mixed" if numbers else "text"


def _id_column(
    layout: Layout, columns: list[list[str]], kinds: list[str], among: list[int]
) -> int | None:
    """Return the column that names the objects, as far as the first lines show."""
    if layout.has_row_names and 0 in among:
        return 0
    for c in among if layout.names else ():
        name = layout.names[c]
        is_index = c == 0 and not name
        whole = kinds[c] == "number" and all(cell.isdecimal() for cell in columns[c])
        may = kinds[c] in ("text", "mixed") or whole
        if may and (is_index or is_id_name(name)) and _differ(columns[c], whole):
            return c
    may = 0 in among and kinds[0] in ("text", "mixed") and len(kinds) > 1
    return 0 if may and _differ(columns[0], False) else None


def _differ(cells: list[str], even_twice: bool) -> bool:
    return even_twice or (first_twice(cells) is None and all(cells))


def _is_counter(layout: Layout, kept: list[int], X: npt.NDArray[Any]) -> bool:
    unnamed = not layout.names or not layout.names[0]
    return unnamed and kept[0] == 0 and len(kept) > 1 and counts_rows(X[:, 0])


def _read(
    source: Source,
    layout: Layout,
    kept: list[int],
    id_column: int | None,
    decimal: str,
    progress: bool,
) -> tuple[npt.NDArray[np.float64], list[str] | None]:
    """Read all objects: features, and ids where a column holds them."""
    ids: list[str] | None = None if id_column is None else []
    parts: list[npt.NDArray[np.float64]] = []
    _check_room(source, layout, len(kept))
    above = layout.n_above
    line = 0
    name = f"reading {source.where}"
    with progress_bar(progress, name, source.size, of_bytes=True) as advance:
        for block in source.blocks(advance=advance):
            text, before = block, line
            line += block.count("\n") + (not block.endswith("\n"))
            if above:
                text, before = _below(block, above), above
                above = 0
            if text.strip():
                part, some = _parse(
                    source, layout, kept, id_column, decimal, text, before
                )
                parts.append(part)
                if ids is not None:
                    ids += some
    return np.concatenate(parts), ids


def _below(block: str, n_lines: int) -> str:
    at = 0
    for _ in range(n_lines):
        at = block.index("\n", at) + 1
    return block[at:]


def _check_room(source: Source, layout: Layout, n_kept: int) -> None:
    if source.size is None:
        return
    rows = layout.rows[:100]
    cells = sum(len(cell) + 1 for row in rows for cell in row) / len(rows)
    nbytes = int(source.size / cells * n_kept * 8 * 2)
    cure = "read fewer columns with --columns, or save float32 as .npy"
    check_memory(f"reading {source.where}", nbytes, None, cure)


def _parse(
    source: Source,
    layout: Layout,
    kept: list[int],
    id_column: int | None,
    decimal: str,
    text: str,
    before: int,
) -> tuple[npt.NDArray[np.float64], list[str]]:
    """Parse a block of lines; ``before`` lines of the file come before it."""
    mark: str | None = layout.separator
    ids: list[str] = []
    if '"' in text or _UNIT in text or (decimal == "," and "." in text):
        rows = [(l, row) for l, row in split(text, layout.separator) if row]
        _check_cells(source.where, layout, kept, decimal, rows, before)
        lines = [_UNIT.join([row[c] for c in kept]) for _, row in rows]
        if id_column is not None:
            ids = [row[id_column] for _, row in rows]
        mark, columns = _UNIT, range(len(kept))
    else:
        lines = [line for line in text.split("\n") if line and not line.isspace()]
        if mark == " ":
            sizes = {len(line.split()) for line in lines}
            mark = None
        else:
            sizes = {line.count(layout.separator) + 1 for line in lines}
        if sizes != {layout.width}:
            _check_cells(
                source.where, layout, kept, decimal, _rows(text, layout), before
            )
        if id_column is not None:
            after = id_column + 1
            ids = [line.split(mark, after)[id_column].strip() for line in lines]
        columns = kept  # type: ignore[assignment]
    if decimal == ",":
        lines = [line.replace(",", ".") for line in lines]
    try:
        part = np.loadtxt(
            lines, delimiter=mark, usecols=tuple(columns), ndmin=2, comments=None
        )
        if np.isfinite(part).all():
            return part, ids
    except ValueError as error:
        _check_cells(source.where, layout, kept, decimal, _rows(text, layout), before)
        raise ValueError(
            f"{source.where} is not a table of numbers ({error})."
        ) from None
    _check_cells(source.where, layout, kept, decimal, _rows(text, layout), before)
    return part, ids  # infinite by its size, like 1e999; refused where it is used


def _rows(text: str, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    return ((l, row) for l, row in split(text, layout.separator) if row)


def _check_cells(
    where: str,
    layout: Layout,
    kept: list[int],
    decimal: str,
    rows: Any,
    before: int,
) -> None:
    """Raise an error for the first cell that is no finite number."""
    for l, row in rows:
        line = f"line {before + l} of {where}"
        if len(row) != layout.width:
            raise ValueError(
                f"{line} has {len(row)} cells but the first has {layout.width}; give "
                "every line the same number."
            )
        for c in kept:
            cell, name = row[c], _name(layout, c)
            wrong = "." in cell if decimal == "," else "," in cell
            if (
                is_number(cell)
                and not wrong
                and cell.lower().lstrip("+-")[:1] not in "in"
            ):
                continue
            if cell.lower().lstrip("+-") in GAPS:
                raise ValueError(
                    f"{line} has no number in column {name!r} ({cell!r}); fill such "
                    f"cells in, delete their lines, or pass --drop {shlex.quote(name)}."
                )
            kind = " with a decimal comma" if decimal == "," else ""
            raise ValueError(
                f"{line} has {cell!r} in column {name!r}, which is not a finite number"
                f"{kind}; mend it, or pass --drop {shlex.quote(name)}."
            )


def _name(layout: Layout, c: int) -> str:
    return (layout.names[c] if layout.names else "") or str(c)


def _not_a_number(
    where: str, layout: Layout, columns: list[list[str]], c: int
) -> ValueError:
    cell = next(cell for cell in columns[c] if not looks_like_number(cell))
    name = _name(layout, c)
    return ValueError(
        f"column {name!r} of {where} holds {cell!r}, which is not a number; leave it "
        "out of --columns, or encode it as numbers."
    )


def _mixed(where: str, layout: Layout, columns: list[list[str]], c: int) -> ValueError:
    cell = next(
        cell
        for cell in columns[c]
        if cell.lower() not in GAPS and not looks_like_number(cell)
    )
    name = _name(layout, c)
    return ValueError(
        f"column {name!r} of {where} holds numbers and {cell!r}, which is none; mend "
        f"such cells, or leave the column out with --drop {shlex.quote(name)}."
    )


def _left_out(where: str, names: list[str]) -> str:
    most = 5
    listed = ", ".join(map(repr, names[:most]))
    more = f" and {len(names) - most} more" if len(names) > most else ""
    columns = "columns of text are" if len(names) > 1 else "a column of text is"
    return f"{where}: {columns} left out: {listed}{more}."
