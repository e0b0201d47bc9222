"""What runs on this machine, and why the rest does not."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from gpu_consensus.backends import NAMES, choose_backend, why_unavailable
from gpu_consensus.backends.availability import (
    CUPY_WHEELS,
    installed_versions,
    version_text,
)
from gpu_consensus.backends.native import library
from gpu_consensus.backends.numpy import n_threads
from gpu_consensus.doctor.cuml import check_cuml
from gpu_consensus.doctor.self_test import self_test

_PACKAGES = (
    ("gpu-consensus",),
    ("numpy",),
    ("scipy",),
    ("scikit-learn",),
    ("rich",),
    CUPY_WHEELS,
    ("cuml-cu12", "cuml-cu13", "cuml"),
    ("distributed",),
)


@dataclass(frozen=True)
class Diagnosis:
    """What :func:`doctor` found; print it, or take ``as_dict()``.

    Attributes
    ----------
    python, machine : str
    n_threads : int or str
        Threads that CPU backends use by default, or why that is unknown.
    packages : dict
        Version of every package that matters, None where it is absent.
    native : dict
        ``level`` of the compiled code that was loaded, such as "x86-64-v3", and
        ``build``, compiler and flags as the library states them; empty where there is
        none, and ``backends`` says why.
    cuda : dict
        Versions of driver, runtime and NVRTC as CuPy sees them; empty without CuPy.
    devices : list of dict
        CUDA devices.
    backends : dict
        For each backend an empty string, or why it cannot run and what to do.
    self_test : dict
        For each backend that was tested an empty string, or what is wrong with it: how
        it differs from numpy, or the error that ended the test. Empty with ``quick``.
    auto : str
        What ``backend="auto"`` chooses, and why; or why it cannot choose.
    """

    python: str
    machine: str
    n_threads: int | str
    packages: dict[str, str | None]
    native: dict[str, str]
    cuda: dict[str, str]
    devices: list[dict[str, Any]]
    backends: dict[str, str]
    self_test: dict[str, str]
    auto: str

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        unknown = isinstance(self.n_threads, str)
        lines = [
            f"python    {self.python} on {self.machine}",
            f"threads   {'WRONG SETTING: ' if unknown else ''}{self.n_threads}",
            f"auto      {self.auto}",
        ]
        for name, reason in self.backends.items():
            wrong = self.self_test.get(name, "can run (not tested)")
            lines.append(f"{name:<9} {reason or wrong or 'works'}")
        if self.native:
            lines.append(f"compiled  {self.native['level']}, {self.native['build']}")
        for part, number in self.cuda.items():
            lines.append(f"cuda      {part} {number}")
        for device in self.devices:
            lines.append(
                f"device    {device['name']}, compute {device['compute_capability']}, "
                f"{device['memory_gb']:.1f} GB"
            )
        for name, version in self.packages.items():
            lines.append(f"package   {name} {version or 'not installed'}")
        return "\n".join(lines)

    @property
    def healthy(self) -> bool:
        """Whether every backend that can run gives the reference's results."""
        return not any(self.self_test.values())


def doctor(*, quick: bool = False) -> Diagnosis:
    """Look at this machine: backends, devices, versions, and a test of each backend.

    On a machine with a GPU this is the first thing to run: it compares every primitive
    of every backend, and a few fits, with the reference and finds a wrong kernel.
    Whatever is broken is written to the report and not raised. It takes seconds.

    Parameters
    ----------
    quick : bool, default False
        Leave the tests out and only list what is installed, in about a second.

    Returns
    -------
    Diagnosis

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> gpc.doctor().backends["numpy"]
    ''
    """
    reasons = {name: _try(why_unavailable, name) for name in NAMES if name != "auto"}
    return Diagnosis(
        python=sys.version.split()[0],
        machine=f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        n_threads=_threads(),
        packages=_packages(),
        native=_native(),
        cuda=_cuda(),
        devices=_devices(),
        backends=reasons,
        self_test={
            name: _try(_test, name)
            for name, reason in reasons.items()
            if not reason and not quick
        },
        auto=_auto(),
    )


def _try(ask: Callable[[str], str], name: str) -> str:
    """Return the answer, or what went wrong: a broken CuPy can raise anything."""
    try:
        return ask(name)
    except Exception as error:
        return _error_text(error)


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _test(name: str) -> str:
    """Return what is wrong with a backend, on every device that it can use."""
    if name != "cupy":
        return _compare(name)
    import cupy

    for index in range(cupy.cuda.runtime.getDeviceCount()):
        with cupy.cuda.Device(index):
            wrong = "" if why_unavailable("cupy") else _compare("cupy")
        if wrong:
            return f"device {index}: {wrong}"
    return ""


def _compare(name: str) -> str:
    try:
        wrong = self_test(choose_backend(name, None, n_jobs=-1))
        if name == "cupy":
            wrong = wrong or check_cuml()
    except Exception as error:
        return f"FAILED, do not use it: {_error_text(error)}"
    return wrong and f"WRONG RESULTS, do not use it: {wrong}"


def _threads() -> int | str:
    try:
        return n_threads(None)
    except (ValueError, TypeError) as error:
        return str(error)


def _auto() -> str:
    wish = os.environ.get("GPU_CONSENSUS_BACKEND")
    try:
        name = choose_backend("auto", None, n_jobs=1, lookups=2**62).name
    except Exception as error:
        setting = f" (GPU_CONSENSUS_BACKEND is {wish!r})" if wish else ""
        return f"nothing{setting}: {' '.join(str(error).split())}"
    if wish and wish != "auto":
        return f"{name}, because GPU_CONSENSUS_BACKEND says so"
    if name == "cupy":
        cpu = "numpy" if why_unavailable("native") else "native"
        return (
            "cupy for large work and for codes on the device, because a CUDA device "
            f"is usable; {cpu} for what is done before a device has started"
        )
    bare = " and there is no compiled code" if name == "numpy" else ""
    return f"{name}, because no CUDA device is usable{bare}"


def _native() -> dict[str, str]:
    """Return level, compiler and flags of the compiled code."""
    try:
        loaded = library.load()
    except Exception:  # told with the backends
        return {}
    return {"level": loaded.level, "build": loaded.build}


def _cuda() -> dict[str, str]:
    """Return versions, also where no device is usable: they often show why."""
    try:
        import cupy
    except Exception:  # told with the backends
        return {}

    runtime = cupy.cuda.runtime
    asked: dict[str, Callable[[str], str]] = {
        "driver": lambda _: (
            version_text(runtime.driverGetVersion())
            if runtime.driverGetVersion()
            else "not installed"
        ),
        "runtime": lambda _: version_text(runtime.runtimeGetVersion()),
        "nvrtc": lambda _: ".".join(str(n) for n in cupy.cuda.nvrtc.getVersion()),
    }
    return {part: _try(ask, part) for part, ask in asked.items()}


def _packages() -> dict[str, str | None]:
    """Return versions by name; of several names of one package, the installed ones."""
    versions: dict[str, str | None] = {}
    for names in _PACKAGES:
        there = installed_versions(names)
        versions |= there if there else {names[-1]: None}
    return versions


def _devices() -> list[dict[str, Any]]:
    """Return all devices, also those that are too old: another may be chosen."""
    try:
        import cupy

        number = cupy.cuda.runtime.getDeviceCount()
    except Exception:  # told with the backends
        return []
    return [_device(index) for index in range(number)]


def _device(index: int) -> dict[str, Any]:
    import cupy

    try:
        properties = cupy.cuda.runtime.getDeviceProperties(index)
    except Exception as error:
        return {"name": _error_text(error), "compute_capability": "?", "memory_gb": 0.0}
    return {
        "name": properties["name"].decode(),
        "compute_capability": f"{properties['major']}.{properties['minor']}",
        "memory_gb": properties["totalGlobalMem"] / 1e9,
    }
