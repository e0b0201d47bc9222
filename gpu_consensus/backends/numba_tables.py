"""Tables made from counts, compiled, bit for bit those of the rules' own formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core import types
from numba.extending import intrinsic

from gpu_consensus.backends.log2 import COEFFICIENTS
from gpu_consensus.backends.numba_jit import compiled
from gpu_consensus.backends.recipe import UTILITIES
from gpu_consensus.backends.segments import TINY

_C, _H, _COS, _LP, _IVC, _IPVC, _SEC, _SEC_ROW = range(len(UTILITIES))
_FLOOR = 2.0**-52
_SQRT_2 = 1.4142135623730951
_inline: Callable[[Callable[..., Any]], Any] = intrinsic


@_inline
def _bits(typingctx: Any, x: Any) -> Any:
    """Return the bits of a float64 as int64."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.bitcast(values[0], context.get_value_type(types.int64))

    return types.int64(types.float64), generate


@_inline
def _number(typingctx: Any, bits: Any) -> Any:
    """Return the float64 that an int64 holds the bits of."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.bitcast(values[0], context.get_value_type(types.float64))

    return types.float64(types.int64), generate


@compiled
def log2(x: Any) -> Any:
    """Return log2 of a positive normal number by the operations of ``log2.log2``."""
    bits = _bits(x)
    exponent = (bits >> 52) - 1023
    mantissa = _number((bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000)
    high = mantissa > _SQRT_2
    mantissa = mantissa * 0.5 if high else mantissa
    exponent = exponent + high
    s = (mantissa - 1.0) / (mantissa + 1.0)
    z = s * s
    series = COEFFICIENTS[11]
    for t in range(10, -1, -1):
        series = series * z + COEFFICIENTS[t]
    return exponent + s * series


@compiled
def _power(x: Any, exponent: Any) -> Any:
    """X to an integer power by multiplications only, from the highest bit down."""
    bit = 0
    while exponent >> (bit + 1):
        bit += 1
    result = x
    while bit > 0:
        bit -= 1
        result = result * result
        if (exponent >> bit) & 1:
            result = result * x
    return result


@compiled
def sum_labels(
    counts: Any,
    offsets: Any,
    marginals: Any,
    first: Any,
    last: Any,
    size: Any,
    square: Any,
    heavy: Any,
    most: Any,
    entropy: Any,
) -> None:
    """Sum counts (S, C) over the labels of partitions first..last, (r, C) each.

    All hold zeros; ``entropy`` may be empty. See ``utilities.LabelSums``.
    """
    n_columns = counts.shape[1]
    for i in range(first, last):
        for row in range(offsets[i], offsets[i + 1] - 1):
            marginal = marginals[row]
            for c in range(n_columns):
                n = counts[row, c]
                size[i, c] += n
                square[i, c] += n * n
                heavy[i, c] += n * marginal
                most[i, c] = max(most[i, c], n)
            if len(entropy):
                for c in range(n_columns):
                    n = counts[row, c]
                    if n > 1:  # of 0 and 1 it is 0
                        entropy[i, c] += n * log2(np.float64(n))


@compiled
def fill_table(
    utility: Any,
    counts: Any,
    offsets: Any,
    marginals: Any,
    weights: Any,
    norm: Any,
    power: Any,
    n_restarts: Any,
    first: Any,
    last: Any,
    table: Any,
) -> None:
    """Write the rows of partitions first..last of a padded table (S, width).

    Parameters
    ----------
    utility : int
        Index into ``UTILITIES``.
    counts : (S, R K)
        Column q K + k; the table has column k R + q.
    norm : (r, R K)
        Read only for LP and SEC.
    """
    n_columns = counts.shape[1]
    n_clusters = n_columns // n_restarts
    size, square = np.empty(n_columns, np.int64), np.empty(n_columns, np.int64)
    most, leader = np.empty(n_columns, np.int64), np.empty(n_columns, np.int64)
    absent = np.empty(n_columns, np.int64)
    below, beside = np.empty(n_columns), np.empty(n_columns)
    n, value = np.empty(n_columns), np.empty(n_columns)
    line = np.empty(n_columns, np.float32)
    place = np.empty(n_columns, np.uint64)
    for c in range(n_columns):
        place[c] = c % n_clusters * n_restarts + c // n_clusters
    for i in range(first, last):
        begin, missing = offsets[i], offsets[i + 1] - 1
        table[begin : missing + 1] = 0.0
        present, present_square = 0, 0
        for row in range(begin, missing):
            present += marginals[row]
            present_square += marginals[row] * marginals[row]
        if present == 0:
            continue
        size[:] = 0
        square[:] = 0
        for row in range(begin, missing):
            for c in range(n_columns):
                found = counts[row, c]
                size[c] += found
                square[c] += found * found
        for c in range(n_columns):
            # a cluster without a member here takes the marginal counts
            absent[c] = size[c] == 0
            if absent[c]:
                size[c] = present
                square[c] = present_square
        if utility == _IVC:
            most[:] = -1
            for row in range(begin, missing):
                for c in range(n_columns):
                    found = marginals[row] if absent[c] else counts[row, c]
                    if found > most[c]:  # ties to the lowest label
                        most[c] = found
                        leader[c] = row
        for c in range(n_columns):
            below[c] = size[c]
            if utility == _C:
                beside[c] = square[c] / (size[c] * size[c])
            elif utility == _COS:
                below[c] = np.sqrt(np.float64(square[c]))
            elif utility in (_LP, _SEC):
                below[c] = norm[i, c]
            elif utility == _SEC_ROW:
                beside[c] = square[c] / norm[i, c] / norm[i, c]
        weight = weights[i]
        for row in range(begin, missing):
            marginal = marginals[row]
            for c in range(n_columns):
                n[c] = marginal if absent[c] else counts[row, c]
            if utility == _C:
                for c in range(n_columns):
                    value[c] = 1.0 - 2.0 * (n[c] / below[c]) + beside[c]
            elif utility == _H:
                for c in range(n_columns):
                    value[c] = -log2(max(n[c] / below[c], _FLOOR))
            elif utility in (_COS, _IPVC):
                for c in range(n_columns):
                    value[c] = 1.0 - n[c] / below[c]
            elif utility == _LP:
                for c in range(n_columns):
                    value[c] = 1.0 - _power(n[c] / below[c], power - 1)
            elif utility == _IVC:
                for c in range(n_columns):
                    value[c] = 1.0 if row != leader[c] else 0.0
            elif utility == _SEC:
                for c in range(n_columns):
                    value[c] = -(2.0 * (n[c] / below[c]))
            else:
                value[:] = beside
            for c in range(n_columns):
                entry = np.float32(weight * value[c])
                line[c] = entry if abs(entry) >= TINY else np.float32(0.0)
            target = table[row]
            for c in range(n_columns):
                target[place[c]] = line[c]
