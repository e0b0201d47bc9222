"""One door for sparse matrices: their indices are checked before any use.

The compiled code of SciPy believes every index. One that is out of range reads or
writes foreign memory, which ends the process or, worse, does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def is_sparse(X: Any) -> bool:
    """Whether ``X`` is a scipy sparse matrix or array."""
    return hasattr(X, "tocsr")


def check_sparse(name: str, X: Any) -> Any:
    """Return a sparse matrix whose indices are all where they may be.

    Parameters
    ----------
    name : str
        How messages call it.
    X : scipy sparse matrix or array
        Of any format.

    Returns
    -------
    X : the same
        Or, of a compressed format, a new one of the same arrays that does not
        remember whether it was sorted.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> X = csr_array(([1.0], [0], [0, 1]), shape=(1, 2))
    >>> X.indices[0] = 7
    >>> check_sparse("X", X)
    Traceback (most recent call last):
    ...
    ValueError: X is damaged: a column index is 7 but should be in 0..1; make it \
anew from its values.
    """
    from scipy.sparse import issparse

    known: bool = issparse(X)
    if not known:
        raise TypeError(
            f"{name} is a {type(X).__name__}, which is not understood; turn it into a "
            "scipy.sparse.csr_array."
        )
    if len(X.shape) != 2:
        raise ValueError(
            f"{name} has {len(X.shape)} dimensions but a table has 2; reshape it."
        )
    if X.format in ("csr", "csc", "bsr"):
        return _compressed(name, X)
    if X.format == "coo":
        row, column = X.coords if hasattr(X, "coords") else (X.row, X.col)
        if not np.shape(row) == np.shape(column) == np.shape(X.data):
            raise _damaged(name, "its rows, columns and values differ in number")
        _check_range(name, "row", row, X.shape[0])
        _check_range(name, "column", column, X.shape[1])
    elif X.format == "dia":
        if X.data.ndim != 2 or np.shape(X.offsets) != (len(X.data),):
            raise _damaged(name, "its diagonals and their offsets differ in number")
        if len(np.unique(X.offsets)) != len(X.offsets):
            raise _damaged(name, "a diagonal is there twice")
    elif X.format == "lil":
        _check_lists(name, X)
    elif X.format == "dok":
        keys = np.array(list(X.keys()), dtype=np.int64).reshape(-1, 2)
        _check_range(name, "row", keys[:, 0], X.shape[0])
        _check_range(name, "column", keys[:, 1], X.shape[1])
    else:
        raise TypeError(
            f"{name} is sparse in the format {X.format!r}, which is not understood; "
            "turn it into CSR."
        )
    return X


def _compressed(name: str, X: Any) -> Any:
    """Check indices and where rows begin; block formats count whole blocks."""
    tall, wide = X.blocksize if X.format == "bsr" else (1, 1)
    sizes = [X.shape[0] // tall, X.shape[1] // wide]
    lines, across = ("column", "row") if X.format == "csc" else ("row", "column")
    n_lines, n_across = sizes[::-1] if X.format == "csc" else sizes
    starts = np.asarray(X.indptr)
    if starts.dtype.kind not in "iu" or starts.shape != (n_lines + 1,):
        raise _damaged(
            name, f"it has {starts.shape} starts of {n_lines} {lines}s and one end"
        )
    stored = min(len(X.indices), len(X.data))
    if starts[0] != 0 or starts[-1] > stored or (starts[1:] < starts[:-1]).any():
        raise _damaged(name, f"its {lines}s do not begin one after the other")
    used = int(starts[-1])
    _check_range(name, across, X.indices[:used], n_across)
    return type(X)((X.data[:used], X.indices[:used], X.indptr), shape=X.shape)


def _check_range(name: str, axis: str, index: npt.NDArray[Any], size: int) -> None:
    index = np.asarray(index)
    if index.dtype.kind not in "iu":
        raise _damaged(name, f"its {axis} indices are of type {index.dtype}")
    if index.size:
        low, high = int(index.min()), int(index.max())
        if low < 0 or high >= size:
            wrong = low if low < 0 else high
            raise _damaged(
                name, f"a {axis} index is {wrong} but should be in 0..{size - 1}"
            )


def _check_lists(name: str, X: Any) -> None:
    if not len(X.rows) == len(X.data) == X.shape[0]:
        raise _damaged(name, "its lists do not fit its rows")
    for columns, values in zip(X.rows, X.data, strict=True):
        if len(columns) != len(values):
            raise _damaged(name, "a row has more columns than values, or fewer")
        index = np.array(columns, dtype=np.int64 if not columns else None)
        _check_range(name, "column", index, X.shape[1])


def _damaged(name: str, why: str) -> ValueError:
    return ValueError(f"{name} is damaged: {why}; make it anew from its values.")
