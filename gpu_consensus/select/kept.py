"""Finished parts of a selection on disk, so that an interrupted one can go on.

One JSON file: what call it belongs to, its seed, and the numbers of each finished part.
It appears whole or not at all, and a digest tells whether it was changed since.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from pathlib import Path
from typing import Any

from gpu_consensus.ensemble.storage import write_atomic
from gpu_consensus.util.checks import seed_sequence
from gpu_consensus.util.paths import check_path
from gpu_consensus.util.seeds import plain_seed, seed_from_plain

FORMAT = "gpu_consensus.select_n_clusters"
VERSION = 2
"""Of the numbers: raised when the same call gives others, or the file changes."""

SECONDS_BETWEEN_SAVES = 1.0


class Kept:
    """The finished parts of a call; without a path they are kept in memory only.

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
    seed : numpy.random.SeedSequence
    """

    def __init__(self, path: Any, call: dict[str, Any], random_state: Any) -> None:
        self.path = None if path is None else check_path("checkpoint", path)
        self.call = json.loads(json.dumps(call))
        self._lock = threading.Lock()
        self._parts: dict[str, list[float]] = {}
        self._is_saved = True
        self._saved_at = time.monotonic()
        stored = None if self.path is None else self._load(self.path)
        if stored is None:
            self.seed = seed_sequence(random_state)
            return
        for name, value in self.call.items():
            if stored["call"].get(name) != value:
                raise self._foreign(f"its {name} differs")
        self.seed = seed_from_plain(stored["seed"])
        if random_state is not None:
            given = plain_seed(seed_sequence(random_state))
            if given != plain_seed(self.seed):
                raise self._foreign("its random_state differs")
        self._parts = stored["parts"]

    def get(self, key: str) -> list[float] | None:
        """Return the numbers of a finished part, None if it is not finished."""
        return self._parts.get(key)

    def put(self, key: str, numbers: list[float]) -> None:
        """Keep the numbers of a part; from any thread."""
        with self._lock:
            self._parts[key] = numbers
            self._is_saved = False
            if time.monotonic() - self._saved_at >= SECONDS_BETWEEN_SAVES:
                self._write()

    def save(self) -> None:
        """Write what is not on disk yet."""
        with self._lock:
            if not self._is_saved:
                self._write()

    def _write(self) -> None:
        self._is_saved = True
        self._saved_at = time.monotonic()
        if self.path is None:
            return
        body = {
            "call": self.call,
            "seed": plain_seed(self.seed),
            "parts": self._parts,
        }
        head = {"format": FORMAT, "version": VERSION, "digest": _digest(body)}
        text = json.dumps(head | body).encode()
        write_atomic(self.path, lambda file: file.write(text))

    def _load(self, path: Path) -> dict[str, Any] | None:
        if path.is_dir():
            raise ValueError(
                f"checkpoint={str(path)!r} is a folder; give the path of a file in it."
            )
        if not path.exists():
            return None
        try:
            stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if stored["format"] != FORMAT:
                raise ValueError(f"its format is {stored['format']!r}")
            version = int(stored["version"])
            body = {name: stored[name] for name in ("call", "seed", "parts")}
            if version == VERSION and _digest(body) != stored["digest"]:
                raise ValueError("it was changed")
            seed_from_plain(stored["seed"])
        except (ValueError, KeyError, TypeError, OSError, RecursionError) as error:
            raise ValueError(
                f"checkpoint={str(path)!r} is not a readable checkpoint ({error}); "
                "delete it to start anew."
            ) from error
        if version != VERSION:
            raise ValueError(
                f"checkpoint={str(path)!r} is of version {version} and this release "
                f"makes version {VERSION}, which do not mix; delete it to start anew."
            )
        return body

    def _foreign(self, why: str) -> ValueError:
        return ValueError(
            f"checkpoint={str(self.path)!r} belongs to another call ({why}); use "
            "another path, or delete it."
        )


def _digest(body: dict[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True).encode()
    return hashlib.blake2b(text, digest_size=16).hexdigest()
