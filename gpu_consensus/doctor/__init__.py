"""What runs on this machine, and why something does not."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from dataclasses import asdict, dataclass
from typing import Any

from gpu_consensus.backends import NAMES, choose_backend, why_no_device, why_unavailable
from gpu_consensus.backends.numpy_backend import n_threads

_PACKAGES = (
    "gpu-consensus",
    "numpy",
    "scipy",
    "scikit-learn",
    "numba",
    "rich",
    "cupy-cuda12x",
    "cupy-cuda13x",
    "cuml-cu12",
    "cuml-cu13",
    "distributed",
)


@dataclass(frozen=True)
class Diagnosis:
    """What :func:`doctor` found; print it, or take ``as_dict()``.

    Attributes
    ----------
    python, machine : str
    n_threads : int
        Threads that CPU backends use by default.
    packages : dict
        Version of every package that matters, None where it is absent.
    devices : list of dict
        CUDA devices.
    backends : dict
        For each backend an empty string, or why it cannot run and what to do.
    auto : str
        What ``backend="auto"`` chooses for arrays on the host.
    """

    python: str
    machine: str
    n_threads: int
    packages: dict[str, str | None]
    devices: list[dict[str, Any]]
    backends: dict[str, str]
    auto: str

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [
            f"python    {self.python} on {self.machine}, {self.n_threads} threads",
            f"auto      {self.auto}",
        ]
        for name, reason in self.backends.items():
            lines.append(f"{name:<9} {reason or 'works'}")
        for device in self.devices:
            lines.append(
                f"device    {device['name']}, compute {device['compute_capability']}, "
                f"{device['memory_gb']:.1f} GB"
            )
        for name, version in self.packages.items():
            lines.append(f"package   {name} {version or 'not installed'}")
        return "\n".join(lines)


def doctor() -> Diagnosis:
    """Look at this machine: backends, devices, versions.

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> gpc.doctor().backends["numpy"]
    ''
    """
    return Diagnosis(
        python=sys.version.split()[0],
        machine=f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        n_threads=n_threads(None),
        packages={name: _version(name) for name in _PACKAGES},
        devices=_devices(),
        backends={name: why_unavailable(name) for name in NAMES if name != "auto"},
        auto=choose_backend("auto", None).name,
    )


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _devices() -> list[dict[str, Any]]:
    if why_no_device():
        return []
    import cupy

    found = []
    for index in range(cupy.cuda.runtime.getDeviceCount()):
        properties = cupy.cuda.runtime.getDeviceProperties(index)
        found.append(
            {
                "name": properties["name"].decode(),
                "compute_capability": f"{properties['major']}.{properties['minor']}",
                "memory_gb": properties["totalGlobalMem"] / 1e9,
            }
        )
    return found
