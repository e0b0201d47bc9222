"""One door for tables: numbers of any kind to a float array or CSR, all finite."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.numbers import check_mask, first_sentence, plain_numbers
from gpu_consensus.util.sparse import check_sparse, is_sparse

BLOCK_BYTES = 1 << 24
COMPLEX = (
    "Complex data not supported: X is complex; use its real and imaginary parts as "
    "features."
)


def check_features(X: Any) -> Any:
    """Return ``X`` as floats, or raise an error that says what is wrong and the cure.

    Parameters
    ----------
    X : array_like, DataFrame or scipy sparse of shape (n_samples, n_features)
        Numbers; CuPy and cuDF come to the host.

    Returns
    -------
    X : ndarray (C order) or scipy CSR (canonical) of shape (n_samples, n_features)
        float32 stays float32, all else becomes float64. Not copied where it is in
        this form already.

    Examples
    --------
    >>> check_features([[1, 2], [3, 4]]).dtype
    dtype('float64')
    >>> check_features([[1.0, float("nan")]])
    Traceback (most recent call last):
    ...
    ValueError: X has NaN in row 0, column 1; fill in or drop such rows first.
    """
    X = read_table(X)
    check_finite(X)
    return X


def read_table(X: Any) -> Any:
    """Do what :func:`check_features` does, but let NaN and infinity pass."""
    X = to_host(X)
    if is_sparse(X):
        X = check_sparse("X", X)
    elif hasattr(X, "iloc") and hasattr(X, "dtypes"):
        X = _frame(X)
    else:
        X = _array(check_mask("X", X))
    _check_shape(X)
    _check_type(X)
    return _canonical(X) if is_sparse(X) else _floats(X)


def _frame(X: Any) -> npt.NDArray[Any]:
    """Turn a DataFrame (or a Series, refused later) into an array."""
    if X.ndim != 2:
        return np.asarray(X)
    types = list(X.dtypes)
    for name, dtype in zip(X.columns, types, strict=True):
        if dtype.kind == "c":
            raise ValueError(COMPLEX)
        if dtype.kind not in "biufO":
            raise _not_numbers(f"the column {name!r} of type {dtype}")
    float32 = types and all(
        t.kind == "f" and getattr(t, "itemsize", 8) == 4 for t in types
    )
    for c, dtype in enumerate(types):
        if dtype.kind == "O":  # text of digits would become numbers

            def fail(what: str, row: int, column: int = c) -> ValueError:
                return _not_numbers(f"{what} in row {row}, column {column}")

            values = X.iloc[:, c]
            cells = values.to_numpy(dtype=object, copy=True)
            cells[values.isna().to_numpy()] = np.nan
            plain_numbers(cells, fail)
    kind = np.float32 if float32 else np.float64
    return np.asarray(X.to_numpy(dtype=kind, na_value=np.nan))


def _array(X: Any) -> npt.NDArray[Any]:
    try:
        array = np.asarray(X)
    except Exception as error:  # ragged, or whatever a class of the caller raises
        raise ValueError(
            f"X is not a table ({first_sentence(error)}); it should be (n_samples, "
            "n_features), every row of one length."
        ) from error
    if array.ndim != 2:
        return array

    def fail(what: str, place: int) -> ValueError:
        row, column = divmod(place, array.shape[1])
        return _not_numbers(f"{what} in row {row}, column {column}")

    return plain_numbers(array, fail)


def _not_numbers(what: str) -> ValueError:
    return ValueError(
        f"X has {what}, but every cell of this argument must be a number; encode a "
        "string as a number, or leave it out."
    )


def _check_shape(X: Any) -> None:
    if X.ndim != 2:
        cure = "; for one feature use X.reshape(-1, 1)" if X.ndim == 1 else ""
        raise ValueError(
            f"X has shape {X.shape} but should be (n_samples, n_features){cure}."
        )
    for axis, what in enumerate(("sample(s)", "feature(s)")):
        if X.shape[axis] == 0:
            raise ValueError(
                f"X has 0 {what} (shape={X.shape}) while a minimum of 1 is required."
            )


def _check_type(X: Any) -> None:
    if X.dtype.kind == "c":
        raise ValueError(COMPLEX)
    if X.dtype.kind not in "biuf":
        raise _not_numbers(f"entries of type {X.dtype}")


def _floats(X: npt.NDArray[Any]) -> npt.NDArray[Any]:
    kept = X.dtype.kind == "f" and X.dtype.itemsize == 4
    with np.errstate(over="ignore"):  # of wider floats; found as infinite
        return np.ascontiguousarray(X, dtype=np.float32 if kept else np.float64)


def _canonical(X: Any) -> Any:
    """CSR with sorted indices, no duplicates and no stored zeros; copied if changed."""
    source = X
    if X.dtype.kind in "iu" or (X.dtype.kind == "f" and X.dtype.itemsize != 4):
        with np.errstate(over="ignore"):
            X = X.astype(np.float64, copy=False)  # small integers would overflow
    X = X.tocsr()
    data = _floats(X.data)
    if not X.has_canonical_format or not data.all():
        X = X.copy() if X is source else X
        X.sum_duplicates()
        X.eliminate_zeros()
        data = _floats(X.data)
    indices, indptr = X.indices, X.indptr
    if max(X.nnz, *X.shape) <= np.iinfo(np.int32).max:
        # scikit-learn takes no wider ones
        indices, indptr = indices.astype(np.int32), indptr.astype(np.int32)
    return type(X)((data, indices, indptr), shape=X.shape)


def check_finite(X: Any) -> None:
    """Raise an error for the first entry of a table that is NaN or infinite."""
    table = X.data[:, None] if is_sparse(X) else X
    for rows in row_blocks(table):
        finite = np.isfinite(table[rows])
        if finite.all():
            continue
        row, column = (int(index) for index in np.argwhere(~finite)[0])
        row += rows.start
        value = table[row, column]
        if is_sparse(X):
            entry = row
            row = int(np.searchsorted(X.indptr, entry, side="right")) - 1
            column = int(X.indices[entry])
        name = "NaN" if np.isnan(value) else str(float(value))
        raise ValueError(
            f"X has {name} in row {row}, column {column}; fill in or drop such rows "
            "first."
        )


def row_blocks(X: Any) -> list[slice]:
    """Cut the rows of a table into parts of a few megabytes."""
    step = max(1, BLOCK_BYTES // (8 * X.shape[1]))
    return [slice(begin, begin + step) for begin in range(0, X.shape[0], step)]
