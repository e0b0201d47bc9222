"""EM against worked numbers, a loop object by object, and data drawn from the model."""

import importlib
import itertools
import math

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_ensembles import noisy

import gpu_consensus as gpc
from gpu_consensus.backends.segments import Segments
from gpu_consensus.methods.mixture import fit_shares

pytestmark = pytest.mark.every_backend

STOPPED = "ignore:em did not converge:gpu_consensus.ConvergenceWarning"
FEWER = "ignore:em found:UserWarning"
em_module = importlib.import_module("gpu_consensus.methods.em")


def softened(labels, k, own, other):
    return np.where(np.eye(k)[labels] > 0, own, other)


def likelihoods(labels, z, exponents, n_iter):
    """The textbook, object by object: log-likelihood after each E step, and the z."""
    n, r = labels.shape
    k, history = z.shape[1], []
    for _ in range(n_iter):
        alpha = z.sum(axis=0) / n
        theta = []
        for i in range(r):
            present = labels[:, i] >= 0
            mass = np.array(
                [
                    z[present & (labels[:, i] == j)].sum(axis=0)
                    for j in range(labels[:, i].max() + 1)
                ]
            )
            theta.append(mass / z[present].sum(axis=0))
        z, total = np.empty((n, k)), []
        for l in range(n):
            p = alpha.copy()
            for i in np.flatnonzero(labels[l] >= 0):
                p = p * theta[i][labels[l, i]] ** exponents[i]
            total.append(math.log(p.sum()))
            z[l] = p / p.sum()
        history.append(math.fsum(total))
    return history, z, alpha, theta


@pytest.mark.filterwarnings(STOPPED)
@pytest.mark.parametrize(
    ("rows", "k", "z", "gone", "expected"),
    [
        (oracles.E1, 2, (0.9, 0.1), [], [15.7044, 12.8357, 12.8164, 12.8164]),
        (
            oracles.E1,
            2,
            (0.9, 0.1),
            [(4, 1), (8, 4)],
            [13.1942, 10.6682, 10.5696, 10.5671, 10.5671],
        ),
        (oracles.E2, 3, (0.8, 0.1), [], [28.8502, 21.4609, 21.3453, 21.3448, 21.3448]),
        (
            oracles.E2,
            3,
            (0.8, 0.1),
            [(4, 1), (9, 4)],
            [26.6281, 19.6193, 19.4470, 19.4370, 19.4355],
        ),
    ],
)
@pytest.mark.parametrize("smoothing", [0.0, 1e-10])
def test_worked_examples(rows, k, z, gone, expected, smoothing):
    labels = np.array(oracles.worked(rows)).T
    first = labels[:, 0] - 1
    for l, i in gone:
        labels[l - 1, i - 1] = -1
    options = {"init": softened(first, k, *z), "smoothing": smoothing, "tol": 0}
    result = gpc.em(labels, k, max_iter=5, **options)
    assert result.history[: len(expected)] == pytest.approx(expected, abs=5.1e-5)
    assert oracles.canonical(result.labels) == oracles.canonical(first)


@pytest.mark.parametrize(
    ("rows", "k", "z", "limit"),
    [(oracles.E1, 2, (0.9, 0.1), -12.816447), (oracles.E2, 3, (0.8, 0.1), -21.344766)],
)
def test_limits_of_the_worked_examples(rows, k, z, limit):
    labels = np.array(oracles.worked(rows)).T
    init = softened(labels[:, 0] - 1, k, *z)
    end = gpc.em(labels, k, init=init, tol=0, max_iter=500)
    assert end.converged
    assert end.value == pytest.approx(limit, abs=1e-6)
    assert end.value == -end.objective == -end.history[-1]


@pytest.mark.filterwarnings(STOPPED)
def test_parameters_of_the_worked_example():
    labels = np.array(oracles.worked(oracles.E1)).T
    z = softened(labels[:, 0] - 1, 2, 0.9, 0.1)
    result = gpc.em(labels, 2, init=z, smoothing=0, max_iter=1)
    assert result.details["alpha"] == pytest.approx([0.5, 0.5])
    theta = result.details["theta"]
    assert theta[1] == pytest.approx(np.array([[0.675, 0.325], [0.075, 0.925]]))
    expected = np.array([[0.075, 0.9, 0.025], [0.675, 0.1, 0.225]])
    assert theta[3] == pytest.approx(expected)


@pytest.mark.filterwarnings(STOPPED, FEWER)
@given(
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.4]),
    st.sampled_from([2, 3, 4]),
    st.booleans(),
)
@settings(max_examples=25)
def test_the_loop_is_the_textbook_with_weights_as_exponents(seed, missing, k, weighted):
    labels, _ = noisy(seed, n=30, r=5, missing=missing)
    labels = gpc.Ensemble(labels).labels
    rng = np.random.default_rng(seed)
    z = rng.dirichlet(np.ones(k), size=30)
    weights = rng.integers(1, 5, size=5) if weighted else np.ones(5)
    expected, proba, alpha, theta = likelihoods(
        labels, z, 5 * weights / weights.sum(), 6
    )
    result = gpc.em(labels, k, init=z, weights=weights, max_iter=6, tol=0, smoothing=0)
    assert -result.history == pytest.approx(expected, rel=1e-7)
    used = np.unique(proba.argmax(axis=1))
    assert result.proba == pytest.approx(proba[:, used], abs=1e-6)
    assert result.details["alpha"] == pytest.approx(alpha[used], abs=1e-7)
    for i in range(5):
        assert result.details["theta"][i] == pytest.approx(theta[i].T[used], abs=1e-6)


@pytest.mark.filterwarnings(STOPPED, FEWER)
@given(
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.3, 0.8]),
    st.sampled_from(["partition", "random", "careful"]),
    st.sampled_from([0.0, 1e-10, 0.01]),
    st.booleans(),
)
@settings(max_examples=40)
def test_the_likelihood_never_falls(seed, missing, init, smoothing, weighted):
    labels, _ = noisy(seed, n=40, r=6, missing=missing)
    weights = np.arange(1, 7) if weighted else None
    result = gpc.em(
        labels,
        3,
        init=init,
        n_init=1,
        tol=0,
        max_iter=40,
        smoothing=smoothing,
        weights=weights,
        random_state=seed,
    )
    assert np.isfinite(result.history).all()
    assert (np.diff(result.history) <= 0).all()
    assert result.objective == result.history[-1] == -result.value
    assert np.isfinite(result.proba).all()
    assert (result.proba.sum(axis=1) <= 1 + 1e-12).all()
    for theta in result.details["theta"]:
        assert theta.sum(axis=1) == pytest.approx(1.0)
        assert (theta >= smoothing * (1 - 1e-9)).all()


def test_parameters_of_the_model_are_recovered():
    rng = np.random.default_rng(0)
    n, alpha = 8_000, np.array([0.5, 0.3, 0.2])
    theta = [rng.dirichlet(np.full(k_i, 0.5), size=3) for k_i in (2, 3, 4, 5, 6, 3, 4)]
    component = rng.choice(3, n, p=alpha)
    labels = np.column_stack(
        [[rng.choice(len(t[0]), p=t[k]) for k in component] for t in theta]
    )
    labels[rng.random(labels.shape) < 0.1] = -1
    result = gpc.em(
        labels,
        3,
        on_unlabelled="keep",
        n_init=3,
        tol=1e-7,
        max_iter=500,
        random_state=0,
    )
    found, given_theta = result.details["alpha"], result.details["theta"]
    errors = [
        max(
            np.abs(found[list(order)] - alpha).max(),
            *(
                np.abs(a[list(order)] - b).max()
                for a, b in zip(given_theta, theta, strict=True)
            ),
        )
        for order in itertools.permutations(range(3))
    ]
    assert min(errors) < 0.04


def test_softened_labels_are_the_responsibilities_of_the_docstring():
    labels, _ = noisy(1, n=50, r=6, missing=0.2)
    init = np.arange(50) % 4
    z = softened(init, 4, 0.8 + 0.2 / 4, 0.2 / 4)
    one, other = (gpc.em(labels, 4, init=start) for start in (init, z))
    assert one.history == pytest.approx(other.history, rel=1e-8)
    assert np.array_equal(one.labels, other.labels)


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_chunks_threads_and_names_of_labels_change_no_bit(missing):
    labels, _ = noisy(2, n=30, r=5, missing=missing)
    common = {"n_init": 2, "tol": 1e-3, "random_state": 1}
    whole = gpc.em(labels, 4, **common)
    for options in ({"memory_limit": 1}, {"memory_limit": 2000}, {"n_jobs": 1}):
        cut = gpc.em(labels, 4, **common, **options)
        assert np.array_equal(whole.labels, cut.labels)
        assert np.array_equal(whole.history, cut.history)
        assert np.array_equal(whole.proba, cut.proba)
    renamed = np.where(labels < 0, -1, 9 - labels)
    init = np.arange(30) % 4
    one, other = (gpc.em(x, 4, init=init) for x in (labels, renamed))
    assert np.array_equal(one.labels, other.labels)
    assert one.history == pytest.approx(other.history, rel=1e-12)


def test_restarts_one_by_one_and_together_are_the_same(monkeypatch):
    labels, _ = noisy(4, n=60, r=5)
    whole = gpc.em(labels, 3, n_init=6, random_state=3)
    monkeypatch.setattr(em_module, "_TABLE_MEMORY", 1)
    alone = gpc.em(labels, 3, n_init=6, random_state=3)
    assert np.array_equal(whole.history, alone.history)
    assert np.array_equal(whole.proba, alone.proba)
    more = gpc.em(labels, 3, n_init=12, random_state=3)
    assert more.value >= whole.value


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_backends_agree_up_to_rounding(auto_backend, missing):
    labels, _ = noisy(1, n=120, r=8, missing=missing)
    there, here = (
        gpc.em(labels, 4, n_init=4, backend=name, random_state=0)
        for name in (auto_backend, "numpy")
    )
    assert there.history == pytest.approx(here.history, rel=1e-9)
    assert np.array_equal(there.labels, here.labels)
    assert there.proba == pytest.approx(here.proba, abs=1e-7)


def test_new_objects_go_to_their_likeliest_component():
    labels, _ = noisy(3, n=80, r=6, missing=0.2)
    weights = [1, 2, 3, 1, 0, 1]
    result = gpc.em(labels, 3, weights=weights, random_state=0)
    assert np.array_equal(result.predict(labels), result.labels)
    assert np.array_equal(result.proba.argmax(axis=1), result.labels)
    new = np.where(np.random.default_rng(0).random((40, 6)) < 0.5, -1, labels[:40])
    ens, theta = gpc.Ensemble(labels), result.details["theta"]
    assert theta[4] is None
    exponents = 5 * np.array(weights) / 8
    for l, found in enumerate(result.predict(new)):
        present = [i for i in (0, 1, 2, 3, 5) if new[l, i] >= 0]
        if not present:
            assert found == -1
            continue
        score = np.log(result.details["alpha"])
        for i in present:
            j = list(ens.categories[i]).index(new[l, i])
            score = score + exponents[i] * np.log(theta[i][:, j])
        assert found == score.argmax()


def test_objects_without_any_label():
    labels, _ = noisy(3, n=40, r=5)
    labels[[0, 7]] = -1
    with pytest.raises(ValueError, match="2 objects have no label"):
        gpc.em(labels, 3)
    rest = np.delete(np.arange(40), [0, 7])
    options = {"on_unlabelled": "keep", "random_state": 0}
    for init in ("partition", np.arange(40) % 3, np.eye(3)[np.arange(40) % 3]):
        there = init if isinstance(init, str) else init[rest]
        kept = gpc.em(labels, 3, init=init, **options)
        alone = gpc.em(labels[rest], 3, init=there, random_state=0)
        assert kept.labels[[0, 7]].tolist() == [-1, -1]
        assert not kept.proba[[0, 7]].any()
        assert np.array_equal(kept.proba[rest], alone.proba)
        assert np.array_equal(kept.predict(labels), kept.labels)


def test_one_cluster_one_object_and_equal_partitions():
    labels = np.tile(np.repeat([0, 1, 2], [2, 3, 5])[:, None], 4)
    with pytest.warns(UserWarning, match="n_clusters=1"):
        one = gpc.em(labels, 1)
    expected = 4 * sum(n * math.log(n / 10) for n in (2, 3, 5))
    assert one.value == pytest.approx(expected)
    assert one.proba == pytest.approx(np.ones((10, 1)))
    with pytest.warns(UserWarning, match="n_clusters=1"):
        assert gpc.em(np.zeros((1, 2)), 1).value == pytest.approx(0)
    three = gpc.em(labels, 3, random_state=0)
    assert oracles.canonical(three.labels) == labels[:, 0].tolist()
    assert three.value == pytest.approx(expected / 4)


@pytest.mark.filterwarnings(STOPPED)
def test_a_component_that_is_nobodys_likeliest_is_left_out():
    labels, truth = noisy(6, n=60, r=10, k=2)
    z = np.column_stack([softened(truth, 2, 0.8, 0.1), np.full(60, 0.1)])
    with pytest.warns(UserWarning, match="em found 2 clusters although n_clusters=3"):
        result = gpc.em(labels, 3, init=z, max_iter=1)
    assert result.n_clusters == 2
    assert result.proba.shape == (60, 2)
    assert len(result.details["alpha"]) == 2
    assert np.array_equal(result.predict(labels), result.labels)


@given(
    st.lists(st.integers(0, 50), min_size=2, max_size=6).filter(any),
    st.sampled_from([0.0, 0.01, 0.05, 0.16]),
)
def test_shares_under_a_bound_are_the_likeliest(n, floor):
    """Karush-Kuhn-Tucker: n_j / p_j is equal where p_j > floor, no larger elsewhere."""
    mass = np.array(n, dtype=float)
    segments = Segments(np.array([0, len(n)]))
    p = fit_shares(mass, segments, np.ones(len(n), bool), floor)
    assert p.sum() == pytest.approx(1)
    assert (p >= floor * (1 - 1e-12)).all()
    above = p > floor * (1 + 1e-9)
    slope = mass[above] / p[above]
    assert slope == pytest.approx(np.full(above.sum(), slope[0]))
    if floor:
        assert (mass[~above] / p[~above] <= slope[0] * (1 + 1e-9)).all()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"init": "middle"}, ValueError, "init='middle' is unknown"),
        ({"init": np.ones((5, 3))}, ValueError, r"init has shape \(5, 3\)"),
        ({"init": np.full((60, 3), np.nan)}, ValueError, "finite, >= 0"),
        ({"init": np.zeros((60, 3))}, ValueError, "not all 0"),
        ({"init": np.arange(60) % 2}, ValueError, "init has 2 different labels"),
        ({"n_init": 0}, ValueError, "n_init=0 should be >= 1"),
        ({"max_iter": 0}, ValueError, "max_iter=0 should be >= 1"),
        ({"tol": -1}, ValueError, "tol=-1 should be a finite number >= 0"),
        ({"tol": "x"}, ValueError, "tol='x' should be"),
        ({"smoothing": np.inf}, ValueError, "smoothing=inf should be"),
        ({"smoothing": 0.4}, ValueError, "should be < 1 / 6"),
        ({"checkpoint": "no/x"}, OSError, "checkpoint 'no/x'"),
        ({"checkpoint": ""}, ValueError, "checkpoint='' is empty"),
    ],
)
def test_wrong_calls_are_refused(options, error, message):
    labels, _ = noisy(0)
    with pytest.raises(error, match=message):
        gpc.em(labels, 3, **options)


def test_more_objects_than_an_integer_can_sum_are_refused(monkeypatch):
    monkeypatch.setattr(em_module, "_TOO_MANY", 60)
    labels, _ = noisy(0, n=60)
    with pytest.raises(ValueError, match="n_samples=60 should be < 60 for em"):
        gpc.em(labels, 3)


def test_it_says_that_it_did_not_converge_and_goes_by_name():
    labels, _ = noisy(0)
    with pytest.warns(gpc.ConvergenceWarning, match="em did not converge in max"):
        assert not gpc.em(labels, 3, max_iter=1, random_state=0).converged
    by_name = gpc.consensus(labels, 3, "em", random_state=0)
    assert by_name.method == "em"
    assert np.array_equal(by_name.proba, gpc.em(labels, 3, random_state=0).proba)
