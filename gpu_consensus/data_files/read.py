"""The three things that are read: features, partitions, and one label per object."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy.typing as npt

from gpu_consensus.data_files import arrays
from gpu_consensus.data_files.cells import read_cells, refuse_decimals
from gpu_consensus.data_files.columns import Choice, Table, find_columns
from gpu_consensus.data_files.form import Form
from gpu_consensus.data_files.numbers import read_numbers
from gpu_consensus.data_files.source import STANDARD, open_source, suffix_of, where

_TEXT = (".csv", ".tsv", ".txt")
_PACKED = tuple(f"{suffix}.gz" for suffix in _TEXT)
_BESIDE = ("confidence", "stability")
"""Columns that files of labels have beside the labels, as this program writes them."""


class Labels(NamedTuple):
    """One label per object, and the ids of the objects where the file has them."""

    values: npt.NDArray[Any]
    ids: list[str] | None
    notes: list[str]


def read_features(
    path: Path,
    choice: Choice = Choice(),  # noqa: B008 - frozen
    form: Form = Form(),  # noqa: B008
    *,
    progress: bool = False,
) -> Table:
    """Read features: text, .npy, sparse .npz, .parquet or .h5ad.

    Parameters
    ----------
    path : Path
    choice : Choice
        By default all columns of numbers are taken, and ids are recognised.
    form : Form
        How a file of text is written; a header is one by default if some cell of the
        first line is a word while the one below is a number, or nothing is below.
    progress : bool, default False
        Draw a progress bar.
    """
    suffix = _suffix(path, (*_TEXT, *_PACKED, ".npy", ".npz", ".parquet", ".h5ad"))
    if suffix in ("", *_TEXT):
        with open_source(path, form.encoding) as source:
            return read_numbers(source, choice, form, progress)
    if suffix == ".parquet":
        return arrays.read_parquet(path, choice, labels=False)
    if suffix == ".h5ad":
        return arrays.read_h5ad(path, choice, labels=False)
    X = arrays.read_sparse(path) if suffix == ".npz" else arrays.read_array(path)
    if X.ndim != 2:
        raise ValueError(
            f"{where(path)} has shape {X.shape} but features should be (n_samples, "
            "n_features); save them as a table, X.reshape(-1, 1) if there is one."
        )
    if suffix == ".npz":
        return Table(drop_columns(X, choice, where(path)), [])
    return arrays.take_ids(X, choice, where(path))


def drop_columns(X: Any, choice: Choice, place: str) -> Any:
    """Return an array or sparse matrix without columns that are not wanted."""
    if choice.id is not None:
        raise ValueError(f"{place} has no column of ids; leave --id out.")
    return arrays.keep_columns(X, choice, place, [])[0]


def read_partitions(
    path: Path,
    choice: Choice = Choice(),  # noqa: B008
    form: Form = Form(),  # noqa: B008
) -> Table:
    """Read partitions, (n, r), one in each column: text, .npy, .parquet or .h5ad.

    Parameters
    ----------
    path : Path
    choice : Choice
        By default all columns are taken but one that names the objects.
    form : Form
        How a file of text is written; a header is one by default if it has words, not
        numbers alone, and none of them comes again below in its column.

    Notes
    -----
    Empty cells, -1, NA, N/A, NaN, None and null are missing labels. Decimals are no
    labels, and refused.
    """
    suffix = _suffix(path, (*_TEXT, *_PACKED, ".npy", ".parquet", ".h5ad"))
    if suffix == ".npy":
        array = arrays.read_array(path)
        if array.ndim != 2:
            raise ValueError(
                f"{where(path)} has shape {array.shape} but partitions should be "
                "(n_samples, n_partitions); save one partition in each column."
            )
        return arrays.take_ids(array, choice, where(path))
    table = _labels_table(path, suffix, choice, form)
    refuse_decimals(where(path), table)
    return table


def read_labels(
    path: Path,
    column: str | None = None,
    form: Form = Form(),  # noqa: B008
    *,
    id_column: str | None = None,
    no_id: bool = False,
    role: str = "labels",
    option: str = "--column",
) -> Labels:
    """Read one label per object, (n,): text, .npy, .parquet or .h5ad.

    Parameters
    ----------
    path : Path
    column : str, optional
        The column to take, by name or by number from 0. By default the only one, or
        the one called "label"; a column of ids and one called "confidence" do not
        count.
    form : Form
        As for :func:`read_partitions`, and so are missing labels.
    id_column : str, optional
        The column that names the objects; by default it is recognised.
    no_id : bool, default False
        Recognise none.
    role, option : str
        How messages call these labels, and what chooses their column.
    """
    suffix = _suffix(path, (*_TEXT, *_PACKED, ".npy", ".parquet", ".h5ad"))
    place = f"{role} {where(path)}"
    names: list[str] = []
    ids: list[str] | None = None
    notes: list[str] = []
    if suffix == ".npy":
        table = arrays.read_array(path)
        table = table[:, None] if table.ndim == 1 else table
        if table.ndim != 2 or not table.size:
            raise ValueError(
                f"{place} has shape {table.shape} but one label per object is needed; "
                "save them as a vector."
            )
        if id_column is not None:
            at = find_columns(place, [id_column], [], table.shape[1])[0]
            ids = [str(value) for value in table[:, at].tolist()]
    else:
        columns = [column] if column else []
        if suffix == ".h5ad" and not columns:
            columns = ["*"]
        choice = Choice(columns, id=id_column, no_id=no_id)
        table, names, ids, _, notes = _labels_table(path, suffix, choice, form)
        if column is not None:
            return Labels(table[:, 0], ids, notes)
    size = table.shape[1]
    if column is not None:
        at = find_columns(where(path), [column], names, size)[0]
    elif "label" in names:
        at = names.index("label")
    else:
        left = [c for c in range(size) if not names or names[c] not in _BESIDE]
        if len(left or range(size)) != 1:
            raise ValueError(f"{place} has {size} columns; name one with {option}.")
        at = left[0] if left else 0
    return Labels(table[:, at], ids, notes)


def _labels_table(path: Path, suffix: str, choice: Choice, form: Form) -> Table:
    if suffix == ".parquet":
        return arrays.read_parquet(path, choice, labels=True)
    if suffix == ".h5ad":
        return arrays.read_h5ad(path, choice, labels=True)
    with open_source(path, form.encoding) as source:
        return read_cells(source, choice, form)


def _suffix(path: Path, known: Sequence[str]) -> str:
    if path == STANDARD:
        return ""
    if not path.is_file():
        raise FileNotFoundError(f"{str(path)!r} is not a file; check the path.")
    suffix = suffix_of(path)
    packed = path.suffix.lower() == ".gz"
    if (f"{suffix}.gz" if packed else suffix) not in known:
        listed = ", ".join(sorted(one for one in known if not one.endswith(".gz")))
        raise ValueError(
            f"{str(path)!r} should end in one of {listed}, or .csv.gz and the like."
        )
    return suffix
