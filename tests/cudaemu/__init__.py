"""CUDA kernels on the CPU, for tests: the real ``.cu`` text, executed and checked.

Each CUDA thread is a fiber, and g++ compiles the kernel behind ``cuda_emu.h``. Three
modes, because one alone misses a third of the bugs:

- ``fast``: wrong results (in any thread order, with poisoned memory), barriers that
  diverge, wrong masks, bad launch arguments;
- ``asan``: also accesses out of bounds and undefined behaviour, by the compiler's own
  sanitizers, in a process of its own (:func:`run_asan`);
- ``check``: also data races, shared memory that is read before it is written, bounds
  and alignment; and memory traffic by source line (sectors, bank conflicts).

Streams are a setting of their own (``stream.py``): their work may be queued and done
as late, as early, or in as odd an order as the program's waits allow, on memory that
CuPy's pool hands out again at once.

What no mode sees: fused multiply-add, speed, blocks that wait for each other, several
devices at work at once.

:func:`make_cupy` builds a stand-in for CuPy on top, :func:`installed` makes it
importable.
"""

from cudaemu.asan import run_asan
from cudaemu.build import require_compiler, why_no_compiler
from cudaemu.config import MODES, ORDERS, STREAMS, config, configured
from cudaemu.device import DeviceSpec
from cudaemu.errors import ArgumentMismatch, KernelFault
from cudaemu.fakecupy import adopt, installed, make_cupy
from cudaemu.launch import recording
from cudaemu.report import Report, Site

__all__ = [
    "MODES",
    "ORDERS",
    "STREAMS",
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
