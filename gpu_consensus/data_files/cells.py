"""Labels from text: the cells of the columns that are wanted, None if missing."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from gpu_consensus.data_files.columns import (
    Choice,
    Table,
    check_ids,
    first_twice,
    is_id_name,
    pick,
)
from gpu_consensus.data_files.form import (
    MISSING,
    Form,
    Layout,
    is_number,
    read_layout,
    split,
    told,
)
from gpu_consensus.data_files.source import Source

_WHOLE = re.compile(r"([+-]?\d+)\.0*")


def read_cells(source: Source, choice: Choice, form: Form) -> Table:
    """Read labels: (n, r) Python objects, and the ids of the objects."""
    layout = read_layout(source, form, labels=True)
    picked = pick(source.where, choice, layout.names, layout.width)
    columns = _columns(source, layout.separator, layout.n_above, layout.width)
    names = [name or str(c) for c, name in enumerate(layout.names)] or [
        str(c) for c in range(layout.width)
    ]
    kept, id_column = picked.kept, picked.id
    notes = told(source, layout, ".", form)
    is_unnamed = not layout.names or not layout.names[-1]
    if is_unnamed and not picked.are_named and not any(columns[-1]) and len(kept) > 1:
        kept = [c for c in kept if c != layout.width - 1]
    recognised = id_column is None
    if recognised and layout.width > 1:
        id_column = _id_column(layout, columns, picked.may_be_id)
    ids = None
    if id_column is not None:
        ids = columns[id_column]
        check_ids(source.where, names[id_column], ids)
        if recognised:
            kept = [c for c in kept if c != id_column]
            shown = repr(names[id_column]) if layout.names else id_column
            notes.append(
                f"{source.where}: column {shown} names the objects (--no-id if it does "
                "not)."
            )
    values = np.empty((len(columns[0]), len(kept)), dtype=object)
    for i, c in enumerate(kept):
        values[:, i] = _labels(columns[c])
    id_name = layout.names[id_column] if layout.names and id_column is not None else ""
    chosen = [names[c] for c in kept] if layout.names else []
    return Table(values, chosen, ids, id_name or "id", notes)


def refuse_decimals(where: str, table: Table) -> None:
    """Refuse a column of decimals: they are features, not labels."""
    for i in range(table.values.shape[1]):
        cells = {str(cell) for cell in table.values[:, i] if cell is not None}
        odd = min((cell for cell in cells if not _is_whole(cell)), default=None)
        if odd is not None and all(map(is_number, cells)):
            name = table.names[i] if table.names else str(i)
            raise ValueError(
                f"column {name!r} of {where} holds {odd!r}, and decimals are no "
                "labels: cluster features with gpu-consensus cluster, or name the "
                "columns of labels with --columns."
            )


def _columns(
    source: Source, separator: str, n_above: int, width: int
) -> list[list[str]]:
    """Return the cells of every column below the names."""
    columns: list[list[str]] = [[] for _ in range(width)]
    known: dict[str, str] = {}  # one object for all cells of one text
    line = 0
    blank = None
    for block in source.blocks():
        for l, row in split(block, separator):
            l += line
            if l <= n_above:
                continue
            if not row:
                blank = blank or (l if columns[0] else None)
                continue
            if blank is not None and width == 1:
                raise ValueError(
                    f"line {blank} of {source.where} is blank; write NA for a missing "
                    "label, or delete the line."
                )
            if len(row) != width:
                raise ValueError(
                    f"line {l} of {source.where} has {len(row)} cells but the first "
                    f"has {width}; give every line the same number."
                )
            for column, cell in zip(columns, row, strict=True):
                column.append(known.setdefault(cell, cell))
        line += block.count("\n")
    return columns


def _id_column(
    layout: Layout, columns: list[list[str]], among: list[int]
) -> int | None:
    """Return the column whose cells all differ while those of another do not."""
    if len(columns[0]) < 2 or not among:
        return None
    differ = [first_twice(column) is None for column in columns]
    called = [c for c in among if layout.names and is_id_name(layout.names[c])]
    if layout.has_row_names and 0 in among:
        called = [0]
    for c in called:
        if differ[c] or all(cell.isdecimal() for cell in columns[c]):
            return c
    return 0 if 0 in among and differ[0] and not all(differ) else None


def _labels(cells: list[str]) -> list[Any]:
    """Return the labels of a column; where all are numbers, "2.0" is 2."""
    filled = {cell for cell in cells if cell.lower() not in MISSING}
    label: dict[str, Any] = {cell: cell for cell in filled}
    if filled and all(map(is_number, filled)):
        for cell in filled:
            whole = _WHOLE.fullmatch(cell)
            label[cell] = whole[1] if whole else cell
            if _is_whole(label[cell]) and float(label[cell]) < -1:
                raise ValueError(
                    f"a column of labels holds {cell!r}; only -1 may be negative, and "
                    "means missing."
                )
    return [label.get(cell) for cell in cells]


def _is_whole(cell: str) -> bool:
    return cell.lstrip("+-").isdecimal()
