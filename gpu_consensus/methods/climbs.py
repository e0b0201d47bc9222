"""AddRemAdd climbs of least squares: on a device, compiled for the host, in NumPy.

A climb begins with one object and flips objects in or out, one at a time, while that
raises b(S) = sum of a_lm over l, m in S, divided by |S|. Two climbs that reach the same
set go on alike, so the later one stops there and ends where the earlier one does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.host_loops import compiled_form, has_compiled_loops
from gpu_consensus.backends.protocol import Codes
from gpu_consensus.util.arrays import on_device
from gpu_consensus.util.checks import IntArray
from gpu_consensus.util.progress import Advance

_LOWEST = np.iinfo(np.int64).min
_VISITED = 1 << 28  # bytes of visited sets that are remembered on the host
_ENTRY = 200  # bytes of one, besides its members

Threshold = tuple[int, int]
"""A number p / q as (p, q), q > 0."""


class Climbs(NamedTuple):
    """Where climbs from several starts end, on the host.

    Attributes
    ----------
    total : ndarray of shape (n_starts,), int64
        Sum of a_lm over the last set.
    n_flips : ndarray of shape (n_starts,), int64
        Objects flipped in or out on the way.
    which : ndarray of shape (n_starts,), int64
        The row of ``sets`` that holds the last set.
    sets : ndarray of shape (n_sets, ceil(n / 8)), uint8
        Distinct last sets as packed bits, in the order of their first start.
    """

    total: IntArray
    n_flips: IntArray
    which: IntArray
    sets: npt.NDArray[np.uint8]


class Climb(NamedTuple):
    """What one start gives.

    Attributes
    ----------
    total : int
        Sum of a_lm over the last set.
    n_flips : int
        Flips until the climb ended or joined another one.
    joined : int
        Position of the start whose climb it joined, or -1.
    joined_flips : int
        Flips of that one when it was there.
    members : ndarray of uint8 or None
        Packed bits of the set, if it joined nobody.
    """

    total: int
    n_flips: int
    joined: int
    joined_flips: int
    members: npt.NDArray[np.uint8] | None


class Step(NamedTuple):
    """A set on the way: the object flipped last, the sum of a_lm, |S|, its members."""

    flipped: int
    total: int
    size: int
    members: npt.NDArray[np.bool_]


Climber = Callable[[int], tuple[Any, ...]]
"""From the position of a start to its climb, the fields of :class:`Climb`."""


def climb_all(
    codes: Any,
    n_labels: IntArray,
    starts: IntArray,
    threshold: Threshold,
    similarity: Any = None,
    advance: Advance | None = None,
    n_threads: int = 1,
) -> Climbs:
    """Climb from every start to a set that no single flip improves.

    With a_lm the number of partitions in which l and m share a label, the climb from
    ``starts[x]`` begins with the set of that object alone and flips, in or out, the one
    object that raises b(S) = (q sum a_lm - p |S|^2) / |S| most, until none does; S
    keeps at least one object. The numerator is an exact integer, b is one float64
    division, ties go to the first object: the same everywhere. It is computed where
    ``similarity`` is, or the codes without it.

    Parameters
    ----------
    codes : array of shape (r, n)
        On the host or on a device; with ``similarity`` only its shape matters.
    n_labels : ndarray of shape (r,)
    starts : ndarray of shape (n_starts,)
    threshold : (int, int)
        p and q. Callers see to it that n r < 2^29 and q n^2 r < 2^62.
    similarity : array of shape (n, n), uint8 or uint16, optional
        The a_lm; without it they are counted from the codes again and again.
    advance : callable, optional
        Called with the number of starts that are done.
    n_threads : int, default 1
        Of the host.
    """
    n_starts = len(starts)
    n_labels = np.asarray(n_labels, dtype=np.int64)
    marks = marks_of(codes.shape[1])
    if on_device(codes if similarity is None else similarity):
        # imported here: CuPy is loaded only where something is on a device
        from gpu_consensus.backends.cupy.climbs import climb_waves
        from gpu_consensus.backends.cupy.launcher import Launcher

        return resolve(
            *climb_waves(
                Launcher(),
                codes,
                n_labels,
                starts,
                threshold,
                similarity,
                marks,
                table_size(n_starts),
                advance,
            )
        )
    if has_compiled_loops():
        parts = max(1, min(n_threads, n_starts))
        make = compiled_form("climber")
        own = own_labels(codes, n_labels, similarity).astype(np.int32)
        size = table_size(-(-n_starts // parts))
        climbers: list[Climber] = [
            make(codes, n_labels, starts, threshold, similarity, own, marks, size)
            for _ in range(parts)
        ]
    else:
        climber = numpy_climber(codes, n_labels, starts, threshold, similarity)
        climbers = [climber] * n_threads
    return _share_out(climbers, n_starts, advance)


def score(total: int, size: int, threshold: Threshold) -> float:
    """Return b(S) of the similarities a_lm - p / q, times q.

    An exact integer and one division: the same bits on every backend.

    Examples
    --------
    >>> score(58, 4, (0, 1)), score(58, 4, (4, 2)) / 2
    (14.5, 6.5)
    """
    p, q = threshold
    return float(q * total - p * size * size) / float(size)


def walk(
    row: Callable[[int], npt.NDArray[np.integer]],
    own: IntArray,
    start: int,
    threshold: Threshold,
) -> Iterator[Step]:
    """Yield every set of a climb.

    Parameters
    ----------
    row : callable
        Gives the similarities of one object with all.
    own : ndarray of shape (n,)
        Those of every object with itself.
    start : int
    threshold : (int, int)
    """
    near = np.zeros(len(own), dtype=np.int64)  # a(l, S)
    members = np.zeros(len(own), dtype=np.bool_)
    flip, total, size = start, 0, 0
    while flip >= 0:
        sign = -1 if members[flip] else 1
        total += int(own[flip] + 2 * sign * near[flip])
        size += sign
        near += sign * row(flip).astype(np.int64)
        members[flip] = sign > 0
        yield Step(flip, total, size, members)
        flip = _best_flip(near, own, members, total, size, threshold)


def _best_flip(
    near: IntArray,
    own: IntArray,
    members: npt.NDArray[np.bool_],
    total: int,
    size: int,
    threshold: Threshold,
) -> int:
    """Return the object whose flip raises b(S) most, the first of equals, or -1.

    All objects that enter share one new size, and all that leave share another, so
    integers decide among each.
    """
    change = own + 2 * np.where(members, -near, near)
    enters = int(np.where(members, _LOWEST, change).argmax())
    leaves = int(np.where(members, change, _LOWEST).argmax())
    best, flip = score(total, size, threshold), -1
    if size < len(own):
        higher = score(total + int(change[enters]), size + 1, threshold)
        if higher > best:
            best, flip = higher, enters
    if size > 1:
        higher = score(total + int(change[leaves]), size - 1, threshold)
        if higher > best or (higher == best and flip > leaves):
            flip = leaves
    return flip


def count_labels(codes: Codes, n_labels: IntArray) -> IntArray:
    """Return how many labels every object has: its similarity with itself."""
    own = np.zeros(codes.shape[1], dtype=np.int64)
    for labels, k_i in zip(codes, n_labels, strict=True):
        own += labels != k_i
    return own


def own_labels(codes: Any, n_labels: IntArray, similarity: Any) -> IntArray:
    """Return the similarity of every object with itself, on the host."""
    if similarity is None:
        return count_labels(codes, n_labels)
    own: IntArray = similarity.diagonal().astype(np.int64)
    return own


def numpy_climber(
    codes: Codes,
    n_labels: IntArray,
    starts: IntArray,
    threshold: Threshold,
    similarity: npt.NDArray[np.unsignedinteger] | None,
) -> Climber:
    """Return the reference climber; threads may share it."""
    own = own_labels(codes, n_labels, similarity)
    visited: dict[bytes, tuple[int, int]] = {}

    def row(l: int) -> npt.NDArray[np.integer]:
        if similarity is not None:
            line: npt.NDArray[np.integer] = similarity[l]
            return line
        present = (codes[:, l] != n_labels)[:, None]
        same: IntArray = ((codes == codes[:, l, None]) & present).sum(axis=0)
        return same

    def climb(position: int) -> Climb:
        for n_flips, step in enumerate(
            walk(row, own, int(starts[position]), threshold)
        ):
            members = np.packbits(step.members)
            here = (position, n_flips)
            first = first_visitor(visited, members.tobytes(), here)
            if first != here:
                return Climb(step.total, n_flips, *first, None)
        return Climb(step.total, n_flips, -1, 0, members)

    return climb


def first_visitor(
    visited: dict[bytes, tuple[int, int]], key: bytes, here: tuple[int, int]
) -> tuple[int, int]:
    """Return who reached a set first, (position, flips): ``here`` if nobody did.

    It is remembered, as long as all of them fit the memory set aside for it.

    Examples
    --------
    >>> visited = {}
    >>> first_visitor(visited, b"a", (0, 2)), first_visitor(visited, b"a", (1, 3))
    ((0, 2), (0, 2))
    """
    has_room = len(visited) < _VISITED // (len(key) + _ENTRY)
    return visited.setdefault(key, here) if has_room else visited.get(key, here)


def marks_of(n_samples: int) -> npt.NDArray[np.uint64]:
    """Return random bits for every object; the mark of a set is their exclusive or.

    Compiled climbs know a set by its mark alone. Two sets share one with probability
    2^-64: even if 2^22 sets, a full table, are met 2^22 times, the odds that any climb
    joins the wrong one are 1 to a million.
    """
    bits = np.random.SeedSequence(0).generate_state(2 * n_samples)
    return bits.view(np.uint64)


def table_size(n_starts: int) -> int:
    """Return how many sets a table of visited ones should hold, a power of two."""
    return int(np.clip(1 << (64 * n_starts).bit_length(), 1 << 10, 1 << 22))


def climb_bytes(n_samples: int) -> int:
    """Return the bytes that climbs on a device need besides the codes, rounded up.

    A slot of the table takes 16 bytes; an object takes 20 for its mark, its place among
    the starts, its own labels and its state, and some on the way.
    """
    return 16 * table_size(n_samples) + 32 * n_samples + (1 << 14)


def _share_out(
    climbers: list[Climber], n_starts: int, advance: Advance | None
) -> Climbs:
    """Give each climber, on a thread of its own, a share of the starts."""
    shares = np.array_split(np.arange(n_starts), len(climbers))

    def climb_share(climb: Climber, share: npt.NDArray[np.intp]) -> list[Climb]:
        climbs = []
        for position in share:
            climbs.append(Climb(*climb(int(position))))
            if advance is not None:
                advance(1)
        return climbs

    if len(climbers) == 1:
        done = climb_share(climbers[0], shares[0])
    else:
        with ThreadPoolExecutor(len(climbers)) as pool:
            parts = list(pool.map(climb_share, climbers, shares))
        done = [climb for part in parts for climb in part]
    return resolve(
        np.array([climb.total for climb in done], dtype=np.int64),
        np.array([climb.n_flips for climb in done], dtype=np.int64),
        np.array([climb.joined for climb in done], dtype=np.int64),
        np.array([climb.joined_flips for climb in done], dtype=np.int64),
        {
            at: climb.members
            for at, climb in enumerate(done)
            if climb.members is not None
        },
    )


def resolve(
    total: IntArray,
    n_flips: IntArray,
    joined: IntArray,
    joined_flips: IntArray,
    members: dict[int, npt.NDArray[np.uint8]],
) -> Climbs:
    """Follow climbs that joined others to where these end.

    Who joins whom may depend on the order in which threads come by; where each start
    ends, and after how many flips, does not.

    Parameters
    ----------
    total, n_flips, joined, joined_flips : ndarray of shape (n_starts,)
        As in :class:`Climb`.
    members : dict
        The packed bits of the sets of those that joined nobody.
    """
    alone = joined < 0
    end = np.where(alone, np.arange(len(joined)), joined)
    before = np.where(alone, 0, n_flips - joined_flips)
    for _ in range(len(joined).bit_length()):  # every round doubles the steps taken
        before += before[end]
        end = end[end]
    assert alone[end].all(), "b(S) rises along a climb, so that none joins itself"
    number: dict[bytes, int] = {}
    sets: list[npt.NDArray[np.uint8]] = []
    which = np.empty(len(joined), dtype=np.int64)
    for position, last in enumerate(end.tolist()):
        key = members[last].tobytes()
        if key not in number:
            number[key] = len(sets)
            sets.append(members[last])
        which[position] = number[key]
    return Climbs(total[end], before + n_flips[end], which, np.stack(sets))
