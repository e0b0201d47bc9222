"""How fast ``assign`` is beside a C loop and beside what the memory delivers."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gpu_consensus.backends import choose_backend, why_unavailable

from .suite import Claim, Column, Context, Skipped, Table

_N_PARTITIONS = 100
# columns as restarts and clusters; the labels of a partition
_SHAPES = ((1, 10), (4, 8), (8, 12), (10, 10))
_LABELS = (10, 100, 300)
_NEEDED = {10: 0.4, 96: 0.9}

_C = r"""
#include <stdint.h>
#include <string.h>
enum { TILE = 64, COLUMNS = RESTARTS * CLUSTERS };
static float score[TILE][COLUMNS] __attribute__((aligned(64)));

void assign(const CODE *restrict codes, int64_t n, int64_t r,
            const int64_t *restrict offsets, const float *restrict table,
            uint8_t *restrict out) {
    for (int64_t begin = 0; begin < n; begin += TILE) {
        const int64_t size = n - begin < TILE ? n - begin : TILE;
        memset(score, 0, sizeof score);
        for (int64_t i = 0; i < r; ++i) {
            const CODE *line = codes + i * n + begin;
            const float *part = table + offsets[i] * COLUMNS;
            for (int64_t t = 0; t < size; ++t) {
                const float *restrict row = part + line[t] * COLUMNS;
                float *restrict total = score[t];
                for (int c = 0; c < COLUMNS; ++c) total[c] += row[c];
            }
        }
        for (int64_t t = 0; t < size; ++t)
            for (int q = 0; q < RESTARTS; ++q) {
                const float *own = score[t] + q * CLUSTERS;
                int best = 0;
                for (int k = 1; k < CLUSTERS; ++k)
                    if (own[k] < own[best]) best = k;
                out[q * n + begin + t] = best;
            }
    }
}
"""

_COLUMNS = [
    Column("columns", "columns"),
    Column("labels", "labels per partition"),
    Column("equal", "equal to numpy"),
    Column("native", "native, G lookups/s", ".2f"),
    Column("native_all", "on all threads", ".2f"),
    Column("numpy", "numpy", ".2f"),
    Column("c", "C loop", ".2f"),
    Column("ratio", "native / C", ".2f"),
    Column("memory", "codes read at memory speed", ".0f"),
]


def limit_table(context: Context) -> Table:
    """Measure ``assign`` at several widths, on one thread, beside a plain C loop."""
    table = Table("throughput", "assign against the limits of the machine", _COLUMNS)
    reason = why_unavailable("native")
    if reason:
        table.skipped = [Skipped("throughput", reason)]
        return table
    bandwidth = memory_bandwidth()
    n = 20_000 if context.quick else 100_000
    compiler = shutil.which("cc")
    with (
        tempfile.TemporaryDirectory() as folder,
        context.progress("throughput", len(_SHAPES) * len(_LABELS)) as advance,
    ):
        for shape in _SHAPES:
            for labels in _LABELS:
                code = _code_type(labels)
                loop = _compile(Path(folder), compiler, code, *shape)
                table.rows.append(_measure(n, labels, *shape, loop, bandwidth))
                advance()
    table.notes = [
        f"n={n:,}, r={_N_PARTITIONS}, codes of 8 bits up to 255 labels, else 16; one "
        "thread unless said otherwise; "
        "the least of several interleaved repeats. A lookup is one object, partition "
        "and column. The C loop is a plain tile loop with the number of columns known "
        "to the compiler, cc -O3 -march=native -ffp-contract=off. Memory: "
        f"{bandwidth / 1e9:.1f} GB/s copied.",
    ]
    if compiler is None:
        table.skipped = [Skipped("C loop", "there is no compiler (cc)")]
    table.claims = _claims(table.rows)
    return table


def _claims(rows: list[dict[str, Any]]) -> list[Claim]:
    claims = []
    for columns, needed in _NEEDED.items():
        ratios = [
            row["ratio"] for row in rows if row["columns"] == columns and row["ratio"]
        ]
        claims.append(
            Claim(
                f"assign at {columns} columns: at least {needed} of the C loop",
                f"{min(ratios):.2f} at worst" if ratios else "no compiler",
                min(ratios) >= needed if ratios else None,
            )
        )
    return claims


def _measure(
    n: int,
    labels: int,
    n_restarts: int,
    n_clusters: int,
    loop: Callable[..., None] | None,
    bandwidth: float,
) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    codes = rng.integers(labels, size=(_N_PARTITIONS, n)).astype(_code_type(labels))
    offsets = np.arange(_N_PARTITIONS + 1) * (labels + 1)
    shape = (int(offsets[-1]), n_restarts, n_clusters)
    table = rng.normal(size=shape).astype(np.float32)
    out = np.empty((n_restarts, n), dtype=np.uint8)
    backends = {
        "native": choose_backend("native", None, 1),
        "native_all": choose_backend("native", None),
        "numpy": choose_backend("numpy", None, 1),
    }
    results: dict[str, Any] = {}
    calls: dict[str, Callable[[], Any]] = {
        name: partial(backend.assign, codes, offsets, table)
        for name, backend in backends.items()
    }
    if loop is not None:
        calls["c"] = lambda: loop(codes, n, _N_PARTITIONS, offsets, table, out)
    least = dict.fromkeys(calls, np.inf)
    for repeat in range(5):
        for name, call in calls.items():
            if name == "numpy" and repeat > 1:
                continue
            begin = time.perf_counter()
            results[name] = call()
            least[name] = min(least[name], time.perf_counter() - begin)
    answers = [results[name].assignment for name in backends]
    answers += [out] if loop is not None else []
    columns = n_restarts * n_clusters
    speed = {k: codes.size * columns / s / 1e9 for k, s in least.items()}
    return {
        "columns": columns,
        "labels": labels,
        "equal": all(np.array_equal(answers[0], other) for other in answers),
        **speed,
        "ratio": speed["native"] / speed["c"] if loop is not None else None,
        "memory": columns * bandwidth / codes.itemsize / 1e9,
    }


def _code_type(labels: int) -> str:
    """Return the type in which an ensemble keeps so many labels."""
    return "uint8" if labels <= 255 else "uint16"


def _compile(
    folder: Path, compiler: str | None, code: str, n_restarts: int, n_clusters: int
) -> Callable[..., None] | None:
    if compiler is None:
        return None
    source = folder / "assign.c"
    library = folder / f"assign_{code}_{n_restarts}_{n_clusters}.so"
    source.write_text(_C, encoding="utf-8")
    sizes = [f"-DRESTARTS={n_restarts}", f"-DCLUSTERS={n_clusters}"]
    sizes.append(f"-DCODE={code}_t")
    flags = ["-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC"]
    subprocess.run(
        [compiler, *flags, *sizes, str(source), "-o", str(library)], check=True
    )
    found = ctypes.CDLL(str(library)).assign
    found.restype = None

    def call(codes: Any, n: int, r: int, offsets: Any, table: Any, out: Any) -> None:
        pointers = [
            ctypes.c_void_p(x.ctypes.data) for x in (codes, offsets, table, out)
        ]
        whole = [ctypes.c_int64(n), ctypes.c_int64(r)]
        found(pointers[0], *whole, *pointers[1:])

    return call


def memory_bandwidth(megabytes: int = 256) -> float:
    """Return bytes per second that one thread reads while it copies."""
    source = np.ones(megabytes << 17)
    target = np.empty_like(source)
    least = np.inf
    for _ in range(5):
        begin = time.perf_counter()
        np.copyto(target, source)
        least = min(least, time.perf_counter() - begin)
    return float(source.nbytes / least)
