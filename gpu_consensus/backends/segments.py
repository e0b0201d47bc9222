"""Counts and tables by partition: sums over the labels of each, and how they round."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.log2 import x_log2_x
from gpu_consensus.util.checks import FloatArray, IntArray

TINY = 2.0**-100
"""Entries of a table below this are 0.

All others are multiples of 2^-123, and so are their sums: none is so small that a
device, compiled with -ftz, would take it for 0.
"""
_BLOCK = 1 << 19  # numbers of a table worked on at once
Array = npt.NDArray[Any]


class Segments:
    """The rows of a table by partition: sums over them, values repeated for them."""

    def __init__(self, offsets: IntArray) -> None:
        self.offsets = offsets
        self.starts = offsets[:-1]
        self.sizes = np.diff(offsets)
        self.missing = offsets[1:] - 1

    def sum(self, x: Array) -> Array:
        """Sum the rows of each partition: (S, ...) to (r, ...)."""
        return np.asarray(np.add.reduceat(x, self.starts, axis=0))

    def sum_in_order(self, x: FloatArray) -> FloatArray:
        """As ``sum`` for floats, one row after another: the order of every backend."""
        order = np.argsort(-self.sizes, kind="stable")
        starts, sizes = self.starts[order], self.sizes[order]
        total = np.zeros((len(order), *x.shape[1:]))
        # the j-th rows of all partitions that have one; the largest come first
        longer = np.searchsorted(-sizes, -np.arange(sizes[0]), side="left")
        for j, number in enumerate(longer):
            total[:number] += x[starts[:number] + j]
        result = np.empty_like(total)
        result[order] = total
        return result

    def max(self, x: Array) -> Array:
        """Take the largest row of each partition: (S, ...) to (r, ...)."""
        return np.asarray(np.maximum.reduceat(x, self.starts, axis=0))

    def present(self, counts: Array) -> Array:
        """Copy counts (S, ...) with nothing in the rows for "missing"."""
        n = counts.copy()
        n[self.missing] = 0
        return n

    def filled(self, counts: Array, marginals: Array) -> Array:
        """As ``present``, with marginals (S,) for clusters without a member there."""
        n = self.present(counts)
        empty = self.to_labels(self.sum(n) == 0)
        return np.where(empty, marginals[:, None, None], n)

    def to_labels(self, x: Array) -> Array:
        """Repeat one row per partition over its labels: (r, ...) to (S, ...)."""
        return np.repeat(x, self.sizes, axis=0)


class PresentMarginals(NamedTuple):
    """How many objects carry each label of an ensemble; "missing" is no label.

    ``marginals`` (S,) are 0 in the rows for "missing"; ``present`` (r,) is how many
    objects each partition has labelled.
    """

    segments: Segments
    marginals: IntArray
    present: IntArray


def present_marginals(offsets: IntArray, marginals: IntArray) -> PresentMarginals:
    """Return the marginals (S,) of an ensemble without those of "missing"."""
    segments = Segments(offsets)
    marginals = segments.present(marginals)
    return PresentMarginals(segments, marginals, segments.sum(marginals))


class LabelSums(NamedTuple):
    """Sums of counts over the labels of each partition, (r, ...) each.

    ``size`` is the sum of n, ``square`` of n^2, ``marginal_weighted`` of n times the
    marginal of the label, and ``entropy`` of n log2 n in the order of the labels, None
    unless asked for; ``most`` is the largest n. "Missing" does not count.
    """

    size: IntArray
    square: IntArray
    marginal_weighted: IntArray
    most: IntArray
    entropy: FloatArray | None = None


def label_sums(
    offsets: IntArray, counts: Array, marginals: Array, entropy: bool = False
) -> LabelSums:
    """Return the sums of counts (S, ...); a backend may have a quicker form."""
    parts = []
    for first, last in partition_groups(offsets, int(np.prod(counts.shape[1:]))):
        begin, end = offsets[first], offsets[last]
        segments = Segments(offsets[first : last + 1] - begin)
        n = segments.present(counts[begin:end])
        marginal_weighted = n * marginals[begin:end].reshape(-1, *[1] * (n.ndim - 1))
        bits = [segments.sum_in_order(x_log2_x(n))] if entropy else []
        sums = segments.sum(n), segments.sum(n * n), segments.sum(marginal_weighted)
        parts.append([*sums, segments.max(n), *bits])
    return LabelSums(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def partition_groups(offsets: IntArray, width: int) -> list[tuple[int, int]]:
    """Cut the partitions into groups whose part of a table of this width is small."""
    rows = max(1, _BLOCK // max(1, width))
    groups = []
    first, n_partitions = 0, len(offsets) - 1
    while first < n_partitions:
        last = int(np.searchsorted(offsets, offsets[first] + rows, side="right")) - 1
        last = min(max(last, first + 1), n_partitions)
        groups.append((first, last))
        first = last
    return groups


def exact_sums(values: FloatArray) -> FloatArray:
    """Add (r, R, K) up for each restart: (R,).

    fsum is exact, so a sum depends on no order and not on the other restarts.
    """
    return np.array([math.fsum(values[:, q].ravel()) for q in range(values.shape[1])])


def as_table(values: FloatArray) -> npt.NDArray[np.float32]:
    """Round to float32, and numbers below ``TINY`` to zero."""
    with np.errstate(under="ignore"):
        table = values.astype(np.float32)
    table[np.abs(table) < TINY] = 0.0
    return table
