"""Furthest, HAC and Fusion-Transfer against literal versions and worked examples."""

import itertools
import sys

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import coassociation
from random_ensembles import noisy
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

import gpu_consensus as gpc
from gpu_consensus.methods.agglomerate import agglomerate, cut

pytestmark = pytest.mark.every_backend

E1 = gpc.Ensemble.from_partitions(oracles.worked(oracles.E1))
E2 = gpc.Ensemble.from_partitions(oracles.worked(oracles.E2))


def same(labels, expected):
    return oracles.canonical(labels) == oracles.canonical(expected)


def pair_cost(labels, consensus, weights):
    """Correlation cost: pairs that one joins and the other parts, by weight."""
    cost, total = 0.0, 0.0
    for l, m in itertools.combinations(range(len(labels)), 2):
        for i, w in enumerate(weights):
            if labels[l, i] >= 0 and labels[m, i] >= 0:
                together = labels[l, i] == labels[m, i]
                cost += w * (together != (consensus[l] == consensus[m]))
                total += w
    return cost, total


def small(seed, n=12, r=5, missing=0.0):
    return gpc.Ensemble(noisy(seed, n=n, r=r, missing=missing)[0])


WEIGHTS = np.array([0.11, 0.31, 0.17, 0.28, 0.13])


@pytest.mark.parametrize(
    ("ens", "k", "centres", "expected", "cost"),
    [
        (E1, 2, [0, 4], "11112222", 3.5),
        (E1, 3, [0, 4, 3], "11123333", 4.0),
        (E2, 2, [0, 4], "111222221", 13.4),
        (E2, 3, [0, 4, 6], "111222333", 6.0),
        (E1, None, [0, 4], "11112222", 3.5),
    ],
)
def test_furthest_worked_examples(ens, k, centres, expected, cost):
    result = gpc.furthest(ens, k)
    assert result.details["centres"].tolist() == centres
    assert same(result.labels, expected)
    assert result.objective == pytest.approx(cost, rel=1e-12)
    if k is None:
        assert result.history == pytest.approx([17.5, 3.5, 4.0])


def literal_furthest(distance, k):
    """All pairs, then one centre after another; ties to the lowest index."""
    n = len(distance)
    pairs = list(itertools.combinations(range(n), 2))
    centres = list(max(pairs, key=lambda p: distance[p]))[:k]
    while len(centres) < k:
        others = [l for l in range(n) if l not in centres]
        centres.append(max(others, key=lambda l: min(distance[l, c] for c in centres)))
    return [
        centres.index(l)
        if l in centres
        else min(range(k), key=lambda c: distance[l, centres[c]])
        for l in range(n)
    ]


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.5]), st.booleans())
@settings(max_examples=40)
def test_furthest_is_the_literal_algorithm(seed, missing, weighted):
    ens = small(seed, missing=missing)
    weights = WEIGHTS if weighted else np.full(5, 0.2)
    if len(np.unique(ens.labels, axis=0)) < len(ens.labels):
        return  # among equal objects the first is the centre, whatever the others
    options = {"weights": weights} if weighted else {}
    distance = 1.0 - coassociation(ens.labels, weights)
    # sums of weights in another order may differ in the last digit
    distance = distance.round(12)
    for k in (2, 3, 5):
        result = gpc.furthest(ens, k, **options)
        if not weighted:
            assert same(result.labels, literal_furthest(distance, k))
        cost, total = pair_cost(ens.labels, result.labels, weights)
        assert result.objective == pytest.approx(cost)
        assert result.value == pytest.approx(1 - cost / total)
        assert result.n_clusters == k


def test_furthest_beyond_the_exact_search(monkeypatch):
    monkeypatch.setattr(sys.modules["gpu_consensus.methods.furthest"], "EXACT_ROWS", 10)
    labels, truth = noisy(4, n=200, r=30)
    result = gpc.furthest(labels, 3)
    a, b = result.details["centres"][:2]
    distance = 1.0 - coassociation(gpc.Ensemble(labels).labels, np.full(30, 1 / 30))
    assert a < b
    assert distance[a, b] >= max(distance[a].max(), distance.max() - 0.1)
    assert gpc.metrics.adjusted_rand(truth, result.labels) > 0.3
    order = np.random.default_rng(0).permutation(200)
    again = gpc.furthest(labels[order], 2).details["centres"]
    assert distance[tuple(order[again])] == distance[a, b]


def test_furthest_finds_the_first_pair_in_any_block(monkeypatch):
    labels, _ = noisy(9, n=40, r=6)
    whole = gpc.furthest(labels, 4)
    monkeypatch.setattr("gpu_consensus.loop.pairs._TILE", 90)
    cut_up = gpc.furthest(labels, 4)
    assert np.array_equal(whole.details["centres"], cut_up.details["centres"])
    assert np.array_equal(whole.labels, cut_up.labels)


@pytest.mark.parametrize(
    ("ens", "k", "expected"),
    [
        (E1, 2, "11112222"),
        (E2, 2, "111222222"),
        (E2, 3, "111222333"),
    ],
)
def test_hac_worked_examples(ens, k, expected):
    assert same(gpc.hac(ens, k).labels, expected)


@pytest.mark.parametrize("method", ["average", "single", "complete"])
@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_hac_is_scipys_linkage_of_all_objects(method, missing):
    compared = 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        rows = rng.integers(8, size=25)  # duplicates: scipy gets them one by one
        rows[:8] = np.arange(8)
        labels = rng.integers(3, size=(8, 20))
        labels[rng.random((8, 20)) < missing] = -1
        ens = gpc.Ensemble(labels[rows])
        weights = rng.dirichlet(np.ones(20))  # no two sums of weights are equal
        distance = 1.0 - coassociation(ens.labels, weights)
        np.fill_diagonal(distance, 0.0)
        if len(np.unique(distance[:8, :8].round(9))) < 1 + 8 * 7 // 2:
            continue  # a tie after all
        compared += 1
        tree = linkage(squareform(distance, checks=False), method)
        result = gpc.hac(ens, 3, linkage=method, weights=weights)
        assert tree[:17, 2] == pytest.approx(np.zeros(17), abs=1e-12)
        assert result.details["heights"] == pytest.approx(tree[17:, 2], abs=1e-12)
        assert same(result.labels, fcluster(tree, 3, "maxclust"))
    assert compared >= 8


def literal_hac(similarity, k, method):
    """Greedy over all pairs of clusters, the first of equals."""
    clusters = [[l] for l in range(len(similarity))]
    join = {"average": np.mean, "single": np.max, "complete": np.min}[method]
    while len(clusters) > k:
        a, b = max(
            itertools.combinations(range(len(clusters)), 2),
            key=lambda p: join(similarity[np.ix_(clusters[p[0]], clusters[p[1]])]),
        )
        clusters[a] += clusters.pop(b)
    labels = np.empty(len(similarity), dtype=int)
    for k, members in enumerate(clusters):
        labels[members] = k
    return labels


@given(st.integers(0, 10**6), st.sampled_from(["average", "single", "complete"]))
@settings(max_examples=30)
def test_hac_breaks_ties_by_the_first_pair(seed, method):
    ens = small(seed, n=10, r=4)  # few partitions: nearly every merge is a tie
    if len(np.unique(ens.labels, axis=0)) < 10:
        return
    # the mean of counts in quarters is exact enough to compare
    similarity = coassociation(ens.labels, np.full(4, 0.25))
    for k in (2, 3, 5):
        result = gpc.hac(ens, k, linkage=method)
        assert same(result.labels, literal_hac(similarity, k, method))
        cost, _ = pair_cost(ens.labels, result.labels, np.full(4, 0.25))
        assert result.objective == pytest.approx(cost)


@given(st.integers(0, 10**6), st.sampled_from(["average", "sum", "single", "complete"]))
@settings(max_examples=40)
def test_agglomerate_takes_the_first_of_the_most_alike(seed, method):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 14))
    matrix = rng.integers(-3, 4, size=(m, m)).astype(float)
    matrix += matrix.T
    sizes = rng.integers(1, 4, size=m)
    if method == "average":
        matrix *= sizes * sizes[:, None]
    join = {"average": np.sum, "sum": np.sum, "single": np.max, "complete": np.min}
    clusters = [[l] for l in range(m)]
    expected = []

    def score(p):
        a, b = clusters[p[0]], clusters[p[1]]
        found = join[method](matrix[np.ix_(a, b)])
        return (
            found / (sizes[a].sum() * sizes[b].sum()) if method == "average" else found
        )

    while len(clusters) > 1:
        a, b = max(itertools.combinations(range(len(clusters)), 2), key=score)
        expected.append((clusters[a][0], clusters[b][0], score((a, b))))
        clusters[a] += clusters.pop(b)
    found = agglomerate(matrix.copy(), sizes, method)
    assert [(m.into, m.gone) for m in found] == [e[:2] for e in expected]
    assert [m.score for m in found] == pytest.approx([e[2] for e in expected])


def test_agglomerate_goes_on_when_classes_are_left_out():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(300, 2))
    distance = np.linalg.norm(points[:, None] - points, axis=2)
    merges = agglomerate(-distance.copy(), np.ones(300), "average")
    tree = linkage(squareform(distance, checks=False), "average")
    assert [-m.score for m in merges] == pytest.approx(tree[:, 2])
    labels = cut(merges[: 300 - 7], 300)
    assert same(labels, fcluster(tree, 7, "maxclust"))


def scores(labels, threshold, weights):
    w = coassociation(labels, weights) - threshold
    np.fill_diagonal(w, 0.0)
    return w


def literal_fusion_transfer(w, rule):
    """Objects one by one, all classes compared every time."""
    classes = [[l] for l in range(len(w))]

    def alike(p):
        block = w[np.ix_(classes[p[0]], classes[p[1]])]
        return block.mean() if rule == "average" else block.sum()

    while len(classes) > 2:
        a, b = max(itertools.combinations(range(len(classes)), 2), key=alike)
        if alike((a, b)) < 0:
            break
        classes[a] += classes.pop(b)
    own = np.empty(len(w), dtype=int)
    for k, members in enumerate(classes):
        own[members] = k
    while True:
        used = sorted(set(own.tolist()))
        gains = []
        for l in range(len(w)):
            var = {k: w[l, own == k].sum() for k in used}
            others = {k: v for k, v in var.items() if k != own[l]}
            target, top = max(own) + 1, 0.0
            for k, v in others.items():
                if v > top or (v == top and target > max(own)):
                    target, top = k, v
            gains.append((top - var[own[l]], target))
        l = max(range(len(w)), key=lambda l: gains[l][0])
        if gains[l][0] <= 0:
            return own
        own[l] = gains[l][1]


def score(w, labels):
    joined = labels[:, None] == labels
    return w[joined].sum() / 2


@pytest.mark.parametrize("rule", ["average", "sum"])
@pytest.mark.parametrize(
    ("ens", "expected", "best"), [(E1, "11112222", 14), (E2, "111222333", 10.5)]
)
def test_fusion_transfer_worked_examples(ens, expected, best, rule):
    result = gpc.fusion_transfer(ens, rule=rule)
    assert same(result.labels, expected)
    assert result.value * ens.n_partitions == pytest.approx(best, rel=1e-12)
    assert result.objective == -result.value
    w = scores(ens.labels, 0.5, ens.weights)
    if ens is E1:
        profile = [score(w, ens.labels[:, i]) * 4 for i in range(4)]
        assert profile == pytest.approx([14, 9, 12, 11])


@given(st.integers(0, 10**6), st.sampled_from(["average", "sum"]))
@settings(max_examples=40)
def test_fusion_transfer_is_the_literal_algorithm(seed, rule):
    labels = noisy(seed, n=14, r=4)[0]
    ens = gpc.Ensemble(np.unique(labels, axis=0))
    w = scores(ens.labels, 0.5, ens.weights) * 4  # halves: sums are exact
    expected = literal_fusion_transfer(w, rule)
    result = gpc.fusion_transfer(ens, rule=rule)
    assert same(result.labels, expected)
    assert result.value * 4 == pytest.approx(score(w, result.labels))
    assert (np.diff(result.history) < 0).all()


@given(st.integers(0, 10**6), st.sampled_from([0.3, 0.5]), st.booleans())
@settings(max_examples=40)
def test_fusion_transfer_ends_where_no_object_gains(seed, threshold, weighted):
    ens = small(seed, n=20, missing=0.4)
    ens = ens.subset(rows=np.random.default_rng(seed).integers(20, size=30))
    weights = WEIGHTS if weighted else np.full(5, 0.2)
    result = gpc.fusion_transfer(ens, threshold=threshold, weights=weights)
    w = scores(ens.labels, threshold, weights)
    assert result.value == pytest.approx(score(w, result.labels), abs=1e-9)
    assert (np.diff(result.history) < 1e-12).all()
    for l in range(30):
        at = [w[l, result.labels == k].sum() for k in range(result.n_clusters)]
        assert max([0.0, *at]) <= at[result.labels[l]] + 1e-8
    rows = {tuple(row): k for row, k in zip(ens.labels, result.labels, strict=True)}
    assert all(
        rows[tuple(row)] == k for row, k in zip(ens.labels, result.labels, strict=True)
    )


@pytest.mark.parametrize("rule", ["average", "sum"])
def test_rounding_is_no_gain_under_any_threshold(rule):
    # thirds: sums that are 0 come out as 0 only up to rounding
    rng = np.random.default_rng(1)
    for _ in range(60):
        n, r = rng.integers(6, 30), rng.choice([2, 4, 5, 10])
        labels = np.unique(rng.integers(3, size=(n, r)), axis=0)
        w = np.rint(3 * r * scores(labels, 1 / 3, np.full(r, 1 / r)))
        result = gpc.fusion_transfer(labels, threshold=1 / 3, rule=rule)
        assert (np.diff(result.history) < -1e-6).all()
        if rule == "average":  # of sums, many tie and rounding chooses
            assert same(result.labels, literal_fusion_transfer(w, rule))


def test_a_lower_threshold_gives_fewer_classes():
    labels, _ = noisy(7, n=60, r=10)
    found = [gpc.fusion_transfer(labels, threshold=t).n_clusters for t in (0.2, 0.5)]
    assert found[0] < found[1]


@pytest.mark.parametrize(("method", "need"), [("hac", 392), ("fusion_transfer", 592)])
def test_too_many_objects_are_refused_before_any_work(method, need):
    rng = np.random.default_rng(0)
    labels = rng.integers(9, size=(5000, 12))
    arguments = (2,) if method == "hac" else ()
    message = f"{method} of 5000 objects .* needs {need}.* MB .*; use kcc"
    with pytest.raises(MemoryError, match=message):
        gpc.METHODS[method](labels, *arguments, memory_limit=10**8)
    # equal objects count once
    few = np.repeat(labels[:50], 100, axis=0)
    assert gpc.METHODS[method](few, *arguments, memory_limit=10**6).n_clusters >= 2


@pytest.mark.parametrize(
    ("method", "bars"),
    [
        ("furthest", ["furthest: pairs"]),
        ("hac", ["hac: pairs", "merge"]),
        ("fusion_transfer", ["fusion_transfer: pairs", "merge", "transfer"]),
    ],
)
def test_work_on_all_pairs_draws_bars(method, bars, capsys, told_at_once):
    labels, _ = noisy(4, n=30, r=5)
    gpc.consensus(
        labels, None if method == "fusion_transfer" else 3, method, progress=True
    )
    said = capsys.readouterr().err
    for bar in bars:
        assert bar in said


def test_wrong_options_are_named():
    with pytest.raises(ValueError, match="linkage='ward' is unknown"):
        gpc.hac(E1, 2, linkage="ward")
    with pytest.raises(ValueError, match="rule='mean' is unknown"):
        gpc.fusion_transfer(E1, rule="mean")
    with pytest.raises(ValueError, match=r"threshold=1\.5 should be a number in"):
        gpc.fusion_transfer(E1, threshold=1.5)
    with pytest.raises(TypeError, match="n_clusters=3 is of no use to method"):
        gpc.consensus(E1, 3, "fusion_transfer")
