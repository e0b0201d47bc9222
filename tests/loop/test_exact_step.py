"""The exact step: true prices, no better move left, one result on every backend."""

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_ensembles import noisy

import gpu_consensus as gpc
from gpu_consensus.backends import choose_backend
from gpu_consensus.backends.host_loops import compiled_loops
from gpu_consensus.backends.segments import Segments
from gpu_consensus.loop.code_blocks import CodeBlocks
from gpu_consensus.loop.exact_step import Refining, half_edge, price_tables, refine
from gpu_consensus.loop.local_rows import LocalRows
from gpu_consensus.loop.starts import Starts
from gpu_consensus.loop.utilities import Utility, parse_utility
from gpu_consensus.methods.kcc import KccRule

pytestmark = pytest.mark.every_backend

FORMULAS = {name: parse_utility(name)[1] for name in ("c", "h", "cos", "l3", "l8")} | {
    "mine": Utility(lambda m: (m**4).sum(-1), lambda m: 4 * m**3).formula()
}


@given(st.integers(0, 10**6), st.sampled_from(sorted(FORMULAS)))
@settings(max_examples=60, deadline=None)
def test_change_is_the_difference_of_totals(seed, name):
    """Entering and leaving, from empty clusters to large ones."""
    rng = np.random.default_rng(seed)
    formula = FORMULAS[name]
    segments = Segments(np.array([0, 4, 7]))
    n = rng.integers(0, 10 ** rng.integers(1, 5), size=(7, 3))
    n[:, 0] = 0
    n[segments.missing] = 0
    before = formula.total(n, segments)
    scale = 1 + np.abs(before).max()
    for i, labels in enumerate(([0, 1, 2], [4, 5])):
        for j in labels:
            for step in (1, -1):
                after = n.copy()
                after[j] += step
                known = after[j] >= 0
                expected = formula.total(np.maximum(after, 0), segments)[i] - before[i]
                found = formula.change(n, segments, step)[j]
                assert np.allclose(found[known], expected[known], atol=1e-11 * scale)


@pytest.mark.parametrize("utility", ["c", "h", "cos", "l3", "mine"])
@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_prices_are_the_changes_of_the_objective(utility, missing):
    """Moving one object changes F by what entering costs minus what staying costs."""
    labels, _ = noisy(1, n=25, r=6, missing=missing)
    ens = gpc.Ensemble(labels)
    rule = KccRule(ens, FORMULAS[utility], ens.weights)
    assignment = np.random.default_rng(0).permutation(np.arange(25) % 4)

    def counted(assignment):
        row = assignment[None].astype(np.uint8)
        return oracles.count(ens.codes, ens.offsets, row, 4)

    counts = counted(assignment)
    sizes = np.bincount(assignment, minlength=4)[None]
    enter, stay = price_tables(rule.refinement, counts, sizes)
    before = rule.objective(counts)[0]
    rows = ens.offsets[:-1, None] + ens.codes
    for l in range(25):
        own = assignment[l]
        for k in {0, 1, 2, 3} - {own}:
            other = assignment.copy()
            other[l] = k
            change = rule.objective(counted(other))[0] - before
            price = enter[rows[:, l], 0, k].sum() - stay[rows[:, l], 0, own].sum()
            assert price == pytest.approx(change, abs=1e-5)


def test_an_object_alone_in_its_cluster_stays():
    labels, _ = noisy(0, n=30, r=6)
    ens = gpc.Ensemble(labels)
    rule = KccRule(ens, FORMULAS["h"], ens.weights)
    backend = choose_backend("auto", None)
    rows = LocalRows(CodeBlocks(backend, ens.codes, ens.offsets), 3, np.empty(0, int))
    first = np.r_[2, np.arange(29) % 2].astype(np.uint8)[None]
    rows.start(first)
    starts = Starts.fresh(1)
    starts.objective[:] = rule.objective(rows.take([0]).counts)
    refine(rows, backend, rule, starts, Refining([0], 100))
    assert np.flatnonzero(rows.labels(0) == 2).size >= 1
    assert (np.diff(starts.history[0]) < 0).all()
    counts = rows.take([0]).counts
    assert rule.objective(counts)[0] == starts.objective[0]


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_the_compiled_prices_give_the_same_bits(missing):
    labels, _ = noisy(1, n=150, r=15, missing=missing)
    for utility in ("c", "h", "ncos", "nl5"):
        results = []
        for use in (False, True):
            with compiled_loops(use):
                result = gpc.kcc(labels, 5, utility, n_init=2, random_state=0)
            results.append((result.labels.tolist(), result.history.tolist()))
        assert results[0] == results[1]


def test_blocks_and_threads_change_nothing():
    labels, _ = noisy(1, n=150, r=15)
    plain = gpc.kcc(labels, 5, n_init=3, random_state=0)
    assert plain.details["refinement"]["steps"] > 0
    for options in ({"memory_limit": 2000}, {"n_jobs": 1}, {"n_jobs": 3}):
        other = gpc.kcc(labels, 5, n_init=3, random_state=0, **options)
        assert np.array_equal(plain.labels, other.labels)
        assert np.array_equal(plain.history, other.history)


@given(st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_an_edge_keeps_at_most_half_and_somebody(seed):
    """Against a plain count of the gains themselves."""
    rng = np.random.default_rng(seed)
    gains = rng.gamma(0.5, size=rng.integers(1, 60)).astype(np.float32)
    gains = np.repeat(gains, rng.integers(1, 4, size=len(gains)))
    bins = np.bincount(gains.view(np.uint32) >> 16, minlength=1 << 15)
    least, moving = np.float32(0), len(gains)
    while (edge := half_edge(bins, least)) is not None:
        kept = int((gains > np.float32(edge)).sum())
        assert 0 < kept <= moving // 2
        assert edge > least
        least, moving = np.float32(edge), kept
    assert len(np.unique(gains[gains > least].view(np.uint32) >> 16)) <= 2


@pytest.mark.parametrize("utility", ["c", "h", "cos", "l8", "nh"])
def test_no_single_move_is_left(utility):
    labels, _ = noisy(2, n=40, r=8, missing=0.2)
    ens = gpc.Ensemble(labels)
    result = gpc.kcc(ens, 4, utility, random_state=0)
    for l in range(40):
        if np.sum(result.labels == result.labels[l]) == 1:
            continue
        for k in range(4):
            other = result.labels.copy()
            other[l] = k
            objective, _ = oracles.kcc_objective_and_value(
                ens.labels, other, ens.weights, utility
            )
            assert objective >= result.objective * (1 - 1e-10)


def test_refinement_only_lowers_the_objective_and_keeps_k_clusters():
    lower = 0
    for seed in range(8):
        labels, _ = noisy(seed, n=80, r=10)
        given = {"init": "partition", "n_init": 2, "random_state": seed}
        plain = gpc.kcc(labels, 6, refine=False, **given)
        refined = gpc.kcc(labels, 6, **given)
        winner = gpc.kcc(labels, 6, refine=True, **given)
        assert refined.objective <= winner.objective <= plain.objective
        assert len(np.unique(refined.labels)) == 6
        lower += refined.objective < plain.objective
    assert lower >= 4
