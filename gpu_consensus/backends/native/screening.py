"""Whether and how ``assign`` is screened in 8 or 16 bits; the bound is in screen.c."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.native.layout import LANES, Array, address, blank_table
from gpu_consensus.backends.native.threads import over, scratch

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
_SHARED_ROWS = 256  # of a lookup that two partitions share: they stay in a cache
_REACH = 65536 * 8  # bytes of a lookup that codes of 16 bits can name: GPC_STEP
_ROUNDING = {1: 1.0002, 2: 1.04}  # 1 + 2 d of screen.c, by bytes of an entry
_COST = {1: 0.55, 2: 0.7}  # of a column, in columns of float32: measured
_IN_DOUBT = 55  # columns that a restart in doubt costs besides its own: measured
_MOST = 65535  # what 16 bits hold, of which sums use one of these fractions
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


class Plan(NamedTuple):
    """How a table is rounded to small numbers, before it is; see screen.c.

    Attributes
    ----------
    parts, rows, raised, distance : ndarray
        As in :class:`Screen`.
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

    def cost(self, n_clusters: int, doubts: float) -> float:
        """Estimate what an object that leaves so many costs, in those of float32."""
        saved = 1 - _COST[self.entry.itemsize]
        return 1 - saved * (1 - doubts / self.bearable(n_clusters))


class Screen(NamedTuple):
    """A table of small numbers; see screen.c.

    Attributes
    ----------
    parts : ndarray of shape (L, 2), int64
        As in :class:`Lookups`, those with the largest units first.
    rows : ndarray of shape (L + 1,), int64
        Where the rows of each begin.
    raised : ndarray of shape (L,), uint8
        By how many bits units fall at each lookup.
    small : ndarray of shape (rows, width), uint8 or uint16
    apart : ndarray of shape (R, S, width), float32, or None
        The table in float32, restarts apart, where doubts are settled by it.
    distance : ndarray of shape (R,), uint16
        How far apart two sums have to be; 0 where they are without rounding.
    """

    parts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    raised: npt.NDArray[np.uint8]
    small: Array
    apart: Array | None
    distance: npt.NDArray[np.uint16]


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

    Measured, in columns of a row of float32: a column in 8 bits costs 0.55 of one, in
    16 bits 0.7. A restart in doubt costs its own row and 55 columns more, or 40 to 60
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
    most = min(_SHARED_ROWS, n_samples // 8)
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


def plan_screen(
    call: Any,
    table: Array,
    offsets: npt.NDArray[np.int64],
    lookups: Lookups,
    n_restarts: int,
    n_clusters: int,
    n_threads: int,
) -> list[Plan]:
    """Find out how to round a padded table (S, width): in 8 bits, in 16, or not at all.

    Parameters
    ----------
    call : object
        The kernels.
    """
    width = table.shape[1]
    n_columns = n_restarts * n_clusters
    n_partitions = len(offsets) - 1
    spread, level = np.empty((2, n_partitions, n_restarts), dtype=np.float32)
    lowest = np.empty((len(table), n_restarts), dtype=np.float32)

    def bound(first: int, last: int) -> None:
        call.screen_bounds(
            address(table),
            width,
            address(offsets),
            n_restarts,
            n_clusters,
            first,
            last,
            address(spread),
            address(level),
            address(lowest),
        )

    over(bound, n_partitions, len(table) * n_columns // 4, n_threads)
    parts = lookups.parts
    largest = spread[parts[:, 0]].astype(np.float64)
    largest[parts[:, 1] >= 0] += spread[parts[parts[:, 1] >= 0, 1]]
    widest = largest.sum(axis=0)
    if not ((widest > 0) & (widest < 3e38)).all():
        return []
    small_width = -(-n_columns // _COLUMNS) * _COLUMNS
    plans = []
    for entry_size in _SIZES:
        if int(lookups.n_rows.max()) * small_width * entry_size > _REACH:
            continue
        exact = _is_two_valued(table[:, :n_columns], level)
        if exact:
            unit = np.zeros(len(parts), dtype=np.int64)
            most = min(64, _MOST // n_partitions)
            scale = (most / level.max(axis=0)).astype(np.float32)
            distance = np.zeros(n_restarts)
        else:
            room, unit = _units((largest / widest).max(axis=1), entry_size)
            scale = np.minimum(room / widest, 3e38).astype(np.float32)
            distance = _distance(unit, entry_size, scale, level)
        if not ((distance <= _MOST) & (scale < 3e38)).all():
            continue
        order = np.argsort(-unit, kind="stable")
        bits = unit[order].astype(np.uint8)
        raised = np.zeros_like(bits)
        raised[1:] = bits[:-1] - bits[1:]
        rows = np.zeros(len(parts) + 1, dtype=np.int64)
        np.cumsum(lookups.n_rows[order], out=rows[1:])
        plans.append(
            Plan(
                np.ascontiguousarray(parts[order]),
                rows,
                raised,
                bits,
                scale,
                lowest,
                distance.astype(np.uint16),
                small_width,
                np.dtype(f"u{entry_size}"),
            )
        )
        if exact:
            break
    return plans


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


def fill_screen(
    call: Any,
    table: Array,
    offsets: npt.NDArray[np.int64],
    plan: Plan,
    n_clusters: int,
    n_threads: int,
) -> Screen:
    """Round a padded table (S, width) to small numbers."""
    n_restarts, width = len(plan.scale), table.shape[1]
    n_columns = n_restarts * n_clusters
    small = blank_table(int(plan.rows[-1]), plan.width, plan.entry, make=np.empty)
    by_column = np.zeros(width, dtype=np.float32)
    by_column[:n_columns] = np.tile(plan.scale, n_clusters)
    room_of = call.screen_table_scratch(width, _SHARED_ROWS)

    def fill(first: int, last: int) -> None:
        memory, place = scratch(room_of)
        call.screen_table(
            address(table),
            width,
            address(offsets),
            address(plan.lowest),
            n_restarts,
            n_clusters,
            address(plan.parts),
            address(plan.rows),
            address(plan.unit),
            address(by_column),
            first,
            last,
            address(small),
            small.itemsize,
            plan.width,
            place,
        )
        del memory

    over(fill, len(plan.parts), len(small) * n_columns // 4, n_threads)
    apart = None
    if plan.distance.any() and n_clusters <= MOST_APART:
        apart = _apart(call, table, n_restarts, n_clusters, n_threads)
    return Screen(plan.parts, plan.rows, plan.raised, small, apart, plan.distance)


def _apart(
    call: Any, table: Array, n_restarts: int, n_clusters: int, n_threads: int
) -> Array:
    """Return a padded table with a table of its own for every restart."""
    if n_restarts == 1:
        return table[None]
    n_rows = len(table)
    flat = blank_table(n_restarts * n_rows, n_clusters)

    def write(first: int, last: int) -> None:
        call.screen_apart(
            address(table),
            table.shape[1],
            n_rows,
            n_restarts,
            n_clusters,
            first,
            last,
            address(flat),
            flat.shape[1],
        )

    over(write, n_rows, n_rows * n_restarts * n_clusters // 4, n_threads)
    return flat.reshape(n_restarts, n_rows, -1)


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
