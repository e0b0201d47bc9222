"""CUDA kernels on the CPU, for tests: the real ``.cu`` text, executed and checked.

Each CUDA thread is a fiber, and g++ compiles the kernel behind ``cuda_emu.h``. Three
modes, because one alone misses a third of the bugs:

- ``fast``: wrong results (in any thread order, with poisoned memory), barriers that
  diverge, wrong masks, bad launch arguments;
- ``asan``: also accesses out of bounds and undefined behaviour, by the compiler's own
  sanitizers, in a process of its own (:func:`run_asan`);
- ``check``: also data races, shared memory that is read before it is written, bounds
  and alignment; and memory traffic by source line (sectors, bank conflicts).

What no mode sees: fused multiply-add, speed, streams that do not wait for each other,
blocks that wait for each other.

:func:`make_cupy` builds a stand-in for CuPy on top, :func:`installed` makes it
importable.
"""

from cudaemu.asan import run_asan
from cudaemu.build import require_compiler, why_no_compiler
from cudaemu.config import MODES, ORDERS, config, configured
from cudaemu.device import DeviceSpec
from cudaemu.errors import ArgumentMismatch, KernelFault
from cudaemu.fakecupy import adopt, installed, make_cupy
from cudaemu.launch import recording
from cudaemu.report import Report, Site

__all__ = [
    "MODES",
    "ORDERS",
    "ArgumentMismatch",
    "DeviceSpec",
    "KernelFault",
    "Report",
    "Site",
    "adopt",
    "config",
    "configured",
    "installed",
    "make_cupy",
    "recording",
    "require_compiler",
    "run_asan",
    "why_no_compiler",
]
