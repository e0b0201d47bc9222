"""Agreement of clusterings, in pairs and object by object."""

import itertools

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from gpu_consensus.select import stability


@pytest.fixture
def codes():
    rng = np.random.default_rng(0)
    found = rng.integers(4, size=(6, 40))
    found[:3, 10:] = found[0, 10:]
    found[rng.random(found.shape) < 0.2] = -1
    return found


def literal_similarity(a, b):
    """Over the objects of each one's two clusters, as their sets."""
    both = [i for i in range(len(a)) if a[i] >= 0 and b[i] >= 0]
    found = np.full(len(a), np.nan)
    for i in both:
        mine = {j for j in both if a[j] == a[i]}
        other = {j for j in both if b[j] == b[i]}
        found[i] = len(mine & other) / max(len(mine), len(other))
    return found


def test_pairs_are_all_or_some(codes):
    rng = np.random.default_rng(0)
    all_pairs = {tuple(pair) for pair in stability.pairs_of(6, 200, rng).tolist()}
    assert all_pairs == {(i, j) for i in range(6) for j in range(i)}
    some = stability.pairs_of(3000, 1000, rng)
    assert len({tuple(pair) for pair in some.tolist()}) == 1000
    assert (some[:, 0] > some[:, 1]).all()
    assert some.min() >= 0
    assert some.max() < 3000


def test_agreement_is_the_mean_adjusted_rand_index(codes):
    pairs = stability.pairs_of(6, 200, np.random.default_rng(0))
    expected = []
    for i, j in pairs:
        both = (codes[i] >= 0) & (codes[j] >= 0)
        expected.append(adjusted_rand_score(codes[i][both], codes[j][both]))
    assert stability.mean_agreement(codes, pairs) == pytest.approx(np.mean(expected))
    one = np.zeros((2, 5), dtype=int)
    assert stability.mean_agreement(one, np.array([[1, 0]])) == 1


def test_similarity_of_each_object(codes):
    pairs = np.array([[1, 0], [4, 2]])
    found = [literal_similarity(codes[i], codes[j]) for i, j in pairs]
    for (i, j), expected in zip(pairs, found, strict=True):
        own = stability.own_similarity(codes[i], codes[j])
        assert np.allclose(own, expected, equal_nan=True)
    seen = ~np.isnan(found).all(axis=0)
    mean = stability.mean_similarity(codes, pairs)
    assert np.allclose(mean[seen], np.nanmean(np.array(found)[:, seen], axis=0))
    assert np.isnan(mean[~seen]).all()


def test_similarity_corrected_for_chance(codes):
    a, b = codes[0], codes[1]
    both = (a >= 0) & (b >= 0)
    n = both.sum()
    chance = 0.0
    for p, q in itertools.product(range(4), range(4)):
        n_p, n_q = (a[both] == p).sum(), (b[both] == q).sum()
        chance += (n_p * n_q / n) ** 2 / max(n_p, n_q) / n
    mean = np.nanmean(literal_similarity(a, b))
    found = stability.corrected_similarity(a, b)
    assert found == pytest.approx((mean - chance) / (1 - chance))
    assert stability.corrected_similarity(a, a) == pytest.approx(1)
    assert np.isnan(stability.corrected_similarity(a, np.full(40, -1)))


def test_entropy_and_ambiguous_pairs(codes):
    objects = stability.pairs_of(40, 10**6, np.random.default_rng(0))
    bits, doubtful, n = 0.0, 0, 0
    for i, j in itertools.combinations(range(40), 2):
        seen = [(row[i] == row[j]) for row in codes if row[i] >= 0 and row[j] >= 0]
        if not seen:
            continue
        share = np.mean(seen)
        n += 1
        doubtful += 0.1 < share < 0.9
        for part in (share, 1 - share):
            bits -= part * np.log2(part) if part > 0 else 0
    entropy, pac = stability.ambiguity(codes, objects)
    assert entropy == pytest.approx(bits / n)
    assert pac == pytest.approx(doubtful / n)


def test_mean_of_each_cluster():
    values = np.array([1.0, 3.0, np.nan, 5.0])
    found = stability.by_cluster(values, np.array([0, 0, 0, -1]), 2)
    assert found[0] == 2
    assert np.isnan(found[1])
