"""k-means in C: the bits of its NumPy form, and what it computes against others."""

from __future__ import annotations

import inspect
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from gpu_consensus.backends.host_loops import compiled_form, compiled_loops
from gpu_consensus.backends.native import kmeans as forms
from gpu_consensus.backends.native import library
from gpu_consensus.generate import lloyd
from gpu_consensus.generate import rows as rows_module
from gpu_consensus.generate.generate_partitions import generate_partitions
from gpu_consensus.generate.kmeans import kmeans, nearest, start_seeds
from gpu_consensus.generate.rows import half_squares, prepare

if os.environ.get("GPU_CONSENSUS_TEST_LIBRARY"):  # a folder of sanitized libraries
    library.FOLDER = Path(os.environ["GPU_CONSENSUS_TEST_LIBRARY"]).parent
REASON = library.why_unavailable()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))
METRICS = ("euclidean", "cosine")
SHAPES = [  # rows, features, clusters
    (1, 1, 1),
    (2, 1, 2),
    (63, 3, 5),
    (64, 4, 4),
    (65, 5, 7),
    (200, 1, 256),
    (129, 70, 33),
    (3000, 20, 90),
    (777, 33, 3),
    (5000, 2, 6),
]


def features(n, d, dtype=np.float32, seed=0, kind="normal"):
    """Random rows; "ties" are few whole numbers, so that many rows are equal."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    if kind == "ties":
        X = rng.integers(-1, 2, size=(n, d))  # zero rows among them
    return X.astype(dtype)


def same(found, expected):
    """Whether both are equal in every bit, lists and tuples of arrays included."""
    if isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other)
        return
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


def both_forms_agree(X, metric, k, n_starts=3, max_iter=5, seed=0):
    rows = prepare(X, metric)
    rng = np.random.default_rng(seed)
    k = min(k, rows.n_samples)
    draws = rng.random((n_starts, k, 3))
    for careful in (True, False):
        chosen = lloyd.draw_starts(rows, draws, careful, 1)
        for n_threads in (1, 2, 3):
            same(forms.draw_starts(rows, draws, careful, n_threads), chosen)
        if not chosen[0].size:
            assert not rows.has_direction().any()
            return
        first = [rows.dense(mine) for mine in chosen]
        labels = rows_module.nearest_rows(rows, first[0], 1)
        descents = lloyd.lloyd_starts(rows, first, max_iter, 1)
        for n_threads in (1, 2, 3):
            same(forms.nearest_rows(rows, first[0], n_threads), labels)
            same(forms.lloyd_starts(rows, first, max_iter, n_threads), descents)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["normal", "ties"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_bit_is_that_of_numpy(shape, kind, dtype, metric):
    n, d, k = shape
    both_forms_agree(features(n, d, dtype, kind=kind), metric, k)


@given(
    st.integers(1, 3000),
    st.integers(1, 70),
    st.integers(1, 256),
    st.sampled_from(["normal", "ties"]),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from(METRICS),
    st.integers(0, 10**6),
)
@settings(max_examples=25, deadline=None)
def test_random_shapes_agree(n, d, k, kind, dtype, metric, seed):
    X = features(n, d, dtype, seed, kind)
    both_forms_agree(X, metric, min(k, 40) if n * d > 20_000 else k, 2, 3, seed)


@pytest.mark.parametrize("level", library.levels())
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_level_agrees(level, dtype, monkeypatch):
    """As far as this processor can run them."""
    try:
        one = library.load(level)
    except library.NativeUnavailable as error:
        pytest.skip(str(error))
    if one.level != level:
        pytest.skip(f"this processor has no {level}")
    monkeypatch.setattr(forms, "load", lambda: one)
    for metric in METRICS:
        both_forms_agree(features(700, 19, dtype), metric, 11)
        both_forms_agree(features(700, 3, dtype, kind="ties"), metric, 30)


@pytest.mark.parametrize("metric", METRICS)
def test_no_result_depends_on_the_compiled_loops(metric):
    X = features(4000, 9)
    options = {"n_clusters": 7, "metric": metric, "random_state": 3, "n_jobs": 1}
    calls = [
        lambda: kmeans(X, 12, 5, metric=metric, n_init=4),
        lambda: kmeans(X, 12, 5, metric=metric, n_init=2, rows_per_cluster=20),
        lambda: nearest(X, X[:20], metric) if metric == "euclidean" else 0,
        lambda: generate_partitions(X, 4, **options).codes,
    ]
    for call in calls:
        with compiled_loops(False):
            expected = call()
        same(call(), expected)


def test_views_and_read_only_features():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 8))
    expected = kmeans(X, 5, 0, n_init=3)
    wide = np.zeros((600, 19))
    wide[::2, 1:17:2] = X
    shifted = np.zeros(X.nbytes + 1, dtype=np.uint8)[1:].view(np.float64)
    unaligned = shifted.reshape(X.shape)
    unaligned[:] = X
    frozen = X.copy()
    frozen.flags.writeable = False
    for view in (wide[::2, 1:17:2], np.asfortranarray(X), unaligned, frozen):
        same(kmeans(view, 5, 0, n_init=3), expected)
        same(nearest(view, expected[1]), expected[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_labels_are_those_of_sums_in_order(dtype):
    """Scores by a loop over single numbers."""
    rows = prepare(features(40, 6, dtype), "euclidean")
    centroids = rows.X[:9] + dtype(0.25)
    for l, found in enumerate(forms.nearest_rows(rows, centroids, 1)):
        scores = []
        for centroid in centroids:
            square = dtype(0)
            for c in centroid:
                square += c * c
            score = -(square / 2)
            for x, c in zip(rows.X[l], centroid, strict=True):
                score += x * c
            scores.append(score)
        assert found == int(np.argmax(scores))


def test_an_empty_cluster_gets_the_worst_row():
    rows = prepare(np.array([[0.0], [0.1], [0.2], [5.0]]), "euclidean")
    far = rows.centroids_in(np.array([[0.1], [99.0], [98.0]]))
    for form in (forms.lloyd_starts, lloyd.lloyd_starts):
        labels, centroids, cost = form(rows, [far], 1, 1)[0]
        assert labels[3] not in labels[:3]
        assert len(set(labels)) == 3
        assert cost == pytest.approx(half_squares(rows.X - centroids[labels]).sum())


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(12))
def test_poor_first_centroids_are_mended_alike(seed, dtype, metric):
    """Empty clusters, single rows, zero rows, perfect fits, directions that cancel."""
    rng = np.random.default_rng(seed)
    some = rng.normal(size=(rng.integers(1, 7), 3))
    X = some[rng.integers(len(some), size=rng.integers(6, 40))]
    X[rng.random(len(X)) < 0.3] *= -1
    X[rng.random(len(X)) < 0.2] = 0
    X[0] = some[0]
    rows = prepare(X.astype(dtype), metric)
    first = []
    for k in (2, 5, len(X) - 1, len(X)):
        points = rows.X[rng.integers(len(X), size=k)] * dtype(rng.choice([1, 1, -2]))
        points[rng.random(k) < 0.5] = rows.X[0]  # equal ones stay empty at first
        first.append(points)
    for max_iter in (1, 2, 9):
        expected = lloyd.lloyd_starts(rows, first, max_iter, 1)
        same(forms.lloyd_starts(rows, first, max_iter, 1), expected)


@pytest.mark.parametrize("form", [forms.lloyd_starts, lloyd.lloyd_starts])
def test_rows_without_direction_fill_no_cluster(form):
    """The first cluster has only the zero row: it counts as empty and gets another."""
    rows = prepare(np.array([[0.0, 0], [0, 1], [0.1, 1], [1, 0]]), "cosine")
    first = np.array([[0.0, -1], [0, 1]])
    labels, centroids, _ = form(rows, [first], 1, 1)[0]
    assert labels.tolist() == [0, 1, 1, 0]
    assert np.allclose(centroids[0], [1, 0])


@pytest.mark.parametrize("form", [forms.lloyd_starts, lloyd.lloyd_starts])
def test_directions_that_almost_cancel_move_no_centroid(form):
    """What is left of their sum is rounding error."""
    tiny = np.finfo(np.float64).eps
    rows = prepare(np.array([[1.0, 0], [-1, 4 * tiny]]), "cosine")
    first = np.array([[0.6, 0.8]])
    assert form(rows, [first], 3, 1)[0][1].tolist() == first.tolist()


def inertia(X, labels):
    return sum(
        ((X[labels == k] - X[labels == k].mean(0)) ** 2).sum() for k in set(labels)
    )


@pytest.mark.parametrize("seed", range(5))
def test_the_descent_is_that_of_scikit_learn(seed):
    X = features(600, 5, np.float64, seed)
    rows = prepare(X, "euclidean")
    first = X[np.random.default_rng(seed).choice(600, 8, replace=False)]
    labels, _, cost = forms.lloyd_starts(rows, [rows.centroids_in(first)], 300, 1)[0]
    with threadpool_limits(1):
        model = KMeans(8, init=first, n_init=1, tol=0, algorithm="lloyd").fit(X)
    assert inertia(X, labels) == pytest.approx(model.inertia_, rel=1e-3)
    assert cost * 2 * 4.0**rows.exponent == pytest.approx(inertia(X, labels))


def test_groups_far_apart_are_found_as_by_scikit_learn():
    rng = np.random.default_rng(0)
    truth = np.arange(900) % 6
    X = 40 * rng.normal(size=(6, 7))[truth] + rng.normal(size=(900, 7))
    labels, _ = kmeans(X, 6, 0, n_init=5)
    with threadpool_limits(1):
        theirs = KMeans(6, n_init=5, random_state=0).fit_predict(X)
    assert adjusted_rand_score(labels, theirs) == 1
    assert adjusted_rand_score(labels, truth) == 1


def test_many_starts_are_as_good_as_those_of_scikit_learn():
    ours, theirs = [], []
    for seed in range(8):
        X = features(300, 3, np.float64, seed) ** 3
        ours.append(inertia(X, kmeans(X, 9, seed, n_init=10)[0]))
        with threadpool_limits(1):
            model = KMeans(9, n_init=10, random_state=seed).fit(X)
        theirs.append(model.inertia_)
    assert np.mean(ours) <= np.mean(theirs) * 1.02


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("rows_per_cluster", [None, 10])
def test_n_init_keeps_the_best_of_its_starts(metric, rows_per_cluster):
    X = features(1500, 4, np.float64) ** 3
    options = {"metric": metric, "max_iter": 8, "rows_per_cluster": rows_per_cluster}
    rows = prepare(X, metric)
    singles = [kmeans(X, 9, seed, **options) for seed in start_seeds(4, 7)]
    costs = [
        lloyd.inertia(rows, labels, rows.centroids_in(centroids))
        for labels, centroids in singles
    ]
    assert len(set(costs)) > 1
    best = singles[int(np.argmin(costs))]
    for n_threads in (1, 2, 3):
        same(kmeans(X, 9, 4, n_init=7, n_threads=n_threads, **options), best)
    same(kmeans(X, 9, 4, n_init=1, **options), singles[0])


def test_starts_that_find_fewer_clusters():
    X = np.repeat(np.eye(3), 10, axis=0)
    labels, centroids = kmeans(X, 7, 0, n_init=4)
    assert len(centroids) == len(set(labels)) == 3


def test_both_forms_take_the_same_arguments():
    references = {
        "nearest_rows": rows_module.nearest_rows,
        "draw_starts": lloyd.draw_starts,
        "lloyd_starts": lloyd.lloyd_starts,
    }
    for loop, reference in references.items():
        names = [
            list(inspect.signature(f).parameters)
            for f in (reference, compiled_form(loop))
        ]
        assert names[0] == names[1]


@pytest.mark.parametrize(("name", "value"), [("n_init", 0), ("n_threads", 0)])
def test_numbers_below_one_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name}=0"):
        kmeans(np.eye(3), 2, 0, **{name: value})


def test_wrong_shapes_never_reach_the_library(monkeypatch):
    rows = prepare(features(20, 4), "euclidean")
    points, draws = rows.X[:3], np.zeros((1, 2, 2))

    def refused(call, match):
        with pytest.raises((ValueError, TypeError), match=match):
            call()

    refused(lambda: forms.nearest_rows(rows, points[:, :3], 1), "centroids has shape")
    refused(lambda: forms.nearest_rows(rows, points[:0], 1), "no centroid")
    refused(lambda: forms.lloyd_starts(rows, [points[:, :3]], 1, 1), "first has shape")
    refused(lambda: forms.lloyd_starts(rows, [points[:0]], 1, 1), "no centroid")
    refused(lambda: forms.draw_starts(rows, draws[0], True, 1), "draws has shape")
    refused(lambda: forms.draw_starts(rows, draws + 1, True, 1), "below 1")
    many = np.zeros((1, 2, 65))
    refused(lambda: forms.draw_starts(rows, many, True, 1), "65 candidates")
    for X in (rows.X.astype(int), rows.X[::2], rows.X[0]):
        wrong = replace(rows, X=X)
        refused(lambda wrong=wrong: forms.nearest_rows(wrong, points, 1), "rows.X")
    short = replace(rows, half=rows.half[:5])
    refused(lambda: forms.lloyd_starts(short, [points], 1, 1), "fits|broadcast")
    refused(lambda: forms.draw_starts(short, draws, True, 1), "fits|broadcast")
