"""Objects that cannot move are skipped, and nothing changes by it."""

import numpy as np
import pytest
from gpu_consensus.loop.problem import Problem, Rule, Starts
from hypothesis import given, settings
from hypothesis import strategies as st
from random_ensembles import noisy

import gpu_consensus as gpc
from gpu_consensus.backends import choose_backend
from gpu_consensus.loop import lazy as lazy_module
from gpu_consensus.loop import lloyd as lloyd_module
from gpu_consensus.loop.lloyd import lloyd

NONE = np.empty(0, dtype=np.intp)


@pytest.fixture(autouse=True)
def lazy_on_small_data(monkeypatch):
    monkeypatch.setattr(lazy_module, "_MANY", 0)


class Perturbed(Rule):
    """Clusters whose columns differ by rounding, and change by about as much.

    The gaps are a few units in the last place of the sums, larger than the changes of
    the table: without its slack the bound would leave out objects that do move.
    """

    monotone = False

    def __init__(self, seed, n, offsets, n_restarts, n_clusters, row_table):
        self.rng = np.random.default_rng(seed)
        self.shape = (int(offsets[-1]), n_restarts, n_clusters)
        self.kind, self.row_weight = row_table, None
        self.base = self.alike(self.shape)
        if row_table:
            self.row_weight = self.rng.integers(1, 9, size=n).astype(np.float32)
            self.base_row = self.alike(self.shape[-row_table:])

    def alike(self, shape):
        common = self.rng.random((*shape[:-1], 1)) + 0.5
        return common + self.rng.normal(0, 3e-7, shape)

    def near(self, base, counts):
        table = base + 1e-7 * (self.rng.random(base.shape) < 0.02)
        return np.asarray(table[..., : counts.shape[1], :], dtype=np.float32)

    def table(self, counts, absent):
        row_table = self.near(self.base_row, counts) if self.kind else None
        return self.near(self.base, counts), row_table

    def objective(self, counts, absent):
        return np.zeros(counts.shape[1])


@pytest.mark.parametrize("row_table", [0, 2, 3])
@given(st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_laziness_changes_nothing_where_scores_are_nearly_equal(row_table, seed):
    rng = np.random.default_rng(seed)
    labels, _ = noisy(seed, n=300, r=40, missing=0.2)
    ens = gpc.Ensemble(labels)
    skip = np.flatnonzero((ens.labels < 0).all(axis=1))
    seeds = rng.integers(5, size=(3, 300)).astype(np.uint8)
    found = []
    for lazy in (False, True):
        backend = choose_backend("numba", None)
        problem = Problem(backend, ens.codes, ens.offsets, 4, skip)
        rule = Perturbed(seed, 300, ens.offsets, 3, 4, row_table)
        starts = Starts.seeded(problem, seeds.copy())
        lloyd(problem, rule, starts, max_iter=12, lazy=lazy)
        found.append(starts)
    assert np.array_equal(found[0].assignment, found[1].assignment)
    assert np.array_equal(found[0].counts, found[1].counts)
    assert found[0].history == found[1].history
    assert np.array_equal(found[1].counts, problem.count(found[1].assignment))


@pytest.mark.parametrize("method", ["c", "h", "cos", "sec", "ivc", "ipvc"])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_laziness_skips_most_objects_and_changes_nothing(monkeypatch, method, missing):
    labels, _ = noisy(1, n=3000, r=30, k=5, missing=missing)
    ens = gpc.Ensemble(labels)
    from gpu_consensus.backends.numba_backend import NumbaBackend

    scored = []
    reassign = NumbaBackend.reassign

    def counting(self, codes, offsets, table, objects, *arguments, **options):
        scored.append(len(objects))
        reassign(self, codes, offsets, table, objects, *arguments, **options)

    monkeypatch.setattr(NumbaBackend, "reassign", counting)

    def fit():
        options = {"n_init": 4, "random_state": 0, "backend": "numba"}
        if method in gpc.METHODS:
            return gpc.METHODS[method](ens, 9, **options)
        return gpc.kcc(ens, 9, method, refine=False, init="random", **options)

    lazy = fit()
    if method in ("c", "cos", "ipvc"):
        assert 0 < min(scored) < 1500  # it was lazy at all
    with monkeypatch.context() as patch:
        patch.setattr(lloyd_module, "worth_it", lambda *_: False)
        plain = fit()
    assert np.array_equal(lazy.labels, plain.labels)
    assert np.array_equal(lazy.history, plain.history)


class Drifts(Rule):
    """The last cluster fits nobody, and which object fits worst changes with time."""

    def __init__(self, offsets):
        rng = np.random.default_rng(0)
        self.base = rng.integers(2, size=(int(offsets[-1]), 1, 2)).astype(np.float32)
        self.base[:, :, 1] += 10
        self.calls = 0

    def table(self, counts, absent):
        self.calls += 1
        table = self.base.copy()
        table[self.calls % len(table)] += np.float32(0.01)
        return table, None

    def objective(self, counts, absent):
        return np.full(counts.shape[1], -float(self.calls))


@pytest.mark.parametrize("equal_once", [False, True])
def test_an_object_that_filled_an_empty_cluster_is_scored_again(equal_once):
    rng = np.random.default_rng(1)
    ens = gpc.Ensemble(rng.integers(3, size=(40, 4))[rng.integers(40, size=300)])
    found = []
    for lazy in (False, True):
        backend = choose_backend("numba", None)
        problem = Problem(backend, ens.codes, ens.offsets, 2, NONE)
        if lazy and equal_once:
            problem.groups = backend.groups(ens.codes, 300)
        passed = []
        starts = Starts.seeded(problem, np.zeros((1, 300), dtype=np.uint8))
        lloyd(
            problem,
            Drifts(ens.offsets),
            starts,
            max_iter=30,
            after_iteration=lambda state, passed=passed: passed.append(
                state.assignment.copy()
            ),
            lazy=lazy,
        )
        found.append(passed)
    alone = [int(np.flatnonzero(step[0] == 1)[0]) for step in found[0]]
    assert len(set(alone)) > 1  # not the same object each time
    assert np.array_equal(*found)


def test_without_memory_for_gaps_the_loop_is_not_lazy():
    labels, _ = noisy(0, n=300, r=6)
    ens = gpc.Ensemble(labels)
    backend = choose_backend("numba", None)
    for limit, expected in ((None, True), (3600, True), (3599, False)):
        problem = Problem(backend, ens.codes, ens.offsets, 3, NONE, limit)
        assert lloyd_module.worth_it(problem, 1) is expected


def test_few_objects_are_scored_at_every_iteration(monkeypatch):
    labels, _ = noisy(0, n=300, r=6)
    ens = gpc.Ensemble(labels)
    backend = choose_backend("numba", None)
    problem = Problem(backend, ens.codes, ens.offsets, 3, NONE)
    share = ens.codes.size // int(ens.offsets[-1])
    for many, expected in ((share, True), (share + 1, False)):
        monkeypatch.setattr(lazy_module, "_MANY", many)
        assert lloyd_module.worth_it(problem, 1) is expected
