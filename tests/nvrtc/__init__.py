"""The CUDA kernels through NVIDIA's own compiler, for tests: no GPU and no driver.

NVRTC, the compiler that CuPy calls on a user's machine, comes as a wheel and runs
anywhere. Its assembler says how many registers and bytes a kernel takes, so what fits
and what spills is known before the first launch:

- ``binding``: NVRTC through ctypes;
- ``usage``: what the assembler says of a kernel;
- ``architectures``: what a multiprocessor has, and what fits on it;
- ``launches``: the launches of the package's backend, recorded and not run;
- ``gate``: every form of every kernel, compiled for every architecture;
- ``readme``: the tables in ``cuda_kernels/README.md``.

From the root of a checkout, ``PYTHONPATH=tests python -m nvrtc`` prints the tables, and
with ``--write`` puts them into that file.
"""

from nvrtc.architectures import ARCHITECTURES, Architecture
from nvrtc.binding import CompileError, require_nvrtc, why_no_nvrtc
from nvrtc.gate import compile_all, faults
from nvrtc.launches import Launch, Problem, record
from nvrtc.usage import Usage

__all__ = [
    "ARCHITECTURES",
    "Architecture",
    "CompileError",
    "Launch",
    "Problem",
    "Usage",
    "compile_all",
    "faults",
    "record",
    "require_nvrtc",
    "why_no_nvrtc",
]
