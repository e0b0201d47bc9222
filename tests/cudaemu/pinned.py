"""Page-locked host memory as CuPy's pool gives it: used again as soon as it is free.

A copy in a queue holds an address, not an array: memory whose array is gone may be
overwritten by its next owner before the copy is done.
"""

import ctypes
import weakref

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

    def memory_of(self, array: np.ndarray) -> np.ndarray | None:
        """Return the memory under an array without owning it; None if not pinned."""
        for address, memory in self._in_use.items():
            offset = array.ctypes.data - address
            if 0 <= offset < memory.size:
                return np.ndarray(
                    array.shape, array.dtype, memory, offset, array.strides
                )
        return None

    def free_all_blocks(self) -> None:
        self._free = {size: [] for size in self._free}

    def n_free_blocks(self) -> int:
        return sum(map(len, self._free.values()))


pool = PinnedPool()
