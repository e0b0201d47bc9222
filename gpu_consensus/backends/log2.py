"""A base-2 logarithm that every backend computes alike, bit for bit.

Library logarithms differ in the last bit between NumPy builds, C libraries and CUDA.
This one is a fixed sequence of IEEE operations, the same as ``gpc_log2`` in
``cuda_kernels/prelude.cuh``: split off the exponent, map the mantissa f to
s = (f - 1) / (f + 1), and sum the series of log2 f = 2 / ln 2 * atanh s.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

# 2 / ((2 t + 1) ln 2), t = 0..11: |s| <= 0.1716, so the next term is below 2**-63
COEFFICIENTS = (
    2.8853900817779268,
    0.9617966939259756,
    0.5770780163555853,
    0.4121985831111324,
    0.3205988979753252,
    0.2623081892525388,
    0.22195308321368667,
    0.19235933878519512,
    0.16972882833987804,
    0.15186263588304877,
    0.1373995277037108,
    0.12545174268599682,
)
_SQRT_2 = 1.4142135623730951
LOOKUP_BITS = 22
"""Values for counts below 2 to this power are looked up in a table."""


def log2(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return log2 of positive normal float64 numbers, to a few units in the last place.

    Examples
    --------
    >>> import numpy as np
    >>> log2(np.array([0.25, 1.0, 8.0])).tolist()
    [-2.0, 0.0, 3.0]
    """
    bits = np.ascontiguousarray(x, dtype=np.float64).view(np.int64)
    exponent = (bits >> 52) - 1023
    mantissa = ((bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000).view(np.float64)
    high = mantissa > _SQRT_2
    mantissa = np.where(high, mantissa * 0.5, mantissa)
    exponent = exponent + high
    s = (mantissa - 1.0) / (mantissa + 1.0)
    z = s * s
    series = np.full_like(z, COEFFICIENTS[-1])
    for coefficient in COEFFICIENTS[-2::-1]:
        series = series * z + coefficient
    return np.asarray(exponent + s * series, dtype=np.float64)


def x_log2_x(n: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return n log2 n of counts, 0 for 0.

    Examples
    --------
    >>> x_log2_x(np.array([0, 1, 4])).tolist()
    [0.0, 0.0, 8.0]
    """
    bits = int(n.max(initial=0)).bit_length()
    if bits <= LOOKUP_BITS:
        return _products(bits).take(n)
    return np.asarray(n * log2(np.maximum(n, 1.0)))


@lru_cache(maxsize=32)
def _products(bits: int) -> npt.NDArray[np.float64]:
    """All n log2 n below 2**bits."""
    n = np.arange(1 << bits)
    return np.asarray(n * log2(np.maximum(n, 1.0)))
