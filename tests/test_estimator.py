"""The estimator, by scikit-learn's own rules and in its company."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.cluster import AgglomerativeClustering
from sklearn.datasets import load_iris, make_blobs
from sklearn.model_selection import GridSearchCV, ParameterGrid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import gpu_consensus as gpc

pytestmark = pytest.mark.every_backend


@pytest.mark.filterwarnings("ignore:n_clusters=1 puts all")
@parametrize_with_checks([gpc.ConsensusClustering(n_clusters=3, n_partitions=8)])
def test_sklearn_compatible(estimator, check):
    check(estimator)


def test_defaults():
    X, _ = make_blobs(60, random_state=0)
    model = gpc.ConsensusClustering(random_state=0).fit(X)
    assert len(np.unique(model.labels_)) == 8
    assert model.ensemble_.n_partitions == 100
    assert model.n_iter_ == model.consensus_.n_iter


def test_it_is_generation_followed_by_consensus():
    X, _ = load_iris(return_X_y=True)
    model = gpc.ConsensusClustering(3, n_partitions=20, random_state=5).fit(X)
    seeds = np.random.SeedSequence(5).spawn(2)
    ens = gpc.generate_partitions(X, 20, n_clusters=3, random_state=seeds[0])
    result = gpc.auto(ens, 3, random_state=seeds[1])
    assert np.array_equal(model.labels_, result.labels)
    assert np.array_equal(model.ensemble_.codes, ens.codes)


def test_options_reach_both_stages():
    X, _ = load_iris(return_X_y=True)
    model = gpc.ConsensusClustering(
        3,
        "kcc",
        n_partitions=15,
        strategy="rfs",
        generate_options={"n_features": 3},
        method_options={"utility": "nc", "n_init": 2, "init": "random"},
        random_state=0,
    ).fit(X)
    assert model.consensus_.method == "kcc:nc"
    other = gpc.ConsensusClustering(
        3,
        n_partitions=6,
        base=AgglomerativeClustering(),
        k_range=(3, 9),
        random_state=0,
    ).fit(X)
    assert other.ensemble_.n_labels.max() <= 9


@pytest.mark.parametrize("method", gpc.METHODS)
def test_every_method_gives_the_clusters_asked_for_or_finds_them(method):
    X, _ = load_iris(return_X_y=True)
    model = gpc.ConsensusClustering(
        3, method, n_partitions=8, k_range=(4, 9), random_state=0
    ).fit(X)
    assert model.consensus_.method.split(":")[0] == method
    if method in ("best", "fusion_transfer", "least_squares"):
        found = gpc.METHODS[method](model.ensemble_)
        assert np.array_equal(model.labels_, found.labels)
    else:
        assert model.consensus_.n_clusters == 3


def test_the_number_of_clusters_is_no_option_of_the_method():
    X, _ = load_iris(return_X_y=True)
    model = gpc.ConsensusClustering(3, method_options={"n_clusters": 4})
    with pytest.raises(TypeError, match="n_clusters=4; give it as n_clusters of the"):
        model.fit(X)


def test_pipeline_clone_set_params_and_pandas():
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = gpc.ConsensusClustering(3, n_partitions=10, random_state=0)
    pipe = make_pipeline(StandardScaler().set_output(transform="pandas"), model)
    labels = pipe.fit_predict(X)
    assert gpc.metrics.adjusted_rand(y, labels) > 0.5
    assert pipe[-1].feature_names_in_.tolist() == X.columns.tolist()
    assert pipe[-1].n_features_in_ == 4
    copy = clone(pipe).set_params(consensusclustering__n_clusters=2)
    assert len(np.unique(copy.fit_predict(X))) == 2
    for parameters in ParameterGrid(
        {"strategy": ["rps", "rows"], "n_clusters": [2, 4]}
    ):
        fitted = clone(model).set_params(**parameters).fit(X)
        assert len(np.unique(fitted.labels_)) == parameters["n_clusters"]


def test_grid_search_with_a_score_of_the_labels():
    X, y = load_iris(return_X_y=True)
    every = np.arange(150)
    search = GridSearchCV(
        gpc.ConsensusClustering(3, n_partitions=8, random_state=0),
        {"strategy": ["rps", "restarts"], "n_clusters": [2, 3]},
        scoring=lambda model, X, y: gpc.metrics.adjusted_rand(y, model.labels_),
        cv=[(every, every)],
    ).fit(X, y)
    assert search.best_params_["n_clusters"] == 3
    assert search.best_score_ > 0.6


def test_sparse_text_is_clustered_by_angle():
    from scipy.sparse import random as sparse_random

    X = sparse_random(80, 500, density=0.05, format="csr", random_state=0)
    model = gpc.ConsensusClustering(4, n_partitions=6, metric="cosine", random_state=0)
    assert len(np.unique(model.fit_predict(X))) == 4


def test_same_seed_same_labels_for_any_n_jobs():
    X, _ = make_blobs(200, centers=5, random_state=1)
    first, second = (
        gpc.ConsensusClustering(5, n_partitions=10, n_jobs=j, random_state=3).fit(X)
        for j in (1, 2)
    )
    assert np.array_equal(first.labels_, second.labels_)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_clusters": 0}, "n_clusters=0 should be >= 1"),
        ({"n_clusters": 31}, "n_samples=30 should be >= n_clusters=31"),
        ({"method": "kc"}, "method='kc' is unknown; choose one of 'kcc'"),
        ({"strategy": "rpss"}, "strategy='rpss' is unknown; choose one of 'rps'"),
        ({"backend": "gpu"}, "backend='gpu' is unknown"),
        ({"n_partitions": 0}, "n_partitions=0 should be >= 1"),
        (
            {"method": "kcc", "method_options": {"utility": "zz"}},
            "utility='zz' is unknown",
        ),
    ],
)
def test_bad_parameters_are_found_at_fit(change, message):
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 2)))
    model = gpc.ConsensusClustering(**({"n_clusters": 3} | change))
    with pytest.raises(ValueError, match=message):
        model.fit(X)


@pytest.mark.parametrize("method", ["kcc", "ipc", "best", "em", "lambda_consensus"])
def test_a_misspelt_option_of_the_method_does_not_wait_for_the_partitions(method):
    def base(X, n_clusters, seed):
        raise AssertionError("partitions were made")

    options = {"n_inite": 3, "random_state": 0}
    options |= {"clusterer": base} if method == "lambda_consensus" else {}
    model = gpc.ConsensusClustering(3, method, base=base, method_options=options)
    with pytest.raises(TypeError, match="n_inite"):
        model.fit(np.random.default_rng(0).normal(size=(30, 2)))


def test_data_with_gaps_or_infinities_is_refused():
    X = np.ones((30, 2))
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        gpc.ConsensusClustering(3).fit(X)


def test_lambda_consensus_is_a_method_of_the_estimator():
    X, y = load_iris(return_X_y=True)
    model = gpc.ConsensusClustering(
        3, "lambda_consensus", 12, method_options={"n_rounds": 2}, random_state=0
    ).fit(X)
    direct = gpc.lambda_consensus(X, 3, n_rounds=2, n_clusterers=12, random_state=0)
    assert np.array_equal(model.labels_, direct.labels)
    assert model.ensemble_.n_partitions == 12
    assert gpc.metrics.adjusted_rand(y, model.labels_) > 0.6
    with pytest.raises(ValueError, match=r"generate_options=.* is of no use"):
        gpc.ConsensusClustering(
            3, "lambda_consensus", generate_options={"max_iter": 3}
        ).fit(X)
