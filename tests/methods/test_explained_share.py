"""The criterion of ``auto`` against its formula and scikit-learn."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_ensembles import noisy
from sklearn.metrics import mutual_info_score

import gpu_consensus as gpc
from gpu_consensus.backends.numpy import NumpyBackend
from gpu_consensus.loop.count_by_cluster import count_by_cluster
from gpu_consensus.methods.explained_share import explained_share


def share_of(labels, clusters, weights):
    ens = gpc.Ensemble(labels)
    n_clusters = int(clusters.max()) + 1
    counts = count_by_cluster(
        NumpyBackend(), ens.codes, ens.offsets, clusters, n_clusters
    )
    return explained_share(counts, ens.offsets, weights)


def literal_share(labels, clusters, weights):
    """Entropies in natural logarithms, one object and one pair of labels at a time."""
    total = weight = 0.0
    for own, w in zip(labels.T, weights, strict=True):
        there = [(c, j) for c, j in zip(clusters, own, strict=True) if j >= 0 <= c]
        n = len(there)
        entropy, told = 0.0, 0.0
        for c in {c for c, _ in there}:
            p_c = sum(a == c for a, _ in there) / n
            entropy -= p_c * math.log(p_c)
            for j in {j for _, j in there}:
                p_j = sum(b == j for _, b in there) / n
                both = there.count((c, j)) / n
                told += both * math.log(both / (p_c * p_j)) if both else 0.0
        weight += w * n
        total += w * n * (told / entropy if entropy > 1e-12 else 0.0)
    return total / weight


@given(seed=st.integers(0, 10**6), missing=st.sampled_from([0.0, 0.4]))
def test_it_is_the_formula(seed, missing):
    labels, truth = noisy(seed, n=25, r=5, missing=missing)
    rng = np.random.default_rng(seed)
    clusters = np.where(rng.random(25) < 0.3, rng.integers(3, size=25), truth)
    weights = rng.random(5)
    found = share_of(labels, clusters, weights)
    assert found == pytest.approx(literal_share(labels, clusters, weights), abs=1e-12)
    assert 0 <= found <= 1


def test_scikit_learn_agrees():
    labels, truth = noisy(3, n=300, r=4)
    told = [mutual_info_score(truth, own) for own in labels.T]
    expected = np.mean(told) / mutual_info_score(truth, truth)
    assert share_of(labels, truth, np.ones(4)) == pytest.approx(expected)


def test_what_is_known_and_what_is_not():
    truth = np.arange(60) % 3
    fine = 4 * truth + np.arange(60) % 4
    grid = np.arange(60) // 3 % 4
    assert share_of(fine[:, None], truth, np.ones(1)) == pytest.approx(1)
    assert share_of(grid[:, None], truth, np.ones(1)) == pytest.approx(0, abs=1e-12)
    columns = np.column_stack([fine, grid])
    assert share_of(columns, truth, np.array([3, 1])) == pytest.approx(0.75)
    assert share_of(columns, np.zeros(60, int), np.ones(2)) == 0
    # one partition sees a single cluster, and tells nothing
    some = np.where(truth == 0, fine, -1)
    columns = np.column_stack([fine, some])
    assert share_of(columns, truth, np.ones(2)) == pytest.approx(60 / 80)


def test_names_and_sizes_of_clusters_do_not_matter():
    rng = np.random.default_rng(0)
    truth = rng.permutation(np.repeat([0, 1], [2000, 20]))
    fine = np.where(truth == 0, rng.integers(9, size=2020), 9)
    assert share_of(fine[:, None], truth, np.ones(1)) == pytest.approx(1)
    assert share_of(fine[:, None], 1 - truth, np.ones(1)) == pytest.approx(1)
