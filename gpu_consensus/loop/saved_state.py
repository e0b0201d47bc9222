"""What a checkpoint of the loop holds: read, and believed only where it is proved.

A file is taken for what it claims to be only if its hash fits, every part has the type
and shape of this call, and the objectives are those of the labels in it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.loop.exact_step import Refining
from gpu_consensus.loop.rows import Rows
from gpu_consensus.loop.rule import Rule
from gpu_consensus.loop.searching import Searching
from gpu_consensus.util.checks import FloatArray
from gpu_consensus.util.files import open_archive, open_regular, read_member
from gpu_consensus.util.seeds import seed_from_plain

FORMAT = "gpu_consensus.Checkpoint"
_PARTS = ("assignment", "objective", "converged")
_ROUNDING = 1e-9  # by which an objective of the same labels may differ


class State(NamedTuple):
    """Restarts as they were saved; see :class:`gpu_consensus.loop.starts.Starts`."""

    assignment: npt.NDArray[Any]
    objective: FloatArray
    converged: npt.NDArray[np.bool_]
    history: list[list[float]]
    seen: list[set[int]]


class Saved(NamedTuple):
    """All that a checkpoint holds."""

    key: Mapping[str, Any]
    state: State
    refining: list[Refining] | None
    searching: Searching | None
    seed: np.random.SeedSequence


def digest(meta: str, arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    """Hash the description and the arrays of a checkpoint."""
    whole = hashlib.blake2b(meta.encode(), digest_size=16)
    for name in _PARTS:
        array = arrays[name]
        whole.update(f"{name} {array.dtype} {array.shape}".encode())
        whole.update(np.ascontiguousarray(array).data)
    return whole.hexdigest()


def read_saved(path: Path) -> Saved:
    """Read a checkpoint, or raise an error that says what is wrong with it."""
    try:
        return _read(path)
    except (MemoryError, PermissionError):
        raise
    except Exception as error:  # what a foreign file holds is of any kind
        reason = " ".join(str(error).split()).rstrip(".")[:160]
        raise ValueError(
            f"checkpoint={str(path)!r} is not a readable checkpoint "
            f"({reason or type(error).__name__}); delete it to start anew."
        ) from error


def _read(path: Path) -> Saved:
    with open_regular(path) as file, open_archive(file) as archive:
        lacking = {*_PARTS, "meta", "digest"} - archive.names
        if "meta" in lacking:
            raise ValueError("it is an archive of another kind")
        text = str(read_member(archive, "meta")[()])
        meta = json.loads(text)
        if not isinstance(meta, dict) or meta.get("format") != FORMAT:
            raise ValueError("it was written by another program")
        key = _mapping(meta, "key")
        if lacking:  # of another release: its key says so
            return Saved(key, _no_state(), None, None, np.random.SeedSequence(0))
        arrays = {name: read_member(archive, name) for name in _PARTS}
        if str(read_member(archive, "digest")[()]) != digest(text, arrays):
            raise ValueError("its content is not what was saved")
    n_starts = len(arrays["objective"])
    history = [[float(value) for value in one] for one in _list(meta, "history")]
    seen = [{int(word) for word in one} for one in _list(meta, "seen")]
    if len(history) != n_starts or len(seen) != n_starts:
        raise ValueError("its starts differ in number")
    refining = meta["refining"]
    if refining is not None:
        refining = [_refining(part, n_starts) for part in refining]
        if len(refining) != 2:
            raise ValueError("its refinement has not two parts")
    searching = meta["searching"]
    if searching is not None:
        searching = _searching(searching)
    assignment, objective, converged = (arrays[name] for name in _PARTS)
    state = State(assignment, objective, converged, history, seen)
    return Saved(
        key, state, refining, searching, seed_from_plain(_mapping(meta, "seed"))
    )


def check_state(
    path: Path | None, state: State, rows: Rows, rule: Rule, together: int
) -> None:
    """Begin ``rows`` with saved assignments; their objectives must be those saved.

    Parameters
    ----------
    path : Path or None
        Of the checkpoint, for messages.
    state : State
    rows : Rows
        Left with the saved restarts.
    rule : Rule
    together : int
        Restarts that may share a table.
    """
    assignment, objective, n = state.assignment, state.objective, rows.n_samples
    n_starts = len(objective)
    kinds = (assignment.dtype.kind, objective.dtype.kind, state.converged.dtype.kind)
    fits = (
        kinds == ("u", "f", "b")
        and assignment.shape == (n_starts, n)
        and objective.shape == state.converged.shape == (n_starts,)
        and n_starts > 0
        and int(assignment.max()) <= rows.n_clusters
        and not np.isnan(objective).any()
        and not (np.isinf(objective) & state.converged).any()
    )
    if not fits:
        raise _not_this(path, "its arrays are not those of this call")
    rows.start(assignment)
    for begin in range(0, n_starts, together):
        some = list(range(begin, min(begin + together, n_starts)))
        scored = np.isfinite(objective[some])
        if not scored.any():
            continue
        tally = rows.take(some)
        true = rule.objective(tally.counts, tally.absent)[scored]
        kept = objective[some][scored]
        if not np.allclose(true, kept, rtol=_ROUNDING, atol=_ROUNDING):
            worst = int(np.argmax(np.abs(true - kept)))
            raise _not_this(
                path,
                f"the objective of its labels is {true[worst]:.6g}, not "
                f"{kept[worst]:.6g} as it says",
            )


def _not_this(path: Path | None, why: str) -> ValueError:
    return ValueError(
        f"checkpoint={str(path)!r} is damaged ({why}); delete it to start anew."
    )


def _no_state() -> State:
    return State(np.empty((0, 0)), np.empty(0), np.empty(0, dtype=bool), [], [])


def _mapping(meta: dict[str, Any], name: str) -> dict[str, Any]:
    found = meta.get(name)
    if not isinstance(found, dict):
        raise ValueError(f"its {name} is damaged")
    return found


def _list(meta: Mapping[str, Any], name: str) -> list[Any]:
    found = meta.get(name)
    if not isinstance(found, list) or not all(isinstance(one, list) for one in found):
        raise ValueError(f"its {name} is damaged")
    return found


def _refining(part: Any, n_starts: int) -> Refining:
    state = Refining(**part)
    right = (
        _is_count(state.most_steps)
        and _is_count(state.n_steps)
        and isinstance(state.active, list)
        and all(_is_count(q) and q < n_starts for q in state.active)
        and isinstance(state.least_gain, list)
        and len(state.least_gain) > max(state.active, default=-1)
        and all(math.isfinite(gain) for gain in state.least_gain)
    )
    if not right:
        raise ValueError("its refinement is damaged")
    return state


def _searching(part: Any) -> Searching:
    state = Searching(**part)
    counts = (state.most, state.patience, state.generation, state.waited)
    flags = (state.with_partitions, state.useful, state.is_done)
    right = (
        all(map(_is_count, (*counts, state.n_children, state.n_evolving)))
        and state.n_evolving > 0
        and all(isinstance(flag, bool) for flag in flags)
        and isinstance(state.best, list)
        and all(math.isfinite(value) for value in state.best)
    )
    if not right:
        raise ValueError("its search is damaged")
    return state


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
