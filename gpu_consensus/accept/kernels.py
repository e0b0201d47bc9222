"""The time of every kernel, compared with the best that the device could do."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.accept.clock import Clock, TimedLauncher
from gpu_consensus.accept.private import redact
from gpu_consensus.accept.run import Context, JsonObject, NotRun
from gpu_consensus.backends import require_device
from gpu_consensus.backends.cupy.backend import CupyBackend
from gpu_consensus.backends.cupy.climbs import climb_waves
from gpu_consensus.backends.cupy.launcher import Launcher
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.loop.utilities import parse_utility
from gpu_consensus.methods.climbs import marks_of, table_size
from gpu_consensus.methods.kcc import KccRule
from gpu_consensus.methods.sec import SecRule

SLOW = 0.4
"""A kernel below this share of its roof is called slow."""
SHORT = 5e-5
"""Below this many seconds the launch, not the work, decides the time of a kernel."""
_MISSING = 0.1
_SHARE = 0.4  # of the time that is left when the step begins


class Case(NamedTuple):
    """One kernel at one size."""

    kernel: str
    what: str
    call: Callable[[], Any]
    device_bytes: int = 0
    """What it must move through device memory at least."""
    shared_bytes: int = 0
    """What it must move through shared memory at least."""
    formula: str = ""
    """How these were counted; empty for kernels that have no such bound."""


def time_kernels(context: Context, results: JsonObject) -> str:
    """Time every kernel in typical launches of the backend."""
    roofs = context.results.get("roofs", {})
    if not {"copy_bytes_per_s", "shared_bytes_per_s"} <= roofs.keys():
        raise NotRun("the roofs of the device were not measured.")
    clock = Clock(require_device())
    gpu = TimedLauncher(clock)
    backend = CupyBackend(gpu)
    results["timed_by"] = clock.how
    results["slow_below"] = SLOW
    entries: list[JsonObject] = []
    results["kernels"] = entries
    wrong = []
    stop = (1 - _SHARE) * context.left()
    for case in _cases(backend, gpu, context):
        context.advance(1, f"{case.kernel}, {case.what}")
        entry: JsonObject = {"kernel": case.kernel, "what": case.what}
        entries.append(entry)
        if context.left() < stop:
            entry["not_run"] = "the time for this step was up"
            continue
        try:
            seconds, launches = _median(gpu, case, context.sizes.repeats)
        except Exception as error:
            entry["failed"] = redact(error)
            wrong.append(f"{case.kernel}, {case.what}: {entry['failed']}")
            continue
        entry.update(seconds=seconds, launches=launches)
        if case.formula:
            entry.update(
                formula=case.formula,
                device_bytes=case.device_bytes,
                shared_bytes=case.shared_bytes,
                **_against_roof(case, seconds, roofs),
            )
    return wrong[0] if wrong else ""


def _median(gpu: TimedLauncher, case: Case, repeats: int) -> tuple[float, int]:
    """Return seconds of the kernel in a call, and its launches there."""
    case.call()  # compiles it, if nothing did before
    gpu.take(case.kernel)
    taken = []
    for _ in range(repeats):
        case.call()
        taken.append(gpu.take(case.kernel))
    return statistics.median(seconds for seconds, _ in taken), taken[-1][1]


def _against_roof(case: Case, seconds: float, roofs: JsonObject) -> JsonObject:
    """Return the time at the roof, which roof that is, and the share of it."""
    times = {
        "device memory": case.device_bytes / roofs["copy_bytes_per_s"],
        "shared memory": case.shared_bytes / roofs["shared_bytes_per_s"],
    }
    roof = max(times, key=lambda name: times[name])
    return {
        "roof": roof,
        "roof_seconds": times[roof],
        "share": times[roof] / seconds if seconds else None,
    }


def _draw(rng: np.random.Generator, n: int, r: int, k_i: int) -> npt.NDArray[Any]:
    """Draw codes, a tenth of them missing."""
    codes = np.empty((r, n), np.min_scalar_type(k_i))
    for row in codes:
        row[:] = rng.integers(k_i, size=n, dtype=codes.dtype.type)
        row[rng.random(n, dtype=np.float32) < _MISSING] = k_i
    return codes


def _cases(backend: CupyBackend, gpu: Launcher, context: Context) -> Iterator[Case]:
    sizes, rng = context.sizes, np.random.default_rng(0)
    r = sizes.r_kernels
    n = max(32, min(sizes.n_kernels, gpu.free_memory() // (12 * r)))
    ens = Ensemble.from_codes(_draw(rng, n, r, 10), [10] * r)
    codes = backend.to_device(ens.codes)
    yield from _assign_cases(backend, codes, ens.offsets, "K_i=10")
    yield from _count_cases(backend, codes, ens.offsets, rng)
    yield from _table_cases(backend, codes, ens, rng)
    yield from _soft_cases(backend, codes[:, : n // 4], ens.offsets, rng)
    yield from _pair_cases(backend, gpu, ens, sizes.n_pairs, codes)
    del codes, ens
    for k_i, size, sort in ((50, n // 2, "8-bit"), (300, n // 4, "16-bit")):
        offsets = np.arange(r + 1) * (k_i + 1)
        there = backend.to_device(_draw(rng, size, r, k_i))
        yield _assign_case(backend, there, offsets, (1, 32), f"K_i={k_i}, {sort}")


def _assign_cases(
    backend: CupyBackend, codes: Any, offsets: Any, what: str
) -> Iterator[Case]:
    for columns in ((1, 32), (1, 16), (10, 10)):
        yield _assign_case(backend, codes, offsets, columns, what)
    yield _assign_case(backend, codes, offsets, (1, 32), what, row_table=True)
    yield _tiles_case(backend, codes, offsets, (10, 10), what)
    yield from _own_cases(backend, codes, offsets, (10, 10), what)


def _assign_case(
    backend: CupyBackend,
    codes: Any,
    offsets: Any,
    columns: tuple[int, int],
    what: str,
    *,
    row_table: bool = False,
) -> Case:
    (r, n), (n_restarts, k) = codes.shape, columns
    rng = np.random.default_rng(1)
    shape = (int(offsets[-1]), *columns)
    table = backend.to_device(rng.random(shape, dtype=np.float32))
    options = {}
    if row_table:
        weight = backend.to_device(np.ones(n, np.float32))
        options = {"row_weight": weight, "row_table": table}
    tables = 1 + row_table
    return Case(
        "assign",
        f"{n_restarts} x {k} columns, {what}" + ", row table" * row_table,
        lambda: backend.assign(codes, offsets, table, **options),
        n * r * codes.itemsize + n * n_restarts + tables * table.nbytes,
        4 * n * r * n_restarts * k * tables,
        "device: every label and table once, n R out; shared: 4 n r R K"
        + " x 2 tables" * row_table,
    )


def _tiles_case(
    backend: CupyBackend, codes: Any, offsets: Any, columns: tuple[int, int], what: str
) -> Case:
    shape = (int(offsets[-1]), *columns)
    table = backend.xp.zeros(shape, np.float32)
    few = codes[:, :32]  # the table is laid out for any number of objects
    return Case(
        "tiles",
        f"{columns[0]} x {columns[1]} columns, {what}",
        lambda: backend.assign(few, offsets, table),
        2 * table.nbytes,
        0,
        "device: every entry of the table once in, once out",
    )


def _own_cases(
    backend: CupyBackend,
    codes: Any,
    offsets: Any,
    columns: tuple[int, int],
    what: str,
) -> Iterator[Case]:
    (r, n), (n_restarts, k) = codes.shape, columns
    rng = np.random.default_rng(2)
    shape = (int(offsets[-1]), *columns)
    table, stay = (
        backend.to_device(rng.random(shape, dtype=np.float32)) for _ in range(2)
    )
    own = backend.to_device(rng.integers(k, size=(n_restarts, n), dtype=np.uint8))
    labels, size = n * r * codes.itemsize, n * n_restarts

    def call() -> Any:
        return backend.assign(codes, offsets, table, own=own, stay=stay)

    yield Case(
        "own_scores",
        f"{n_restarts} x {k} columns, {what}",
        call,
        labels + own.nbytes + stay.nbytes + 8 * size,
        0,
        "device: every label, cluster and table once, 8 n R out",
    )
    yield Case(
        "assign",
        f"{n_restarts} x {k} columns, {what}, staying priced",
        call,
        labels + table.nbytes + 13 * size,
        4 * r * size * k,
        "device: every label and table once, 8 n R in, 5 n R out; shared: 4 n r R K",
    )


def _count_cases(
    backend: CupyBackend, codes: Any, offsets: Any, rng: np.random.Generator
) -> Iterator[Case]:
    (r, n), n_restarts, k = codes.shape, 4, 10
    before = rng.integers(k, size=(n_restarts, n), dtype=np.uint8)
    moved = rng.random(before.shape, dtype=np.float32) < 0.1
    n_moved = int(moved.sum())
    old = backend.to_device(before)
    new = backend.to_device(np.where(moved, (before + 1) % k, before).astype(np.uint8))
    shape = (n_restarts, k)
    counts = backend.xp.zeros((int(offsets[-1]), *shape), np.int64)
    labels = n * r * codes.itemsize
    yield Case(
        "count",
        f"{n_restarts} x {k} columns",
        lambda: backend.count(codes, offsets, None, old, counts),
        labels + old.nbytes + counts.nbytes,
        4 * n * r * n_restarts,
        "device: every label and cluster once, counts; shared: 4 n r R",
    )
    yield Case(
        "count",
        f"{n_restarts} x {k} columns, a tenth moved",
        lambda: backend.count(codes, offsets, old, new, counts),
        min(labels, r * _sectors(moved, codes.itemsize)) + 2 * old.nbytes,
        8 * n_moved * r,
        "device: 32 bytes where an object moved, clusters twice; shared: 8 r moved",
    )
    weight = backend.to_device(np.ones(n, np.int64))
    absent = backend.xp.zeros((r, *shape), np.int64)
    yield Case(
        "weigh",
        f"{n_restarts} x {k} columns, a tenth missing",
        lambda: backend.count(codes, offsets, None, old, counts, weight, absent),
        labels + old.nbytes + 8 * n + 8 * r * n_restarts * k,
        0,
        "device: every label, cluster and weight once, sums",
    )


def _sectors(moved: npt.NDArray[np.bool_], itemsize: int) -> int:
    """Return bytes of a row of codes that are read for objects which moved anywhere.

    Memory gives 32 of them at once.
    """
    begins = np.arange(0, moved.shape[1], 32 // itemsize)
    return 32 * int(np.logical_or.reduceat(moved, begins, axis=1).any(axis=0).sum())


def _table_cases(
    backend: CupyBackend, codes: Any, ens: Ensemble, rng: np.random.Generator
) -> Iterator[Case]:
    (r, n), n_restarts, k = codes.shape, 10, 10
    assignment = backend.to_device(
        rng.integers(k, size=(n_restarts, n), dtype=np.uint8)
    )
    shape = (n_restarts, k)
    counts = backend.xp.zeros((int(ens.offsets[-1]), *shape), np.int64)
    absent = backend.xp.zeros((r, *shape), np.int64)
    weight = backend.to_device(np.ones(n, np.int64))
    backend.count(codes, ens.offsets, None, assignment, counts, weight, absent)
    rule = KccRule(ens, parse_utility("h")[1], ens.weights)
    assert rule.recipe is not None
    recipe, sec = rule.recipe, SecRule(ens).recipe
    size, sums = int(counts.size), r * n_restarts * k
    known = 8 * (size - sums)  # counts of missing labels are not looked at
    yield Case(
        "table_sums",
        "10 x 10 columns, K_i=10",
        lambda: backend.table(recipe, counts),
        known + 17 * sums,
        0,
        "device: counts of labels once, 17 r R K out",
    )
    yield Case(
        "table",
        "10 x 10 columns, K_i=10, utility h",
        lambda: backend.table(recipe, counts),
        known + 4 * size + 17 * sums,
        0,
        "device: counts of labels and sums once, table out",
    )
    yield Case(
        "table_norm",
        "10 x 10 columns, K_i=10",
        lambda: backend.table(sec, counts, absent),
        33 * sums,
        0,
        "device: 25 r R K in, 8 r R K out",
    )


def _soft_cases(
    backend: CupyBackend, codes: Any, offsets: Any, rng: np.random.Generator
) -> Iterator[Case]:
    (r, n), columns = codes.shape, 16
    lines = int(offsets[-1])
    table = backend.to_device(rng.random((lines, 1, columns)))
    share = backend.to_device(np.full((n, 1, columns), 1 / columns))
    labels = n * r * codes.itemsize
    yield Case(
        "scores",
        f"{columns} columns, float64",
        lambda: backend.scores(codes, offsets, table),
        labels + 8 * n * columns + 8 * lines * columns,
        0,
        "device: every label and the table once, 8 n K out",
    )
    yield Case(
        "soft_count",
        f"{columns} columns",
        lambda: backend.soft_count(codes, offsets, share),
        labels + 8 * n * columns + 8 * lines * columns,
        8 * n * r * columns,
        "device: every label and share once, counts; shared: 8 n r K",
    )


def _pair_cases(
    backend: CupyBackend,
    gpu: Launcher,
    ens: Ensemble,
    n_pairs: int,
    codes: Any,
) -> Iterator[Case]:
    m = min(n_pairs, ens.n_samples)
    r = ens.n_partitions
    objects = np.arange(m)
    n_labels = ens.n_labels
    yield Case(
        "coassociation",
        f"{m} x {m} pairs",
        lambda: backend.pairs(codes, n_labels, objects, objects),
        2 * m * r * codes.itemsize + 8 * m * m,
        8 * m * m * r,
        "device: labels once, 8 bytes a pair out; shared: 8 bytes a pair and partition",
    )
    few = np.ascontiguousarray(ens.codes[:, : min(m, 512)])
    starts = np.arange(min(few.shape[1], 64))
    # every sum is below that, so that climbs go on
    threshold = (1, 2)
    resident = backend.to_device(few)
    yield Case(
        "add_rem_add",
        f"{len(starts)} climbs among {few.shape[1]} objects",
        lambda: climb_waves(
            gpu,
            resident,
            n_labels,
            starts,
            threshold,
            None,
            marks_of(few.shape[1]),
            table_size(len(starts)),
            None,
        ),
    )
