"""The contingency table of two clusterings, and what the measures read from it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.ensemble.encoding import encode
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.checks import IntArray

BLOCK = 2**18  # objects in memory at a time


class EncodedClustering(NamedTuple):
    """Codes of one clustering; the measures take it in place of labels."""

    codes: npt.NDArray[Any]
    n_labels: int  # also the code of a missing label
    name: str


class Contingency(NamedTuple):
    """The cells that hold objects (a full table may be n x n), and the margins."""

    counts: IntArray
    row: IntArray
    col: IntArray
    row_sums: IntArray
    col_sums: IntArray
    n_samples: int


def encode_clustering(labels: Any, name: str) -> EncodedClustering:
    """Encode a clustering, of any number of clusters, unless it is encoded already."""
    if isinstance(labels, EncodedClustering):
        return labels
    codes, categories = encode(to_host(labels), name, max_labels=None)
    return EncodedClustering(codes, len(categories), name)


def check_common(has_common: bool | np.bool_, name_a: str, name_b: str) -> None:
    """Raise an error if two clusterings share no object."""
    if not has_common:
        raise ValueError(
            f"{name_a} and {name_b} have no object in common; at least one should "
            "have a label in both."
        )


def contingency(a: Any, b: Any, names: tuple[str, str] = ("a", "b")) -> Contingency:
    """Count the objects of each pair of labels: O(n), or a sort if labels are many."""
    a, b = encode_clustering(a, names[0]), encode_clustering(b, names[1])
    n_samples, k_a, k_b = len(a.codes), a.n_labels, b.n_labels
    if n_samples != len(b.codes):
        raise ValueError(
            f"{a.name} has {n_samples} labels but {b.name} has {len(b.codes)}; give "
            "both one label per object."
        )
    width = k_b + 1
    n_cells = (k_a + 1) * width
    if n_cells <= max(n_samples, BLOCK):
        # In blocks, so that codes mapped from disk need never be in memory at once;
        # none smaller than the table, so that adding up tables stays O(n).
        table = np.zeros(n_cells, dtype=np.int64)
        block = max(n_cells, BLOCK)
        for start in range(0, n_samples, block):
            cell = a.codes[start : start + block].astype(np.int64)
            cell *= width
            cell += b.codes[start : start + block]
            table += np.bincount(cell, minlength=n_cells)
        cells = np.flatnonzero(table)
        counts = table[cells]
    else:
        cell = a.codes.astype(np.int64) * width + b.codes
        cells, counts = np.unique(cell, return_counts=True)
    row, col = np.divmod(cells, width)
    present = (row < k_a) & (col < k_b)
    check_common(present.any(), a.name, b.name)
    counts, row, col = counts[present], row[present], col[present]
    row_sums, col_sums = np.zeros(k_a, np.int64), np.zeros(k_b, np.int64)
    np.add.at(row_sums, row, counts)
    np.add.at(col_sums, col, counts)
    return Contingency(counts, row, col, row_sums, col_sums, int(counts.sum()))


def n_pairs(counts: Any) -> Any:
    """Return how many pairs can be made of each number of objects.

    Integers: exact while n^2 < 2^63, so up to 3 * 10^9 objects.

    Examples
    --------
    >>> n_pairs(np.array([0, 1, 2, 5])).tolist()
    [0, 0, 1, 10]
    """
    return counts * (counts - 1) // 2


def pair_counts(table: Contingency) -> tuple[int, int, int, int]:
    """N11, N10, N01, N00: pairs together in both, only in a, only in b, in neither."""
    n_11 = int(n_pairs(table.counts).sum())
    n_10 = int(n_pairs(table.row_sums).sum()) - n_11
    n_01 = int(n_pairs(table.col_sums).sum()) - n_11
    n_all: int = n_pairs(table.n_samples)
    return n_11, n_10, n_01, n_all - n_11 - n_10 - n_01


def information(table: Contingency) -> tuple[float, float, float]:
    """H, H' and VI in bits; no term of VI is negative, so equal clusterings have 0."""
    share = table.counts / table.n_samples
    lost = np.log2(table.row_sums[table.row] / table.counts)
    gained = np.log2(table.col_sums[table.col] / table.counts)
    vi = float((share * (lost + gained)).sum())
    return _entropy(table.row_sums), _entropy(table.col_sums), vi


def _entropy(sums: IntArray) -> float:
    n, used = sums.sum(), sums[sums > 0]
    return float((used / n * np.log2(n / used)).sum())


def majorities(index: IntArray, table: Contingency) -> int:
    """Return the sum, over rows or columns, of the largest count in each."""
    largest = np.zeros(index.max() + 1, dtype=np.int64)
    np.maximum.at(largest, index, table.counts)
    return int(largest.sum())
