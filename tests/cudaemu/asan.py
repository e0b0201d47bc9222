"""Run Python under AddressSanitizer, which must be loaded before everything else."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]


def run_asan(*arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run ``python *arguments`` with kernels in asan mode.

    ``run_asan("-c", snippet)`` or ``run_asan("-m", "pytest", path)``. A finding ends
    the process with a code other than 0; stdout holds all output.
    """
    libraries = [_library(name) for name in ("libasan.so", "libubsan.so")]
    environment = {
        **os.environ,
        "CUDAEMU_MODE": "asan",
        "LD_PRELOAD": " ".join(libraries),
        "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
        # Python itself never frees all it allocates
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )


def _library(name: str) -> str:
    command = ["g++", f"-print-file-name={name}"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    return found.stdout.strip()
