"""How compiled kernels see codes and tables: few kinds of arrays, whole vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from gpu_consensus.backends.numba_assign import LANES
from gpu_consensus.backends.protocol import Codes, Table


def code_lines(codes: Codes) -> tuple[Codes, int]:
    """Return codes (r, n) as one read-only vector, and where the next line begins.

    One kind of array for all slices, mapped or not, so that kernels compile once.
    """
    codes = np.asarray(codes)
    size = codes.itemsize
    if codes.strides[1] != size or codes.strides[0] % size or codes.strides[0] < 0:
        codes = np.ascontiguousarray(codes)
    n_partitions, n_samples = codes.shape
    stride = codes.strides[0] // size
    length = (n_partitions - 1) * stride + n_samples
    return as_strided(codes, (length,), (size,), writeable=False), stride


def blank_table(
    n_rows: int, n_columns: int, dtype: Any = np.float32, make: Any = np.zeros
) -> Any:
    """Return zeros (S, width), rows padded to whole vectors and aligned to them.

    With ``make=np.empty`` for who writes all of it, also the padding.
    """
    lanes, size = LANES, np.dtype(dtype).itemsize
    width = -(-n_columns // lanes) * lanes
    raw = make(n_rows * width * size + 64, dtype=np.uint8)
    begin = -raw.__array_interface__["data"][0] % 64
    end = begin + n_rows * width * size
    return raw[begin:end].view(dtype).reshape(n_rows, width)


def as_protocol(table: Any, n_restarts: int, n_clusters: int) -> Table:
    """View a padded table, whose columns are k R + q, as (S, R, K)."""
    inner = table[:, : n_restarts * n_clusters]
    view: Table = inner.reshape(len(table), n_clusters, n_restarts).transpose(0, 2, 1)
    return view


def padded_rows(table: Table) -> tuple[npt.NDArray[np.float32], int]:
    """Return a table (S, R, K) as padded rows in one vector, and their width.

    A view that :func:`as_protocol` made is known by its strides and not copied.
    """
    n_rows, n_restarts, n_clusters = table.shape
    size, row = table.itemsize, table.strides[0]
    owner = table.base
    if (
        isinstance(owner, np.ndarray)
        and row % (size * LANES) == 0
        and row >= size * n_restarts * n_clusters
        and (n_restarts == 1 or table.strides[1] == size)
        and (n_clusters == 1 or table.strides[2] == size * n_restarts)
        and n_rows > 1
    ):
        begin = table.__array_interface__["data"][0]
        end = owner.__array_interface__["data"][0] + owner.nbytes
        if owner.flags.c_contiguous and begin + n_rows * row <= end:
            return as_strided(table, (n_rows * row // size,), (size,)), row // size
    padded = blank_table(n_rows, n_restarts * n_clusters)
    as_protocol(padded, n_restarts, n_clusters)[:] = table
    return padded.reshape(-1), padded.shape[1]
