"""The cells that clusterings laid over each other cut the objects into."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.loop.code_blocks import CodeBlocks
from gpu_consensus.loop.rows import Layer, Overlay

_RANGE = 1 << 20  # objects at a time
_KEPT = 64 << 20  # bytes of cells that are kept until they are named


class Overlays:
    """The overlays of objects in this process, where the backend computes.

    Parameters
    ----------
    blocks : CodeBlocks
    n_clusters : int
    assignment : callable
        From the number of a restart to its assignment (n,), there.
    """

    def __init__(
        self, blocks: CodeBlocks, n_clusters: int, assignment: Callable[[int], Any]
    ) -> None:
        self.blocks = blocks
        self.n_clusters = n_clusters
        self.assignment = assignment
        self._kept: dict[tuple[Layer, ...], Any] = {}

    def forget(self) -> None:
        """Forget the cells of overlays whose restarts may have changed."""
        self._kept = {}

    def sizes(self, overlay: Overlay) -> npt.NDArray[np.int64]:
        """Return how many objects each cell has, on the host."""
        backend = self.blocks.backend
        number = math.prod(self._width(layer) for layer in overlay)
        total = backend.xp.zeros(number, dtype=np.int64)
        for rows in self._ranges():
            cells = self._cells(overlay, rows)
            total += backend.xp.bincount(cells, minlength=number)
        whole = rows == slice(0, self.blocks.n_samples)
        if whole and (len(self._kept) + 1) * cells.nbytes <= _KEPT:
            self._kept[tuple(overlay)] = cells
        found: npt.NDArray[np.int64] = backend.to_host(total)
        return found

    def named(self, overlay: Overlay, names: Any, rows: slice) -> Any:
        """Return the name, (cells,) there, of the cell of each object of a range."""
        return names[self._cells(overlay, rows)]

    def name_all(self, overlay: Overlay, names: Any, out: Any) -> None:
        """Write the names of the cells of all objects to ``out`` (n,)."""
        for rows in self._ranges():
            out[rows] = self.named(overlay, names, rows)

    def _ranges(self) -> Iterator[slice]:
        for begin in range(0, self.blocks.n_samples, _RANGE):
            yield slice(begin, min(begin + _RANGE, self.blocks.n_samples))

    def _width(self, layer: Layer) -> int:
        """Return how many digits a layer has."""
        if layer.partition < 0:
            return self.n_clusters + 1
        begin, end = self.blocks.offsets[layer.partition : layer.partition + 2]
        return int(end - begin)

    def _cells(self, overlay: Overlay, rows: slice) -> Any:
        cells: Any = self._kept.get(tuple(overlay))
        if cells is not None:
            return cells[rows]
        for layer in overlay:
            if layer.partition < 0:
                own = self.assignment(layer.restart)[rows]
            else:
                codes = self.blocks.codes[layer.partition, rows]
                own = self.blocks.backend.to_device(codes)
            if cells is None:
                cells = own.astype(np.int32)
            else:
                cells *= np.int32(self._width(layer))
                cells += own
        return cells
