"""An exponential that NumPy and the C library compute alike, bit for bit.

Library exponentials differ in the last bit between NumPy builds and processors. This
one is a fixed sequence of IEEE operations, the same as ``gpc_exp`` in ``native/exp.h``:
x = m ln 2 + r with a whole number m, then the series of exp r, whose exponent grows by
m.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

# 1 / t!, t = 13..0: |r| <= ln 2 / 2, so the next term is below 2**-57
COEFFICIENTS = tuple(1.0 / math.factorial(t) for t in range(13, -1, -1))
_SHIFT = 1.5 * 2.0**52  # a sum with it ends in the nearest whole number
_LOG2_E = float.fromhex("0x1.71547652b82fep0")
_LN_2 = (float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33"))
LEAST = -700.0
"""Up to here the result is 0."""


def exp(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return exp of numbers <= 0, to a unit or two in the last place; 0 from -700 down.

    Examples
    --------
    >>> import numpy as np
    >>> exp(np.array([0.0, -1.0, -np.inf])).round(3).tolist()
    [1.0, 0.368, 0.0]
    """
    alive = x > LEAST
    x = np.where(alive, x, 0.0)
    shifted = x * _LOG2_E + _SHIFT
    whole = shifted - _SHIFT
    r = (x - whole * _LN_2[0]) - whole * _LN_2[1]
    series = r * COEFFICIENTS[0] + COEFFICIENTS[1]
    for coefficient in COEFFICIENTS[2:]:
        series *= r
        series += coefficient
    bits = series.view(np.int64)
    bits += shifted.view(np.int64) << 52
    return np.where(alive, series, 0.0)
