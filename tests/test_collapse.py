"""Objects with equal labels are scored once, and nothing changes by it."""

import numpy as np
import pytest
from gpu_consensus.loop.problem import Problem
from hypothesis import given, settings
from hypothesis import strategies as st
from random_ensembles import noisy

import gpu_consensus as gpc
from gpu_consensus.backends import choose_backend
from gpu_consensus.loop import collapse as collapse_module
from gpu_consensus.loop import fit as fit_module
from gpu_consensus.loop import lazy as lazy_module
from gpu_consensus.loop import lloyd as lloyd_module

METHODS = ["c", "h", "ncos", "l5", "sec", "ivc", "ipvc"]


def repeated(seed, n, n_rows, r=6, missing=0.0):
    """Labels of n objects of which about n_rows differ."""
    rng = np.random.default_rng(seed)
    labels, _ = noisy(seed, n=n_rows, r=r, k=4, missing=missing)
    return labels[rng.integers(n_rows, size=n)]


def fit(method, ensemble, n_clusters, **options):
    options = {"n_init": 4, "random_state": 0, "backend": "numba", **options}
    if method in gpc.METHODS:
        return gpc.METHODS[method](ensemble, n_clusters, **options)
    return gpc.kcc(ensemble, n_clusters, method, refine=False, **options)


def fit_both(patch, *arguments, **options):
    """Fit with and without; return both, and how often rows were counted at once."""
    from gpu_consensus.backends.numba_backend import NumbaBackend

    patch.setattr(collapse_module, "_SMALL", 0)
    patch.setattr(lazy_module, "_MANY", 0)
    patch.setattr(collapse_module, "_FEW", 0)
    steps = []
    recount = NumbaBackend.recount_groups

    def counting(self, *arrays):
        moved = recount(self, *arrays)
        steps.append(moved)
        return moved

    patch.setattr(NumbaBackend, "recount_groups", counting)
    once = fit(*arguments, **options)
    patch.setattr(fit_module, "find_groups", lambda *_: None)
    patch.setattr(lloyd_module, "worth_it", lambda *_: False)
    return once, fit(*arguments, **options), steps


def assert_equal(once, plain):
    assert np.array_equal(once.labels, plain.labels)
    assert np.array_equal(once.history, plain.history)
    assert np.array_equal(once.centroids.counts, plain.centroids.counts)
    assert once.objective == plain.objective


@pytest.mark.parametrize("method", METHODS)
@given(
    seed=st.integers(0, 10**6),
    n_rows=st.integers(8, 40),
    n_clusters=st.integers(1, 6),
    missing=st.sampled_from([0.0, 0.3, 0.7]),
    init=st.sampled_from(["random", "partition"]),
    max_iter=st.sampled_from([1, 2, 100]),
)
@settings(max_examples=12)
@pytest.mark.filterwarnings("ignore:n_clusters=1 puts all")
@pytest.mark.filterwarnings("ignore:mu is 0 for")
@pytest.mark.filterwarnings("ignore:.* did not converge")
def test_equal_rows_change_nothing(
    method, seed, n_rows, n_clusters, missing, init, max_iter
):
    labels = repeated(seed, 300, n_rows, missing=missing)
    n_clusters = min(n_clusters, len(np.unique(labels, axis=0)) - 1)
    with pytest.MonkeyPatch.context() as patch:
        once, plain, steps = fit_both(
            patch,
            method,
            gpc.Ensemble(labels),
            n_clusters,
            init=init,
            max_iter=max_iter,
            on_unlabelled="keep",
        )
    assert steps
    assert_equal(once, plain)


@pytest.mark.parametrize("method", ["c", "h", "sec"])
def test_objects_that_fill_empty_clusters_leave_their_equals(monkeypatch, method):
    # six rows, six clusters: most starts lose clusters on the way
    labels = repeated(3, 400, 7, r=3)
    n_clusters = len(np.unique(labels, axis=0))
    repaired = []
    forget = collapse_module.Collapsed.forget

    def noting(self, q, l):
        repaired.append(l)
        forget(self, q, l)

    monkeypatch.setattr(collapse_module.Collapsed, "forget", noting)
    once, plain, _ = fit_both(
        monkeypatch, method, gpc.Ensemble(labels), n_clusters, n_init=30, init="random"
    )
    assert repaired
    assert_equal(once, plain)


@pytest.mark.parametrize("lazy", [False, True])
def test_labels_to_begin_with_may_tell_equal_rows_apart(monkeypatch, lazy):
    rng = np.random.default_rng(0)
    ens = gpc.Ensemble(repeated(1, 500, 30))
    if not lazy:
        monkeypatch.setattr(collapse_module.Laziness, "note", lambda *_: None)
    once, plain, steps = fit_both(
        monkeypatch, "c", ens, 3, init=rng.integers(3, size=500)
    )
    assert steps
    assert_equal(once, plain)


def test_labels_to_begin_with_that_are_the_end_end_at_once(monkeypatch):
    ens = gpc.Ensemble(repeated(1, 500, 30))
    end = fit("ipvc", ens, 3).labels
    once, plain, steps = fit_both(monkeypatch, "ipvc", ens, 3, init=end)
    assert steps
    assert len(plain.history) == 1
    assert_equal(once, plain)


@pytest.mark.parametrize("share", [0.001, 0.05, 1.0])
@pytest.mark.parametrize("n_clusters", [3, 200])
def test_moved_rows_count_as_often_as_they_appear(share, n_clusters):
    rng = np.random.default_rng(0)
    ens = gpc.Ensemble(repeated(4, 20_000, 3000, r=12, missing=0.1))
    backend = choose_backend("numba", None)
    groups = backend.groups(ens.codes, 5000)
    size = (4, len(groups.first))
    before = rng.integers(n_clusters + 1, size=size).astype(np.uint8)
    after = rng.integers(n_clusters + 1, size=size).astype(np.uint8)
    after = np.where(rng.random(size) < share, after, before)
    was, now = before[:, groups.place], after[:, groups.place]
    counts = backend.count(ens.codes, ens.offsets, was, n_clusters)
    moved = backend.recount_groups(groups, ens.offsets, before, after, counts)
    numpy = choose_backend("numpy", None)
    assert np.array_equal(counts, numpy.count(ens.codes, ens.offsets, now, n_clusters))
    assert np.array_equal(moved, (was != now).sum(axis=1))


def test_groups_are_the_distinct_rows():
    labels = repeated(5, 1000, 60, r=8, missing=0.2)
    ens = gpc.Ensemble(labels)
    for n_jobs in (1, 3):
        groups = choose_backend("numba", None, n_jobs).groups(ens.codes, 60)
        rows, times = np.unique(labels, axis=0, return_counts=True)
        assert np.array_equal(ens.codes[:, groups.first], groups.codes)
        assert np.array_equal(groups.codes[:, groups.place], ens.codes)
        assert np.array_equal(np.sort(groups.times), np.sort(times))
        assert len(groups.first) == len(rows)
        assert np.all(np.diff(groups.first) > 0)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_rows_that_cannot_be_told_apart_are_not_put_together(monkeypatch, dtype):
    from gpu_consensus.backends import numba_groups

    backend = choose_backend("numba", None)
    codes = np.array([[0, 1] * 50, [0, 0] * 50], dtype=dtype)
    assert len(backend.groups(codes, 50).first) == 2

    def alike(*arguments):  # as if all rows had the same bits
        place, first = arguments[4:6]
        place[:], first[0] = 0, 0
        return 1

    monkeypatch.setattr(numba_groups, "number_rows", alike)
    assert backend.groups(codes, 50) is None


def test_distinct_rows_end_the_search_early():
    rng = np.random.default_rng(0)
    codes = rng.integers(9, size=(20, 40_000)).astype(np.uint8)
    backend = choose_backend("numba", None)
    assert backend.groups(codes, 40_000) is None  # the first 2,500 hardly repeat
    half = np.concatenate([codes[:, :20_000]] * 2, axis=1)
    half = half[:, np.repeat(np.arange(20_000), 2)]
    assert backend.groups(half, 10_000) is None
    assert len(backend.groups(half, 20_000).first) == 20_000


def repeated_problem(memory_limit=None):
    ens = gpc.Ensemble(repeated(2, 70_000, 50))
    nobody = np.empty(0, dtype=np.intp)
    backend = choose_backend("numba", None)
    return Problem(backend, ens.codes, ens.offsets, 4, nobody, memory_limit)


def test_a_weight_that_tells_equal_rows_apart_is_respected():
    class Rule:
        row_weight = None

    problem = repeated_problem()
    assert collapse_module.collapse(problem, Rule, 4, True) is None
    problem.groups = collapse_module.find_groups(problem, 4)
    assert collapse_module.collapse(problem, Rule, 4, True) is not None
    Rule.row_weight = np.arange(70_000, dtype=np.float32)
    assert collapse_module.collapse(problem, Rule, 4, True) is None


@pytest.mark.parametrize(("memory_limit", "expected"), [(10**7, True), (70_000, False)])
def test_without_memory_rows_are_not_put_together(memory_limit, expected):
    problem = repeated_problem(memory_limit)
    assert (collapse_module.find_groups(problem, 4) is not None) is expected


def test_counts_of_any_assignment():
    rng = np.random.default_rng(0)
    problem = repeated_problem()
    assignment = rng.integers(5, size=(3, 70_000)).astype(np.uint8)
    assignment[1] = problem.codes[0]
    plain = problem.count(assignment)
    problem.groups = collapse_module.find_groups(problem, 4)
    assert np.array_equal(problem.count(assignment), plain)
