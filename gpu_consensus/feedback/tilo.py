"""TILO: an order of a graph's vertices whose prefixes cut few edges."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.host_loops import fastest
from gpu_consensus.util.checks import FloatArray, IntArray, seed_sequence

_BITS = 61  # of the sum of all weights, so that no sum of ours overflows


class Ordering(NamedTuple):
    """An order of the vertices that no single shift improves.

    Attributes
    ----------
    order : ndarray of shape (n,), int64
        The vertices from first to last.
    boundary : ndarray of shape (n,), float64
        b_i, the weight of the edges between the first i + 1 vertices and all others.
    shifts : ndarray of shape (n_shifts, 2), int64
        What was done: the vertex at the first position went to the second.
    """

    order: IntArray
    boundary: FloatArray
    shifts: IntArray


def tilo(graph: Any, order: Any = None, random_state: Any = None) -> Ordering:
    """Order the vertices of a graph topologically (TILO).

    The width of an order is its boundary b_0, ..., b_{n-1} sorted from large to small;
    of two orders the one whose width comes first lexicographically is better. At every
    local maximum of b the vertex whose shift to the other side lowers it most is
    shifted, until none does. The local minima of b then bound what the paper calls
    pinch clusters.

    Parameters
    ----------
    graph : array_like of shape (n, n)
        Symmetric weights >= 0; the diagonal is ignored. They are rounded to 61 bits
        of their sum, so that everything is computed in integers, exactly.
    order : array_like of shape (n,), optional
        The order to begin with; random by default.
    random_state : int, Generator, RandomState, SeedSequence, optional
        Seed of a random order.

    Returns
    -------
    Ordering

    Notes
    -----
    All local maxima are handled in one sweep, from left to right: their shifts touch
    different positions. Among the shifts of a maximum the largest drop wins, ties go
    to the lowest position. A sweep takes O(n^2) at most. The variant of the paper that
    also works down the sides of a maximum (RefineTILO) is not here.

    References
    ----------
    D. R. Heisterkamp, J. Johnson, "Pinch ratio clustering from a topologically
    intrinsic lexicographic ordering", SIAM International Conference on Data Mining,
    2013.

    Examples
    --------
    Two triangles and an edge between them:

    >>> import numpy as np
    >>> graph = np.zeros((6, 6))
    >>> for a, b in [(0, 2), (0, 4), (2, 4), (1, 3), (1, 5), (3, 5), (2, 3)]:
    ...     graph[a, b] = graph[b, a] = 1
    >>> result = tilo(graph, order=[0, 1, 2, 3, 4, 5])
    >>> sorted(result.order[:3].tolist()), float(result.boundary[2])
    ([0, 2, 4], 1.0)
    """
    weights, unit = exact_weights(graph)
    n = len(weights)
    if order is None:
        rng = np.random.default_rng(seed_sequence(random_state))
        vertices = rng.permutation(n).astype(np.int64)
    else:
        vertices = check_order(order, n)
    boundary, shifts = lower_width(weights, vertices, n)
    return Ordering(vertices, np.asarray(boundary * unit), shifts)


def check_order(order: Any, n: int) -> IntArray:
    """Return a copy of an order of n vertices."""
    vertices = np.array(order)
    if vertices.dtype.kind not in "iu" or not np.array_equal(
        np.sort(vertices), range(n)
    ):
        raise ValueError(f"order should hold each of 0..{n - 1} once.")
    return vertices.astype(np.int64)


def exact_weights(graph: Any) -> tuple[IntArray, float]:
    """Return integer weights without loops, and the unit they are multiples of."""
    weights = np.asarray(graph)
    if weights.ndim != 2 or weights.shape[0] != weights.shape[1] or not weights.size:
        raise ValueError(
            f"graph has shape {weights.shape} but should be (n, n), n >= 1."
        )
    if weights.dtype.kind not in "biuf":
        raise TypeError(f"graph has entries of type {weights.dtype}; give numbers.")
    weights = weights.astype(np.float64)
    np.fill_diagonal(weights, 0.0)
    total = float(weights.sum())
    if not math.isfinite(total) or weights.min() < 0:
        raise ValueError(
            "graph has a weight that is negative or not finite; use similarities >= 0, "
            "such as Gaussian ones."
        )
    if np.abs(weights - weights.T).max() > 1e-9 * weights.max():
        raise ValueError("graph is not symmetric; use (graph + graph.T) / 2.")
    if total == 0:
        return np.zeros(weights.shape, dtype=np.int64), 1.0
    # a power of two, so that weights with few digits stay what they are
    unit = math.ldexp(1.0, max(math.frexp(total)[1] - _BITS, -1073))
    # the mean of both sides: what rounding left of asymmetry must go
    weights = weights + weights.T
    weights /= 2 * unit
    return np.rint(weights, out=weights).astype(np.int64), unit


def lower_width(
    weights: IntArray, order: IntArray, n_movable: int
) -> tuple[IntArray, IntArray]:
    """Shift the first ``n_movable`` vertices of ``order``, in place, until none helps.

    Returns their boundary, measured in the whole graph, and the shifts.
    """
    degree = weights.sum(axis=1)
    left = np.zeros(len(weights), dtype=np.int64)
    boundary = np.zeros(n_movable, dtype=np.int64)
    moves = np.zeros((n_movable, 2), dtype=np.int64)
    measure(weights, degree, order, left, boundary)
    shifts = [moves[:0]]
    run = fastest("tilo_sweep", sweep)
    while n_shifts := run(weights, degree, order, left, boundary, moves):
        shifts.append(moves[:n_shifts].copy())
    return boundary, np.concatenate(shifts)


def measure(
    weights: IntArray,
    degree: IntArray,
    order: IntArray,
    left: IntArray,
    boundary: IntArray,
) -> None:
    """Fill in the weight of every vertex to those before it, and the boundary."""
    before = np.zeros(len(weights), dtype=np.int64)
    last = 0
    for i in range(len(boundary)):
        vertex = order[i]
        left[vertex] = before[vertex]
        last = last + degree[vertex] - 2 * left[vertex]
        boundary[i] = last
        before += weights[vertex]


def sweep(
    weights: Any, degree: Any, order: Any, left: Any, boundary: Any, moves: Any
) -> int:
    """Apply the best shift at every local maximum; return how many there were.

    ``left[v]`` is the weight of v to the vertices before it. All arrays but the first
    two are changed in place; ``moves`` receives the positions, from and to. All are
    integers, so the form in C gives the same.
    """
    n = boundary.shape[0]
    n_shifts = 0
    a = -1  # the end of the last local minimum; b_{-1} is 0
    while True:
        before = boundary[a] if a >= 0 else 0
        while a + 1 < n and boundary[a + 1] == before:
            a += 1
        c = a
        while c + 1 < n and boundary[c + 1] >= before:
            c += 1
            before = boundary[c]
        if c + 1 >= n:
            return n_shifts
        b = c
        while b - 1 > a and boundary[b - 1] == boundary[c]:
            b -= 1
        end = c
        while end + 1 < n and boundary[end + 1] <= boundary[end]:
            end += 1
        d = end
        while boundary[d - 1] == boundary[end]:
            d -= 1
        # The maximum is b..c, the minima beside it end at a and begin at d. Candidates
        # near it come first, their sums are short; a sum ends when it cannot win.
        best, source, target = 0, -1, -1
        after = order[b + 1]
        slope_after = degree[after] - 2 * left[after]
        for k in range(b, a, -1):
            vertex = order[k]
            slope = degree[vertex] - 2 * left[vertex]
            rest = slope_after + 2 * weights[vertex, after]
            needed = max(rest + max(best, 1), 1)  # an equal drop: the lower position
            p = k + 1
            while p <= b and slope >= needed:
                slope -= 2 * weights[vertex, order[p]]
                p += 1
            if slope >= needed:
                best, source, target = slope - rest, k, b + 1
        top = order[c]
        slope_top = degree[top] - 2 * left[top]
        for k in range(c + 1, d + 1):
            vertex = order[k]
            slope = degree[vertex] - 2 * left[vertex]
            rest = slope_top - 2 * weights[vertex, top]
            allowed = min(rest - best, 0)
            p = k - 1
            while p > c and slope < allowed:
                slope += 2 * weights[vertex, order[p]]
                p -= 1
            if slope < allowed:
                best, source, target = rest - slope, k, c
        if source >= 0:
            moves[n_shifts, 0] = source
            moves[n_shifts, 1] = target
            n_shifts += 1
            vertex = order[source]
            step = 1 if target > source else -1
            for p in range(source + step, target + step, step):
                passed = order[p]
                weight = step * weights[vertex, passed]
                left[passed] -= weight
                left[vertex] += weight
                order[p - step] = passed
            order[target] = vertex
            low = min(source, target)
            before = boundary[low - 1] if low > 0 else 0
            for p in range(low, max(source, target)):
                before += degree[order[p]] - 2 * left[order[p]]
                boundary[p] = before
        a = end
        if a + 1 >= n:
            return n_shifts


def width(boundary: npt.NDArray[Any]) -> tuple[Any, ...]:
    """Return the width of an order; of two, the smaller is better.

    Examples
    --------
    >>> import numpy as np
    >>> width(np.array([1, 3, 2, 0]))
    (3, 2, 1, 0)
    """
    return tuple(np.sort(boundary)[::-1].tolist())
