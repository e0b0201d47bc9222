"""How kernels are launched, by size: pure arithmetic, no device needed."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.cupy.source import Kernel, assign_kernel
from gpu_consensus.backends.protocol import Offsets

_LINE = 128  # bytes of a staged label, as in assign.cu
_SCAN = 2048  # rows that a block of count.cu compares at once
_QUEUE = 12 * 256 + 1  # words of its queue, and of the counter
MOST_GRID_Y = 65_535


class AssignPlan(NamedTuple):
    """How ``assign`` is launched: its form, what is staged, which columns when."""

    kernel: Kernel
    pieces: npt.NDArray[np.int32]
    tiles: list[tuple[int, int]]
    shared: int
    threads: int
    rows: int
    continues: bool


def plan_assign(
    offsets: Offsets,
    n_restarts: int,
    n_clusters: int,
    *,
    shared_limit: int,
    row_table: int,
    code: str,
    own: bool = False,
) -> AssignPlan:
    """Choose the form of ``assign`` by size.

    Up to 16 columns, labels are staged twice; else 32 columns at a time. If the whole
    table fits the shared memory it stays there and a thread has one row; else two.

    Examples
    --------
    >>> offsets = np.array([0, 11, 22])
    >>> plan = plan_assign(
    ...     offsets, 10, 10, shared_limit=99 << 10, row_table=0, code="u8"
    ... )
    >>> plan.tiles
    [(0, 30), (30, 60), (60, 90), (90, 100)]
    """
    n_columns = n_restarts * n_clusters
    chunks = 4 if n_columns <= 16 else 8
    width = 4 * chunks
    lines = shared_limit // _LINE
    pieces = _pieces(offsets, lines)
    rows = 1 if len(pieces) == 1 or row_table else 2
    kernel = assign_kernel(code, chunks, rows, row_table, int(own))
    # whole restarts in a tile need no second look; tight tiles waste no column
    step = width // n_clusters * n_clusters
    if step == 0 or -(-n_columns // step) > -(-n_columns // width):
        step = width
    tiles = [(b, min(b + step, n_columns)) for b in range(0, n_columns, step)]
    return AssignPlan(
        kernel,
        pieces,
        tiles,
        int(pieces[:, 3].max()) * _LINE,
        kernel.threads,
        rows,
        any(begin % n_clusters for begin, _ in tiles),
    )


def _pieces(offsets: Offsets, lines: int) -> npt.NDArray[np.int32]:
    """Cut the table into pieces of at most ``lines`` rows, (n, 4), in its order.

    A piece is (first partition, partition behind the last, first row, rows). A
    partition that is too large for one piece is cut by its labels.
    """
    pieces: list[tuple[int, int, int, int]] = []
    may_grow = False
    for i, (begin, end) in enumerate(pairwise(offsets.tolist())):
        size = end - begin
        if may_grow and pieces[-1][3] + size <= lines:
            first, _, row, n_rows = pieces[-1]
            pieces[-1] = (first, i + 1, row, n_rows + size)
            continue
        may_grow = size <= lines
        for row in range(begin, end, lines):
            pieces.append((i, i + 1, row, min(lines, end - row)))
    return np.asarray(pieces, dtype=np.int32)


class CountPlan(NamedTuple):
    """How ``count`` is launched: which partitions and rows a block has."""

    groups: npt.NDArray[np.int32]
    bins: int
    rows: int
    grid: tuple[int, int]
    shared: int


def plan_count(
    offsets: Offsets,
    n_restarts: int,
    n_clusters: int,
    n_rows: int,
    *,
    moved: bool,
    shared_free: int,
    n_processors: int,
) -> CountPlan:
    """Share objects, restarts and groups of partitions out among blocks of ``count``.

    A block has up to four partitions; with ``moved`` up to sixteen, since it looks at
    all rows and counts few. It has enough rows to be worth its histogram, and not more
    than these: blocks that run together then read the same labels.

    Examples
    --------
    >>> plan = plan_count(
    ...     np.array([0, 11, 22]),
    ...     10,
    ...     10,
    ...     10**7,
    ...     moved=False,
    ...     shared_free=48 << 10,
    ...     n_processors=108,
    ... )
    >>> plan.rows, plan.grid, plan.shared
    (16368, (10, 611), 880)
    """
    queue = _QUEUE if moved else 0
    together = 16 if moved else 4
    groups, bins = histogram_groups(
        offsets, n_clusters, shared_free // 4 - queue, together
    )
    work = (len(groups) - 1) * n_restarts
    fewest = -(-n_rows // max(1 << 14, 8 * bins))
    filling = min(-(-n_rows // _SCAN), -(-8 * n_processors // work))
    blocks = min(max(fewest, filling), MOST_GRID_Y)
    rows = -(-n_rows // (16 * max(blocks, 1))) * 16  # whole packs, also where aligned
    high = -(-n_rows // max(rows, 1))
    return CountPlan(groups, bins, rows, (work, high), 4 * (bins + queue))


def histogram_groups(
    offsets: Offsets, n_clusters: int, most: int, together: int = 4
) -> tuple[npt.NDArray[np.int32], int]:
    """Put partitions together, up to so many, whose histograms fit ``most`` bins.

    Returns the first partition of each group, and the bins of the largest that fits.
    """
    groups, bins, largest = [0], 0, 0
    for i, size in enumerate(np.diff(offsets)):
        more = int(size) * n_clusters
        if i > groups[-1] and (bins + more > most or i - groups[-1] == together):
            groups.append(i)
            bins = 0
        bins += more
        if bins <= most:
            largest = max(largest, bins)
    return np.asarray([*groups, len(offsets) - 1], dtype=np.int32), largest
