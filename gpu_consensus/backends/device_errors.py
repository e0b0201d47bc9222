"""Errors of CUDA as the rest of the package knows them.

CuPy's own pool raises ``MemoryError`` where the device is full. Other allocators, the
driver that loads a kernel, and page-locked memory of the host report it by an error
code. After some errors a process gets nothing but errors from a device: it is lost.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_OUT_OF_MEMORY = 2
"""What CUDA calls cudaErrorMemoryAllocation and CUDA_ERROR_OUT_OF_MEMORY."""
_LOST = frozenset({
    46, 100, 101,  # unavailable, no device, no such device
    214, 220,  # memory or link beyond correction
    700, 702, 709, 714, 715, 716, 717, 718, 719,  # a kernel failed, or took too long
    802, 999,  # driver not ready, unknown
})  # fmt: skip  # one number a line would hide the rest


class DeviceLostError(RuntimeError):
    """The device failed in mid-run; says what to do."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out, whatever allocator was asked."""
    return isinstance(error, MemoryError) or _status(error) == _OUT_OF_MEMORY


def is_device_memory(error: BaseException) -> bool:
    """Whether an error means that memory of a device ran out, not of the host."""
    cupy = sys.modules.get("cupy")
    if cupy is None:
        return False
    if isinstance(error, cupy.cuda.memory.OutOfMemoryError):
        return True
    return any(
        at is not None and _status(at) == _OUT_OF_MEMORY
        for at in (error, error.__cause__)
    )


@contextmanager
def cuda_errors() -> Iterator[None]:
    """Raise errors of CUDA as ``MemoryError`` or :class:`DeviceLostError`.

    Errors that neither describes stay as they are.
    """
    try:
        yield
    except Exception as error:
        status = _status(error)
        message = " ".join(str(error).split()).rstrip(".")
        if status == _OUT_OF_MEMORY:
            raise MemoryError(message) from error
        if status not in _LOST:
            raise
        raise DeviceLostError(
            f"the CUDA device failed in mid-run ({message}), and this process cannot "
            "use it any more; look at it with nvidia-smi, start again, with the same "
            "checkpoint if one was given, or use backend='native'."
        ) from error


def _status(error: BaseException) -> int | None:
    """Return the CUDA code of an error, None if it has none."""
    cupy = sys.modules.get("cupy")
    if cupy is None:
        return None
    cuda: Any = cupy.cuda
    kinds = (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError)
    return error.status if isinstance(error, kinds) else None
