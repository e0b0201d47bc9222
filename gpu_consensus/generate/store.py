"""Finished partitions on disk, so that an interrupted generation can go on.

A folder: ``call.json`` says what call it belongs to, ``000042.npy`` holds partition 42
as labels from 1, with 0 for missing. Every file appears whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.ensemble.storage import write_atomic
from gpu_consensus.generate.rows import is_sparse
from gpu_consensus.util.checks import check_path
from gpu_consensus.util.seeds import plain_seed, seed_from_plain

FORMAT = "gpu_consensus.generate_partitions"
VERSION = 3
"""Of the partitions: raised when the same call makes others, or the files change."""


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
        stored = self._read_call()
        if stored is None:
            self.seed = np.random.SeedSequence() if seed is None else seed
            self._write_call(call)
            return
        call = json.loads(json.dumps(call))
        for name, value in call.items():
            old = stored["call"].get(name)
            if old != value:
                raise self._foreign(f"{name} was {old!r}, is {value!r}")
        self.seed = seed_from_plain(stored["seed"])
        if seed is not None and plain_seed(seed) != stored["seed"]:
            raise self._foreign("random_state differs")

    def read(self, i: int, n_samples: int) -> tuple[npt.NDArray[Any], int] | None:
        """Return codes and K_i of partition ``i``, or None if it is not there yet."""
        path = self._file(i)
        if not path.exists():
            return None
        try:
            labels = np.load(path, allow_pickle=False)
            if labels.shape != (n_samples,) or labels.dtype not in (
                np.uint8,
                np.uint16,
            ):
                raise ValueError(f"it holds {labels.dtype} of shape {labels.shape}")
            counts = np.bincount(labels, minlength=1)
            if not counts[1:].all():
                raise ValueError("its labels are not consecutive")
        except (ValueError, OSError, EOFError) as error:
            reason = f"{error}".strip().rstrip(".")
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
        write_atomic(self._file(i), lambda file: np.save(file, labels))

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
        if not file.exists():
            # A call that was stopped before it wrote anything leaves hidden files.
            if all(entry.name.startswith(".") for entry in path.iterdir()):
                return None
            raise ValueError(
                f"checkpoint={str(path)!r} holds other files; choose another folder."
            )
        try:
            stored: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            if stored["format"] != FORMAT:
                raise ValueError(f"it is {stored['format']!r}")
            version = int(stored["version"])
            stored["call"].keys()
            seed_from_plain(stored["seed"])
        except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
            raise ValueError(
                f"checkpoint={str(path)!r} is damaged (call.json: {error}); delete the "
                "folder or choose another."
            ) from error
        if version != VERSION:
            raise ValueError(
                f"checkpoint={str(path)!r} holds partitions of version {version} and "
                f"this release makes version {VERSION}, which do not mix; finish with "
                "the release that began it, or choose another folder."
            )
        return stored

    def _write_call(self, call: dict[str, Any]) -> None:
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
            "seed": plain_seed(self.seed),
        }
        text = json.dumps(stored, indent=1).encode()
        write_atomic(self.path / "call.json", lambda file: file.write(text))


def stored_seed(path: Path) -> np.random.SeedSequence:
    """Return the seed of a folder that a store has been opened in."""
    stored = json.loads((path / "call.json").read_text(encoding="utf-8"))
    return seed_from_plain(stored["seed"])


def digest(X: Any) -> str:
    """Hash the values of checked features; equal for equal values, row by row."""
    digest_of_rows = hashlib.blake2b(digest_size=16)
    for part in (X.indptr, X.indices, X.data) if is_sparse(X) else (X,):
        step = max(1, (1 << 24) // part[:1].nbytes) if part.size else 1
        for begin in range(0, len(part), step):
            digest_of_rows.update(np.ascontiguousarray(part[begin : begin + step]).data)
    return digest_of_rows.hexdigest()
