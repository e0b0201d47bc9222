"""Features and labels from files, and labels into files.

Text is UTF-8, with or without a byte order mark; cells may stand in double quotes;
blank lines at the beginning and the end do not count. The end of a file's name says
what it is, in small letters or capitals.
"""

from __future__ import annotations

import csv
import shlex
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
import numpy.typing as npt

from gpu_consensus.ensemble.storage import write_atomic

_DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": None}
_MISSING = {"", "-1", "na", "nan", "none", "null"}


def read_features(
    path: Path, drop: Sequence[str] = (), header: bool | None = None
) -> Any:
    """Read features: .csv, .tsv, .txt (blanks), .npy, or .npz of a scipy sparse matrix.

    Parameters
    ----------
    path : Path
    drop : sequence of str
        Columns to leave out, by name, or by number from 0.
    header : bool, optional
        Whether the first line of a text file holds names. By default it does if some
        cell of it is not a number while the one below is, or if nothing is below.
    """
    suffix = _suffix(path, (*_DELIMITERS, ".npy", ".npz"))
    if suffix in _DELIMITERS:
        return _read_numbers(path, drop, header)
    if suffix == ".npz":
        from scipy.sparse import load_npz

        X = _read(path, lambda: load_npz(path), "a scipy sparse matrix")
    else:
        X = _read_array(path)
    if X.ndim != 2:
        raise ValueError(
            f"{str(path)!r} has shape {X.shape} but features should be (n_samples, "
            "n_features); save them as a table, X.reshape(-1, 1) if there is one."
        )
    return drop_columns(X, drop, repr(str(path)))


def drop_columns(X: Any, drop: Sequence[str], where: str) -> Any:
    """Return an array or sparse matrix without some columns, given by number."""
    if not drop:
        return X
    kept = _kept(where, drop, [], X.shape[1])
    return X[:, kept] if isinstance(X, np.ndarray) else X.tocsc()[:, kept].tocsr()


def read_partitions(path: Path, header: bool | None = None) -> npt.NDArray[Any]:
    """Read partitions, (n, r), one in each column: .csv, .tsv, .txt or .npy.

    Parameters
    ----------
    path : Path
    header : bool, optional
        Whether the first line of a text file holds names. By default it does if it has
        words, not numbers alone, and none of them comes again below in its column.

    Notes
    -----
    Empty cells, -1, NA, NaN, None and null are missing labels.
    """
    if _suffix(path, (*_DELIMITERS, ".npy")) in _DELIMITERS:
        return _read_cells(path, header)[1]
    table = _read_array(path)
    if table.ndim != 2:
        raise ValueError(
            f"{str(path)!r} has shape {table.shape} but partitions should be "
            "(n_samples, n_partitions); save one partition in each column."
        )
    return table


def read_labels(
    path: Path,
    column: str | None = None,
    header: bool | None = None,
    *,
    role: str = "labels",
    option: str = "--column",
) -> npt.NDArray[Any]:
    """Read one label per object, (n,): .csv, .tsv, .txt or .npy.

    Parameters
    ----------
    path : Path
    column : str, optional
        The column to take, by name or by number from 0. By default the only one, or
        the one called "label".
    header : bool, optional
        As for :func:`read_partitions`, and so are missing labels.
    role, option : str
        How messages call these labels, and what chooses their column.
    """
    names: list[str] = []
    if _suffix(path, (*_DELIMITERS, ".npy")) in _DELIMITERS:
        names, table = _read_cells(path, header)
    else:
        table = _read_array(path)
        table = table[:, None] if table.ndim == 1 else table
        if table.ndim != 2 or not table.size:
            raise ValueError(
                f"{role} {str(path)!r} has shape {table.shape} but one label per "
                "object is needed; save them as a vector."
            )
    if column is None and table.shape[1] > 1:
        if "label" not in names:
            raise ValueError(
                f"{role} {str(path)!r} has {table.shape[1]} columns; name one with "
                f"{option}."
            )
        column = "label"
    if column is None:
        return table[:, 0]
    return table[:, _columns(repr(str(path)), [column], names, table.shape[1])[0]]


def write_labels(
    path: Path,
    labels: npt.NDArray[np.int32],
    confidence: npt.NDArray[np.float64],
) -> None:
    """Write labels to .npy, or with their confidence to .csv; atomic."""
    if path.suffix.lower() == ".npy":
        write_atomic(path, lambda file: np.save(file, labels))
        return
    rows = zip(labels, confidence, strict=True)
    lines = ["label,confidence", *(f"{label},{c:.6f}" for label, c in rows)]
    text = "\n".join(lines) + "\n"
    write_atomic(path, lambda file: file.write(text.encode()))


def check_writable(option: str, path: Path) -> None:
    """Raise an error if a file or folder cannot be made at ``path``."""
    folder = path.resolve().parent
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{option} {str(path)!r}: the folder {str(path.parent)!r} does not exist; "
            "make it first."
        )
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{path.name}."):
            pass
    except OSError as error:
        raise OSError(
            f"{option} {str(path)!r} cannot be written ({error.strerror or error}); "
            "choose a folder that may be written."
        ) from None


def _suffix(path: Path, known: Sequence[str]) -> str:
    if not path.is_file():
        raise FileNotFoundError(f"{str(path)!r} is not a file; check the path.")
    suffix = path.suffix.lower()
    if suffix not in known:
        listed = ", ".join(sorted(known))
        raise ValueError(f"{str(path)!r} should end in one of {listed}.")
    return suffix


def _read_array(path: Path) -> npt.NDArray[Any]:
    with path.open("rb") as file:
        array = _read(path, lambda: np.load(file, allow_pickle=False), "an array")
    if not isinstance(array, np.ndarray):
        raise ValueError(
            f"{str(path)!r} does not hold an array but several; save one with np.save."
        )
    return array


def _read(path: Path, read: Callable[[], Any], what: str) -> Any:
    try:
        return read()
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        reason = str(error).rstrip(".")
        if "pickle" in reason:  # NumPy advises to allow what can run any code
            reason = "it is damaged, or it holds Python objects, which are not read"
        raise ValueError(
            f"{str(path)!r} does not hold {what} ({reason}); save plain numbers or "
            "text anew."
        ) from None


def _read_numbers(path: Path, drop: Sequence[str], header: bool | None) -> Any:
    names, first, delimiter, skip = _head(path, header)
    kept = _kept(repr(str(path)), drop, names, len(first))
    words = [c for c in kept if _is_word(first[c])]
    if words:
        name = names[words[0]] if names else str(words[0])
        raise ValueError(
            f"column {name!r} of {str(path)!r} holds {first[words[0]]!r}, which is not "
            f"a number; leave it out with --drop {shlex.quote(name)}."
        )
    dropped = sorted(set(range(len(first))) - set(kept))
    with _opened(path) as file:
        lines = (line for line in islice(file, skip, None) if line.strip(" \n"))
        try:
            # with usecols NumPy would not see that a line has cells too many
            X = np.loadtxt(
                lines,
                delimiter=delimiter,
                converters=dict.fromkeys(dropped, lambda _: 0.0),
                ndmin=2,
                comments=None,
                quotechar='"',
                encoding="utf-8",
            )
        except UnicodeDecodeError:
            raise
        except ValueError as error:
            reason = str(error).partition(";")[0].rstrip(".")
            raise ValueError(
                f"{str(path)!r} is not a table of numbers ({reason}); fill or drop "
                "what is empty or not a number."
            ) from None
    return X[:, kept] if dropped else X


class _Head(NamedTuple):
    """Column names, the first object, the delimiter, lines before that object."""

    names: list[str]
    first: list[str]
    delimiter: str | None
    skip: int


def _head(path: Path, header: bool | None) -> _Head:
    delimiter = _delimiter(path)
    with _opened(path) as file:
        rows = ((line, row) for line, row in _rows(file, delimiter) if row)
        (line, first), *more = islice(rows, 2)
    below = more[0][1] if more else []
    if header is None:
        columns = zip(first, below, strict=False)
        named = any(_is_word(cell) and _is_number(under) for cell, under in columns)
        header = named or (not below and any(_is_word(cell) for cell in first))
    if not header:
        return _Head([], first, delimiter, 0)
    if not below:
        raise _only_names(path)
    _check_widths(path, [(line, first), more[0]])
    return _Head(first, below, delimiter, line)


def _read_cells(
    path: Path, header: bool | None
) -> tuple[list[str], npt.NDArray[np.object_]]:
    """Return column names and all cells of a text file, None where one is missing."""
    delimiter = _delimiter(path)
    with _opened(path) as file:
        rows = list(_rows(file, delimiter))
    while not rows[-1][1]:
        rows.pop()
    begin = next(l for l, (_, row) in enumerate(rows) if row)
    filled = [(line, row) for line, row in rows[begin:] if row]
    _check_widths(path, filled)
    if len(filled) < len(rows) - begin and len(filled[0][1]) == 1:
        blank = next(line for line, row in rows[begin:] if not row)
        raise ValueError(
            f"line {blank} of {str(path)!r} is blank; write NA for a missing label, or "
            "delete the line."
        )
    first, *below = (row for _, row in filled)
    if header is None:
        words = [(c, cell) for c, cell in enumerate(first) if _is_word(cell)]
        again = any(row[c] == cell for c, cell in words for row in below)
        header = bool(words) and not again
    if header and not below:
        raise _only_names(path)
    cells = [
        [None if cell.lower() in _MISSING else cell for cell in row]
        for row in (below if header else [first, *below])
    ]
    return first if header else [], np.array(cells, dtype=object)


def _only_names(path: Path) -> ValueError:
    return ValueError(
        f"{str(path)!r} holds one line, taken for column names, and no objects; add "
        "them, or pass --no-header if that line is one."
    )


def _check_widths(path: Path, rows: Sequence[tuple[int, list[str]]]) -> None:
    size = len(rows[0][1])
    for line, row in rows:
        if len(row) != size:
            raise ValueError(
                f"line {line} of {str(path)!r} has {len(row)} cells but the first has "
                f"{size}; give every line the same number."
            )


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    """Open a text file; what is wrong with its text becomes one clear error."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            yield file
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{str(path)!r} is not UTF-8 text ({error.reason}); save it as UTF-8."
        ) from None
    except csv.Error as error:
        raise ValueError(f"{str(path)!r} is not a table ({error}).") from None


def _delimiter(path: Path) -> str | None:
    """Return the delimiter of cells, None for blanks, from the first line."""
    with _opened(path) as file:
        line = next((line for line in file if line.strip()), "")
    if not line:
        raise ValueError(f"{str(path)!r} is empty; it should hold one object a line.")
    usual = _DELIMITERS[path.suffix.lower()]
    bare = "".join(line.split('"')[::2])  # text outside quotes
    if usual != "\t" and "," in bare:
        return ","
    return ";" if usual != "\t" and ";" in bare else usual


def _rows(file: TextIO, delimiter: str | None) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each line and its cells; a blank line has none."""
    lines = file if delimiter else (" ".join(line.split()) for line in file)
    reader = csv.reader(lines, delimiter=delimiter or " ")
    for row in reader:
        blank = len(row) == 1 and row[0].isspace()
        yield reader.line_num, [] if blank else [cell.strip() for cell in row]


def _kept(where: str, drop: Sequence[str], names: list[str], size: int) -> list[int]:
    dropped = set(_columns(where, drop, names, size))
    kept = [c for c in range(size) if c not in dropped]
    if not kept:
        raise ValueError(f"no column of {where} is left; drop fewer.")
    return kept


def _columns(
    where: str, wanted: Sequence[str], names: list[str], size: int
) -> list[int]:
    columns = []
    for name in wanted:
        if names.count(name) > 1:
            raise ValueError(
                f"{where} has several columns {name!r}; give the number, from 0."
            )
        if name in names:
            columns.append(names.index(name))
        elif name.isdecimal() and int(name) < size:
            columns.append(int(name))
        else:
            listed = ", ".join(names) if names else f"0..{size - 1}"
            raise ValueError(f"{where} has no column {name!r}; it has {listed}.")
    return columns


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_word(text: str) -> bool:
    return not _is_number(text) and text.lower() not in _MISSING
