"""Whether and how ``assign`` is screened in 16 bits; the bound is in screen.c."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.native.layout import Array, address, blank_table
from gpu_consensus.backends.native.threads import over

MOST_PARTITIONS = 4096
"""More have sums too coarse to decide anything."""
_PAYS = 8  # rows that are looked up for each that is rounded
PROBE = 2048
"""Objects that tell whether screening pays; fewer are not screened at all."""
_SLACK = 0.05  # units: twice what the roundings of screen.c come to, and more
_UNIT = 2.0**-24


class Screen(NamedTuple):
    """A table in 16 bits, and how far apart two sums have to be, by restart."""

    small: npt.NDArray[np.uint16]
    distance: npt.NDArray[np.uint16]


def worth_screening(n_samples: int, n_partitions: int, shape: tuple[int, ...]) -> bool:
    """Whether a table of this shape (S, R, K) may pay for rounding it."""
    return (
        n_samples >= PROBE
        and n_partitions <= MOST_PARTITIONS
        and 2 <= shape[2] <= 32767
        and n_samples * n_partitions >= _PAYS * shape[0]
    )


def make_screen(
    call: Any,
    table: Array,
    offsets: npt.NDArray[np.int64],
    n_restarts: int,
    n_clusters: int,
    n_threads: int,
) -> Screen | None:
    """Round a padded table (S, width) to 16 bits; None where it has no room for that.

    Parameters
    ----------
    call : object
        The kernels.
    """
    n_rows, width = table.shape
    n_partitions, n_columns = len(offsets) - 1, n_restarts * n_clusters
    spread, level = np.empty((2, n_partitions, n_restarts), dtype=np.float32)
    given = (address(table), width)
    work = n_rows * n_columns // 4

    def bound(first: int, last: int) -> None:
        call.screen_bounds(
            *given,
            address(offsets),
            n_restarts,
            n_clusters,
            first,
            last,
            address(spread),
            address(level),
        )

    over(bound, n_partitions, work, n_threads)
    widest = spread.sum(axis=0, dtype=np.float64)
    if not ((widest > 0) & (widest < 3e38)).all():
        return None
    room = 65534 - n_partitions / 2
    scale = np.minimum(room / widest, 3e38).astype(np.float32)
    rounding = (n_partitions - 1) * _UNIT / (1 - (n_partitions - 1) * _UNIT)
    error = rounding * level.sum(axis=0, dtype=np.float64)
    distance = np.floor(n_partitions + _SLACK + 2 * scale * error) + 1
    if not (distance <= 65535).all():
        return None
    # rows of half a vector where they do: the rest of a whole one would be nothing
    lanes = 16 if n_columns <= 16 else 32
    padded = -(-n_columns // lanes) * lanes
    small = blank_table(n_rows, padded, np.uint16, make=np.empty)

    def fill(first: int, last: int) -> None:
        call.screen_table(
            *given,
            n_restarts,
            n_clusters,
            address(scale),
            first,
            last,
            address(small),
            padded,
        )

    over(fill, n_rows, work, n_threads)
    return Screen(small, distance.astype(np.uint16))
