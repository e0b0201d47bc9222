"""A file of text as blocks of whole lines, whatever it was packed and encoded by."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gpu_consensus.util.arrays import size_text
from gpu_consensus.util.files import FileError, open_regular
from gpu_consensus.util.memory import check_memory
from gpu_consensus.util.progress import Advance

STANDARD = Path("-")
"""Stands for standard input, and for standard output."""

_BLOCK = 1 << 23  # characters that are parsed at a time
_PART = 1 << 20
_LOOK = 1 << 12
_BOMB = 1 << 28
_PACKING = 200  # times that no real table can be packed
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
PLAIN = ("utf-8", "utf-8-sig")
"""Encodings that are not worth a word."""


class Source:
    """An open file of text.

    Attributes
    ----------
    path : Path
    where : str
        How messages call it.
    suffix : str
        What the end of its name says it is, without ".gz"; "" for standard input.
    encoding : str
    size : int or None
        Bytes on disk, None where they are packed or come through a pipe.
    """

    def __init__(self, path: Path, file: BinaryIO, encoding: str | None) -> None:
        self.path = path
        self.where = where(path)
        self.suffix = suffix_of(path)
        self.encoding = encoding or _recognised(file)
        self.size = _size_of(path)
        self._file = file

    def head(self) -> str:
        """Return the first lines."""
        return next(self.blocks(_PART), "")

    def blocks(
        self, size: int = _BLOCK, advance: Advance | None = None
    ) -> Iterator[str]:
        r"""Yield the text in blocks that end where a line does, outside of quotes.

        Ends of lines are all "\n" in it.
        """
        self._file.seek(0)
        text = io.TextIOWrapper(self._file, self.encoding, newline=None)
        rest, seen = "", 0
        try:
            while part := text.read(size):
                if advance is not None:
                    at = self._file.tell()
                    advance(at - seen)
                    seen = at
                rest += part
                cut = _last_end(rest)
                if cut:
                    yield rest[:cut]
                    rest = rest[cut:]
            if rest:
                yield rest
        except UnicodeError as error:
            raise ValueError(
                f"{self.where} is not {self.encoding} text "
                f"({getattr(error, 'reason', error)}); name its encoding with "
                "--encoding, or save it as UTF-8."
            ) from None
        finally:
            text.detach()


@contextmanager
def open_source(path: Path, encoding: str | None = None) -> Iterator[Source]:
    """Open a file of text, packed by gzip or not, or standard input.

    Parameters
    ----------
    path : Path
        "-" for standard input.
    encoding : str, optional
        By default it is recognised: a byte order mark, UTF-16 by its zeros, else
        UTF-8 where the whole file is, else Windows-1252.
    """
    if encoding is not None:
        _check_encoding(encoding)
    try:
        with _opened(path) as file:
            yield Source(path, file, encoding)
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise ValueError(
            f"{where(path)} is not packed by gzip, or damaged ({error}); pack it anew."
        ) from None
    except FileError as error:
        raise ValueError(
            f"{where(path)} cannot be read: {error}; save it anew."
        ) from None


def where(path: Path) -> str:
    """Return how messages call a file."""
    return "standard input" if path == STANDARD else repr(str(path))


def suffix_of(path: Path) -> str:
    """Return the end of a file's name, in small letters and without ".gz"."""
    if path == STANDARD:
        return ""
    suffix = path.suffix.lower()
    return path.with_suffix("").suffix.lower() if suffix == ".gz" else suffix


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    if path == STANDARD:
        yield io.BytesIO(_all_of(sys.stdin.buffer))
        return
    with open_regular(path) as file:
        if path.suffix.lower() != ".gz":
            yield file
            return
        _check_packing(file)
        with gzip.GzipFile(fileobj=file) as unpacked:
            yield unpacked  # type: ignore[misc]


def _all_of(stream: BinaryIO) -> bytes:
    parts, total = [], 0
    while part := stream.read(1 << 26):
        parts.append(part)
        total += len(part)
        cure = "write it to a file, and name that"
        check_memory("standard input", total, None, cure)
    return b"".join(parts)


def _check_packing(file: BinaryIO) -> None:
    """Refuse a file that would unpack to what no table is."""
    packed, total = os.fstat(file.fileno()).st_size, 0
    with gzip.GzipFile(fileobj=file) as unpacked:
        while part := unpacked.read(_PART):
            total += len(part)
            if total > _BOMB and total > _PACKING * packed:
                raise FileError(
                    f"it would unpack from {size_text(packed)} to more than "
                    f"{size_text(total)}, as no table does"
                )
    file.seek(0)


def _check_encoding(encoding: str) -> None:
    try:
        "".encode(encoding)
        codecs.lookup(encoding).incrementaldecoder()
    except (LookupError, TypeError, ValueError):
        raise ValueError(
            f"--encoding {encoding!r} is unknown; name one such as utf-8, utf-16, "
            "latin-1 or cp1252."
        ) from None


def _recognised(file: BinaryIO) -> str:
    """Return the encoding of a whole file."""
    first = file.read(_LOOK)
    for mark, name in _MARKS:
        if first.startswith(mark):
            return name
    if b"\0" in first:
        return _by_zeros(first)
    decoder = codecs.getincrementaldecoder("utf-8")()
    part = first
    while part:
        try:
            following = file.read(_PART)
            decoder.decode(part, final=not following)
            part = following
        except UnicodeDecodeError:
            return "cp1252" if _has_no_holes(file) else "latin-1"
    return "utf-8"


def _by_zeros(first: bytes) -> str:
    """Tell the two orders of UTF-16 apart; other zeros are not those of text."""
    even, odd = first[::2].count(0), first[1::2].count(0)
    if odd > 8 * even and odd > len(first) // 8:
        return "utf-16-le"
    if even > 8 * odd and even > len(first) // 8:
        return "utf-16-be"
    raise FileError("it is not text but holds zero bytes")


def _has_no_holes(file: BinaryIO) -> bool:
    """Whether no byte is one that Windows-1252 leaves undefined."""
    file.seek(0)
    holes = bytes((0x81, 0x8D, 0x8F, 0x90, 0x9D))
    while part := file.read(_PART):
        if len(part.translate(None, holes)) < len(part):
            return False
    return True


def _last_end(text: str) -> int:
    """Return where the last whole line ends that leaves no quote open; 0 if none."""
    cut = text.rfind("\n") + 1
    if text.count('"', 0, cut) % 2 == 0:
        return cut
    cut = text.rfind("\n", 0, text.rfind('"', 0, cut)) + 1
    return cut if text.count('"', 0, cut) % 2 == 0 else 0


def _size_of(path: Path) -> int | None:
    if path == STANDARD or path.suffix.lower() == ".gz":
        return None
    return path.stat().st_size
