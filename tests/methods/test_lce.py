"""LCE against the refined matrix of the paper, made in full."""

import label_oracle
import numpy as np
import pytest
from random_ensembles import noisy

import gpu_consensus as gpc

pytestmark = pytest.mark.every_backend(emulated=False)


def literal_objective(labels, clusters, decay, weights):
    """Squares to the mean of the cluster, over the objects that a partition labels."""
    rows, partition = label_oracle.refined_rows(labels, decay, weights)
    weights = weights / weights.sum()
    total = 0.0
    for i, w in enumerate(weights):
        present = labels[:, i] >= 0
        part = rows[:, partition == i]
        for k in np.unique(clusters):
            own = part[present & (clusters == k)]
            if len(own):
                total += w * np.square(own - own.mean(axis=0)).sum()
    return total


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
def test_objective_and_value_are_those_of_the_matrix(weighted, missing):
    labels, _ = noisy(3, n=50, r=6, missing=missing)
    weights = np.arange(1.0, 7) if weighted else np.ones(6)
    result = gpc.lce(labels, 3, 0.7, weights=weights, random_state=0)
    expected = literal_objective(labels, result.labels, 0.7, weights)
    assert result.objective == pytest.approx(expected, rel=1e-8)
    alone = literal_objective(labels, np.zeros(50), 0.7, weights)
    assert result.value == pytest.approx((alone - expected) / 50)
    assert np.all(np.diff(result.history) <= 1e-9)


def test_no_single_object_is_nearer_to_another_centre():
    labels, _ = noisy(5, n=60, r=7)
    result = gpc.lce(labels, 3, random_state=0)
    rows, _ = label_oracle.refined_rows(labels, 0.8)
    centres = np.array([rows[result.labels == k].mean(axis=0) for k in range(3)])
    distance = np.square(rows[:, None] - centres).sum(axis=2)
    own = distance[np.arange(60), result.labels]
    assert np.all(own <= distance.min(axis=1) + 1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_similarity_is_that_of_the_triples(weighted):
    labels, _ = noisy(2, n=40, r=5, missing=0.2)
    weights = np.array([1.0, 3, 1, 2, 1]) if weighted else np.ones(5)
    result = gpc.lce(labels, 3, weights=weights, random_state=0, n_init=2)
    alike = label_oracle.connected_triples(labels, weights)
    begin = 0
    for found in result.details["similarity"]:
        end = begin + len(found)
        assert found == pytest.approx(alike[begin:end, begin:end])
        begin = end
    assert result.details["label_objects"] == 40


def test_similarity_of_objects_in_the_worked_example():
    labels = label_oracle.ensemble_of(label_oracle.E1)
    similarity = gpc.lce(labels, 2, random_state=0).details["similarity"]
    codes = gpc.Ensemble(labels).codes

    def alike(l, m):
        pairs = [(c[l - 1], c[m - 1]) for c in codes]
        links = [0.8 * s[pair] for s, pair in zip(similarity, pairs, strict=True)]
        return np.mean(
            [1 if a == b else x for x, (a, b) in zip(links, pairs, strict=True)]
        )

    expected = {(1, 2): 1, (1, 3): 0.95, (1, 4): 0.7667, (1, 5): 0.1067}
    expected |= {(4, 5): 0.3167, (5, 8): 0.8620}
    for pair, right in expected.items():
        assert alike(*pair) == pytest.approx(right, abs=1e-4)
    assert gpc.lce(labels, 2, random_state=0).labels.tolist() in (
        [0, 0, 0, 0, 1, 1, 1, 1],
        [1, 1, 1, 1, 0, 0, 0, 0],
    )


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_without_similar_labels_it_is_kcc(missing):
    labels, _ = noisy(7, n=80, r=8, missing=missing)
    weights = np.arange(1.0, 9)
    given = {"weights": weights, "init": "partition", "random_state": 1}
    found = gpc.lce(labels, 4, 0, **given)
    plain = gpc.kcc(labels, 4, "c", refine=False, **given)
    assert np.array_equal(found.labels, plain.labels)
    assert found.objective == pytest.approx(plain.objective)
    assert found.value == pytest.approx(plain.value)


def test_starts_that_run_alone_end_like_those_that_run_together():
    labels, _ = noisy(6, n=70, r=8, missing=0.1)
    together = gpc.lce(labels, 4, random_state=2)
    alone = gpc.lce(labels, 4, random_state=2, memory_limit=170_000)
    assert np.array_equal(together.labels, alone.labels)
    assert together.objective == alone.objective


def test_some_objects_tell_how_alike_labels_are():
    labels, truth = noisy(4, n=300, r=9)
    result = gpc.lce(labels, 3, label_objects=100, random_state=0)
    assert result.details["label_objects"] == 100
    assert gpc.metrics.adjusted_rand(truth, result.labels) > 0.9


def test_new_objects_go_where_their_twins_are():
    labels, _ = noisy(1, n=60, r=8)
    result = gpc.lce(labels, 3, random_state=0)
    assert np.array_equal(result.predict(labels), result.labels)


def test_partitions_and_labels_that_do_not_count():
    labels, _ = noisy(8, n=40, r=6)
    codes = gpc.Ensemble(labels).codes
    sizes = codes.max(axis=1).astype(int) + 1
    expected = gpc.lce(labels[:, :5], 3, random_state=0)
    wide = gpc.Ensemble.from_codes(codes, sizes + 2)  # two labels that nobody carries
    weights = [1] * 5 + [0]
    found = gpc.lce(wide, 3, weights=weights, random_state=0)
    assert found.objective == pytest.approx(expected.objective)
    assert found.details["similarity"][5] is None


def test_wrong_options_say_what_is_wrong():
    labels, _ = noisy(1, n=20, r=4)
    for decay in (-0.1, 1.1, "much"):
        with pytest.raises(ValueError, match=r"decay=.* number in \[0, 1\]"):
            gpc.lce(labels, 2, decay)
    with pytest.raises(ValueError, match=r"label_objects=0 should be >= 1"):
        gpc.lce(labels, 2, label_objects=0)


def test_a_partition_without_any_label_counts_for_nothing():
    labels, _ = noisy(1, n=40, r=5)
    more = np.insert(labels, 2, -1, axis=1)
    found = gpc.lce(more, 3, init=labels[:, 0] // 2, search=0, random_state=0)
    plain = gpc.lce(labels, 3, init=labels[:, 0] // 2, search=0, random_state=0)
    assert np.array_equal(found.labels, plain.labels)
    assert gpc.lce(more, 3, random_state=0).n_clusters == 3
