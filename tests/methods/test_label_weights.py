"""Labels against each other, and the trust in them, against sets and loops."""

import label_oracle
import numpy as np
import pytest
from random_ensembles import noisy
from sklearn.metrics import normalized_mutual_info_score

import gpu_consensus as gpc
from gpu_consensus.backends import choose_backend
from gpu_consensus.methods import FINDERS, label_weights
from gpu_consensus.methods.label_contingency import LabelContingency, draw_objects
from gpu_consensus.methods.label_weights import (
    label_eci,
    partition_eci,
    partition_ncai,
    word_weights,
)

pytestmark = pytest.mark.every_backend(emulated=False)

REFUSED = {
    "sec": r"weights='eci' would differ between partitions, which sec does not know",
    "least_squares": r"weights should be in the ratio of small whole numbers",
}
"""Methods that do not take just any weights, and what they say."""


def contingency_of(labels, **options):
    backend = choose_backend("auto", None)
    return LabelContingency("a test", gpc.Ensemble(labels), backend, **options)


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_labels_in_common_are_those_of_the_sets(missing):
    labels, _ = noisy(3, n=40, r=7, missing=missing)
    found = contingency_of(labels)
    rows = label_oracle.object_rows(labels)
    assert np.array_equal(found.common, rows.T @ rows)
    assert found.common.dtype == np.int64
    assert np.array_equal(found.sizes, rows.sum(axis=0))
    assert found.n_objects == 40
    some = np.array([3, 4, 5, 20, 39])
    part = contingency_of(labels, objects=some)
    assert np.array_equal(part.common, rows[some].T @ rows[some])


def test_wide_codes_and_small_memory_count_the_same():
    rng = np.random.default_rng(0)
    labels = np.column_stack([rng.permutation(400), rng.integers(3, size=400)])
    rows = label_oracle.object_rows(labels)
    assert gpc.Ensemble(labels).codes.dtype == np.uint16
    found = contingency_of(labels, memory_limit=8_000_000)
    assert np.array_equal(found.common, rows.T @ rows)
    with pytest.raises(MemoryError, match=r"a test of 403 labels needs .*use kcc"):
        _ = contingency_of(labels, memory_limit=1000).common


@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("weighted", [False, True])
def test_eci_is_the_formula(missing, weighted):
    labels, _ = noisy(4, n=50, r=6, missing=missing)
    weights = np.arange(1.0, 7) if weighted else np.ones(6)
    weights /= weights.sum()
    expected = label_oracle.eci(labels, weights, theta=0.3)
    found = label_eci(contingency_of(labels), weights, theta=0.3)
    assert found == pytest.approx(np.concatenate(expected), rel=1e-12)
    by_partition = partition_eci(contingency_of(labels), weights, theta=0.3)
    assert by_partition == pytest.approx([np.mean(part) for part in expected])


def test_eci_of_the_worked_example():
    labels = contingency_of(label_oracle.ensemble_of(label_oracle.E1))
    parts = labels.by_partition(label_eci(labels, np.full(4, 0.25)))
    expected = [
        [0.322372, 0.602270],
        [0.563305, 0.172173],
        [1, 0.535261, 0.602270],
        [1, 0.322372, 1],
    ]
    for found, right in zip(parts, expected, strict=True):
        assert found == pytest.approx(right, abs=1e-6)


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_ncai_is_the_mean_nmi_with_the_others(missing):
    labels, _ = noisy(5, n=60, r=5, missing=missing)
    labels[:, 3] = np.where(labels[:, 3] < 0, -1, 0)  # a partition that says nothing
    weights = np.arange(1.0, 6) / 15
    means = []
    for i in range(5):
        others = [m for m in range(5) if m != i]
        nmi = []
        for m in others:
            both = (labels[:, i] >= 0) & (labels[:, m] >= 0)
            a, b = labels[both, i], labels[both, m]
            nmi.append(
                normalized_mutual_info_score(a, b, average_method="geometric")
                if len(set(a)) > 1 and len(set(b)) > 1
                else 0.0
            )
        means.append(np.average(nmi, weights=weights[others]))
    found = partition_ncai(contingency_of(labels), weights)
    assert found == pytest.approx(np.array(means) / max(means))
    assert found[3] == 0


def test_partitions_that_tell_nothing_of_each_other_weigh_the_same():
    grid = np.array([[a, b] for a in range(3) for b in range(3)])
    assert partition_ncai(contingency_of(grid), np.full(2, 0.5)) == pytest.approx(1)
    assert partition_ncai(contingency_of(grid[:, :1]), np.ones(1)).tolist() == [1]


@pytest.mark.parametrize("word", ["eci", "ncai"])
@pytest.mark.parametrize("method", sorted(gpc.METHODS.keys() - REFUSED.keys()))
def test_a_word_stands_for_numbers_in_every_method(method, word):
    labels, _ = noisy(6, n=40, r=6)
    ens = gpc.Ensemble(labels, weights=[1, 2, 3, 4, 5, 0])
    backend = choose_backend("auto", None)
    part = contingency_of(labels[:, :5])
    own = ens.weights[:5]
    index = (partition_eci if word == "eci" else partition_ncai)(part, own)
    expected = np.append(own * index, 0)
    expected /= expected.sum()
    weights, n_objects = word_weights(word, ens, backend, np.random.SeedSequence(0))
    assert weights == pytest.approx(expected)
    assert n_objects == 40
    told = {} if method in FINDERS else {"n_clusters": 3}
    result = gpc.METHODS[method](ens, **told, weights=word, random_state=0)
    plain = gpc.METHODS[method](ens, **told, weights=weights, random_state=0)
    assert np.array_equal(result.labels, plain.labels)
    assert result.objective == plain.objective
    assert np.array_equal(result.details["weights"], weights)
    assert result.details["weights_objects"] == 40


def test_words_that_are_not_known_are_refused():
    labels, _ = noisy(1, n=20, r=4)
    known = "weights='ecii' is unknown; choose one of 'eci', 'ncai', or give numbers"
    with pytest.raises(ValueError, match=known):
        gpc.kcc(labels, 2, weights="ecii")
    with pytest.raises(ValueError, match=known):
        gpc.cluster(labels.astype(float), 2, method_options={"weights": "ecii"})
    with pytest.raises(ValueError, match=known):
        gpc.sec(labels, 2, weights="ecii")
    for method, words in REFUSED.items():
        told = {} if method in FINDERS else {"n_clusters": 2}
        with pytest.raises(ValueError, match=words):
            gpc.METHODS[method](labels, **told, weights="eci")


def test_words_through_cluster_and_lambda_consensus():
    X = np.random.default_rng(0).normal(size=(40, 3))
    X[:20] += 9
    for options in ({}, {"method": "lambda_consensus"}):
        more = {"weights": "eci"}
        if options:
            more = {"method_options": {"weights": "eci"}, "n_rounds": 2}
        result = gpc.cluster(
            X, 2, n_partitions=6, method_options=more, random_state=0, **options
        )
        assert sorted(np.bincount(result.labels).tolist()) == [20, 20]


def test_many_objects_are_drawn_by_the_seed(monkeypatch):
    monkeypatch.setattr(label_weights, "LABEL_OBJECTS", 30)
    labels, _ = noisy(2, n=80, r=5)
    results = [
        gpc.kcc(labels, 3, weights="eci", random_state=seed, n_init=2).details
        for seed in (0, 0, 1)
    ]
    assert [one["weights_objects"] for one in results] == [30] * 3
    assert np.array_equal(results[0]["weights"], results[1]["weights"])
    assert not np.array_equal(results[0]["weights"], results[2]["weights"])
    drawn = draw_objects(80, 30, np.random.SeedSequence(0))
    assert len(set(drawn.tolist())) == 30
    assert drawn.tolist() == sorted(drawn.tolist())
