"""What the device could do at best: its own copies, measured on the spot."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.accept.clock import Clock
from gpu_consensus.accept.private import redact
from gpu_consensus.accept.run import Context, JsonObject
from gpu_consensus.backends.cupy.launcher import Launcher
from gpu_consensus.backends.cupy.source import shared_read_kernel

_WORDS = 1024  # 16 KiB of shared memory, so that several blocks fit a processor
_STEP = 40
_READS = 8  # in a round, as in bandwidth.cu


def measure_roofs(context: Context, results: JsonObject) -> str:
    """Measure bandwidths and latencies of the current device."""
    gpu = Launcher()
    clock = Clock(gpu.xp)
    nbytes = min(context.sizes.copied, gpu.free_memory() // 8)
    repeats = context.sizes.repeats
    results["timed_by"] = clock.how
    results["copied_bytes"] = nbytes
    context.advance(1, "copies on the device")
    results["copy_bytes_per_s"] = _device_copy(clock, nbytes, repeats)
    context.advance(1, "shared memory")
    speed, right = _shared_read(gpu, clock, context.sizes.rounds, repeats)
    results["shared_bytes_per_s"] = speed
    context.advance(1, "copies to and from the host")
    results["transfers"] = _transfers(clock, nbytes, repeats)
    context.advance(1, "launches")
    results["launch_s"], results["launch_and_wait_s"] = _launches(gpu, clock, repeats)
    return "" if right else "shared_read gives wrong sums"


def _device_copy(clock: Clock, nbytes: int, repeats: int) -> float:
    """Return bytes per second that are read or written."""
    here, there = clock.xp.zeros(nbytes, np.uint8), clock.xp.empty(nbytes, np.uint8)

    def copy() -> None:
        there[...] = here

    return 2 * nbytes / clock.median(copy, repeats)


def _shared_read(
    gpu: Launcher, clock: Clock, rounds: int, repeats: int
) -> tuple[float, bool]:
    """Return bytes per second, and whether what was read is right."""
    kernel = shared_read_kernel()
    # whole waves, whether 2, 3 or 4 blocks fit a multiprocessor
    blocks = 12 * gpu.n_processors
    sums = gpu.xp.empty(blocks * kernel.threads, np.uint32)

    def read() -> None:
        gpu.launch(
            kernel,
            (blocks,),
            (kernel.threads,),
            (np.int32(rounds), np.uint32(_WORDS), np.uint32(_STEP), sums),
            shared=16 * _WORDS,
        )

    seconds = clock.median(read, repeats)
    expected = np.tile(_expected_sums(kernel.threads, rounds), blocks)
    nbytes = 16 * sums.size * rounds * _READS
    return nbytes / seconds, bool(np.array_equal(gpu.xp.asnumpy(sums), expected))


def _expected_sums(threads: int, rounds: int) -> npt.NDArray[np.uint32]:
    """Return what each thread of ``shared_read`` adds up."""
    first = np.arange(threads, dtype=np.uint64)
    reads = np.arange(rounds * _READS, dtype=np.uint64)
    # where a thread reads depends on its number and on the read modulo the words
    at = (first[:, None] + _STEP * reads[:_WORDS]) % _WORDS
    times = np.bincount(reads.astype(np.int64) % _WORDS, minlength=at.shape[1])
    factor = 1 + 7 * 2 + 11 * 3 + 13 * 5
    total = factor * (at * times.astype(np.uint64)).sum(axis=1)
    sums: npt.NDArray[np.uint32] = (total % 2**32).astype(np.uint32)
    return sums


def _transfers(clock: Clock, nbytes: int, repeats: int) -> JsonObject:
    """Return bytes per second between host and device, by kind of host memory."""
    xp, speeds = clock.xp, JsonObject()
    there = xp.zeros(nbytes, np.uint8)
    for kind in ("pageable", "pinned"):
        try:
            here = np.zeros(nbytes, np.uint8) if kind == "pageable" else _pinned(nbytes)
        except (MemoryError, xp.cuda.runtime.CUDARuntimeError) as error:
            speeds[kind] = f"not run: {redact(error)}"  # small containers allow little
            continue
        here[:] = 1  # the system gives memory when it is first written

        def up(here: Any = here) -> None:
            there.set(here)

        def down(here: Any = here) -> None:
            there.get(out=here)

        speeds[kind] = {
            "to_device_bytes_per_s": nbytes / clock.waited(up, repeats),
            "to_host_bytes_per_s": nbytes / clock.waited(down, repeats),
        }
    return speeds


def _pinned(nbytes: int) -> npt.NDArray[np.uint8]:
    import cupyx

    memory: npt.NDArray[np.uint8] = cupyx.empty_pinned(nbytes, dtype=np.uint8)
    return memory


def _launches(gpu: Launcher, clock: Clock, repeats: int) -> tuple[float, float]:
    """Return seconds of a launch among many, and of one that is waited for."""
    kernel = shared_read_kernel()
    sums = gpu.xp.empty(kernel.threads, np.uint32)
    arguments = (np.int32(0), np.uint32(_WORDS), np.uint32(_STEP), sums)

    def launch() -> None:
        gpu.launch(kernel, (1,), (kernel.threads,), arguments, shared=16 * _WORDS)

    number = 100 * repeats

    def many() -> None:
        for _ in range(number):
            launch()

    return clock.waited(many, 1) / number, clock.waited(launch, 10 * repeats)
