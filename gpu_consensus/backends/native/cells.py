"""Merging and settling of cells in C; see :mod:`gpu_consensus.loop.merging`."""

from __future__ import annotations

import numpy as np

from gpu_consensus.backends.native.layout import (
    address,
    check_array,
    check_offsets,
    dense,
)
from gpu_consensus.backends.native.library import load
from gpu_consensus.backends.native.threads import scratch
from gpu_consensus.backends.protocol import Counts, Offsets
from gpu_consensus.util.checks import FloatArray, IntArray

MERGES = ("entropy", "square", "root")
"""What C knows, as in cells.h."""


def _has_lines(counts: Counts, n_rows: int) -> bool:
    """Whether rows have no gaps within, though perhaps between them."""
    far, near = counts.strides if counts.ndim == 2 else (0, 0)
    return (
        counts.dtype == np.int64
        and counts.flags.aligned
        and len(counts) == n_rows
        and near == 8
        and far % 8 == 0
        and far >= 8 * counts.shape[1]
    )


def merge_cells(
    kind: str,
    counts: Counts,
    offsets: Offsets,
    weights: FloatArray,
    whole: IntArray,
    below: IntArray,
    n_clusters: int,
) -> IntArray:
    """See ``numpy_merge_cells`` of merging."""
    call = load().call
    # a copy, which is changed
    under = np.array(below, dtype=np.float64, order="C")
    given = _Cells(kind, counts, offsets, weights, whole, under, n_clusters)
    name = np.empty(given.n_cells, dtype=np.int64)
    memory, place = scratch(
        call.merge_cells_scratch(
            given.kind, given.n_cells, given.n_rows, given.n_partitions
        )
    )
    done = call.merge_cells(*given.arguments(), n_clusters, address(name), place)
    del memory
    given.check(done)
    return name


def settle_cells(
    kind: str,
    counts: Counts,
    offsets: Offsets,
    weights: FloatArray,
    whole: IntArray,
    below: IntArray,
    cluster_of: IntArray,
    n_clusters: int,
    sweeps: int,
) -> tuple[IntArray, Counts]:
    """See ``numpy_settle_cells`` of settling."""
    call = load().call
    under = dense("below", below, np.float64, (None, None))
    given = _Cells(kind, counts, offsets, weights, whole, under, n_clusters)
    name = np.array(cluster_of, dtype=np.int64)
    check_array("cluster_of", name, np.int64, (given.n_cells,))
    if not -1 <= name.min() <= name.max() < n_clusters or n_clusters < 2:
        raise ValueError(
            f"cluster_of has {int(name.min())} to {int(name.max())} and should have -1 "
            f"to {n_clusters - 1}, of two clusters at least."
        )
    merged = np.empty((given.n_rows, n_clusters), dtype=np.int64)
    memory, place = scratch(
        call.settle_cells_scratch(
            given.kind, given.n_cells, given.n_rows, given.n_partitions, n_clusters
        )
    )
    done = call.settle_cells(
        *given.arguments(), n_clusters, sweeps, address(name), address(merged), place
    )
    del memory
    given.check(done)
    return name, merged


class _Cells:
    """What both take, checked; ``below`` is float64."""

    def __init__(
        self,
        kind: str,
        counts: Counts,
        offsets: Offsets,
        weights: FloatArray,
        whole: IntArray,
        below: FloatArray,
        n_clusters: int,
    ) -> None:
        self.kind, self.n_partitions = MERGES.index(kind), len(offsets) - 1
        self.n_rows, self.n_cells = int(offsets[-1]), counts.shape[-1]
        if not _has_lines(counts, self.n_rows):
            counts = dense("counts", counts, np.int64, (self.n_rows, None))
        check_offsets("offsets", offsets, self.n_rows)
        check_array("below", below, np.float64, (self.n_partitions, self.n_cells))
        if not 1 <= n_clusters <= self.n_cells:
            raise ValueError(
                f"n_clusters={n_clusters} should be 1 to {self.n_cells}, the cells of "
                "counts."
            )
        self.counts, self.offsets, self.below = counts, offsets, below
        self.weights = dense("weights", weights, np.float64, (self.n_partitions,))
        self.whole = dense("whole", whole, np.int64, (None,))
        self.most = min(len(whole) if kind == "entropy" else 2**31, 2**31) - 1

    def arguments(self) -> tuple[int | None, ...]:
        """Return what C takes, up to the number of clusters."""
        return (
            self.kind,
            address(self.counts),
            self.counts.strides[0] // 8,
            self.n_cells,
            address(self.offsets),
            self.n_partitions,
            address(self.weights),
            address(self.whole),
            self.most,
            address(self.below),
        )

    def check(self, done: int) -> None:
        """Say why C did nothing."""
        if not done:
            raise ValueError(
                "counts should be 0 or more, and whole reach to twice their sum."
            )
