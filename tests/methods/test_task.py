"""What every method outside the loop shares: the door, pairs of objects, the exit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import coassociation
from random_ensembles import noisy

import gpu_consensus as gpc
from gpu_consensus.backends import choose_backend
from gpu_consensus.loop.pairs import Pairs
from gpu_consensus.methods.call import Shared, open_task
from gpu_consensus.util import memory
from gpu_consensus.util.memory import available_memory, check_memory

pytestmark = pytest.mark.every_backend


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("missing", [0.0, 0.6])
def test_pairs_are_the_definition(missing, weighted):
    labels, _ = noisy(3, n=23, r=6, missing=missing)
    ens = gpc.Ensemble(labels)
    weights = np.array([1, 2, 2, 1, 5, 0.5]) if weighted else np.full(6, 1 / 6)
    pairs = Pairs(choose_backend("auto", None), ens.codes, ens.n_labels, weights)
    expected = coassociation(ens.labels, weights)
    found = pairs.matrix()
    assert np.allclose(found, expected, rtol=1e-14, atol=0)
    assert np.array_equal(found, found.T)
    tile = pairs.tile(np.array([4, 2]), np.array([0, 7, 2]))
    assert np.array_equal(tile, found[np.ix_([4, 2], [0, 7, 2])])


def test_a_matrix_in_many_blocks_is_the_same(monkeypatch):
    labels, _ = noisy(5, n=40, r=5, missing=0.3)
    task = open_task("test", labels, 3)
    whole = task.pairs().matrix()
    monkeypatch.setattr("gpu_consensus.loop.pairs._TILE", 90)
    assert len(list(task.pairs().row_blocks())) == 20
    assert np.array_equal(task.pairs().matrix(), whole)


@given(st.lists(st.tuples(*[st.integers(-1, 1)] * 3), min_size=1, max_size=30))
def test_equal_rows_are_found(rows):
    labels = np.column_stack([np.array(rows), np.zeros(len(rows), int)])
    found = open_task("test", labels, None, finds_n_clusters=True).distinct
    first: dict[tuple, int] = {}
    for l, row in enumerate(map(tuple, labels)):
        first.setdefault(row, l)
    assert found.first.tolist() == list(first.values())
    assert [int(found.first[g]) for g in found.group] == [
        first[tuple(row)] for row in labels
    ]
    assert np.array_equal(found.size, np.bincount(found.group))


def test_objects_and_partitions_that_say_nothing_are_left_out():
    labels = np.array([[0, 0, 5], [0, 1, -1], [-1, -1, 7], [1, 1, -1]])
    shared = Shared(weights=[1, 3, 0], on_unlabelled="keep", random_state=0)
    task = open_task("test", labels, 2, shared)
    assert task.ensemble.labels.tolist() == [[0, 0], [0, 1], [1, 1]]
    assert task.weights.tolist() == [0.25, 0.75]
    result = task.result(np.array([9, 4, 4]), objective=1.5, value=-1.5)
    assert result.labels.tolist() == [1, 0, -1, 0]
    assert result.n_clusters == 2
    assert result.history.tolist() == [1.5]
    assert result.confidence[2] == 0
    # object 0 shares no label with cluster 0 in partition 1, half in partition 0
    assert result.confidence[0] == pytest.approx(2 / (2 + 0.5))
    assert result.predict(labels).tolist() == [1, 0, -1, 0]


def test_fewer_clusters_than_asked_for_are_said():
    task = open_task("test", np.array([[0, 1], [1, 1], [1, 0]]), 3)
    with pytest.warns(UserWarning, match="test found 2 clusters although n_clusters=3"):
        result = task.result(np.array([0, 2, 2]), objective=0, value=0)
    assert result.labels.tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"memory_limit": 0}, ValueError, "memory_limit=0 should be >= 1"),
        ({"on_unlabelled": "drop"}, ValueError, "on_unlabelled='drop' is unknown"),
        ({"random_state": -1}, ValueError, "random_state=-1 should be >= 0"),
        ({"n_jobs": 0}, ValueError, "n_jobs=0"),
        ({"backend": "gpu"}, ValueError, "backend='gpu' is unknown"),
        ({"weights": [1, 2, 3]}, ValueError, "weights has shape"),
    ],
)
def test_wrong_options_say_what_to_do(options, error, message):
    with pytest.raises(error, match=message):
        open_task("test", np.array([[0, 1], [1, 1]]), 2, Shared(**options))


@pytest.mark.parametrize(
    ("method", "option", "meant"),
    [
        ("hac", "linkag", "linkage"),
        ("vote", "n_cluster", "n_clusters"),
        ("correspondence", "variants", "variant"),
        ("best", "measur", "measure"),
        ("supra", "imbalanced", "imbalance"),
    ],
)
def test_a_slip_of_the_pen_is_told_what_was_meant(method, option, meant):
    labels = np.array([[0, 1], [1, 1]])
    n_clusters = None if method in ("best", "vote") else 2
    with pytest.raises(TypeError, match=f"{method}.* choose one of '{meant}'"):
        gpc.consensus(labels, n_clusters, method, **{option: 1})


def test_memory_is_unknown_where_nothing_tells_it(tmp_path, monkeypatch):
    monkeypatch.delattr("os.sysconf_names")
    assert available_memory(tmp_path) is None
    monkeypatch.setattr(memory, "available_memory", lambda: None)
    check_memory("test", 2**62, None, "ask for less")


def test_wrong_numbers_of_clusters_say_what_to_do():
    labels = np.array([[0, 1], [1, 1], [1, 1]])
    with pytest.raises(ValueError, match="only 2 distinct rows but n_clusters=3"):
        open_task("test", labels, 3)
    with pytest.raises(ValueError, match="should be >= n_clusters=4"):
        open_task("test", labels, 4)
    with pytest.raises(ValueError, match="1 objects have no label"):
        open_task("test", np.array([[0], [-1], [1]]), 2)
    with pytest.warns(UserWarning, match="n_clusters=1 puts all objects"):
        open_task("test", labels, 1)


def test_memory_is_asked_for_first():
    free = available_memory()
    assert free is None or free > 2**20
    check_memory("test", 1000, 1000, "ask for less")
    check_memory("test", 1, None, "ask for less")
    with pytest.raises(MemoryError, match=r"test needs 1.0 kB .*; ask for less\."):
        check_memory("test", 1001, 1000, "ask for less")
    with pytest.raises(MemoryError, match="of memory are free"):
        check_memory("test", 2**62, None, "ask for less")
