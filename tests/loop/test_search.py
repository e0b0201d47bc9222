"""Search: what it promises whatever the data, and that it finds what others miss."""

import itertools

import numpy as np
import pytest
from random_ensembles import noisy

import gpu_consensus as gpc
from gpu_consensus.loop import best_start, checkpoint

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


@pytest.mark.parametrize(
    ("name", "weights"), [("kcc", None), ("kcc", [2, 2, 3, 2]), ("sec", None)]
)
def test_killed_after_any_save_it_goes_on_to_the_same_end(
    name, weights, monkeypatch, tmp_path
):
    # of 25 starts some end alike: fewer than ten answers evolve, others compete
    labels, _ = blobs(4, 40, 4, 5, 0.35, seed=3)
    if weights is not None:
        labels[::7, 1] = -1
    options = {"weights": weights, "n_init": 25, "search": 6, "random_state": 3}
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN_SAVES", 0)
    save = checkpoint.Checkpoint.save
    saves = [0, -1]  # so far, and after how many it is killed

    def killed(self, *given, **named):
        save(self, *given, **named)
        saves[0] += self.path is not None
        if saves[0] == saves[1]:
            raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint.Checkpoint, "save", killed)
    whole = gpc.consensus(labels, 4, name, **options)
    path = tmp_path / "at"
    gpc.consensus(labels, 4, name, checkpoint=path, **options)
    n_saves = saves[0]
    assert n_saves > whole.details["search"]["generations"] > 1
    for after in range(1, n_saves):
        path.unlink()
        saves[:] = [0, after]
        with pytest.raises(KeyboardInterrupt):
            gpc.consensus(labels, 4, name, checkpoint=path, **options)
        saves[1] = -1
        found = gpc.consensus(labels, 4, name, checkpoint=path, **options)
        assert np.array_equal(found.labels, whole.labels)
        assert found.details["search"] == whole.details["search"]
        assert found.objective == whole.objective


def every_partition(n, k):
    """Return all partitions of n objects into k clusters, once each, as one-hot."""
    rows = np.array(list(itertools.product(range(k), repeat=n - 1)))
    rows = np.pad(rows, ((0, 0), (1, 0)))
    first = np.array([[list(row).index(c) if c in row else n for c in range(k)]
                      for row in rows.tolist()])  # fmt: skip
    kept = (np.diff(first, axis=1) > 0).all(axis=1) & (first < n).all(axis=1)
    return np.eye(k)[rows[kept]]


def literal_costs(labels, weights, utility, clusters):
    """Return F of clusters (m, n, k), a constant left out: Eq. 35 to 41."""
    total = np.zeros(len(clusters))
    for column, weight in zip(labels.T, weights, strict=True):
        there = column >= 0
        one_hot = np.eye(column.max() + 1)[column[there]]
        n = np.einsum("mok,oj->mkj", clusters[:, there], one_hot)
        size = n.sum(axis=2, keepdims=True)
        share = np.divide(n, size, out=np.zeros_like(n), where=size > 0)
        logs = np.log2(share, out=np.zeros_like(n), where=share > 0)
        mu = share**2 if utility == "c" else share * logs
        total -= weight * (size[:, :, 0] * mu.sum(axis=2)).sum(axis=1)
    return total


@pytest.mark.parametrize("utility", ["h", "c"])
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.every_backend(emulated=False)
def test_nothing_is_better_where_everything_can_be_tried(utility, missing):
    clusters = every_partition(8, 3)
    for seed in range(8):
        labels, _ = noisy(seed, n=8, r=5, missing=missing)
        _, labels = np.unique(labels, return_inverse=True)
        labels = labels.reshape(8, 5) - (missing > 0)
        weights = np.random.default_rng(seed).integers(1, 5, 5)
        found = gpc.kcc(labels, 3, utility, weights=weights, random_state=seed)
        ours = np.eye(3)[found.labels][None]
        costs = literal_costs(labels, weights, utility, clusters)
        cost = literal_costs(labels, weights, utility, ours)[0]
        assert cost == pytest.approx(costs.min(), abs=1e-9)


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
