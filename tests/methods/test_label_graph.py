"""LWGP and U-SENC against the formulas of their papers, written with dense matrices."""

import warnings

import label_oracle
import numpy as np
import pytest
from random_ensembles import noisy
from sklearn.cluster import KMeans

import gpu_consensus as gpc
from gpu_consensus.backends import choose_backend, host_arrays
from gpu_consensus.graphs import kinds
from gpu_consensus.methods import label_graph
from gpu_consensus.methods.call import Shared, open_task
from gpu_consensus.methods.label_contingency import LabelContingency

pytestmark = pytest.mark.every_backend(emulated=False)

same = gpc.metrics.adjusted_rand


def literal_points(B, k):
    """Unit rows of the transfer cut of an n x S matrix, and the eigenvalues."""
    inverse = np.diag(1 / B.sum(axis=1))
    small = B.T @ inverse @ B
    root = np.diag(1 / np.sqrt(small.sum(axis=1)))
    values, vectors = np.linalg.eigh(root @ small @ root)
    points = inverse @ B @ root @ vectors[:, ::-1][:, :k]
    return points / np.linalg.norm(points, axis=1, keepdims=True), values[::-1][:k]


def literal_cut(B, clusters):
    """Sum over the clusters of 1 minus the share of ties that stay inside."""
    ties = B @ np.diag(1 / B.sum(axis=0)) @ B.T
    assert ties.sum(axis=1) == pytest.approx(B.sum(axis=1))
    return sum(
        1 - ties[np.ix_(own, own)].sum() / ties[own].sum()
        for own in (np.flatnonzero(clusters == c) for c in np.unique(clusters))
    )


def inertia(points, clusters):
    return sum(
        np.square(points[clusters == c] - points[clusters == c].mean(axis=0)).sum()
        for c in np.unique(clusters)
    )


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("method", ["lwgp", "usenc"])
def test_the_cut_is_that_of_the_paper(method, weighted, missing):
    labels, _ = noisy(8, n=60, r=7, missing=missing)
    weights = np.arange(1.0, 8) if weighted else np.ones(7)
    options = {"theta": 0.5} if method == "lwgp" else {}
    trust = label_oracle.eci(labels, weights, 0.5)
    edges = [
        w * (np.array(part) if method == "lwgp" else np.ones(len(part)))
        for w, part in zip(weights, trust, strict=True)
    ]
    B = label_oracle.object_rows(labels) * np.concatenate(edges)
    points, values = literal_points(B, 4)
    result = gpc.METHODS[method](labels, 4, weights=weights, random_state=0, **options)
    assert result.details["eigenvalues"] == pytest.approx(values)
    cut = literal_cut(B, result.labels)
    assert result.objective == pytest.approx(cut)
    assert result.value == pytest.approx(4 - cut)
    model = KMeans(4, n_init=30, random_state=1).fit(points)
    assert inertia(points, result.labels) <= 1.05 * model.inertia_
    if method == "lwgp":
        for found, right in zip(result.details["eci"], trust, strict=True):
            assert found == pytest.approx(right)


@pytest.mark.parametrize("method", ["lwgp", "usenc"])
def test_worked_examples(method):
    for words, k, expected in (
        (label_oracle.E1, 2, "11112222"),
        (label_oracle.E2, 3, "111222333"),
    ):
        labels = label_oracle.ensemble_of(words)
        found = gpc.METHODS[method](labels, k, random_state=0)
        assert same(list(expected), found.labels) == 1


def test_eigenvalues_are_the_squared_singular_values_of_hbgf():
    first = gpc.usenc(label_oracle.ensemble_of(label_oracle.E1), 4, random_state=0)
    assert first.details["eigenvalues"] == pytest.approx(
        [1, 0.9209, 0.2808, 0.25], abs=1e-4
    )
    second = gpc.usenc(label_oracle.ensemble_of(label_oracle.E2), 3, random_state=0)
    assert second.details["eigenvalues"] == pytest.approx(
        np.square([1, 0.9154, 0.8125]), abs=2e-4
    )


@pytest.mark.parametrize("method", ["lwgp", "usenc"])
def test_a_weight_of_two_is_a_copy(method):
    labels, _ = noisy(9, n=50, r=5)
    weighted = gpc.METHODS[method](labels, 3, weights=[1, 2, 1, 1, 1], random_state=0)
    copied = gpc.METHODS[method](
        np.column_stack([labels, labels[:, 1]]), 3, random_state=0
    )
    assert same(weighted.labels, copied.labels) == 1
    assert weighted.objective == pytest.approx(copied.objective)


@pytest.mark.parametrize("spread", [1, 60])
def test_sums_over_objects_do_not_depend_on_their_order(spread):
    labels, _ = noisy(3, n=200, r=6, missing=0.2)
    ens = gpc.Ensemble(labels)
    counted = LabelContingency("a test", ens, choose_backend("auto", None))
    rng = np.random.default_rng(0)
    weight = np.exp2(rng.uniform(-spread, spread, size=200))
    found = label_graph.weighted_common(counted, ens.codes, weight)
    rows = label_oracle.object_rows(labels)
    assert found == pytest.approx((rows * weight[:, None]).T @ rows, rel=1e-9)
    assert np.array_equal(found, found.T)
    order = rng.permutation(200)
    again = label_graph.weighted_common(counted, ens.codes[:, order], weight[order])
    assert np.array_equal(found, again)


def test_many_labels_take_the_other_way_to_the_eigenvectors(monkeypatch):
    labels, _ = noisy(2, n=120, r=9)
    dense = gpc.lwgp(labels, 3, random_state=0)
    monkeypatch.setattr(label_graph, "_DENSE", 0)
    found = gpc.lwgp(labels, 3, random_state=0)
    assert found.details["eigenvalues"] == pytest.approx(dense.details["eigenvalues"])
    assert same(dense.labels, found.labels) == 1


def test_eigenvalues_that_are_all_equal_are_found(monkeypatch):
    monkeypatch.setattr(label_graph, "_DENSE", 0)
    truth = np.random.default_rng(0).integers(100, size=800)
    labels = np.repeat(truth[:, None], 20, axis=1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="usenc found")
        result = gpc.usenc(labels, 10, random_state=0)
    assert result.details["eigenvalues"] == pytest.approx(np.ones(10))
    values, vectors = label_graph.leading_vectors(np.eye(60), 5)
    assert values == pytest.approx(np.ones(5))
    assert vectors.T @ vectors == pytest.approx(np.eye(5))


@pytest.mark.parametrize("method", ["lwgp", "usenc", "hbgf"])
def test_groups_that_share_no_label_are_all_found(method, monkeypatch):
    """Each has eigenvalue 1: an iteration from one vector would see it once."""
    monkeypatch.setattr(label_graph, "_DENSE", 0)
    monkeypatch.setattr(kinds, "DENSE", 0)
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(5), [60, 10, 40, 55, 8])
    labels = 12 * truth[:, None] + rng.integers(12, size=(len(truth), 10))
    result = gpc.METHODS[method](labels, 5, random_state=0)
    assert same(truth, result.labels) == 1


@pytest.mark.parametrize("method", ["lwgp", "usenc"])
def test_large_n_looks_at_some_objects(method, monkeypatch):
    monkeypatch.setattr(label_graph, "KMEANS_OBJECTS", 90)
    labels, truth = noisy(4, n=400, r=15)
    function = gpc.METHODS[method]
    result = function(labels, 3, label_objects=200, random_state=3)
    assert result.details["label_objects"] == 200
    assert result.details["kmeans_objects"] == 90
    assert same(truth, result.labels) > 0.8
    again = function(
        labels, 3, label_objects=200, random_state=3, backend="numpy", n_jobs=1
    )
    assert np.array_equal(result.labels, again.labels)
    assert result.objective == again.objective
    monkeypatch.setattr(host_arrays, "_DEFAULT_MEMORY", 4000)  # a few objects at a time
    small = function(labels, 3, label_objects=200, random_state=3)
    assert np.array_equal(result.labels, small.labels)
    assert result.objective == small.objective


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_the_spectral_start_of_sec_is_that_of_the_singular_vectors(missing):
    labels, _ = noisy(5, n=80, r=9, missing=missing)
    rows = label_oracle.object_rows(labels)
    weight = (rows @ rows.T).sum(axis=1)
    left = np.linalg.svd(rows / np.sqrt(weight)[:, None], full_matrices=False)[0][:, :3]
    points = left / np.linalg.norm(left, axis=1, keepdims=True)
    task = open_task("sec", labels, 3, Shared(random_state=0))
    found = label_graph.spectral_start(task, task.label_contingency(1000))
    model = KMeans(3, n_init=30, random_state=1).fit(points)
    assert inertia(points, found) <= 1.001 * model.inertia_
    started = gpc.sec(labels, 3, init="spectral", random_state=0)
    given = gpc.sec(labels, 3, init=found, random_state=0)
    assert np.array_equal(started.labels, given.labels)
    plain = gpc.sec(labels, 3, n_init=50, random_state=0)
    assert started.objective <= plain.objective * 1.01


def test_the_spectral_start_of_sec_has_all_clusters():
    grid = np.array([[a, b] for a in range(3) for b in range(3)])
    labels = np.vstack([np.repeat(grid, 3, axis=0), [[-1, -1]]])
    result = gpc.sec(labels, 8, init="spectral", random_state=0, on_unlabelled="keep")
    assert result.n_clusters == 8
    assert result.labels[-1] == -1


def test_labels_that_nobody_trusts_do_not_end_in_zeros():
    labels, _ = noisy(1, n=40, r=5)
    result = gpc.lwgp(labels, 3, theta=1e-4, random_state=0)
    assert result.n_clusters <= 3
    assert np.isfinite(result.objective)


def test_wrong_options_say_what_is_wrong():
    labels, _ = noisy(1, n=20, r=4)
    for theta in (0, -1, "much", np.inf, None):
        with pytest.raises(ValueError, match=r"theta=.* should be a finite number > 0"):
            gpc.lwgp(labels, 2, theta=theta)
    with pytest.raises(ValueError, match=r"label_objects=0 should be >= 1"):
        gpc.usenc(labels, 2, label_objects=0)
