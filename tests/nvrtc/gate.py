"""Every form of every kernel, compiled for every architecture as CuPy would do it."""

import multiprocessing
import os
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor

from gpu_consensus.backends.cupy.source import (
    OPTIONS,
    Kernel,
    all_kernels,
    measuring_kernels,
    source,
)
from nvrtc.architectures import (
    ARCHITECTURES,
    REGISTERS,
    WARP,
    Architecture,
    registers_of_warp,
)
from nvrtc.binding import compile_text
from nvrtc.launches import Launch
from nvrtc.usage import Usage, complaints, read_usage

Usages = dict[int, dict[Kernel, Usage]]
"""What each kernel takes, by the number of the architecture."""


def cupy_options(architecture: Architecture) -> tuple[str, ...]:
    """Return the options of CuPy 13 and 14 for a RawModule with our options.

    Besides these, CuPy passes folders of headers; our text includes none, and would not
    compile here if it did.
    """
    return (
        *OPTIONS,
        "-ftz=true",
        "--device-as-default-execution-space",
        f"-arch={architecture.name}",
    )


def compile_one(
    kernel: Kernel, architecture: Architecture
) -> tuple[dict[str, Usage], list[str]]:
    """Return the usage of every entry point of the kernel's file, and the warnings."""
    options = (*cupy_options(architecture), "--ptxas-options=-v")
    done = compile_text(kernel.macros + source(kernel.file), options)
    return read_usage(done.ptx, done.log), complaints(done.log)


def compile_all() -> tuple[Usages, list[str]]:
    """Compile all forms for all architectures; return their usage, and all warnings."""
    architectures = ARCHITECTURES.values()
    kernels = all_kernels() + measuring_kernels()
    # two kernels of one file with the same macros come out of one compilation
    forms = {(kernel.file, kernel.macros): kernel for kernel in kernels}
    jobs = [(form, where) for form in forms.values() for where in architectures]
    # processes: NVRTC makes threads wait for each other; new ones, since those of the
    # caller may have threads
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        found = pool.map(compile_one, *zip(*jobs, strict=True))
        done = dict(zip(jobs, found, strict=True))
    usages: Usages = {where.number: {} for where in architectures}
    for kernel in kernels:
        form = forms[kernel.file, kernel.macros]
        for where in architectures:
            usages[where.number][kernel] = done[form, where][0][kernel.name]
    warnings = [
        f"{form} on {where.name}: {line}"
        for (form, where), (_, lines) in done.items()
        for line in lines
    ]
    return usages, warnings


def faults(
    kernel: Kernel, usage: Usage, where: Architecture, launches: Iterable[Launch] = ()
) -> list[str]:
    """Return what is wrong with a compiled kernel, and with its launches."""
    found = []
    if usage.spill_stores or usage.spill_loads:
        found.append(
            f"{usage.spill_stores} bytes of spill stores, {usage.spill_loads} of loads"
        )
    if usage.stack:
        found.append(f"a stack of {usage.stack} bytes")
    if usage.max_threads != kernel.threads:
        found.append(f"__launch_bounds__ of {usage.max_threads} threads")
    of_block = registers_of_warp(usage.registers) * -(-kernel.threads // WARP)
    if of_block > REGISTERS:
        found.append(f"{of_block} registers for a block of {kernel.threads} threads")
    together = where.blocks_together(usage.registers, kernel.threads, usage.shared)
    if together < usage.min_blocks:
        found.append(f"{together} blocks together, {usage.min_blocks} promised")
    for launch in launches:
        if launch.kernel == kernel:
            found += _launch_faults(launch, usage, where)
    return [f"{kernel} on {where.name}: {fault}" for fault in found]


def _launch_faults(launch: Launch, usage: Usage, where: Architecture) -> list[str]:
    found = []
    if launch.threads > usage.max_threads:
        found.append(f"launched with {launch.threads} threads")
    if launch.shared > launch.allowed:
        found.append(f"{launch.shared} dynamic bytes, {launch.allowed} allowed")
    if usage.shared + launch.shared > where.shared_limit:
        found.append(f"{usage.shared} + {launch.shared} bytes of shared memory")
    if not where.blocks_together(
        usage.registers, launch.threads, usage.shared + launch.shared
    ):
        found.append(f"no room for a block with {launch.shared} dynamic bytes")
    return found
