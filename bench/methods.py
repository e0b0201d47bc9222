"""What every method costs as n grows: time and peak memory, each in a process."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import gpu_consensus as gpc

from .measure import measure_in_child
from .memory import peak_bytes
from .suite import Column, Context, Skipped, Table

NAME = "methods"

_N_PARTITIONS, _N_CLUSTERS = 20, 10
_SECONDS = 60.0  # a size is not tried if those before say it would take longer
_OVERHEAD = 0.05
_TIMEOUT = 300.0

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "kcc": [{"utility": "h"}],
    "correspondence": [
        {"variant": "constrained"},
        {"variant": "unconstrained"},
        {"variant": "svd"},
    ],
}
"""Variants worth a row of their own; other methods run with their defaults."""


def run(context: Context) -> Iterator[Table]:
    """Yield time and memory of all methods."""
    sizes = [300, 1000] if context.quick else [1000, 3000, 10_000, 30_000, 100_000]
    cases = [
        (method, options)
        for method in gpc.METHODS
        for options in OPTIONS.get(method, [{}])
    ]
    rows, skipped = [], []
    with context.progress("methods", len(cases) * len(sizes)) as advance:
        for method, options in cases:
            row, reasons = _grow(method, options, sizes, advance)
            rows.append(row)
            skipped += reasons
    yield _time_table(rows, sizes, skipped)
    yield _table(
        "processor",
        "Processor seconds, all threads together",
        "cpu",
        ".2f",
        rows,
        sizes,
        "They depend little on what else the machine does.",
    )
    yield _table(
        "memory",
        "Peak memory above the ensemble, MB",
        "mb",
        ".0f",
        rows,
        sizes,
        "Highest resident memory of the process during the call, minus that before it.",
    )


def _grow(
    method: str, options: dict[str, Any], sizes: list[int], advance: Any
) -> tuple[dict[str, Any], list[Skipped]]:
    """Measure one method at growing n, until it is refused or takes too long."""
    name = ":".join([method, *map(str, options.values())])
    row: dict[str, Any] = {"method": name}
    skipped: list[Skipped] = []
    for n in sizes:
        expected = _expected(row, sizes, n)
        if not skipped and expected > _SECONDS:
            reason = f"would take about {expected:.0f} s"
            skipped.append(Skipped(f"{name}, n={n:,} and more", reason))
        if skipped:
            advance()
            continue
        found = _measure_in_child(method, options, n)
        if "error" in found:
            skipped.append(Skipped(f"{name}, n={n:,} and more", found["error"]))
        else:
            row |= {f"{key}_{n}": value for key, value in found.items()}
        advance(1, f"{name} n={n:,}")
    row["exponent"] = _exponent(row, sizes)
    return row, skipped


def _timed(row: dict[str, Any], sizes: list[int]) -> list[tuple[int, float]]:
    """Return sizes and processor time, which other processes hardly change."""
    return [(n, row[f"cpu_{n}"]) for n in sizes if f"cpu_{n}" in row]


def _exponent(row: dict[str, Any], sizes: list[int]) -> float | None:
    """Return a of processor time ~ n^a between the last two sizes."""
    timed = _timed(row, sizes)
    if len(timed) < 2 or timed[-1][1] < _OVERHEAD:
        return None
    (n, s), (n_last, s_last) = timed[-2:]
    return float(np.log(s_last / max(s, 1e-4)) / np.log(n_last / n))


def _expected(row: dict[str, Any], sizes: list[int], n: int) -> float:
    """Return what the next size should take, going by the sizes before."""
    timed = _timed(row, sizes)
    if not timed:
        return 0.0
    exponent = _exponent(row, sizes) or 1.5
    last, seconds = timed[-1]
    return float(seconds * (n / last) ** min(max(exponent, 1.0), 3.0))


def _time_table(
    rows: list[dict[str, Any]], sizes: list[int], skipped: list[Skipped]
) -> Table:
    largest = {
        row["method"]: row[f"r_n_{n}"]
        for row in rows
        for n in sizes
        if f"r_n_{n}" in row
    }
    waited = _waited(rows, sizes)
    table = Table(
        "time",
        "Seconds",
        [
            Column("method", "method"),
            *(Column(f"s_{n}", f"n = {n:,}", ".2f") for n in sizes),
            Column("exponent", "processor time grows as n to the", ".1f"),
            Column("agreement", "R_n at the last n", ".3f"),
        ],
        rows=[{**row, "agreement": largest.get(row["method"])} for row in rows],
        skipped=skipped,
        notes=[
            f"r = {_N_PARTITIONS} partitions of {_N_CLUSTERS} to {2 * _N_CLUSTERS} "
            f"labels, K = {_N_CLUSTERS} planted clusters of unequal size, 4 of 10 "
            "labels at random; default options, one run in a process of its own "
            "after a small one. R_n: adjusted Rand index with the planted clusters. "
            f"A size is left out if it might take more than {_SECONDS:.0f} s or if "
            "the method refuses it for want of memory.",
            "Drawn: `python -m bench.methods_plot methods.json methods.svg`.",
        ],
    )
    if waited:
        named = ", ".join(waited) if len(waited) <= 5 else f"{len(waited)} times"
        table.notes.append(
            f"**Not reliable**: {named}, other processes held the cores. Go by the "
            "processor seconds, or repeat on a quiet machine."
        )
    return table


def _table(
    name: str,
    title: str,
    key: str,
    form: str,
    rows: list[dict[str, Any]],
    sizes: list[int],
    note: str,
) -> Table:
    """Return one measured quantity by method and n."""
    columns = [Column(f"{key}_{n}", f"n = {n:,}", form) for n in sizes]
    return Table(
        name, title, [Column("method", "method"), *columns], rows=rows, notes=[note]
    )


def _waited(rows: list[dict[str, Any]], sizes: list[int]) -> list[str]:
    """Return where a method waited for a core longer than it worked."""
    return [
        f"{row['method']} at n={n:,}"
        for row in rows
        for n in sizes
        if row.get(f"s_{n}", 0.0) > max(_OVERHEAD, 1.5 * row.get(f"cpu_{n}", 0.0))
    ]


def _measure_in_child(method: str, options: dict[str, Any], n: int) -> dict[str, Any]:
    try:
        return measure_in_child("methods", [method, options, n], _TIMEOUT)
    except subprocess.TimeoutExpired:
        return {"error": f"took more than {_TIMEOUT:.0f} s"}


def make_ensemble(n: int, seed: int) -> tuple[gpc.Ensemble, Any]:
    """Return an ensemble of n objects and its planted clusters, in random order."""
    rng = np.random.default_rng(seed)
    size = np.arange(2, _N_CLUSTERS + 2, dtype=np.float64)
    planted = rng.choice(_N_CLUSTERS, n, p=size / size.sum())
    codes = np.empty((_N_PARTITIONS, n), dtype=np.uint8)
    n_labels = []
    for i in range(_N_PARTITIONS):
        k_i = int(rng.integers(_N_CLUSTERS, 2 * _N_CLUSTERS + 1))
        half = rng.random(n) < 0.5  # clusters beyond the tenth are halves of others
        labels = np.where(half & (planted + _N_CLUSTERS < k_i), _N_CLUSTERS, 0)
        labels = labels + planted
        stray = rng.random(n) < 0.4
        labels[stray] = rng.integers(k_i, size=int(stray.sum()))
        used, labels = np.unique(labels, return_inverse=True)
        codes[i] = labels
        n_labels.append(len(used))
    return gpc.Ensemble.from_codes(codes, n_labels), planted


def measure(method: str, options: dict[str, Any], n: int) -> dict[str, Any]:
    """Run a method once in this process and return its time and memory."""
    ensemble, planted = make_ensemble(n, 0)
    function = gpc.METHODS[method]
    takes_k = "n_clusters" in inspect.signature(function).parameters
    arguments = [_N_CLUSTERS] if takes_k else []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # what is imported or compiled at the first call is not the method's cost
        function(make_ensemble(100, 0)[0], *arguments, random_state=0, **options)
        before = peak_bytes(reset=True)
        begin, worked = time.perf_counter(), time.process_time()
        try:
            result = function(ensemble, *arguments, random_state=0, **options)
        except MemoryError as error:
            return {"error": str(error)}
        seconds = time.perf_counter() - begin
        worked = time.process_time() - worked
    return {
        "s": seconds,
        "cpu": worked,
        "mb": (peak_bytes() - before) / 1e6,
        "r_n": gpc.metrics.adjusted_rand(planted, result.labels),
        "clusters": result.n_clusters,
    }


if __name__ == "__main__":
    print(json.dumps(measure(*json.loads(sys.argv[1]))))
