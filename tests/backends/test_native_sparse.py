"""Labels of which most are missing: skipped, and nothing changes by it."""

import numpy as np
import pytest

from gpu_consensus.backends.native import library
from gpu_consensus.backends.native.backend import NativeBackend
from gpu_consensus.backends.numpy import NumpyBackend

REASON = library.why_unavailable()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))


def world(seed, n, n_labels, n_restarts, n_clusters, kind, present):
    rng = np.random.default_rng(seed)
    k = np.array(n_labels)
    codes = rng.integers(0, k[:, None], (len(k), n)).astype(kind)
    absent = rng.random(codes.shape) > present
    absent[-1] = True  # of one partition nobody is there
    codes[absent] = np.broadcast_to(k[:, None], codes.shape)[absent]
    offsets = np.concatenate([[0], np.cumsum(k + 1)])
    shape = (int(offsets[-1]), n_restarts, n_clusters)
    table, row_table = rng.normal(size=(2, *shape)).astype(np.float32)
    for one in (table, row_table):
        one[offsets[1:] - 1] = 0
    return rng, codes, offsets, table, row_table


CASES = [
    (0, 3000, [5, 300, 7, 9, 4], 1, 100, np.uint16, 0.2),
    (1, 2500, [100] * 12, 1, 100, np.uint8, 0.15),
    (2, 700, [3, 4, 5, 6, 2], 3, 7, np.uint8, 0.1),
    (3, 65, [3, 4, 5], 17, 5, np.uint8, 0.3),
    (4, 1, [3, 4, 5], 2, 5, np.uint8, 0.3),
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("threads", [1, 3])
def test_assign_is_that_of_numpy(case, threads):
    rng, codes, offsets, table, row_table = world(*case)
    weight = rng.random(codes.shape[1]).astype(np.float32)
    here, there = NumpyBackend(), NativeBackend(threads)
    for options in ({}, {"row_weight": weight, "row_table": row_table}):
        for scored in (False, True):
            a = here.assign(codes, offsets, table, **options, best=scored, gap=scored)
            b = there.assign(codes, offsets, table, **options, best=scored, gap=scored)
            np.testing.assert_array_equal(a.assignment, b.assignment)
            if scored:
                np.testing.assert_array_equal(a.best, b.best)
                np.testing.assert_array_equal(a.gap, b.gap)


@pytest.mark.parametrize("where", ["table", "row_table"])
def test_rows_of_missing_labels_that_are_not_zero_are_added(where):
    rng, codes, offsets, table, row_table = world(*CASES[1])
    weight = rng.random(codes.shape[1]).astype(np.float32)
    odd = table if where == "table" else row_table
    odd[offsets[1:] - 1] = rng.normal(size=odd.shape[1:])
    options = {"row_weight": weight, "row_table": row_table, "best": True}
    a = NumpyBackend().assign(codes, offsets, table, **options)
    b = NativeBackend(1).assign(codes, offsets, table, **options)
    np.testing.assert_array_equal(a.assignment, b.assignment)
    np.testing.assert_array_equal(a.best, b.best)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("share", [0.02, 0.5, 1.0])
@pytest.mark.parametrize("threads", [1, 3])
def test_counts_are_those_of_numpy(case, share, threads):
    rng, codes, offsets, table, _ = world(*case)
    n_restarts, n_clusters = table.shape[1:]
    shape = (n_restarts, codes.shape[1])
    before = rng.integers(0, n_clusters + 1, shape).astype(np.uint8)
    moves = rng.random(shape) < share
    after = np.where(moves, rng.integers(0, n_clusters + 1, shape), before)
    after = after.astype(np.uint8)
    weight = rng.integers(1, 10**12, codes.shape[1])
    for first in (None, before):
        found = []
        for backend in (NumpyBackend(), NativeBackend(threads)):
            counts = np.full(table.shape, 7, dtype=np.int64)
            absent = np.full((len(codes), *table.shape[1:]), 7, dtype=np.int64)
            backend.count(codes, offsets, first, after, counts, weight, absent)
            found.append((counts, absent))
        np.testing.assert_array_equal(found[0][0], found[1][0])
        np.testing.assert_array_equal(found[0][1], found[1][1])
