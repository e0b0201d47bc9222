"""State of a long run on disk: after an interruption the same call goes on."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_consensus.ensemble.encoding import encode
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.ensemble.storage import write_atomic
from gpu_consensus.loop.exact_step import Refining
from gpu_consensus.loop.rows import Rows
from gpu_consensus.loop.saved_call import hash_ensemble
from gpu_consensus.loop.saved_state import FORMAT, State, digest, read_saved
from gpu_consensus.loop.searching import Searching
from gpu_consensus.loop.starts import Starts
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.checks import FloatArray, seed_sequence
from gpu_consensus.util.seeds import plain_seed

if TYPE_CHECKING:
    from gpu_consensus.loop.fit import LoopOptions

SECONDS_BETWEEN_SAVES = 10.0
VERSION = 4


class Checkpoint:
    """The state of a run; without a path it is kept in memory only.

    Attributes
    ----------
    state : tuple or None
        Assignment, objective, convergence, history and hashes of the saved starts.
    refining : list of Refining or None
        How far refinement has come, once it has begun.
    searching : Searching or None
        How far a search has come, of fits that have one.
    random_state
        What to seed from: the caller's, or the entropy drawn at the first call.
    """

    def __init__(
        self, path: Path | None, key: dict[str, Any], random_state: Any
    ) -> None:
        self.path = path
        self.key = key
        self.random_state = random_state
        self.state: State | None = None
        self.refining: list[Refining] | None = None
        self.searching: Searching | None = None
        self._saved_at = time.monotonic()
        if path is not None and path.is_dir():
            raise ValueError(
                f"checkpoint={str(path)!r} is a folder; give the path of a file in it."
            )
        if path is not None and os.path.lexists(path):
            self._load(path)

    def _load(self, path: Path) -> None:
        saved = read_saved(path)
        differing = [name for name in self.key if saved.key.get(name) != self.key[name]]
        if differing:
            raise ValueError(
                f"checkpoint={str(path)!r} belongs to another call (its "
                f"{differing[0]} differs); use another path, or delete it."
            )
        self.state = saved.state
        self.refining, self.searching = saved.refining, saved.searching
        self.random_state = saved.seed

    def save(self, starts: Starts, rows: Rows, *, force: bool = False) -> None:
        """Write the state, at most every few seconds unless forced."""
        if self.path is None:
            return
        if not force and time.monotonic() - self._saved_at < SECONDS_BETWEEN_SAVES:
            return
        every = [rows.labels(q) for q in range(len(starts.history))]
        refining = None
        if self.refining is not None:
            refining = [part.plain() for part in self.refining]
        meta = json.dumps(
            {
                "format": FORMAT,
                "key": self.key,
                "history": starts.history,
                "seen": [sorted(hashes) for hashes in starts.seen],
                "refining": refining,
                "searching": None if self.searching is None else self.searching.plain(),
                "seed": plain_seed(self.random_state),
            }
        )
        arrays = {
            "assignment": np.stack(every),
            "objective": starts.objective,
            "converged": starts.converged,
        }
        words = {"meta": np.str_(meta), "digest": np.str_(digest(meta, arrays))}
        write_atomic(
            self.path,
            lambda file: np.savez(file, allow_pickle=False, **arrays, **words),
        )
        self._saved_at = time.monotonic()


def open_checkpoint(
    ensemble: Ensemble,
    weights: FloatArray,
    method: str,
    n_clusters: int,
    options: LoopOptions,
    rule: Any,
    random_state: Any,
) -> Checkpoint:
    """Return the checkpoint of a call, with what an earlier run of it has saved."""
    path = options.checkpoint
    if path is None:
        return Checkpoint(None, {}, random_state)
    seeds = seed_sequence(random_state)
    init = options.init
    if not isinstance(init, str):
        first, _ = encode(to_host(init), "init")
        init = hashlib.blake2b(first.tobytes(), digest_size=16).hexdigest()
    key = {
        "version": VERSION,
        "ensemble": hash_ensemble(ensemble),
        "n_labels": ensemble.n_labels.tolist(),
        "weights": weights.tolist(),
        "method": method,
        "n_clusters": int(n_clusters),
        "init": init,
        "utility": rule.fingerprint,
        "n_init": int(options.n_init),
        "max_iter": int(options.max_iter),
        "refine": str(options.refine),
        "search": str(options.search),
        "random_state": None if random_state is None else plain_seed(seeds),
    }
    return Checkpoint(Path(path), key, seeds)
