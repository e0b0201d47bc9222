"""LWEA against the matrix of the paper and scipy's average linkage."""

import label_oracle
import numpy as np
import pytest
from random_ensembles import noisy
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

import gpu_consensus as gpc
from gpu_consensus.methods.call import open_task
from gpu_consensus.methods.label_weights import label_eci
from gpu_consensus.methods.lwea import locally_weighted

pytestmark = pytest.mark.every_backend(emulated=False)


def literal_matrix(labels, weights=None, theta=0.4):
    """Likeness of two objects, one partition after another."""
    r = labels.shape[1]
    weights = np.ones(r) if weights is None else np.asarray(weights)
    trust = label_oracle.eci(labels, weights, theta)
    names = [list(part) for part in label_oracle.members(labels)]
    n = len(labels)
    matrix = np.eye(n)
    for l in range(n):
        for m in range(n):
            both = [i for i in range(r) if labels[l, i] >= 0 and labels[m, i] >= 0]
            shared = sum(
                weights[i] * trust[i][names[i].index(labels[l, i])]
                for i in both
                if labels[l, i] == labels[m, i]
            )
            if l != m:
                matrix[l, m] = shared / weights[both].sum() if both else 0.0
    return matrix


def matrix_of(labels):
    task = open_task("lwea", labels, 1)
    counted = task.label_contingency(1000)
    eci = label_eci(counted, task.weights)
    return locally_weighted(task, counted, eci, np.arange(len(labels)))


@pytest.mark.filterwarnings("ignore:n_clusters=1")
@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_the_matrix_is_that_of_the_paper(missing):
    labels, _ = noisy(3, n=30, r=6, missing=missing)
    found = matrix_of(labels)
    assert np.array_equal(found, found.T)
    apart = ~np.eye(30, dtype=bool)
    assert found[apart] == pytest.approx(literal_matrix(labels)[apart])


@pytest.mark.filterwarnings("ignore:n_clusters=1")
def test_the_matrix_of_the_worked_example():
    found = matrix_of(label_oracle.ensemble_of(label_oracle.E1))
    expected = {(1, 2): 0.5520, (1, 3): 0.3020, (1, 4): 0.1612, (3, 4): 0.2950}
    expected |= {(4, 5): 0.0430, (5, 6): 0.5942, (5, 8): 0.3442}
    for (l, m), right in expected.items():
        assert found[l - 1, m - 1] == pytest.approx(right, abs=1e-4)


@pytest.mark.parametrize(
    ("words", "k", "expected"),
    [
        (label_oracle.E1, 2, "11112222"),
        (label_oracle.E1, 3, "11123333"),
        (label_oracle.E2, 2, "111111222"),
        (label_oracle.E2, 3, "111222333"),
    ],
)
def test_worked_examples(words, k, expected):
    found = gpc.lwea(label_oracle.ensemble_of(words), k)
    assert gpc.metrics.adjusted_rand(list(expected), found.labels) == 1


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
def test_merges_are_those_of_average_linkage(weighted, missing):
    labels, _ = noisy(9, n=45, r=9, missing=missing)
    weights = np.arange(2.0, 11) if weighted else np.ones(9)
    result = gpc.lwea(labels, 4, 0.5, weights=weights)
    distance = 1 - literal_matrix(labels, weights, 0.5)
    tree = linkage(squareform(distance, checks=False), "average")
    expected = fcluster(tree, 4, "maxclust")
    assert gpc.metrics.adjusted_rand(expected, result.labels) == 1
    n_merges = len(result.details["heights"])
    assert result.details["heights"] == pytest.approx(tree[-n_merges:, 2])
    assert result.n_clusters == 4


def test_equal_objects_begin_as_one():
    labels, _ = noisy(5, n=20, r=7)
    copies = np.repeat(labels, [1, 2, 3, 4] * 5, axis=0)
    result = gpc.lwea(copies, 3)
    distance = 1 - literal_matrix(copies)
    tree = linkage(squareform(distance, checks=False), "average")
    expected = fcluster(tree, 3, "maxclust")
    assert gpc.metrics.adjusted_rand(expected, result.labels) == 1


def test_too_large_a_matrix_is_refused_before_any_work():
    labels, _ = noisy(1, n=60, r=8)
    with pytest.raises(MemoryError, match=r"lwea of \d+ objects .* use lwgp"):
        gpc.lwea(labels, 2, memory_limit=10_000)


def test_wrong_options_say_what_is_wrong():
    labels, _ = noisy(1, n=20, r=4)
    with pytest.raises(ValueError, match=r"theta=0 should be a finite number > 0"):
        gpc.lwea(labels, 2, 0)
    with pytest.raises(ValueError, match=r"label_objects=0 should be >= 1"):
        gpc.lwea(labels, 2, label_objects=0)
