"""What the run ran on: plain facts, nothing that names a person or a machine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpu_consensus.accept.private import redact
from gpu_consensus.util.hardware import cpu_model, memory_gb

_DRIVER_FILES = ("nvidia", "dxg", "nvmap", "nvhost", "nvgpu")
"""Beginnings of the names in /dev of NVIDIA's driver, dxg that of Windows under WSL."""
_ATTRIBUTES = {
    "clock_mhz": ("ClockRate", 1e-3),
    "memory_clock_mhz": ("MemoryClockRate", 1e-3),
    "memory_bus_bits": ("GlobalMemoryBusWidth", 1),
    "l2_mb": ("L2CacheSize", 1e-6),
    "multiprocessors": ("MultiProcessorCount", 1),
    "shared_kb_per_multiprocessor": ("MaxSharedMemoryPerMultiprocessor", 1 / 1024),
}


def why_no_gpu(root: Path = Path("/")) -> str:
    """Return why CuPy's calls are not answered by a GPU, or an empty string.

    A stand-in for CuPy has no file. A stand-in for the driver opens no file of the
    driver: every process that uses a GPU holds some of them open (``fuser
    /dev/nvidia*`` finds such processes by that). Where a system does not list open
    files, as on Windows, an installed package is enough.

    Parameters
    ----------
    root : Path, default Path("/")
        Where ``proc`` is.
    """
    import cupy

    file = getattr(cupy, "__file__", None)
    if file is None or not Path(file).is_file():
        return "the module cupy is a stand-in without a file"
    open_files = root / "proc/self/fd"
    if not open_files.is_dir():
        installed = "cupy" in importlib.metadata.packages_distributions()
        return "" if installed else "the module cupy is of no installed package"
    with suppress(Exception):  # every step reports a device that fails
        cupy.zeros(1)  # the driver opens its files for the first work
    for entry in open_files.iterdir():
        try:
            target = entry.readlink()
        except OSError:  # the one that lists the folder is gone by now
            continue
        _, *folders, name = ("", *target.parts)
        if folders[:2] == ["/", "dev"] and name.startswith(_DRIVER_FILES):
            return ""
    return "this process holds no file of NVIDIA's driver open, so another answered"


def describe() -> dict[str, Any]:
    """Return facts on the host and on the CUDA devices."""
    import cupy

    number = cupy.cuda.runtime.getDeviceCount()
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "memory_gb": memory_gb(),
        "os": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "current_device": int(cupy.cuda.Device().id),
        "devices": [_device(index) for index in range(number)],
    }


def _device(index: int) -> dict[str, Any]:
    import cupy

    try:
        properties = cupy.cuda.runtime.getDeviceProperties(index)
        attributes = cupy.cuda.Device(index).attributes
    except Exception as error:  # one that fails must not hide the others
        return {"name": redact(error), "compute_capability": "?", "memory_gb": 0.0}
    return {
        "name": properties["name"].decode(),
        "compute_capability": f"{properties['major']}.{properties['minor']}",
        "memory_gb": round(properties["totalGlobalMem"] / 1e9, 2),
        **{
            name: round(attributes[key] * unit, 1)
            for name, (key, unit) in _ATTRIBUTES.items()
            if attributes.get(key)  # newer versions of CUDA do not report clocks
        },
    }
