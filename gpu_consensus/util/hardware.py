"""What the machine is, for reports and benchmarks; nothing that names it."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def cpu_model() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def memory_gb() -> float | None:
    """Return the size of the memory, None where the system does not say."""
    try:
        size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
    return round(size / 1e9, 1)
