"""The last rows of sparse files: codes that only 64-bit indices reach."""

import cudaemu
import numpy as np
from fresh_counts import fresh_sums
from kernel_matrix import same

from gpu_consensus.backends.host_loops import compiled_loops
from gpu_consensus.backends.numpy import NumpyBackend
from gpu_consensus.methods.climbs import climb_all

KINDS = {"u8": np.uint8, "u16": np.uint16}
SIZES = (100, 3, 99)
OFFSETS = np.cumsum([0, *(size + 1 for size in SIZES)])
N, TAIL = (1 << 31) + 1024, 300  # partition 2 begins beyond 2^32
CLIMBERS = 40


def sparse(path, last, width):
    """Return ``last`` as the last columns of a file that is otherwise a hole."""
    # by writes: a store to a mapped hole makes the kernel clear many pages
    with path.open("wb") as file:
        file.truncate(len(last) * width * last.itemsize)
        for i, row in enumerate(last):
            file.seek(((i + 1) * width - len(row)) * last.itemsize)
            file.write(row.tobytes())
    return np.memmap(path, last.dtype, mode="r+", shape=(len(last), width))


def draw(code, sizes, n):
    """Codes of ``n`` objects, some of them missing."""
    rng = np.random.default_rng(0)
    codes = [rng.integers(size + 1, size=n) for size in sizes]
    return rng, np.array(codes, dtype=KINDS[code])


def check_rows(backend, folder, code, n_clusters=3, row_tables=(0, 1, 2)):
    """Compare every kernel that owns rows with numpy, on a view of the last."""
    numpy, up = NumpyBackend(1), backend.to_device
    rng, last = draw(code, SIZES, TAIL)
    whole = cudaemu.adopt(backend.xp, sparse(folder / f"rows-{code}", last, N))
    view = whole[:, -TAIL:]
    shape = (2, TAIL)
    before, after = (rng.integers(n_clusters, size=shape).astype("u1") for _ in "12")
    weight = rng.integers(1, 2**40, size=TAIL)
    table = rng.random((int(OFFSETS[-1]), 2, n_clusters), dtype=np.float32)
    wide = table.astype(float)
    share = rng.dirichlet(np.ones(n_clusters), size=(TAIL, 2))
    row_weight = rng.integers(1, 99, size=TAIL).astype(np.float32)
    given = (last, OFFSETS)
    found = fresh_sums(backend, view, OFFSETS, up(before), n_clusters, up(weight))
    right = fresh_sums(numpy, *given, before, n_clusters, weight)
    for name, got, expected in zip(("count", "weigh"), found, right, strict=True):
        same(backend, name, got, expected)
    moves = (up(before), up(after), found[0], up(weight), found[1])
    backend.count(view, OFFSETS, *moves)
    right = fresh_sums(numpy, *given, after, n_clusters, weight)
    for name, got, expected in zip(("count", "weigh"), found, right, strict=True):
        same(backend, f"{name} moves", got, expected)
    scores = backend.scores(view, OFFSETS, up(wide))
    same(backend, "scores", scores, numpy.scores(*given, wide))
    soft = backend.soft_count(view, OFFSETS, up(share))
    same(backend, "soft_count", soft, numpy.soft_count(*given, share))
    for which in row_tables:
        row_table = (None, table[0], table)[which]
        found = backend.assign(
            view,
            OFFSETS,
            up(table),
            row_weight=up(row_weight),
            row_table=None if row_table is None else up(row_table),
            best=True,
        )
        right = numpy.assign(
            *given, table, row_weight=row_weight, row_table=row_table, best=True
        )
        same(backend, f"assign {which}", found.assignment, right.assignment)
        same(backend, f"best {which}", found.best, right.best)
    stay = table[::-1].copy()
    found = backend.assign(view, OFFSETS, up(table), own=up(before), stay=up(stay))
    right = numpy.assign(*given, table, own=before, stay=stay)
    same(backend, "assign own", found.assignment, right.assignment)
    same(backend, "gain", found.gain, right.gain)


def check_pairs(backend, folder, code):
    """Compare pairs of far objects with numpy."""
    rng, last = draw(code, SIZES, TAIL)
    rows, columns = (rng.integers(TAIL, size=size) for size in (40, 33))
    sizes, first = np.array(SIZES), N - TAIL
    right = NumpyBackend(1).pairs(last, sizes, rows, columns)
    whole = cudaemu.adopt(backend.xp, sparse(folder / f"pairs-{code}", last, N))
    found = backend.pairs(whole, sizes, first + rows, first + columns)
    same(backend, "same", found.same, right.same)
    same(backend, "both", found.both, right.both)


def check_climbs(backend, folder, code):
    """Compare climbs on codes, and on a matrix, that lie far apart with numpy."""
    numpy, everyone = NumpyBackend(1), np.arange(CLIMBERS)
    # more partitions than a block has threads, and more than 2^32 codes before the last
    sizes = np.full(260, 3)
    _, near = draw(code, sizes, CLIMBERS)
    similar = numpy.pairs(near, sizes, everyone, everyone).same
    with compiled_loops(False):
        right = climb_all(near, sizes, everyone, (60, 1))
    files = (
        sparse(folder / f"climbs-{code}", near, (1 << 24) + 64),
        sparse(folder / f"matrix-{code}", similar.astype(KINDS[code]), (1 << 27) + 64),
    )
    held, matrix = (cudaemu.adopt(backend.xp, f)[:, -CLIMBERS:] for f in files)
    for similarity in (None, matrix):
        found = climb_all(held, sizes, everyone, (60, 1), similarity)
        for field, expected in right._asdict().items():
            assert np.array_equal(getattr(found, field), expected), field
