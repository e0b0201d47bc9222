from __future__ import annotations

import math
import subprocess
import sys
import tracemalloc
from collections import Counter
from functools import partial
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import pdist
from sklearn.metrics import (
    adjusted_rand_score,
    mutual_info_score,
    normalized_mutual_info_score,
    rand_score,
)

from gpu_consensus import Ensemble, metrics
from gpu_consensus.ensemble import contingency

# The oracles: scikit-learn where it has the measure, else the definition over sets,
# pairs and permutations. They take complete labels.


def clusters(labels):
    return [{i for i, x in enumerate(labels) if x == label} for label in set(labels)]


def vi_oracle(a, b, normalised=False):
    both = mutual_info_score(a, a) + mutual_info_score(b, b)
    vi = (both - 2 * mutual_info_score(a, b)) / math.log(2)
    if not normalised:
        return vi
    return vi * math.log(2) / both if both > 1e-12 else 0.0


def van_dongen_oracle(a, b, normalised=False):
    ca, cb, n = clusters(a), clusters(b), len(a)
    best = sum(max(len(p & q) for q in cb) for p in ca)
    best += sum(max(len(p & q) for p in ca) for q in cb)
    if not normalised:
        return (2 * n - best) / (2 * n)
    bound = 2 * n - max(map(len, ca)) - max(map(len, cb))
    return (2 * n - best) / bound if bound else 0.0


def purity_oracle(truth, labels):
    inside = [Counter(truth[i] for i in c) for c in clusters(labels)]
    return sum(max(c.values()) for c in inside) / len(truth)


def accuracy_oracle(truth, labels):
    ct, cl = clusters(truth), clusters(labels)
    few, many = sorted([ct, cl], key=len)
    return max(
        sum(len(p & q) for p, q in zip(few, order, strict=True))
        for order in permutations(many, len(few))
    ) / len(truth)


ORACLES = {
    "adjusted_rand": adjusted_rand_score,
    "nmi": partial(normalized_mutual_info_score, average_method="geometric"),
    "variation_of_information": vi_oracle,
    "van_dongen": van_dongen_oracle,
    "rand_distance": lambda a, b: 1 - rand_score(a, b) if len(a) > 1 else 0.0,
    "purity": purity_oracle,
    "accuracy": accuracy_oracle,
}
DISTANCES = ["variation_of_information", "van_dongen", "rand_distance"]
# No deadline: the machine may be busy.
few = settings(max_examples=20, deadline=None)
every_measure = pytest.mark.parametrize("name", ORACLES)


def measure(name):
    return getattr(metrics, name)


def close(value):
    return pytest.approx(value, rel=1e-9, abs=1e-12)


def label_pairs(low=0, n_max=14):
    row = st.tuples(st.integers(low, 4), st.integers(low, 3))
    return st.lists(row, min_size=1, max_size=n_max).map(
        lambda rows: tuple(map(list, zip(*rows, strict=True)))
    )


@every_measure
@few
@given(pair=label_pairs())
@example(pair=([0], [3]))  # one object
@example(pair=([0, 0, 0], [1, 1, 1]))  # one cluster in both
@example(pair=([0, 0, 0], [0, 1, 1]))  # one cluster in one
@example(pair=([0, 1, 2], [2, 1, 0]))  # an object a cluster
@example(pair=([0, 0, 1, 1], [0, 1, 0, 1]))  # independent
def test_measure_is_its_definition(name, pair):
    assert measure(name)(*pair) == close(ORACLES[name](*pair))


@pytest.mark.parametrize("name", ["variation_of_information", "van_dongen"])
@few
@given(pair=label_pairs())
@example(pair=([0, 0], [1, 1]))
def test_normalised_distance_is_its_definition_and_within_0_and_1(name, pair):
    value = measure(name)(*pair, normalised=True)
    assert value == close(ORACLES[name](*pair, normalised=True))
    assert 0 <= value <= 1


@every_measure
@few
@given(pair=label_pairs(), data=st.data())
def test_names_of_labels_and_order_of_objects_do_not_matter(name, pair, data):
    a, b = pair
    order = data.draw(st.permutations(range(len(a))))
    names = data.draw(st.permutations(["x", (1, 2), 7, "", 2.0]))
    renamed = [names[a[l]] for l in order], [4 - b[l] for l in order]
    assert measure(name)(*renamed) == close(measure(name)(a, b))


@every_measure
@few
@given(pair=label_pairs(), names=st.permutations("vwxyz"))
def test_equal_clusterings_agree_exactly(name, pair, names):
    a = pair[0]
    best = 0.0 if name in DISTANCES else 1.0
    assert measure(name)(a, [names[label] for label in a]) == best


@few
@given(pair=label_pairs(n_max=40))
@example(pair=([0, 0, 0, 1, 1, 1, 2, 2, 2], [0, 1, 2] * 3))  # rounds to below 0
def test_nmi_stays_within_0_and_1(pair):
    assert 0 <= metrics.nmi(*pair) <= 1


@pytest.mark.parametrize("name", [name for name in ORACLES if name != "purity"])
@few
@given(pair=label_pairs())
def test_symmetric(name, pair):
    assert measure(name)(*pair) == close(measure(name)(*pair[::-1]))


@pytest.mark.parametrize("name", DISTANCES)
@few
@given(labels=st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=12))
def test_distances_obey_the_triangle_inequality(name, labels):
    a, b, c = (list(column) for column in zip(*labels, strict=True))
    d = measure(name)
    assert d(a, c) <= d(a, b) + d(b, c) + 1e-12


@every_measure
@few
@given(pair=label_pairs(low=-1))
def test_missing_labels_are_the_measure_on_the_objects_that_have_both(name, pair):
    a, b = pair
    common = [(x, y) for x, y in zip(a, b, strict=True) if x != -1 and y != -1]
    assume(common)
    none = [None if x == -1 else x for x in a]
    nan = np.array([math.nan if y == -1 else y for y in b])
    expected = close(ORACLES[name](*map(list, zip(*common, strict=True))))
    assert measure(name)(a, b) == expected
    assert measure(name)(none, nan) == expected


@pytest.mark.parametrize("block", [1, 5, 2**18])
@pytest.mark.parametrize("name", ["adjusted_rand", "nmi", "rand_distance", "accuracy"])
@pytest.mark.parametrize("n_labels", [3, 40, 700])
def test_few_and_many_labels_in_blocks_of_any_size(name, block, n_labels, monkeypatch):
    monkeypatch.setattr(contingency, "BLOCK", block)
    rng = np.random.default_rng(n_labels)
    a = rng.integers(0, n_labels, 900)
    b = np.where(rng.random(900) < 0.5, a, rng.integers(0, n_labels, 900))
    expected = ORACLES[name](a, b) if name != "accuracy" else None
    if name == "accuracy":
        table = np.zeros((n_labels, n_labels), dtype=int)
        np.add.at(table, (a, b), 1)
        expected = table[linear_sum_assignment(table, maximize=True)].sum() / 900
    assert measure(name)(a, b) == close(expected)
    gaps = rng.random(900) < 0.2
    assert measure(name)(
        np.append(np.where(gaps, -1, a), a[gaps]), np.append(b, b[gaps])
    ) == close(expected)


def test_any_number_of_clusters():
    n = 70_000
    own, half = np.arange(n), np.arange(n) // 2
    assert metrics.adjusted_rand(own, own[::-1]) == 1
    assert metrics.rand_distance(own, half) == n / 2 / math.comb(n, 2)
    assert metrics.variation_of_information(own, half) == pytest.approx(1)
    assert metrics.purity(half, own) == 1
    assert metrics.compactness(own[:, None], own.astype(str)) == 0
    zeros = Ensemble(np.zeros((n, 1), int))
    assert metrics.consensus_criterion(zeros, own, "purity") == 1


def test_pair_counts_are_exact_beyond_64_bits():
    # n = 300,000: the products in the index pass 2^63; Python's integers do not mind.
    n = 300_000
    a = np.arange(n) % 2
    b = a.copy()
    b[0] = 1
    half, pairs = n // 2, n * (n - 1) // 2
    together = math.comb(half - 1, 2) + math.comb(half, 2)
    in_a, in_b = 2 * math.comb(half, 2), math.comb(half - 1, 2) + math.comb(half + 1, 2)
    by_chance = in_a * in_b
    exact = (together * pairs - by_chance) / ((in_a + in_b) * pairs / 2 - by_chance)
    assert metrics.adjusted_rand(a, b) == pytest.approx(exact, rel=1e-12)
    assert metrics.rand_distance(a, b) == (n - 1) / pairs


@pytest.mark.parametrize(
    "make", [np.asarray, sparse.csr_matrix, sparse.csr_array, sparse.coo_array]
)
@pytest.mark.parametrize("block", [7, 2**18])
@few
@given(
    rows=st.lists(
        st.tuples(st.integers(-1, 3), st.integers(-9, 9), st.integers(-9, 9)),
        min_size=1,
        max_size=12,
    )
)
def test_compactness_is_the_mean_distance_within_clusters(make, block, rows):
    labels = [row[0] for row in rows]
    assume(any(label != -1 for label in labels))
    X = np.array([row[1:] for row in rows], dtype=np.float32) / 4
    total, n_labelled = 0.0, 0
    for label in set(labels) - {-1}:
        members = [x for x, own in zip(X.tolist(), labels, strict=True) if own == label]
        pairs = [math.dist(x, y) for x, y in combinations(members, 2)]
        total += len(members) * sum(pairs) / max(len(pairs), 1)
        n_labelled += len(members)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "BLOCK", block)
        assert metrics.compactness(make(X), labels) == pytest.approx(
            total / n_labelled, rel=1e-7, abs=1e-7
        )


def test_sparse_compactness_equals_dense():
    rng = np.random.default_rng(0)
    X = rng.random((60, 30)) * (rng.random((60, 30)) < 0.5)
    labels = np.arange(60) % 3
    dense = metrics.compactness(X, labels)
    assert metrics.compactness(sparse.csr_array(X), labels) == pytest.approx(
        dense, rel=1e-12
    )


def test_compactness_keeps_its_digits_far_from_the_origin():
    X = np.random.default_rng(0).normal(size=(50, 3))
    assert metrics.compactness(X + 2.0**30, [0] * 50) == pytest.approx(
        pdist((X + 2.0**30) - 2.0**30).mean(), rel=1e-12
    )


ensembles = st.integers(1, 4).flatmap(
    lambda r: st.lists(
        st.lists(st.integers(-1, 3), min_size=r, max_size=r), min_size=1, max_size=12
    ).map(np.array)
)


def common(a, b):
    both = (a != -1) & (b != -1)
    return a[both].tolist(), b[both].tolist()


@few
@given(labels=ensembles)
def test_diversity_is_equation_42(labels):
    pairs = [[common(a, b) for a in labels.T] for b in labels.T]
    assume(all(a for row in pairs for a, _ in row))
    r_n = [[adjusted_rand_score(a, b) for a, b in row] for row in pairs]
    expected = 1 - np.linalg.norm(r_n) / len(r_n)
    assert metrics.diversity(labels) == close(expected)
    weights = np.arange(1, len(r_n) + 1)
    assert metrics.diversity(Ensemble(labels, weights)) == close(expected)


@every_measure
@few
@given(labels=ensembles, data=st.data())
def test_consensus_criterion_is_the_plain_mean_over_partitions(name, labels, data):
    n_samples, r = labels.shape
    consensus = np.array(
        data.draw(st.lists(st.integers(-1, 2), min_size=n_samples, max_size=n_samples))
    )
    pairs = [common(partition, consensus) for partition in labels.T]
    assume(all(a for a, _ in pairs))
    expected = close(sum(ORACLES[name](a, b) for a, b in pairs) / r)
    ens = Ensemble(labels, weights=np.arange(1, r + 1))
    assert metrics.consensus_criterion(ens, consensus, name) == expected
    assert metrics.consensus_criterion(ens, consensus, measure(name)) == expected
    # A callable of another library, which knows nothing of missing labels.
    assert (
        metrics.consensus_criterion(
            ens, consensus, lambda a, b: ORACLES[name](a.tolist(), b.tolist())
        )
        == expected
    )


def test_consensus_criterion_defaults_to_nmi_and_takes_normalised_forms():
    ens, consensus = np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), list("xxyy")
    assert metrics.consensus_criterion(ens, consensus) == 0.5
    normalised = partial(metrics.van_dongen, normalised=True)
    assert metrics.consensus_criterion(ens, consensus, normalised) == 0.5


def peak_bytes(call, *args):
    tracemalloc.start()
    try:
        call(*args)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_stays_linear_in_the_objects():
    n = 200_000
    rng = np.random.default_rng(0)
    a = rng.integers(0, 5_000, n)
    b = np.where(rng.random(n) < 0.9, a, rng.integers(0, 5_000, n))
    for name in ORACLES:  # a full table would take 200 MB
        assert peak_bytes(measure(name), a, b) < 50e6
    X = rng.normal(size=(n, 2))
    assert peak_bytes(metrics.compactness, X, a) < 50e6
    # All distances would take 200 MB; the rows, dense, 4 GB.
    one = np.zeros(5_000, dtype=int)
    assert peak_bytes(metrics.compactness, X[:5_000], one) < 20e6
    words = rng.integers(0, 100_000, (5_000, 5)).ravel()
    text = sparse.csr_array((np.ones(25_000), words, np.arange(0, 25_001, 5)))
    assert peak_bytes(metrics.compactness, text, one) < 20e6


def test_importing_the_measures_loads_no_scipy():
    code = "import sys, gpu_consensus.metrics; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@every_measure
def test_errors_name_lengths_and_the_lack_of_common_objects(name):
    lengths = r"^\w+ has 3 labels but \w+ has 2; give both one label per object\.$"
    with pytest.raises(ValueError, match=lengths):
        measure(name)([0, 1, 1], [0, 1])
    with pytest.raises(ValueError, match=r"no object in common; at least one"):
        measure(name)([0, -1, None], [-1, 3, 4])
    with pytest.raises(ValueError, match=r"no object in common"):
        measure(name)([], [])


def test_errors_of_classes_and_clusters_call_them_truth_and_labels():
    with pytest.raises(ValueError, match=r"^truth has 1 labels but labels has 2;"):
        metrics.purity([0], [0, 1])


def test_errors_of_consensus_criterion():
    ens = Ensemble.from_partitions([[0, 1, 1], [0, -1, -1]])
    nearest = "measure='rand' is unknown; choose one of 'rand_distance', "
    with pytest.raises(ValueError, match=nearest):
        metrics.consensus_criterion(ens, [0, 1, 1], "rand")
    with pytest.raises(ValueError, match="measure=None is unknown"):
        metrics.consensus_criterion(ens, [0, 1, 1], None)
    with pytest.raises(ValueError, match=r"labels has 2 labels but .* n_samples=3;"):
        metrics.consensus_criterion(ens, [0, 1])
    for how in ("nmi", adjusted_rand_score):
        with pytest.raises(ValueError, match="partition 1 and labels have no object"):
            metrics.consensus_criterion(ens, [-1, 1, 1], how)


def test_error_of_diversity_names_the_partitions():
    ens = Ensemble.from_partitions([[0, -1], [-1, 0]])
    with pytest.raises(ValueError, match="partition 0 and partition 1 have no object"):
        metrics.diversity(ens)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_errors_of_compactness(make):
    X = make([[1.0], [2.0], [math.nan]])
    with pytest.raises(
        ValueError, match=r"X has shape \(3, 1\) but there are 2 labels;"
    ):
        metrics.compactness(X, [0, 1])
    with pytest.raises(ValueError, match="labels are all missing;"):
        metrics.compactness(X, [-1, None, -1])
    with pytest.raises(ValueError, match="X has a NaN or infinite value;"):
        metrics.compactness(X, [0, 0, 0])
    assert metrics.compactness(X, [0, 0, -1]) == 1.0
