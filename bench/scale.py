"""The shape of SEC's paper: millions of objects, most of them absent from a partition.

61,212,950 objects, 100 partitions of 100 labels each, in each of which 10,000,000
objects are present: 84% of the labels are missing. The codes are 6.1 GB on disk and are
mapped from there; what the methods keep in memory is measured beside.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import gpu_consensus as gpc
from gpu_consensus.backends.native.backend import NativeBackend
from gpu_consensus.ensemble.growing import grow

from .environment import others_busy, usable_cores
from .measure import measure_in_child
from .suite import Claim, Column, Context, Skipped, Table

NAME = "scale"
OBJECTS, PRESENT = 61_212_950, 10_000_000
PARTITIONS = CLUSTERS = 100
STRAY = 0.3
"""Share of labels that are drawn among all."""
_QUICK = 100  # times smaller
_BLOCK = 1 << 20  # objects whose labels are drawn together
_MOST_MEMORY = 2e9
_MOST_SECONDS = 30.0
_LEAST_RAND = 0.95
_MAX_ITER = 20
_PAUSE = 0.02  # seconds between looks at the memory

_COLUMNS = [
    Column("method", "method"),
    Column("n", "n", ","),
    Column("present", "present in a partition", ","),
    Column("cores", "cores"),
    Column("codes_gb", "codes, GB", ".2f"),
    Column("n_iter", "iterations"),
    Column("before", "before the first, s", ".1f"),
    Column("first", "first iteration, s", ".1f"),
    Column("median", "median iteration, s", ".1f"),
    Column("busy", "CPU of a median iteration, s", ".1f"),
    Column("anonymous_gb", "peak anonymous memory, GB", ".2f"),
    Column("rand", "ARI", ".4f"),
    Column("others", "others busy"),
]


def run(context: Context) -> Iterator[Table]:
    """Make the ensemble, then run SEC and KCC on it, each in a process of its own."""
    smaller = _QUICK if context.quick else 1
    n, present = OBJECTS // smaller, PRESENT // smaller
    yield scale_table(context, n, present)


def scale_table(context: Context, n: int, present: int) -> Table:
    """Measure ``n`` objects, ``present`` of them in each partition."""
    table = Table("scale", "Most labels missing, codes on disk", list(_COLUMNS))
    kept = context.data_dir is not None
    folder = Path(tempfile.mkdtemp(dir=context.data_dir)) if not kept else Path()
    if context.data_dir is not None:
        folder = context.data_dir / f"scale-{n}-{present}"
    try:
        free = shutil.disk_usage(folder.parent).free
        needed = n * PARTITIONS
        if not (folder / "meta.json").exists():
            if free < 1.1 * needed:
                reason = f"{needed / 1e9:.1f} GB of codes do not fit the disk"
                table.skipped = [Skipped("scale", reason)]
                return table
            with context.progress("partitions", PARTITIONS) as advance:
                make(folder, n, present, advance)
        with context.progress("scale", 2) as advance:
            for method in ("sec", "kcc"):
                table.rows.append(measure_in_child("scale", [str(folder), method]))
                advance()
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)
    _judge(table)
    return table


def _judge(table: Table) -> None:
    memory = max(row["anonymous_gb"] for row in table.rows)
    seconds = max(row["median"] for row in table.rows)
    rand = min(row["rand"] for row in table.rows)
    cores = table.rows[0]["cores"]
    table.claims = [
        Claim(
            f"anonymous memory below {_MOST_MEMORY / 1e9:.0f} GB",
            f"{memory:.2f} GB",
            memory * 1e9 < _MOST_MEMORY,
        ),
        Claim(
            f"an iteration below {_MOST_SECONDS:.0f} s on 2 cores",
            f"{seconds:.1f} s on {cores}",
            seconds < _MOST_SECONDS,
        ),
        Claim(f"ARI at least {_LEAST_RAND}", f"{rand:.4f}", rand >= _LEAST_RAND),
    ]
    table.notes = [
        f"{PARTITIONS} partitions of {CLUSTERS} labels; a label is that of the true "
        f"cluster under names of the partition, or one of all ({STRAY:.0%}). n_init=1, "
        f"search=False, refine=False, max_iter={_MAX_ITER}, on_unlabelled='keep'. "
        "Anonymous memory (RssAnon) leaves out pages of the codes' file, which the "
        "system takes back when it needs them."
    ]


def truth(n: int) -> Iterator[tuple[slice, npt.NDArray[np.uint8]]]:
    """Yield the true clusters, a block of objects at a time."""
    for begin in range(0, n, _BLOCK):
        rows = slice(begin, min(begin + _BLOCK, n))
        rng = np.random.default_rng([1, begin])
        yield rows, rng.integers(0, CLUSTERS, rows.stop - begin, dtype=np.uint8)


def make(folder: Path, n: int, present: int, advance: Any) -> None:
    """Write the ensemble: in every partition exactly ``present`` objects, at random."""
    with grow(folder, n) as ensemble:
        for i in range(PARTITIONS):
            rng = np.random.default_rng([2, i])
            names = rng.permutation(CLUSTERS).astype(np.uint8)
            codes = np.full(n, CLUSTERS, dtype=np.uint8)
            left = present
            for rows, clusters in truth(n):
                size = len(clusters)
                here = int(rng.hypergeometric(left, n - rows.start - left, size))
                left -= here
                chosen = rng.choice(size, here, replace=False, shuffle=False)
                stray = rng.random(here) < STRAY
                drawn = rng.integers(0, CLUSTERS, here, dtype=np.uint8)
                codes[rows][chosen] = np.where(stray, drawn, names[clusters[chosen]])
            ensemble.put(i, codes, CLUSTERS)
            advance()


class Watched(NativeBackend):
    """The compiled backend; it notes when a table is made, once in every iteration."""

    def __init__(self) -> None:
        super().__init__()
        self.marks: list[tuple[float, float]] = []

    def table(self, *arguments: Any, **options: Any) -> Any:
        """See the Protocol."""
        self.marks.append((time.perf_counter(), time.process_time()))
        return super().table(*arguments, **options)


def measure(path: str, method: str) -> dict[str, Any]:
    """Cluster the ensemble in this process, and look at its memory meanwhile."""
    highest = [0]
    done = threading.Event()

    def look() -> None:
        while not done.wait(_PAUSE):
            highest[0] = max(highest[0], anonymous_bytes())

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    begin = time.perf_counter()
    ensemble = gpc.Ensemble.load(path, verify=False)
    backend = Watched()
    options: dict[str, Any] = {"refine": False} if method == "kcc" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gpc.ConvergenceWarning)
        result = getattr(gpc, method)(
            ensemble,
            CLUSTERS,
            init="partition",
            n_init=1,
            search=False,
            max_iter=_MAX_ITER,
            on_unlabelled="keep",
            backend=backend,
            random_state=0,
            **options,
        )
    done.set()
    watcher.join()
    n = ensemble.n_samples
    wall, busy = np.diff(np.array(backend.marks), axis=0).T
    return {
        "method": method,
        "n": n,
        "present": int(n - ensemble.n_missing[0]),
        "cores": usable_cores(),
        "codes_gb": ensemble.codes.nbytes / 1e9,
        "n_iter": result.n_iter,
        "before": backend.marks[0][0] - begin,
        "first": float(wall[0]),
        "median": float(np.median(wall)),
        "busy": float(np.median(busy)),
        "anonymous_gb": highest[0] / 1e9,
        "rand": recovered(result.labels),
        "others": others_busy(),
    }


def recovered(labels: npt.NDArray[np.int32]) -> float:
    """Return the adjusted Rand index with the truth, of the objects with a label."""
    joint = np.zeros((CLUSTERS, CLUSTERS + 1), dtype=np.int64)
    for rows, clusters in truth(len(labels)):
        cell = clusters * np.int64(CLUSTERS + 1) + labels[rows] + 1
        joint += np.bincount(cell, minlength=joint.size).reshape(joint.shape)
    table = [[int(count) for count in row] for row in joint[:, 1:]]

    def pairs(counts: list[int]) -> int:
        return sum(count * (count - 1) // 2 for count in counts)

    both = pairs([count for row in table for count in row])
    a = pairs([sum(row) for row in table])
    b = pairs([sum(column) for column in zip(*table, strict=True)])
    expected = a * b / pairs([sum(map(sum, table))])
    return (both - expected) / ((a + b) / 2 - expected)


def anonymous_bytes() -> int:
    """Return the memory of this process that no file stands behind."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise OSError("anonymous memory is read on Linux only; run this suite there.")


if __name__ == "__main__":
    print(json.dumps(measure(*json.loads(sys.argv[1]))))
