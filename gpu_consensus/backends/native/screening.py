"""Whether and how ``assign`` is screened in 8 or 16 bits; the bound is in screen.c."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.native.layout import LANES, Array, address
from gpu_consensus.backends.native.threads import over

MOST_PARTITIONS = 4096
"""More have sums too coarse to decide anything."""
_PAYS = 8  # rows that are looked up for each that is rounded
_FEWEST_COLUMNS = 17  # fewer are one vector of float32, and no slower so
_COLUMNS = 32  # rows are padded to so many
_SIZES = (1, 2)  # bytes of an entry that are tried
MOST_APART = 48
"""Clusters up to which doubts are settled restart by restart, not one by one."""
CLUSTERS_IN_DOUBT = 2.5
"""How many clusters a restart in doubt has, about."""
PROBE = 2048
"""Objects that tell whether screening pays; fewer are not screened at all."""
_LOOK = 256  # objects that tell whether most labels are missing
SHARED_ROWS = 256  # of a lookup that two partitions share: they stay in a cache
_REACH = 65536 * 8  # bytes of a lookup that codes of 16 bits can name: GPC_STEP
_ROUNDING = {1: 1.0002, 2: 1.04}  # 1 + 2 d of screen.c, by bytes of an entry
_COST = {1: 0.42, 2: 0.55}  # of a column, in columns of float32: measured
_IN_DOUBT = 45  # columns that a restart in doubt costs besides its own: measured
_APART_PAYS = 256  # entries of a table laid apart for each restart in doubt: measured
_MOST = 65535  # what 16 bits hold, of which sums use one of these fractions
_BEYOND = 1.25  # how far sums of 16 bits reach, in those of the winners seen
_LEAST_REACH = 2.0**-8  # and at least, in what sums might reach
_EPSILON = 2.0**-24
_FRACTIONS = tuple(0.99 * 2.0 ** (-step / 5) for step in range(5))


class Lookups(NamedTuple):
    """Which partitions share a lookup, and where the rows of each begin.

    Attributes
    ----------
    parts : ndarray of shape (L, 2), int64
        A partition, and the one that shares its lookup or -1.
    n_rows : ndarray of shape (L,), int64
    """

    parts: npt.NDArray[np.int64]
    n_rows: npt.NDArray[np.int64]


class Bounds(NamedTuple):
    """How far the entries of a table reach.

    Attributes
    ----------
    spread, level : ndarray of shape (r, R), float32
        The largest T' of a partition, and the largest size of an entry.
    lowest : ndarray of shape (S, R), float32
        The least entry of every row.
    """

    spread: npt.NDArray[np.float32]
    level: npt.NDArray[np.float32]
    lowest: npt.NDArray[np.float32]


class Plan(NamedTuple):
    """How a table is rounded to small numbers, before it is; see screen.c.

    Attributes
    ----------
    parts, rows, raised, distance : ndarray
        As in :class:`rounding.Screen`.
    unit : ndarray of shape (L,), uint8
        The power of two that a lookup counts in.
    scale : ndarray of shape (R,), float32
        What a table is multiplied by, in the smallest unit.
    lowest : ndarray of shape (S, R), float32
        The least entry of every row.
    width : int
        Entries of a row.
    entry : dtype
        uint8 or uint16.
    """

    parts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    raised: npt.NDArray[np.uint8]
    unit: npt.NDArray[np.uint8]
    scale: npt.NDArray[np.float32]
    lowest: npt.NDArray[np.float32]
    distance: npt.NDArray[np.uint16]
    width: int
    entry: np.dtype[Any]

    def bearable(self, n_clusters: int) -> float:
        """Return how many restarts in doubt an object may leave, see below."""
        return bearable_doubts(len(self.scale), n_clusters, self.entry.itemsize)

    def settles_apart(self, n_clusters: int, doubts: float) -> bool:
        """Whether so many restarts in doubt pay for a table of each restart."""
        entries = self.lowest.size * n_clusters
        return n_clusters <= MOST_APART and doubts * _APART_PAYS > entries

    def cost(self, n_clusters: int, doubts: float) -> float:
        """Estimate what an object that leaves so many costs, in those of float32."""
        saved = 1 - _COST[self.entry.itemsize]
        return 1 - saved * (1 - doubts / self.bearable(n_clusters))


def worth_screening(n_samples: int, n_partitions: int, shape: tuple[int, ...]) -> bool:
    """Whether a table of this shape (S, R, K) may pay for rounding it."""
    return (
        n_samples > PROBE
        and n_partitions <= MOST_PARTITIONS
        and 2 <= shape[2] <= 32767
        and shape[1] * shape[2] >= _FEWEST_COLUMNS
        and n_samples * n_partitions >= _PAYS * shape[0]
    )


def mostly_missing(codes: Array, offsets: npt.NDArray[np.int64]) -> bool:
    """Whether the first objects lack most labels: then float32 skips these rows.

    Examples
    --------
    >>> import numpy as np
    >>> mostly_missing(np.array([[2, 2, 0, 2]], dtype=np.uint8), np.array([0, 3]))
    True
    """
    some = codes[:, :_LOOK]
    present = int(np.count_nonzero(some != np.diff(offsets)[:, None] - 1))
    return 2 * present < some.size


def bearable_doubts(n_restarts: int, n_clusters: int, entry_size: int) -> float:
    """Return how many restarts in doubt an object may leave before float32 is quicker.

    Measured, in columns of a row of float32: a column in 8 bits costs 0.42 of one, in
    16 bits 0.55. A restart in doubt costs its own row and 45 columns more, or 40 to 60
    columns for each of its clusters in doubt.
    """
    columns = n_restarts * n_clusters
    saved = (1 - _COST[entry_size]) * columns
    if n_clusters <= MOST_APART:
        padded = -(-n_clusters // LANES) * LANES
        return saved / (padded + _IN_DOUBT)
    return max(0.05, saved / 29 - 0.1) / CLUSTERS_IN_DOUBT


def share_lookups(offsets: npt.NDArray[np.int64], n_samples: int) -> Lookups:
    """Let partitions of few labels share lookups, two by two.

    Examples
    --------
    >>> import numpy as np
    >>> share_lookups(np.array([0, 9, 500, 511]), 10_000).parts.tolist()
    [[0, 2], [1, -1]]
    """
    rows = np.diff(offsets)
    most = min(SHARED_ROWS, n_samples // 8)
    parts: list[tuple[int, int]] = []
    waiting = -1
    for i, size in enumerate(rows.tolist()):
        if size * size > most:
            parts.append((i, -1))
        elif waiting < 0:
            waiting = i
        else:
            parts.append((waiting, i))
            waiting = -1
    if waiting >= 0:
        parts.append((waiting, -1))
    found = np.array(sorted(parts), dtype=np.int64)
    second = np.where(found[:, 1] < 0, 1, rows[found[:, 1]])
    return Lookups(found, rows[found[:, 0]] * second)


def bound_table(
    call: Any,
    table: Array,
    offsets: npt.NDArray[np.int64],
    n_restarts: int,
    n_clusters: int,
    n_threads: int,
) -> Bounds:
    """Find how far the entries of a padded table (S, width) reach."""
    n_partitions = len(offsets) - 1
    spread, level = np.empty((2, n_partitions, n_restarts), dtype=np.float32)
    lowest = np.empty((len(table), n_restarts), dtype=np.float32)

    def bound(first: int, last: int) -> None:
        call.screen_bounds(
            address(table),
            table.shape[1],
            address(offsets),
            n_restarts,
            n_clusters,
            first,
            last,
            address(spread),
            address(level),
            address(lowest),
        )

    over(bound, n_partitions, len(table) * n_restarts * n_clusters // 4, n_threads)
    return Bounds(spread, level, lowest)


def plan_exact(
    table: Array, bounds: Bounds, lookups: Lookups, n_clusters: int
) -> Plan | None:
    """Plan for a table of two values, whose sums need no rounding; else None."""
    n_partitions, n_restarts = bounds.level.shape
    columns = n_restarts * n_clusters
    if not bounds.spread.max(axis=0).min() > 0 or not _fits(lookups, columns, 1):
        return None
    if not _is_two_valued(table[:, :columns], bounds.level):
        return None
    unit = np.zeros(len(lookups.parts), dtype=np.int64)
    most = min(64, _MOST // n_partitions)
    scale = (most / bounds.level.max(axis=0)).astype(np.float32)
    if not (scale < 3e38).all():
        return None
    distance = np.zeros(n_restarts)
    return _plan(lookups, bounds, unit, scale, distance, columns, 1)


def plan_rounded(
    bounds: Bounds,
    lookups: Lookups,
    reach: npt.NDArray[np.float64],
    n_clusters: int,
) -> list[Plan]:
    """Return the ways to round a table to 8 bits and to 16, where there are any.

    Parameters
    ----------
    reach : ndarray of shape (R,)
        How far the sums of winners lie above those of the least entries, about.
    """
    columns = len(reach) * n_clusters
    largest = _of_lookups(bounds, lookups)
    widest = largest.sum(axis=0)
    plans = []
    for entry_size in _SIZES:
        if not _fits(lookups, columns, entry_size):
            continue
        room, unit = _units((largest / widest).max(axis=1), entry_size)
        far = widest
        if entry_size == 2:  # sums that are cut belong to no winner
            far = np.clip(_BEYOND * reach, _LEAST_REACH * widest, widest)
        scale = np.minimum(room / far, 3e38).astype(np.float32)
        distance = _distance(unit, entry_size, scale, bounds.level)
        if ((distance <= _MOST) & (scale < 3e38)).all():
            plans.append(
                _plan(lookups, bounds, unit, scale, distance, columns, entry_size)
            )
    return plans


def has_room(bounds: Bounds, lookups: Lookups) -> bool:
    """Whether the entries of every restart differ, and are finite."""
    widest = _of_lookups(bounds, lookups).sum(axis=0)
    return bool(((widest > 0) & (widest < 3e38)).all())


def _of_lookups(bounds: Bounds, lookups: Lookups) -> npt.NDArray[np.float64]:
    """Return M of screen.c, (L, R): how far the entries of a lookup reach."""
    parts = lookups.parts
    largest = bounds.spread[parts[:, 0]].astype(np.float64)
    shared = parts[:, 1] >= 0
    largest[shared] += bounds.spread[parts[shared, 1]]
    return largest


def _fits(lookups: Lookups, columns: int, entry_size: int) -> bool:
    """Whether codes of 16 bits can name all places of the largest lookup."""
    width = -(-columns // _COLUMNS) * _COLUMNS
    return int(lookups.n_rows.max()) * width * entry_size <= _REACH


def _plan(
    lookups: Lookups,
    bounds: Bounds,
    unit: npt.NDArray[np.int64],
    scale: npt.NDArray[np.float32],
    distance: npt.NDArray[np.float64],
    columns: int,
    entry_size: int,
) -> Plan:
    """Put the lookups with the largest units first."""
    order = np.argsort(-unit, kind="stable")
    bits = unit[order].astype(np.uint8)
    raised = np.zeros_like(bits)
    raised[1:] = bits[:-1] - bits[1:]
    rows = np.zeros(len(order) + 1, dtype=np.int64)
    np.cumsum(lookups.n_rows[order], out=rows[1:])
    return Plan(
        np.ascontiguousarray(lookups.parts[order]),
        rows,
        raised,
        bits,
        scale,
        bounds.lowest,
        distance.astype(np.uint16),
        -(-columns // _COLUMNS) * _COLUMNS,
        np.dtype(f"u{entry_size}"),
    )


def _distance(
    unit: npt.NDArray[np.int64],
    entry_size: int,
    scale: npt.NDArray[np.float32],
    level: npt.NDArray[np.float32],
) -> npt.NDArray[np.float64]:
    """Return how far apart two sums have to be: D of screen.c."""
    n_partitions = len(level)
    rounding = (n_partitions - 1) * _EPSILON / (1 - (n_partitions - 1) * _EPSILON)
    error = rounding * level.sum(axis=0, dtype=np.float64)
    coarse = float(np.ldexp(1.0, unit).sum())
    found = np.floor(_ROUNDING[entry_size] * coarse + 2 * scale * error) + 1
    return np.asarray(found)


def _is_two_valued(table: Array, level: npt.NDArray[np.float32]) -> bool:
    """Whether every entry is 0 or what is the largest of its restart.

    Parameters
    ----------
    table : ndarray of shape (S, K R)
    level : ndarray of shape (r, R)
        The largest size of an entry.

    Examples
    --------
    >>> import numpy as np
    >>> table = np.array([[0, 0.5, 2, 0], [0, 0, 0, 0.5]], dtype=np.float32)
    >>> level = np.array([[2, 0.5]], dtype=np.float32)
    >>> _is_two_valued(table, level), _is_two_valued(table, level / 2)
    (True, False)
    """
    largest = level.max(axis=0)
    if not ((level == 0) | (level == largest)).all():
        return False
    n_clusters = table.shape[1] // len(largest)
    few = table[:: max(1, len(table) // 64)]  # tells of most tables that are not
    if not ((few == 0) | (few == np.tile(largest, n_clusters))).all():
        return False
    return bool(((table == 0) | (table == np.tile(largest, n_clusters))).all())


def _units(
    share: npt.NDArray[np.float64], entry_size: int
) -> tuple[float, npt.NDArray[np.int64]]:
    """Choose how far sums reach, and the units of lookups as powers of two.

    Parameters
    ----------
    share : ndarray of shape (L,)
        The largest entry of each lookup, as a part of the sum of all.
    entry_size : {1, 2}
        Bytes of an entry. Two hold whatever a sum holds: all units are 1.

    Returns
    -------
    room : float
        What the largest entries add up to, in the smallest unit.
    unit : ndarray of shape (L,), int64
        The least is 0.

    Examples
    --------
    >>> import numpy as np
    >>> room, unit = _units(np.array([0.75, 0.125, 0.125]), 1)
    >>> unit.tolist(), bool(room * 0.75 / 2 ** unit[0] <= 254)
    ([2, 0, 0], True)
    """
    best, found = np.inf, (0.0, np.zeros(len(share), dtype=np.int64))
    if entry_size == 2:
        room = (_MOST - _ROUNDING[2] / 2 * len(share)) / (1 + 1e-6)
        return max(room, 0.0), found[1]
    for fraction in _FRACTIONS:
        room = fraction * _MOST
        unit = np.ceil(np.log2(np.maximum(room * share / 254, 1))).astype(np.int64)
        coarse = float(np.ldexp(1.0, unit).sum())
        if room * (1 + 1e-6) + _ROUNDING[1] / 2 * coarse > _MOST:
            continue
        if coarse / room < best:
            best = coarse / room
            least = int(unit.min())
            found = room / 2**least, unit - least
    return found
