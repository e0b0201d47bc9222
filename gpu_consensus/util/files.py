"""One door for files: type, size and shape are checked before anything is read.

A device or a pipe is never waited for, a file that promises more than it holds is never
believed, an archive that unpacks to more than memory holds is never unpacked, and a
pickle, which can run any code, is never opened.
"""

from __future__ import annotations

import os
import stat
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.util.arrays import size_text
from gpu_consensus.util.memory import check_memory

_MOST_HEADER = 1 << 16
_PART = 1 << 26  # bytes that are read at a time, so that signals are heard
_BOMB = 1 << 28  # bytes from which on an archive is asked how well it was packed
_PACKING = 200  # times that no real table can be packed
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class FileError(ValueError):
    """What is wrong with a file, as the part of a sentence that goes in brackets."""


class Header(NamedTuple):
    """What the first bytes of a .npy file say.

    Attributes
    ----------
    shape : tuple of int
    fortran_order : bool
    dtype : numpy.dtype
    begin : int
        Where the entries begin.
    """

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]
    begin: int

    @property
    def nbytes(self) -> int:
        """How many bytes the entries are."""
        size = self.dtype.itemsize
        for length in self.shape:
            size *= length
        return size


@contextmanager
def open_regular(path: Path) -> Iterator[BinaryIO]:
    """Open a file to read it, if it is a plain one: no folder, device or pipe."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags)
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            kind = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
            raise FileError(f"it is {kind}, not a file")
        file = os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise
    with file:
        yield file


def read_npy(path: Path, *, mmap: bool = False) -> npt.NDArray[Any]:
    """Read the array of a .npy file, or map it into memory."""
    with open_regular(path) as file:
        header = read_header(file, os.fstat(file.fileno()).st_size)
        if not mmap or not header.nbytes:
            return read_entries(file, header)
    return np.memmap(
        path,
        dtype=header.dtype,
        mode="r",
        offset=header.begin,
        shape=header.shape,
        order="F" if header.fortran_order else "C",
    )


def read_npz(path: Path, names: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """Read some arrays of a .npz file, those that it has."""
    with open_regular(path) as file, open_archive(file) as archive:
        return {
            name: read_member(archive, name) for name in names if name in archive.names
        }


class Archive(NamedTuple):
    """An open .npz file whose parts may be read one by one."""

    zip: zipfile.ZipFile
    names: frozenset[str]


@contextmanager
def open_archive(file: BinaryIO) -> Iterator[Archive]:
    """Open a .npz file that could be unpacked into memory."""
    try:
        unpacked = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
        raise FileError(_reason(error)) from None
    with unpacked:
        parts = unpacked.infolist()
        names = [part.filename for part in parts]
        if len(set(names)) < len(names):
            raise FileError("it has two parts of one name")
        for part in parts:
            if part.flag_bits & 1:
                raise FileError(f"its part {part.filename!r} is encrypted")
            if part.compress_type not in _PACKED:
                raise FileError(f"its part {part.filename!r} is packed by other means")
        total, packed = sum(part.file_size for part in parts), _size(file)
        if total > _BOMB and total > _PACKING * packed:
            raise FileError(
                f"it would unpack from {size_text(packed)} to {size_text(total)}, as "
                "no table does"
            )
        yield Archive(
            unpacked,
            frozenset(n.removesuffix(".npy") for n in names if n[-4:] == ".npy"),
        )


def read_member(archive: Archive, name: str) -> npt.NDArray[Any]:
    """Read one array of an open .npz file."""
    part = archive.zip.getinfo(f"{name}.npy")
    try:
        with archive.zip.open(part) as file:
            header = read_header(file, part.file_size)
            return read_entries(file, header)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, OSError) as error:
        raise FileError(_reason(error)) from None
    except RuntimeError as error:  # of zlib, and of a password
        raise FileError(_reason(error)) from None
    except Exception as error:
        if type(error).__module__ == "zlib":
            raise FileError(_reason(error)) from None
        raise


def read_header(file: Any, size: int) -> Header:
    """Read the first bytes of a .npy file of ``size`` bytes, and believe none of them.

    Raises FileError if what follows cannot be the entries that they promise.
    """
    from numpy.lib import format as npy

    try:
        version = npy.read_magic(file)
        reads = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        if version not in reads:
            raise FileError(f"it is a .npy file of version {version}")
        shape, fortran_order, dtype = reads[version](file, _MOST_HEADER)
    except FileError:
        raise
    except Exception as error:  # of parsers: SyntaxError, TokenError, RecursionError
        raise FileError(f"it is no .npy file, or damaged: {_reason(error)}") from None
    if dtype.hasobject:
        raise FileError("it holds Python objects, which are not read")
    if dtype.kind not in "biufcSUmM" or dtype.itemsize == 0:
        raise FileError(f"it holds entries of type {dtype}")
    if any(length < 0 for length in shape) or len(shape) > 32:
        raise FileError(f"its shape is {shape}")
    header = Header(shape, fortran_order, dtype, file.tell())
    if header.nbytes > size - header.begin:
        raise FileError(
            f"it should hold {shape} entries of {dtype.itemsize} bytes but has only "
            f"{size_text(max(0, size - header.begin))} of them"
        )
    return header


def read_entries(file: Any, header: Header) -> npt.NDArray[Any]:
    """Read what follows a checked header."""
    cure = "free memory, or take a part of the table"
    check_memory("reading this file", header.nbytes, None, cure)
    room = np.empty(header.nbytes, dtype=np.uint8)
    view, done = room.data, 0
    while done < header.nbytes:
        count = file.readinto(view[done : done + _PART])
        if not count:
            raise FileError("it ends before its entries do")
        done += count
    entries: npt.NDArray[Any] = room.view(header.dtype)
    if header.fortran_order:
        return entries.reshape(header.shape[::-1]).T
    return entries.reshape(header.shape)


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split()).rstrip(".")
    return text[:120] or type(error).__name__
