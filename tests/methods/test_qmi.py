"""QMI: worked numbers, k-means on centred one-hot labels, and KCC's utility c."""

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_ensembles import noisy

import gpu_consensus as gpc

pytestmark = pytest.mark.every_backend


def quadratic_information(a, b):
    """H2(a) - H2(a | b) with H2(p) = 2 (1 - sum p^2), over objects present in both."""

    def entropy(x):
        shares = np.unique(x, return_counts=True)[1] / len(x)
        return 2 * (1 - np.sum(shares**2))

    given_b = sum(np.mean(b == k) * entropy(a[b == k]) for k in np.unique(b))
    return entropy(a) - given_b


def within(labels, consensus, weights):
    """Squared distances of one-hot labels, minus column means, to cluster means."""
    total = 0.0
    for i, w in enumerate(weights):
        present = np.flatnonzero(labels[:, i] >= 0)
        onehot = np.eye(labels[:, i].max() + 1)[labels[present, i]]
        centred = onehot - onehot.mean(axis=0)
        for k in np.unique(consensus[present]):
            members = centred[consensus[present] == k]
            total += w * np.sum((members - members.mean(axis=0)) ** 2)
    return total


@pytest.mark.parametrize(
    ("rows", "k", "expected", "utility", "sse"),
    [
        (oracles.E1, 2, "11112222", 1.5625, 5),
        (oracles.E1, 3, "11223333", 1.875, 2.5),
        (oracles.E2, 3, "111222333", 2.296296, 8),
        (oracles.E2, 2, "111111222", 1.296296, 17),
    ],
)
def test_worked_examples(rows, k, expected, utility, sse):
    ens = gpc.Ensemble.from_partitions(oracles.worked(rows))
    result = gpc.qmi(ens, k, random_state=0)
    assert oracles.canonical(result.labels) == oracles.canonical(expected)
    assert result.value == pytest.approx(2 * utility, abs=2e-6)
    assert result.objective == pytest.approx(sse, rel=1e-12)
    assert result.method == "qmi"


@pytest.mark.parametrize(
    ("rows", "k", "labels", "utility", "sse"),
    [
        (oracles.E1, 2, "11122222", 1.270833, 7.3333),
        (oracles.E1, 3, "11123333", 1.833333, 2.83333),
        (oracles.E2, 3, "112222333", 2.203704, 8.83333),
    ],
)
def test_runners_up_have_the_worked_numbers(rows, k, labels, utility, sse):
    """What a given consensus is worth, before anything moves."""
    ens = gpc.Ensemble.from_partitions(oracles.worked(rows))
    consensus = np.array([int(label) for label in labels])
    found = [
        quadratic_information(ens.labels[:, i], consensus)
        for i in range(ens.n_partitions)
    ]
    assert sum(found) / 2 == pytest.approx(utility, abs=1e-6)
    assert within(ens.labels, consensus, [1] * len(found)) == pytest.approx(
        sse, abs=5e-5
    )
    best = gpc.qmi(ens, k, init=consensus)
    assert best.value > sum(found)


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.4]), st.booleans(), st.booleans())
@settings(max_examples=30)
def test_value_and_objective_are_the_definitions(seed, missing, weighted, refine):
    labels, _ = noisy(seed, n=40, r=6, missing=missing)
    labels[(np.delete(labels, 2, axis=1) < 0).all(axis=1), 0] = 0
    labels = gpc.Ensemble(labels).labels
    weights = np.array([1, 2, 0, 3, 1, 1]) if weighted else np.ones(6)
    result = gpc.qmi(labels, 3, weights=weights, refine=refine, random_state=seed)
    v = weights * np.count_nonzero(weights) / weights.sum()
    value = 0.0
    for i in range(6):
        present = labels[:, i] >= 0
        found = quadratic_information(labels[present, i], result.labels[present])
        value += v[i] * present.mean() * found
    assert result.value == pytest.approx(value)
    assert result.objective == pytest.approx(within(labels, result.labels, v))
    assert result.history[-1] == result.objective
    assert (np.diff(result.history) <= 1e-12).all()


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_it_is_kcc_with_utility_c_to_the_last_label(missing):
    labels, _ = noisy(8, n=90, r=7, missing=missing)
    for init in ("partition", "careful", np.arange(90) % 4):
        options = {"init": init, "random_state": 3}
        one, other = gpc.qmi(labels, 4, **options), gpc.kcc(labels, 4, "c", **options)
        assert np.array_equal(one.labels, other.labels)
        assert one.value == pytest.approx(2 * 7 * other.value)
        assert np.array_equal(one.predict(labels), other.predict(labels))


def test_wrong_calls_are_refused():
    labels, _ = noisy(2)
    with pytest.raises(TypeError, match=r"qmi.*'utility'"):
        gpc.qmi(labels, 3, utility="h")
    with pytest.raises(ValueError, match="refine='always' should be"):
        gpc.qmi(labels, 3, refine="always")
    by_name = gpc.consensus(labels, 3, "qmi", random_state=0)
    assert np.array_equal(by_name.labels, gpc.qmi(labels, 3, random_state=0).labels)


@pytest.mark.parametrize("method", ["sec", "ipc", "qmi", "em"])
def test_from_features_by_name(method):
    rng = np.random.default_rng(0)
    truth = np.arange(60) % 3
    X = rng.normal(size=(60, 2)) + 9 * np.eye(3, 2)[truth]
    model = gpc.ConsensusClustering(3, method, n_partitions=10, random_state=0).fit(X)
    assert model.consensus_.method == method
    assert gpc.metrics.adjusted_rand(truth, model.labels_) == 1.0
