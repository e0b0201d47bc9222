"""ECPCS against walks whose powers are all made."""

import label_oracle
import numpy as np
import pytest
from random_ensembles import noisy

import gpu_consensus as gpc
from gpu_consensus.methods.call import open_task
from gpu_consensus.methods.ecpcs import join_objects, walk_similarity

pytestmark = pytest.mark.every_backend(emulated=False)


def literal_similarity(labels, steps, weights):
    """Cosine of the rows of P, P^2, ... side by side; 0 without a neighbour."""
    _, partition = label_oracle.flat(label_oracle.members(labels))
    copies = weights[partition]
    ties = label_oracle.jaccard(labels) * copies
    np.fill_diagonal(ties, 0)
    total = ties.sum(axis=1, keepdims=True)
    P = np.divide(ties, total, out=np.zeros(ties.shape), where=total > 0)
    walks = np.hstack([np.linalg.matrix_power(P, t) for t in range(1, steps + 1)])
    length = np.linalg.norm(walks, axis=1)
    length[length == 0] = 1
    alike = walks @ walks.T / np.outer(length, length)
    np.fill_diagonal(alike, 1)
    return alike, copies


def ties_of(labels):
    ties = label_oracle.jaccard(labels)
    np.fill_diagonal(ties, 0)
    return ties


@pytest.mark.parametrize("steps", [1, 2, 20])
@pytest.mark.parametrize("weighted", [False, True])
def test_walks_are_compared_without_their_powers(steps, weighted):
    labels, _ = noisy(2, n=40, r=5, missing=0.2)
    labels[:3] = -1
    labels[:3, 4] = 99  # shares no object with another label
    weights = np.array([1.0, 2, 1, 3, 0.5]) if weighted else np.ones(5)
    expected, copies = literal_similarity(labels, steps, weights)
    found = walk_similarity(ties_of(labels), copies, steps)
    assert found == pytest.approx(expected, abs=1e-10)
    assert np.array_equal(found, found.T)
    alone = np.flatnonzero(ties_of(labels).sum(axis=1) == 0)
    assert alone.size == 1
    assert found[alone[0]].sum() == 1


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
def test_objects_go_where_they_are_on_average(weighted, missing):
    labels, truth = noisy(6, n=60, r=8, missing=missing)
    weights = np.arange(1.0, 9) if weighted else np.ones(8)
    result = gpc.ecpcs(labels, 3, weights=weights, random_state=0)
    meta = np.concatenate(result.details["meta_clusters"])
    alike, copies = literal_similarity(labels, 20, weights)
    rows = label_oracle.object_rows(labels)
    share = np.column_stack(
        [
            rows[:, meta == k] @ copies[meta == k] / copies[meta == k].sum()
            for k in range(3)
        ]
    )
    own = share[np.arange(60), result.labels]
    assert own == pytest.approx(share.max(axis=1))
    ties = alike * np.outer(copies, copies)
    cut = sum(
        1 - ties[np.ix_(meta == k, meta == k)].sum() / ties[meta == k].sum()
        for k in range(3)
    )
    assert result.objective == pytest.approx(cut)
    assert result.value == pytest.approx(3 - cut)
    assert gpc.metrics.adjusted_rand(truth, result.labels) > 0.7


def test_the_cut_of_the_labels_is_the_best_of_all():
    words = ["0011", "0011", "0012"]
    labels = label_oracle.ensemble_of(words)
    result = gpc.ecpcs(labels, 2, random_state=0)
    assert [part.tolist() for part in result.details["meta_clusters"]] == [
        [0, 1],
        [0, 1],
        [0, 1, 1],
    ]
    alike, _ = literal_similarity(labels, 20, np.ones(3))
    cuts = []
    for bits in range(1, 2**6):
        meta = np.array([0, *(bits >> np.arange(6) & 1)])
        cuts.append(
            sum(
                1 - alike[np.ix_(meta == k, meta == k)].sum() / alike[meta == k].sum()
                for k in range(2)
            )
        )
    assert result.objective == pytest.approx(min(cuts))


@pytest.mark.parametrize(
    ("words", "k", "expected"),
    [
        (label_oracle.E1, 2, "11112222"),
        (label_oracle.E2, 3, "111222333"),
    ],
)
def test_small_ensembles(words, k, expected):
    found = gpc.ecpcs(label_oracle.ensemble_of(words), k, random_state=0)
    assert gpc.metrics.adjusted_rand(list(expected), found.labels) == 1


def test_means_that_tie_go_to_more_labels():
    task = open_task("ecpcs", label_oracle.ensemble_of(label_oracle.E2), 3)
    counted = task.label_contingency(1000)
    # p1 = 111222333, p2 = 112223333, p3 = 111122222, p4 = 122333441, p5 = 221111333
    meta = np.array([0, 1, 2, 0, 1, 2, 0, 2, 0, 0, 1, 2, 1, 0, 2])
    clusters, n_ties = join_objects(task, counted, meta, np.ones(15))
    # the third object has 3 of the 6 labels of one and 2 of the 4 of another
    assert clusters.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert n_ties == 1


def test_more_clusters_than_labels_are_said_to_be_fewer():
    cube = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)])
    with pytest.warns(UserWarning, match=r"ecpcs found \d clusters although"):
        result = gpc.ecpcs(cube, 8, random_state=0)
    assert result.n_clusters <= 6


def test_some_objects_tell_how_alike_labels_are():
    labels, truth = noisy(4, n=300, r=9)
    result = gpc.ecpcs(labels, 3, label_objects=150, random_state=0)
    assert result.details["label_objects"] == 150
    assert gpc.metrics.adjusted_rand(truth, result.labels) > 0.8


def test_wrong_options_say_what_is_wrong():
    labels, _ = noisy(1, n=20, r=4)
    with pytest.raises(ValueError, match=r"steps=0 should be >= 1"):
        gpc.ecpcs(labels, 2, steps=0)
    with pytest.raises(ValueError, match=r"label_objects=0 should be >= 1"):
        gpc.ecpcs(labels, 2, label_objects=0)
    with pytest.raises(MemoryError, match=r"ecpcs of \d+ labels needs .* use lwgp"):
        gpc.ecpcs(labels, 2, memory_limit=1000)
