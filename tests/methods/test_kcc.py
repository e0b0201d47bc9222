"""KCC against the paper's formulas, brute force and its own symmetries."""

import functools
import tracemalloc

import numpy as np
import oracles
import pytest
from fresh_counts import fresh_counts
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import UTILITIES
from random_ensembles import noisy

import gpu_consensus as gpc
from gpu_consensus.backends.numpy import NumpyBackend
from gpu_consensus.methods.kcc import KccRule

pytestmark = pytest.mark.every_backend

# with most labels gone, a partition may be left with one label


@given(
    st.integers(0, 10**6),
    st.sampled_from(UTILITIES),
    st.sampled_from([0.0, 0.4, 0.9]),
    st.sampled_from([2, 3, 5]),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_objective_value_and_their_identity(seed, utility, missing, k, weighted):
    """F and Gamma are those of the paper, and F/n = const - Gamma, to 1e-9."""
    labels, _ = noisy(seed, n=25, r=6, missing=missing)
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(6)) if weighted else np.full(6, 1 / 6)
    ens = gpc.Ensemble(labels, weights)
    result = gpc.kcc(ens, k, utility, n_init=2, random_state=seed)
    assert np.unique(result.labels).tolist() == list(range(k))
    objective, value = oracles.kcc_objective_and_value(
        ens.labels, result.labels, weights, utility
    )
    assert result.objective == pytest.approx(objective, rel=1e-9)
    assert result.value == pytest.approx(value, rel=1e-9, abs=1e-9)
    assert result.value >= -1e-12
    # the constant: all objects in one cluster have F/n = const and Gamma = 0
    constant, zero = oracles.kcc_objective_and_value(
        ens.labels, np.zeros(25, dtype=int), weights, utility
    )
    assert zero == pytest.approx(0, abs=1e-12)
    assert result.objective / 25 == pytest.approx(
        constant / 25 - result.value, rel=1e-9, abs=1e-9
    )


@given(st.integers(0, 10**6), st.sampled_from(UTILITIES), st.sampled_from([0.0, 0.6]))
@settings(max_examples=40, deadline=None)
def test_the_objective_never_rises(seed, utility, missing):
    labels, _ = noisy(seed, missing=missing)
    for init in ("partition", "random", "careful"):
        result = gpc.kcc(labels, 4, utility, init=init, n_init=2, random_state=seed)
        assert (np.diff(result.history) <= 1e-12 * np.abs(result.history[0])).all()
        assert result.history[-1] == result.objective
        assert result.n_iter == len(result.history)


@pytest.mark.parametrize(
    ("rows", "k", "expected", "sse"),
    [
        (oracles.E1, 2, "11112222", 5.0),
        (oracles.E1, 3, "11223333", 2.5),
        (oracles.E2, 3, "111222333", 8.0),
        (oracles.E2, 2, "111111222", 17.0),
    ],
)
def test_worked_examples_of_category_utility(rows, k, expected, sse):
    """Optima and sums of squares computed by an independent script."""
    ens = gpc.Ensemble.from_partitions(oracles.worked(rows))
    result = gpc.kcc(ens, k, "c", n_init=20, random_state=0)
    assert oracles.canonical(result.labels) == oracles.canonical(expected)
    assert result.objective == pytest.approx(sse / len(rows), rel=1e-12)


@functools.cache
def best_of_all(seed, missing, utility):
    """An ensemble of seven objects, and the lowest objective of all its partitions."""
    labels, _ = noisy(seed, n=7, r=5, k=2, missing=missing)
    ens = gpc.Ensemble(labels)
    return ens, min(
        oracles.kcc_objective_and_value(ens.labels, p, ens.weights, utility)[0]
        for p in oracles.partitions(7, 3)
    )


@pytest.mark.parametrize("utility", ["c", "h", "cos", "l5", "nh", "ncos"])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_finds_the_best_of_all_partitions(utility, missing):
    """Every partition of seven objects, tried one by one."""
    for seed in range(4):
        ens, best = best_of_all(seed, missing, utility)
        found = gpc.kcc(ens, 3, utility, n_init=20, random_state=0)
        assert found.objective == pytest.approx(best, rel=1e-9, abs=1e-12)


@given(st.integers(0, 10**6), st.sampled_from(["c", "h", "cos", "l5", "nh"]))
@settings(max_examples=40, deadline=None)
def test_relabelling_and_row_order_change_nothing(seed, utility):
    """With a permuted start alike, in every row whose gap exceeds rounding.

    A row within rounding may fall either way and take others along, so such starts are
    left out; hardly any is.
    """
    rng = np.random.default_rng(seed)
    labels, _ = noisy(seed)
    init = rng.permutation(np.arange(60) % 3)

    def gaps(labels, init):
        ens = gpc.Ensemble(labels)
        result = gpc.kcc(labels, 3, utility, init=init, refine=False)
        table = result.centroids.table
        return NumpyBackend().assign(ens.codes, ens.offsets, table, gap=True).gap[0]

    order = rng.permutation(60)
    renamed = labels.copy()
    for i in range(labels.shape[1]):
        names = rng.permutation(20)
        renamed[:, i] = names[labels[:, i]]
    whole = {"utility": utility, "refine": False}
    first = gpc.kcc(labels, 3, init=init, **whole)
    second = gpc.kcc(renamed[order], 3, init=init[order], **whole)
    clear = gaps(labels, init) > 1e-5
    assert np.array_equal(
        first.labels[order][clear[order]], second.labels[clear[order]]
    )
    if clear.all():
        assert second.objective == pytest.approx(first.objective, rel=1e-12)


@pytest.mark.parametrize("chunk", [1, 7, 1000, 2000])
@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_chunks_change_nothing(chunk, missing):
    labels, _ = noisy(3, n=1500 if chunk > 7 else 50, r=20, k=4, missing=missing)
    options = {"n_init": 3, "random_state": 5}
    if chunk == 1:  # each object by itself, where a search would take long
        options["search"] = False
    whole = gpc.kcc(labels, 4, **options)
    cut = gpc.kcc(labels, 4, memory_limit=32 * chunk, **options)
    assert np.array_equal(whole.labels, cut.labels)
    assert np.array_equal(whole.history, cut.history)


def test_same_seed_same_labels_for_any_thread_count():
    labels, _ = noisy(4, n=3000, r=20, k=4)
    results = [
        gpc.kcc(labels, 4, n_init=3, n_jobs=j, random_state=1) for j in (1, 2, 4)
    ]
    for other in results[1:]:
        assert np.array_equal(results[0].labels, other.labels)
        assert np.array_equal(results[0].history, other.history)


def test_a_start_does_not_depend_on_the_others():
    """Each start by itself, from the objects that its own child of the seed draws."""
    labels, _ = noisy(8, n=200, r=10, k=4)
    alone = []
    for child in np.random.SeedSequence(2).spawn(12):
        init = np.full(200, -1)
        drawn = np.random.default_rng(child).choice(200, 6, replace=False)
        init[drawn] = np.arange(6)
        alone.append(gpc.kcc(labels, 6, init=init, refine=False))
    for n_init in (1, 5, 12):
        together = gpc.kcc(
            labels, 6, init="random", n_init=n_init, refine=False, random_state=2
        )
        best = min(alone[:n_init], key=lambda result: result.objective)
        assert np.array_equal(together.labels, best.labels)
        assert np.array_equal(together.history, best.history)


@pytest.mark.parametrize("init", ["partition", "random", "careful"])
def test_seedings_find_clear_clusters(init):
    labels, truth = noisy(5, n=200, r=30)
    result = gpc.kcc(labels, 3, init=init, random_state=0)
    assert gpc.metrics.adjusted_rand(truth, result.labels) > 0.95


def test_init_labels_are_where_it_starts():
    labels, truth = noisy(6)
    result = gpc.kcc(labels, 3, init=truth, refine=False)
    ens = gpc.Ensemble(labels)
    start, _ = oracles.kcc_objective_and_value(ens.labels, truth, ens.weights, "h")
    assert result.objective <= start
    again = gpc.kcc(labels, 3, init=result.labels, refine=False)
    assert np.array_equal(again.labels, result.labels)
    assert again.n_iter == 1


@pytest.mark.parametrize("utility", UTILITIES)
def test_ninety_percent_missing_still_gives_k_clusters(utility):
    labels, _ = noisy(7, n=150, r=100, missing=0.9)
    result = gpc.kcc(labels, 3, utility, random_state=0)
    assert result.n_clusters == len(np.unique(result.labels)) == 3
    assert (np.diff(result.history) <= 1e-9).all()


def test_duplicated_rows_stay_together_and_double_the_objective():
    labels, _ = noisy(9, n=40)
    init = np.arange(40) % 3
    one = gpc.kcc(labels, 3, "c", init=init, refine=False)
    two = gpc.kcc(
        np.repeat(labels, 2, axis=0), 3, "c", init=np.repeat(init, 2), refine=False
    )
    assert np.array_equal(np.repeat(one.labels, 2), two.labels)
    assert two.objective == pytest.approx(2 * one.objective, rel=1e-12)
    assert two.value == pytest.approx(one.value, rel=1e-9)


def test_identical_partitions_give_that_partition():
    truth = np.array([0, 0, 1, 1, 2, 2, 2])
    result = gpc.kcc(np.column_stack([truth] * 5), 3, random_state=0)
    assert oracles.canonical(result.labels) == truth.tolist()
    assert result.objective == pytest.approx(0, abs=1e-12)


def test_one_cluster_is_valid_and_warns():
    labels, _ = noisy(10)
    with pytest.warns(UserWarning, match="n_clusters=1 puts all objects"):
        result = gpc.kcc(labels, 1, random_state=0)
    assert result.labels.tolist() == [0] * 60
    assert result.value == pytest.approx(0, abs=1e-12)


def test_one_object_and_one_partition():
    with pytest.warns(UserWarning, match="n_clusters=1"):
        assert gpc.kcc(np.array([[3, 5]]), 1).labels.tolist() == [0]
    one = gpc.kcc(np.array([[4], [4], [2], [7]]), 3, random_state=0)
    assert oracles.canonical(one.labels) == [0, 0, 1, 2]


def test_a_partition_with_one_label_is_valid():
    labels, truth = noisy(11)
    more = np.column_stack([labels, np.zeros(60, dtype=int)])
    plain = gpc.kcc(more, 3, "h", random_state=0)
    assert gpc.metrics.adjusted_rand(plain.labels, truth) > 0.8
    with pytest.warns(UserWarning, match=r"without information \(partition 12\)"):
        gpc.kcc(more, 3, "nh", random_state=0)


def test_a_partition_without_any_label_counts_for_nothing():
    labels, _ = noisy(12)
    more = np.column_stack([labels, np.full(60, -1)])
    for utility in ("c", "h", "cos", "l5"):
        with_it = gpc.kcc(more, 3, utility, weights=[1.0] * 13, random_state=0)
        init = with_it.labels
        without = gpc.kcc(labels, 3, utility, init=init, refine=False)
        assert np.array_equal(without.labels, with_it.labels)
        assert with_it.objective * 13 == pytest.approx(without.objective * 12)


def test_weights_replace_those_of_the_ensemble():
    labels, _ = noisy(13)
    ens = gpc.Ensemble(labels, weights=np.arange(1, 13))
    by_ensemble = gpc.kcc(ens, 3, random_state=0)
    by_argument = gpc.kcc(labels, 3, weights=np.arange(1, 13) * 7.0, random_state=0)
    assert np.array_equal(by_ensemble.labels, by_argument.labels)
    only_first = gpc.kcc(ens, 3, weights=[1] + [0] * 11, random_state=0, n_init=30)
    ids = ens.labels[:, 0]
    pairs = {(a, b) for a, b in zip(ids, only_first.labels, strict=True)}
    assert len(pairs) == len(set(ids))  # no label of the only partition is split


def test_kept_unlabelled_objects_get_minus_one_and_do_not_count():
    labels, _ = noisy(14)
    gaps = np.insert(labels, [0, 30, 60], -1, axis=0)
    hole = (gaps == -1).all(axis=1)
    init = np.arange(60) % 3
    with_holes = gpc.kcc(
        gaps, 3, init=np.insert(init, [0, 30, 60], -1), on_unlabelled="keep"
    )
    without = gpc.kcc(labels, 3, init=init)
    assert (with_holes.labels[hole] == -1).all()
    assert np.array_equal(with_holes.labels[~hole], without.labels)
    assert with_holes.objective == without.objective
    assert with_holes.value == without.value
    assert (with_holes.confidence[hole] == 0).all()


def test_confidence_is_the_share_of_the_own_cluster():
    labels, _ = noisy(15, n=30, r=6, missing=0.2)
    ens = gpc.Ensemble(labels)
    result = gpc.kcc(ens, 3, random_state=0)
    for l in range(30):
        a = np.zeros(3)
        for k in range(3):
            for i in range(6):
                j = ens.labels[l, i]
                members = ens.labels[(result.labels == k) & (ens.labels[:, i] >= 0), i]
                if j >= 0 and len(members):
                    a[k] += np.mean(members == j)
        expected = a[result.labels[l]] / a.sum()
        assert result.confidence[l] == pytest.approx(expected, rel=1e-12)


def test_predict_gives_old_objects_their_own_cluster():
    labels, _ = noisy(16, n=80, r=20)
    names = np.array([f"label {j}" for j in range(6)])[labels]
    result = gpc.kcc(names, 3, random_state=0)
    assert np.array_equal(result.predict(names), result.labels)
    new = names[:2].copy().astype(object)
    new[0] = None
    new[1, 0] = "unheard of"
    with pytest.warns(UserWarning, match="1 labels were never seen"):
        found = result.predict(new)
    assert found.tolist() == [-1, result.labels[1]]


def test_custom_utility_equals_the_built_in_of_the_same_mu():
    labels, _ = noisy(17, missing=0.2)
    init = np.arange(60) % 4
    square = gpc.Utility(lambda m: (m**2).sum(-1), lambda m: 2 * m, name="square")
    norm = gpc.Utility(
        lambda m: np.sqrt((m**2).sum(-1)),
        lambda m: m / np.sqrt((m**2).sum(-1, keepdims=True)),
        name="norm",
        normalised=True,
    )
    for mine, built_in in ((square, "c"), (norm, "ncos")):
        a = gpc.kcc(labels, 4, mine, init=init)
        b = gpc.kcc(labels, 4, built_in, init=init)
        assert np.array_equal(a.labels, b.labels)
        assert a.objective == pytest.approx(b.objective, rel=1e-9)
        assert a.value == pytest.approx(b.value, rel=1e-9)
        assert a.method == f"kcc:{mine.name}"


def test_a_new_convex_function_works_too():
    labels, truth = noisy(18, n=100, r=20)
    cubic = gpc.Utility(lambda m: (m**3).sum(-1), lambda m: 3 * m**2)
    result = gpc.kcc(labels, 3, cubic, random_state=0)
    assert gpc.metrics.adjusted_rand(truth, result.labels) > 0.8
    assert (np.diff(result.history) <= 1e-12).all()


def test_a_custom_utility_of_many_labels_needs_no_square_of_them():
    """K_i^2 numbers of K clusters would be 288 MB for a refinement, 72 for a table."""
    labels = np.column_stack([np.arange(6000) % 3000, np.arange(6000) % 7])
    cubic = gpc.Utility(lambda m: (m**3).sum(-1), lambda m: 3 * m**2)
    ens = gpc.Ensemble(labels)
    first = np.random.default_rng(0).integers(4, size=6000)
    tracemalloc.start()
    rule = KccRule(ens, cubic.formula(), ens.weights)
    counts = fresh_counts(NumpyBackend(), ens.codes, ens.offsets, first[None], 4)
    rule.table(counts)
    enter = rule.formula.change(counts[:, 0], rule.segments, 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30e6
    for row in (0, 1500, 2999):
        more = counts[:, 0].copy()
        more[row] += 1
        totals = (rule.formula.total(n, rule.segments)[0] for n in (counts[:, 0], more))
        before, after = totals
        np.testing.assert_allclose(enter[row], after - before, rtol=1e-9)


@pytest.mark.every_backend(emulated=False)
def test_memory_stays_near_the_codes():
    """At any n: one byte per object and start, and a fixed buffer."""
    rng = np.random.default_rng(0)
    codes = rng.integers(20, size=(10, 2_000_000), dtype=np.uint8)
    ens = gpc.Ensemble.from_codes(codes, [20] * 10)
    options = {"init": "partition", "n_init": 2, "max_iter": 2, "refine": False}
    tracemalloc.start()
    with pytest.warns(gpc.ConvergenceWarning):
        gpc.kcc(ens, 10, "c", random_state=0, **options)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * 2_000_000 + 100e6


def test_progress_is_drawn_on_standard_error(capsys, told_at_once):
    labels, _ = noisy(19)
    gpc.kcc(labels, 3, random_state=0, progress=True)
    captured = capsys.readouterr()
    assert "kcc:h" in captured.err
    assert captured.out == ""


def test_repr_tells_a_person_what_came_out(auto_backend):
    labels, _ = noisy(20)
    text = repr(gpc.kcc(labels, 3, random_state=0))
    assert "3 clusters of 60 objects" in text
    assert f"on {auto_backend}" in text


BAD = [
    ({"n_clusters": 0}, ValueError, "n_clusters=0 should be >= 1"),
    ({"n_clusters": -2}, ValueError, "n_clusters=-2 should be >= 1"),
    ({"n_clusters": 2.5}, TypeError, "n_clusters=2.5 should be an integer >= 1"),
    ({"n_clusters": True}, TypeError, "n_clusters=True should be an integer"),
    ({"n_clusters": 99}, ValueError, "n_samples=60 should be >= n_clusters=99"),
    ({"utility": "hh"}, ValueError, "utility='hh' is unknown; choose one of 'h', 'nh'"),
    ({"utility": "l1"}, ValueError, "utility='l1' is unknown"),
    ({"utility": 3}, ValueError, "utility=3 is unknown"),
    (
        {"init": "partitions"},
        ValueError,
        "init='partitions' is unknown; choose one of 'partition'",
    ),
    (
        {"init": [0, 1]},
        ValueError,
        "init has 2 labels but the ensemble has n_samples=60",
    ),
    ({"init": [0] * 60}, ValueError, "init has 1 different labels but n_clusters=3"),
    ({"n_init": 0}, ValueError, "n_init=0 should be >= 1"),
    ({"max_iter": 0}, ValueError, "max_iter=0 should be >= 1"),
    ({"on_unlabelled": "drop"}, ValueError, "on_unlabelled='drop' is unknown"),
    ({"backend": "cuda"}, ValueError, "backend='cuda' is unknown"),
    ({"n_jobs": 0}, ValueError, "n_jobs=0 should be >= 1"),
    ({"memory_limit": 0}, ValueError, "memory_limit=0 should be >= 1"),
    ({"random_state": "seed"}, TypeError, "random_state='seed' should be an integer"),
    ({"weights": [1, 2]}, ValueError, "give one weight per partition"),
    ({"weights": [-1] + [1] * 11}, ValueError, r"weights\[0\]=-1.0 should be finite"),
    ({"weights": [0] * 12}, ValueError, "weights are all zero"),
    ({"weights": [np.nan] * 12}, ValueError, r"weights\[0\]=nan should be finite"),
]


@pytest.mark.parametrize(("change", "error", "message"), BAD)
def test_bad_arguments_say_what_to_do(change, error, message):
    labels, _ = noisy(21)
    arguments = {"n_clusters": 3} | change
    with pytest.raises(error, match=message):
        gpc.kcc(labels, arguments.pop("n_clusters"), **arguments)


def test_more_clusters_than_distinct_rows():
    labels = np.repeat([[0, 0], [1, 0], [1, 1]], 50, axis=0)
    with pytest.raises(ValueError, match="only 3 distinct rows but n_clusters=4"):
        gpc.kcc(labels, 4)
    assert gpc.kcc(labels, 3, random_state=0).objective == pytest.approx(0, abs=1e-12)
    with pytest.raises(ValueError, match="only 2 distinct rows"):
        gpc.kcc(labels, 3, weights=[1, 0])


def test_an_object_missing_everywhere():
    labels, _ = noisy(22)
    labels[[5, 7]] = -1
    with pytest.raises(ValueError, match=r"2 objects have no label .*objects 5, 7"):
        gpc.kcc(labels, 3)
    with pytest.raises(ValueError, match="no object has any label"):
        gpc.kcc(np.full((5, 2), -1), 2)


def test_utilities_that_are_not_convex_are_refused_with_the_pair():
    labels, _ = noisy(23)
    concave = gpc.Utility(lambda m: -(m**2).sum(-1), lambda m: -2 * m, name="concave")
    with pytest.raises(ValueError, match=r"'concave' is not convex between \[0"):
        gpc.kcc(labels, 3, concave)
    wrong = gpc.Utility(lambda m: (m**2).sum(-1), lambda m: m**3, name="wrong")
    with pytest.raises(ValueError, match="gradient of utility 'wrong' is not that of"):
        gpc.kcc(labels, 3, wrong)
    shape = gpc.Utility(lambda m: m, lambda m: m, name="shape")
    with pytest.raises(ValueError, match="mu of utility 'shape' should turn shape"):
        gpc.kcc(labels, 3, shape)
    with pytest.raises(TypeError, match="gradient=None should be a function"):
        gpc.Utility(np.sum, None)
    small = gpc.Utility(
        lambda m: 1e-27 * (m**2).sum(-1), lambda m: 2e-27 * m, name="small"
    )
    with pytest.raises(ValueError, match=r"utility 'small' differs by .*; multiply mu"):
        gpc.kcc(labels, 2, small)
    infinite = gpc.Utility(
        lambda m: (m**2).sum(-1), lambda m: np.full(m.shape, np.inf), name="infinite"
    )
    with pytest.raises(
        ValueError, match="gradient of utility 'infinite' should be finite"
    ):
        gpc.kcc(labels, 3, infinite)


def test_utilities_that_are_flat_somewhere_are_taken():
    """Where few distributions are told apart, or none of two labels."""

    def beyond(m):
        return 1.0 - m[..., :2].sum(-1)

    power = gpc.Utility(lambda m: (m**40).sum(-1), lambda m: 40 * m**39)
    rest = gpc.Utility(
        lambda m: beyond(m) ** 2,
        lambda m: np.where(np.arange(m.shape[-1]) < 2, -2 * beyond(m)[..., None], 0),
    )
    power.check(np.array([100]))
    rest.check(np.array([2, 5]))


def test_stopping_early_warns():
    labels, _ = noisy(24, n=300)
    options = {"init": "partition", "n_init": 1, "max_iter": 1, "refine": False}
    with pytest.warns(gpc.ConvergenceWarning, match="did not converge in max_iter=1"):
        result = gpc.kcc(labels, 3, random_state=0, **options)
    assert not result.converged


@pytest.mark.parametrize("refine", [False, True, "auto"])
def test_seeds_that_are_a_fixed_point_at_once_have_their_objective(refine):
    """All starts of identical partitions are the answer already."""
    labels = np.tile(np.repeat([0, 1, 2], 10)[:, None], (1, 5))
    result = gpc.kcc(labels, 3, "c", refine=refine, random_state=0)
    assert np.isfinite(result.history).all()
    assert result.objective == pytest.approx(0, abs=1e-12)
    assert result.value == pytest.approx(2 / 3)
    with pytest.warns(UserWarning, match="n_clusters=1"):
        one = gpc.kcc(np.zeros((5, 3), int), 1)
    assert one.value == 0
    assert one.objective == 0


@given(st.integers(0, 10**6), st.sampled_from(UTILITIES), st.booleans())
@settings(max_examples=40)
def test_results_are_finite_and_consistent_without_refinement(seed, utility, weighted):
    labels, _ = noisy(seed, n=20, r=4)
    weights = [1, 1, 0, 3] if weighted else None
    result = gpc.kcc(
        labels, 3, utility, weights=weights, refine=False, random_state=seed
    )
    assert np.isfinite(result.history).all()
    ens = gpc.Ensemble(labels, weights)
    objective, value = oracles.kcc_objective_and_value(
        ens.labels, result.labels, ens.weights, utility
    )
    assert result.objective == pytest.approx(objective, rel=1e-9)
    assert result.value == pytest.approx(value, rel=1e-9, abs=1e-9)


def test_an_init_cluster_of_unlabelled_objects_only_is_filled():
    labels = np.array([[0, -1], [-1, 0], [1, 1], [-1, -1]])
    result = gpc.kcc(labels, 3, init=[0, 0, 1, 2], on_unlabelled="keep")
    assert sorted(result.labels.tolist()) == [-1, 0, 1, 2]


def test_init_takes_any_labels():
    labels, _ = noisy(6, n=12)
    names = ["a", "b", "c"] * 4
    expected = gpc.kcc(labels, 3, init=np.arange(12) % 3).labels
    for init in (
        names,
        np.ma.array(np.arange(12) % 3, mask=[0] * 12),
        [(name, 1) for name in names],
    ):
        assert np.array_equal(gpc.kcc(labels, 3, init=init).labels, expected)
    mixed = [-1, *names[1:]]
    assert len(gpc.kcc(labels, 3, init=mixed).labels) == 12


def test_objects_known_only_to_weightless_partitions_are_unknown_to_predict():
    labels = np.array([[0, 0, 1], [0, 0, 2], [1, 1, 1], [-1, -1, 2]])
    options = {"weights": [1, 1, 0], "on_unlabelled": "keep", "random_state": 0}
    result = gpc.kcc(labels, 2, **options)
    assert np.array_equal(result.predict(labels), result.labels)
    assert result.labels[3] == -1


def test_few_restarts_at_a_time_change_nothing():
    labels, _ = noisy(8, n=50, r=10, k=4)
    options = {"n_init": 7, "search": False, "random_state": 3}
    at_once = gpc.kcc(labels, 5, **options)
    in_turn = gpc.kcc(labels, 5, memory_limit=1, **options)
    assert np.array_equal(at_once.labels, in_turn.labels)
    assert np.array_equal(at_once.history, in_turn.history)


@pytest.mark.parametrize("value", ["False", "yes", 0, None])
def test_refine_is_a_bool_or_auto(value):
    with pytest.raises(ValueError, match="should be 'auto', True or False"):
        gpc.kcc(noisy(0)[0], 3, refine=value)


def test_numpy_bools_are_bools():
    labels, _ = noisy(25, n=80)
    a = gpc.kcc(labels, 6, n_init=2, refine=np.False_, random_state=0)
    b = gpc.kcc(labels, 6, n_init=2, refine=False, random_state=0)
    assert np.array_equal(a.history, b.history)
