"""Tables from files that are no text: .npy, sparse .npz, .parquet, .h5ad."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.data_files.columns import (
    Choice,
    Table,
    check_ids,
    find_columns,
    first_twice,
    is_id_name,
    pick,
)
from gpu_consensus.data_files.source import where
from gpu_consensus.util.files import (
    FileError,
    open_archive,
    open_regular,
    read_member,
    read_npy,
)
from gpu_consensus.util.sparse import check_sparse

_INDEX = "__index_level_0__"
_FIELDS = {
    "csr": ("indices", "indptr"),
    "csc": ("indices", "indptr"),
    "bsr": ("indices", "indptr"),
    "coo": ("row", "col"),
    "dia": ("offsets",),
}


def read_array(path: Path) -> npt.NDArray[Any]:
    """Read a .npy file."""
    try:
        return read_npy(path)
    except FileError as error:
        raise _unreadable(path, "an array", error) from None


def read_sparse(path: Path) -> Any:
    """Read a scipy sparse matrix as ``scipy.sparse.save_npz`` writes it."""
    import scipy.sparse

    what = "a scipy sparse matrix"
    try:
        with open_regular(path) as file, open_archive(file) as archive:
            missing = {"format", "shape", "data"} - archive.names
            if missing:
                raise FileError(f"it has no part {min(missing)!r}")
            kind = read_member(archive, "format").item()
            kind = kind.decode("ascii", "replace") if isinstance(kind, bytes) else kind
            fields = _FIELDS.get(kind)
            if fields is None:
                raise FileError(f"its format is {kind!r}")
            if not archive.names.issuperset(fields):
                raise FileError(f"it has no part {fields[0]!r}")
            parts = [read_member(archive, name) for name in ("data", *fields)]
            shape = tuple(int(size) for size in read_member(archive, "shape"))
        data, *index = parts
        made = getattr(scipy.sparse, f"{kind}_array")
        if kind == "coo":
            X = made((data, tuple(index)), shape=shape)
        else:
            X = made((data, *index), shape=shape)
        return check_sparse(where(path), X)
    except (FileError, TypeError, IndexError, OverflowError) as error:
        raise _unreadable(path, what, error) from None
    except ValueError as error:
        if str(error).startswith(where(path)):
            raise
        raise _unreadable(path, what, error) from None


def read_parquet(path: Path, choice: Choice, *, labels: bool) -> Table:
    """Read columns of a .parquet file; of features those that hold numbers."""
    parquet = reader("pyarrow.parquet", path, "pyarrow", "parquet")
    try:
        with open_regular(path) as file:
            table = parquet.read_table(file)
    except (FileError, OSError, ValueError) as error:  # pyarrow's own are ValueErrors
        raise _unreadable(path, "a table", error) from None
    names = [str(name) for name in table.column_names]
    return _from_columns(
        path, names, [_column(one) for one in table.columns], choice, labels
    )


def read_h5ad(path: Path, choice: Choice, *, labels: bool) -> Table:
    """Read an AnnData file.

    Features are the columns of ``X``, or those of the arrays of ``obsm`` that
    ``choice.columns`` names, such as X_pca. Labels are columns of ``obs``.
    """
    anndata = reader("anndata", path, "anndata", "anndata")
    try:
        adata = anndata.read_h5ad(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _unreadable(path, "annotated data", error) from None
    ids = [str(name) for name in adata.obs_names]
    if labels:
        if not choice.columns and choice.id is None:
            listed = ", ".join(map(str, adata.obs.columns))
            raise ValueError(
                f"{where(path)} has the columns {listed}; name those that hold "
                "partitions with --columns, like 'leiden_*'."
            )
        names = [str(name) for name in adata.obs.columns]
        values = [_objects(adata.obs[name]) for name in adata.obs.columns]
        table = _from_columns(path, names, values, choice, labels=True)
        return table._replace(ids=table.ids or ids, id_name=table.id_name)
    in_obsm = [name for name in choice.columns if name in adata.obsm]
    if in_obsm and len(in_obsm) == len(choice.columns):
        X: Any = np.hstack([np.asarray(adata.obsm[name]) for name in in_obsm])
        names = [
            f"{name}_{c}" for name in in_obsm for c in range(adata.obsm[name].shape[1])
        ]
        return Table(X, names, ids)
    if adata.X is None:
        raise ValueError(
            f"{where(path)} has no X; name arrays of obsm with --columns: "
            f"{', '.join(adata.obsm) or 'it has none'}."
        )
    names = [str(name) for name in adata.var_names]
    X, names = keep_columns(adata.X, choice, where(path), names)
    return Table(X, names, ids)


def keep_columns(
    X: Any, choice: Choice, place: str, names: list[str]
) -> tuple[Any, list[str]]:
    """Return an array or sparse matrix without columns that are not wanted."""
    if not (choice.drop or choice.columns):
        return X, names
    kept = pick(place, Choice(choice.columns, choice.drop), names, X.shape[1]).kept
    names = [names[c] for c in kept] if names else []
    if isinstance(X, np.ndarray):
        return X[:, kept], names
    return X.tocsc()[:, kept].tocsr(), names


def take_ids(X: npt.NDArray[Any], choice: Choice, place: str) -> Table:
    """Part the column of ids from an array, and columns that are not wanted."""
    if choice.id is None:
        X, _ = keep_columns(X, choice, place, [])
        return Table(X, [])
    column = find_columns(place, [choice.id], [], X.shape[1])[0]
    ids = [str(value) for value in X[:, column].tolist()]
    check_ids(place, str(column), ids)
    drop = (*choice.drop, *(() if choice.columns else (str(column),)))
    X, _ = keep_columns(X, Choice(choice.columns, drop), place, [])
    return Table(X, [], ids)


def reader(module: str, path: Path, package: str, extra: str) -> Any:
    """Import what reads or writes a kind of file, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ValueError(
            f"{where(path)} needs {package}, which is not installed: pip install "
            f"'gpu-consensus[{extra}]', or save the table as .csv."
        ) from None


def _from_columns(
    path: Path, names: list[str], columns: list[Any], choice: Choice, labels: bool
) -> Table:
    """Choose among columns that know their type."""
    place = where(path)
    picked = pick(place, choice, names, len(names))
    id_column, kept, notes = picked.id, picked.kept, []
    if id_column is None:
        id_column = _id_of(names, columns, labels, picked.may_be_id)
        if id_column is not None and names[id_column] != _INDEX:
            notes.append(
                f"{place}: column {names[id_column]!r} names the objects (--no-id if "
                "it does not)."
            )
    kept = [c for c in kept if c != id_column or picked.are_named]
    ids, id_name = None, "id"
    if id_column is not None:
        ids = [str(value) for value in columns[id_column].tolist()]
        check_ids(place, names[id_column], ids)
        id_name = "id" if names[id_column] == _INDEX else names[id_column]
    if labels:
        values = np.empty((len(columns[0]) if columns else 0, len(kept)), dtype=object)
        for i, c in enumerate(kept):
            values[:, i] = [_label(value) for value in columns[c].tolist()]
        return Table(values, [names[c] for c in kept], ids, id_name, notes)
    texts = [c for c in kept if columns[c].dtype.kind not in "biuf"]
    if texts and picked.are_named:
        raise ValueError(
            f"column {names[texts[0]]!r} of {place} does not hold numbers; leave it "
            "out of --columns, or encode it as numbers."
        )
    kept = [c for c in kept if c not in texts]
    if not kept:
        raise ValueError(f"{place} has no column of numbers.")
    if texts:
        listed = ", ".join(repr(names[c]) for c in texts[:5])
        more = f" and {len(texts) - 5} more" if len(texts) > 5 else ""
        notes.append(f"{place}: no numbers, left out: {listed}{more}.")
    X = np.column_stack([columns[c].astype(np.float64) for c in kept])
    return Table(X, [names[c] for c in kept], ids, id_name, notes)


def _id_of(
    names: list[str], columns: list[Any], labels: bool, among: list[int]
) -> int | None:
    if _INDEX in names and names.index(_INDEX) in among:
        return names.index(_INDEX)
    for c in among:
        name = names[c]
        text = columns[c].dtype.kind not in "biufmM"
        if (c == 0 and (text or labels)) or is_id_name(name):
            values = columns[c].tolist()
            whole = columns[c].dtype.kind in "iu"
            if (text or whole) and first_twice(values) is None and len(values) > 1:
                return c
    return None


def _column(column: Any) -> npt.NDArray[Any]:
    """Turn a column of Arrow into an array: numbers, with NaN for null, or objects."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    plain = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if plain or pa.types.is_boolean(kind):
        if column.null_count and not pa.types.is_floating(kind):
            column = column.cast(pa.float64(), safe=False)
        return np.asarray(column.to_numpy())
    values = np.empty(len(column), dtype=object)
    values[:] = column.to_pylist()
    return values


def _objects(series: Any) -> npt.NDArray[Any]:
    values = np.empty(len(series), dtype=object)
    values[:] = [
        None if gap else v for v, gap in zip(series, series.isna(), strict=True)
    ]
    return values


def _label(value: Any) -> Any:
    """Return a label; NaN is None, and 2.0 is 2."""
    if isinstance(value, float):
        if value != value:
            return None
        return int(value) if value.is_integer() else value
    return value


def _unreadable(path: Path, what: str, error: Exception) -> ValueError:
    reason = " ".join(str(error).split()).rstrip(".")[:200]
    return ValueError(
        f"{where(path)} does not hold {what} ({reason}); save plain numbers or text "
        "anew."
    )
