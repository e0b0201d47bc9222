"""Every method on the device against NumPy: the same labels, also in hard cases."""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gpu_consensus.accept.private import redact
from gpu_consensus.accept.run import Context, JsonObject, NotRun
from gpu_consensus.backends import choose_backend, why_unavailable
from gpu_consensus.backends.cupy.streamed_codes import StreamedCodes
from gpu_consensus.backends.device_memory import DeviceMemoryWarning
from gpu_consensus.backends.numpy import NumpyBackend
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.loop.utilities import Utility
from gpu_consensus.methods import FINDERS, METHODS, consensus
from gpu_consensus.methods.kcc import kcc
from gpu_consensus.methods.lambda_consensus import lambda_consensus
from gpu_consensus.metrics import adjusted_rand
from gpu_consensus.result import Consensus
from gpu_consensus.util.arrays import on_device, to_host

UTILITIES = ("c", "h", "cos", "l3", "l5", "l8", "nc", "nh", "ncos", "nl5", "nl8")
_N_CLUSTERS = 4
_SHARE = 0.45
"""Share of the time left at the beginning; later comparisons are not run."""

LATE = "the time for this step was up"
"""Why a comparison was not made; reported once for all of them."""


class Check(NamedTuple):
    """One comparison."""

    name: str
    run: Callable[[], str]
    """Returns what differs, or an empty string."""


class _NoEffectError(Exception):
    """The situation of a check cannot be had here, so it would check nothing."""


def check_agreement(context: Context, results: JsonObject) -> str:
    """Compare methods, sizes and situations with the numpy backend."""
    checks = [*_checks(context)]
    stop = _SHARE * context.left()
    entries: list[JsonObject] = []
    results["checks"] = entries
    began = context.left()
    for check in checks:
        context.advance(1, check.name)
        entry: JsonObject = {"name": check.name, "state": "unfinished", "reason": ""}
        entries.append(entry)
        if began - context.left() > stop:
            entry.update(state="not run", reason=LATE)
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                entry["reason"] = redact(check.run())
            entry["state"] = "failed" if entry["reason"] else "passed"
        except _NoEffectError as error:
            entry.update(state="not run", reason=redact(str(error)))
        except Exception as error:
            entry.update(state="failed", reason=redact(error))
    wrong = [entry for entry in entries if entry["state"] == "failed"]
    if wrong:
        return (
            f"{len(wrong)} of {len(entries)} comparisons fail, the first: "
            f"{wrong[0]['name']}: {wrong[0]['reason']}"
        )
    late = sum(entry["reason"] == LATE for entry in entries)
    if late:
        raise NotRun(
            f"the time was up before {late} of {len(entries)} comparisons; the others "
            "equal NumPy; give more with --budget."
        )
    return ""


def draw_ensemble(
    seed: int, n: int, n_labels: tuple[int, ...], missing: float, weighted: bool
) -> Ensemble:
    """Draw noisy copies of a partition; every object has a label somewhere."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(_N_CLUSTERS, size=n)
    codes = np.empty((len(n_labels), n), np.min_scalar_type(max(n_labels)))
    for i, k_i in enumerate(n_labels):
        label = (truth + rng.integers(_N_CLUSTERS)) % k_i
        codes[i] = np.where(rng.random(n) < 0.3, rng.integers(k_i, size=n), label)
        if i:
            codes[i, rng.random(n) < missing] = k_i
    weights = rng.integers(1, 4, size=len(n_labels)) if weighted else None
    return Ensemble.from_codes(codes, n_labels, weights)


def _checks(context: Context) -> Iterator[Check]:
    n, large = context.sizes.n_agree, context.sizes.n_large
    ensembles = {
        "complete": draw_ensemble(0, n, (4, 5, 3, 7, 4, 6, 4, 5, 9, 4), 0.0, False),
        "weights, labels missing": draw_ensemble(1, n, (4, 5, 3, 7, 4, 6), 0.3, True),
        "16-bit codes": draw_ensemble(2, n, (300, 5, 4, 40, 6), 0.2, True),
    }
    for form, ens in ensembles.items():
        for method in METHODS:
            yield Check(f"{method} ({form})", partial(_method, ens, method))
    mine = Utility(
        lambda m: (m * m).sum(axis=-1), lambda m: 2 * m, name="squares of my own"
    )
    ens = ensembles["weights, labels missing"]
    for utility in (*UTILITIES, mine):
        name = f"kcc, utility {getattr(utility, 'name', utility)}"
        yield Check(name, partial(_kcc, ens, utility))
    yield Check("lambda_consensus", lambda: _feedback(n))
    yield Check("assign of many objects, resident", lambda: _assign(large))
    yield Check("assign of many objects, streamed", lambda: _assign(large, True))
    yield Check("out of memory: assign in parts", lambda: _in_parts(large))
    yield Check("out of memory: kcc streams codes", lambda: _streams(large))
    yield Check("CuPy arrays in, CuPy labels out", lambda: _arrays(ens))
    yield Check("two threads at once", lambda: _threads(tuple(ensembles.values())))
    for index in range(_n_devices()):
        yield Check(f"device {index}", partial(_on_device, ens, index))


def _n_devices() -> int:
    import cupy

    return int(cupy.cuda.runtime.getDeviceCount())


def _differ(there: Consensus, here: Consensus, close: bool = False) -> str:
    """Say how a result of the device differs from one of NumPy, or nothing."""
    labels = to_host(there.labels)
    if there.backend != "cupy":
        return f"it ran on {there.backend!r} and not on the device"
    if close:
        alike = adjusted_rand(labels, here.labels) > 0.999
        if alike and np.isclose(there.objective, here.objective, rtol=1e-6):
            return ""
    wrong = int(np.count_nonzero(labels != here.labels))
    if wrong:
        return f"{wrong} of {len(labels)} labels differ from NumPy's"
    if there.objective != here.objective:
        return f"the objective is {there.objective!r}, NumPy's {here.objective!r}"
    return ""


def _method(ens: Ensemble, method: str) -> str:
    k = None if method in FINDERS else _N_CLUSTERS
    if method == "sec":  # has no weights
        ens = Ensemble.from_codes(ens.codes, ens.n_labels)
    there, here = (
        consensus(ens, k, method, backend=name, random_state=0)
        for name in ("cupy", "numpy")
    )
    return _differ(there, here, close=method == "em")


def _kcc(ens: Ensemble, utility: Any = "h") -> str:
    options = {"utility": utility, "n_init": 5, "random_state": 1}
    there, here = (
        kcc(ens, _N_CLUSTERS, backend=name, **options) for name in ("cupy", "numpy")
    )
    return _differ(there, here)


def _feedback(n: int) -> str:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3)) + 6 * rng.integers(3, size=(n, 1))
    there, here = (
        lambda_consensus(X, 3, n_rounds=2, backend=name, random_state=0)
        for name in ("cupy", "numpy")
    )
    return _differ(there, here)


def _table(n: int, n_restarts: int) -> tuple[Any, Any, Any]:
    """Draw codes, offsets and a table of random numbers."""
    rng, r, k_i = np.random.default_rng(0), 20, 30
    codes = rng.integers(k_i, size=(r, n), dtype=np.uint8)
    offsets = np.arange(r + 1) * (k_i + 1)
    table = rng.random((int(offsets[-1]), n_restarts, 10), dtype=np.float32)
    return codes, offsets, table


def _assign(n: int, streamed: bool = False) -> str:
    codes, offsets, table = _table(n, 3)
    right = NumpyBackend().assign(codes, offsets, table).assignment
    device = choose_backend("cupy", None)
    there = device.to_device(table)
    if streamed:
        blocks: Any = StreamedCodes(device.xp, codes).blocks(n // 3 + 1)
    else:
        blocks = [(slice(0, n), device.resident(codes))]
    wrong = 0
    for rows, block in blocks:
        assignment = device.to_host(device.assign(block, offsets, there).assignment)
        wrong += int(np.count_nonzero(assignment != right[:, rows]))
    return f"{wrong} of {right.size} clusters differ from NumPy's" if wrong else ""


@contextmanager
def _memory(xp: Any, nbytes: int) -> Iterator[None]:
    """Let CuPy's pool grow by at most so many bytes within this context."""
    pool = xp.get_default_memory_pool()
    gc.collect()  # what earlier comparisons left would come back to the pool meanwhile
    xp.cuda.get_current_stream().synchronize()
    pool.free_all_blocks()
    before = pool.get_limit()
    pool.set_limit(size=pool.used_bytes() + nbytes)
    try:
        yield
    finally:
        pool.set_limit(size=before)


def _in_parts(n: int) -> str:
    """Assign with memory for the winners of fewer objects than there are."""
    n_restarts = 6
    codes, offsets, table = _table(n, n_restarts)
    right = NumpyBackend().assign(codes, offsets, table).assignment
    device = choose_backend("cupy", None)
    resident, there = device.to_device(codes), device.to_device(table)
    # a byte for each cluster that comes out, four for each that is worked on
    with (
        _memory(device.xp, 4 * n * n_restarts),
        warnings.catch_warnings(record=True) as seen,
    ):
        warnings.simplefilter("always")
        assignment = device.assign(resident, offsets, there).assignment
    if not any(issubclass(one.category, DeviceMemoryWarning) for one in seen):
        raise _NoEffectError(
            "a limit on CuPy's memory pool had no effect; another allocator is in use"
        )
    wrong = int(np.count_nonzero(device.to_host(assignment) != right))
    return f"{wrong} of {right.size} clusters differ from NumPy's" if wrong else ""


def _streams(n: int) -> str:
    """Fit where the codes do not fit."""
    ens = draw_ensemble(3, n, (4, 5, 3, 7, 4, 6) * 4, 0.2, False)
    device = choose_backend("cupy", None)
    options: JsonObject = {
        "init": "partition",
        "n_init": 2,
        "max_iter": 5,
        "refine": False,
        "random_state": 0,
    }
    with _memory(device.xp, int(1.4 * ens.codes.nbytes)):
        if not isinstance(device.resident(ens.codes), StreamedCodes):
            raise _NoEffectError("a limit on CuPy's memory pool had no effect")
        there = kcc(ens, _N_CLUSTERS, backend="cupy", **options)
    return _differ(there, kcc(ens, _N_CLUSTERS, backend="numpy", **options))


def _arrays(ens: Ensemble) -> str:
    there = kcc(ens.to("cupy"), _N_CLUSTERS, random_state=0)
    if not on_device(there.labels):
        return "labels of codes on the device came back on the host"
    return _differ(there, kcc(ens, _N_CLUSTERS, backend="numpy", random_state=0))


def _threads(ensembles: tuple[Ensemble, ...]) -> str:
    """Let two threads work on the device at the same time."""
    work = ensembles[:2]
    together = threading.Barrier(len(work))

    def fit(ens: Ensemble) -> Consensus:
        together.wait(timeout=60)
        return kcc(ens, _N_CLUSTERS, backend="cupy", random_state=2)

    with ThreadPoolExecutor(len(work)) as pool:
        fits = list(pool.map(fit, work))
    for there, ens in zip(fits, work, strict=True):
        here = kcc(ens, _N_CLUSTERS, backend="numpy", random_state=2)
        wrong = _differ(there, here)
        if wrong:
            return wrong
    return ""


def _on_device(ens: Ensemble, index: int) -> str:
    import cupy

    with cupy.cuda.Device(index):
        reason = why_unavailable("cupy")
        if reason:
            raise _NoEffectError(reason)
        return _kcc(ens)
