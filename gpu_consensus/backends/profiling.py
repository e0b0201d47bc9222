"""Stages of a fit, named for the profiler of a device."""

from __future__ import annotations

import functools
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any


def stage(name: str) -> AbstractContextManager[Any]:
    """Name a stage for Nsight, where CuPy is loaded and nvtx is installed."""
    annotate = _nvtx() if "cupy" in sys.modules else None
    return nullcontext() if annotate is None else annotate(f"gpu_consensus.{name}")


@functools.cache
def _nvtx() -> Any:
    try:
        import nvtx
    except ImportError:
        return None
    return nvtx.annotate
