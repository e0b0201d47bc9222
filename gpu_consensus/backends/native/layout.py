"""How kernels see arrays: checked, by address, rows in whole vectors."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from gpu_consensus.backends.native.threads import unused_memory

LANES = 16
"""Rows of tables are padded to so many numbers: ``GPC_LANES`` of native.h."""
Array = npt.NDArray[Any]
_ONE = ctypes.c_char
_checked: weakref.ref[Array] | None = None  # the offsets that were checked last


def address(array: Array | None) -> int | None:
    """Return where an array begins; None for none."""
    return None if array is None else place_of(array)


def place_of(array: Array) -> int:
    """Return where an array begins, the quick way where there is one."""
    flags = array.flags
    if flags.writeable and flags.c_contiguous and array.size:
        return ctypes.addressof(_ONE.from_buffer(array.data))
    place: int = array.__array_interface__["data"][0]
    return place


class Lines(NamedTuple):
    """Lines (m, n) of equally long numbers, each without gaps.

    ``array`` is what has to live as long as the address is used; ``stride`` counts
    numbers from one line to the next.
    """

    array: Array
    address: int
    itemsize: int
    stride: int
    shape: tuple[int, int]


def lines(
    name: str, array: Any, kinds: str, shape: tuple[int | None, int | None]
) -> Lines:
    """Check an array of unsigned integers and return how a kernel reads it.

    Parameters
    ----------
    kinds : str
        Sizes in bytes that are allowed, such as "12".
    shape : (int or None, int or None)
        What it should be, None for anything.
    """
    array = np.asarray(array)
    size = array.itemsize
    if array.dtype.kind != "u" or str(size) not in kinds:
        bits = " or ".join(f"uint{8 * int(size)}" for size in kinds)
        raise TypeError(f"{name} has dtype {array.dtype} and should have {bits}.")
    if array.ndim != 2 or _differ(shape, array.shape):
        asked = ", ".join("any" if one is None else str(one) for one in shape)
        raise ValueError(f"{name} has shape {array.shape} and should have ({asked}).")
    far, near = array.strides
    fits = near == size and far % size == 0 and far >= 0
    if array.size and not (fits and array.dtype.isnative and array.flags.aligned):
        array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
        if not array.flags.aligned:
            array = array.copy()
    stride = array.strides[0] // size if array.size else array.shape[1]
    rows, columns = array.shape
    return Lines(array, place_of(array), size, stride, (rows, columns))


def _differ(wanted: tuple[int | None, ...], shape: tuple[int, ...]) -> bool:
    """Whether a shape is another than wanted, of which None means anything."""
    for one, size in zip(wanted, shape, strict=True):
        if one is not None and one != size:
            return True
    return False


def check_codes(codes: Any, offsets: Any, n_rows: int | None = None) -> Lines:
    """Check codes (r, n) and the offsets of their partitions (r + 1,)."""
    found = lines("codes", codes, "12", (None, None))
    check_offsets("offsets", offsets, n_rows)
    if len(offsets) != found.shape[0] + 1:
        raise ValueError(
            f"offsets has {len(offsets)} numbers and should have one more than the "
            f"{found.shape[0]} partitions of codes."
        )
    return found


def check_offsets(name: str, offsets: Any, n_rows: int | None = None) -> None:
    """Raise an error unless offsets (r + 1,) cut so many rows into partitions."""
    global _checked
    if _checked is None or offsets is not _checked():
        check_array(name, offsets, np.int64, (None,))
        if len(offsets) < 2 or offsets[0] != 0 or (np.diff(offsets) < 1).any():
            raise ValueError(f"{name} should begin with 0 and rise by 1 or more.")
        # a fit passes the same ones again and again, and nobody changes them
        _checked = weakref.ref(offsets)
    if n_rows is not None and offsets[-1] != n_rows:
        raise ValueError(
            f"{name} end with {offsets[-1]} and should end with {n_rows}, the rows of "
            "the table or counts."
        )


def check_array(
    name: str,
    array: Any,
    dtype: npt.DTypeLike,
    shape: tuple[int | None, ...],
    writeable: bool = False,
) -> None:
    """Raise an error unless the array is as a kernel reads or writes it."""
    if not isinstance(array, np.ndarray) or array.dtype != dtype:
        kind = getattr(array, "dtype", type(array).__name__)
        raise TypeError(f"{name} is {kind} and should be {np.dtype(dtype)}.")
    if array.ndim != len(shape) or _differ(shape, array.shape):
        raise ValueError(f"{name} has shape {array.shape} and should have {shape}.")
    if not array.flags.c_contiguous or not array.flags.aligned:
        raise ValueError(f"{name} should be C-contiguous and aligned.")
    if writeable and not array.flags.writeable:
        raise ValueError(f"{name} is read-only and is to be written.")


def dense(
    name: str, array: Any, dtype: npt.DTypeLike, shape: tuple[int | None, ...]
) -> Array:
    """Return an array that a kernel reads, C-contiguous and aligned; else a copy."""
    found = np.asarray(array, dtype=dtype)
    if not (found.flags.c_contiguous and found.flags.aligned):
        found = np.array(found, order="C")
    check_array(name, found, dtype, shape)
    return found


def blank_table(
    n_rows: int, n_columns: int, dtype: Any = np.float32, make: Any = np.zeros
) -> Array:
    """Return zeros (S, width), rows padded to whole vectors and aligned to them.

    With ``make=np.empty`` for who writes all of it, also the padding.
    """
    size = np.dtype(dtype).itemsize
    width = -(-n_columns // LANES) * LANES
    n_bytes = n_rows * width * size + 64
    raw = unused_memory(n_bytes) if make is np.empty else make(n_bytes, dtype=np.uint8)
    begin = -place_of(raw) % 64
    end = begin + n_rows * width * size
    table: Array = raw[begin:end].view(dtype).reshape(n_rows, width)
    return table


def as_protocol(table: Array, n_restarts: int, n_clusters: int) -> Array:
    """View a padded table, whose columns are k R + q, as (S, R, K)."""
    inner = table[:, : n_restarts * n_clusters]
    return inner.reshape(len(table), n_clusters, n_restarts).transpose(0, 2, 1)


def padded_rows(name: str, table: Any) -> tuple[Array, int]:
    """Return a table (S, R, K) of float32 as padded rows (S, width), and the width.

    A view that :func:`as_protocol` made is known by its strides and not copied.
    """
    if getattr(table, "dtype", None) != np.float32 or table.ndim != 3:
        raise TypeError(f"{name} should be an array (S, R, K) of float32.")
    if 0 in table.shape:
        raise ValueError(f"{name} has shape {table.shape} and nothing in it.")
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
        and table.flags.aligned
    ):
        begin, first = place_of(table), place_of(owner)
        if (
            owner.flags.c_contiguous
            and first <= begin
            and begin + n_rows * row <= first + owner.nbytes
        ):
            width = row // size
            return as_strided(table, (n_rows, width), (row, size)), width
    padded = blank_table(n_rows, n_restarts * n_clusters)
    as_protocol(padded, n_restarts, n_clusters)[:] = table
    return padded, padded.shape[1]


def lookups(codes: Lines, width: int) -> int:
    """Return the work of adding rows of a table, in steps of one vector."""
    return codes.shape[0] * codes.shape[1] * width // 16
