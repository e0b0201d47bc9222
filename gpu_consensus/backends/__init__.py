"""Where arrays live: the only code of the package that knows.

Algorithms are written once, above :class:`~gpu_consensus.backends.protocol.Backend`.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import Any

from gpu_consensus.arrays import on_device
from gpu_consensus.backends.cuda_source import OLDEST
from gpu_consensus.backends.numpy_backend import NumpyBackend, n_threads
from gpu_consensus.backends.protocol import Backend
from gpu_consensus.checks import check_choice

NAMES = ("auto", "cupy", "numba", "numpy")
_WORTH_NUMBA = 1 << 20


class BackendError(RuntimeError):
    """A backend that was asked for by name cannot run here."""


def choose_backend(
    backend: str,
    codes: Any,
    n_jobs: int | None = None,
    *,
    lookups: int | None = None,
) -> Backend:
    """Return the backend that a method's ``backend`` argument means.

    An explicit name runs or raises; ``GPU_CONSENSUS_BACKEND`` overrides only "auto".

    Parameters
    ----------
    backend : {"auto", "cupy", "numba", "numpy"}
    codes : array or None
        Where they are decides, if they are on a device.
    n_jobs : int, optional
        Threads of a CPU backend.
    lookups : int, optional
        n r K n_init, the size of the work; below 2**20 "auto" leaves numba alone,
        which takes longer to load. The number of codes by default.
    """
    check_choice("backend", backend, NAMES)
    n_threads(n_jobs)  # a wrong number is wrong on every backend
    if backend == "auto":
        wish = os.environ.get("GPU_CONSENSUS_BACKEND", "").strip() or "auto"
        backend = check_choice("GPU_CONSENSUS_BACKEND", wish, NAMES)
    if backend == "auto":
        backend = _automatic(codes, lookups)
    reason = why_unavailable(backend)
    if reason:
        raise BackendError(f"backend={backend!r} cannot run: {reason}")
    if backend == "cupy":
        from gpu_consensus.backends.cupy_backend import CupyBackend

        return CupyBackend()
    if backend == "numba":
        from gpu_consensus.backends.numba_backend import NumbaBackend

        return NumbaBackend(n_jobs)
    return NumpyBackend(n_jobs)


def _automatic(codes: Any, lookups: int | None) -> str:
    """Return what "auto" means for codes of a place and work of a size."""
    if on_device(codes) or not why_unavailable("cupy"):
        return "cupy"
    if lookups is None:
        lookups = 0 if codes is None else int(codes.size)
    small = lookups < _WORTH_NUMBA
    return "numpy" if small or why_unavailable("numba") else "numba"


def why_unavailable(backend: str) -> str:
    """Return why a backend cannot run here and what to do, or an empty string."""
    if backend == "numpy":
        return ""
    if backend == "cupy":
        return why_no_device()
    if importlib.util.find_spec("numba") is None:
        return (
            "numba is not installed; run pip install numba, or use backend='numpy', "
            "whose labels are the same."
        )
    broken = why_not_imported("numba")
    return broken and f"{broken}, or use backend='numpy', whose labels are the same."


def why_no_device() -> str:
    """Return why CuPy cannot be used here and what to do, or an empty string."""
    if importlib.util.find_spec("cupy") is None:
        return (
            "CuPy is not installed; run pip install 'gpu-consensus[cuda12]' (or "
            "cuda13), or use backend='numpy'."
        )
    broken = why_not_imported("cupy")
    if broken:
        return f"{broken}, or use backend='numpy'."
    import cupy

    if not cupy.cuda.is_available():
        return (
            "CuPy is installed but finds no usable CUDA device; check the driver with "
            "nvidia-smi, or use backend='numpy'."
        )
    capability = cupy.cuda.Device().compute_capability
    has = f"the CUDA device has compute capability {capability[:-1]}.{capability[-1]}"
    if int(capability) < 10 * OLDEST[0] + OLDEST[1]:
        return (
            f"{has} but at least {OLDEST[0]}.{OLDEST[1]} is needed; use a newer "
            "device, or backend='numpy'."
        )
    # CUDA 13 compiles for nothing older
    if int(capability) < 75 and cupy.cuda.runtime.runtimeGetVersion() >= 13_000:
        return (
            f"{has} but CUDA 13 needs at least 7.5; run pip install "
            "'gpu-consensus[cuda12]' in place of cuda13, or use backend='numpy'."
        )
    return ""


def why_not_imported(module: str) -> str:
    """Return why an installed module cannot be loaded, or an empty string.

    A numba older than NumPy, or libraries that are not found, raise errors of any kind.
    """
    try:
        importlib.import_module(module)
    except Exception as error:
        told = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        return f"{module} is installed but cannot be imported ({told}); mend it"
    return ""


def require_device() -> Any:
    """Return the cupy module, or raise and say what is missing."""
    reason = why_no_device()
    if reason:
        raise BackendError(f"backend='cupy' cannot run: {reason}")
    import cupy

    return cupy
