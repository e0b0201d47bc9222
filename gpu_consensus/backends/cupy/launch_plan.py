"""How kernels are launched, by size: pure arithmetic, no device needed."""

from __future__ import annotations

import functools
import math
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
    """How ``assign`` is launched: its form, what is staged, which columns when.

    Attributes
    ----------
    kernel : Kernel
    pieces : ndarray of shape (P, 5), int32
        As in assign.cu.
    lines : ndarray of int32
        Of every four partitions of a piece, where label 0 is behind its first line.
    step : int
        Columns of a tile, but for the last.
    n_tiles : int
    tiles_of_chain : int
        Tiles that go on with a restart, and are one block's.
    floats : int
        Of the table in tiles.
    shared : int
        Bytes of a block.
    """

    kernel: Kernel
    pieces: npt.NDArray[np.int32]
    lines: npt.NDArray[np.int32]
    step: int
    n_tiles: int
    tiles_of_chain: int
    floats: int
    shared: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.kernel.threads

    @property
    def rows(self) -> int:
        """Objects of a thread."""
        return int(dict(self.kernel.defines)["ROWS"])

    @property
    def n_chains(self) -> int:
        """Return the number of chains."""
        return -(-self.n_tiles // self.tiles_of_chain)

    def blocks(self, n_rows: int, n_processors: int, shared_per_processor: int) -> int:
        """Return how many blocks stay on the device and walk over the objects."""
        together = min(
            int(dict(self.kernel.defines)["MIN_BLOCKS"]),
            shared_per_processor // (self.shared + 1024),
        )
        walking = max(1, n_processors * max(1, together) // self.n_chains)
        return self.n_chains * min(-(-n_rows // (self.threads * self.rows)), walking)


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

    Up to 16 columns, labels are staged twice; else 32 columns at a time, and the last
    ones as if they were all where they are at most 16. If the whole table fits the
    shared memory it stays there and a thread has one row; else two.

    Examples
    --------
    >>> offsets = np.array([0, 11, 22])
    >>> plan = plan_assign(
    ...     offsets, 10, 10, shared_limit=99 << 10, row_table=0, code="u8"
    ... )
    >>> plan.step, plan.n_tiles, plan.tiles_of_chain
    (30, 4, 1)
    """
    return _planned(
        offsets.astype(np.int64).tobytes(),
        (n_restarts, n_clusters),
        shared_limit,
        row_table,
        code,
        own,
    )


@functools.lru_cache(maxsize=32)
def _planned(
    offsets_bytes: bytes,
    columns: tuple[int, int],
    shared_limit: int,
    row_table: int,
    code: str,
    own: bool,
) -> AssignPlan:
    """Make a plan; a fit asks for the same again and again."""
    offsets = np.frombuffer(offsets_bytes, np.int64)
    n_restarts, n_clusters = columns
    n_columns = n_restarts * n_clusters
    tables = 2 if row_table == 2 else 1
    chunks = 4 if n_columns <= 16 else 8
    # the last line of a piece is one of zeros
    pieces, lines = _pieces(offsets, shared_limit // (_LINE * tables) - 1)
    rows = 1 if len(pieces) == 1 or row_table else 2
    width = 4 * chunks
    # whole restarts in a tile go nowhere else; tight tiles waste no column
    step = width // n_clusters * n_clusters
    if step == 0 or -(-n_columns // step) > -(-n_columns // width):
        step = width
    n_tiles = -(-n_columns // step)
    n_floats = 32 * n_tiles - 16 * (n_columns - (n_tiles - 1) * step <= 16)
    return AssignPlan(
        assign_kernel(code, chunks, rows, row_table, int(own)),
        pieces,
        lines,
        step,
        n_tiles,
        n_clusters // math.gcd(step, n_clusters),
        int(offsets[-1]) * tables * n_floats,
        (int(pieces[:, 3].max()) + 1) * _LINE * tables,
    )


def _pieces(
    offsets: Offsets, most: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Cut the table into pieces of at most ``most`` rows, (P, 5), in its order.

    A piece is (first partition, partition behind the last, first row, rows, first
    quad). A partition that is too large for one piece is cut by its labels. Quads say
    of every four partitions of a piece where label 0 is, from the piece's first row.
    """
    pieces: list[list[int]] = []
    may_grow = False
    for i, (begin, end) in enumerate(pairwise(offsets.tolist())):
        size = end - begin
        if may_grow and pieces[-1][3] + size <= most:
            pieces[-1][1] = i + 1
            pieces[-1][3] += size
            continue
        may_grow = size <= most
        for row in range(begin, end, most):
            pieces.append([i, i + 1, row, min(most, end - row)])
    quads: list[npt.NDArray[np.int64]] = []
    n_quads = 0
    for piece in pieces:
        begin, end, row, _ = piece
        piece.append(n_quads)
        n_quads += -(-(end - begin) // 4)
        quads += [offsets[begin:end] - row, np.zeros((begin - end) % 4, np.int64)]
    return np.array(pieces, np.int32), np.concatenate(quads).astype(np.int32)


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
    groups, bins = histogram_groups(
        offsets, n_clusters, shared_free // 4 - queue, 16 if moved else 4
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
