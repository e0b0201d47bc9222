"""k-means against brute force, loops and scikit-learn."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, pairwise_distances_argmin
from threadpoolctl import threadpool_limits

from gpu_consensus.generate.kmeans import centroids_of, kmeans, nearest


def blobs(n=120, d=6, n_blobs=3, seed=0):
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % n_blobs
    return rng.normal(size=(n_blobs, d))[truth] * 8 + rng.normal(size=(n, d)), truth


def documents(n=90, d=40, seed=0):
    """Counts as in text: three topics, sparse, lengths that differ."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(d, 0.2), size=3)
    rows = [rng.multinomial(rng.integers(20, 200), topics[l % 3]) for l in range(n)]
    return np.array(rows, dtype=float)


def directions(X):
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.where(norms == 0, 1, norms)


def cohesion(X, labels):
    """What spherical k-means maximises: the lengths of the sums of directions."""
    unit = directions(X)
    return sum(np.linalg.norm(unit[labels == k].sum(axis=0)) for k in set(labels))


def test_cosine_finds_the_best_of_all_partitions():
    X = np.random.default_rng(1).normal(size=(9, 3))
    best = max(
        cohesion(X, np.array((0, *rest)))
        for rest in itertools.product(range(2), repeat=8)
        if any(rest)
    )
    found = max(
        cohesion(X, kmeans(X, 2, seed, metric="cosine")[0]) for seed in range(20)
    )
    assert found == pytest.approx(best)


def plain_spherical(X, labels, k):
    """Spherical k-means row by row, from given labels."""
    unit = directions(X)
    for _ in range(100):
        centroids = [
            directions(unit[labels == j].sum(0, keepdims=True))[0] for j in range(k)
        ]
        new = np.array([int(np.argmax([c @ x for c in centroids])) for x in unit])
        if np.array_equal(new, labels) or len(set(new)) < k:
            break
        labels = new
    return labels


@pytest.mark.parametrize("init", ["k-means++", "random"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_cosine_ends_at_a_fixed_point(init, dtype):
    X = documents(150).astype(dtype)
    rng = np.random.default_rng(0)
    ours, plain = [], []
    for seed in range(6):
        labels, centroids = kmeans(X, 5, seed, metric="cosine", init=init)
        assert labels.dtype == np.int32
        assert centroids.dtype == dtype
        assert set(labels) == set(range(5))
        assert np.allclose(np.linalg.norm(centroids, axis=1), 1, atol=1e-6)
        assert np.array_equal(labels, nearest(X, centroids, "cosine"))
        assert np.array_equal(labels, (X @ centroids.T).argmax(axis=1))
        assert np.array_equal(labels, plain_spherical(X, labels, 5))
        for k in range(5):
            sum_k = directions(X)[labels == k].sum(axis=0)
            assert np.allclose(centroids[k], sum_k / np.linalg.norm(sum_k), atol=1e-5)
        ours.append(cohesion(X, labels))
        plain.append(cohesion(X, plain_spherical(X, rng.integers(5, size=150), 5)))
    assert np.mean(ours) >= np.mean(plain) * 0.99


@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_cosine_of_sparse_is_that_of_dense(init):
    X = documents(120) + 0.0
    X[:, ::3] = 0  # columns that nobody uses
    for seed in range(5):
        labels, centroids = kmeans(X, 4, seed, metric="cosine", init=init)
        for kind in (sparse.csr_array, sparse.csr_matrix):
            found, others = kmeans(kind(X), 4, seed, metric="cosine", init=init)
            assert adjusted_rand_score(labels, found) == 1
            assert np.allclose(centroids, others)
            assert np.array_equal(nearest(kind(X), others, "cosine"), found)


def test_cosine_ignores_the_length_of_rows():
    X = documents(60)
    stretched = X * np.exp2(np.random.default_rng(0).integers(-9, 9, size=(60, 1)))
    one, other = (kmeans(data, 3, 0, metric="cosine")[0] for data in (X, stretched))
    assert np.array_equal(one, other)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_cosine_zero_rows_join_the_first_cluster(form):
    X = documents(30)
    X[[4, 20]] = 0
    labels, centroids = kmeans(form(X), 3, 0, metric="cosine")
    assert labels[4] == labels[20] == 0
    assert np.allclose(np.linalg.norm(centroids, axis=1), 1)
    labels, centroids = kmeans(form(np.zeros((5, 2))), 3, 0, metric="cosine")
    assert labels.tolist() == [0] * 5
    assert centroids.tolist() == [[0, 0]]


def test_cosine_rows_that_cancel_out():
    labels, centroids = kmeans(np.array([[1.0, 0], [-1.0, 0]]), 1, 0, metric="cosine")
    assert labels.tolist() == [0, 0]
    assert np.linalg.norm(centroids) == 1


@given(
    st.integers(0, 10**6), st.integers(1, 12), st.sampled_from(["k-means++", "random"])
)
@settings(max_examples=50, deadline=None)
def test_cosine_uses_as_many_clusters_as_there_are_directions(seed, k, init):
    rng = np.random.default_rng(seed)
    distinct = rng.normal(size=(rng.integers(1, 8), 3))
    rows = np.concatenate(
        [np.arange(len(distinct)), rng.integers(len(distinct), size=12)]
    )
    X = distinct[rows] * rng.uniform(0.1, 9, size=(len(rows), 1))
    labels, centroids = kmeans(X, k, seed, metric="cosine", init=init)
    assert len(centroids) == len(set(labels)) == min(k, len(distinct))
    assert np.array_equal(labels, nearest(X, centroids, "cosine"))


def test_cosine_refuses_rows_it_cannot_measure():
    with pytest.raises(ValueError, match="row 1 of X is too long"):
        kmeans(np.array([[1.0], [1e200]]), 1, 0, metric="cosine")


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_cosine_refuses_rows_that_are_all_too_short(form):
    with pytest.raises(ValueError, match="too short for metric='cosine'; multiply"):
        kmeans(form(np.array([[1e-200], [2e-200]])), 1, 0, metric="cosine")


def inertia(X, labels):
    """What k-means minimises: squared distances from the means."""
    return sum(
        ((X[labels == k] - X[labels == k].mean(0)) ** 2).sum() for k in set(labels)
    )


def test_euclidean_finds_the_best_of_all_partitions():
    X = np.random.default_rng(1).normal(size=(9, 3)) + 1e4
    best = min(
        inertia(X, np.array((0, *rest)))
        for rest in itertools.product(range(2), repeat=8)
        if any(rest)
    )
    assert min(inertia(X, kmeans(X, 2, s)[0]) for s in range(20)) == pytest.approx(best)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_euclidean_ends_at_a_fixed_point_as_good_as_scikit_learn(form, init):
    X = np.random.default_rng(0).normal(size=(400, 4)) ** 3
    ours, theirs = [], []
    for seed in range(15):
        labels, centroids = kmeans(form(X), 7, seed, init=init)
        assert labels.dtype == np.int32
        assert np.array_equal(labels, pairwise_distances_argmin(X, centroids))
        means = [X[labels == k].mean(axis=0) for k in range(7)]
        assert np.allclose(centroids, means)
        assert np.array_equal(nearest(form(X), centroids), labels)
        ours.append(inertia(X, labels))
        with threadpool_limits(1):
            model = KMeans(7, init=init, n_init=1, random_state=seed).fit(X)
        theirs.append(inertia(X, model.labels_))
    assert np.mean(ours) <= np.mean(theirs) * 1.1


def test_more_clusters_than_rows():
    with pytest.raises(ValueError, match="n_samples=2 should be >= n_clusters=3"):
        kmeans(np.zeros((2, 1)), 3, 0)


@given(
    st.integers(0, 10**6),
    st.integers(1, 12),
    st.sampled_from(["k-means++", "random"]),
    st.sampled_from([np.float32, np.float64]),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_euclidean_uses_as_many_clusters_as_there_are_rows(seed, k, init, dtype, wide):
    rng = np.random.default_rng(seed)
    distinct = rng.permutation(40)[: rng.integers(1, 8)].astype(dtype)[:, None]
    rows = np.concatenate(
        [np.arange(len(distinct)), rng.integers(len(distinct), size=12)]
    )
    X = distinct[rows]
    X = sparse.csr_array(X + 1) if wide else X * dtype(2.0**90) + dtype(2.0**95)
    labels, centroids = kmeans(X, k, seed, init=init)
    assert centroids.dtype == dtype
    assert len(centroids) == len(set(labels)) == min(k, len(distinct))
    assert np.array_equal(labels, nearest(X, centroids))


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_centroids_learned_from_a_sample_label_every_row(metric, form):
    X, truth = blobs(5000, n_blobs=4)
    X = form(X)
    labels, centroids = kmeans(X, 4, 1, metric=metric, rows_per_cluster=10)
    assert adjusted_rand_score(truth, labels) == 1
    assert np.array_equal(labels, nearest(X, centroids, metric))
    whole, others = kmeans(X, 4, 1, metric=metric)
    assert adjusted_rand_score(whole, labels) == 1
    assert not np.allclose(centroids, others)  # they saw fewer rows


@pytest.mark.parametrize(
    ("spread", "constant", "dtype"),
    [(1e-25, 1e20, np.float32), (1e-305, 1e10, np.float64)],
)
def test_a_large_constant_column_changes_nothing(spread, constant, dtype):
    X, truth = blobs()
    wide = np.column_stack([X * spread, np.full(len(X), constant)]).astype(dtype)
    labels, centroids = kmeans(wide, 3, seed=0)
    assert adjusted_rand_score(truth, labels) == 1
    assert np.array_equal(nearest(wide, centroids), labels)


def test_the_largest_floats_have_a_nearest_centroid():
    X = np.array([[-1.7e308], [-1.6e308], [1.7e308]])
    labels, centroids = kmeans(X, 2, seed=0)
    assert labels[0] == labels[1] != labels[2]
    assert np.array_equal(nearest(X, centroids), labels)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_means_of_many_rows_in_float32(form):
    n = 400_000
    X = np.full((n, 1), 0.1, dtype=np.float32)
    X[0] = 1  # sets the scale
    X[1 : n // 2 + 2] = 0  # the origin
    codes = (X[:, 0] == np.float32(0.1)).astype(np.int32)
    found = centroids_of(form(X), codes, 2)
    assert np.allclose(found, [[1 / (n // 2 + 2)], [0.1]], rtol=1e-4, atol=1e-5)


def test_a_sample_without_enough_distinct_rows_is_given_up():
    X = np.zeros((20_000, 2))
    X[[5, 700, 9000]] = [[1, 0], [0, 1], [5, 5]]
    for seed in range(5):
        labels, _ = kmeans(X, 4, seed, rows_per_cluster=1)
        assert len({labels[0], labels[5], labels[700], labels[9000]}) == 4


def test_few_iterations_stop_early():
    X = np.random.default_rng(0).normal(size=(2000, 5))
    found = [inertia(X, kmeans(X, 20, 0, max_iter=m)[0]) for m in (1, 3, 100)]
    assert found[0] > found[1] > found[2]


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_nearest_agrees_with_scikit_learn(offset, monkeypatch):
    X, _ = blobs(1000)
    centroids = X[:7] + offset
    expected = pairwise_distances_argmin(X, X[:7])
    assert np.array_equal(nearest(X + offset, centroids), expected)
    for name in ("DENSE_BYTES", "SPARSE_BYTES"):  # the smallest blocks
        monkeypatch.setattr(f"gpu_consensus.generate.rows.{name}", 1)
    assert np.array_equal(nearest(X + offset, centroids), expected)
    if offset == 0:
        assert np.array_equal(nearest(sparse.csr_array(X), centroids), expected)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_the_number_of_threads_changes_no_bit(metric):
    X = np.random.default_rng(0).normal(size=(3000, 60))
    runs = []
    for limit in (1, 2, 4):
        with threadpool_limits(limits=limit):
            runs.append(kmeans(X, 40, 0, metric=metric, max_iter=20))
    for labels, centroids in runs[1:]:
        assert np.array_equal(labels, runs[0][0])
        assert np.array_equal(centroids, runs[0][1])
