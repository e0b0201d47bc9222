"""Overlays of restarts and partitions, against objects compared one by one."""

from collections import Counter

import numpy as np
import pytest
from random_ensembles import noisy

import gpu_consensus as gpc
from gpu_consensus.loop.code_blocks import CodeBlocks
from gpu_consensus.loop.local_rows import LocalRows
from gpu_consensus.loop.rows import Layer, Seeds

K, N_CELLS = 4, 7


@pytest.fixture
def begun(backend):
    """Rows with three restarts, one of them at work; the codes and the assignments."""
    ens = gpc.Ensemble(noisy(2, n=60, r=5, missing=0.2)[0])
    rows = LocalRows(CodeBlocks(backend, ens.codes, ens.offsets), K, np.empty(0, int))
    rng = np.random.default_rng(0)
    first = rng.integers(K + 1, size=(3, 60)).astype(np.uint8)
    assert rows.start(first) == [0, 1, 2]
    rows.take([1])
    return rows, ens, first


OVERLAYS = [
    [Layer(0), Layer(1)],
    [Layer(partition=3)],
    [Layer(2), Layer(partition=0), Layer(partition=4)],
]


def by_object(ens, first, overlay):
    """The cell of each object, by digits."""
    cells = []
    for l in range(60):
        number = 0
        for restart, partition in overlay:
            if partition < 0:
                number = number * (K + 1) + int(first[restart, l])
            else:
                width = int(ens.n_labels[partition]) + 1
                number = number * width + int(ens.codes[partition, l])
        cells.append(number)
    return cells


def test_sizes_counts_and_new_restarts_are_those_of_the_objects(begun):
    rows, ens, first = begun
    rng = np.random.default_rng(1)
    expected = [by_object(ens, first, overlay) for overlay in OVERLAYS]
    sizes = rows.cells(OVERLAYS)
    for size, cells in zip(sizes, expected, strict=True):
        assert {c: int(m) for c, m in enumerate(size) if m} == Counter(cells)
    places = [rng.integers(N_CELLS + 1, size=len(size)) for size in sizes]
    counts, absent = rows.count_cells(OVERLAYS, places, N_CELLS)
    assert absent is None
    for c, (place, cells) in enumerate(zip(places, expected, strict=True)):
        brute = np.zeros((int(ens.offsets[-1]), N_CELLS), dtype=int)
        for l, cell in enumerate(cells):
            if place[cell] < N_CELLS:
                brute[ens.offsets[:-1] + ens.codes[:, l], place[cell]] += 1
        assert np.array_equal(counts[:, c], brute)
    maps = [rng.integers(K + 1, size=len(size)) for size in sizes]
    nobody = Seeds(np.empty(0, int), np.empty(0, int))
    alone = [nobody, Seeds(np.array([5, 9]), np.array([3, 0])), nobody]
    new = rows.join(OVERLAYS, maps, alone)
    assert new == [3, 4, 5]
    for q, map_, cells, seeds in zip(new, maps, expected, alone, strict=True):
        assignment = map_[cells]
        assignment[seeds.objects] = seeds.clusters
        assert rows.labels(q).tolist() == assignment.tolist()


def test_known_counts_put_new_restarts_to_work(begun):
    rows, _, _ = begun
    overlay = OVERLAYS[:1]
    (size,) = rows.cells(overlay)
    maps = [np.arange(len(size)) % K]
    nobody = [Seeds(np.empty(0, int), np.empty(0, int))]
    (counted,) = rows.join(overlay, maps, nobody)
    known = rows.take([counted]).counts
    (placed,) = rows.join(overlay, maps, nobody, known)
    assert np.array_equal(rows.take([placed]).counts, known)
    assert rows.labels(placed).tolist() == rows.labels(counted).tolist()


def test_kept_restarts_are_numbered_anew(begun):
    rows, _, first = begun
    rows.keep([2, 1])
    assert rows.labels(0).tolist() == first[2].tolist()
    assert rows.labels(1).tolist() == first[1].tolist()
    assert rows.start(first[:1]) == [2]
    # the cells are those of the restarts that now have these numbers
    before = rows.cells([[Layer(0)]])[0].tolist()
    rows.keep([1])
    after = rows.cells([[Layer(0)]])[0].tolist()
    assert before == np.bincount(first[2], minlength=K + 1).tolist()
    assert after == np.bincount(first[1], minlength=K + 1).tolist()


def test_codes_of_some_objects(begun):
    rows, ens, _ = begun
    objects = np.array([3, 59, 3])
    assert np.array_equal(rows.codes(objects), np.asarray(ens.codes)[:, objects])
