"""The codes of an ensemble where a backend computes, a range of objects at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.protocol import Assignment, Backend, Codes, Counts, Offsets
from gpu_consensus.util.arrays import on_device


class CodeBlocks:
    """Codes that a backend works on in ranges that keep its memory bounded.

    Parameters
    ----------
    backend : Backend
    codes, offsets : ndarray
        As in the Protocol; the codes may be on the host or on a device.
    memory_limit : int, optional
        Bytes of working memory.
    """

    def __init__(
        self,
        backend: Backend,
        codes: Codes,
        offsets: Offsets,
        memory_limit: int | None = None,
    ) -> None:
        self.backend = backend
        self.codes = codes
        self.offsets = offsets
        self.memory_limit = memory_limit
        self.resident = backend.resident(codes)

    @property
    def n_samples(self) -> int:
        """How many objects there are."""
        return int(self.codes.shape[1])

    def blocks(self, n_restarts: int) -> Iterator[tuple[slice, Codes]]:
        """Cut the objects into ranges, with the codes of each."""
        return self.backend.blocks(self.resident, n_restarts, self.memory_limit)

    def per_range(self, vector: npt.NDArray[Any] | None) -> Callable[[slice], Any]:
        """Return a function from a range to that part of a vector (n,), on the backend.

        The vector is copied to the device once, if there is memory for it besides the
        codes. For None, the function returns None.
        """
        if vector is None:
            return lambda rows: None
        backend = self.backend
        if on_device(self.resident):
            whole = backend.resident(vector[None])
            if on_device(whole):
                return lambda rows: whole[0, rows]
        return lambda rows: backend.to_device(vector[rows])

    def zeros(self, n_restarts: int, n_clusters: int) -> Counts:
        """Return counts (S, R, K) of nothing yet, where the backend computes."""
        shape = (int(self.offsets[-1]), n_restarts, n_clusters)
        counts: Counts = self.backend.xp.zeros(shape, dtype=np.int64)
        return counts

    def count(self, assignment: Assignment, n_clusters: int) -> Counts:
        """Count a whole assignment (R, n), which may still be on the host."""
        counts = self.zeros(len(assignment), n_clusters)
        for rows, codes in self.blocks(len(assignment)):
            part = self.backend.to_device(assignment[:, rows])
            self.backend.count(codes, self.offsets, None, part, counts)
        return counts
