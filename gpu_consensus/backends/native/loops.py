"""Loops of the host in C; each has the signature of its reference in NumPy.

See :mod:`gpu_consensus.backends.host_loops` for where the references are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.native.cells import merge_cells as merge_cells
from gpu_consensus.backends.native.cells import settle_cells as settle_cells
from gpu_consensus.backends.native.expectation import expectation as expectation
from gpu_consensus.backends.native.expectation import memberships as memberships
from gpu_consensus.backends.native.kmeans import draw_starts as draw_starts
from gpu_consensus.backends.native.kmeans import lloyd_starts as lloyd_starts
from gpu_consensus.backends.native.kmeans import nearest_rows as nearest_rows
from gpu_consensus.backends.native.layout import (
    address,
    as_protocol,
    blank_table,
    check_array,
    check_codes,
    check_offsets,
    dense,
    lines,
    place_of,
)
from gpu_consensus.backends.native.library import load
from gpu_consensus.backends.native.threads import over, scratch
from gpu_consensus.backends.protocol import Assignment, Codes, Counts, Offsets, Table
from gpu_consensus.util.checks import FloatArray, IntArray

UTILITIES = ("c", "h", "cos")
"""What ``prices`` knows, as in prices.c."""
LINKAGES = ("average", "sum", "single", "complete")
"""What ``merges`` knows, as in merge.c."""
_SWEPT = 1 << 26  # lookups of a call
_MERGES = 256  # in one call, so that a bar moves and an interrupt is heard


def prices(
    utility: str,
    counts: Counts,
    offsets: Offsets,
    weights: FloatArray,
    unit: float,
    rises: FloatArray,
    n_threads: int,
) -> tuple[Table, Table]:
    """Return what entering a cluster and what staying in it costs, (S, R, K) each.

    Parameters
    ----------
    utility : {"c", "h", "cos"}
    counts : ndarray of shape (S, R, K)
    offsets : ndarray of shape (r + 1,)
    weights : ndarray of shape (r,)
    unit : float
        mu(e_j), the same for every label.
    rises : ndarray
        For "h", the rise of x log2 x at every count up to the largest size.
    n_threads : int
    """
    call, n_partitions = load().call, len(offsets) - 1
    number = UTILITIES.index(utility)
    counts = dense("counts", counts, np.int64, (None, None, None))
    check_offsets("offsets", offsets, len(counts))
    weights = dense("weights", weights, np.float64, (n_partitions,))
    rises = dense("rises", rises, np.float64, (None,))
    largest = int(counts[: offsets[1]].sum(axis=0).max(initial=0))
    if utility == "h" and len(rises) <= largest:
        raise ValueError(
            f"rises has {len(rises)} numbers and should have more than {largest}, the "
            "size of the largest cluster."
        )
    n_rows, n_restarts, n_clusters = counts.shape
    n_columns = n_restarts * n_clusters
    enter, stay = (blank_table(n_rows, n_columns) for _ in range(2))

    def some(first: int, last: int) -> None:
        memory, place = scratch(call.prices_scratch(n_columns))
        call.prices(
            number,
            address(counts),
            address(offsets),
            address(weights),
            unit,
            address(rises),
            n_restarts,
            n_clusters,
            first,
            last,
            address(enter),
            address(stay),
            enter.shape[1],
            place,
        )
        del memory

    over(some, n_partitions, 4 * counts.size, n_threads)
    return (
        as_protocol(enter, n_restarts, n_clusters),
        as_protocol(stay, n_restarts, n_clusters),
    )


def ipc_sweep(
    codes: Codes,
    starts: IntArray,
    missing: IntArray,
    weights: FloatArray,
    marginal: FloatArray,
    complete: bool,
    assignment: Assignment,
    counts: Counts,
    sizes: IntArray,
    members: IntArray,
) -> int:
    """See ``sweep_objects`` of ipc."""
    check_array("counts", counts, np.int64, (None, None), writeable=True)
    n_rows, n_clusters = counts.shape
    offsets = np.append(starts, missing[-1] + 1)
    known = check_codes(codes, offsets, n_rows)
    n_partitions, n_samples = known.shape
    _check_clusters(assignment, n_samples)
    check_array("sizes", sizes, np.int64, (n_partitions, n_clusters), writeable=True)
    check_array("members", members, np.int64, (n_clusters,), writeable=True)
    weights = dense("weights", weights, np.float64, (n_partitions,))
    marginal = dense("marginal", marginal, np.float64, (n_rows,))
    score = np.empty(n_clusters)
    numbers = tuple(map(address, (counts, sizes, members, score)))
    moved = 0
    # in parts, between which signals are heard
    step = max(1, _SWEPT // (n_partitions * n_clusters))
    for begin in range(0, n_samples, step):
        moved += load().call.sweep(
            known.address + begin * known.itemsize,
            known.itemsize,
            known.stride,
            address(offsets),
            n_partitions,
            min(step, n_samples - begin),
            address(weights),
            address(marginal),
            bool(complete),
            place_of(assignment) + begin * assignment.itemsize,
            assignment.itemsize,
            n_clusters,
            *numbers,
        )
    return moved


def tilo_sweep(
    weights: IntArray,
    degree: IntArray,
    order: IntArray,
    left: IntArray,
    boundary: IntArray,
    moves: IntArray,
) -> int:
    """See ``sweep`` of tilo."""
    n, movable = len(weights), len(boundary)
    if movable > n:
        raise ValueError(
            f"boundary has {movable} numbers and should have one for each of the "
            f"{n} vertices at most."
        )
    weights = dense("weights", weights, np.int64, (n, n))
    degree = dense("degree", degree, np.int64, (n,))
    check_array("order", order, np.int64, (n,), writeable=True)
    check_array("left", left, np.int64, (n,), writeable=True)
    check_array("boundary", boundary, np.int64, (movable,), writeable=True)
    check_array("moves", moves, np.int64, (movable, 2), writeable=True)
    shifts: int = load().call.tilo_sweep(
        address(weights),
        n,
        *map(address, (degree, order, left, boundary)),
        movable,
        address(moves),
    )
    return shifts


def climber(
    codes: Codes,
    n_labels: IntArray,
    starts: IntArray,
    threshold: tuple[int, int],
    similarity: npt.NDArray[Any] | None,
    own: npt.NDArray[np.int32],
    marks: npt.NDArray[np.uint64],
    n_slots: int,
) -> Callable[[int], tuple[Any, ...]]:
    """Return a climber with memory of its own: one thread's.

    See ``numpy_climber`` of least squares; ``own`` are the labels of each object,
    ``marks`` random bits of each, ``n_slots`` the sets that it can remember.
    """
    call = load().call
    tight = np.ascontiguousarray(lines("codes", codes, "12", (None, None)).array)
    n_partitions, n = tight.shape
    labels = dense("n_labels", n_labels, np.int64, (n_partitions,))
    begin = dense("starts", starts, np.int64, (None,))
    if begin.size and not 0 <= begin.min() <= begin.max() < n:
        raise ValueError(f"starts should be objects, 0 to {n - 1}.")
    near_all = None
    if similarity is not None:
        known = lines("similarity", similarity, "12", (n, n))
        near_all = np.ascontiguousarray(known.array)
    own = dense("own", own, np.int32, (n,))
    marks = dense("marks", marks, np.uint64, (n,))
    if n_slots < 1 or n_slots & (n_slots - 1):
        raise ValueError(f"n_slots={n_slots} should be a power of two.")
    keys = np.zeros(n_slots, dtype=np.uint64)
    visitor = np.empty((n_slots, 2), dtype=np.int32)
    key, row = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.uint16)
    members = np.empty(n, dtype=np.uint8)

    def climb(position: int) -> tuple[Any, ...]:
        result = np.empty(4, dtype=np.int64)
        call.climb(
            address(tight),
            tight.itemsize,
            n_partitions,
            n,
            address(labels),
            address(near_all),
            0 if near_all is None else near_all.itemsize,
            address(own),
            address(marks),
            int(begin[position]),
            position,
            *threshold,
            address(keys),
            n_slots,
            address(visitor),
            address(key),
            address(row),
            address(members),
            address(result),
        )
        total, n_flips, joined, joined_flips = result.tolist()
        packed = np.packbits(members) if joined < 0 else None
        return total, n_flips, joined, joined_flips, packed

    return climb


def merges(
    matrix: FloatArray, sizes: FloatArray, linkage: str, least: float, n_left: int
) -> Iterator[tuple[int, int, float]]:
    """See ``numpy_merges`` of agglomerate."""
    n = len(sizes)
    matrix = dense("matrix", matrix, np.float64, (n, n))
    np.fill_diagonal(matrix, -np.inf)
    numbers = np.stack([dense("sizes", sizes, np.float64, (n,)), np.full(n, np.inf)])
    lists = np.zeros((7, n), dtype=np.int64)
    lists[1], lists[2] = 1, np.arange(n)
    state = np.array([n, n, 0, 0])
    merged, scores = np.empty((_MERGES, 2), dtype=np.int64), np.empty(_MERGES)
    done = _MERGES
    while done == _MERGES:
        done = load().call.merge(
            address(matrix),
            n,
            LINKAGES.index(linkage),
            *map(address, (numbers, lists, state)),
            least,
            n_left,
            _MERGES,
            address(merged),
            address(scores),
        )
        for (into, gone), score in zip(
            merged[:done].tolist(), scores[:done].tolist(), strict=True
        ):
            yield into, gone, score


def vote_round(
    votes: FloatArray,
    weight: FloatArray,
    voters: Codes | None,
    table: FloatArray | None,
    labels: Codes | None,
    n_labels: int,
    n_threads: int,
) -> IntArray:
    """See ``numpy_vote_round`` of cvote."""
    call = load().call
    check_array("votes", votes, np.float64, (None, None), writeable=True)
    n, n_clusters = votes.shape
    weight = dense("weight", weight, np.float64, (n,))
    voting = None if voters is None else lines("voters", voters[None], "12", (1, n))
    asked = None if labels is None else lines("labels", labels[None], "12", (1, n))
    rows = None
    if voting is not None:
        rows = dense("table", table, np.float64, (None, n_clusters))
        _check_below("voters", voting.array, len(rows))
    if asked is not None:
        _check_below("labels", asked.array, n_labels + 1)
    found: list[IntArray] = []

    def some(begin: int, end: int) -> None:
        sums = np.zeros((n_labels + 1, n_clusters), dtype=np.int64)
        found.append(sums)
        call.vote_round(
            address(votes),
            n_clusters,
            address(weight),
            None if voting is None else voting.address,
            0 if voting is None else voting.itemsize,
            address(rows),
            None if asked is None else asked.address,
            0 if asked is None else asked.itemsize,
            begin,
            end,
            address(sums),
        )

    over(some, n, votes.size // 2, n_threads, parts=1)
    total = np.zeros((n_labels + 1, n_clusters), dtype=np.int64)
    for sums in found:
        total += sums
    return total


def pair_sums(columns: FloatArray, pairs: IntArray, n_threads: int) -> IntArray:
    """See ``numpy_pair_sums`` of cvote."""
    call = load().call
    columns = dense("columns", columns, np.float64, (None, None))
    pairs = dense("pairs", pairs, np.int64, (None, 2))
    if pairs.size and not 0 <= pairs.min() <= pairs.max() < len(columns):
        raise ValueError(f"pairs should be columns, 0 to {len(columns) - 1}.")
    found: list[IntArray] = []

    def some(begin: int, end: int) -> None:
        sums = np.zeros(len(pairs), dtype=np.int64)
        found.append(sums)
        call.pair_sums(
            address(columns),
            columns.shape[1],
            address(pairs),
            len(pairs),
            begin,
            end,
            address(sums),
        )

    n = columns.shape[1]
    over(some, n, 4 * n * len(pairs), n_threads)
    total = np.zeros(len(pairs), dtype=np.int64)
    for sums in found:
        total += sums
    return total


def _check_below(name: str, codes: Codes, bound: int) -> None:
    """Check labels that choose rows of a table or of sums."""
    if codes.size and codes.max() >= bound:
        raise ValueError(f"{name} has {codes.max()} and should be below {bound}.")


def _check_clusters(assignment: Assignment, n_samples: int) -> None:
    """Check an assignment (n,) that a kernel changes."""
    kind = np.asarray(assignment).dtype
    if kind.kind != "u" or kind.itemsize not in (1, 2, 4):
        raise TypeError(f"assignment has dtype {kind} and should be uint8, 16 or 32.")
    check_array("assignment", assignment, kind, (n_samples,), writeable=True)
