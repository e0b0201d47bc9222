"""A mixing of 64-bit words, so that sums of mixed words make hashes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def splitmix64(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Scatter 64-bit words, on the host or on a device; products wrap around.

    References
    ----------
    G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number
    generators", OOPSLA 2014: the increment and the finaliser of SplitMix.

    Examples
    --------
    The first number of the generator with the seed 0.

    >>> [hex(word) for word in splitmix64(np.zeros(1, dtype=np.uint64)).tolist()]
    ['0xe220a8397b1dcdaf']
    """
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
