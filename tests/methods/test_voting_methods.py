"""Vote, Borda, correspondence and best against literal versions and examples."""

import functools
import itertools
import sys
import warnings

import numpy as np
import oracles
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from random_ensembles import noisy

import gpu_consensus as gpc
from gpu_consensus.methods.alignment import match
from gpu_consensus.methods.call import open_task
from gpu_consensus.methods.correspondence import Labels, _leading, _Search

pytestmark = pytest.mark.every_backend

E1 = gpc.Ensemble.from_partitions(oracles.worked(oracles.E1))
E2 = gpc.Ensemble.from_partitions(oracles.worked(oracles.E2))
FEWER = "ignore:.*the others have no object:UserWarning"


def same(labels, expected):
    return oracles.canonical(labels) == oracles.canonical(expected)


def one_hot(column, width):
    return (np.asarray(column)[:, None] == np.arange(width)).astype(float)


def matchings(k_i, width):
    """All ways to give every label a column of its own."""
    return itertools.permutations(range(width), k_i)


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 4))
def test_match_adds_up_to_the_most(seed, n_rows, n_columns):
    overlap = np.random.default_rng(seed).integers(5, size=(n_rows, n_columns))
    columns = match(overlap)
    assert len(set(columns.tolist())) == n_rows
    padded = np.pad(overlap, ((0, 0), (0, max(0, n_rows - n_columns))))
    worth = [
        sum(padded[j, c] for j, c in enumerate(p))
        for p in matchings(n_rows, padded.shape[1])
    ]
    assert padded[np.arange(n_rows), columns].sum() == max(worth)


def test_vote_worked_examples():
    votes = gpc.vote(E1).details["votes"]
    rows = [(1, 0, 0)] * 2 + [(0.75, 0, 0.25), (0.5, 0.25, 0.25)]
    rows += [(0, 1, 0)] * 3 + [(0, 0.75, 0.25)]
    assert votes == pytest.approx(np.array(rows))
    result = gpc.vote(E2)
    rows = "8002 a000 6400 2800 0820 0640 00a0 00a0 0082"
    expected = [[int(x, 16) / 10 for x in row] for row in rows.split()]
    assert result.details["votes"] == pytest.approx(np.array(expected))
    assert same(result.labels, "111222333")
    with pytest.warns(UserWarning, match="the others have no object"):
        assert same(gpc.vote(E1, 3).labels, "11112222")
    # obj 9 in another order: the order matters, as the paper says
    other = E2.subset(partitions=[3, 2, 1, 0, 4])
    assert same(gpc.vote(other).labels[:8], "11122233")


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.3]), st.sampled_from([None, 2]))
@settings(max_examples=40)
def test_vote_is_the_literal_algorithm(seed, missing, k):
    """P = (1 - 1/m) P + U/m with the best matching of all; None if that is not one."""
    labels = np.random.default_rng(seed).integers([2, 3, 4, 3], size=(25, 4))
    labels[np.random.default_rng(seed + 1).random((25, 4)) < missing] = -1
    labels[:, 0] = np.maximum(labels[:, 0], 0)
    ens = gpc.Ensemble(labels)
    width = int(ens.n_labels.max())
    votes = np.zeros((25, width if k is None else k))
    for i in range(4):
        u = one_hot(ens.labels[:, i], width)
        if i == 0:
            order = np.argsort(-u.sum(axis=0), kind="stable")
            u = u[:, order]
        else:
            worth = {}
            whole = np.pad(votes, ((0, 0), (0, width - votes.shape[1])))
            for p in itertools.permutations(range(width)):
                worth[p] = round(float((whole * u[:, p]).sum()), 9)
            best = [p for p in worth if worth[p] == max(worth.values())]
            ways = {u[:, p][:, : votes.shape[1]].tobytes() for p in best}
            if len(ways) > 1:
                return
            u = u[:, best[0]]
        if k is not None:
            kept = u[:, :k]
            u = kept + (u.sum(axis=1) - kept.sum(axis=1))[:, None] / k
        votes += u
    result = gpc.vote(ens, k)
    assert result.details["votes"] == pytest.approx(
        votes / votes.sum(axis=1, keepdims=True)
    )


def test_random_order_is_seeded():
    labels, _ = noisy(3, n=80, r=9)
    first, again = (gpc.vote(labels, order="random", random_state=4) for _ in range(2))
    assert np.array_equal(first.labels, again.labels)
    found = {
        gpc.vote(labels, order="random", random_state=s).objective for s in range(8)
    }
    assert len(found) > 1


def test_borda_worked_example():
    result = gpc.borda(E2)
    points = result.details["points"]
    assert points[0].tolist() == [18, 10, 10, 12]
    assert points[2].tolist() == [16, 14, 10, 10]
    assert points[5].tolist() == [10, 16, 14, 10]
    assert same(result.labels, "111222333")
    assert same(gpc.borda(E2, 3).labels, "111222333")
    assert same(gpc.borda(E1, 2).labels, "11112222")


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.3]))
@settings(max_examples=40)
def test_borda_ranks_and_points(seed, missing):
    """Rank every row of the aligned memberships; tied ranks share their points."""
    from scipy.stats import rankdata

    rng = np.random.default_rng(seed)
    labels = rng.integers([3, 2, 4, 3], size=(25, 4))
    labels[rng.random((25, 4)) < missing] = -1
    labels[:, 0] = np.maximum(labels[:, 0], 0)
    ens = gpc.Ensemble(labels)
    width = int(ens.n_labels.max())
    reference = one_hot(ens.labels[:, 0], width)
    points = np.zeros((25, width))
    for i in range(4):
        u = one_hot(ens.labels[:, i], width)
        worth = {
            p: (reference * u[:, p]).sum() for p in itertools.permutations(range(width))
        }
        best = [p for p in worth if worth[p] == max(worth.values())]
        if len({u[:, p].tobytes() for p in best}) > 1:
            return
        points += rankdata(u[:, best[0]], axis=1)
    result = gpc.borda(ens)
    assert result.details["points"] == pytest.approx(points)
    # a tie of points: the first
    assert same(result.labels, points.argmax(axis=1))


def test_borda_without_a_partition_of_that_size_takes_the_vote():
    labels, truth = noisy(5, n=90, r=12)  # partitions of 6 labels
    ens = gpc.Ensemble(labels)
    assert 3 not in ens.n_labels
    result = gpc.borda(ens, 3)
    assert result.n_clusters == 3
    assert gpc.metrics.adjusted_rand(truth, result.labels) > 0.5


@pytest.mark.parametrize("method", ["vote", "borda"])
def test_votes_that_count_twice_are_two_partitions(method):
    labels, _ = noisy(6, n=60, r=5, missing=0.2)
    function = gpc.METHODS[method]
    weighted = function(labels, weights=[1, 2, 1, 3, 1])
    repeated = function(labels[:, [0, 1, 1, 2, 3, 3, 3, 4]])
    share = [weighted, repeated]
    assert share[0].value == pytest.approx(share[1].value)
    assert np.array_equal(weighted.labels, repeated.labels)


def test_correspondence_of_the_papers_example():
    a, b = [1, 1, 2, 3, 2, 2, 1, 3, 3], [2, 2, 3, 1, 1, 3, 2, 1, 1]
    ens = gpc.Ensemble.from_partitions([a, b])
    for variant in ("constrained", "unconstrained"):
        first, second = gpc.correspondence(ens, 3, variant).details["meta"]
        assert first[0] == second[1]
        assert first[1] == second[2]
        assert first[2] == second[0]


def meta_sets(result):
    """Meta-clusters as sets of "partition.label", from 1."""
    found = {}
    for i, part in enumerate(result.details["meta"], start=1):
        for j, c in enumerate(part, start=1):
            found.setdefault(int(c), set()).add(f"{i}.{j}")
    return {frozenset(members) for members in found.values()}


def shares(ens, meta, number):
    """Votes of an object (from 1) for the meta-clusters, in the order of p1 or p3."""
    reference = 0 if ens is E2 else 2
    votes = [meta[i][j] for i, j in enumerate(ens.labels[number - 1])]
    return [np.mean(np.equal(votes, c)) for c in meta[reference]]


@pytest.mark.filterwarnings(FEWER)
def test_correspondence_worked_examples():
    # partitions 3 and 4 have three labels; the start from 3 is the one worked out
    ccc = gpc.correspondence(E1, 3)
    expected = ["1.1 2.1 3.1 4.2", "3.2 4.3", "1.2 2.2 3.3 4.1"]
    assert meta_sets(ccc) == {frozenset(members.split()) for members in expected}
    assert same(ccc.labels, "11113333")
    assert ccc.n_clusters == 2
    assert shares(E1, ccc.details["meta"], 4) == pytest.approx([0.5, 0.25, 0.25])
    assert shares(E1, ccc.details["meta"], 8) == pytest.approx([0, 0.25, 0.75])
    ccu = gpc.correspondence(E1, 3, "unconstrained")
    assert same(ccu.labels, "11113333")
    task = open_task("test", E1, 3)
    search = _Search(task, Labels(task), is_constrained=False)
    search.run(2, max_iter=100)  # from partition 3
    meta = np.split(search.meta, np.cumsum(E1.n_labels)[:-1])
    assert shares(E1, meta, 8) == pytest.approx([0, 0, 1])
    for variant in ("constrained", "unconstrained", "svd"):
        result = gpc.correspondence(E2, 3, variant, random_state=0)
        assert same(result.labels, "111222333")
        if variant != "svd":
            meta = result.details["meta"]
            assert shares(E2, meta, 3) == pytest.approx([0.6, 0.4, 0])
            assert shares(E2, meta, 6) == pytest.approx([0, 0.6, 0.4])
            assert shares(E2, meta, 9) == pytest.approx([0.2, 0, 0.8])
    for ens, values in (
        (E1, [3.8853, 3.5062, 1.5985, 1.2002, 0.7841]),
        (E2, [4.1184, 3.5598, 3.0216, 1.6526, 1.2334, 1.0316, 0.7707, 0.5706]),
    ):
        labels = Labels(open_task("test", ens, 2))
        found = np.sqrt(np.linalg.eigvalsh(labels.common)[::-1][: len(values)])
        assert found == pytest.approx(values, abs=5e-5)


def worth(common, meta, weight):
    """Sum over labels of the mean number of objects shared with their meta-cluster."""
    total = 0.0
    for a, c in enumerate(meta):
        members = np.flatnonzero(meta == c)
        mean = np.average(common[a, members], weights=weight[members])
        total += weight[a] * mean
    return total


@given(st.integers(0, 10**6), st.booleans(), st.booleans())
@example(12, True, False)  # the seed is worth more than all that the search finds
@settings(max_examples=25)
def test_correspondence_ends_at_a_best_reply(seed, constrained, weighted):
    labels, _ = noisy(seed, n=40, r=4, missing=0.2)
    weights = np.array([0.1, 0.4, 0.3, 0.2]) if weighted else np.full(4, 0.25)
    ens = gpc.Ensemble(labels)
    variant = "constrained" if constrained else "unconstrained"
    result = gpc.correspondence(ens, 3, variant, weights=weights)
    x = np.hstack([one_hot(ens.labels[:, i], k) for i, k in enumerate(ens.n_labels)])
    common, weight = x.T @ x, np.repeat(weights, ens.n_labels)
    meta = np.concatenate(result.details["meta"])
    total = (weight * np.diag(common)).sum()
    found = worth(common, meta, weight)
    assert result.value == pytest.approx(found / total)
    assert result.objective == pytest.approx(total - found)
    assert (np.diff(result.history) <= 1e-9).all()
    votes = x @ (weight[:, None] * one_hot(meta, 3))
    chosen = votes[np.arange(40), meta_of(result, votes)]
    assert chosen == pytest.approx(votes.max(axis=1), rel=1e-6)
    if constrained:
        for i, part in enumerate(result.details["meta"]):
            assert len(set(part.tolist())) == min(3, ens.n_labels[i])


def test_correspondence_takes_the_smallest_weights_alike_everywhere():
    """Devices take subnormal numbers for 0; the others must, or labels differ."""
    labels = np.tile(np.arange(30)[:, None] % 3, (1, 3))
    labels[:5, :2] = -1
    found = gpc.correspondence(labels, 3, weights=[1, 1, 1e-20], random_state=0)
    assert (found.labels[:5] == found.labels[15:20]).all()
    found = gpc.correspondence(labels, 3, weights=[1, 1, 1e-40], random_state=0)
    assert (found.labels[:5] == 0).all()


def meta_of(result, votes):
    """The column behind each label of the result: clusters without object are gone."""
    used = np.unique(votes.argmax(axis=1))
    return used[result.labels]


def test_singular_vectors_by_lanczos_span_the_same_space(monkeypatch):
    rng = np.random.default_rng(0)
    labels, _ = noisy(2, n=200, r=20)
    gram = Labels(open_task("test", labels, 3)).common
    dense = _leading(gram, 4)
    monkeypatch.setattr(
        sys.modules["gpu_consensus.methods.correspondence"], "_DENSE", 0
    )
    sparse = _leading(gram, 4)
    x = rng.normal(size=len(gram))
    assert dense @ (dense.T @ x) == pytest.approx(sparse @ (sparse.T @ x), abs=1e-8)


MEASURES = [
    "adjusted_rand",
    "nmi",
    "purity",
    "accuracy",
    "variation_of_information",
    "van_dongen",
    "rand_distance",
]


def test_best_worked_examples():
    result = gpc.best(E1)
    pairs = 8 * 7 / 2
    assert result.details["criterion"] * pairs == pytest.approx([3.5, 6, 4.5, 5])
    assert result.details["partition"] == 0
    result = gpc.best(E2)
    assert result.details["criterion"] * 36 == pytest.approx([6, 7.4, 10.2, 8.2, 6.6])


@pytest.mark.parametrize("measure", MEASURES)
def test_best_is_the_best_of_the_criterion(measure):
    labels, _ = noisy(3, n=50, r=8)
    ens = gpc.Ensemble(labels)
    values = [
        gpc.metrics.consensus_criterion(ens, labels[:, i], measure) for i in range(8)
    ]
    lower = measure in MEASURES[4:]
    result = gpc.best(ens, measure)
    assert result.details["partition"] == (np.argmin if lower else np.argmax)(values)
    assert result.details["criterion"] == pytest.approx(values)
    assert result.value == pytest.approx(-min(values) if lower else max(values))
    assert result.objective == -result.value
    assert same(result.labels, ens.labels[:, result.details["partition"]])


def test_best_by_a_measure_of_ones_own():
    labels, _ = noisy(3, n=50, r=8, missing=0.2)
    named = gpc.best(labels, "van_dongen")
    own = gpc.best(
        labels, lambda a, b: gpc.metrics.van_dongen(a, b), higher_is_better=False
    )
    assert own.details["criterion"] == pytest.approx(named.details["criterion"])
    assert np.array_equal(own.labels, named.labels)
    scaled = functools.partial(gpc.metrics.van_dongen, normalised=True)
    assert gpc.best(labels, scaled, higher_is_better=False).objective > 0


@pytest.mark.parametrize("measure", MEASURES)
def test_best_knows_the_direction_of_our_functions(measure):
    labels, _ = noisy(3, n=50, r=8)
    named = gpc.best(labels, measure)
    given_as_function = gpc.best(labels, getattr(gpc.metrics, measure))
    assert given_as_function.details["partition"] == named.details["partition"]
    assert given_as_function.value == named.value


def test_best_takes_any_callable_but_no_nan():
    class Own:
        __hash__ = None

        def __call__(self, a, b):
            return gpc.metrics.nmi(a, b)

    labels, _ = noisy(3, n=50, r=8)
    assert gpc.best(labels, Own()).value == gpc.best(labels, "nmi").value
    with pytest.raises(ValueError, match=r"measure=.* returned nan; it should return"):
        gpc.best(labels, lambda a, b: float("nan"))


def test_best_completes_partitions_by_the_rule_of_predict():
    labels, _ = noisy(4, n=80, r=10, missing=0.5)
    weights = np.linspace(1, 2, 10)
    weights[3] = 0
    result = gpc.best(labels, weights=weights)
    i = result.details["partition"]
    assert np.isnan(result.details["criterion"]).tolist() == [n == 3 for n in range(10)]
    codes = gpc.Ensemble(labels).labels[:, i]
    here = codes >= 0
    assert same(result.labels[here], codes[here])
    assert (result.labels >= 0).all()
    # share of each cluster's members that carry an object's label, over partitions
    ens = gpc.Ensemble(labels).labels
    for l in np.flatnonzero(~here):
        score = np.zeros(codes.max() + 1)
        for p in range(10):
            if ens[l, p] >= 0:
                for k in range(len(score)):
                    members = ens[here & (codes == k) & (ens[:, p] >= 0), p]
                    if not len(members):
                        members = ens[ens[:, p] >= 0, p]
                    score[k] += weights[p] * np.mean(members == ens[l, p])
        k = codes[here & (result.labels == result.labels[l])][0]
        assert score[k] == pytest.approx(score.max(), rel=1e-5)
    criterion = [
        gpc.metrics.rand_distance(labels[:, p], result.labels) for p in range(10)
    ]
    assert result.objective == pytest.approx(np.average(criterion, weights=weights))


def test_objects_without_labels_keep_their_place():
    labels = noisy(2, n=30, r=5)[0].astype(float)
    labels[[4, 17]] = np.nan
    for method in ("vote", "cvote", "borda"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = gpc.METHODS[method](labels, 3, on_unlabelled="keep")
        assert np.flatnonzero(result.labels == -1).tolist() == [4, 17]
        table = result.details["points" if method == "borda" else "votes"]
        assert table.shape[0] == 30
        assert not table[[4, 17]].any()


def test_wrong_options_are_named():
    with pytest.raises(ValueError, match="variant='ccc' is unknown"):
        gpc.correspondence(E1, 2, "ccc")
    with pytest.raises(ValueError, match="n_init=0 should be >= 1"):
        gpc.correspondence(E1, 2, n_init=0)
    with pytest.raises(MemoryError, match=r"of 10 labels needs 2\.4 kB .*; use kcc"):
        gpc.correspondence(E1, 2, memory_limit=1000)
    with pytest.raises(ValueError, match="order='sorted' is unknown"):
        gpc.vote(E1, order="sorted")
    with pytest.raises(ValueError, match="measure='ari' is unknown"):
        gpc.best(E1, "ari")


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.4]))
@settings(max_examples=20)
def test_value_is_the_share_of_labels_that_agree(seed, missing):
    """Count again with the alignment that the points of Borda tell."""
    ens = gpc.Ensemble(noisy(seed, n=30, r=6, missing=missing)[0])
    result = gpc.borda(ens)
    k = result.details["points"].shape[1]
    present = (ens.labels >= 0).sum(axis=1)
    # points = k/2 for each label, k/2 more for each vote, (k + 1)/2 where there is none
    points = result.details["points"].max(axis=1) - (6 - present) * (k + 1) / 2
    votes = (points - present * k / 2) / (k / 2)
    assert result.value == pytest.approx(votes.sum() / present.sum())
    assert result.objective == pytest.approx((present - votes).sum() / 6)
