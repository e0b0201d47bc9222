"""Kernel k-means against its definition, brute force and k-means on points."""

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_consensus.feedback.kernel_kmeans import kernel_kmeans


def objective(S, labels):
    """The definition, pair by pair."""
    total = 0.0
    for k in set(labels):
        members = [l for l, label in enumerate(labels) if label == k]
        for l in members:
            total += S[l, l]
            total -= 2 * sum(S[l, m] for m in members) / len(members)
            total += sum(S[m, q] for m in members for q in members) / len(members) ** 2
    return total


def symmetric(rng, n, definite):
    matrix = rng.normal(size=(n, n))
    return matrix @ matrix.T if definite else matrix + matrix.T


def is_rest(S, labels, n_clusters):
    """No object is nearer to another centre than to its own."""
    for l in range(len(labels)):
        distance = {}
        for k in range(n_clusters):
            members = np.flatnonzero(np.asarray(labels) == k)
            distance[k] = (
                S[l, l] - 2 * S[l, members].mean() + S[np.ix_(members, members)].mean()
            )
        if min(distance.values()) < distance[labels[l]] - 1e-9:
            return False
    return True


@given(st.integers(0, 10**6), st.integers(2, 7), st.integers(1, 3), st.booleans())
@settings(max_examples=60)
def test_objective_is_the_definition_and_the_end_is_at_rest(seed, n, k, definite):
    rng = np.random.default_rng(seed)
    S = symmetric(rng, n, definite)
    found = kernel_kmeans(S, min(k, n), random_state=seed)
    labels = found.labels.tolist()
    assert found.objective == pytest.approx(objective(S, labels), abs=1e-9)
    assert sorted(set(labels)) == list(range(max(labels) + 1))
    if definite:
        assert found.converged
        assert found.shift == 0
    if found.converged:
        shifted = S + found.shift * np.eye(n)
        assert is_rest(shifted, labels, max(labels) + 1)


def test_best_of_many_starts_is_the_brute_force_optimum():
    for seed in range(6):
        S = symmetric(np.random.default_rng(seed), 7, definite=True)
        best = min(objective(S, labels) for labels in oracles.partitions(7, 3))
        found = min(
            kernel_kmeans(S, 3, random_state=start).objective for start in range(60)
        )
        assert found == pytest.approx(best)


def test_linear_kernel_is_k_means_on_the_points():
    from sklearn.cluster import KMeans

    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(60, 3))
        init = rng.integers(4, size=60)
        centres = np.stack([X[init == k].mean(axis=0) for k in range(4)])
        model = KMeans(4, init=centres, n_init=1, tol=0, max_iter=300).fit(X)
        found = kernel_kmeans(X @ X.T, 4, init=init)
        assert oracles.canonical(found.labels) == oracles.canonical(model.labels_)
        assert found.objective == pytest.approx(model.inertia_)


def literal_lloyd(S, labels, n_clusters, max_iter=50):
    """Whether the plain iteration comes to rest; None if a cluster empties."""
    for _ in range(max_iter):
        after = labels.copy()
        for l in range(len(labels)):
            distance = []
            for k in range(n_clusters):
                members = np.flatnonzero(labels == k)
                if not members.size:
                    return None
                within = S[np.ix_(members, members)].mean()
                distance.append(S[l, l] - 2 * S[l, members].mean() + within)
            if min(distance) < distance[labels[l]]:
                after[l] = int(np.argmin(distance))
        if np.array_equal(after, labels):
            return True
        labels = after
    return False


def test_the_diagonal_is_shifted_only_where_it_fails_to_come_to_rest():
    shifted, plain = 0, 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        S = symmetric(rng, 12, definite=False) + 4 * (seed % 2) * np.eye(12)
        init = rng.permutation(np.arange(12) % 2)
        rests = literal_lloyd(S, init, 2)
        found = kernel_kmeans(S, 2, init=init)
        if rests is None:
            continue
        assert (found.shift == 0) == rests
        assert found.converged
        plain += rests
        if not rests:
            shifted += 1
            assert found.shift == pytest.approx(-np.linalg.eigvalsh(S)[0])
    assert shifted >= 3
    assert plain >= 3


def test_degenerate_similarities():
    same = kernel_kmeans(np.ones((5, 5)), 3, random_state=0)
    assert same.labels.tolist() == [0] * 5
    assert same.converged
    assert kernel_kmeans([[2.0]], 1).labels.tolist() == [0]
    each = kernel_kmeans(np.eye(4), 4, random_state=0)
    assert sorted(each.labels.tolist()) == [0, 1, 2, 3]
    X = np.array([[0.0], [0.0], [1.0]])
    assert kernel_kmeans(X @ X.T, 3, random_state=0).labels.max() == 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: kernel_kmeans(np.ones((2, 3)), 1), "shape"),
        (lambda: kernel_kmeans([[np.nan]], 1), "NaN"),
        (lambda: kernel_kmeans([[1.0, 0.5], [0.4, 1.0]], 2), "not symmetric; use"),
        (lambda: kernel_kmeans(np.eye(2), 3), "ask for fewer clusters"),
        (lambda: kernel_kmeans(np.eye(2), 2, init=[0, 2]), "labels in 0..1"),
        (lambda: kernel_kmeans(np.eye(2), 2, init=[0]), "2 integers"),
        (lambda: kernel_kmeans(np.eye(2), 2, max_iter=0), "max_iter=0"),
    ],
)
def test_wrong_calls_say_what_is_wrong(call, words):
    with pytest.raises(ValueError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)
