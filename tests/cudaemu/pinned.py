"""Page-locked host memory as CuPy's pool gives it: used again as soon as it is free.

A copy in a queue holds an address, not an array: memory whose array is gone may be
overwritten by its next owner before the copy is done.
"""

import ctypes
import weakref
from collections.abc import Callable

import numpy as np

from cudaemu.config import config

_UNIT = 512


def rounded(nbytes: int) -> int:
    """Return what the pool takes for a request: a power of two."""
    return max(_UNIT, 1 << (nbytes - 1).bit_length())


class PinnedPool:
    def __init__(self) -> None:
        self._free: dict[int, list[np.ndarray]] = {}
        self._in_use: dict[int, np.ndarray] = {}

    def allocate(self, nbytes: int) -> np.ndarray:
        """Return at least so many bytes, full of rubbish, free memory first."""
        size = rounded(nbytes)
        free = self._free.setdefault(size, [])
        memory = free.pop() if free else np.empty(size, np.uint8)
        memory.fill(config.poison)
        address = memory.ctypes.data
        owner = (ctypes.c_uint8 * size).from_address(address)
        self._in_use[address] = memory
        weakref.finalize(owner, self._release, address).atexit = False
        return np.frombuffer(owner, np.uint8)

    def _release(self, address: int) -> None:
        memory = self._in_use.pop(address)
        self._free[memory.size].append(memory)

    def holds(self, array: np.ndarray) -> bool:
        """Return whether an array lies in memory of this pool."""
        address = array.ctypes.data
        return any(
            begin <= address < begin + memory.size
            for begin, memory in self._in_use.items()
        )

    def reader(self, array: np.ndarray) -> Callable[[], np.ndarray]:
        """Return what reads an array's memory later, without owning it.

        Pinned memory then holds whatever its owner wrote, or the next one; any other,
        once its array is gone, holds rubbish.
        """
        for address, memory in self._in_use.items():
            offset = array.ctypes.data - address
            if 0 <= offset < memory.size:
                here = np.ndarray(
                    array.shape, array.dtype, memory, offset, array.strides
                )
                return lambda: here
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        alive, address = weakref.ref(owner), array.ctypes.data
        form = array.shape, array.dtype, array.nbytes, array.strides

        def read() -> np.ndarray:
            shape, dtype, nbytes, strides = form
            if alive() is None:
                return np.frombuffer(bytes([config.poison]) * dtype.itemsize, dtype)
            there = (ctypes.c_uint8 * nbytes).from_address(address)
            return np.ndarray(shape, dtype, there, strides=strides)

        return read


pool = PinnedPool()
