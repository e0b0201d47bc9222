"""Which backend a call means: by name, as an object, or by the size of the work."""

from __future__ import annotations

import functools
import importlib.util
import os
from typing import Any

from gpu_consensus.backends import worth
from gpu_consensus.backends.availability import (
    BackendError,
    why_cupy_is_broken,
    why_unavailable,
)
from gpu_consensus.backends.numpy import NumpyBackend, n_threads
from gpu_consensus.backends.protocol import Backend
from gpu_consensus.util.arrays import on_device
from gpu_consensus.util.checks import check_choice
from gpu_consensus.util.numbers import shown
from gpu_consensus.util.warn import warn

NAMES = ("auto", "cupy", "native", "numpy")
MEMBERS = ("name", "xp", *(name for name in vars(Backend) if name[0] != "_"))
"""What every backend has."""


def choose_backend(
    backend: str | Backend,
    codes: Any,
    n_jobs: int | None = None,
    *,
    lookups: int | None = None,
) -> Backend:
    """Return the backend that a method's ``backend`` argument means.

    An explicit name runs or raises; ``GPU_CONSENSUS_BACKEND`` overrides only "auto".

    Parameters
    ----------
    backend : {"auto", "cupy", "native", "numpy"} or Backend
        An object with every member of the Protocol is returned as it is.
    codes : array or None
        If they are on a device, "auto" means "cupy".
    n_jobs : int, optional
        Threads of a CPU backend.
    lookups : int, optional
        n r K n_init, the size of the work: "auto" takes a device for codes on the host
        where that pays for its start. The number of codes by default.
    """
    n_threads(n_jobs)  # check it whichever backend is chosen
    if not isinstance(backend, str):
        return _check_backend(backend, codes)
    check_choice("backend", backend, NAMES)
    if backend == "auto":
        wish = os.environ.get("GPU_CONSENSUS_BACKEND", "").strip() or "auto"
        backend = check_choice("GPU_CONSENSUS_BACKEND", wish, NAMES)
    if backend == "auto":
        backend = _automatic(codes, lookups)
    reason = why_unavailable(backend)
    if reason:
        raise BackendError(f"backend={backend!r} cannot run: {reason}")
    if backend == "cupy":
        from gpu_consensus.backends.cupy.backend import CupyBackend

        return CupyBackend()
    if backend == "native":
        from gpu_consensus.backends.native.backend import NativeBackend

        return NativeBackend(n_jobs)
    return NumpyBackend(n_jobs)


def _check_backend(backend: Any, codes: Any) -> Backend:
    """Return an object that is to serve as a backend, if it can."""
    if isinstance(backend, type):
        raise TypeError(
            f"backend={backend.__name__} is a class; pass an object of it, "
            f"{backend.__name__}()."
        )
    for member in MEMBERS:
        if not hasattr(backend, member):
            raise TypeError(
                f"backend={shown(backend)} has no member {member!r}; pass one of "
                f"{', '.join(map(repr, NAMES))}, or an object with every member of "
                "gpu_consensus.backends.protocol.Backend."
            )
    chosen: Backend = backend
    if on_device(codes) and not on_device(chosen.xp.empty(0)):
        raise ValueError(
            f"the codes are on a CUDA device but backend={chosen.name!r} computes on "
            "the host; move them with ensemble.to('numpy')."
        )
    return chosen


def _automatic(codes: Any, lookups: int | None) -> str:
    """Return what "auto" means for codes of a place and work of a size."""
    if on_device(codes):
        return "cupy"
    size = 0 if codes is None else int(codes.size)
    lookups = size if lookups is None else lookups
    if worth.device_pays(lookups, 0 if codes is None else int(codes.nbytes)):
        if not why_unavailable("cupy"):
            return "cupy"
        _warn_of_broken_cupy()
    return "numpy" if why_unavailable("native") else "native"


@functools.cache
def _warn_of_broken_cupy() -> None:
    """Warn once that a device may be unused although CuPy is installed."""
    if importlib.util.find_spec("cupy") is not None:
        reason = why_cupy_is_broken()
        if reason:
            warn(f"backend='auto' works on the CPU: {reason}")
