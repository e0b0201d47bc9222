"""Objects whose labels are the same in every partition, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu_consensus.backends.numba_jit import compiled

_BLOCK = 4096  # objects whose labels are mixed together
_SPREAD = 1 << 15  # objects whose places stay in the cache


@compiled
def number_rows(
    codes: Any,
    stride: Any,
    n_partitions: Any,
    most: Any,
    place: Any,
    first: Any,
    keys: Any,
    slots: Any,
) -> Any:
    """Number the rows of labels as they appear; return how many there are, or -1.

    Rows are told apart by 64 bits mixed from their labels, in a table of slots that
    are looked up one after another.

    Parameters
    ----------
    most : int
        The answer is -1 as soon as there are more rows than this, and if fewer than
        one in twenty of the first sixteenth of the objects repeat a row.
    place : (n,)
        Number of the row of each object.
    first, keys : (most,)
        The first object of each row, and its bits.
    slots : (a power of two,)
        Holds -1; larger than ``most``.
    """
    n_samples = len(place)
    mask = np.uint64(len(slots) - 1)
    mixed = np.empty(_BLOCK, np.uint64)
    found, early = 0, n_samples // 16
    for begin in range(0, n_samples, _BLOCK):
        size = min(_BLOCK, n_samples - begin)
        mixed[:] = np.uint64(0x9E3779B97F4A7C15)
        for i in range(n_partitions):
            line = i * stride + begin
            for t in range(size):
                bits = mixed[t] ^ np.uint64(codes[line + t])
                bits *= np.uint64(0xFF51AFD7ED558CCD)
                mixed[t] = bits ^ (bits >> np.uint64(32))
        for t in range(size):
            slot = mixed[t] & mask
            while slots[slot] >= 0 and keys[slots[slot]] != mixed[t]:
                slot = (slot + np.uint64(1)) & mask
            if slots[slot] < 0:
                if found == most:
                    return -1
                slots[slot] = found
                first[found] = begin + t
                keys[found] = mixed[t]
                found += 1
            place[begin + t] = slots[slot]
        seen = begin + size
        if begin <= early < seen and 20 * (seen - found) < seen:
            return -1
    return found


@compiled
def same_rows(
    codes: Any, stride: Any, place: Any, distinct: Any, begin: Any, end: Any
) -> Any:
    """Whether all objects have the labels of their row in partitions begin..end."""
    n_samples = len(place)
    for i in range(begin, end):
        line, row = i * stride, distinct[i]
        differ = 0
        for l in range(n_samples):
            differ += codes[line + l] != row[place[l]]
        if differ:
            return False
    return True


@compiled
def spread_rows(
    found: Any, chosen: Any, place: Any, begin: Any, end: Any, assignment: Any
) -> None:
    """Give objects begin..end the cluster of their row, in restarts ``chosen``."""
    for start in range(begin, end, _SPREAD):
        stop = min(start + _SPREAD, end)
        for a in range(len(chosen)):
            row, target = found[a], assignment[chosen[a]]
            for l in range(start, stop):
                target[l] = row[place[l]]
