"""The best F that is known for each problem of the part "regret", and its search.

``quality_best.json`` keeps them, with the seconds that were spent on each. A value only
ever falls: ``python -m bench quality --data-dir D --search-best 60`` searches on.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import gpu_consensus as gpc
from gpu_consensus.ensemble.storage import write_atomic

from .quality_ensembles import (
    ENSEMBLES,
    FIRST,
    PROBLEMS,
    QualityEnsemble,
    digest,
    load_ensemble,
)
from .quality_methods import run_problem
from .suite import Context

PATH = Path(__file__).with_name("quality_best.json")
_LONG: list[dict[str, Any]] = [
    {"search": 60, "n_init": 50},
    {"search": 60, "init": "last"},
    {"search": 60, "init": "best"},
]
LONG: dict[str, list[dict[str, Any]]] = {
    "kcc:h": _LONG,
    "kcc:c": _LONG,
    "sec": [*_LONG, {"search": 60, "init": "spectral"}],
}
"""Options of the long runs that look for a lower F, in turn. "last" and "best" stand
for the labels of the run before and of the best one; the first run begins anew."""

_HOW = (
    "lowest F of long runs, one after another with seeds 0, 1, 2, ..., the problem "
    "with the fewest seconds first, with search=60: from 50 starts, from the labels of "
    "the run before, from the best labels so far and, for sec, from its spectral start "
    "in turn. seconds: spent on that problem by all searches so far; seed and options: "
    "of the run that found the value."
)


def case_name(ensemble: str, first: int, problem: str) -> str:
    """Return the name of a problem in the list."""
    return f"{ensemble}/{first}/{problem}"


def read_best(path: Path = PATH) -> dict[str, dict[str, Any]]:
    """Return the list, by name: ``objective``, ``digest``, ``seconds`` and so on."""
    if not path.is_file():
        return {}
    cases: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))[
        "cases"
    ]
    return cases


def search_best(
    context: Context, minutes: float, path: Path = PATH
) -> Iterator[tuple[str, float, float | None]]:
    """Search for lower values, and keep them.

    Yields
    ------
    name, objective, before
        Of every value that fell; before is None where there was none.
    """
    found = read_best(path)
    cases = list(_cases(context))
    for name, _, labels, k, _ in cases:
        word = digest(labels, k)
        if found.get(name, {}).get("digest", word) != word:
            raise ValueError(
                f"{name} in the data folder is not the ensemble that {path.name} has; "
                "use that one, or remove its line from the file."
            )
        fresh = {"objective": None, "digest": word, "seed": 0, "runs": 0, "seconds": 0}
        found.setdefault(name, fresh)
    labels_of: dict[str, dict[str, Any]] = {name: {} for name, *_ in cases}
    end = time.monotonic() + 60 * minutes
    while cases and time.monotonic() < end:
        name, problem, _, k, ensemble = min(cases, key=lambda c: found[c[0]]["seconds"])
        entry, known = found[name], labels_of[name]
        options = LONG[problem][entry["runs"] % len(LONG[problem])]
        word = options.get("init")
        if word in ("last", "best") and word not in known:
            options = LONG[problem][0]
        begin = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = options | {"init": known[word]} if word in known else options
            result = run_problem(problem, ensemble, k, entry["runs"], **given)
        before, value = entry["objective"], float(result.objective)
        known["last"] = result.labels
        if value <= known.get("value", np.inf):
            known |= {"value": value, "best": result.labels}
        if before is None or value < before:
            entry |= {"objective": value, "seed": entry["runs"], "options": options}
            yield name, value, before
        entry["runs"] += 1
        spent = entry["seconds"] + time.perf_counter() - begin
        entry["seconds"] = round(spent, 2)
        _write(found, path)


def _cases(
    context: Context,
) -> Iterator[tuple[str, str, Any, int, gpc.Ensemble]]:
    for item in ENSEMBLES:
        if item.in_regret:
            yield from _cases_of(item, context)


def _cases_of(
    item: QualityEnsemble, context: Context
) -> Iterator[tuple[str, str, Any, int, gpc.Ensemble]]:
    labels, y = load_ensemble(item, context)
    k = len(np.unique(y))
    for first in FIRST:
        part = labels[:, :first]
        ensemble = gpc.Ensemble(part)
        for problem in PROBLEMS:
            yield case_name(item.name, first, problem), problem, part, k, ensemble


def _write(found: dict[str, dict[str, Any]], path: Path) -> None:
    known = {name: entry for name, entry in found.items() if entry["runs"]}
    spent = round(sum(entry["seconds"] for entry in known.values()))
    lines = [f"  {json.dumps(name)}: {json.dumps(known[name])}" for name in known]
    text = "{\n" + f' "how": {json.dumps(_HOW)},\n "seconds": {spent},\n "cases": {{\n'
    text += ",\n".join(lines) + "\n }\n}\n"
    write_atomic(path, lambda file: file.write(text.encode()))
