"""Checked features: any table of finite numbers to a float array or CSR."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.generate.rows import is_sparse
from gpu_consensus.util.arrays import to_host

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
    X = to_host(X)
    sparse = is_sparse(X)
    if not sparse:
        X = _frame(X) if hasattr(X, "iloc") and hasattr(X, "dtypes") else _array(X)
    _check_shape(X)
    _check_type(X)
    X = _canonical(X) if sparse else _floats(X)
    _check_finite(X)
    return X


def count_distinct_rows(X: Any, at_most: int) -> int:
    """Count the distinct rows of checked features, and stop at ``at_most``.

    Examples
    --------
    >>> count_distinct_rows(np.array([[0.0], [1.0], [-0.0]]), 10)
    2
    """
    seen: set[bytes] = set()
    step = max(64, 2 * at_most)  # the first step is mostly enough
    for begin in range(0, X.shape[0], step):
        seen.update(_row_bytes(to_host(X[begin : begin + step])))
        if len(seen) >= at_most:
            return at_most
    return len(seen)


def column_deviation(X: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Standard deviation of each column of dense features, 1 where it is constant."""
    n = X.shape[0]
    mean = np.asarray(X.mean(axis=0, dtype=np.float64))
    squares = np.zeros_like(mean)
    for rows in _blocks(X):
        squares += ((X[rows] - mean) ** 2).sum(axis=0)
    constant = (X.min(axis=0) == X.max(axis=0)) | (squares == 0)
    deviation: npt.NDArray[np.float64] = np.sqrt(squares / n)
    deviation[constant] = 1
    return deviation


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
    try:
        return np.asarray(
            X.to_numpy(dtype=np.float32 if float32 else np.float64, na_value=np.nan)
        )
    except (TypeError, ValueError) as error:
        raise _not_numbers(_first_text(X.to_numpy(dtype=object))) from error


def _array(X: Any) -> npt.NDArray[Any]:
    try:
        array = np.asarray(X)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"X is not a table ({error}); it should be (n_samples, n_features), every "
            "row of one length."
        ) from error
    if array.dtype.kind != "O" or array.ndim != 2:
        return array
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise _not_numbers(_first_text(array)) from error


def _first_text(array: npt.NDArray[Any]) -> str:
    for (row, column), value in np.ndenumerate(array):
        try:
            float(value)
        except (TypeError, ValueError):
            return f"{value!r} in row {row}, column {column}"
    return "entries that are not numbers"


def _not_numbers(what: str) -> ValueError:
    return ValueError(f"X has {what}; encode it as numbers or leave it out.")


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
    return np.ascontiguousarray(X, dtype=np.float32 if kept else np.float64)


def _canonical(X: Any) -> Any:
    """CSR with sorted indices, no duplicates and no stored zeros; copied if changed."""
    source = X
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


def _check_finite(X: Any) -> None:
    table = X.data[:, None] if is_sparse(X) else X
    for rows in _blocks(table):
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


def _blocks(X: Any) -> list[slice]:
    step = max(1, BLOCK_BYTES // (8 * X.shape[1]))
    return [slice(begin, begin + step) for begin in range(0, X.shape[0], step)]


def _row_bytes(X: Any) -> list[bytes]:
    if is_sparse(X):
        ends = zip(X.indptr[:-1], X.indptr[1:], strict=True)
        return [X.indices[a:b].tobytes() + X.data[a:b].tobytes() for a, b in ends]
    # Adding 0 turns -0 into 0.
    rows = np.ascontiguousarray(X + X.dtype.type(0))
    return [row.tobytes() for row in rows]
