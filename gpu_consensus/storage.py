"""Ensembles on disk: a folder (``codes.npy`` and ``meta.json``) or one .npz file.

Nothing is ever pickled. Every write goes to a temporary neighbour first and is renamed
into place, so that a reader never sees half of a file.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.encoding import category_array, count_codes

FORMAT = "gpu_consensus.Ensemble"
VERSION = 1


class Stored(NamedTuple):
    """What a saved ensemble holds."""

    codes: npt.NDArray[Any]
    n_labels: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float64]
    marginals: npt.NDArray[np.int64]
    categories: list[npt.NDArray[Any]]


def write_atomic(
    path: str | os.PathLike[str], write: Callable[[BinaryIO], object]
) -> None:
    """Write a file so that ``path`` is either the old file or the whole new one."""
    path = Path(path).resolve()
    with _explain_failure(path), _neighbour(path) as temporary:
        _write(temporary, write)
        temporary.replace(path)


def save(
    path: str | os.PathLike[str],
    codes: npt.NDArray[Any],
    n_labels: npt.NDArray[np.int64],
    weights: npt.NDArray[np.float64],
    marginals: npt.NDArray[np.int64],
    categories: Sequence[npt.NDArray[Any]],
) -> None:
    """Write the parts of an ensemble to ``path``."""
    path = Path(path).resolve()
    lists = [_plain(found) for found in categories]
    odd = [i for i, found in enumerate(lists) if found is None]
    if odd:
        warnings.warn(
            f"the labels of partition {odd[0]} are neither numbers nor strings and "
            "cannot be saved; after loading, its labels are 0..K_i-1.",
            UserWarning,
            stacklevel=3,
        )
    meta = {
        "format": FORMAT,
        "version": VERSION,
        "shape": list(codes.shape),
        "dtype": str(codes.dtype),
        "n_labels": n_labels.tolist(),
        "weights": weights.tolist(),
        "marginals": marginals.tolist(),
        "categories": lists,
    }
    text = json.dumps(meta)
    if path.suffix == ".npz":
        write_atomic(path, lambda file: np.savez(file, codes=codes, meta=np.str_(text)))
        return
    if path.exists() and not _is_ours(path):
        raise FileExistsError(
            f"{str(path)!r} exists and is not an ensemble; choose another path."
        )
    with _explain_failure(path), _neighbour(path) as temporary:
        temporary.mkdir()
        _write(temporary / "codes.npy", lambda file: np.save(file, codes))
        _write(temporary / "meta.json", lambda file: file.write(text.encode()))
        _swap(temporary, path)


def load(path: str | os.PathLike[str], *, mmap: bool) -> Stored:
    """Read the parts of an ensemble; call it under :func:`reading`."""
    path = Path(path)
    if path.is_dir():
        text = (path / "meta.json").read_text(encoding="utf-8")
        codes = np.load(path / "codes.npy", mmap_mode="r", allow_pickle=False)
        if not mmap:
            codes = np.array(codes)
    else:
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise ValueError("it is neither a folder nor a .npz file")
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                if not {"codes", "meta"} <= set(archive.files):
                    raise ValueError(f"it holds {archive.files}, not codes and meta")
                text, codes = str(archive["meta"][()]), archive["codes"]
    meta = json.loads(text)
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise ValueError("it was written by another program")
    if meta.get("version") != VERSION:
        raise ValueError(
            f"its version is {meta.get('version')}, this release reads {VERSION}"
        )
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
        np.arange(size) if found is None else category_array(found)
        for size, found in zip(n_labels, meta["categories"], strict=True)
    ]
    if any(_plain(found) is None for found in categories):
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
        found = count_codes(stored.codes[i], k_i)
        if not np.array_equal(found, stored.marginals[begin:end]):
            raise ValueError(f"the labels of partition {i} are not those saved")


@contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn whatever a foreign or damaged file causes into one clear error."""
    if not Path(path).exists():
        raise FileNotFoundError(f"{str(path)!r} does not exist; check the path.")
    try:
        yield
    except (MemoryError, PermissionError):
        raise
    except Exception as error:  # numpy, json and zipfile raise a dozen kinds
        reason = str(error).strip().rstrip(".") or type(error).__name__
        if isinstance(error, FileNotFoundError):
            reason = f"it lacks {Path(error.filename).name}"
        raise ValueError(
            f"{str(path)!r} is not a readable ensemble ({reason}); make it again with "
            "Ensemble.save."
        ) from error


@contextmanager
def _explain_failure(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OSError(
            f"cannot write {str(path)!r}: {error.strerror or error}; choose a path "
            "in a folder that exists and may be written."
        ) from error


@contextmanager
def _neighbour(path: Path) -> Iterator[Path]:
    """Yield a free name beside ``path`` and remove what is there in the end."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        yield temporary
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        with suppress(OSError):
            temporary.unlink()


def _swap(temporary: Path, path: Path) -> None:
    """Put a new folder where an old one may be; put that back if this fails."""
    if not path.exists():
        temporary.replace(path)
        return
    with _neighbour(path) as old:
        try:
            path.replace(old)
            temporary.replace(path)
        except BaseException:
            if not path.exists():
                old.replace(path)
            raise


def _write(path: Path, write: Callable[[BinaryIO], object]) -> None:
    with path.open("xb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())


def _is_ours(path: Path) -> bool:
    """Whether a folder is empty or one of our ensembles, and so may be replaced."""
    if not path.is_dir():
        return False
    names = {entry.name for entry in path.iterdir()}
    if "meta.json" not in names or not names <= {"codes.npy", "meta.json"}:
        return not names
    return FORMAT.encode() in (path / "meta.json").read_bytes()


def _plain(categories: npt.NDArray[Any]) -> list[Any] | None:
    """Return labels that JSON can hold as a list."""
    if categories.dtype.kind in "mM":  # in nanoseconds, tolist makes them integers
        return None
    values: list[Any] = categories.tolist()
    plain = all(isinstance(value, (int, float, str)) for value in values)
    return values if plain else None
