"""Whether a backend can run here; if not, one sentence says why and what to do."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
import os
import tempfile
from pathlib import Path
from typing import Any

from gpu_consensus.backends.cupy.source import OLDEST
from gpu_consensus.backends.native import library
from gpu_consensus.util.warn import warn

CUPY_WHEELS = ("cupy-cuda12x", "cupy-cuda13x", "cupy")
"""Names of CuPy's wheels, and the name that conda and a source build use."""
_OLDEST_CUDA = 12  # the oldest that we have an extra for
_ELSE = "or use backend='numpy'"


class BackendError(RuntimeError):
    """A backend that was asked for by name cannot run here."""


def why_unavailable(backend: str) -> str:
    """Return why a backend cannot run here and what to do, or an empty string."""
    if backend == "numpy":
        return ""
    if backend == "cupy":
        return why_no_device()
    reason = library.why_unavailable()
    return f"{reason}; {_ELSE[3:]}, whose labels are the same." if reason else ""


def why_no_device() -> str:
    """Return why CuPy cannot be used here and what to do, or an empty string."""
    return why_cupy_is_broken() or _why_no_usable_device()


def why_cupy_is_broken() -> str:
    """Return why CuPy cannot be loaded, or an empty string."""
    if importlib.util.find_spec("cupy") is None:
        return (
            "CuPy is not installed; run pip install 'gpu-consensus[cuda12]' (or "
            f"cuda13), {_ELSE}."
        )
    wheels = installed_versions(CUPY_WHEELS)
    if len(wheels) > 1:
        named = " and ".join(f"{name} {version}" for name, version in wheels.items())
        return (
            f"{named} are installed at once and spoil each other; run pip uninstall -y "
            f"{' '.join(wheels)}, then pip install 'gpu-consensus[cuda12]' (or "
            f"cuda13), {_ELSE}."
        )
    _find_kernel_cache()
    broken = why_not_imported("cupy")
    return broken and f"{broken}, {_ELSE}."


def _why_no_usable_device() -> str:
    import cupy

    runtime = cupy.cuda.runtime
    driver, toolkit = runtime.driverGetVersion(), runtime.runtimeGetVersion()
    if driver == 0:
        return (
            "CuPy is installed but there is no NVIDIA driver; install it, start a "
            f"container with --gpus all, {_ELSE}."
        )
    known, made_for = driver // 1000, toolkit // 1000
    if known < made_for:
        cure = "update the driver"
        if known >= _OLDEST_CUDA:
            cure += (
                f", run pip install 'gpu-consensus[cuda{known}]' in place of "
                f"cuda{made_for}"
            )
        return (
            f"the NVIDIA driver knows CUDA {version_text(driver)} but CuPy is made for "
            f"CUDA {version_text(toolkit)}; {cure}, {_ELSE}."
        )
    if not cupy.cuda.is_available():
        return (
            "CuPy is installed but finds no usable CUDA device; check the driver with "
            f"nvidia-smi, {_ELSE}."
        )
    capability = cupy.cuda.Device().compute_capability
    has = f"the CUDA device has compute capability {capability[:-1]}.{capability[-1]}"
    if int(capability) < 10 * OLDEST[0] + OLDEST[1]:
        return (
            f"{has} but at least {OLDEST[0]}.{OLDEST[1]} is needed; use a newer "
            "device, or backend='numpy'."
        )
    # CUDA 13 compiles for nothing older
    if int(capability) < 75 and toolkit >= 13_000:
        return (
            f"{has} but CUDA 13 needs at least 7.5; run pip install "
            f"'gpu-consensus[cuda12]' in place of cuda13, {_ELSE}."
        )
    return ""


def why_not_imported(module: str) -> str:
    """Return why an installed module cannot be loaded, or an empty string.

    Libraries that do not fit each other, or are not found, raise errors of any kind.
    """
    try:
        importlib.import_module(module)
    except Exception as error:
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        return f"{module} is installed but cannot be imported ({reason}); mend it"
    return ""


def require_device() -> Any:
    """Return the cupy module, or raise and say what is missing."""
    reason = why_no_device()
    if reason:
        raise BackendError(f"backend='cupy' cannot run: {reason}")
    import cupy

    return cupy


def installed_versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    versions = {}
    for package in packages:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def version_text(version: int) -> str:
    """Write CUDA's number of a version as people do.

    Examples
    --------
    >>> version_text(12090)
    '12.9'
    """
    return f"{version // 1000}.{version % 1000 // 10}"


def _find_kernel_cache() -> None:
    """Let CuPy keep compiled kernels in memory where it cannot write them to disk.

    Otherwise its import fails, or the first kernel that it compiles, ours or its own.
    """
    if os.environ.get("CUPY_CACHE_IN_MEMORY", "0") not in ("", "0"):
        return
    folder = os.environ.get("CUPY_CACHE_DIR", "~/.cupy/kernel_cache")
    reason = _why_not_written(folder)
    if not reason:
        return
    warn(
        f"CuPy cannot keep compiled kernels in {folder!r} ({reason}), so every process "
        "compiles them anew, for some seconds; set CUPY_CACHE_DIR to a folder that may "
        "be written."
    )
    os.environ["CUPY_CACHE_IN_MEMORY"] = "1"
    # CuPy wants a folder that is there, and then leaves it alone
    os.environ["CUPY_CACHE_DIR"] = str(Path(__file__).parent)


@functools.cache
def _why_not_written(folder: str) -> str:
    """Return why no file can be written in a folder, which is made if need be."""
    try:
        path = Path(folder).expanduser()
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return ""
    except OSError as error:
        return error.strerror or str(error)
    except RuntimeError as error:  # a user without a home: CuPy would make a folder "~"
        return str(error).rstrip(".")
