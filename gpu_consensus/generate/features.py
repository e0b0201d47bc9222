"""Facts about checked features that the strategies ask for."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.sparse import is_sparse
from gpu_consensus.util.tables import row_blocks

_SQUARES = 400  # powers of two whose squares, and sums of them, are still floats


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
    largest = np.maximum(np.abs(X.max(axis=0)), np.abs(X.min(axis=0)))
    exponents = np.frexp(largest.astype(np.float64))[1]
    extreme = np.flatnonzero(np.abs(exponents) > _SQUARES)
    if extreme.size:  # their squares are no floats: as if in other units
        units = np.zeros(X.shape[1], dtype=np.int64)
        units[extreme] = exponents[extreme]
        scaled = np.ldexp(X.astype(np.float64), -units)
        return np.where(
            scaled.max(axis=0) == scaled.min(axis=0),
            1.0,
            np.ldexp(column_deviation(scaled), units),
        )
    mean = np.asarray(X.mean(axis=0, dtype=np.float64))
    squares = np.zeros_like(mean)
    for rows in row_blocks(X):
        squares += ((X[rows] - mean) ** 2).sum(axis=0)
    constant = (X.min(axis=0) == X.max(axis=0)) | (squares == 0)
    deviation: npt.NDArray[np.float64] = np.sqrt(squares / n)
    deviation[constant] = 1
    return deviation


def _row_bytes(X: Any) -> list[bytes]:
    if is_sparse(X):
        ends = zip(X.indptr[:-1], X.indptr[1:], strict=True)
        return [X.indices[a:b].tobytes() + X.data[a:b].tobytes() for a, b in ends]
    # Adding 0 turns -0 into 0.
    rows = np.ascontiguousarray(X + X.dtype.type(0))
    return [row.tobytes() for row in rows]
