"""Partitions made from features: what each strategy promises, and what never breaks."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joblib import Parallel, delayed, parallel_config
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.cluster import DBSCAN, AgglomerativeClustering, KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score, pairwise_distances_argmin
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from threadpoolctl import threadpool_info, threadpool_limits

import gpu_consensus
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.generate.features import count_distinct_rows
from gpu_consensus.generate.generate_partitions import drop_labels, generate_partitions
from gpu_consensus.generate.kmeans import kmeans
from gpu_consensus.generate.store import VERSION
from gpu_consensus.generate.views import STRATEGIES, draw_zipf_weights, fine_range
from gpu_consensus.util.seeds import plain_seed, seed_from_plain
from gpu_consensus.util.tables import check_features


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


class Recorder:
    """A clusterer that remembers what it was given."""

    def __init__(self, stop_after=math.inf):
        self.calls = []
        self.stop_after = stop_after

    def __call__(self, X, n_clusters, seed):
        if len(self.calls) >= self.stop_after:
            raise KeyboardInterrupt
        self.calls.append((X, n_clusters, seed))
        return np.random.default_rng(seed).integers(n_clusters, size=X.shape[0])


def record(X, *args, **options):
    """Run with one worker and return the calls, in order of the partitions."""
    recorder = Recorder()
    ens = generate_partitions(X, *args, base=recorder, n_jobs=1, **options)
    return ens, recorder.calls


def same(a, b):
    return np.array_equal(a.codes, b.codes) and np.array_equal(a.n_labels, b.n_labels)


# Reproducible


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_same_seed_same_ensemble_for_any_number_of_workers(strategy):
    X, _ = blobs()
    runs = [
        generate_partitions(X, 12, strategy, 3, n_jobs=n_jobs, random_state=5)
        for n_jobs in (1, 2, None)
    ]
    assert all(same(runs[0], run) for run in runs)
    other = generate_partitions(X, 12, strategy, 3, random_state=6)
    assert runs[0].n_partitions == 12
    if strategy != "restarts":  # which may find the same clusters every time
        assert not same(runs[0], other)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_sampled_rows_do_not_depend_on_the_workers(form, metric):
    X = form(blobs(2500, d=20)[0])
    options = {"k_range": (3, 9), "metric": metric, "random_state": 1}
    runs = [generate_partitions(X, 6, n_jobs=n, **options) for n in (1, 3)]
    assert same(*runs)
    assert not same(
        runs[0], generate_partitions(X, 6, rows_per_cluster=None, **options)
    )


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_units_do_not_matter(strategy, metric):
    X, _ = blobs(60)
    options = {"n_clusters": 3, "metric": metric, "random_state": 0, "n_jobs": 1}
    plain = generate_partitions(X, 8, strategy, **options)
    for exponent in (-200, -3, 200):
        other = generate_partitions(np.ldexp(X, exponent), 8, strategy, **options)
        assert same(plain, other)


def test_a_far_origin_does_not_eat_the_digits():
    X, truth = blobs(300)
    ens = generate_partitions(X + 1e9, 5, "restarts", 3, random_state=0)
    for labels in ens.labels.T:
        assert adjusted_rand_score(truth, labels) > 0.5
    near = generate_partitions(X, 5, "restarts", 3, random_state=0)
    assert adjusted_rand_score(near.labels[:, 0], ens.labels[:, 0]) > 0.99


def test_processes_give_the_same():
    X, _ = blobs()
    threads = generate_partitions(X, 4, n_clusters=3, n_jobs=2, random_state=5)
    with parallel_config("loky", n_jobs=2):
        processes = generate_partitions(X, 4, n_clusters=3, random_state=5)
    assert same(threads, processes)


@pytest.mark.parametrize("asked", ["1", "2"])
def test_the_environment_says_how_many_partitions_are_made_at_a_time(
    monkeypatch, asked
):
    at_once = threading.Barrier(2)

    def meets_another(X, n_clusters, seed):
        with contextlib.suppress(threading.BrokenBarrierError):
            at_once.wait(timeout=0.5)
        return np.arange(len(X)) % 2

    monkeypatch.setenv("GPU_CONSENSUS_NUM_THREADS", asked)
    generate_partitions(np.eye(4), 2, base=meets_another, n_clusters=2)
    assert at_once.broken == (asked == "1")


def test_a_joblib_backend_that_cannot_stream_is_refused():
    X, _ = blobs()
    with (
        parallel_config("multiprocessing", n_jobs=2),
        pytest.raises(ValueError, match=r"as they are done .*'threading'"),
    ):
        generate_partitions(X, 2, n_clusters=3, random_state=0)


@pytest.mark.parametrize("strategy", ["rfs", "zipf"])
def test_columns_far_smaller_than_others_still_count(strategy):
    X, _ = blobs(60)
    exponents = np.array([0, 0, 0, -150, -150, -150])
    options = {"n_clusters": 3, "random_state": 0, "n_jobs": 1, "k_range": (3, 3)}
    if strategy == "rfs":
        options["n_features"] = 1  # alone, so that its scale cannot matter
    plain = generate_partitions(X, 8, strategy, **options)
    other = generate_partitions(np.ldexp(X, exponents), 8, strategy, **options)
    for a, b in zip(plain.codes, other.codes, strict=True):
        assert adjusted_rand_score(a, b) > 0.95


def test_cosine_of_rows_that_are_all_too_short():
    X, _ = blobs(30)
    with pytest.raises(ValueError, match="too short for metric='cosine'"):
        generate_partitions(X * 1e-200, 2, n_clusters=3, metric="cosine")
    # columns too small to see are no reason to give up the others
    X[:, ::2] *= 1e-200
    options = {"n_features": 1, "metric": "cosine", "random_state": 0}
    ens = generate_partitions(X, 8, "rfs", 2, **options)
    assert set(ens.n_labels.tolist()) == {1, 2}


def test_thread_pools_are_left_as_they_were():
    X, _ = blobs()
    for limit in (1, 3):
        with threadpool_limits(limits=limit):
            before = threadpool_info()
            generate_partitions(X, 8, n_clusters=3, n_jobs=2)
            assert threadpool_info() == before


def test_importing_loads_no_heavy_library():
    code = (
        "import sys, numpy; sys.modules['gpu_consensus'] = type(sys)('gpu_consensus');"
        f"sys.modules['gpu_consensus'].__path__ = {gpu_consensus.__path__!r};"
        "import gpu_consensus.generate.generate_partitions;"
        "print([m for m in ('scipy', 'sklearn', 'joblib') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.stdout.strip() == "[]", found.stderr


def test_inside_a_parallel_job():
    X, _ = blobs(40)
    jobs = (delayed(generate_partitions)(X, 3, random_state=s) for s in (1, 2))
    found = Parallel(2, prefer="threads")(jobs)
    assert same(found[0], generate_partitions(X, 3, random_state=1))


def test_more_partitions_begin_with_the_same_ones():
    X, _ = blobs()
    few, many = (generate_partitions(X, r, random_state=1) for r in (3, 7))
    assert np.array_equal(few.labels, many.labels[:, :3])


def test_random_state_kinds():
    X, _ = blobs(30)
    sequence = np.random.SeedSequence(4)
    first = generate_partitions(X, 2, random_state=sequence)
    assert same(first, generate_partitions(X, 2, random_state=sequence))
    assert same(first, generate_partitions(X, 2, random_state=4))
    generator = np.random.default_rng(0)
    draws = [generate_partitions(X, 5, random_state=generator) for _ in range(2)]
    assert not same(*draws)


# The number of clusters


def ks(X, *args, **options):
    return [k for _, k, _ in record(X, *args, **options)[1]]


def test_rps_default_ranges():
    X = np.arange(90.0)[:, None]
    drawn = np.array(ks(X, 400, n_clusters=3, random_state=0)).reshape(-1, 10)
    assert set(drawn[:, :9].flat) == set(range(5, 11))
    assert set(drawn[:, 9].flat) == set(range(3, 7))  # every tenth is coarse
    assert set(ks(X, 200, random_state=0)) == set(range(2, 11))
    assert set(ks(X, 300, n_clusters=20, random_state=0)) == set(range(20, 41))
    large = np.arange(20_000.0)[:, None]
    drawn = np.array(ks(large, 300, n_clusters=3, random_state=0)).reshape(-1, 10)
    assert set(drawn[:, :9].flat) == set(range(30, 61))
    assert set(drawn[:, 9].flat) == set(range(3, 7))
    assert max(ks(large, 60, random_state=0)) <= 50


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("stored", [np.asarray, sparse.csr_array])
def test_rows_of_text_get_fewer_labels(metric, stored):
    X = stored(np.arange(1.0, 181).reshape(90, 2))
    drawn = ks(X, 60, n_clusters=2, metric=metric, random_state=0)
    few = metric == "cosine" or sparse.issparse(X)
    assert set(drawn[:9]) <= set(range(2 if few else 5, 11))
    assert min(drawn[:9]) < 5 or not few
    assert (max(drawn[9::10]) > 4) == few  # and none is coarse


@pytest.mark.parametrize(
    ("n", "n_clusters", "expected", "text"),
    [
        (100, 2, (5, 10), (5, 10)),  # sqrt(n) = 5K: half of it, and all of it
        (99, 2, (5, 10), (2, 10)),
        (400, 2, (20, 40), (10, 20)),  # ten rows for a label
        (1000, 2, (30, 60), (10, 20)),
        (2000, 15, (75, 150), (15, 45)),
        (5000, 50, (100, 200), (50, 100)),  # labels are many
        (19_999, 10, (50, 100), (50, 100)),  # no jump
        (20_000, 10, (50, 100), (50, 100)),
        (10**6, 10, (50, 100), (50, 100)),
        (10**6, 150, (500, 1000), (500, 1000)),
        (150, 3, (8, 15), (3, 13)),
        (10_000, 100, (100, 200), (100, 200)),  # at least [K, 2K]
        (30, 20, (20, 30), (20, 30)),  # and no more than rows
        (5, 5, (5, 5), (5, 5)),
        (1, 1, (1, 1), (1, 1)),
    ],
)
def test_the_default_range_is_fine_where_there_are_rows(n, n_clusters, expected, text):
    assert fine_range(n, n_clusters) == expected
    assert fine_range(n, n_clusters, is_text=True) == text


@pytest.mark.parametrize("strategy", [s for s in STRATEGIES if s != "rps"])
def test_other_strategies_use_n_clusters_or_the_range(strategy):
    X, _ = blobs(60)
    assert set(ks(X, 12, strategy, 5, random_state=0)) == {5}
    assert set(ks(X, 60, strategy, 5, (2, 4), random_state=0)) == {2, 3, 4}
    with pytest.raises(ValueError, match=rf"strategy='{strategy}' needs n_clusters"):
        generate_partitions(X, 4, strategy)


def test_k_never_exceeds_the_distinct_rows():
    X = np.repeat([[0.0, 1.0], [5.0, 5.0], [9.0, 0.0]], 20, axis=0)
    assert set(ks(X, 20, n_clusters=5, random_state=0)) == {3}
    assert set(ks(X, 40, k_range=(2, 9), random_state=0)) == {2, 3}
    assert generate_partitions(X, 9, n_clusters=5, random_state=0).n_labels.max() == 3
    assert set(ks(X, 200, "rows", 9, sample_share=0.05, random_state=0)) == {1, 2, 3}
    assert count_distinct_rows(sparse.csr_array(X), 99) == 3


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_duplicates_do_not_warn_from_threads(metric):
    X = np.array([[1.0, 1.0], [1.0, 1.0 + 1e-9], [1.0, 1.0 - 1e-9]] * 20)
    before = list(warnings.filters)
    generate_partitions(X.astype(np.float32), 8, "restarts", 3, n_jobs=2, metric=metric)
    kmeans(np.ones((9, 2)), 4, 0, metric=metric)
    assert warnings.filters == before


# What each strategy shows the clusterer


def test_rfs_shows_some_columns():
    X = np.arange(60.0).reshape(12, 5)
    columns = set()
    for view, _, _ in record(X, 20, "rfs", 2, n_features=2, random_state=0)[1]:
        assert view.shape == (12, 2)
        found = view[0].astype(int)
        assert np.array_equal(view, X[:, found])  # row 0 holds 0..4
        columns.add(tuple(found))
    assert len(columns) > 5


@pytest.mark.parametrize(
    ("d", "n_features", "expected"),
    [
        (8, None, 2),
        (1, None, 1),
        (250, None, 25),
        (10, 0.3, 3),
        (10, 1.0, 10),
        (9, 9, 9),
    ],
)
def test_rfs_number_of_columns(d, n_features, expected):
    X = np.random.default_rng(0).normal(size=(9, d))
    _, calls = record(X, 2, "rfs", 2, n_features=n_features)
    assert calls[0][0].shape == (9, expected)


def test_rows_leaves_the_rest_missing():
    X, _ = blobs(100)
    ens, calls = record(X, 30, "rows", 3, sample_share=0.3, random_state=0)
    assert {view.shape for view, _, _ in calls} == {(30, 6)}
    assert (ens.n_missing == 70).all()
    for i, (view, _, _) in enumerate(calls):
        assert np.array_equal(view, X[ens.labels[:, i] >= 0])
    half = generate_partitions(X, 15, "rows", 3, random_state=0)
    assert (half.n_missing == 50).all()


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_complete_predicts_from_the_nearest_centroid(metric, form):
    X = documents()
    kwargs = {
        "sample_share": 0.5,
        "metric": metric,
        "max_iter": 100,
        "random_state": 3,
    }
    part = generate_partitions(form(X), 12, "rows", 3, **kwargs).labels
    full = generate_partitions(form(X), 12, "rows", 3, complete=True, **kwargs).labels
    assert (full >= 0).all()
    known = part >= 0
    assert np.array_equal(part[known], full[known])
    unit = X / np.linalg.norm(X, axis=1, keepdims=True) if metric == "cosine" else X
    for i in range(12):
        rows = known[:, i]
        centroids = np.array([unit[part[:, i] == j].mean(axis=0) for j in range(3)])
        if metric == "cosine":
            expected = unit @ (centroids / np.linalg.norm(centroids, axis=1)[:, None]).T
            expected = expected.argmax(axis=1)
        else:
            expected = pairwise_distances_argmin(X, centroids)
        assert np.mean(expected[~rows] == full[~rows, i]) > 0.99


def test_complete_with_a_clusterer_that_has_no_centroids():
    X, truth = blobs(90)
    options = {
        "base": AgglomerativeClustering(),
        "sample_share": 0.4,
        "random_state": 0,
    }
    ens = generate_partitions(X, 3, "rows", 3, complete=True, **options)
    assert all(adjusted_rand_score(truth, labels) == 1 for labels in ens.labels.T)


def test_projection_is_linear_and_random():
    X = np.random.default_rng(0).normal(size=(50, 20))
    _, calls = record(X, 3, "projection", 2, random_state=0)
    for view, _, _ in calls:
        assert view.shape == (50, 3)
        axes, residual, *_ = np.linalg.lstsq(X, view, rcond=None)
        assert np.allclose(residual, 0)
        assert 0.3 < axes.std() * math.sqrt(3) < 1.7  # Gaussian, scaled by 1/sqrt(3)
    assert not np.allclose(calls[0][0], calls[1][0])
    _, wide = record(X, 1, "projection", 2, n_components=7)
    assert wide[0][0].shape == (50, 7)


def test_zipf_scales_columns():
    X = np.random.default_rng(0).normal(size=(80, 5)) * [1, 10, 100, 0, 3] + 7
    options = {"zipf_alpha": 1.0, "zipf_weights": "ranked", "random_state": 0}
    _, calls = record(X, 6, "zipf", 2, **options)
    orders = set()
    for view, _, _ in calls:
        spread = view.std(axis=0)  # the weights, because columns are standardised
        assert np.ptp(view[:, 3]) == 0
        weights = np.delete(spread, 3)
        ranks = np.round(1 / weights)
        assert np.allclose(weights, 1 / ranks)
        assert len(set(ranks)) == 4
        assert set(ranks) <= {1, 2, 3, 4, 5}
        orders.add(tuple(ranks))
    assert len(orders) > 2
    _, calls = record(X, 30, "zipf", 2, random_state=0)
    for view, _, _ in calls:
        assert np.isfinite(view).all()
        assert view.std(axis=0).max() <= 1 + 1e-9


def test_zipf_drawn_weights_follow_the_law():
    rng = np.random.default_rng(0)
    weights = draw_zipf_weights(200_000, 1.5, "drawn", rng)
    assert weights.max() == 1
    found = np.bincount(np.round(weights * 100).astype(int), minlength=101)[1:]
    law = np.arange(1, 101) ** -1.5
    assert np.allclose(found / found.sum(), law / law.sum(), atol=0.004)
    flat = draw_zipf_weights(200_000, 0.0, "drawn", rng)
    assert abs(flat.mean() - 0.505) < 0.005


def test_restarts_show_the_data_itself():
    X, _ = blobs(30)
    _, calls = record(X, 3, "restarts", 4, random_state=0)
    assert all(np.array_equal(view, X) and k == 4 for view, k, _ in calls)
    assert len({seed for _, _, seed in calls}) == 3


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_good_clusters_are_found(strategy):
    X, truth = blobs(150)
    ens = generate_partitions(X, 10, strategy, 3, k_range=(3, 3), random_state=0)
    found = [adjusted_rand_score(truth[l >= 0], l[l >= 0]) for l in ens.labels.T]
    assert np.median(found) > 0.6


# Kinds of input


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "kind", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array]
)
def test_sparse_shows_the_same_as_dense_and_stays_sparse(strategy, kind):
    X = documents(30)
    options = {"random_state": 0}
    if strategy == "zipf":  # sparse columns are not standardised: undo it for dense
        options["zipf_alpha"] = 1.0
    _, calls = record(kind(X), 10, strategy, 3, **options)
    _, dense_calls = record(X, 10, strategy, 3, **options)
    for (view, k, _), (expected, dense_k, _) in zip(calls, dense_calls, strict=True):
        assert k == dense_k
        assert sparse.issparse(view) == (strategy != "projection")
        view = view.toarray() if sparse.issparse(view) else view
        if strategy == "zipf":
            spread = X.std(axis=0)
            expected = expected * np.where(spread == 0, 1, spread)
        assert np.allclose(view, expected)


def test_sparse_input_is_left_alone():
    X = sparse.csr_array(([3.0, 1.0, 0.0], [1, 0, 1], [0, 2, 3]), shape=(2, 2))
    parts = [X.data.copy(), X.indices.copy(), X.indptr.copy()]
    checked = check_features(X)
    assert np.array_equal(checked.toarray(), [[1, 3], [0, 0]])
    assert checked.nnz == 2
    for part, before in zip([X.data, X.indices, X.indptr], parts, strict=True):
        assert np.array_equal(part, before)


def test_dtypes():
    X, _ = blobs(40)
    for data, expected in [
        (X.astype(np.float32), np.float32),
        (X.astype(np.float16), np.float64),
        (X.astype(int), np.float64),
        (X > 0, np.float64),
        (X.astype(">f4"), np.float32),
        (sparse.csr_array(X.astype(np.float32)), np.float32),
        (sparse.csr_array(X.astype(int)), np.float64),
        (X.tolist(), np.float64),
        (X.astype(object), np.float64),
        (pd.DataFrame(X), np.float64),
        (pd.DataFrame(X.astype(np.float32)), np.float32),
        (pd.DataFrame(X.astype(int)).astype("Int32"), np.float64),
    ]:
        for strategy in ("rps", "projection", "zipf"):
            _, calls = record(data, 1, strategy, 2, random_state=0)
            assert calls[0][0].dtype == expected
    fortran = generate_partitions(np.asfortranarray(X), 3, random_state=0)
    assert same(fortran, generate_partitions(pd.DataFrame(X), 3, random_state=0))
    X.flags.writeable = False
    assert same(fortran, generate_partitions(X, 3, random_state=0))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[1.0, 2.0], [3.0, np.nan]], "X has NaN in row 1, column 1; fill in"),
        ([[1.0, -np.inf]], "X has -inf in row 0, column 1"),
        (sparse.csr_array([[0, 1.0], [0, np.nan]]), "X has NaN in row 1, column 1"),
        (sparse.csr_array([[0, 0.0], [np.inf, 0]]), "X has inf in row 1, column 0"),
        (pd.DataFrame({"a": [1, 2], "b": [1, None]}), "X has NaN in row 1, column 1"),
        (
            pd.DataFrame({"a": [1, 2], "b": pd.array([None, 1], dtype="Int64")}),
            "X has NaN in row 0, column 1",
        ),
        (np.arange(3.0), r"shape \(3,\) .* use X.reshape\(-1, 1\)"),
        (pd.Series([1.0, 2.0]), r"shape \(2,\)"),
        (np.zeros((2, 2, 2)), r"shape \(2, 2, 2\) but should be"),
        (5, r"shape \(\) but should be"),
        ([[1, 2], [3]], "X is not a table"),
        (np.zeros((0, 3)), r"X has 0 sample\(s\) \(shape=\(0, 3\)\)"),
        (np.zeros((3, 0)), r"X has 0 feature\(s\) \(shape=\(3, 0\)\)"),
        (sparse.csr_array((3, 0)), r"X has 0 feature\(s\)"),
        ([["a", "b"]], "entries of type <U1, but .*; encode"),
        (
            np.array([[1, "a"]], dtype=object),
            "X has 'a' in row 0, column 1, but .*; encode",
        ),
        (
            pd.DataFrame({"a": [1], "b": ["x"]}),
            "X has 'x' in row 0, column 1, but .*; encode",
        ),
        (
            pd.DataFrame({"t": pd.to_datetime(["2020-01-01"])}),
            "X has the column 't' of type datetime64",
        ),
        (np.array([[1j]]), "Complex data not supported"),
        (pd.DataFrame({"a": [1j]}), "Complex data not supported"),
        (sparse.csr_array(np.array([[1j]])), "Complex data not supported"),
    ],
)
def test_bad_features(X, message):
    with pytest.raises(ValueError, match=message) as caught:
        generate_partitions(X, 2)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_clusters": 8}, ValueError, "n_samples=5 should be >= n_clusters=8"),
        ({"n_clusters": 0}, ValueError, "n_clusters=0 should be >= 1"),
        ({"n_clusters": 2.5}, TypeError, "n_clusters=2.5 should be an integer"),
        ({"n_partitions": 0}, ValueError, "n_partitions=0 should be >= 1"),
        ({"k_range": (2, 9)}, ValueError, r"n_samples=5 should be >= k_range\[1\]=9"),
        ({"k_range": (3, 2)}, ValueError, r"k_range\[1\]=2 should be >= 3"),
        ({"k_range": 4}, ValueError, r"k_range=4 should be two integers \(low, high\)"),
        (
            {"strategy": "rp"},
            ValueError,
            "strategy='rp' is unknown; choose one of 'rps'",
        ),
        ({"metric": "l1"}, ValueError, "metric='l1' is unknown"),
        ({"backend": "gpu"}, ValueError, "backend='gpu' is unknown"),
        (
            {"backend": "cupy"},
            RuntimeError,
            "backend='cupy' cannot generate partitions",
        ),
        ({"max_iter": 0}, ValueError, "max_iter=0 should be >= 1"),
        ({"rows_per_cluster": 0}, ValueError, "rows_per_cluster=0 should be >= 1; or"),
        ({"n_jobs": 0}, ValueError, "n_jobs=0 should be >= 1, or -1"),
        ({"n_jobs": 1.5}, TypeError, "n_jobs=1.5 should be an integer"),
        ({"n_jobs": True}, TypeError, "n_jobs=True should be an integer"),
        ({"n_jobs": 10**30}, ValueError, "should be in -1024..1024"),
        ({"n_jobs": np.array([1, 2])}, TypeError, "should be an integer"),
        ({"n_features": 2}, ValueError, "n_features=2 is only for strategy='rfs'"),
        ({"zipf_alpha": 1}, ValueError, "zipf_alpha=1 is only for strategy='zipf'"),
        ({"strategy": "rfs", "n_features": 4}, ValueError, "should be in 1..3"),
        (
            {"strategy": "rfs", "n_features": 1.5},
            ValueError,
            "n_features=1.5 should be",
        ),
        ({"strategy": "projection", "n_components": 0}, ValueError, "n_components=0"),
        ({"strategy": "zipf", "zipf_alpha": -1}, ValueError, "zipf_alpha=-1 should be"),
        ({"strategy": "zipf", "zipf_weights": "x"}, ValueError, "zipf_weights='x'"),
        ({"sample_share": 0}, ValueError, r"sample_share=0 should be .* \(0, 1\]"),
        ({"random_state": -1}, ValueError, "random_state=-1"),
        ({"base": "kmean"}, TypeError, "base='kmean' should be 'kmeans', a"),
        ({"base": KMeans}, TypeError, r"base=KMeans is a class; pass an instance"),
        ({"base": lambda X, k, s: [0]}, ValueError, r"shape \(1,\) for 5 rows"),
        (
            {"base": lambda X, k, s: [-2] * 5},
            ValueError,
            "partition 0 has the label -2",
        ),
    ],
)
def test_bad_options(options, error, message):
    X = np.arange(15.0).reshape(5, 3)
    options = {"n_clusters": 2, "n_jobs": 1, **options}
    with pytest.raises(error, match=message) as caught:
        generate_partitions(X, options.pop("n_partitions", 2), **options)
    assert "\n" not in str(caught.value)


def test_more_clusters_than_codes():
    X = np.arange(70_000.0)[:, None]
    with pytest.raises(ValueError, match="should end at 65535 at most"):
        generate_partitions(X, 1, "restarts", 66_000)


def test_backends_run_on_the_cpu():
    X, _ = blobs(30)
    runs = [
        generate_partitions(X, 2, backend=name, random_state=0)
        for name in ("auto", "native", "numpy")
    ]
    assert same(runs[0], runs[1])
    assert same(runs[0], runs[2])


# Base clusterers


def test_scikit_learn_clusterers():
    X, truth = blobs(60)
    for base in (
        AgglomerativeClustering(linkage="average"),
        KMeans(init="random", n_init=3),
        GaussianMixture(covariance_type="diag"),
        make_pipeline(PCA(2), KMeans(n_init=2)),
    ):
        before = str(base.get_params())
        ens = generate_partitions(X, 3, "restarts", 3, base=base, random_state=0)
        again = generate_partitions(X, 3, "restarts", 3, base=base, random_state=0)
        assert same(ens, again)
        assert (ens.n_labels == 3).all()
        assert adjusted_rand_score(truth, ens.labels[:, 0]) > 0.9
        assert str(base.get_params()) == before


def test_noise_of_dbscan_is_missing():
    X, _ = blobs(60, d=2)
    X[:3] = [[500, 0], [0, 500], [-500, 0]]
    base = DBSCAN(eps=3, min_samples=3)
    with pytest.warns(UserWarning, match="3 of 60 objects have no label in any"):
        ens = generate_partitions(X, 2, "restarts", base=base, random_state=0)
    expected = base.fit_predict(X)
    assert np.array_equal(ens.labels[:, 0] == -1, expected == -1)
    assert adjusted_rand_score(expected, ens.labels[:, 0]) == 1


def test_a_clusterer_that_finds_the_number_itself():
    X, truth = blobs(60)
    base = AgglomerativeClustering(n_clusters=None, distance_threshold=50)
    ens = generate_partitions(X, 2, "rps", base=base, random_state=0)
    assert adjusted_rand_score(truth, ens.labels[:, 1]) == 1


def test_a_clusterer_without_fit_predict():
    class Halves(BaseEstimator):
        def fit(self, X):
            self.labels_ = np.where(X[:, 0] > 0, "right", "left")
            return self

    X = np.array([[-1.0], [2.0], [3.0]])
    ens = generate_partitions(X, 2, "restarts", base=Halves())
    assert ens.labels.tolist() == [[0, 0], [1, 1], [1, 1]]


def test_labels_of_a_callable_are_any_hashable():
    X = np.arange(4.0)[:, None]
    with pytest.warns(UserWarning, match="1 of 4 objects have no label .* noise"):
        ens = generate_partitions(X, 1, base=lambda X, k, s: ["b", None, "a", "b"])
    assert ens.labels[:, 0].tolist() == [1, -1, 0, 1]


def test_many_labels_widen_the_codes():
    X = np.arange(700.0)[:, None]
    ens = generate_partitions(
        X, 3, "rps", k_range=(250, 600), base=lambda X, k, s: np.arange(700) % k
    )
    assert ens.codes.dtype == np.uint16
    assert ens.n_labels.max() > 255


def test_errors_of_the_base_come_through():
    def broken(X, n_clusters, seed):
        raise RuntimeError("no luck")

    for n_jobs in (1, 2):
        with pytest.raises(RuntimeError, match="no luck"):
            generate_partitions(np.ones((3, 1)), 4, base=broken, n_jobs=n_jobs)


# Incomplete partitions (IBP)


def test_strategy_one_removes_rows_before_clustering():
    X, _ = blobs(200)
    ens, calls = record(X, 30, n_clusters=3, sample_share=0.3, random_state=0)
    assert (ens.n_missing == 140).all()
    assert len({k for _, k, _ in calls}) > 5  # still "rps"


def test_strategy_two_removes_labels_after_clustering():
    X, _ = blobs(200)
    ens = generate_partitions(X, 30, n_clusters=3, random_state=0)
    lossy = drop_labels(ens, 0.7, random_state=1)
    assert (lossy.n_missing == 140).all()
    assert same(lossy, drop_labels(ens, 0.7, random_state=1))
    assert not same(lossy, drop_labels(ens, 0.7, random_state=2))
    missing = lossy.labels == -1
    assert not np.array_equal(missing[:, 0], missing[:, 1])
    for old, new in zip(ens.labels.T, lossy.labels.T, strict=True):
        kept = new >= 0
        assert adjusted_rand_score(old[kept], new[kept]) == 1
    assert same(drop_labels(ens, 0.0), ens)


@given(
    st.integers(1, 6), st.integers(1, 30), st.floats(0, 0.999), st.integers(0, 10**6)
)
@settings(max_examples=60, deadline=None)
def test_no_object_loses_its_last_label(r, n, share, seed):
    labels = np.random.default_rng(seed).integers(-1, 3, size=(n, r))
    ens = Ensemble(labels, weights=np.arange(1, r + 1))
    lossy = drop_labels(ens, share, random_state=seed)
    had, has = ens.labels >= 0, lossy.labels >= 0
    assert np.array_equal(had.any(axis=1), has.any(axis=1))
    assert not (has & ~had).any()
    assert (
        has.sum(axis=0) >= had.sum(axis=0) - np.round(share * had.sum(axis=0))
    ).all()
    assert np.allclose(lossy.weights, ens.weights)
    for i in range(r):
        named = np.append(lossy.categories[i], -1)[lossy.labels[:, i]]
        assert np.array_equal(named[has[:, i]], labels[has[:, i], i])
        assert set(named[has[:, i]]) == set(lossy.categories[i])


@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame])
def test_drop_labels_takes_what_an_ensemble_takes(make):
    labels = make([["a", "x"], ["a", "y"], ["b", "y"], ["b", None]])
    lossy = drop_labels(labels, 0.5, random_state=0)
    assert same(lossy, drop_labels(Ensemble(labels), 0.5, random_state=0))
    with pytest.raises(TypeError, match="labels is a plain list"):
        drop_labels([[0, 1], [1, 1]], 0.5)


def test_drop_labels_share_is_checked():
    with pytest.raises(ValueError, match=r"share=1 should be a number in \[0, 1\)"):
        drop_labels(Ensemble.from_partitions([[0, 1]]), 1)


def test_objects_that_no_partition_saw_are_reported():
    X, _ = blobs(100)
    with pytest.warns(UserWarning, match=r"\d+ of 100 objects have no label in any"):
        generate_partitions(X, 2, "rows", 3, sample_share=0.2, random_state=0)


# Checkpoints


@pytest.mark.parametrize("random_state", [7, None])
def test_interrupted_and_resumed(tmp_path, random_state):
    X, _ = blobs(50)
    options = {
        "n_clusters": 3,
        "checkpoint": tmp_path / "run",
        "random_state": random_state,
    }
    with pytest.raises(KeyboardInterrupt):
        generate_partitions(X, 8, base=Recorder(stop_after=3), n_jobs=1, **options)
    second = Recorder(stop_after=2)
    with pytest.raises(KeyboardInterrupt):
        generate_partitions(X, 8, base=second, n_jobs=1, **options)
    third = Recorder()
    resumed = generate_partitions(X, 8, base=third, n_jobs=2, **options)
    assert len(third.calls) == 3
    last = Recorder()
    assert same(resumed, generate_partitions(X, 8, base=last, **options))
    assert not last.calls
    more = generate_partitions(X, 10, base=last, **options)
    assert len(last.calls) == 2
    assert np.array_equal(more.codes[:8], resumed.codes)
    fewer = generate_partitions(X, 5, base=last, **options)
    assert np.array_equal(fewer.codes, resumed.codes[:5])
    if random_state is not None:
        whole = generate_partitions(X, 8, n_clusters=3, base=Recorder(), random_state=7)
        assert same(whole, resumed)


def test_interrupted_among_threads(tmp_path):
    X, _ = blobs(50)
    options = {
        "n_clusters": 3,
        "n_jobs": 2,
        "checkpoint": tmp_path / "run",
        "random_state": 1,
    }
    with pytest.raises(KeyboardInterrupt):
        generate_partitions(X, 12, base=Recorder(stop_after=5), **options)
    resumed = generate_partitions(X, 12, base=Recorder(), **options)
    whole = generate_partitions(X, 12, n_clusters=3, base=Recorder(), random_state=1)
    assert same(resumed, whole)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_checkpoint_keeps_missing_and_wide_labels(tmp_path, form):
    X = np.arange(1.0, 601.0)[:, None]

    def base(X, n_clusters, seed):
        return np.arange(X.shape[0]) % n_clusters

    for run, k in enumerate([(1, 1), (254, 254), (255, 255), (256, 256)]):
        options = {"k_range": k, "sample_share": 0.9, "base": base, "random_state": 0}
        plain = generate_partitions(form(X), 6, **options)
        for _ in range(2):
            kept = generate_partitions(
                form(X), 6, checkpoint=tmp_path / f"{run}", **options
            )
            assert same(plain, kept)
            assert kept.codes.dtype == plain.codes.dtype


@pytest.mark.parametrize(
    "seed",
    [
        np.random.SeedSequence(),
        np.random.SeedSequence(np.int64(5)),
        np.random.SeedSequence(np.array([1, 2**63, 3], dtype=np.uint64)),
        np.random.SeedSequence([2**63, 1], spawn_key=np.array([4, 0]), pool_size=8),
        np.random.SeedSequence((1, 2, np.uint8(3)), spawn_key=(7,)),
        np.random.SeedSequence(range(3)).spawn(2)[1].spawn(1)[0],
    ],
)
def test_seeds_as_plain_numbers(seed, tmp_path):
    plain = plain_seed(seed)
    again = seed_from_plain(json.loads(json.dumps(plain)))
    assert plain_seed(again) == plain
    for one, other in ((seed, again), (seed.spawn(1)[0], again.spawn(1)[0])):
        assert one.generate_state(4).tolist() == other.generate_state(4).tolist()
    X, _ = blobs(30)
    whole = generate_partitions(X, 2, random_state=seed)
    for random_state in (seed, seed, None):
        options = {"random_state": random_state, "checkpoint": tmp_path / "run"}
        assert same(whole, generate_partitions(X, 2, **options))
    with pytest.raises(ValueError, match="random_state differs"):
        generate_partitions(X, 2, random_state=1, checkpoint=tmp_path / "run")


def test_checkpoint_of_another_call(tmp_path):
    X, _ = blobs(30)
    path = tmp_path / "run"
    generate_partitions(X, 2, n_clusters=3, random_state=0, checkpoint=path)
    other = X.copy()
    other[3, 3] += 1e-9
    for features, options, what in [
        (X, {"n_clusters": 4}, r"k_range was \[3, 6\], is \[4, 8\]"),
        (X, {"max_iter": 11}, "max_iter was 10, is 11"),
        (X, {"rows_per_cluster": None}, "rows_per_cluster was 64, is None"),
        (X, {"metric": "cosine"}, "metric was 'euclidean', is 'cosine'"),
        (X, {"strategy": "restarts"}, "strategy was 'rps', is 'restarts'"),
        (X, {"random_state": 1}, "random_state differs"),
        (X, {"base": KMeans()}, "base was 'kmeans'"),
        (X, {"sample_share": 0.5}, "n_sampled was None, is 15"),
        (X[:20], {"k_range": (3, 6)}, "shape of X was"),
        (X.astype(np.float32), {}, "type of X was 'float64', is 'float32'"),
        (other, {}, "hash of X was"),
        (sparse.csr_array(X), {}, "hash of X was"),
    ]:
        call = {"n_clusters": 3, "random_state": 0, **options}
        with pytest.raises(ValueError, match=what) as caught:
            generate_partitions(features, 2, checkpoint=path, **call)
        assert "belongs to another call" in str(caught.value)
        assert "\n" not in str(caught.value)


def test_checkpoint_knows_the_parameters_of_a_clusterer(tmp_path):
    X, _ = blobs(30)
    options = {"n_clusters": 3, "random_state": 0, "checkpoint": tmp_path / "run"}
    generate_partitions(X, 2, base=AgglomerativeClustering(), **options)
    generate_partitions(X, 2, base=AgglomerativeClustering(), **options)
    with pytest.raises(ValueError, match="linkage='single'"):
        generate_partitions(
            X, 2, base=AgglomerativeClustering(linkage="single"), **options
        )


def twice(X):
    return 2 * X


def thrice(X):
    return 3 * X


def test_checkpoint_knows_a_clusterer_from_another_process(tmp_path):
    X, _ = blobs(30)
    options = {"k_range": (3, 3), "random_state": 0, "checkpoint": tmp_path / "run"}

    def run(function, start):
        steps = FunctionTransformer(function), KMeans(3, init=start, n_init=1)
        steps[1].set_params(random_state=np.random.RandomState(0))
        return generate_partitions(X, 2, base=make_pipeline(*steps), **options)

    first = run(twice, np.zeros((3, 6)))
    # a new process would find its functions and generators at other addresses
    assert " at 0x" not in (tmp_path / "run" / "call.json").read_text().lower()
    assert same(first, run(twice, np.zeros((3, 6))))
    with pytest.raises(ValueError, match="belongs to another call"):
        run(thrice, np.zeros((3, 6)))
    start = np.zeros((3, 6))
    start[1, 1] = 1e-12
    with pytest.raises(ValueError, match="belongs to another call"):
        run(twice, start)


def test_damaged_checkpoint(tmp_path):
    X, _ = blobs(30)

    def run(path):
        return generate_partitions(X, 3, n_clusters=3, random_state=0, checkpoint=path)

    good = run(tmp_path / "run")
    file = tmp_path / "run" / "000001.npy"
    whole = file.read_bytes()
    for damage in (whole[:-5], b"", b"nonsense", whole[:-1] + b"\xee"):
        file.write_bytes(damage)
        with pytest.raises(ValueError, match=r"000001.npy' is damaged .* delete this"):
            run(tmp_path / "run")
    np.save(file, np.zeros(7, dtype=np.uint8))
    with pytest.raises(ValueError, match="it is not what was written there"):
        run(tmp_path / "run")
    file.unlink()
    (tmp_path / "run" / ".000001.npy.half").write_bytes(whole[:9])  # a killed write
    assert same(run(tmp_path / "run"), good)
    call = tmp_path / "run" / "call.json"
    stored = json.loads(call.read_text())
    for text in (
        "{",
        "[]",
        "{}",
        json.dumps({**stored, "format": "another"}),
        json.dumps({**stored, "version": "x"}),
        json.dumps({**stored, "seed": {"entropy": "x"}}),
    ):
        call.write_text(text)
        with pytest.raises(ValueError, match=r"is damaged \(call.json: .*delete the"):
            run(tmp_path / "run")


@pytest.mark.parametrize("version", [1, VERSION + 1])
def test_checkpoint_of_another_release(tmp_path, version):
    """Half of its partitions would be made one way, and half the other."""
    X, _ = blobs(30)
    path = tmp_path / "run"
    options = {"n_clusters": 3, "random_state": 0, "checkpoint": path}
    whole = generate_partitions(X, 3, **options)
    call = path / "call.json"
    stored = json.loads(call.read_text())
    call.write_text(json.dumps({**stored, "version": version}))
    (path / "000002.npy").unlink()
    what = f"of version {version} and this release makes version {VERSION}, .*choose"
    with pytest.raises(ValueError, match=what) as caught:
        generate_partitions(X, 3, **options)
    assert "\n" not in str(caught.value)
    assert not (path / "000002.npy").exists()
    call.write_text(json.dumps(stored))
    assert same(generate_partitions(X, 3, **options), whole)


def test_partitions_are_those_of_their_version():
    """Other digits here: raise VERSION of generate/store.py with them.

    Checkpoints of the release before are refused then, not gone on with.
    """
    X = np.random.default_rng(0).integers(64, size=(400, 6)) / 64  # sums are exact
    X[::3] += 1
    calls = [
        {},
        {"strategy": "rows", "complete": True},
        {"strategy": "rfs", "k_range": (3, 9)},
    ]
    made = [
        generate_partitions(X, 11, n_clusters=3, random_state=0, **call)
        for call in calls
    ]
    found = hashlib.sha256(b"".join(ens.codes.tobytes() for ens in made)).hexdigest()
    assert (VERSION, found[:16]) == (3, "1dd9cfbd2b734669")


def test_checkpoint_path_is_taken(tmp_path):
    X, _ = blobs(30)
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(ValueError, match="is a file; choose a folder"):
        generate_partitions(X, 2, checkpoint=file)
    with pytest.raises(ValueError, match="holds other files; choose another folder"):
        generate_partitions(X, 2, checkpoint=tmp_path)
    assert file.read_text() == "mine"
    with pytest.raises(OSError, match="choose a path in a folder that exists"):
        generate_partitions(X, 2, checkpoint=tmp_path / "no" / "such")


# Progress


def test_progress_counts_partitions(capsys, tmp_path, told_at_once):
    X, _ = blobs(30)
    for _ in range(2):  # fresh, then from the checkpoint
        generate_partitions(
            X, 4, random_state=0, n_jobs=2, progress=True, checkpoint=tmp_path / "run"
        )
        assert "4/4" in capsys.readouterr().err
    generate_partitions(X, 4)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("damage", ["zeros", "swap", "copy", "digest"])
def test_partitions_that_were_changed_or_mistaken(tmp_path, damage):
    X, _ = blobs(30)
    path = tmp_path / "run"
    options = {"n_clusters": 3, "random_state": 0, "checkpoint": path}
    generate_partitions(X, 3, **options)
    first, second = path / "000001.npy", path / "000002.npy"
    content = first.read_bytes()
    if damage == "zeros":
        first.write_bytes(content[:-32] + bytes(16) + content[-16:])
    elif damage == "digest":
        first.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    else:
        first.write_bytes(second.read_bytes())
        if damage == "swap":
            second.write_bytes(content)
    with pytest.raises(ValueError, match=r"000001.npy' is damaged .*not what was wri"):
        generate_partitions(X, 3, **options)


def test_two_calls_that_begin_at_once_share_a_seed(tmp_path):
    X, _ = blobs(30)
    for k in range(4):
        both = threading.Barrier(2)

        def run(folder, both=both):
            both.wait()
            return generate_partitions(X, 3, n_clusters=3, checkpoint=folder)

        with ThreadPoolExecutor(2) as pool:
            a, b = pool.map(run, [tmp_path / str(k)] * 2)
        assert same(a, b)
