"""How a table is made from counts: the recipe that a backend gets, and its formulas.

A rule that has a recipe passes the recipe, never itself, to the backend. The formulas
here, in NumPy, are what every backend has to equal, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.log2 import log2
from gpu_consensus.backends.segments import (
    Array,
    LabelSums,
    Segments,
    as_table,
    label_sums,
    partition_groups,
)
from gpu_consensus.util.checks import FloatArray, IntArray

FLOOR = 2.0**-52
"""Shares below this count as this, where a logarithm is taken."""
SMOOTHING = 0.4
"""Objects that H_SMOOTH adds to every label and to the cluster."""

Tables = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32] | None]
"""A table (S, R, K), and a row table or None."""


class TableRecipe(NamedTuple):
    """What a backend needs to make a rule's table.

    Attributes
    ----------
    utility : {"C", "H", "H_SMOOTH", "COS", "LP", "IVC", "IPVC", "SEC"}
    offsets : ndarray of shape (r + 1,)
    marginals : ndarray of shape (S,)
        Objects that carry each label; 0 in the rows for "missing".
    weights : ndarray of shape (r,)
    power : int
        P of LP.
    present_weight : ndarray of shape (r,) or None
        For SEC, the weight of all objects present in each partition.
    row : {None, "sum", "labels"}
        For SEC, the row table: (R, K), one sum for all objects where no label is
        missing, or (S, R, K) with a row for every label.
    """

    utility: str
    offsets: npt.NDArray[np.int64]
    marginals: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float64]
    power: int = 0
    present_weight: npt.NDArray[np.int64] | None = None
    row: str | None = None


Cost = Callable[[Array, Segments, FloatArray | None, int], FloatArray]
"""From counts, segments, norms by label and P to costs, all (S, ...)."""


def make_tables(recipe: TableRecipe, counts: Array, absent: Array | None) -> Tables:
    """Return the table of a recipe and its row table, from counts on the host.

    Parameters
    ----------
    recipe : TableRecipe
    counts : ndarray of shape (S, R, K)
    absent : ndarray of shape (r, R, K) or None
        For SEC with missing labels, the weight of the members that have none.
    """
    if recipe.present_weight is None:
        norm = lp_norms(recipe, counts) if recipe.power else None
        return fill_table(recipe, _COSTS[recipe.utility], counts, norm), None
    sums = label_sums(recipe.offsets, counts, recipe.marginals)
    weight = sec_weights(recipe, sums, absent)
    norm = np.maximum(weight, 1).astype(np.float64)
    table = fill_table(recipe, _COSTS["SEC"], counts, norm)
    if recipe.row == "sum":
        return table, sec_row_sums(recipe, sums, weight)
    return table, fill_table(recipe, _COSTS["SEC_ROW"], counts, norm)


def lp_norms(recipe: TableRecipe, counts: Array) -> FloatArray:
    """Return norm_P of the counts in each partition, (r, R, K).

    Always on the host: powers round alike only there.
    """
    segments = Segments(recipe.offsets)
    filled = segments.filled(counts, recipe.marginals)
    norm = lp_norm(recipe.power)(filled, segments)
    return np.where(norm == 0, 1.0, norm)  # a partition in which nothing is present


def lp_norm(p: int) -> Callable[[Array, Segments], FloatArray]:
    """Return the function that gives norm_p of counts, (r, ...).

    Counts are divided by the largest, so that no power overflows.
    """

    def norm(n: Array, segments: Segments) -> FloatArray:
        peak = np.maximum(segments.max(n), 1)
        powers = segments.sum(power(n / segments.to_labels(peak), p))
        return np.asarray(peak * powers ** (1.0 / p))

    return norm


def power(x: FloatArray, exponent: int) -> FloatArray:
    """X to an integer power by multiplications only, from the highest bit down."""
    result = x
    for bit in bin(exponent)[3:]:
        result = result * result
        if bit == "1":
            result = result * x
    return result


def sec_weights(recipe: TableRecipe, sums: LabelSums, absent: Array | None) -> IntArray:
    """Return W_k^(i), the weight of the members present, (r, R, K).

    For a cluster without a member present it is the weight of all objects present, to
    go with the marginals.
    """
    assert recipe.present_weight is not None
    weight = np.repeat(
        sums.marginal_weighted.sum(axis=0)[None], len(sums.marginal_weighted), axis=0
    )
    if absent is not None:
        weight = weight - absent
    everybody = recipe.present_weight[:, None, None]
    return np.where(sums.size == 0, everybody, weight)


def sec_row_sums(
    recipe: TableRecipe, sums: LabelSums, weight: IntArray
) -> npt.NDArray[np.float32]:
    """Return sum_i A_k / W_k^2, (R, K): one sum for all objects of complete data."""
    segments = Segments(recipe.offsets)
    alone = segments.sum(recipe.marginals * recipe.marginals)
    square = np.where(sums.size == 0, alone[:, None, None], sums.square).sum(axis=0)
    whole = np.maximum(weight[0], 1)
    return as_table(np.asarray(square / whole / whole))


def fill_table(
    recipe: TableRecipe, cost: Cost, counts: Array, norm: FloatArray | None = None
) -> npt.NDArray[np.float32]:
    """Return w_i times the cost of every label in every cluster, (S, R, K).

    A cluster that has no member present in a partition takes the marginal counts.
    """
    table = np.empty(counts.shape, dtype=np.float32)
    offsets = recipe.offsets
    for first, last in partition_groups(offsets, int(np.prod(counts.shape[1:]))):
        begin, end = offsets[first], offsets[last]
        segments = Segments(offsets[first : last + 1] - begin)
        marginals = recipe.marginals[begin:end].copy()
        unlabelled = segments.sum(marginals) == 0
        marginals[segments.missing[unlabelled]] = 1  # no division by zero
        n = segments.filled(counts[begin:end], marginals)
        below = norm if norm is None else segments.to_labels(norm[first:last])
        weight = segments.to_labels(recipe.weights[first:last])[:, None, None]
        block = as_table(weight * cost(n, segments, below, recipe.power))
        block[segments.missing] = 0.0
        # a partition without present labels adds nothing
        block[segments.to_labels(unlabelled)] = 0.0
        table[begin:end] = block
    return table


def _category_cost(
    n: Array, segments: Segments, norm: FloatArray | None, p: int
) -> FloatArray:
    """Return f(e_j, m_k) of mu = sum m^2, the category utility."""
    size = segments.sum(n)
    square = segments.sum(n * n) / (size * size)
    return np.asarray(
        1.0 - 2.0 * (n / segments.to_labels(size)) + segments.to_labels(square)
    )


def _entropy_cost(
    n: Array, segments: Segments, norm: FloatArray | None, p: int
) -> FloatArray:
    share = n / segments.to_labels(segments.sum(n))
    return np.asarray(-log2(np.maximum(share, FLOOR)))


def _smooth_entropy_cost(
    n: Array, segments: Segments, norm: FloatArray | None, p: int
) -> FloatArray:
    """Return what a label costs that a cluster may lack: as if 0.4 objects had it."""
    whole = segments.to_labels(segments.sum(n)) + SMOOTHING
    return np.asarray(-log2((n + SMOOTHING) / whole))


def _cosine_cost(
    n: Array, segments: Segments, norm: FloatArray | None, p: int
) -> FloatArray:
    return np.asarray(1.0 - n / segments.to_labels(np.sqrt(segments.sum(n * n))))


def _lp_cost(
    n: Array, segments: Segments, norm: FloatArray | None, p: int
) -> FloatArray:
    assert norm is not None
    return 1.0 - power(n / norm, p - 1)


def _majority_cost(
    n: Array, segments: Segments, norm: FloatArray | None, p: int
) -> FloatArray:
    """Return 1 where a label is not the majority of the cluster; ties to the lowest."""
    n[segments.missing] = -1
    row = np.arange(len(n)).reshape(-1, *[1] * (n.ndim - 1))
    most = n == segments.to_labels(segments.max(n))
    first = np.minimum.reduceat(np.where(most, row, len(n)), segments.starts, axis=0)
    return np.asarray(row != segments.to_labels(first), dtype=np.float64)


def _share_cost(
    n: Array, segments: Segments, norm: FloatArray | None, p: int
) -> FloatArray:
    return np.asarray(1.0 - n / segments.to_labels(segments.sum(n)))


def _spectral_cost(
    n: Array, segments: Segments, norm: FloatArray | None, p: int
) -> FloatArray:
    assert norm is not None
    return np.asarray(-(2.0 * (n / norm)))


def _spectral_row_cost(
    n: Array, segments: Segments, norm: FloatArray | None, p: int
) -> FloatArray:
    assert norm is not None
    return np.asarray(segments.to_labels(segments.sum(n * n)) / norm / norm)


_COSTS: dict[str, Cost] = {
    "C": _category_cost,
    "H": _entropy_cost,
    "COS": _cosine_cost,
    "LP": _lp_cost,
    "IVC": _majority_cost,
    "IPVC": _share_cost,
    "SEC": _spectral_cost,
    "SEC_ROW": _spectral_row_cost,
    "H_SMOOTH": _smooth_entropy_cost,
}
UTILITIES = tuple(_COSTS)
"""Utilities in the order by which compiled code and kernels number or name them."""
