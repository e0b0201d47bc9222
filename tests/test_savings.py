"""Work that the loop saves changes nothing: each saving alone, all, and none."""

import numpy as np
import oracles
import pytest
from gpu_consensus.loop.problem import Problem, Starts
from hypothesis import given, settings
from hypothesis import strategies as st
from random_ensembles import noisy

import gpu_consensus as gpc
from bench.speed_savings import counts_all
from gpu_consensus.backends import choose_backend
from gpu_consensus.loop import lazy as lazy_module
from gpu_consensus.loop.lloyd import lloyd
from gpu_consensus.loop.utilities import parse_utility
from gpu_consensus.methods.kcc import KccRule
from gpu_consensus.methods.sec import SecRule
from gpu_consensus.methods.voting import IpvcRule, IvcRule

N_RESTARTS = 3
SAVINGS = {
    "restarts share a table, and leave it": {"together": N_RESTARTS},
    "only moved objects are counted": {"moved_only": True},
    "objects that cannot move are left out": {"lazy": True},
    "objects with equal labels are scored once": {"equal_once": True},
}
ALL = {name: value for saving in SAVINGS.values() for name, value in saving.items()}


def make_rule(name, ensemble, problem):
    sums = problem.backend.label_sums
    if name == "sec":
        return SecRule(ensemble, sums)
    if name in ("ivc", "ipvc"):
        kind = {"ivc": IvcRule, "ipvc": IpvcRule}[name]
        return kind(ensemble, ensemble.weights, sums)
    formula = parse_utility(name)[1]
    return KccRule(ensemble, formula, ensemble.weights, label_sums=sums)


def run(name, ensemble, seeds, n_clusters, skip, max_iter, savings):
    """Run all starts with some savings on and the others off."""
    moved_only = savings.get("moved_only", False)
    backend = choose_backend("numba", None) if moved_only else counts_all()
    problem = Problem(backend, ensemble.codes, ensemble.offsets, n_clusters, skip)
    if savings.get("equal_once"):
        problem.groups = backend.groups(ensemble.codes, ensemble.n_samples)
        assert problem.groups is not None
    starts = Starts.seeded(problem, seeds.copy())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lazy_module, "_MANY", 0)  # however small
        lloyd(
            problem,
            make_rule(name, ensemble, problem),
            starts,
            max_iter=max_iter,
            together=savings.get("together", 1),
            lazy=savings.get("lazy", False),
        )
    assert np.array_equal(starts.counts, problem.count(starts.assignment))
    return starts


@pytest.mark.parametrize("name", ["c", "h", "ncos", "l3", "sec", "ivc", "ipvc"])
@given(
    seed=st.integers(0, 10**6),
    n_rows=st.integers(6, 60),
    n_clusters=st.integers(1, 6),
    missing=st.sampled_from([0.0, 0.3, 0.8]),
    max_iter=st.sampled_from([1, 2, 3, 40]),
    complete=st.booleans(),
    unlabelled=st.booleans(),
)
@settings(max_examples=25)
def test_each_saving_alone_and_all_of_them_equal_the_plain_loop(
    name, seed, n_rows, n_clusters, missing, max_iter, complete, unlabelled
):
    rng = np.random.default_rng(seed)
    labels, _ = noisy(seed, n=n_rows, r=4, k=3, missing=missing)
    labels = labels[rng.integers(n_rows, size=80)]
    labels[rng.random(80) < 0.05 * unlabelled] = -1
    ensemble = gpc.Ensemble(labels)
    skip = np.flatnonzero((ensemble.labels < 0).all(axis=1))
    labelled = np.unique(np.delete(labels, skip, axis=0), axis=0)
    n_clusters = min(n_clusters, len(labelled))
    seeds = rng.integers(n_clusters + (not complete), size=(N_RESTARTS, 80))
    seeds = seeds.astype(np.uint8)
    seeds[:, skip] = n_clusters
    numpy = choose_backend("numpy", None)
    problem = Problem(numpy, ensemble.codes, ensemble.offsets, n_clusters, skip)
    rule = make_rule(name, ensemble, problem)
    plain = [
        oracles.lloyd(
            ensemble.codes, ensemble.offsets, rule, row, n_clusters, skip, max_iter
        )
        for row in seeds
    ]
    for savings in ({}, *SAVINGS.values(), ALL):
        found = run(name, ensemble, seeds, n_clusters, skip, max_iter, savings)
        for q, (assignment, history, ended) in enumerate(plain):
            assert np.array_equal(found.assignment[q], assignment), savings
            assert found.history[q] == history, savings
            assert found.converged[q] == ended, savings
