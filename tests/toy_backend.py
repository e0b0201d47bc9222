"""A backend written from the docstrings of the Protocol alone: loops, and no haste.

It knows nothing of the others, so that it is what they are compared with, and it shows
that one from outside of the package serves every method.
"""

import itertools

import numpy as np

from gpu_consensus.backends.log2 import x_log2_x
from gpu_consensus.backends.protocol import Assigned, PairCounts
from gpu_consensus.backends.recipe import make_tables
from gpu_consensus.backends.segments import LabelSums


class ToyBackend:
    """Every member of the Protocol, one number after another."""

    name = "toy"
    xp = np

    def __init__(self, n_rows=7):
        self._n_rows = n_rows  # in a block

    def to_device(self, array):
        return array

    def to_host(self, *arrays):
        return arrays[0] if len(arrays) == 1 else arrays

    def resident(self, codes, reserve=0):
        return codes

    def blocks(self, resident, n_restarts, memory_limit):
        n_samples = resident.shape[1]
        for begin in range(0, n_samples, self._n_rows):
            rows = slice(begin, min(begin + self._n_rows, n_samples))
            yield rows, resident[:, rows]

    def table(self, recipe, counts, absent=None, on_host=None):
        return make_tables(recipe, counts, absent)

    def label_sums(self, offsets, counts, marginals, entropy=False):
        shape = (len(offsets) - 1, *counts.shape[1:])
        size, square, heavy, most = np.zeros((4, *shape), dtype=np.int64)
        bits = np.zeros(shape) if entropy else None
        for i, q, k in np.ndindex(shape):
            for row in range(offsets[i], offsets[i + 1] - 1):  # the last is "missing"
                n = int(counts[row, q, k])
                size[i, q, k] += n
                square[i, q, k] += n * n
                heavy[i, q, k] += n * int(marginals[row])
                most[i, q, k] = max(most[i, q, k], n)
                if entropy and n:
                    bits[i, q, k] += float(x_log2_x(np.array(n)))
        return LabelSums(size, square, heavy, most, bits)

    def count(self, codes, offsets, before, after, out, weight=None, absent=None):
        n_clusters = out.shape[2]
        for sign, assignment in ((-1, before), (1, after)):
            if assignment is None:
                continue
            for q, l in np.ndindex(assignment.shape):
                k = int(assignment[q, l])
                if k == n_clusters:  # not counted
                    continue
                for i in range(len(codes)):
                    row = offsets[i] + int(codes[i, l])
                    out[row, q, k] += sign
                    if weight is not None and row == offsets[i + 1] - 1:
                        absent[i, q, k] += sign * int(weight[l])

    def assign(
        self,
        codes,
        offsets,
        table,
        *,
        row_weight=None,
        row_table=None,
        best=False,
        gap=False,
        own=None,
        stay=None,
    ):
        _, n_restarts, n_clusters = table.shape
        shape = (n_restarts, codes.shape[1])
        winner = np.zeros(shape, dtype=np.min_scalar_type(n_clusters))
        lowest, gaps, gains = np.zeros((3, *shape), dtype=np.float32)
        for q, l in np.ndindex(shape):
            score = self._sum(codes, offsets, table[:, q], l)
            if row_table is not None:
                if row_table.ndim == 2:
                    factor = row_table[q]
                else:
                    factor = self._sum(codes, offsets, row_table[:, q], l)
                product = [np.float32(row_weight[l] * x) for x in factor]
                score = [np.float32(x + y) for x, y in zip(score, product, strict=True)]
            is_counted = own is not None and own[q, l] < n_clusters
            if is_counted:
                price = self._sum(codes, offsets, stay[:, q], l)[own[q, l]]
                score[own[q, l]] = price
            k = min(range(n_clusters), key=score.__getitem__)  # the first of equals
            second = min([*score[:k], *score[k + 1 :]], default=np.float32(np.inf))
            winner[q, l], lowest[q, l] = k, score[k]
            gaps[q, l] = np.float32(second - score[k])
            rounding = np.float32(len(codes) * 2.0**-23)
            if is_counted and price - score[k] > rounding * abs(price):
                gains[q, l] = price - score[k]
        return Assigned(
            winner,
            lowest if best else None,
            gaps if gap else None,
            None if own is None else gains,
        )

    def _sum(self, codes, offsets, table, l):
        """The rows (K,) of one object, added in partition order in the table's type."""
        total = [table.dtype.type(0)] * table.shape[1]
        for i in range(len(codes)):
            row = table[offsets[i] + int(codes[i, l])]
            total = [x + y for x, y in zip(total, row, strict=True)]
        return total

    def scores(self, codes, offsets, table):
        score = np.zeros((codes.shape[1], *table.shape[1:]))
        for l, q in np.ndindex(score.shape[:2]):
            score[l, q] = self._sum(codes, offsets, table[:, q], l)
        return score

    def soft_count(self, codes, offsets, responsibilities):
        counts = np.zeros((offsets[-1], *responsibilities.shape[1:]), dtype=np.int64)
        for l, q, k in np.ndindex(responsibilities.shape):
            units = round(float(responsibilities[l, q, k]) * 2**32)
            for i in range(len(codes)):
                counts[offsets[i] + int(codes[i, l]), q, k] += units
        return counts

    def pairs(self, resident, n_labels, rows, columns):
        same, both = np.zeros((2, len(rows), len(columns)), dtype=np.int32)
        for (a, l), (b, m) in itertools.product(enumerate(rows), enumerate(columns)):
            for i, missing in enumerate(n_labels):
                x, y = resident[i, l], resident[i, m]
                if x != missing and y != missing:
                    both[a, b] += 1
                    same[a, b] += x == y
        return PairCounts(same, both)
