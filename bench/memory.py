"""Peak memory of kcc, measured in a process of its own."""

from __future__ import annotations

import contextlib
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import gpu_consensus as gpc

from .measure import measure_in_child
from .suite import Claim, Column, Context, Skipped, Table
from .synthetic import make_ensemble

_LIMIT_MB = 400
_MAX_ITER = 10
_SIZE = (1_000_000, 100, 10)

_COLUMNS = [
    Column("n", "n", ","),
    Column("r", "r"),
    Column("k", "K"),
    Column("refine", "refine"),
    Column("codes_mb", "codes, MB", ".0f"),
    Column("before_mb", "before kcc, above codes, MB", ".0f"),
    Column("above_codes_mb", "peak above codes, MB", ".0f"),
    Column("n_iter", "iterations"),
    Column("seconds", "s", ".1f"),
]


def memory_table(context: Context) -> Table:
    """Measure at a million objects; the process's own 100 MB count as kcc's."""
    n, r, k = _SIZE
    table = Table("memory", "KCC: peak memory", _COLUMNS)
    claim = f"peak memory of kcc at n={n:,}, r={r}, K={k}, n_init=1 < {_LIMIT_MB} MB"
    if context.quick:
        table.skipped = [Skipped("memory", f"n={n:,} takes minutes (--quick)")]
        table.claims = [Claim(claim, "not run (--quick)", None)]
        return table
    with context.progress("memory", 2) as advance:
        for refine in (False, "auto"):
            table.rows.append(measure_in_child("memory", [n, r, k, refine]))
            advance()
    worst = max(row["above_codes_mb"] for row in table.rows)
    table.claims = [Claim(claim, f"{worst:.0f} MB above the codes", worst < _LIMIT_MB)]
    table.notes = [
        "Resident memory of a fresh process at its highest, minus the codes; Python, "
        f"NumPy and the making of the ensemble are included. utility=c, max_iter="
        f"{_MAX_ITER}."
    ]
    return table


def measure(n: int, r: int, k: int, refine: bool | str) -> dict[str, Any]:
    """Run kcc once in this process and return its peak memory."""
    ensemble, _ = make_ensemble(n, r, k, 0)
    codes = ensemble.codes.nbytes
    before = peak_bytes()
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gpc.ConvergenceWarning)
        result = gpc.kcc(
            ensemble,
            k,
            "c",
            n_init=1,
            max_iter=_MAX_ITER,
            refine=refine,
            random_state=0,
        )
    seconds = time.perf_counter() - begin
    return {
        "n": n,
        "r": r,
        "k": k,
        "refine": str(refine),
        "backend": result.backend,
        "codes_mb": codes / 1e6,
        "before_mb": (before - codes) / 1e6,
        "above_codes_mb": (peak_bytes() - codes) / 1e6,
        "n_iter": result.n_iter,
        "seconds": seconds,
    }


def peak_bytes(*, reset: bool = False) -> int:
    """Return the highest resident memory of this process.

    Linux hands ``ru_maxrss`` of the parent on to a child, so its own high-water mark
    is read there. With ``reset`` it begins anew with what is resident now, where the
    system lets it.
    """
    if reset:
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    if sys.platform == "win32":
        raise OSError(
            "peak memory is read on Linux and macOS only; run this table there."
        )
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


if __name__ == "__main__":
    print(json.dumps(measure(*json.loads(sys.argv[1]))))
