"""Single-object moves: exact changes, true local optima, one order."""

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_ensembles import noisy

import gpu_consensus as gpc
from gpu_consensus.backends.host_loops import compiled_loops
from gpu_consensus.backends.segments import Segments
from gpu_consensus.loop import refine as refine_module
from gpu_consensus.loop.refine import refine
from gpu_consensus.loop.utilities import Utility, parse_utility

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


def one_by_one(labels, consensus, weights, utility):
    """Visit object after object, trying every cluster with the full objective."""
    consensus = list(consensus)
    n_clusters = max(consensus) + 1

    def objective():
        return oracles.kcc_objective_and_value(labels, consensus, weights, utility)[0]

    current, since_move, l = objective(), 0, 0
    while since_move < len(consensus):
        own = consensus[l]
        since_move += 1
        if consensus.count(own) > 1:
            tried = []
            for k in range(n_clusters):
                consensus[l] = k
                tried.append(objective())
            k = int(np.argmin(tried))
            consensus[l] = own
            if tried[k] < current - 1e-9:
                consensus[l], current, since_move = k, tried[k], 0
        l = (l + 1) % len(consensus)
    return consensus


@pytest.mark.parametrize("utility", ["c", "h", "cos", "l5"])
@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_moves_are_those_of_one_visit_after_another(utility, missing):
    for seed in range(3):
        labels, _ = noisy(seed, n=20, r=5, missing=missing)
        ens = gpc.Ensemble(labels)
        start = np.random.default_rng(seed).permutation(np.arange(20) % 3)
        expected = one_by_one(ens.labels, start, ens.weights, utility)
        assignment = start.astype(np.uint8)
        counts = oracles.count(ens.codes, ens.offsets, assignment[None], 3)[:, 0]
        finished = refine(
            ens.codes,
            parse_utility(utility)[1],
            Segments(ens.offsets),
            ens.weights,
            assignment,
            counts,
            max_sweeps=100,
        )
        assert finished
        assert assignment.tolist() == expected
        recount = oracles.count(ens.codes, ens.offsets, assignment[None], 3)
        assert np.array_equal(counts, recount[:, 0])


@pytest.mark.parametrize("block", [1, 3, 1000])
def test_blocks_change_nothing(monkeypatch, block):
    labels, _ = noisy(1, n=400, r=15)
    plain = gpc.kcc(labels, 5, n_init=2, random_state=0)
    monkeypatch.setattr(refine_module, "_SMALLEST_BLOCK", block)
    monkeypatch.setattr(refine_module, "_BUFFER", 1)
    other = gpc.kcc(labels, 5, n_init=2, random_state=0)
    assert np.array_equal(plain.labels, other.labels)
    assert plain.objective == other.objective


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_the_compiled_search_gives_the_same_bits(missing):
    labels, _ = noisy(1, n=400, r=15, missing=missing)
    for utility in ("c", "h", "ncos", "nl5"):
        found = []
        for use in (False, True):
            with compiled_loops(use):
                result = gpc.kcc(labels, 5, utility, n_init=2, random_state=0)
            found.append((result.labels.tolist(), result.history.tolist()))
        assert found[0] == found[1]


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
        plain = gpc.kcc(labels, 6, n_init=2, refine=False, random_state=seed)
        refined = gpc.kcc(labels, 6, n_init=2, random_state=seed)
        winner = gpc.kcc(labels, 6, n_init=2, refine=True, random_state=seed)
        assert refined.objective <= winner.objective <= plain.objective
        assert len(np.unique(refined.labels)) == 6
        lower += refined.objective < plain.objective
    assert lower >= 4
