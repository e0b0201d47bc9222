"""Where the time of a call goes: shares, growth with n, refinement, the first call."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import gpu_consensus as gpc
from gpu_consensus.backends import why_unavailable

from .suite import Claim, Column, Context, Skipped, Table
from .synthetic import make_ensemble

_STAGES = {
    "assign": ("assign",),
    "count": ("count",),
    "table": ("table",),
    "objective": ("label_sums",),
}
_MOST_EXPONENT = 1.02
_FIRST_CALL = 0.5
_REPEATS = 5


def quiet(call: Callable[[], Any]) -> tuple[float, Any]:
    """Time a call that may stop at max_iter on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gpc.ConvergenceWarning)
        begin = time.perf_counter()
        result = call()
        return time.perf_counter() - begin, result


@contextmanager
def stage_seconds() -> Iterator[dict[str, float]]:
    """Count the seconds that the native backend spends in each stage."""
    from gpu_consensus.backends.native.backend import NativeBackend

    seconds = dict.fromkeys(_STAGES, 0.0)
    depth = [0]

    def timed(method: Callable[..., Any], stage: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            depth[0] += 1
            begin = time.perf_counter()
            try:
                return method(*arguments, **options)
            finally:
                depth[0] -= 1
                if not depth[0]:  # a stage inside another is part of that
                    seconds[stage] += time.perf_counter() - begin

        return call

    kept = {
        name: getattr(NativeBackend, name)
        for names in _STAGES.values()
        for name in names
    }
    try:
        for stage, names in _STAGES.items():
            for name in names:
                setattr(NativeBackend, name, timed(kept[name], stage))
        yield seconds
    finally:
        for name, method in kept.items():
            setattr(NativeBackend, name, method)


def share_table(context: Context) -> Table:
    """Print the shares of assign, count, table and the rest."""
    columns = [Column("n", "n", ","), Column("utility", "utility")]
    columns += [Column("seconds", "s", ".3f")]
    columns += [Column(stage, stage, ".0%") for stage in (*_STAGES, "rest")]
    table = Table("shares", "Shares of the stages", columns)
    if why_unavailable("native"):
        table.skipped = [Skipped("shares", why_unavailable("native"))]
        return table
    for n in (1000, 10_000) if context.quick else (1000, 10_000, 100_000):
        ensemble, _ = make_ensemble(n, 100, 10, 0)
        for utility in ("c", "h"):
            call = partial(
                gpc.kcc,
                ensemble,
                10,
                utility,
                init="random",
                max_iter=50,
                refine=False,
                backend="native",
                random_state=0,
            )
            quiet(call)
            with stage_seconds() as seconds:
                total, _ = quiet(call)
            shares = {stage: spent / total for stage, spent in seconds.items()}
            shares["rest"] = 1 - sum(shares.values())
            table.rows.append({"n": n, "utility": utility, "seconds": total, **shares})
    table.notes = ["kcc(init='random', n_init=10, refine=False), r=100, K=10."]
    return table


def growth_table(context: Context) -> Table:
    """Fit time per iteration ~ n^a for every method of the family."""
    sizes = (1000, 10_000) if context.quick else (10_000, 100_000, 1_000_000)
    columns = [Column("method", "method")]
    columns += [Column(f"ms_{n}", f"ms per iteration, n={n:,}", ".2f") for n in sizes]
    columns += [
        Column("exponent", "exponent", ".2f"),
        Column("last", f"from n={sizes[-2]:,}", ".2f"),
    ]
    table = Table("growth", "Time per iteration as n grows", columns)
    methods = [name for name in ("kcc", "sec", "ivc", "em") if name in gpc.METHODS]
    rows: dict[str, dict[str, Any]] = {name: {"method": name} for name in methods}
    with context.progress("growth", len(sizes) * len(methods)) as advance:
        for n in sizes:
            ensemble, _ = make_ensemble(n, 50, 10, 0)
            for name in methods:
                rows[name][f"ms_{n}"] = _per_iteration(name, ensemble)
                advance(1, f"{name}, n={n:,}")
    for row in rows.values():
        y = np.log([row[f"ms_{n}"] for n in sizes])
        row["exponent"] = float(np.polyfit(np.log(sizes), y, 1)[0])
        # the fixed cost of a call weighs least between the two largest
        row["last"] = float((y[-1] - y[-2]) / np.log(sizes[-1] / sizes[-2]))
    table.rows = list(rows.values())
    worst = max(table.rows, key=lambda row: max(row["exponent"], row["last"]))
    largest = max(worst["exponent"], worst["last"])
    table.claims = [
        Claim(
            f"time per iteration grows with an exponent of at most {_MOST_EXPONENT} "
            f"({', '.join(methods)})",
            f"{largest:.2f} for {worst['method']}",
            None if context.quick else largest <= _MOST_EXPONENT,
        )
    ]
    table.notes = [
        "r=50, K=10, one start, at most 5 iterations; whole calls by iterations, least "
        f"of {_REPEATS} runs."
    ]
    return table


def _per_iteration(name: str, ensemble: gpc.Ensemble) -> float:
    options: dict[str, Any] = {"n_init": 1, "max_iter": 5, "random_state": 0}
    if name != "em":  # the loop alone
        options |= {"init": "partition", "search": False}
    if name == "kcc":
        options |= {"utility": "c", "refine": False}
    if not why_unavailable("native"):
        options["backend"] = "native"
    call = partial(gpc.METHODS[name], ensemble, 10, **options)
    runs = [quiet(call) for _ in range(_REPEATS)]
    return float(min(1000 * seconds / result.n_iter for seconds, result in runs))


def refine_table(context: Context) -> Table:
    """Compare what refinement takes with the starts that it follows."""
    table = Table(
        "refine",
        "Refinement beside the starts it follows",
        [
            Column("n", "n", ","),
            Column("utility", "utility"),
            Column("refine", "refine"),
            Column("lloyd_s", "starts, s", ".3f"),
            Column("refine_s", "refinement, s", ".3f"),
            Column("ratio", "refinement / starts", ".2f"),
        ],
    )
    sizes = (2000,) if context.quick else (10_000, 1_000_000)
    for n in sizes:
        ensemble, _ = make_ensemble(n, 100, 10, 0)
        for utility in ("c", "h"):
            for refine in ("auto", True):
                table.rows.append(_refined(ensemble, utility, refine))
    worst = max(table.rows, key=lambda row: row["ratio"])
    said = f"{worst['ratio']:.2f} at n={worst['n']:,}, {worst['utility']}"
    table.claims = [
        Claim(
            f"refine costs less than the starts it follows at n = "
            f"{', '.join(f'{n:,}' for n in sizes)}",
            f"{said}, refine={worst['refine']}",
            None if context.quick else worst["ratio"] < 1,
        )
    ]
    table.notes = [
        "kcc, r=100, K=10, n_init=10. 'auto' refines all ten starts up to n r K n_init "
        "= 2^26, then the winner; True only the winner. Times of the two phases of one "
        "call; the least of the repeats."
    ]
    return table


def _refined(
    ensemble: gpc.Ensemble, utility: str, refine: bool | str
) -> dict[str, Any]:
    from gpu_consensus.loop import fit

    phase, kept = [0.0], fit._refine
    module: Any = fit

    def timed(*arguments: Any) -> dict[str, Any]:
        begin = time.perf_counter()
        told = kept(*arguments)
        phase[0] = time.perf_counter() - begin
        return told

    found = []
    module._refine = timed
    try:
        for _ in range(3 if ensemble.n_samples <= 10_000 else 1):
            total, _ = quiet(
                partial(gpc.kcc, ensemble, 10, utility, refine=refine, random_state=0)
            )
            found.append((total - phase[0], phase[0]))
    finally:
        module._refine = kept
    lloyd, refined = np.min(found, axis=0)
    return {
        "n": ensemble.n_samples,
        "utility": utility,
        "refine": str(refine),
        "lloyd_s": float(lloyd),
        "refine_s": float(refined),
        "ratio": float(refined / lloyd),
    }


_CHILD = """
import sys, time
begin = time.perf_counter()
import gpu_consensus as gpc
ensemble = gpc.Ensemble.load(sys.argv[1])
result = gpc.kcc(ensemble, int(sys.argv[2]), random_state=0, backend=sys.argv[3])
print(result.backend, time.perf_counter() - begin)
"""


def first_call_table(context: Context) -> Table:
    """Time whole processes, from the start of Python on."""
    table = Table(
        "first_call",
        "First call in a new process",
        [
            Column("what", "call"),
            Column("backend", "backend"),
            Column("wall", "process, s", ".2f"),
            Column("inside", "import and call, s", ".2f"),
        ],
    )
    ensemble, _ = make_ensemble(3000, 100, 5, 0)
    runs = [("iris", _iris(), 3)] * 2 + [("n=3,000, r=100", ensemble, 5)] * 2
    with tempfile.TemporaryDirectory() as folder:
        for what, ensemble, k in runs:
            path = Path(folder) / f"{ensemble.n_samples}.npz"
            ensemble.save(path)
            table.rows.append({"what": what, **_run_child(path, k, "auto")})
    del table.rows[0]  # the first run also reads the files of the library from disk
    table.claims = [
        Claim(
            f"kcc on {row['what']} in a new process under {_FIRST_CALL} s",
            f"{row['wall']:.2f} s with the start of Python",
            row["wall"] < _FIRST_CALL,
        )
        for row in table.rows[:2]
    ]
    size = environment_size()
    if size is not None:
        table.notes = [f"The virtual environment takes {size / 1e6:,.0f} MB."]
    return table


def environment_size() -> int | None:
    """Return the bytes of the files of this virtual environment, if it is one."""
    if sys.prefix == sys.base_prefix:
        return None
    files = (path for path in Path(sys.prefix).rglob("*") if not path.is_symlink())
    return sum(path.stat().st_size for path in files if path.is_file())


def _iris() -> gpc.Ensemble:
    from sklearn.datasets import load_iris

    X = load_iris().data
    return gpc.generate_partitions(X, 100, n_clusters=3, random_state=0)


def _run_child(path: Path, k: int, backend: str) -> dict[str, Any]:
    search = os.pathsep.join(part or str(Path.cwd()) for part in sys.path)
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(path), str(k), backend],
        env={**os.environ, "PYTHONPATH": search},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    wall = time.perf_counter() - begin
    name, inside = done.stdout.split()
    return {"backend": name, "wall": wall, "inside": float(inside)}
