"""Ensembles on disk: a folder or one .npz file, always whole, never a pickle.

A file is written to a temporary neighbour and renamed into place. A folder holds
``meta.json`` and the ``codes-<hex>.npy`` that this names: a save writes codes of a new
name, then replaces ``meta.json``, which is the moment of change, then removes the old
codes. So the folder is the old ensemble or the new one whenever the save is killed; the
next save removes what that one left, if it can see that no other save is at work.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.ensemble.encoding import category_array, count_codes
from gpu_consensus.util.files import (
    open_archive,
    open_regular,
    read_member,
    read_npy,
)
from gpu_consensus.util.paths import check_no_link, check_path, reason_of
from gpu_consensus.util.warn import warn

if sys.platform != "win32":
    import fcntl

FORMAT = "gpu_consensus.Ensemble"
VERSION = 1
_PART = 1 << 24  # objects whose codes are written at a time
_CODES = re.compile(r"codes-[0-9a-f]{16}\.npy")
_unfinished: set[Path] = set()
_finishing = threading.Lock()
_OURS = re.compile(rf"{_CODES.pattern}|\.meta\.json\.[0-9a-f]{{16}}")


class Stored(NamedTuple):
    """What a saved ensemble holds."""

    codes: npt.NDArray[Any]
    n_labels: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float64]
    marginals: npt.NDArray[np.int64]
    categories: list[npt.NDArray[Any]]


def write_atomic(
    path: str | os.PathLike[str],
    write: Callable[[BinaryIO], object],
    *,
    follow: bool = True,
) -> None:
    """Write a file so that ``path`` is either the old file or the whole new one.

    A link is followed, unless ``follow`` is False: then the file takes its place.
    """
    path = Path(path).resolve() if follow else Path(path)
    with explain_failure(path):
        _replace(path, write)


def write_new(path: Path, write: Callable[[BinaryIO], object]) -> bool:
    """Write a file whole, or nothing if there is one already; return which it was."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with explain_failure(path), _listed(temporary):
        try:
            _write(temporary, write)
            return _take_name(temporary, path)
        finally:
            _remove(temporary)


def save(
    path: str | os.PathLike[str],
    codes: npt.NDArray[Any],
    n_labels: npt.NDArray[np.int64],
    weights: npt.NDArray[np.float64],
    marginals: npt.NDArray[np.int64],
    categories: Sequence[npt.NDArray[Any]],
) -> None:
    """Write the parts of an ensemble to ``path``."""
    path = check_path("path", path).resolve()
    meta = describe(codes.shape, codes.dtype, n_labels, weights, marginals, categories)
    if path.suffix == ".npz":
        text = np.str_(json.dumps(meta))
        write_atomic(path, lambda file: np.savez(file, codes=codes, meta=text))
        return
    check_replaceable("", path)
    with explain_failure(path), new_codes(path) as (file, commit):
        _write(file, lambda file: _write_codes(file, codes))
        commit(meta)


def describe(
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    n_labels: npt.NDArray[np.int64],
    weights: npt.NDArray[np.float64],
    marginals: npt.NDArray[np.int64],
    categories: Sequence[npt.NDArray[Any]],
) -> dict[str, Any]:
    """Return what is written beside the codes, as JSON can hold it."""
    lists = [_plain(labels) for labels in categories]
    odd = [i for i, labels in enumerate(lists) if labels is None]
    if odd:
        warn(
            f"the labels of partition {odd[0]} are neither numbers nor strings and "
            "cannot be saved; after loading, its labels are 0..K_i-1."
        )
    return {
        "format": FORMAT,
        "version": VERSION,
        "shape": list(shape),
        "dtype": str(dtype),
        "n_labels": n_labels.tolist(),
        "weights": weights.tolist(),
        "marginals": marginals.tolist(),
        "categories": lists,
    }


def check_replaceable(option: str, path: Path) -> None:
    """Raise an error if ``path`` is there and no ensemble may take its place.

    A file ending in .npz is replaced by the next one, as any output is.
    """
    if path.suffix != ".npz" and path.exists() and not _is_ours(path):
        raise FileExistsError(
            f"{option}{str(path)!r} exists and is not an ensemble; choose another path."
        )


def remove_unfinished() -> None:
    """Remove what is being written, before the process is ended by force.

    Nothing is finished any more afterwards.
    """
    if not _finishing.acquire(timeout=1):
        return  # a rename hangs, and may yet be done
    folders = [path for path in _unfinished if path.is_dir()]
    for path in list(_unfinished):
        _remove(path)
    for path in folders:
        _remove_empty(path)


def load(path: str | os.PathLike[str], *, mmap: bool) -> Stored:
    """Read the parts of an ensemble; call it under :func:`reading`."""
    path = Path(path)
    codes, meta = _load_folder(path, mmap) if path.is_dir() else _load_archive(path)
    names = ["shape", "dtype", "n_labels", "weights", "marginals", "categories"]
    missing = [name for name in names if name not in meta]
    if missing:
        raise ValueError(f"its description lacks {missing[0]!r}")
    if list(codes.shape) != meta["shape"] or str(codes.dtype) != meta["dtype"]:
        raise ValueError(
            f"codes are {codes.shape} {codes.dtype}, not {meta['shape']} "
            f"{meta['dtype']} as saved"
        )
    n_labels = np.asarray(meta["n_labels"], dtype=np.int64)
    categories = [
        np.arange(size) if labels is None else category_array(labels)
        for size, labels in zip(n_labels, meta["categories"], strict=True)
    ]
    if any(_plain(labels) is None for labels in categories):
        raise ValueError("its labels are neither numbers nor strings")
    return Stored(
        codes,
        n_labels,
        np.asarray(meta["weights"], dtype=np.float64),
        np.asarray(meta["marginals"], dtype=np.int64),
        categories,
    )


def verify(stored: Stored) -> None:
    """Count every label and compare with the counts that were saved."""
    end = 0
    for i, k_i in enumerate(stored.n_labels.tolist()):
        begin, end = end, end + k_i + 1
        counts = count_codes(stored.codes[i], k_i)
        if not np.array_equal(counts, stored.marginals[begin:end]):
            raise ValueError(f"the labels of partition {i} are not those saved")


@contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn whatever a foreign or damaged file causes into one clear error."""
    if not check_path("path", path).exists():
        raise FileNotFoundError(f"{str(path)!r} does not exist; check the path.")
    try:
        yield
    except (MemoryError, PermissionError):
        raise
    except Exception as error:  # numpy, json and zipfile raise a dozen kinds
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        if isinstance(error, FileNotFoundError):
            reason = f"it lacks {Path(error.filename).name}"
        raise ValueError(
            f"{str(path)!r} is not a readable ensemble ({reason}); make it again with "
            "Ensemble.save."
        ) from error


@contextmanager
def new_codes(path: Path) -> Iterator[tuple[Path, Callable[[dict[str, Any]], None]]]:
    """Make room for new codes in a folder, which is made if it is not there.

    Yields the path of their file, to be written by the caller, and a function that
    makes the folder that ensemble, of this description, at one moment. Whatever ends
    the context before leaves what was there.
    """
    name = f"codes-{secrets.token_hex(8)}.npy"
    made = _make_folder(path)
    with _at_work(path) as handle:
        before = _current_codes(path)

        def commit(meta: dict[str, Any]) -> None:
            text = json.dumps({**meta, "codes": name}).encode()
            _sync(handle)
            _replace(path / "meta.json", lambda file: file.write(text), path / name)
            _sync(handle)

        try:
            with _listed(path / name, *([path] if made else [])):
                yield path / name, commit
        except BaseException:
            if _current_codes(path) not in (name, None):
                _remove(path / name)  # else it stopped after the change
            if made:
                _remove_empty(path)
            raise
        # Names never come back, so nobody needs what this save has replaced.
        unused = {before} if before else set()
        if _is_alone(handle) and (current := _current_codes(path)):
            unused = _leftovers(path) - {current}
        for left in unused:
            _remove(path / left)


def _load_folder(path: Path, mmap: bool) -> tuple[npt.NDArray[Any], dict[str, Any]]:
    text = ""
    while True:
        check_no_link(path / "meta.json", "the folder of an ensemble")
        with open_regular(path / "meta.json") as file:
            before, text = text, file.read().decode()
        meta = _parse(text)
        name = meta.get("codes")
        if not isinstance(name, str) or not _CODES.fullmatch(name):
            raise ValueError(f"its description names {name!r} as codes")
        check_no_link(path / name, "the folder of an ensemble")
        try:
            return read_npy(path / name, mmap=mmap), meta
        except FileNotFoundError:
            if text == before:
                raise
            # a save has come between the two files


def _load_archive(path: Path) -> tuple[npt.NDArray[Any], dict[str, Any]]:
    with open_regular(path) as file:
        if not zipfile.is_zipfile(file):
            raise ValueError("it is neither a folder nor a .npz file")
        file.seek(0)
        with open_archive(file) as archive:
            if not {"codes", "meta"} <= archive.names:
                held = sorted(archive.names)
                raise ValueError(f"it holds {held}, not codes and meta")
            meta = _parse(str(read_member(archive, "meta")[()]))
            return read_member(archive, "codes"), meta


def _parse(text: str) -> dict[str, Any]:
    meta = json.loads(text)
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise ValueError("it was written by another program")
    if meta.get("version") != VERSION:
        raise ValueError(
            f"its version is {meta.get('version')}, this release reads {VERSION}"
        )
    return meta


@contextmanager
def explain_failure(path: Path) -> Iterator[None]:
    """Say what could not be written, why, and what helps."""
    try:
        yield
    except OSError as error:
        raise OSError(
            f"cannot write {str(path)!r}: {reason_of(error)}; {_cure(error)}."
        ) from error


def _cure(error: OSError) -> str:
    """Say what helps against a failure to write."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "make room on the disk, or choose a path on another one"
    return "choose a path in a folder that exists and may be written"


def _write_codes(file: BinaryIO, codes: npt.NDArray[Any]) -> None:
    """As ``np.save``, but in parts: one large write would delay signals."""
    head = {
        "descr": np.lib.format.dtype_to_descr(codes.dtype),
        "fortran_order": False,
        "shape": codes.shape,
    }
    np.lib.format.write_array_header_1_0(file, head)
    for row in codes:
        for begin in range(0, len(row), _PART):
            file.write(np.ascontiguousarray(row[begin : begin + _PART]).data)


def _replace(path: Path, write: Callable[[BinaryIO], object], *relied_on: Path) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with _listed(temporary):
        try:
            _write(temporary, write)
            with _finishing:
                _unfinished.difference_update(relied_on)
                temporary.replace(path)
        except BaseException:
            _remove(temporary)
            raise


def _take_name(temporary: Path, path: Path) -> bool:
    """Give a file its name, unless another has it."""
    try:
        if sys.platform == "win32":
            temporary.rename(path)  # which replaces nothing there
        else:
            os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError:
        if path.exists():
            return False
        temporary.replace(path)  # a file system without links
    return True


@contextmanager
def _listed(*paths: Path) -> Iterator[None]:
    """Register files, and a new folder, as unfinished."""
    _unfinished.update(paths)
    try:
        yield
    finally:
        _unfinished.difference_update(paths)


def _write(path: Path, write: Callable[[BinaryIO], object]) -> None:
    with path.open("xb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # another save may be at work in it
        folder.rmdir()


def _make_folder(path: Path) -> bool:
    """Make a folder; return whether it is new."""
    try:
        path.mkdir()
    except FileExistsError:
        return False
    return True


@contextmanager
def _at_work(folder: Path) -> Iterator[int | None]:
    """Show other savers, by a shared lock, that this one is at work in ``folder``.

    Yields a handle, or None on Windows. File systems without locks are as Windows.
    """
    if sys.platform == "win32":
        yield None
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_SH)
        yield handle
    finally:
        with suppress(OSError):  # a forked child may hold the handle open
            fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def _is_alone(handle: int | None) -> bool:
    """Whether no other save is at work; if so, others wait until the lock is gone."""
    if sys.platform == "win32" or handle is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sync(handle: int | None) -> None:
    """Write the names in a folder to disk, before anything relies on them."""
    if handle is not None:
        with suppress(OSError):  # not every file system can
            os.fsync(handle)


def _current_codes(folder: Path) -> str | None:
    """Return the name of the codes in use, "" if none are, None if unreadable."""
    try:
        name = json.loads((folder / "meta.json").read_bytes())["codes"]
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return name if isinstance(name, str) and _CODES.fullmatch(name) else None


def _leftovers(folder: Path) -> set[str]:
    """Return all names in a folder that some save gave, but for ``meta.json``."""
    return {entry.name for entry in folder.iterdir() if _OURS.fullmatch(entry.name)}


def _is_ours(path: Path) -> bool:
    """Whether a folder is empty or one of our ensembles, and so may be replaced."""
    if not path.is_dir():
        return False
    others = {x.name for x in path.iterdir() if not _OURS.fullmatch(x.name)}
    if others != {"meta.json"}:
        return not others
    return FORMAT.encode() in (path / "meta.json").read_bytes()


def _plain(categories: npt.NDArray[Any]) -> list[Any] | None:
    """Return labels that JSON can hold as a list."""
    if categories.dtype.kind in "mM":  # in nanoseconds, tolist makes them integers
        return None
    values: list[Any] = categories.tolist()
    plain = all(isinstance(value, (int, float, str)) for value in values)
    return values if plain else None
