"""One large fit on the device and on the CPU: equal labels, and seconds of each."""

from __future__ import annotations

import os
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.accept.run import Context, JsonObject, NotRun
from gpu_consensus.backends import why_unavailable
from gpu_consensus.backends.cupy.launcher import Launcher
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.methods.kcc import kcc
from gpu_consensus.result import Consensus
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.memory import available_memory

N_CLUSTERS = 10
_OPTIONS: dict[str, Any] = {
    "init": "partition",
    "n_init": 1,
    "max_iter": 10,
    "refine": False,
    "random_state": 0,
}
_MOST_CPU_SECONDS = 120.0
_LEAST = 1000  # objects
_PART = 1 << 18  # objects that a thread draws at a time


def fit_both(context: Context, results: JsonObject) -> str:
    """Fit the same codes on both, as many as memory and time allow."""
    context.need(20)
    sizes = context.sizes
    n = _fits(sizes.n_fit, sizes.r_fit)
    cpu = "numpy" if why_unavailable("native") else "native"
    results.update(n_wanted=sizes.n_fit, r=sizes.r_fit, n_clusters=N_CLUSTERS, cpu=cpu)
    results["options"] = {"utility": "h", **_OPTIONS}
    context.advance(1, "a small fit, to see how fast the CPU is")
    probe = make_codes(min(sizes.n_probe, n), sizes.r_fit)
    for backend in (cpu, "cupy"):  # compiles
        _fit(probe, backend)
    _, seconds = _fit(probe, cpu)
    allowed = min(_MOST_CPU_SECONDS, context.left() / 3)
    n_cpu = min(n, max(_LEAST, int(allowed * probe.n_samples / seconds)))
    # half of what is left must do for making the codes and for the device
    context.advance(1, f"making {n} x {sizes.r_fit} codes")
    ens = make_codes(n, sizes.r_fit)
    context.advance(1, f"{n} objects on the device")
    on_device = results["device"] = JsonObject()
    there = _on_device(ens, on_device)
    if n_cpu < n:
        few = Ensemble.from_codes(
            np.ascontiguousarray(ens.codes[:, :n_cpu]), ens.n_labels
        )
        ens = few
        on_device = results["device_as_cpu"] = JsonObject()
        context.advance(1, f"{n_cpu} objects on the device")
        there = _on_device(ens, on_device)
    context.advance(1, f"{n_cpu} objects on the CPU")
    here, seconds = _fit(ens, cpu)
    results["on_cpu"] = _fit_entry(ens, here, seconds)
    results["ratio"] = seconds / on_device["from_host"]["seconds"]
    wrong = int(np.count_nonzero(to_host(there.labels) != here.labels))
    results["labels_that_differ"] = wrong
    if wrong or there.objective != here.objective:
        return (
            f"{wrong} of {ens.n_samples} labels differ from the CPU's, objective "
            f"{there.objective!r} and {here.objective!r}"
        )
    return ""


def _fits(n_wanted: int, r: int) -> int:
    """Return how many objects fit into the memory of device and host."""
    free = Launcher().free_memory() // (2 * r)
    host = available_memory()
    # codes, a part of them, and what the fit keeps for each object
    here = n_wanted if host is None else host // (3 * r + 200)
    n = min(n_wanted, free, here)
    if n < _LEAST:
        raise NotRun(f"there is memory for {n} objects only.")
    return n


def _on_device(ens: Ensemble, results: JsonObject) -> Consensus:
    """Fit codes on the host, and codes that are on the device already."""
    result, seconds = _fit(ens, "cupy")
    results["from_host"] = _fit_entry(ens, result, seconds)
    there = ens.to("cupy")
    results["resident"] = _fit_entry(ens, *_fit(there, "cupy"))
    return result


def _fit(ens: Ensemble, backend: str) -> tuple[Consensus, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ten iterations need not be enough
        began = time.perf_counter()
        result = kcc(ens, N_CLUSTERS, backend=backend, n_jobs=-1, **_OPTIONS)
        return result, time.perf_counter() - began


def _fit_entry(ens: Ensemble, result: Consensus, seconds: float) -> JsonObject:
    """Return what a fit took; lookups are n r K in an iteration, saved ones too."""
    lookups = ens.n_samples * ens.n_partitions * N_CLUSTERS * result.n_iter
    return {
        "n": ens.n_samples,
        "seconds": seconds,
        "iterations": result.n_iter,
        "lookups_per_s": lookups / seconds,
    }


def make_codes(n: int, r: int) -> Ensemble:
    """Make noisy copies of a partition, with 10 to 30 labels each, by all threads."""
    rng = np.random.default_rng(0)
    truth = rng.integers(N_CLUSTERS, size=n, dtype=np.uint8)
    n_labels = 10 + np.arange(r) % 21
    codes = np.empty((r, n), np.uint8)
    choices = [_choices(rng, int(k_i)) for k_i in n_labels]
    parts = range(0, n, _PART)
    seeds = np.random.SeedSequence(1).spawn(len(parts))

    def fill(begin: int, seed: np.random.SeedSequence) -> None:
        mine = np.random.Generator(np.random.SFC64(seed))
        row = truth[begin : begin + _PART].astype(np.uint16) << 8
        for i, choice in enumerate(choices):
            draw = mine.integers(256, size=len(row), dtype=np.uint8)
            np.take(choice, row | draw, out=codes[i, begin : begin + len(row)])

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(fill, parts, seeds))
    return Ensemble.from_codes(codes, n_labels)


def _choices(rng: np.random.Generator, k_i: int) -> npt.NDArray[np.uint8]:
    """Return the label for each cluster and each of 256 draws, three tenths noise."""
    own = np.empty((N_CLUSTERS, 256), np.uint8)
    for k in range(N_CLUSTERS):
        own[k] = rng.choice(np.arange(k, k_i, N_CLUSTERS), size=256)
    noise = rng.random(own.shape) < 0.3
    choice = np.where(noise, rng.integers(k_i, size=own.shape), own)
    return choice.astype(np.uint8).ravel()
