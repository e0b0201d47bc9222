"""Finished partitions on disk, so that an interrupted generation can go on.

A folder: ``call.json`` says what call it belongs to, ``000042.npy`` holds partition 42
as labels from 1, with 0 for missing, and ends with a hash of them, their number and
the call. Every file appears whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from gpu_consensus.ensemble.storage import write_atomic, write_new
from gpu_consensus.util.files import open_regular, read_entries, read_header
from gpu_consensus.util.paths import check_no_link, check_path
from gpu_consensus.util.seeds import plain_seed, seed_from_plain
from gpu_consensus.util.sparse import is_sparse

FORMAT = "gpu_consensus.generate_partitions"
VERSION = 3
"""Of the partitions: raised when the same call makes others, or the files change."""
_DIGEST = 16  # bytes at the end of every partition
_MOST_CALL = 1 << 24  # bytes of call.json


class PartitionStore:
    """The folder of one call, its ``checkpoint``.

    Parameters
    ----------
    path : path
        Made if it does not exist.
    call : dict
        What the call is, in JSON's types; compared with what is stored.
    seed : numpy.random.SeedSequence or None
        None takes the stored one, or fresh entropy for a new folder.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        call: dict[str, Any],
        seed: np.random.SeedSequence | None,
    ) -> None:
        self.path = check_path("checkpoint", path)
        call = json.loads(json.dumps(call))
        stored = self._read_call()
        if stored is None:
            first = np.random.SeedSequence() if seed is None else seed
            # another call may have begun at the same moment, with a seed of its own
            self._write_call(call, first)
            stored = self._read_call()
            if stored is None:
                raise self._foreign("another call has removed its files")
        for name, value in call.items():
            old = stored["call"].get(name)
            if old != value:
                raise self._foreign(f"{name} was {old!r}, is {value!r}")
        self.seed = seed_from_plain(stored["seed"])
        if seed is not None and plain_seed(seed) != stored["seed"]:
            raise self._foreign("random_state differs")
        known = json.dumps([stored["call"], stored["seed"]], sort_keys=True)
        self._key = hashlib.blake2b(known.encode()).digest()

    def read(self, i: int, n_samples: int) -> tuple[npt.NDArray[Any], int] | None:
        """Return codes and K_i of partition ``i``, or None if it is not there yet."""
        path = self._file(i)
        check_no_link(path, "a checkpoint")
        if not path.exists():
            return None
        try:
            with open_regular(path) as file:
                header = read_header(file, os.fstat(file.fileno()).st_size)
                labels = read_entries(file, header)
                kept = file.read(_DIGEST + 1)
            if kept != self._digest(i, labels):
                raise ValueError("it is not what was written there")
            if labels.shape != (n_samples,) or labels.dtype not in (
                np.uint8,
                np.uint16,
            ):
                raise ValueError(f"it holds {labels.dtype} of shape {labels.shape}")
            counts = np.bincount(labels, minlength=1)
            if not counts[1:].all():
                raise ValueError("its labels are not consecutive")
        except (ValueError, OSError) as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise ValueError(
                f"{str(path)!r} is damaged ({reason}); delete this file and call again."
            ) from error
        n_labels = len(counts) - 1
        return np.where(labels == 0, n_labels, labels - 1).astype(
            labels.dtype
        ), n_labels

    def write(self, i: int, codes: npt.NDArray[Any], n_labels: int) -> None:
        """Keep partition ``i``."""
        labels = np.where(codes == n_labels, 0, codes + 1).astype(codes.dtype)

        def write(file: BinaryIO) -> None:
            np.save(file, labels)
            file.write(self._digest(i, labels))

        write_atomic(self._file(i), write, follow=False)

    def _digest(self, i: int, labels: npt.NDArray[Any]) -> bytes:
        """Hash a partition with its number and its call, so that none is mistaken."""
        whole = hashlib.blake2b(self._key, digest_size=_DIGEST)
        whole.update(f"{i} {labels.dtype} {labels.shape}".encode())
        whole.update(np.ascontiguousarray(labels).data)
        return whole.digest()

    def _file(self, i: int) -> Path:
        return self.path / f"{i:06d}.npy"

    def _foreign(self, why: str) -> ValueError:
        return ValueError(
            f"checkpoint={str(self.path)!r} belongs to another call ({why}); repeat "
            "that call or choose another folder."
        )

    def _read_call(self) -> dict[str, Any] | None:
        path = self.path
        if not path.exists():
            return None
        if not path.is_dir():
            raise ValueError(
                f"checkpoint={str(path)!r} is a file; choose a folder, it will be made."
            )
        file = path / "call.json"
        check_no_link(file, "a checkpoint")
        # A call that was stopped before it wrote anything leaves hidden files.
        names = [entry.name for entry in path.iterdir()]
        if all(name.startswith(".") for name in names):
            return None
        if not file.exists():
            raise ValueError(
                f"checkpoint={str(path)!r} holds other files; choose another folder."
            )
        try:
            stored: dict[str, Any] = _read_json(file)
            if stored["format"] != FORMAT:
                raise ValueError(f"it is {stored['format']!r}")
            version = int(stored["version"])
            stored["call"].keys()
            seed_from_plain(stored["seed"])
        except Exception as error:  # what a foreign file holds is of any kind
            reason = " ".join(str(error).split())[:120] or type(error).__name__
            raise ValueError(
                f"checkpoint={str(path)!r} is damaged (call.json: {reason}); delete "
                "the folder or choose another."
            ) from error
        if version != VERSION:
            raise ValueError(
                f"checkpoint={str(path)!r} holds partitions of version {version} and "
                f"this release makes version {VERSION}, which do not mix; finish with "
                "the release that began it, or choose another folder."
            )
        return stored

    def _write_call(self, call: dict[str, Any], seed: np.random.SeedSequence) -> None:
        try:
            self.path.mkdir(exist_ok=True)
        except OSError as error:
            raise OSError(
                f"cannot make checkpoint={str(self.path)!r}: {error.strerror}; choose "
                "a path in a folder that exists and may be written."
            ) from error
        stored = {
            "format": FORMAT,
            "version": VERSION,
            "call": call,
            "seed": plain_seed(seed),
        }
        text = json.dumps(stored, indent=1).encode()
        write_new(self.path / "call.json", lambda file: file.write(text))


def _read_json(path: Path) -> Any:
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > _MOST_CALL:
            raise ValueError("it is too long")
        return json.loads(file.read())


def stored_seed(path: Path) -> np.random.SeedSequence:
    """Return the seed of a folder that a store has been opened in."""
    stored = _read_json(path / "call.json")
    return seed_from_plain(stored["seed"])


def digest(X: Any) -> str:
    """Hash the values of checked features; equal for equal values, row by row."""
    digest_of_rows = hashlib.blake2b(digest_size=16)
    for part in (X.indptr, X.indices, X.data) if is_sparse(X) else (X,):
        step = max(1, (1 << 24) // part[:1].nbytes) if part.size else 1
        for begin in range(0, len(part), step):
            digest_of_rows.update(np.ascontiguousarray(part[begin : begin + step]).data)
    return digest_of_rows.hexdigest()
