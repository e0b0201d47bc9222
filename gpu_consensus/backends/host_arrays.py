"""Arrays of the backends that compute in the memory of the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gpu_consensus.backends.protocol import Codes
from gpu_consensus.util.arrays import to_host

_DEFAULT_MEMORY = 64 << 20


class HostArrays:
    """Arrays in, out, resident and cut, where there is no device to copy to."""

    xp: Any = np

    def to_device(self, array: Any) -> Any:
        """See the Protocol."""
        return array

    def to_host(self, *arrays: Any) -> Any:
        """See the Protocol."""
        return arrays[0] if len(arrays) == 1 else arrays

    def resident(self, codes: Codes, reserve: int = 0) -> Any:
        """See the Protocol."""
        return to_host(codes)

    def blocks(
        self, resident: Any, n_restarts: int, memory_limit: int | None
    ) -> Iterator[tuple[slice, Codes]]:
        """See the Protocol."""
        limit = _DEFAULT_MEMORY if memory_limit is None else memory_limit
        step, size = max(1, limit // (32 * n_restarts)), resident.shape[1]
        for begin in range(0, size, step):
            rows = slice(begin, min(size, begin + step))
            yield rows, resident[:, rows]
