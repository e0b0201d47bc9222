"""Co-association of pairs of objects, in tiles: the n x n matrix need not exist."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.protocol import Backend, Codes
from gpu_consensus.util.checks import FloatArray, IntArray
from gpu_consensus.util.weights import are_equal

_TILE = 1 << 22  # pairs in memory at a time
_TILE_BYTES = 34  # counts, their weighted sums and the shares of one pair


class Pairs:
    """How often two objects share a label.

    The co-association of two objects is the weight of the partitions in which they
    share a label, divided by the weight of those in which both have one; 0 where they
    never meet. Counts are exact integers from the backend, so every backend gives the
    same numbers.

    Parameters
    ----------
    backend : Backend
    codes : ndarray of shape (r, n)
    n_labels : ndarray of shape (r,)
    weights : ndarray of shape (r,)
        Weights of the partitions; equal weights cancel.
    """

    def __init__(
        self, backend: Backend, codes: Codes, n_labels: IntArray, weights: FloatArray
    ) -> None:
        self.backend = backend
        self.n_samples = int(codes.shape[1])
        values, group_of = np.unique(weights, return_inverse=True)
        if are_equal(weights):
            values, group_of = np.ones(1), np.zeros(len(weights), dtype=np.intp)
        # partitions of one weight are counted together, so they lie side by side
        if len(values) > 1:
            order = np.argsort(group_of, kind="stable")
            codes, n_labels = codes[order], n_labels[order]
        resident = backend.resident(np.ascontiguousarray(codes))
        ends = np.cumsum(np.bincount(group_of)).tolist()
        self._groups = [
            (float(weight), resident[begin:end], n_labels[begin:end])
            for weight, begin, end in zip(values, [0, *ends], ends, strict=False)
            if weight > 0
        ]

    def tile(
        self, rows: npt.NDArray[np.intp], columns: npt.NDArray[np.intp]
    ) -> FloatArray:
        """Return the co-association of objects ``rows`` with objects ``columns``."""
        same, both = self.weighted(rows, columns)
        return np.divide(same, both, out=np.zeros(same.shape), where=both > 0)

    def weighted(
        self, rows: npt.NDArray[np.intp], columns: npt.NDArray[np.intp]
    ) -> tuple[FloatArray, FloatArray]:
        """Return the weights of "same label" and of "both present"; counts if equal."""
        shape = (len(rows), len(columns))
        same, both = np.zeros(shape), np.zeros(shape)
        for weight, codes, n_labels in self._groups:
            counts = self.backend.pairs(codes, n_labels, rows, columns)
            same += weight * counts.same
            both += weight * counts.both
        return same, both

    def same(
        self, rows: npt.NDArray[np.intp], columns: npt.NDArray[np.intp]
    ) -> npt.NDArray[np.int32]:
        """Return in how many partitions objects share a label; for equal weights."""
        ((_, codes, n_labels),) = self._groups
        return self.backend.pairs(codes, n_labels, rows, columns).same

    @property
    def block_bytes(self) -> int:
        """Memory that a block of rows against all objects takes."""
        return _TILE_BYTES * min(max(_TILE, self.n_samples), self.n_samples**2)

    def row_blocks(
        self, n_columns: int | None = None
    ) -> Iterator[npt.NDArray[np.intp]]:
        """Cut the objects into blocks whose tiles keep memory bounded."""
        width = self.n_samples if n_columns is None else n_columns
        step = max(1, _TILE // max(1, width))
        for begin in range(0, self.n_samples, step):
            yield np.arange(begin, min(begin + step, self.n_samples))

    def matrix(self, dtype: Any = np.float64) -> npt.NDArray[Any]:
        """Return the whole matrix, (n, n); ask :func:`check_memory` first."""
        matrix = np.empty((self.n_samples, self.n_samples), dtype=dtype)
        everyone = np.arange(self.n_samples)
        for rows in self.row_blocks():
            matrix[rows] = self.tile(rows, everyone)
        return matrix
