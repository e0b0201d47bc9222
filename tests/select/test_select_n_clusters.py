"""Choosing the number of clusters as users do."""

import json
import os
import threading

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import load_iris

import gpu_consensus as gpc
from gpu_consensus.backends.host_loops import compiled_loops
from gpu_consensus.select import features, kept
from gpu_consensus.select import labels as from_labels

QUICK = {
    "n_partitions": 6,
    "n_init": 4,
    "n_null": 19,
    "random_state": 0,
}


def blobs(k, n=90, d=3, apart=9.0, seed=0):
    rng = np.random.default_rng(seed)
    centres = np.eye(max(k, d))[:k, :d] * apart
    return centres[np.arange(n) % k] + rng.normal(size=(n, d))


def same(a, b):
    """Whether two selections are equal in everything."""
    assert a.as_dict() == b.as_dict()
    assert np.array_equal(a.stability, b.stability, equal_nan=True)
    assert np.array_equal(a.cluster_stability, b.cluster_stability, equal_nan=True)
    assert np.array_equal(a.labels, b.labels)


@pytest.fixture(scope="module")
def ensemble():
    return gpc.generate_partitions(blobs(3), 12, k_range=(2, 6), random_state=0)


def test_clusters_are_found_and_told():
    X = blobs(3)
    found = gpc.select_n_clusters(X, range(2, 6), **QUICK)
    assert (found.n_clusters, found.best, found.claim) == (3, 3, "structure")
    assert found.p_value == 0.05
    assert gpc.metrics.adjusted_rand(found.labels, np.arange(90) % 3) == 1
    assert found.stability.tolist() == [1] * 90
    assert found.cluster_stability.tolist() == [1] * 3
    assert [row["n_clusters"] for row in found.table] == [2, 3, 4, 5]
    assert found.table[1]["stability"] == 1
    assert found.table[1]["scatter"] < found.table[1]["scatter_low"]
    total = ((X - X.mean(axis=0)) ** 2).sum()
    assert np.exp(found.table[1]["scatter"]) < total / 10
    for words in ("3 clusters", "p = 0.05", "19 draws", "90 objects"):
        assert words in found.reason
    assert found.reason.count(". ") == 0
    assert "Selection(3: " in repr(found)
    assert len(pd.DataFrame(found.table)) == 4
    assert json.loads(json.dumps(found.as_dict()))["n_clusters"] == 3


def test_scale_and_offset_change_nothing():
    X = blobs(3)
    first = gpc.select_n_clusters(X, range(2, 5), **QUICK)
    for moved in (X * 2.0**300, X * 2.0**-300, np.column_stack([X, np.full(90, 7.0)])):
        other = gpc.select_n_clusters(moved, range(2, 5), **QUICK)
        assert other.n_clusters == 3
        assert np.array_equal(first.stability, other.stability)
    shift = 600 * np.log(2)
    large = gpc.select_n_clusters(X * 2.0**300, range(2, 5), **QUICK)
    for row, other in zip(first.table, large.table, strict=True):
        assert other["scatter"] == pytest.approx(row["scatter"] + shift)
        assert other["gap"] == pytest.approx(row["gap"])


def test_nothing_is_found_in_one_cloud():
    X = np.random.default_rng(0).normal(size=(150, 3))
    found = gpc.select_n_clusters(X, range(2, 6), **QUICK)
    assert found.n_clusters == 1
    assert found.best > 1
    assert found.alternatives == ()
    assert found.p_value > 0.05
    assert found.reason.startswith("no structure was found")


def test_iris_has_three_or_two():
    found = gpc.select_n_clusters(load_iris().data, random_state=0)
    assert found.n_clusters == 3
    assert found.alternatives == (2,)


def test_far_objects_are_set_aside():
    X = np.concatenate([blobs(3), [[500.0, 0, 0], [0, 900, 0]]])
    found = gpc.select_n_clusters(X, range(2, 6), **QUICK)
    assert found.n_clusters == 3
    assert found.details["set_aside"].tolist() == [90, 91]
    assert "2 of which were set aside" in found.reason
    assert np.isnan(found.stability[90:]).all()
    assert found.labels[90:].tolist() == [-1, -1]


def test_a_sample_of_many_objects():
    X = blobs(2, n=3000)
    found = gpc.select_n_clusters(X, range(2, 4), **QUICK, max_objects=100)
    assert found.n_clusters == 2
    seen = found.labels >= 0
    assert seen.sum() == 100 == found.details["n_objects"]
    assert np.isnan(found.stability[~seen]).all()
    assert "a sample of 100 of 3,000" in found.reason


@pytest.mark.parametrize("d", [1, 200])
def test_few_and_many_features(d):
    X = np.random.default_rng(0).normal(size=(40, d))
    X[::2] += 9
    assert gpc.select_n_clusters(X, range(2, 4), **QUICK).n_clusters == 2


def test_sparse_rows_and_directions():
    X = blobs(3)
    dense = gpc.select_n_clusters(X, range(2, 5), **QUICK)
    same(dense, gpc.select_n_clusters(scipy.sparse.csr_array(X), range(2, 5), **QUICK))
    far = X + 2
    far *= np.random.default_rng(0).uniform(1, 1000, size=(90, 1))
    found = gpc.select_n_clusters(far, range(2, 5), **QUICK, metric="cosine")
    assert found.n_clusters == 3


@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_a_handful_of_objects(n):
    X = np.random.default_rng(n).normal(size=(n, 2))
    found = gpc.select_n_clusters(X, **QUICK)
    assert found.n_clusters >= 1
    assert found.details["skipped"] == list(range(n + 1, 11))
    assert f"({n})" in found.reason


def test_two_points_many_times():
    X = np.repeat(np.array([[0.0, 1], [5, 1]]), 20, axis=0)
    found = gpc.select_n_clusters(X, **QUICK)
    assert found.n_clusters == 2
    assert "3, 4, 5, 6, 7, 8, 9 and 10 were skipped" in found.reason


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_threads_and_compiled_loops_change_nothing(n_jobs):
    X = np.concatenate([blobs(3, n=60), [[500.0, 0, 0]]])
    first = gpc.select_n_clusters(X, range(2, 5), **QUICK, n_jobs=2)
    same(first, gpc.select_n_clusters(X, range(2, 5), **QUICK, n_jobs=n_jobs))
    with compiled_loops(use=False):
        same(first, gpc.select_n_clusters(X, range(2, 5), **QUICK, n_jobs=n_jobs))


@pytest.mark.every_backend
def test_labels_agree_on_a_number(ensemble, monkeypatch):
    monkeypatch.setattr(from_labels, "N_HALVINGS", 2)
    found = gpc.select_n_clusters(ensemble, range(2, 5), **QUICK)
    assert (found.n_clusters, found.claim) == (3, "agreement")
    assert found.p_value == 0.05
    assert gpc.metrics.adjusted_rand(found.labels, np.arange(90) % 3) == 1
    assert found.reason.startswith("the partitions agree (p = 0.05 with 19 draws")
    best = found.table[1]
    assert best["product"] == pytest.approx(best["stability"] * best["anmi"])
    nmi = gpc.metrics.consensus_criterion(ensemble, found.labels)
    assert best["anmi"] == pytest.approx(nmi)
    again = gpc.select_n_clusters(
        ensemble.labels, range(2, 5), **QUICK, kind="labels", backend="numpy", n_jobs=3
    )
    same(found, again)


def test_labels_of_chance():
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=(80, 10))
    labels[rng.random(labels.shape) < 0.3] = -1
    found = gpc.select_n_clusters(labels, [2, 3], **QUICK, kind="labels")
    assert found.n_clusters == 1
    assert found.reason.startswith("the partitions agree no better than chance")
    words = np.array(["a", "b", "c", "d"])[labels]
    same(
        found,
        gpc.select_n_clusters(
            np.where(labels < 0, None, words), [2, 3], **QUICK, kind="labels"
        ),
    )


def test_candidates_above_the_distinct_labels_are_skipped():
    labels = np.array([[0, 0, 1], [1, 1, 0]])[np.arange(30) % 2].repeat(2, axis=1)
    found = gpc.select_n_clusters(labels, [2, 5], **QUICK, kind="labels")
    assert found.n_clusters == 2
    assert found.details["skipped"] == [5]


@pytest.mark.parametrize("kind", ["features", "labels"])
@pytest.mark.parametrize("stop_after", [1, 4, 25])
def test_an_interrupted_selection_goes_on(
    kind, stop_after, ensemble, tmp_path, monkeypatch
):
    monkeypatch.setattr(from_labels, "N_HALVINGS", 2)
    monkeypatch.setattr(kept, "SECONDS_BETWEEN_SAVES", 0)
    data = ensemble if kind == "labels" else np.concatenate([blobs(3), [[500.0, 0, 0]]])
    whole = gpc.select_n_clusters(data, [2, 3], **QUICK)
    path = tmp_path / "k.json"
    calls, lock, put = [], threading.Lock(), kept.Kept.put

    def stopping(self, key, numbers):
        with lock:
            calls.append(key)
            if len(calls) > stop_after:
                raise KeyboardInterrupt
        put(self, key, numbers)

    with monkeypatch.context() as patch:
        patch.setattr(kept.Kept, "put", stopping)
        try:
            gpc.select_n_clusters(data, [2, 3], **QUICK, checkpoint=path, n_jobs=1)
        except KeyboardInterrupt:
            assert len(json.loads(path.read_text())["parts"]) == stop_after
    unseeded = {**QUICK, "random_state": None}  # the seed is in the file
    same(whole, gpc.select_n_clusters(data, [2, 3], **unseeded, checkpoint=path))
    before = path.read_bytes()
    same(whole, gpc.select_n_clusters(data, [2, 3], **QUICK, checkpoint=path))
    assert path.read_bytes() == before
    for changed in ({"alpha": 0.06}, {"random_state": 1}):
        with pytest.raises(ValueError, match="belongs to another call"):
            gpc.select_n_clusters(data, [2, 3], **QUICK | changed, checkpoint=path)


def test_a_changed_checkpoint_is_refused(tmp_path):
    path, X = tmp_path / "k.json", blobs(2, n=30)
    gpc.select_n_clusters(X, [2], **QUICK, checkpoint=path)
    text = path.read_text()
    stored = json.loads(text)
    stored["parts"]["gap/0"][0] += 1
    for wrong in (json.dumps(stored), text[:-5], "{}", "[1]", "[" * 10**5, "\0"):
        path.write_text(wrong)
        with pytest.raises(ValueError, match=r"is not a readable checkpoint \("):
            gpc.select_n_clusters(X, [2], **QUICK, checkpoint=path)
    path.write_text(text)
    with pytest.raises(ValueError, match="its data differs"):
        gpc.select_n_clusters(X + 1, [2], **QUICK, checkpoint=path)
    with pytest.raises(ValueError, match="is a folder"):
        gpc.select_n_clusters(X, [2], **QUICK, checkpoint=tmp_path)
    with pytest.raises(TypeError, match="checkpoint=5 should be a path"):
        gpc.select_n_clusters(X, [2], **QUICK, checkpoint=5)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="it needs pipes and devices")
@pytest.mark.parametrize("kind", ["device", "pipe", "circle"])
def test_a_checkpoint_that_is_no_file_is_not_waited_for(tmp_path, kind):
    path = tmp_path / "k.json"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if kind == "device" else path)
    with pytest.raises(ValueError, match=r"is not a readable checkpoint \("):
        gpc.select_n_clusters(blobs(2, n=30), [2], **QUICK, checkpoint=path)


def test_frames_of_polars_hold_what_their_arrays_do():
    polars = pytest.importorskip("polars")
    X = blobs(2, n=30)
    found = gpc.select_n_clusters(polars.DataFrame(X), [2, 3], **QUICK)
    assert found.claim == "structure"
    assert found.as_dict() == gpc.select_n_clusters(X, [2, 3], **QUICK).as_dict()
    words = np.random.default_rng(0).integers(3, size=(30, 6)).astype(str)
    labels = polars.DataFrame(words)
    with pytest.raises(ValueError, match="say kind='labels' or kind='features'"):
        gpc.select_n_clusters(labels, [2], **QUICK)
    found = gpc.select_n_clusters(labels, [2], kind="labels", **QUICK)
    assert found.claim == "agreement"


X = blobs(2, n=20)
WRONG = [
    ({"candidates": []}, "candidates is empty; give at least one"),
    ({"candidates": 3}, "candidates=3 should be numbers of clusters"),
    ({"candidates": "23"}, "candidates='23' should be numbers of clusters"),
    ({"candidates": [1, 2]}, "candidates has 1 and should hold numbers >= 2"),
    ({"candidates": [0]}, "candidates has 0 and should hold numbers >= 2"),
    ({"candidates": [-3]}, "should be >= 0"),
    ({"candidates": [2.5]}, "should be an integer"),
    ({"candidates": range(2, 10**9)}, "more than 1000 numbers"),
    ({"candidates": [21, 30]}, r"\[21, 30\] are all above the 20 distinct rows"),
    ({"data": np.ones((9, 2))}, "the 9 objects are all equal"),
    ({"data": np.ones((1, 2))}, "the 1 objects are all equal"),
    ({"data": np.where(X > 9, np.nan, X)}, "X has NaN in row"),
    ({"data": np.empty((0, 2))}, r"X has 0 sample\(s\)"),
    ({"data": X[:, 0]}, "reshape"),
    ({"data": X.astype(int)}, "say kind='labels' or kind='features'"),
    ({"data": X.astype(object)}, "say kind='labels' or kind='features'"),
    ({"data": [[1, 2], [3, 4]]}, "say kind='labels' or kind='features'"),
    ({"data": pd.DataFrame({"a": [1, 2]})}, "say kind='labels' or kind='features'"),
    ({"data": np.full((9, 4), -1), "kind": "labels"}, "0 partitions have labels"),
    ({"data": np.ones((9, 3), int), "kind": "labels"}, "3 partitions have labels"),
    ({"data": np.ones((9, 4), int), "kind": "labels"}, "are all above the distinct"),
    ({"data": gpc.Ensemble(X > 3), "kind": "features"}, "which holds labels"),
    ({"kind": "rows"}, "kind='rows' is unknown"),
    ({"method": "kkc"}, "method='kkc' is unknown"),
    ({"data": X > 3, "kind": "labels", "method": "best"}, "finds the number"),
    ({"metric": "l1"}, "metric='l1' is unknown"),
    ({"n_partitions": 1}, "n_partitions=1 should be >= 2"),
    ({"share": 0.5}, r"share=0.5 should be in \(0.5, 1\]"),
    ({"share": 1.5}, "share=1.5 should be a number"),
    ({"n_init": 0}, "n_init=0 should be >= 1"),
    ({"alpha": 0}, "alpha=0 should be a number"),
    ({"alpha": 0.9}, r"alpha=0.9 should be in \(0, 0.5\]"),
    ({"n_null": 18}, "n_null=18 cannot show structure: .*; draw at least 19"),
    ({"max_objects": 5}, "max_objects=5 should be >= 10"),
    ({"backend": "gpu"}, "backend='gpu' is unknown"),
    ({"n_jobs": 0}, "n_jobs=0 should be"),
]


@pytest.mark.parametrize(("changed", "message"), WRONG)
def test_wrong_calls_are_told_in_a_sentence(changed, message):
    options = {"data": X, **changed}
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        gpc.select_n_clusters(options.pop("data"), **options)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_most_rows_are_never_outliers():
    X = np.arange(8.0)[:, None] ** 3  # every cluster is small
    found = gpc.select_n_clusters(X, [4, 5], **QUICK)
    assert (found.labels >= 0).sum() >= 4
    assert features.SMALLEST == 3


def test_auto_in_cluster_and_the_estimator(tmp_path):
    X = blobs(3, n=60)
    found = gpc.cluster(
        X,
        "auto",
        method="kcc",
        n_partitions=5,
        random_state=0,
        checkpoint=tmp_path / "run",
    )
    assert found.n_clusters == found.details["selection"].n_clusters == 3
    given = gpc.cluster(X, 3, method="kcc", n_partitions=5, random_state=0)
    assert np.array_equal(found.labels, given.labels)
    again = gpc.cluster(
        X,
        "auto",
        method="kcc",
        n_partitions=5,
        random_state=0,
        checkpoint=tmp_path / "run",
    )
    assert np.array_equal(found.labels, again.labels)
    same(found.details["selection"], again.details["selection"])
    for folder in (tmp_path / "new",) * 2:  # the seed is in the folder
        gpc.cluster(X, "auto", method="kcc", n_partitions=5, checkpoint=folder)
    model = gpc.ConsensusClustering("auto", "kcc", 5, random_state=0)
    model = clone(model).fit(X)
    assert np.array_equal(model.labels_, found.labels)
    assert model.selection_.n_clusters == 3
    assert clone(model).n_clusters == "auto"


def test_auto_of_nothing_is_one_cluster():
    X = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.warns(UserWarning, match="one cluster") as caught:
        found = gpc.cluster(X, "auto", method="kcc", n_partitions=5, random_state=1)
    assert found.n_clusters == 1
    assert any(
        "'auto' gives one cluster: no structure" in str(w.message) for w in caught
    )


def test_what_auto_does_not_take():
    with pytest.raises(ValueError, match="n_clusters='many' is unknown"):
        gpc.cluster(X, "many")
    with pytest.raises(TypeError, match="not views"):
        gpc.cluster([X, X], "auto", method="lambda_consensus")
    found = gpc.cluster(
        X, "auto", method="lambda_consensus", n_partitions=4, random_state=0
    )
    assert found.details["selection"].n_clusters == found.n_clusters


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_estimator_with_auto_is_one_of_scikit_learn():
    from sklearn.utils.estimator_checks import check_estimator

    check_estimator(gpc.ConsensusClustering("auto", n_partitions=8))
