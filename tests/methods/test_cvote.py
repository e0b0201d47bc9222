"""Cumulative voting against a literal version, worked values and its promises."""

import itertools
import math
import tracemalloc
from fractions import Fraction

import numpy as np
import oracles
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_ensembles import noisy

import gpu_consensus as gpc
from gpu_consensus.backends.host_loops import compiled_loops
from gpu_consensus.methods.cumulative import cast
from gpu_consensus.util.arrays import to_host

pytestmark = pytest.mark.every_backend

E1 = gpc.Ensemble.from_partitions(oracles.worked(oracles.E1))
E2 = gpc.Ensemble.from_partitions(oracles.worked(oracles.E2))


def same(labels, expected):
    return oracles.canonical(labels) == oracles.canonical(expected)


def one_hot(column, width):
    return (np.asarray(column)[:, None] == np.arange(width)).astype(float)


def test_cvote_worked_examples():
    result = gpc.cvote(E1)
    assert result.details["order"].tolist() == [2, 3, 0, 1]
    rows = [(0.6389, 0.3611, 0)] * 2 + [(0.3889, 0.6111, 0), (0.2667, 0.5333, 0.2)]
    rows += [(0.0167, 0.0333, 0.95)] * 4
    assert result.details["votes"] == pytest.approx(np.array(rows), abs=5e-5)
    assert same(result.labels, "11223333")
    for reduction in ("aib", "js"):
        merged = gpc.cvote(E1, 2, reduction=reduction)
        assert merged.details["merged"].tolist() == [0, 0, 1]
        assert same(merged.labels, "11112222")
    fixed = gpc.cvote(E1, alignment="fixed").details["votes"]
    rows = [(0.6667, 0.3333, 0)] * 2 + [(0.4167, 0.5833, 0), (0.25, 0.55, 0.2)]
    rows += [(0, 0.05, 0.95)] * 4
    assert fixed == pytest.approx(np.array(rows), abs=5e-5)

    result = gpc.cvote(E2)
    assert result.details["order"].tolist() == [3, 0, 1, 4, 2]
    votes = result.details["votes"]
    assert votes[0] == pytest.approx([0.4821, 0.4580, 0.0589, 0.0010], abs=5e-5)
    assert votes[8] == pytest.approx([0.4188, 0.0069, 0.1396, 0.4347], abs=5e-5)
    assert votes.mean(axis=0) == pytest.approx([2 / 9, 2 / 9, 3 / 9, 2 / 9])
    assert same(result.labels, "122333444")
    merged = gpc.cvote(E2, 3)
    assert merged.objective == pytest.approx(0.1199, abs=5e-5)
    assert same(merged.labels, "111222333")


def js(votes, a, b):
    """Jensen-Shannon divergence of two columns, weighted by their mass, in bits."""
    p = votes.sum(axis=0)
    share = p[[a, b]] / p[[a, b]].sum()
    x, y = votes[:, a] / p[a], votes[:, b] / p[b]

    def entropy(q):
        return -math.fsum(v * math.log2(v) for v in q if v > 0)

    mixed = entropy(share[0] * x + share[1] * y)
    return mixed - share[0] * entropy(x) - share[1] * entropy(y)


def test_divergences_of_the_worked_example():
    votes = gpc.cvote(E1).details["votes"]
    found = [js(votes, *pair) for pair in ((0, 1), (0, 2), (1, 2))]
    assert found == pytest.approx([0.0576, 0.7607, 0.6750], abs=5e-5)


def literal_votes(ens, order, adaptive, weights):
    """U0 after all partitions, by the matrices of the paper."""
    u = [one_hot(ens.labels[:, i], ens.n_labels[i]) for i in order]
    total = reference = u[0]
    heavy = weights[order[0]]
    for i, other in zip(order[1:], u[1:], strict=True):
        w = np.linalg.inv(other.T @ other) @ other.T @ reference
        heavy += weights[i]
        share = weights[i] / heavy
        total = (1 - share) * total + share * (other @ w)
        reference = total if adaptive else reference
    return total


def winners(columns):
    """The column with most votes; no tie may decide."""
    top = np.sort(columns, axis=1)[:, -2:]
    assume(columns.shape[1] == 1 or (np.diff(top) > 1e-7).all())
    return columns.argmax(axis=1)


def n_winners(columns):
    return len(set(np.round(columns, 8).argmax(axis=1).tolist()))


def literal_merges(total, n_clusters, reduction, passes_over=True):
    """Columns after the merges, which went together, and the information lost."""
    n = len(total)
    groups = [[c] for c in range(total.shape[1])]
    columns = total.copy()
    lost = 0.0
    while len(groups) > n_clusters:
        pairs = list(itertools.combinations(range(len(groups)), 2))
        mass = columns.sum(axis=0) / n
        if reduction == "aib":
            cost = [(mass[a] + mass[b]) * js(columns, a, b) for a, b in pairs]
        else:
            cost = [
                np.mean([js(total, x, y) for x in groups[a] for y in groups[b]])
                for a, b in pairs
            ]
        ranked = [pairs[p] for p in np.argsort(np.round(cost, 8), kind="stable")]
        enough = min(n_clusters, n_winners(columns)) if passes_over else 0
        allowed = [
            (a, b) for a, b in ranked if n_winners(added(columns, a, b)) >= enough
        ]
        a, b = (allowed or ranked)[0]
        lost += (mass[a] + mass[b]) * js(columns, a, b)
        groups[a] += groups.pop(b)
        columns = added(columns, a, b)
    return columns, groups, lost


def added(columns, a, b):
    both = columns.copy()
    both[:, a] += both[:, b]
    return np.delete(both, b, axis=1)


@given(
    st.integers(0, 10**6),
    st.sampled_from(["aib", "js"]),
    st.booleans(),
    st.integers(2, 5),
    st.booleans(),
)
@settings(max_examples=40)
def test_cvote_is_the_literal_algorithm(seed, reduction, adaptive, k, weighted):
    rng = np.random.default_rng(seed)
    ens = gpc.Ensemble(rng.integers([5, 3, 4, 6], size=(30, 4)))
    weights = rng.random(4) + 0.5 if weighted else np.ones(4)
    alignment = "adaptive" if adaptive else "fixed"
    result = gpc.cvote(
        ens, k, alignment=alignment, reduction=reduction, weights=weights
    )
    total = literal_votes(ens, result.details["order"], adaptive, weights)
    assert result.details["votes"] == pytest.approx(total, abs=1e-8)
    assert result.details["sampled"] is None
    columns, groups, lost = literal_merges(total, k, reduction)
    merged = np.empty(total.shape[1], dtype=int)
    for c, members in enumerate(groups):
        merged[members] = c
    assert result.details["merged"].tolist() == merged.tolist()
    assert result.labels.tolist() == winners(columns).tolist()
    assert result.objective == pytest.approx(lost, abs=1e-7)
    joint = columns / 30
    entropies = [
        -math.fsum(p * math.log2(p) for p in part.ravel() if p > 0)
        for part in (joint.sum(axis=0), joint.sum(axis=1), joint)
    ]
    information = entropies[0] + entropies[1] - entropies[2]
    assert result.value == pytest.approx(information, abs=1e-7)


@given(st.integers(0, 10**6))
@settings(max_examples=20)
def test_binary_cvote_tries_all_matchings_with_the_average(seed):
    rng = np.random.default_rng(seed)
    ens = gpc.Ensemble(rng.integers([5, 3, 4, 5], size=(40, 4)))
    result = gpc.cvote(ens, alignment="binary")
    order = result.details["order"]
    total = one_hot(ens.labels[:, order[0]], ens.n_labels[order[0]])
    width = total.shape[1]
    for m, i in enumerate(order[1:], start=2):
        k_i = int(ens.n_labels[i])
        other = one_hot(ens.labels[:, i], k_i)
        overlap = np.pad(other.T @ total, ((0, 0), (0, max(0, k_i - width))))
        worth = {}
        for p in itertools.permutations(range(overlap.shape[1]), k_i):
            columns = tuple(c if c < width else -1 for c in p)  # -1: no vote
            worth[columns] = sum(overlap[j, c] for j, c in enumerate(p))
        best = max(worth.values())
        winners = [columns for columns in worth if worth[columns] > best - 1e-9]
        assume(len(winners) == 1)  # of equals, scipy's choice counts
        total = (m - 1) / m * total + other @ one_hot(winners[0], width) / m
    votes = result.details["votes"]
    assert votes == pytest.approx(total)
    assert same(result.labels, votes.argmax(axis=1))


def test_cvote_asks_for_a_large_enough_reference():
    ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [0, 1, 0, 1]])
    with pytest.raises(ValueError, match="n_clusters=3 should be <= 2, the largest"):
        gpc.cvote(ens, 3)
    # the reference has enough labels although another has more entropy
    rows = [[0] * 10 + [1, 2], [0] * 6 + [1] * 6]
    result = gpc.cvote(gpc.Ensemble.from_partitions(rows), 3)
    assert result.details["order"].tolist() == [0, 1]


def test_clusters_that_exist_are_found(auto_backend):
    """As many as were asked for, wherever so many objects differ."""
    for seed in range(36 if auto_backend == "cupy" else 200):
        rng = np.random.default_rng(seed)
        n, r = int(rng.integers(8, 40)), int(rng.integers(1, 7))
        sizes = rng.integers(2, 9, size=r)
        labels = rng.integers(sizes, size=(n, r))
        if seed % 3 == 0:
            labels = np.repeat(labels, 3, axis=0)
        if seed % 4 == 0:
            labels[rng.random(labels.shape) < 0.2] = -1
            labels[(labels < 0).all(axis=1), 0] = 0
        ens = gpc.Ensemble(labels)
        distinct = np.unique(ens.labels, axis=0, return_inverse=True)[1].ravel()
        k = int(min(rng.integers(2, 9), distinct.max() + 1, ens.n_labels.max()))
        options = {
            "alignment": ["adaptive", "fixed", "binary"][seed % 3],
            "reduction": ["aib", "js"][seed % 2],
            "merge_objects": [20_000, 5, 1][seed // 3 % 3],
        }
        result = gpc.cvote(ens, k, random_state=seed, **options)
        assert sorted(set(result.labels.tolist())) == list(range(k))
        # equal objects stay together
        assert len(set(zip(distinct, result.labels.tolist(), strict=True))) == (
            distinct.max() + 1
        )
        started = gpc.kcc(ens, k, init=result.labels, random_state=0)
        assert started.n_clusters == k


def test_labels_of_kept_objects_are_a_start():
    labels = noisy(2, n=30, r=5)[0]
    labels[[4, 17]] = -1
    found = gpc.cvote(labels, 3, on_unlabelled="keep").labels
    result = gpc.kcc(labels, 3, init=found, on_unlabelled="keep")
    assert np.flatnonzero(result.labels < 0).tolist() == [4, 17]


@pytest.mark.parametrize("reduction", ["aib", "js"])
@pytest.mark.parametrize("seed", [2, 6, 10, 16])
def test_a_merge_that_takes_the_objects_of_another_is_passed_over(seed, reduction):
    """Merging the nearest pairs alone would leave one cluster to all objects."""
    rows = np.random.default_rng(seed).integers(4, size=(60, 5))
    total = gpc.cvote(rows).details["votes"]
    plain, _, _ = literal_merges(total, 2, reduction, passes_over=False)
    _, groups, _ = literal_merges(total, 2, reduction)
    result = gpc.cvote(rows, 2, reduction=reduction)
    merged = result.details["merged"]
    assert [np.flatnonzero(merged == c).tolist() for c in range(2)] == [
        sorted(group) for group in groups
    ]
    if reduction == "aib":
        assert n_winners(plain) == 1
    assert result.n_clusters == 2


def test_clusters_without_objects_take_those_that_are_least_sure():
    """With their equals, the first of equals first; one to one votes are whole."""
    n_filled = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n, r, m = rng.integers([8, 2, 3], [30, 7, 8]).tolist()
        rows = np.repeat(rng.integers(m, size=(n, r)), 1 + seed % 2, axis=0)
        k = int(gpc.Ensemble(rows).n_labels.max())
        result = gpc.cvote(rows, k, alignment="binary")
        votes = np.rint(result.details["votes"] * r).astype(int)
        labels = votes.argmax(axis=1)
        share = [Fraction(int(v.max()), int(v.sum())) for v in votes]
        kinds = [row.tobytes() for row in rows]
        for c in sorted(set(range(k)) - set(labels.tolist())):
            several = [
                l
                for l in range(len(rows))
                if len({kinds[x] for x in np.flatnonzero(labels == labels[l])}) > 1
            ]
            least = min(several, key=lambda l: share[l])
            labels[[kind == kinds[least] for kind in kinds]] = c
            n_filled += 1
        assert result.labels.tolist() == labels.tolist()
    assert n_filled > 10


def test_a_sample_decides_and_all_objects_are_labelled():
    labels, truth = noisy(4, n=900, r=9, k=3, missing=0.1)
    ens = gpc.Ensemble(labels)
    result = gpc.cvote(ens, 3, merge_objects=300, random_state=1)
    sampled = result.details["sampled"]
    assert len(sampled) == 300
    assert (np.diff(sampled) > 0).all()
    assert result.details["votes"].shape[0] == 300
    again = gpc.cvote(ens, 3, merge_objects=300, random_state=1)
    assert np.array_equal(again.labels, result.labels)
    assert np.array_equal(again.details["sampled"], sampled)
    other = gpc.cvote(ens, 3, merge_objects=300, random_state=2)
    assert not np.array_equal(other.details["sampled"], sampled)
    found, exact = (
        gpc.metrics.adjusted_rand(truth, one.labels)
        for one in (result, gpc.cvote(ens, 3))
    )
    assert found > exact - 0.05
    # those that decided are labelled by their own votes
    merged = result.details["votes"] @ one_hot(result.details["merged"], 3)
    assert np.array_equal(result.labels[sampled], merged.argmax(axis=1))
    # what labels vote for is learned from all of so few
    assert result.details["voters"] is None
    exact = gpc.cvote(ens, 3)
    assert np.array_equal(result.details["votes"], exact.details["votes"][sampled])


def test_of_many_objects_some_vote_and_some_of_these_decide():
    ens = gpc.Ensemble(noisy(4, n=900, r=9, k=3, missing=0.1)[0])
    result = gpc.cvote(ens, 3, merge_objects=60, random_state=1)
    voters, sampled = result.details["voters"], result.details["sampled"]
    assert (len(voters), len(sampled)) == (300, 60)
    assert set(sampled.tolist()) < set(voters.tolist())
    # the voters vote as they would without the others
    alone = cast(
        to_host(ens.codes)[:, voters],
        ens.n_labels,
        np.ones(9),
        result.details["order"],
        "adaptive",
        keep_tables=True,
    )
    means = alone.votes / alone.weight[:, None]
    where = np.searchsorted(voters, sampled)
    assert np.array_equal(means[where], result.details["votes"])
    # and every object adds up the votes of its labels
    total = sum(t[c] for t, c in zip(alone.tables, to_host(ens.codes), strict=True))
    merged = total @ one_hot(result.details["merged"], 3)
    assert np.array_equal(result.labels, merged.argmax(axis=1))


def test_a_sample_is_the_same_where_the_codes_are(auto_backend):
    ens = gpc.Ensemble(noisy(4, n=90, r=9)[0])
    options = {"merge_objects": 10, "random_state": 0}
    expected = gpc.cvote(ens, 3, backend="numpy", **options)
    found = gpc.cvote(ens.to("cupy") if auto_backend == "cupy" else ens, 3, **options)
    assert found.backend == auto_backend
    assert np.array_equal(to_host(found.labels), expected.labels)
    assert (found.value, found.objective) == (expected.value, expected.objective)


def test_all_objects_are_no_sample():
    labels, _ = noisy(4, n=90, r=9)
    whole, bound = (gpc.cvote(labels, 3, merge_objects=m) for m in (20_000, 90))
    assert bound.details["sampled"] is None
    assert np.array_equal(whole.labels, bound.labels)


@pytest.mark.parametrize("merge_objects", [20_000, 150, 40])
@pytest.mark.parametrize("weighted", [False, True])
def test_no_backend_thread_or_block_changes_a_bit(merge_objects, weighted):
    labels, _ = noisy(8, n=400, r=11, k=4, missing=0.2)
    options = {"merge_objects": merge_objects, "random_state": 3}
    if weighted:
        options["weights"] = np.random.default_rng(0).random(11) + 0.2
    found = gpc.cvote(labels, 4, **options)
    with compiled_loops(False):
        others = [gpc.cvote(labels, 4, backend="numpy", n_jobs=1, **options)]
    others += [gpc.cvote(labels, 4, n_jobs=jobs, **options) for jobs in (1, 2, 3)]
    others += [gpc.cvote(labels, 4, memory_limit=400_000, **options)]
    for other in others:
        assert np.array_equal(other.labels, found.labels)
        assert (other.value, other.objective) == (found.value, found.objective)
        assert np.array_equal(other.details["votes"], found.details["votes"])


def test_votes_that_count_twice_are_two_partitions():
    """With a fixed reference the order of the others means nothing."""
    labels, _ = noisy(6, n=60, r=5, missing=0.2)
    weighted = gpc.cvote(labels, 3, alignment="fixed", weights=[1, 2, 1, 3, 1])
    repeated = gpc.cvote(labels[:, [0, 1, 1, 2, 3, 3, 3, 4]], 3, alignment="fixed")
    assert weighted.value == pytest.approx(repeated.value, abs=1e-7)
    assert np.array_equal(weighted.labels, repeated.labels)


def test_wrong_options_are_named():
    with pytest.raises(ValueError, match="alignment='ada' is unknown"):
        gpc.cvote(E1, 2, alignment="ada")
    with pytest.raises(ValueError, match="merge_objects=0 should be >= 1"):
        gpc.cvote(E1, 2, merge_objects=0)
    with pytest.raises(TypeError, match=r"merge_objects=2\.5 should be an integer"):
        gpc.cvote(E1, 2, merge_objects=2.5)
    with pytest.raises(MemoryError, match=r"cvote needs .*; lower merge_objects"):
        gpc.cvote(E1, 2, memory_limit=10)


def test_cvote_counts_the_votes_of_all_objects():
    labels = np.repeat(np.arange(50), 400)[:, None] * [1, 1]
    tracemalloc.start()
    try:
        gpc.cvote(labels, memory_limit=33 * 10**6)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 33 * 10**6
    with pytest.raises(MemoryError, match=r"cvote needs 32\.1 MB"):
        gpc.cvote(labels, memory_limit=32 * 10**6)
