"""Features and labels from files, and labels into files."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.storage import write_atomic

_DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": None}
_MISSING = {"", "-1", "na", "nan", "none", "null"}


def read_features(path: Path, drop: Sequence[str] = ()) -> Any:
    """Read features: .csv, .tsv, .txt (blanks), .npy, or .npz of a scipy sparse matrix.

    Parameters
    ----------
    path : Path
    drop : sequence of str
        Columns to leave out, by name, or by number from 0.
    """
    _must_exist(path)
    if path.suffix == ".npz":
        from scipy.sparse import load_npz

        return _read(path, lambda: load_npz(path), "a scipy sparse matrix")
    if path.suffix == ".npy":
        X = _read(path, lambda: np.load(path, allow_pickle=False), "an array")
        return np.delete(X, _columns(path, drop, [], X.shape[-1]), axis=-1)
    names, first, delimiter, skip = _head(path)
    dropped = set(_columns(path, drop, names, len(first)))
    kept = [c for c in range(len(first)) if c not in dropped]
    words = [c for c in kept if not _is_number(first[c])]
    if words:
        name = names[words[0]] if names else str(words[0])
        raise ValueError(
            f"column {name!r} of {str(path)!r} holds {first[words[0]]!r}, which is not "
            f"a number; leave it out with --drop {name}."
        )
    try:
        return np.loadtxt(
            path,
            delimiter=delimiter,
            skiprows=skip,
            usecols=kept,
            ndmin=2,
            comments=None,
        )
    except (ValueError, IndexError) as error:
        raise ValueError(
            f"{str(path)!r} is not a table of numbers ({str(error).rstrip('.')}); fill "
            "or drop what is empty or not a number."
        ) from None


def read_labels(path: Path, column: str | None = None) -> npt.NDArray[Any]:
    """Read labels, (n,) or (n, r): .csv, .tsv, .txt or .npy.

    Parameters
    ----------
    path : Path
    column : str, optional
        The one column to take, by name; "label" if there is one of that name and no
        other is asked for.

    Notes
    -----
    Empty cells, -1, NA, NaN and None are missing labels. A first line counts as names
    if one of its words appears nowhere below in its column, and is no number.
    """
    _must_exist(path)
    if path.suffix == ".npy":
        return np.asarray(
            _read(path, lambda: np.load(path, allow_pickle=False), "an array")
        )
    names, first, delimiter, skip = _head(path)
    with path.open(newline="", encoding="utf-8") as file:
        lines = (line.split() for line in file) if delimiter is None else None
        rows = list(lines or csv.reader(file, delimiter=delimiter or ","))[skip:]
    rows = [row for row in rows if row]
    ragged = [l for l, row in enumerate(rows) if len(row) != len(first)]
    if ragged:
        raise ValueError(
            f"line {ragged[0] + skip + 1} of {str(path)!r} has {len(rows[ragged[0]])} "
            f"cells but the first has {len(first)}; give every line the same number."
        )
    table = np.array([[cell.strip() for cell in row] for row in rows], dtype=object)
    table[np.isin(np.char.lower(table.astype(str)), list(_MISSING))] = None
    wanted = column or ("label" if "label" in names else None)
    if wanted is not None:
        return np.asarray(table[:, _columns(path, [wanted], names, len(first))[0]])
    return table[:, 0] if table.shape[1] == 1 else table


def write_labels(
    path: Path,
    labels: npt.NDArray[np.int32],
    confidence: npt.NDArray[np.float64] | None,
) -> None:
    """Write labels to .npy, or with their confidence to .csv; atomic."""
    if path.suffix == ".npy":
        write_atomic(path, lambda file: np.save(file, labels))
        return
    if path.suffix != ".csv":
        raise ValueError(f"--output {str(path)!r} should end in .csv or .npy.")
    if confidence is None:
        lines = ["label", *(str(label) for label in labels)]
    else:
        pairs = zip(labels, confidence, strict=True)
        lines = ["label,confidence", *(f"{label},{c:.6f}" for label, c in pairs)]
    text = "\n".join(lines) + "\n"

    def write(file: Any) -> None:
        file.write(text.encode())

    write_atomic(path, write)


def _must_exist(path: Path) -> None:
    if not path.is_file():
        raise FileNotFoundError(f"{str(path)!r} is not a file; check the path.")
    known = {*_DELIMITERS, ".npy", ".npz"}
    if path.suffix not in known:
        listed = ", ".join(sorted(known))
        raise ValueError(f"{str(path)!r} should end in one of {listed}.")


def _read(path: Path, read: Any, what: str) -> Any:
    try:
        return read()
    except (ValueError, OSError, EOFError, KeyError) as error:
        raise ValueError(f"{str(path)!r} does not hold {what} ({error}).") from None


def _head(path: Path) -> tuple[list[str], list[str], str | None, int]:
    """Return column names, the first row of data, the delimiter, lines to skip."""
    delimiter = _DELIMITERS[path.suffix]
    with path.open(newline="", encoding="utf-8") as file:
        lines = [line for _, line in zip(range(2), file, strict=False)]
    if not lines:
        raise ValueError(f"{str(path)!r} is empty; it should hold one object a line.")
    if delimiter == "," and ";" in lines[0] and "," not in lines[0]:
        delimiter = ";"

    def cells(line: str) -> list[str]:
        if delimiter is None:
            return line.split()
        return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter))]

    first = cells(lines[0])
    below = cells(lines[1]) if len(lines) > 1 else []
    named = any(not _is_number(cell) for cell in first) and (
        "label" in first or any(_is_number(cell) for cell in below) or not below
    )
    return (first, below or first, delimiter, 1) if named else ([], first, delimiter, 0)


def _columns(
    path: Path, wanted: Sequence[str], names: list[str], size: int
) -> list[int]:
    found = []
    for name in wanted:
        if name in names:
            found.append(names.index(name))
        elif name.isdecimal() and int(name) < size:
            found.append(int(name))
        else:
            listed = ", ".join(names) if names else f"0..{size - 1}"
            raise ValueError(f"{str(path)!r} has no column {name!r}; it has {listed}.")
    return found


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text.lower() in _MISSING
    return True
