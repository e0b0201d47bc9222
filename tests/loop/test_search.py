"""Search: what it promises whatever the data, and that it finds what others miss."""

import itertools

import numpy as np
import pytest
from random_ensembles import noisy

import gpu_consensus as gpc
from gpu_consensus.loop import best_start

METHODS = ("kcc", "qmi", "sec", "ivc", "lce")


def blobs(n_clusters, n, r, labels, noise, seed):
    """Partitions that split the clusters of a truth, some labels redrawn."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(n_clusters, size=n)
    columns = []
    for _ in range(r):
        owner = rng.permutation(labels) % n_clusters
        column = np.array([rng.choice(np.flatnonzero(owner == k)) for k in truth])
        redrawn = rng.random(n) < noise
        column[redrawn] = rng.integers(labels, size=redrawn.sum())
        columns.append(column)
    return np.stack(columns, axis=1), truth


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_same_answer_on_every_backend_thread_and_block(name, missing, backend):
    labels, _ = noisy(3, n=40, r=6, missing=missing)
    given = {"search": 3, "random_state": 1}
    expected = gpc.consensus(labels, 3, name, backend="numpy", **given)
    for options in ({"n_jobs": 3}, {"memory_limit": 100_000}):
        found = gpc.consensus(labels, 3, name, backend=backend.name, **given, **options)
        assert np.array_equal(np.asarray(found.labels), expected.labels)
        assert found.objective == expected.objective
        assert found.details["search"] == expected.details["search"]


@pytest.mark.every_backend(emulated=False)
def test_many_clusters_are_found_where_starts_alone_fail():
    labels, truth = blobs(12, 600, 20, 40, 0.1, seed=0)
    found = gpc.kcc(labels, 12, random_state=0)
    assert gpc.metrics.adjusted_rand(truth, found.labels) == 1.0
    plain = gpc.kcc(labels, 12, init="partition", random_state=0)
    assert found.objective < plain.objective


@pytest.mark.parametrize("name", ["kcc", "sec"])
@pytest.mark.every_backend(emulated=False)
def test_generations_are_a_prefix_of_one_sequence(name):
    labels, _ = blobs(6, 150, 6, 9, 0.5, seed=1)
    runs = [
        gpc.consensus(labels, 6, name, search=g, random_state=0).details["search"]
        for g in range(5)
    ]
    longest = runs[-1]["objective"]
    for g, run in enumerate(runs):
        assert run["objective"] == longest[: g + 1]
        assert run["generations"] == g
    assert all(a >= b for a, b in itertools.pairwise(longest))


@pytest.mark.every_backend(emulated=False)
def test_more_starts_never_end_higher():
    for seed in range(4):
        labels, _ = blobs(6, 120, 6, 9, 0.6, seed)
        ends = [
            gpc.kcc(labels, 6, n_init=n, refine=False, random_state=seed).objective
            for n in (10, 14, 25)
        ]
        assert ends[0] >= ends[1] >= ends[2]


@pytest.mark.every_backend(emulated=False)
def test_refinement_never_raises_it():
    for seed in range(6):
        labels, _ = blobs(5, 100, 6, 8, 0.7, seed)
        plain = gpc.kcc(labels, 5, refine=False, random_state=seed)
        refined = gpc.kcc(labels, 5, random_state=seed)
        assert (
            refined.objective
            <= plain.objective
            <= plain.details["search"]["objective"][-1] * (1 + 1e-12)
        )


@pytest.mark.every_backend(emulated=False)
def test_beyond_many_objects_it_looks_at_a_sample(monkeypatch):
    monkeypatch.setattr(best_start, "MOST_OBJECTS", 300)
    labels, truth = blobs(8, 1500, 15, 30, 0.2, seed=2)
    labels[:5] = -1
    options = {"on_unlabelled": "keep", "random_state": 4}
    found = gpc.kcc(labels, 8, **options)
    assert found.details["search"]["objects"] == 300
    assert gpc.metrics.adjusted_rand(truth[5:], found.labels[5:]) > 0.99
    assert (found.labels[:5] == -1).all()
    again = gpc.kcc(labels, 8, n_jobs=1, **options)
    assert np.array_equal(found.labels, again.labels)


@pytest.mark.every_backend(emulated=False)
def test_given_labels_can_be_searched_from():
    labels, _ = blobs(5, 200, 8, 10, 0.4, seed=3)
    first = np.arange(200) % 5
    found = gpc.kcc(labels, 5, init=first, search=6, random_state=0)
    plain = gpc.kcc(labels, 5, init=first, random_state=0)
    assert found.details["search"]["generations"] > 0
    assert found.objective < plain.objective


@pytest.mark.every_backend(emulated=False)
def test_other_starts_are_not_searched_unless_asked():
    labels, _ = noisy(0, n=60, r=6)
    for init in ("partition", "random", "careful", "k-means++"):
        assert "search" not in gpc.kcc(labels, 3, init=init, random_state=0).details
    found = gpc.kcc(labels, 3, init="random", search=2, random_state=0)
    assert found.details["search"]["generations"] == 2
    merged = gpc.kcc(labels, 3, init="merge", random_state=0)
    assert merged.details["search"]["generations"] == 0


@pytest.mark.parametrize("search", ["often", -1, 2.5, None])
@pytest.mark.every_backend(emulated=False)
def test_a_search_that_means_nothing_is_refused(search):
    with pytest.raises((ValueError, TypeError), match="search"):
        gpc.kcc(noisy(0)[0], 3, search=search)


@pytest.mark.every_backend(emulated=False)
def test_objects_that_no_partition_tells_apart():
    """Fewer cells than clusters: single objects are added."""
    labels = np.repeat([[0, 0], [0, 1], [1, 1]], 4, axis=0)
    found = gpc.kcc(labels, 3, random_state=0)
    assert found.n_clusters == 3
    assert found.objective == pytest.approx(0, abs=1e-12)
