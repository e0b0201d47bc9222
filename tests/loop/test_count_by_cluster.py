"""Counts of labels by cluster against a triple loop, however they are cut."""

import numpy as np
import oracles
import pytest

from gpu_consensus.backends import choose_backend
from gpu_consensus.loop import count_by_cluster as module
from gpu_consensus.loop.count_by_cluster import (
    count_by_cluster,
    count_many_by_cluster,
)

pytestmark = pytest.mark.every_backend


@pytest.mark.parametrize("n_clusters", [1, 4, 256])
@pytest.mark.parametrize("memory_limit", [None, 500])
def test_objects_outside_of_all_clusters_do_not_count(n_clusters, memory_limit):
    rng = np.random.default_rng(n_clusters)
    codes, offsets = oracles.random_codes(rng, 50, [3, 300, 1], missing=0.3)
    labels = rng.integers(-1, n_clusters + 1, size=50).astype(np.int32)
    found = count_by_cluster(
        choose_backend("auto", None), codes, offsets, labels, n_clusters, memory_limit
    )
    outside = np.where(labels < 0, n_clusters, labels)
    expected = oracles.count(codes, offsets, outside[None], n_clusters)
    assert isinstance(found, np.ndarray)
    assert np.array_equal(found, expected[:, 0])


@pytest.mark.parametrize("at_a_time", [1, 3, 7, 100])
def test_many_labellings_come_in_order_and_once_each(monkeypatch, at_a_time):
    rng = np.random.default_rng(0)
    codes, offsets = oracles.random_codes(rng, 30, [2, 5], missing=0.2)
    labels = rng.integers(-1, 3, size=(7, 30))
    monkeypatch.setattr(module, "_COUNTS", at_a_time * int(offsets[-1]) * 3)
    backend = choose_backend("auto", None)
    parts = list(count_many_by_cluster(backend, codes, offsets, labels, 3))
    rows = [q for some, _ in parts for q in range(some.start, some.stop)]
    assert rows == list(range(7))
    assert {counts.shape[1] for _, counts in parts} <= {at_a_time, 7 % at_a_time}
    expected = oracles.count(codes, offsets, np.where(labels < 0, 3, labels), 3)
    assert np.array_equal(np.concatenate([c for _, c in parts], axis=1), expected)
