"""State of a call outside the loop on disk, so that the same call can go on.

One .npz file: a description in JSON, arrays, and a digest of both. It appears whole or
not at all, and is refused where it is of another call, of another version, or changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.data_files.write import check_writable
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.ensemble.storage import write_atomic
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.checks import seed_sequence
from gpu_consensus.util.files import open_archive, open_regular, read_member
from gpu_consensus.util.paths import check_path
from gpu_consensus.util.seeds import plain_seed, seed_from_plain

FORMAT = "gpu_consensus.SavedCall"
VERSION = 1
"""Of what is kept: raised when the same call keeps something else."""
SECONDS_BETWEEN_SAVES = 10.0

Arrays = Mapping[str, npt.NDArray[Any]]


class SavedCall:
    """How far a call has come; without a path it is not kept.

    Parameters
    ----------
    path : path or None
        A file, the ``checkpoint`` of the call.
    call : dict
        What the call is, in JSON's types; compared with what is stored.
    random_state
        None takes the stored seed, or fresh entropy for a new file.

    Attributes
    ----------
    seed : SeedSequence
    state : dict or None
        The description that was saved last.
    arrays : dict
        The arrays beside it.
    """

    def __init__(self, path: Any, call: dict[str, Any], random_state: Any) -> None:
        self.path = None if path is None else check_path("checkpoint", path)
        self.seed = seed_sequence(random_state)
        self.state: dict[str, Any] | None = None
        self.arrays: dict[str, npt.NDArray[Any]] = {}
        given = None if random_state is None else plain_seed(self.seed)
        whole = {"version": VERSION, **call, "random_state": given}
        self._call = json.loads(json.dumps(whole))
        self._saved_at = time.monotonic()
        if self.path is None:
            return
        if self.path.is_dir():
            raise ValueError(
                f"checkpoint={str(path)!r} is a folder; give the path of a file in it."
            )
        check_writable("checkpoint", self.path)
        if os.path.lexists(self.path):
            self._load(self.path)

    def save(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Write the state; see :meth:`is_due`."""
        if self.path is None:
            return
        text = json.dumps(
            {
                "format": FORMAT,
                "call": self._call,
                "seed": plain_seed(self.seed),
                "state": state,
                "arrays": sorted(arrays),
            }
        )
        words = {"meta": np.str_(text), "digest": np.str_(_digest(text, arrays))}
        write_atomic(
            self.path,
            lambda file: np.savez(file, allow_pickle=False, **arrays, **words),
        )
        self._saved_at = time.monotonic()

    def is_due(self) -> bool:
        """Whether the last save is so long ago that another one pays."""
        late = time.monotonic() - self._saved_at >= SECONDS_BETWEEN_SAVES
        return self.path is not None and late

    def damaged(self, why: str) -> ValueError:
        """Return the error for a state that cannot be that of this call."""
        return ValueError(
            f"checkpoint={str(self.path)!r} is damaged ({why}); delete it to start "
            "anew."
        )

    def _load(self, path: Path) -> None:
        try:
            meta, self.arrays = _read(path)
            call, self.state = dict(meta["call"]), dict(meta["state"])
            seed = seed_from_plain(meta["seed"])
        except (MemoryError, PermissionError):
            raise
        except Exception as error:  # what a foreign file holds is of any kind
            reason = " ".join(str(error).split()).rstrip(".")[:160]
            raise ValueError(
                f"checkpoint={str(path)!r} is not a readable checkpoint "
                f"({reason or type(error).__name__}); delete it to start anew."
            ) from error
        for name in self._call:
            if call.get(name) != self._call[name]:
                raise ValueError(
                    f"checkpoint={str(path)!r} belongs to another call (its {name} "
                    "differs); use another path, or delete it."
                )
        self.seed = seed


def _read(path: Path) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    with open_regular(path) as file, open_archive(file) as archive:
        if not {"meta", "digest"} <= archive.names:
            raise ValueError("it is an archive of another kind")
        text = str(read_member(archive, "meta")[()])
        meta = json.loads(text)
        if not isinstance(meta, dict) or meta.get("format") != FORMAT:
            raise ValueError("it was written by another program, or by another method")
        arrays = {name: read_member(archive, name) for name in meta["arrays"]}
        if str(read_member(archive, "digest")[()]) != _digest(text, arrays):
            raise ValueError("its content is not what was saved")
    return meta, arrays


def _digest(text: str, arrays: Arrays) -> str:
    whole = hashlib.blake2b(text.encode(), digest_size=16)
    for name in sorted(arrays):
        array = arrays[name]
        whole.update(f"{name} {array.dtype} {array.shape}".encode())
        whole.update(np.ascontiguousarray(array).data)
    return whole.hexdigest()


def hash_ensemble(ensemble: Ensemble) -> str:
    """Hash the codes of an ensemble, partition by partition."""
    if ensemble.elsewhere is not None:
        found: str = ensemble.elsewhere.digest()
        return found
    labels = hashlib.blake2b(digest_size=16)
    for codes in ensemble.codes:
        labels.update(np.ascontiguousarray(to_host(codes)).data)
    return labels.hexdigest()
