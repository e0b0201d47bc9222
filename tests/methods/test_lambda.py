"""Lambda-consensus: updates as the paper writes them, sites, rounds, errors."""

import math
import tracemalloc

import numpy as np
import oracles
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import coassociation
from random_ensembles import noisy

import gpu_consensus as gpc
from bench.lambda_table import lambda_table
from bench.suite import Context
from gpu_consensus.backends import choose_backend
from gpu_consensus.feedback import views
from gpu_consensus.feedback.agreement import agreement, mean_pairwise
from gpu_consensus.feedback.distances import rms_distance
from gpu_consensus.feedback.sites import LocalSite
from gpu_consensus.methods.lambda_consensus import CONSENSUS
from gpu_consensus.methods.lambda_past import same_partition

pytestmark = pytest.mark.every_backend

UPDATES = [
    {"update": "full"},
    {"update": "truncated"},
    {"update": "distances"},
    {"update": "similarities"},
    {"update": "similarities", "clusterer": "prc", "method": "prc"},
    {"update": "full", "feedback": "all"},
    {"update": "similarities", "feedback": "all"},
]


def blobs(seed=0, n=45, d=5, k=3, spread=1.0):
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.arange(n) % k)
    centres = 4 * rng.normal(size=(k, d))
    return centres[truth] + spread * rng.normal(size=(n, d)), truth


class Recorder:
    """A clusterer that notes the points it is given."""

    def __init__(self):
        self.seen = []

    def __call__(self, X, n_clusters, seed):
        self.seen.append(np.array(X))
        return np.arange(len(X)) % n_clusters


class Script:
    """A site that says what it was told to, and notes what it hears."""

    def __init__(self, rounds):
        self.rounds = [np.asarray(labels) for labels in rounds]
        self.heard = []

    def cluster(self, feedback):
        self.heard.append(feedback)
        return self.rounds[min(len(self.heard), len(self.rounds)) - 1]


def rms(X):
    squares = [
        sum((a - b) ** 2 for a, b in zip(X[l], X[m], strict=True))
        for l in range(len(X))
        for m in range(l)
    ]
    return math.sqrt(sum(squares) / len(squares))


def unit_rows(labels):
    """One-hot rows, zeros for -1, a block for every partition."""
    labels = np.asarray(labels).reshape(len(labels), -1)
    rows = []
    for row in labels:
        code = []
        for i, label in enumerate(row):
            block = [0.0] * len(set(labels[:, i]) - {-1})
            if label >= 0:
                block[label] = 1.0
            code += block
        rows.append(code)
    return np.array(rows)


FEEDBACK = [np.array(f) for f in ([0, 0, 1, 1, 2], [0, 1, 1, 1, 0], [1, 0, 0, -1, 1])]
EVERYTHING = np.array([[0, 1], [0, 0], [1, -1], [1, 1], [-1, 0]])
POINTS = np.array([[0.0, 1.0], [2.0, 0.5], [3.0, 3.0], [-1.0, 4.0], [0.5, 0.5]])


@pytest.mark.parametrize("scale", ["rms", None])
@pytest.mark.parametrize("lam", [0.0, 0.7, 1.0])
def test_full_and_truncated_updates_are_the_formulas(lam, scale):
    z = z_0 = POINTS / rms(POINTS) if scale else POINTS
    recorders = {update: Recorder() for update in ("full", "truncated")}
    for update, recorder in recorders.items():
        site = LocalSite(POINTS, 2, lam, update, clusterer=recorder, scale=scale)
        for feedback in [None, *FEEDBACK]:
            site.cluster(feedback)
    for seen in (recorder.seen[0] for recorder in recorders.values()):
        assert np.allclose(seen, z_0)
    for t, pi in enumerate(FEEDBACK):
        z = np.hstack([lam * z, (1 - lam) * unit_rows(pi)])
        assert np.allclose(recorders["full"].seen[t + 1], z)
        kept = lam ** (t + 1)
        expected = np.hstack([kept * z_0, (1 - kept) * unit_rows(pi)])
        assert np.allclose(recorders["truncated"].seen[t + 1], expected)
        if t == 0:
            assert np.allclose(z, expected)


def test_feedback_of_everything_weighs_as_much_as_that_of_one():
    recorder = Recorder()
    site = LocalSite(POINTS, 2, 0.6, clusterer=recorder, scale=None)
    site.cluster(None)
    site.cluster(EVERYTHING)
    expected = np.hstack([0.6 * POINTS, 0.4 * unit_rows(EVERYTHING) / math.sqrt(2)])
    assert np.allclose(recorder.seen[1], expected)
    same = np.column_stack([FEEDBACK[0]] * 7)
    one, many = (
        LocalSite(POINTS, 2, 0.6, clusterer=Recorder(), scale=None) for _ in range(2)
    )
    one.cluster(FEEDBACK[0])
    many.cluster(same)
    assert np.allclose(one.points() @ one.points().T, many.points() @ many.points().T)


@pytest.mark.parametrize("feedbacks", [FEEDBACK, [EVERYTHING, EVERYTHING]])
def test_distances_update_is_torgerson_of_the_formula(feedbacks):
    n, lam, recorder = len(POINTS), 0.7, Recorder()
    site = LocalSite(POINTS, 2, lam, "distances", clusterer=recorder, scale=None)
    site.cluster(None)
    D = np.array([[math.dist(a, b) for b in POINTS] for a in POINTS])
    centre = np.eye(n) - 1 / n
    for t, feedback in enumerate(feedbacks):
        site.cluster(feedback)
        labels = feedback.reshape(n, -1)
        same = coassociation(labels, np.ones(labels.shape[1]))
        np.fill_diagonal(same, 1.0)
        D = lam * D + (1 - lam) * (1 - same)
        values, vectors = np.linalg.eigh(-centre @ D**2 @ centre / 2)
        inner = vectors @ np.diag(np.maximum(values, 0)) @ vectors.T
        seen = recorder.seen[t + 1]
        assert np.allclose(seen @ seen.T, inner, atol=1e-9)


@pytest.mark.parametrize("feedbacks", [FEEDBACK, [EVERYTHING, EVERYTHING]])
@pytest.mark.parametrize("similarity", ["gaussian", "linear", "mine"])
def test_similarities_update_is_the_formula(similarity, feedbacks):
    n, lam = len(POINTS), 0.7
    D = np.array([[math.dist(a, b) for b in POINTS] for a in POINTS])
    if similarity == "gaussian":
        k = int(math.log(n) + 1)
        sigma = np.mean([sorted(row)[k] for row in D])  # the nearest is itself
        S = np.exp(-(D**2) / (2 * sigma**2))
    else:
        S = POINTS @ POINTS.T if similarity == "linear" else 1 / (1 + D)
    given = (lambda X: 1 / (1 + D)) if similarity == "mine" else similarity
    site = LocalSite(POINTS, 2, lam, "similarities", similarity=given, scale=None)
    site.cluster(None)
    assert np.allclose(site.similarities(), S)
    for feedback in feedbacks:
        site.cluster(feedback)
        labels = feedback.reshape(n, -1)
        same = coassociation(labels, np.ones(labels.shape[1]))
        np.fill_diagonal(same, 1.0)
        S = lam * S + (1 - lam) * same
        assert np.allclose(site.similarities(), S)


@pytest.mark.parametrize("unit", [1e200, 1e-200])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_unit_of_the_data_does_not_matter(unit, sparse):
    """Squares of such numbers are infinite, or nothing."""
    X = np.random.default_rng(0).normal(size=(12, 4)).round(2)
    table = scipy.sparse.csr_array(X * unit) if sparse else X * unit
    apart = np.linalg.norm(X[:, None] - X, axis=2)[np.triu_indices(12, 1)]
    expected = unit * math.sqrt((apart**2).mean())
    assert rms_distance(table) == pytest.approx(expected, rel=1e-12)
    points = LocalSite(table, 2, random_state=0).points()
    plain = LocalSite(X, 2, random_state=0).points()
    assert np.allclose(points.toarray() if sparse else points, plain)


def test_equal_rows_have_a_gaussian_similarity():
    site = LocalSite(np.array([[0.0], [0.0], [0.0], [1.0]]), 2, 0.9, "similarities")
    assert site.similarities()[0, 2] == 1.0
    same = LocalSite(np.zeros((4, 2)), 2, 0.9, "similarities")
    assert np.array_equal(same.similarities(), np.ones((4, 4)))


@pytest.mark.parametrize("feedback", ["consensus", "all"])
def test_rounds_feed_back_what_the_method_found(feedback):
    labels = [noisy(seed, n=30, r=4)[0] for seed in range(3)]
    sites = [Script([part[:, i] for part in labels]) for i in range(4)]
    options = {"utility": "nh", "n_init": 3}
    result = gpc.lambda_consensus(
        sites,
        3,
        n_rounds=2,
        feedback=feedback,
        method_options=options,
        stop_on_repeat=False,
        random_state=5,
    )
    details = result.details
    for t, part in enumerate(labels):
        ens = gpc.Ensemble(part)
        objective, value = oracles.kcc_objective_and_value(
            ens.labels, details["labels"][t], ens.weights, "nh"
        )
        assert result.history[t] == pytest.approx(objective)
        assert details["values"][t] == pytest.approx(value)
        for i in range(4):
            r_n = gpc.metrics.adjusted_rand(part[:, i], details["labels"][t])
            assert details["agreement"][t, i] == pytest.approx(r_n)
        heard = [site.heard[t] for site in sites]
        if t == 0:
            assert heard == [None] * 4
            continue
        told = details["labels"][t - 1]
        told = told if feedback == "consensus" else gpc.Ensemble(labels[t - 1]).labels
        assert all(np.array_equal(message, told) for message in heard)
    assert np.array_equal(result.labels, details["labels"][-1])
    assert result.objective == result.history[-1]
    assert result.n_iter == 3
    assert details["n_rounds"] == 2
    assert np.array_equal(details["ensemble"].labels, gpc.Ensemble(labels[2]).labels)
    assert "ensembles" not in details
    assert result.method == "lambda_consensus:kcc:nh"
    assert np.array_equal(result.predict(labels[2]), result.labels)


def test_it_stops_when_the_consensus_repeats_under_other_names():
    a, b = [0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1]
    renamed = [1 - label for label in b]
    sites = [Script([a, b, renamed, a]) for _ in range(3)]
    result = gpc.lambda_consensus(sites, 2, random_state=0)
    assert result.n_iter == len(sites[0].heard) == 3
    assert result.converged
    assert result.details["repeated"] is True
    assert oracles.canonical(result.labels) == b
    assert result.details["agreement"].tolist() == [[1.0] * 3] * 3
    assert result.details["pairwise"].tolist() == [1.0] * 3
    sites = [Script([a, b, renamed, a]) for _ in range(3)]
    short = gpc.lambda_consensus(sites, 2, n_rounds=1, random_state=0)
    assert not short.converged
    assert short.n_iter == 2
    sites = [Script([a, b, renamed, a]) for _ in range(3)]
    whole = gpc.lambda_consensus(sites, 2, n_rounds=3, stop_on_repeat=False)
    assert not whole.converged
    assert whole.n_iter == 4


@pytest.mark.parametrize("options", UPDATES)
def test_same_answer_for_any_number_of_workers(options):
    X, _ = blobs(1, spread=2.5)
    runs = [
        gpc.lambda_consensus(
            X,
            3,
            n_rounds=2,
            n_clusterers=6,
            stop_on_repeat=False,
            keep_ensembles=True,
            n_jobs=n_jobs,
            random_state=3,
            **options,
        )
        for n_jobs in (1, 2, 5)
    ]
    for run in runs[1:]:
        assert np.array_equal(run.labels, runs[0].labels)
        assert np.array_equal(run.history, runs[0].history)
        for here, there in zip(
            run.details["ensembles"], runs[0].details["ensembles"], strict=True
        ):
            assert np.array_equal(here.labels, there.labels)


@pytest.mark.parametrize("options", UPDATES)
def test_separate_clusters_are_found_by_every_update(options):
    X, truth = blobs(2, spread=0.3)
    result = gpc.lambda_consensus(X, 3, n_clusterers=8, random_state=0, **options)
    assert gpc.metrics.adjusted_rand(truth, result.labels) == 1.0
    assert result.converged
    assert result.details["agreement"].shape == (result.n_iter, 8)


def test_more_clusterers_begin_with_the_same_ones():
    X, _ = blobs(3, spread=3.0)
    few, many = (
        gpc.lambda_consensus(X, 3, n_rounds=0, n_clusterers=r, random_state=1)
        for r in (4, 7)
    )
    labels = many.details["ensemble"].labels
    assert np.array_equal(labels[:, :4], few.details["ensemble"].labels)
    assert not few.converged
    assert few.n_iter == 1


def test_sites_of_different_widths_and_kinds():
    import pandas
    from scipy.sparse import csr_array

    X, truth = blobs(4, n=60, d=9, spread=0.5)
    gaps = truth.copy()
    gaps[::7] = -1
    silent = Script([gaps])
    frame = pandas.DataFrame(X[:, 2:4], columns=["cluster", "b"])
    views = [X[:, :2], frame, csr_array(X[:, 4:]), X.astype(np.float32), silent]
    result = gpc.lambda_consensus(views, 3, random_state=0)
    assert gpc.metrics.adjusted_rand(truth, result.labels) == 1.0
    ens = result.details["ensemble"]
    assert ens.n_partitions == 5
    assert ens.n_missing.tolist() == [0, 0, 0, 0, len(gaps[::7])]
    assert result.details["agreement"].shape == (result.n_iter, 5)
    assert silent.heard[0] is None


def test_objects_that_no_site_labels():
    a = [0, 0, 0, 1, 1, -1]
    b = [0, 0, 1, 1, 1, -1]
    with pytest.raises(ValueError, match="1 objects have no label"):
        gpc.lambda_consensus([Script([a]), Script([b])], 2)
    X = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    for feedback in ("consensus", "all"):
        site = LocalSite(X[:, [0, 0]], 2, random_state=0)
        result = gpc.lambda_consensus(
            [Script([a]), Script([b])],
            2,
            method_options={"on_unlabelled": "keep"},
            feedback=feedback,
            random_state=0,
        )
        assert result.labels[-1] == -1
        message = result.labels if feedback == "consensus" else np.column_stack([a, b])
        site.cluster(None)
        assert (site.cluster(message) >= 0).all()


def test_any_clusterer_for_vectors():
    from sklearn.cluster import DBSCAN, AgglomerativeClustering

    X, truth = blobs(5, spread=0.3)
    X[0] = 30.0  # an outlier, noise to DBSCAN
    for clusterer, k in (
        (AgglomerativeClustering(), 4),
        (DBSCAN(eps=2.0, min_samples=3), 3),
    ):
        result = gpc.lambda_consensus(
            X,
            k,
            n_clusterers=3,
            projection=None,
            scale=None,
            clusterer=clusterer,
            method_options={"on_unlabelled": "keep"},
            random_state=0,
        )
        assert gpc.metrics.adjusted_rand(truth[1:], result.labels[1:]) == 1.0
        assert (result.labels[0] == -1) == isinstance(clusterer, DBSCAN)


@pytest.mark.parametrize("method", ["sec", "ivc", "prc"])
def test_any_method_for_the_consensus(method):
    assert set(CONSENSUS) == {*gpc.METHODS, "prc"}
    X, truth = blobs(6, spread=0.5)
    result = gpc.lambda_consensus(X, 3, n_clusterers=9, method=method, random_state=0)
    assert gpc.metrics.adjusted_rand(truth, result.labels) == 1.0
    assert result.method == f"lambda_consensus:{method}"


def test_one_cluster_one_view_one_object():
    X, _ = blobs(7)
    with pytest.warns(UserWarning, match="n_clusters=1"):
        result = gpc.lambda_consensus(X, 1, n_clusterers=3, random_state=0)
    assert result.n_clusters == 1
    assert result.converged
    single = gpc.lambda_consensus([X], 3, random_state=0)
    assert single.details["agreement"].shape[1] == 1
    assert np.isnan(single.details["pairwise"]).all()
    with pytest.warns(UserWarning, match="n_clusters=1"):
        alone = gpc.lambda_consensus([[1.0, 2.0]], 1, n_clusterers=2)
    assert alone.labels.tolist() == [0]


@pytest.mark.parametrize("options", UPDATES[:4])
def test_duplicate_rows_leave_fewer_clusters_and_say_so(options):
    X = np.repeat([[0.0, 0.0], [1.0, 5.0]], 10, axis=0)
    with pytest.warns(UserWarning, match="only 2 groups of objects"):
        result = gpc.lambda_consensus(X, 3, n_clusterers=4, random_state=0, **options)
    assert oracles.canonical(result.labels) == [0] * 10 + [1] * 10


def test_partitions_without_weight_tell_nothing_apart():
    class Halves:
        def cluster(self, feedback):
            return np.arange(12) % 2

    X = np.arange(12.0)[:, None]
    options = {"method_options": {"weights": [1, 0]}, "random_state": 0}
    with pytest.warns(UserWarning, match="only 2 groups of objects apart"):
        found = gpc.lambda_consensus([Halves(), X], 3, **options)
    assert same_partition(found.labels, np.arange(12) % 2)


def test_lambda_0_and_1():
    X, _ = blobs(8, spread=4.0)
    options = {"n_clusterers": 12, "random_state": 0, "stop_on_repeat": False}
    follows = gpc.lambda_consensus(X, 3, 0.0, 1, "truncated", **options)
    assert (follows.details["agreement"][0] < 1).any()
    assert (follows.details["agreement"][1] == 1).all()
    recorder = Recorder()
    site = LocalSite(X, 3, 1.0, clusterer=recorder)
    site.cluster(None)
    site.cluster(np.arange(45) % 3)
    first, second = recorder.seen
    assert np.array_equal(second[:, :5], first)
    assert not second[:, 5:].any()


def test_equal_on_every_backend(auto_backend):
    X, _ = blobs(9, spread=3.0)
    there, here = (
        gpc.lambda_consensus(
            X, 3, n_rounds=1, n_clusterers=5, backend=name, random_state=0
        )
        for name in (auto_backend, "numpy")
    )
    assert there.backend == auto_backend
    assert np.array_equal(there.labels, here.labels)
    assert np.array_equal(there.history, here.history)
    for key in ("agreement", "pairwise", "labels"):
        assert np.array_equal(there.details[key], here.details[key])


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.5, 0.9]))
@settings(max_examples=20)
def test_agreement_is_the_measure(seed, missing):
    ens = gpc.Ensemble(noisy(seed, n=20, r=5, missing=missing)[0])
    others = noisy(seed + 1, n=20, r=3, missing=missing)[0]
    given_labels = gpc.Ensemble(others).labels.T
    found = agreement(choose_backend("auto", None), ens, given_labels)
    pairs = []
    for i in range(5):
        for q in range(3):
            both = (ens.labels[:, i] >= 0) & (given_labels[q] >= 0)
            if not both.any():
                assert np.isnan(found[i, q])
                continue
            r_n = gpc.metrics.adjusted_rand(ens.labels[:, i], given_labels[q])
            assert found[i, q] == pytest.approx(r_n)
        for j in range(i):
            if ((ens.labels[:, i] >= 0) & (ens.labels[:, j] >= 0)).any():
                a, b = ens.labels[:, i], ens.labels[:, j]
                pairs.append(gpc.metrics.adjusted_rand(a, b))
    mean = mean_pairwise(choose_backend("auto", None), ens)
    assert mean == pytest.approx(np.mean(pairs))


@given(st.lists(st.integers(-1, 2), min_size=1, max_size=8), st.integers(0, 10**6))
def test_same_partition_is_equality_up_to_names(a, seed):
    rng = np.random.default_rng(seed)
    a = np.array(a)
    names = np.append(rng.permutation(3), -1)
    assert same_partition(a, names[a])
    b = rng.integers(-1, 3, size=len(a))
    pairs = [
        (a[l] == a[m]) == (b[l] == b[m]) for l in range(len(a)) for m in range(len(a))
    ]
    expected = all(pairs) and np.array_equal(a < 0, b < 0)
    assert same_partition(a, b) == expected


X_3 = np.arange(30.0).reshape(10, 3) % 7
NAN = np.where(X_3 == 3, np.nan, X_3)


@pytest.mark.parametrize(
    ("X", "options", "words"),
    [
        (X_3, {"lam": 1.5}, r"lam=1\.5 should be a number in \[0, 1\]"),
        (X_3, {"lam": -0.1}, r"lam=-0\.1 should be"),
        (X_3, {"lam": "much"}, "lam='much' should be"),
        (X_3, {"n_rounds": -1}, "n_rounds=-1 should be >= 0"),
        (X_3, {"update": "half"}, "update='half' is unknown"),
        (X_3, {"feedback": "none"}, "feedback='none' is unknown"),
        (X_3, {"scale": "max"}, "scale='max' is unknown"),
        (X_3, {"similarity": "rbf"}, "similarity='rbf' is unknown"),
        (X_3, {"clusterer": "dbscan"}, "clusterer='dbscan' is unknown"),
        (X_3, {"clusterer": "prc"}, "'full' is not for clusterer='prc'; use update="),
        (
            X_3,
            {"clusterer": "kmeans", "update": "similarities"},
            "'similarities' is not for clusterer='kmeans'; use clusterer=",
        ),
        (X_3, {"clusterer": 3}, "clusterer=3 should be"),
        (X_3, {"method": "kc"}, "method='kc' is unknown; choose one of 'kcc'"),
        (X_3, {"method_options": {"backend": "numpy"}}, "method_options has 'backend'"),
        (
            X_3,
            {"method": "ivc", "method_options": {"n_inite": 3}},
            "ivc: option='n_inite' is unknown; choose one of 'n_init'",
        ),
        (
            X_3,
            {"method": "prc", "method_options": {"restarts": 3}},
            "prc: option='restarts' is unknown; choose one of",
        ),
        (X_3, {"projection": 0}, "projection=0 should be >= 1"),
        (X_3, {"n_clusterers": 0}, "n_clusterers=0 should be >= 1"),
        (X_3, {"n_jobs": 0}, "n_jobs=0 should be"),
        (X_3, {"n_clusters": 11}, "n_samples=10 should be >= n_clusters=11"),
        (X_3, {"n_clusters": 0}, "n_clusters=0 should be >= 1"),
        (NAN, {}, "X has NaN in row 1, column 0"),
        ([X_3, NAN], {}, "view 1: X has NaN in row 1, column 0"),
        ([X_3, X_3[1:]], {}, "view 1 has 9 rows but view 0 has 10"),
        ([X_3, "text"], {}, "view 1: X has"),
        ([X_3, X_3], {"n_clusterers": 3}, "n_clusterers=3 is for a single X"),
        ([], {}, "X is an empty list"),
        (
            [X_3, Script([[0, 1]])],
            {},
            "partition 1 has 2 labels but partition 0 has 10",
        ),
        (
            X_3,
            {"similarity": lambda X: X, "update": "similarities"},
            r"similarity returned shape \(10, 3\) for 10 objects",
        ),
    ],
)
def test_wrong_calls_say_what_is_wrong(X, options, words):
    n_clusters = options.get("n_clusters", 2)
    options = {name: v for name, v in options.items() if name != "n_clusters"}
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        gpc.lambda_consensus(X, n_clusters, **options)
    assert "\n" not in str(caught.value)


def test_sparse_data_need_points_and_matrices_need_memory():
    from scipy.sparse import csr_array

    sparse = csr_array(blobs(10)[0])
    with pytest.raises(ValueError, match="update='distances' needs dense data"):
        gpc.lambda_consensus(sparse, 3, update="distances", projection=None)
    gpc.lambda_consensus(sparse, 3, update="distances", n_clusterers=3, random_state=0)
    for update in ("distances", "similarities"):
        with pytest.raises(MemoryError, match=f"update='{update}' of 45 objects needs"):
            gpc.lambda_consensus(sparse, 3, update=update, memory_limit=1000)


@pytest.mark.parametrize(
    ("update", "n_rounds", "columns"), [("full", 7, 1050), ("truncated", 7, 150)]
)
def test_the_labels_of_all_need_memory(update, n_rounds, columns):
    def clusterer(X, n_clusters, seed):
        raise AssertionError("work began")

    options = {"clusterer": clusterer, "update": update, "feedback": "all"}
    options |= {"n_clusterers": 50, "n_rounds": n_rounds, "n_jobs": 1}
    limit = 7 * 8 * 45 * columns
    words = (
        f"feedback='all' with {columns} columns for 45 objects needs .* but "
        rf"memory_limit={limit - 1} allows .*; use feedback='consensus'"
    )
    with pytest.raises(MemoryError, match=words):
        gpc.lambda_consensus(blobs(10)[0], 3, memory_limit=limit - 1, **options)
    with pytest.raises(AssertionError, match="work began"):
        gpc.lambda_consensus(blobs(10)[0], 3, memory_limit=limit, **options)
    options["feedback"] = "consensus"
    with pytest.raises(AssertionError, match="work began"):
        gpc.lambda_consensus(blobs(10)[0], 3, memory_limit=1, **options)


@pytest.mark.every_backend(emulated=False)  # the memory of the emulator counts too
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_labels_of_all_need_no_more_memory_than_is_asked_for(monkeypatch, n_jobs):
    asked = []
    monkeypatch.setattr(views, "check_memory", lambda *a: asked.append(a[1]))
    X = blobs(n=1500, k=5)[0]
    options = {"n_clusterers": 8, "n_rounds": 3, "feedback": "all", "random_state": 0}
    options |= {"n_jobs": n_jobs, "stop_on_repeat": False}
    options |= {"method": "ivc", "method_options": {"n_init": 1}}
    gpc.lambda_consensus(X[:50], 5, **options)
    asked.clear()
    tracemalloc.start()
    try:
        gpc.lambda_consensus(X, 5, **options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert asked[0] / 3 < peak < asked[0]  # threads may take turns


def test_a_site_can_begin_again():
    recorder = Recorder()
    site = LocalSite(POINTS, 2, clusterer=recorder)
    for _ in range(2):
        gpc.lambda_consensus(
            [site], 2, n_rounds=1, stop_on_repeat=False, random_state=0
        )
    first, second, third, fourth = recorder.seen
    assert np.array_equal(first, third)
    assert np.array_equal(second, fourth)
    assert second.shape[1] == first.shape[1] + 2


def test_feedback_of_another_length_is_refused():
    site = LocalSite(POINTS, 2)
    with pytest.raises(ValueError, match="feedback has 3 labels but the site has n_s"):
        site.cluster(np.array([0, 1, 1]))


def test_quick_table_of_the_benchmark():
    table = lambda_table(Context(quick=True, seeds=(0,)))
    assert [row["update"] for row in table.rows] == ["full", "truncated"] * 2
    for full, truncated in zip(table.rows[::2], table.rows[1::2], strict=True):
        for key in ("consensus_0", "consensus_1", "clusterers_1", "pairwise_1"):
            assert full[key] == truncated[key]  # up to round 1 they are the same
        assert full["consensus_9"] is None
    assert all(claim.passed is None for claim in table.claims)
    assert [entry.name for entry in table.skipped] == ["14cancer", "vote"]
