"""Launches on the current CUDA device: its limits, its grids, its memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.cupy.compile import compiled
from gpu_consensus.backends.cupy.source import Kernel
from gpu_consensus.backends.device_errors import cuda_errors
from gpu_consensus.backends.protocol import Codes, Offsets
from gpu_consensus.util.arrays import on_device

_MOST_CONSTANTS = 64  # a fit has about eight
FREE_SHARED = 48 << 10
"""Bytes of shared memory that a block may have without asking."""
NULL = np.intp(0)
"""A pointer to nothing."""


class Launcher:
    """The current device and what its kernels may use."""

    def __init__(self) -> None:
        import cupy

        self.xp: Any = cupy
        self.device = cupy.cuda.Device()
        attributes = self.device.attributes
        self.shared_limit = int(attributes["MaxSharedMemoryPerBlockOptin"])
        self.shared_free = min(self.shared_limit, FREE_SHARED)
        self.shared_per_processor = int(attributes["MaxSharedMemoryPerMultiprocessor"])
        self.n_processors = int(attributes["MultiProcessorCount"])
        self._constants: dict[tuple[str, tuple[int, ...], bytes], Any] = {}

    def constant(self, array: npt.NDArray[Any]) -> Any:
        """Return a small array on the device, where it stays as long as this object.

        It is looked up by contents: a host array that was changed gives another one.
        When there are many, those unused for longest are dropped.
        """
        key = (array.dtype.str, array.shape, array.tobytes())
        there = self._constants.pop(key, None)
        if there is None:
            there = self.xp.asarray(np.ascontiguousarray(array))
        self._constants[key] = there
        if len(self._constants) > _MOST_CONSTANTS:
            del self._constants[next(iter(self._constants))]
        return there

    def check(self, codes: Codes | None, **arrays: Any) -> None:
        """Raise an error for a NumPy array among those that should be on the device.

        CuPy would pass its first bytes to the kernel as if they were an address.
        """
        if codes is not None and not on_device(codes):
            raise TypeError(
                "the cupy backend was given NumPy codes; move them with ens.to('cupy') "
                "or let the method do it."
            )
        for name, array in arrays.items():
            if array is not None and not on_device(array):
                raise TypeError(
                    f"{name} is on the host but the codes are on a CUDA device; move "
                    "it with cupy.asarray, or the codes with ens.to('numpy')."
                )

    def launch(
        self,
        kernel: Kernel,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        arguments: tuple[Any, ...],
        shared: int = 0,
    ) -> None:
        """Run a kernel, asking for shared memory where it needs much.

        An empty grid is not launched; CuPy would make it one block.
        """
        if 0 in grid:
            return
        with cuda_errors():
            function = compiled(kernel, self.device.id)
            if shared > FREE_SHARED:
                # always the same number: another thread may be about to launch this too
                function.max_dynamic_shared_size_bytes = self.shared_limit
            function(grid, block, arguments, shared_mem=shared)

    def grid(self, work: int, per_block: int) -> tuple[int]:
        """Return enough blocks for the work, but not more than the device can use."""
        return (min(-(-work // per_block), 32 * self.n_processors),)

    def rows(self, codes: Codes, offsets: Offsets) -> tuple[Any, ...]:
        """Return the first arguments of every kernel over objects."""
        codes, stride = self.strided(codes)
        return (
            codes,
            np.int64(stride),
            np.int64(codes.shape[1]),
            self.constant(offsets.astype(np.int32)),
        )

    def strided(self, codes: Codes) -> tuple[Codes, int]:
        """Return codes whose objects lie side by side, and their stride."""
        self.check(codes)
        if codes.strides[1] != codes.itemsize:
            codes = self.xp.ascontiguousarray(codes)
        return codes, codes.strides[0] // codes.itemsize

    def free_memory(self) -> int:
        """Return free bytes of the device, including those that CuPy's pool keeps."""
        pool = self.xp.get_default_memory_pool()
        free = self.device.mem_info[0] + pool.free_bytes()
        if pool.get_limit():
            free = min(free, pool.get_limit() - pool.used_bytes())
        return int(max(free, 0))


def type_name(array: Any) -> str:
    """Return the kernels' name of an array's unsigned type."""
    return f"u{8 * array.dtype.itemsize}"
