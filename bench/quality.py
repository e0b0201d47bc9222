"""How good the clusters are: every method and those of scikit-learn on many sets.

The command ``python -m bench quality``. Every measurement is a line of JSON in the file
of ``--output`` as soon as it is there; the same command goes on where it was stopped.
Tables, page and picture are made from these lines.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import gpu_consensus as gpc
from gpu_consensus.util.checks import check_choice

from . import environment
from .quality_best import read_best, search_best
from .quality_blobs import BLOBS, blob_tables
from .quality_blobs import METHODS as BLOB_METHODS
from .quality_ensembles import ENSEMBLES, FIRST, PROBLEMS, digest, load_ensemble
from .quality_label_tables import DRAWN, label_tables, regret_tables
from .quality_methods import OUTSIDE, Worker, method_names, too_large
from .quality_records import Key, Record, Records, key_of
from .quality_sets import SETS, USES
from .quality_summary import feature_tables
from .render import FORMAT, VERSION
from .suite import Context, Skipped, Table

NAME = "quality"
PARTS = ("features", "labels", "regret", "blobs")
QUICK_METHODS = ("default", "kcc", "KMeans")
QUICK_SETS = ("iris", "n150-k3-d4-sep2.0", "moons-150-0.06")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what this suite takes beside what all take."""
    parser.add_argument("--picture", type=Path, help="picture of the ranks to write")
    parser.add_argument("--parts", help=f"of {', '.join(PARTS)}; default all")
    parser.add_argument("--use", help="only sets to decide on, or held back: hold")
    parser.add_argument("--sets", help="only these sets or ensembles, with commas")
    parser.add_argument(
        "--methods",
        help="only these methods, with commas; outside: those of scikit-learn",
    )
    parser.add_argument(
        "--limit", type=float, default=60.0, help="seconds of a call, default 60"
    )
    parser.add_argument(
        "--gather",
        metavar="FILES",
        help="measure nothing: make the page of these files of JSON lines, with "
        "commas; of two values of one thing the last counts",
    )
    parser.add_argument(
        "--search-best",
        type=float,
        metavar="MINUTES",
        help="only search for lower F than the kept list has, and keep them",
    )


class Plan:
    """What is to be measured.

    Parameters
    ----------
    arguments : Namespace
        Of the command line.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        quick = arguments.quick
        self.context = Context(quick, arguments.data_dir)
        self.parts = _words("--parts", arguments.parts, PARTS)
        known = [item.name for item in SETS] + [item.name for item in ENSEMBLES]
        known += [item.name for item in BLOBS]
        self.sets = _words("--sets", arguments.sets, known)
        if quick and arguments.sets is None:
            self.sets = list(QUICK_SETS)
        self.methods = _methods(arguments.methods, quick)
        self.uses = _words("--use", arguments.use, USES)
        self.n_seeds: int | None = 1 if quick else None
        if arguments.seeds is not None:
            self.n_seeds = arguments.seeds
        if self.n_seeds is not None and self.n_seeds < 1:
            raise ValueError(f"--seeds {self.n_seeds} should be >= 1.")
        if not arguments.limit > 0:
            raise ValueError(f"--limit {arguments.limit:g} should be > 0.")
        self.limit: float = arguments.limit
        self.gathered: list[Path] = []
        if arguments.gather is not None:
            self.gathered = [Path(name) for name in arguments.gather.split(",")]
            if arguments.output is not None:
                raise ValueError("--gather measures nothing; leave out --output.")
            for path in self.gathered:
                if not path.is_file():
                    raise ValueError(f"--gather {str(path)!r} is no file.")
        self.skipped: list[Skipped] = []

    def seeds(self, default: int) -> range:
        """Return the seeds: as many as asked for, else as the part needs."""
        return range(default if self.n_seeds is None else self.n_seeds)

    def tasks(self) -> list[Record]:
        """Return all measurements, those of one set and seed together."""
        self.skipped = []
        tasks: list[Record] = []
        if self.gathered:
            return tasks
        if "features" in self.parts:
            tasks += self._features()
        if "labels" in self.parts or "regret" in self.parts:
            tasks += self._ensembles()
        if "blobs" in self.parts:
            tasks += self._blobs()
        return tasks

    def _features(self) -> Iterator[Record]:
        for item in SETS:
            if item.name not in self.sets or item.use not in self.uses:
                continue
            if item.needs_folder:
                name = f"{item.options.get('of', item.name)}.npz"
                folder = self.context.data_dir
                if folder is None or not (folder / name).is_file():
                    reason = f"needs --data-dir with {name}"
                    self.skipped.append(Skipped(item.name, reason))
                    continue
            for seed in self.seeds(1):
                for method in self.methods:
                    yield _task("features", item.name, 0, method, seed, item.n)

    def _blobs(self) -> Iterator[Record]:
        for item in BLOBS:
            if item.name in self.sets:
                for seed in self.seeds(10):
                    for method in BLOB_METHODS:
                        if method in self.methods:
                            yield _task("blobs", item.name, 0, method, seed, item.n)

    def _ensembles(self) -> Iterator[Record]:
        for item in ENSEMBLES:
            if item.name not in self.sets or item.use not in self.uses:
                continue
            try:
                labels, y = load_ensemble(item, self.context)
            except ValueError as error:
                self.skipped.append(Skipped(item.name, str(error)))
                continue
            k, n = len(np.unique(y)), len(y)
            ours = [method for method in self.methods if method not in OUTSIDE]
            if "labels" in self.parts:
                for partitions in (DRAWN, 0):
                    for seed in self.seeds(10):
                        for method in ours:
                            yield _task(
                                "labels", item.name, partitions, method, seed, n
                            )
            if "regret" in self.parts and item.in_regret:
                for first in FIRST:
                    word = digest(labels[:, :first], k)
                    for seed in self.seeds(10):
                        for problem in PROBLEMS:
                            task = _task("regret", item.name, first, problem, seed, n)
                            yield task | {"digest": word}


def _task(
    part: str, name: str, partitions: int, method: str, seed: int, n: int
) -> Record:
    return {
        "part": part,
        "set": name,
        "partitions": partitions,
        "method": method,
        "seed": seed,
        "n": n,
    }


def _words(option: str, given: str | None, known: Sequence[str]) -> list[str]:
    if given is None:
        return list(known)
    words = given.split(",")
    for word in words:
        check_choice(option, word, known)
    return words


def _methods(given: str | None, quick: bool) -> list[str]:
    if given is None:
        return list(QUICK_METHODS if quick else method_names())
    words = _words("--methods", given, [*method_names(), "outside"])
    names = [name for w in words for name in (OUTSIDE if w == "outside" else (w,))]
    return list(dict.fromkeys(names))


def measure(plan: Plan, records: Records) -> None:
    """Measure what the records lack."""
    tasks = [task for task in plan.tasks() if key_of(task) not in records.found]
    if not tasks:
        return
    folder = plan.context.data_dir
    with (
        plan.context.progress("quality", len(tasks)) as advance,
        Worker(folder, plan.limit) as worker,
    ):
        for task in tasks:
            records.add(task | _measured(worker, task))
            advance(1, f"{task['set']} {task['method']}")


def _measured(worker: Worker, task: Record) -> Record:
    part, name, partitions, method, seed = key_of(task)
    reason = too_large(method, task["n"]) if part in ("features", "labels") else None
    if reason is None and part == "features" and method in gpc.METHODS:
        reason = worker.prepare(name, seed)
    if reason is not None:
        return {"reason": reason}
    begin = time.perf_counter()
    more = [partitions] if part in ("labels", "regret") else []
    found = worker.call(part, name, method, seed, *more)
    return found | {"wall": round(time.perf_counter() - begin, 3)}


def tables_of(plan: Plan, records: Records) -> list[Table]:
    """Return all tables that can be made of the records."""
    tables: list[Table] = []
    features = list(records.of("features"))
    for use in ("fresh", "hold", "decide"):
        tables += feature_tables(features, use)
    tables += label_tables(list(records.of("labels")))
    tables += regret_tables(list(records.of("regret")), read_best())
    tables += blob_tables(list(records.of("blobs")))
    if not tables:
        tables = [Table("none", "Nothing was measured", [])]
    tables[0].skipped[:0] = plan.skipped
    tables[0].notes.append(
        "Every set is marked in `bench/quality_sets.py`, written before measuring: "
        "decisions on the library were made on the sets to decide on only, and the "
        "claims are of the others. Those held back were looked at once before the last "
        "rules of `auto` were chosen; those held back anew were listed before these "
        "and measured after; one number of the rules, for labels without coarse "
        "partitions such as those of text, was changed after that, by a set to decide "
        "on."
    )
    return tables


def result_of(plan: Plan, records: Records) -> dict[str, Any]:
    """Return the result in the form from which pages are made."""
    wanted: list[Key] = [key_of(task) for task in plan.tasks()]
    tables = tables_of(plan, records)
    last = records.sessions[-1]
    commits = {
        str((session["commit"] or {}).get("sha")) for session in records.sessions
    }
    if len(commits) > 1:
        tables[0].notes.append(
            f"Measured in {len(records.sessions)} sessions at {len(commits)} commits."
        )
    seeds = sorted({record["seed"] for record in records.found.values()})
    wall = sum(record.get("wall", 0.0) for record in records.found.values())
    own = {key: value for key, value in last.items() if key != "part"}
    return {
        "format": FORMAT,
        "version": VERSION,
        "suite": NAME,
        "quick": plan.context.quick,
        "complete": all(key in records.found for key in wanted),
        "seconds": round(wall, 3),
        "seeds": seeds,
        **own,
        "tables": [asdict(table) for table in tables],
    }


def run(plan: Plan, output: Path | None, command: str) -> dict[str, Any]:
    """Measure what is missing and return the result; Ctrl-C leaves what there is."""
    records = Records(output)
    for path in plan.gathered:
        records.take_all(path)
    if not records.sessions or any(
        key_of(task) not in records.found for task in plan.tasks()
    ):
        records.add(
            {
                "part": "session",
                "command": command,
                "date": datetime.now(UTC).isoformat(timespec="seconds"),
                **environment.describe(),
            }
        )
    try:
        measure(plan, records)
    except KeyboardInterrupt:
        print("bench: interrupted; the same command goes on.", file=sys.stderr)
    return result_of(plan, records)


def search(context: Context, minutes: float) -> None:
    """Search for lower F and say what fell."""
    if context.data_dir is None:
        raise ValueError("--search-best needs --data-dir with the ensembles and pools.")
    if not minutes > 0:
        raise ValueError(f"--search-best {minutes:g} should be > 0 minutes.")
    version = gpc.__version__
    print(
        f"gpu_consensus {version}, searching for {minutes:g} minutes", file=sys.stderr
    )
    for name, value, before in search_best(context, minutes):
        was = "" if before is None else f", was {before:.9g}"
        print(f"{name}: {value:.9g}{was}", file=sys.stderr)
