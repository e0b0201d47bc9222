"""Loops of the host in C; each has the signature of its reference in NumPy.

See :mod:`gpu_consensus.backends.host_loops` for where the references are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.native.kmeans import draw_starts as draw_starts
from gpu_consensus.backends.native.kmeans import lloyd_starts as lloyd_starts
from gpu_consensus.backends.native.kmeans import nearest_rows as nearest_rows
from gpu_consensus.backends.native.layout import (
    address,
    as_protocol,
    blank_table,
    check_array,
    check_codes,
    dense,
    lines,
)
from gpu_consensus.backends.native.library import load
from gpu_consensus.backends.native.threads import over, scratch
from gpu_consensus.backends.protocol import Assignment, Codes, Counts, Offsets, Table
from gpu_consensus.util.checks import FloatArray, IntArray

UTILITIES = ("c", "h", "cos")
"""What ``prices`` knows, as in prices.c."""


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
    counts = dense("counts", counts, np.int64, (int(offsets[-1]), None, None))
    weights = dense("weights", weights, np.float64, (n_partitions,))
    rises = dense("rises", rises, np.float64, (None,))
    n_rows, n_restarts, n_clusters = counts.shape
    n_columns = n_restarts * n_clusters
    enter, stay = (blank_table(n_rows, n_columns) for _ in range(2))

    def some(first: int, last: int) -> None:
        memory, place = scratch(16 * n_columns)
        call.prices(
            UTILITIES.index(utility),
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
            place + 8 * n_columns,
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
    moved: int = load().call.sweep(
        known.address,
        known.itemsize,
        known.stride,
        address(offsets),
        n_partitions,
        n_samples,
        address(weights),
        address(marginal),
        bool(complete),
        address(assignment),
        assignment.itemsize,
        n_clusters,
        *map(address, (counts, sizes, members, score)),
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
    keys = np.zeros(n_slots, dtype=np.uint64)
    visitor = np.empty((n_slots, 2), dtype=np.int32)
    near, row = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.uint16)
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
            address(near),
            address(row),
            address(members),
            address(result),
        )
        total, n_flips, joined, joined_flips = result.tolist()
        packed = np.packbits(members) if joined < 0 else None
        return total, n_flips, joined, joined_flips, packed

    return climb


def _check_clusters(assignment: Assignment, n_samples: int) -> None:
    """Check an assignment (n,) that a kernel changes."""
    kind = np.asarray(assignment).dtype
    if kind.kind != "u" or kind.itemsize not in (1, 2, 4):
        raise TypeError(f"assignment has dtype {kind} and should be uint8, 16 or 32.")
    check_array("assignment", assignment, kind, (n_samples,), writeable=True)
