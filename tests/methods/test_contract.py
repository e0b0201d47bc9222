"""What every method of ``gpc.METHODS`` promises, whatever it computes."""

import inspect
import itertools
import re
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_ensembles import noisy

import gpu_consensus as gpc
from gpu_consensus.backends import choose_backend
from gpu_consensus.backends.numpy import NumpyBackend
from gpu_consensus.util.arrays import on_device, to_host
from gpu_consensus.util.options import finds_n_clusters, option_names

VARIANTS = {
    "kcc": [{"utility": "c", "n_init": 5}, {"utility": "h", "n_init": 5}],
    "sec": [{"n_init": 5}],
    "ivc": [{"n_init": 10}],
    "ipvc": [{"n_init": 10}],
    "hac": [{"linkage": name} for name in ("average", "single", "complete")],
    "correspondence": [
        {"variant": name} for name in ("constrained", "unconstrained", "svd")
    ],
    "vote": [{"order": "given"}, {"order": "random"}],
    "cvote": [
        {"alignment": "adaptive"},
        {"alignment": "fixed"},
        {"alignment": "binary", "reduction": "js"},
    ],
    "fusion_transfer": [{"rule": "average"}, {"rule": "sum"}],
    "best": [{"measure": "nmi"}, {"measure": "rand_distance"}],
    "ipc": [{"update": name, "n_init": 10} for name in ("batch", "sequential")],
    "em": [{"n_init": 5}],
    "lce": [{"n_init": 5}],
    **{
        name: [{"imbalance": 0.05}, {"imbalance": None}]
        for name in ("cspa", "hgpa", "mcla", "hbgf", "supra")
    },
}
"""Options of a method, small enough to be quick; a method not named has none."""

CASES = [
    pytest.param(method, options, id="-".join([method, *map(str, options.values())]))
    for method in gpc.METHODS
    for options in VARIANTS.get(method, [{}])
]
every_method = pytest.mark.parametrize(("method", "options"), CASES)


def every(test):
    """Run a test for every method on every backend."""
    return pytest.mark.every_backend(every_method(test))


def balanced(method, options):
    """Whether sizes of clusters are bounded, which parts what belongs together.

    Without a bound HGPA may cut off single objects, and SUPRA may choose that.
    """
    if "imbalance" not in options:
        return False
    return options["imbalance"] is not None or method in ("hgpa", "supra")


UNIDENTIFIED = {"em"}
"""One partition alone does not tell the components of a mixture apart."""

RESUMED = {"kcc", "sec", "ivc", "ipvc", "ipc", "qmi", "lce", "em", "least_squares"}
"""Methods that may run for hours, and so take a checkpoint."""

ROUNDED = {"em"}
"""Methods whose sums of logarithms differ in the last digits between backends."""

SINGLE = {"best"}
"""Methods whose result is one of the partitions, noise and all."""

NO_WEIGHTS = {"sec"}
"""Methods that say that they do not know weights of partitions."""

KNOWN_WARNINGS = [
    r"found \d+ clusters although n_clusters=\d+",
    r"n_clusters=1 puts all objects into one cluster",
    r"mu is 0 for",
]


def call(method, options, ens, k, **more):
    """Run a method; look at the warnings and at what came out."""
    function = gpc.METHODS[method]
    takes_k = "n_clusters" in inspect.signature(function).parameters
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function(
            ens, *([k] if takes_k else []), random_state=0, **options, **more
        )
    said = [str(warning.message) for warning in caught]
    for text in said:
        assert any(re.search(known, text) for known in KNOWN_WARNINGS), text
    assert on_device(result.labels) == (
        isinstance(ens, gpc.Ensemble) and on_device(ens.codes)
    )
    labels = to_host(result.labels)
    assert labels.dtype == np.int32
    present = labels[labels >= 0]
    assert sorted(set(present.tolist())) == list(range(result.n_clusters))
    if takes_k:
        assert result.n_clusters <= k
        if result.n_clusters < k:
            assert any("clusters although" in text for text in said)
        assert any("n_clusters=1 puts" in text for text in said) == (k == 1)
    assert np.isfinite([result.objective, result.value]).all()
    assert result.n_iter >= 1
    assert result.history.shape == (result.n_iter,)
    assert result.method.split(":")[0] == method
    codes = ens.codes if isinstance(ens, gpc.Ensemble) else None
    assert result.backend == choose_backend(more.get("backend", "auto"), codes).name
    assert method in repr(result)
    return result


def clear(seed, n=33, r=9):
    """An ensemble around three clusters of one size, so clear that no tie decides.

    Every object strays in one partition at most, and two partitions cut a cluster in
    two: two objects of a cluster agree in at least 5 of 9 partitions, others in at most
    2.
    """
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.arange(n) % 3)
    labels = np.repeat(truth[:, None], r, axis=1)
    for i, k in ((3, 0), (6, 1)):
        inside = np.flatnonzero(truth == k)
        labels[inside[: len(inside) // 2], i] = 3
    for l in rng.permutation(n)[: n // 2]:
        i = rng.integers(r)
        labels[l, i] = (truth[l] + rng.integers(1, 3)) % 3
    return labels, truth


def same(a, b):
    return gpc.metrics.adjusted_rand(a, b) == 1


@every
@given(seed=st.integers(0, 10**6))
@settings(max_examples=6)
def test_row_order_and_names_change_nothing(method, options, seed):
    labels, truth = clear(seed)
    result = call(method, options, labels, 3)
    if method not in SINGLE:
        assert same(truth, result.labels)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(labels))
    assert same(call(method, options, labels[order], 3).labels, result.labels[order])
    renamed = np.empty_like(labels)
    for i in range(labels.shape[1]):
        renamed[:, i] = rng.permutation(10)[labels[:, i]]
    assert same(call(method, options, renamed, 3).labels, result.labels)


@every
def test_same_seed_same_answer(method, options):
    labels, _ = noisy(5, n=50, r=8, missing=0.1)
    first, again = (call(method, options, labels, 3) for _ in range(2))
    assert np.array_equal(first.labels, again.labels)
    assert (first.objective, first.value) == (again.objective, again.value)
    assert np.array_equal(first.history, again.history)


def assert_equal_results(found, expected):
    rounded = expected.method in ROUNDED
    assert np.array_equal(to_host(found.labels), expected.labels)
    for name in ("objective", "value", "history"):
        right = getattr(expected, name)
        near = pytest.approx(right, rel=1e-9) if rounded else right
        assert np.all(getattr(found, name) == near), name


@every
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_every_backend_gives_the_labels_of_numpy(method, options, missing):
    labels, _ = noisy(1, n=70, r=8, missing=missing)
    found = call(method, options, labels, 4)
    assert_equal_results(found, call(method, options, labels, 4, backend="numpy"))


@every_method
def test_a_device_does_the_work_where_the_codes_are(
    device, monkeypatch, method, options
):
    labels, _ = noisy(1, n=50, r=6, missing=0.3)
    ens = gpc.Ensemble(labels)
    expected = call(method, options, ens, 3, backend="numpy")

    def refuse(*_, **__):
        pytest.fail("the host was asked")

    for name in ("count", "assign", "scores", "soft_count", "pairs"):
        monkeypatch.setattr(NumpyBackend, name, refuse)
    found = call(method, options, ens.to("cupy"), 3)
    assert found.backend == device.name
    assert_equal_results(found, expected)


@every
def test_unbalanced_classes(method, options):
    rng = np.random.default_rng(0)
    truth = rng.permutation(np.repeat([0, 1, 2], [50, 50, 12]))
    stray = rng.random((112, 15)) < 0.1
    labels = np.where(stray, rng.integers(3, size=(112, 15)), truth[:, None])
    result = call(method, options, labels, 3)
    assert result.labels.shape == (112,)
    if balanced(method, options):
        assert result.n_clusters == 3
    elif options.get("linkage") != "single":  # which chains through the strays
        found = gpc.metrics.adjusted_rand(truth, result.labels)
        assert found > (0.6 if method in SINGLE else 0.85)


@every
def test_equal_objects_stay_together(method, options):
    labels, _ = noisy(2, n=20, r=7)
    copies = np.repeat(labels, 4, axis=0)
    result = call(method, options, copies, 3)
    assert np.array_equal(result.labels, np.repeat(result.labels[::4], 4))


@every
@pytest.mark.parametrize("copies", [1, 5])
def test_equal_partitions_are_their_own_consensus(method, options, copies):
    truth = np.random.default_rng(1).permutation(np.arange(36) % 4)
    names = [np.array([3, 1, 7, 5]), np.array(list("abcd"))]
    columns = [names[i % 2][truth] for i in range(copies)]
    ens = gpc.Ensemble.from_partitions(columns)
    result = call(method, options, ens, 4)
    if copies > 1 or method not in UNIDENTIFIED:
        assert same(truth, result.labels)
        assert result.confidence == pytest.approx(np.ones(36))
        assert np.array_equal(result.predict(ens), result.labels)


@every
def test_missing_labels(method, options):
    labels, truth = clear(7, n=60, r=15)
    rng = np.random.default_rng(7)
    gone = rng.random(labels.shape) < 0.3
    gone[:, 0] = False
    ens = gpc.Ensemble(np.where(gone, -1, labels))
    result = call(method, options, ens, 3)
    assert (result.labels >= 0).all()
    assert ((result.confidence >= 0) & (result.confidence <= 1)).all()
    assert set(result.predict(ens).tolist()) <= set(range(result.n_clusters))
    if (
        not balanced(method, options)
        and method not in SINGLE
        and options.get("linkage") is None
    ):
        assert gpc.metrics.adjusted_rand(truth, result.labels) > 0.9


@every
def test_objects_without_any_label(method, options):
    labels, _ = clear(3)
    labels[[4, 20]] = -1
    with pytest.raises(ValueError, match="2 objects have no label in any partition"):
        call(method, options, labels, 3)
    result = call(method, options, labels, 3, on_unlabelled="keep")
    assert np.flatnonzero(result.labels == -1).tolist() == [4, 20]
    assert result.confidence[[4, 20]].tolist() == [0, 0]


@every
def test_one_object_and_one_cluster(method, options):
    result = call(method, options, np.array([[0, 5, 2]]), 1)
    assert result.labels.tolist() == [0]
    labels, _ = clear(0)
    if "n_clusters" in inspect.signature(gpc.METHODS[method]).parameters:
        assert not call(method, options, labels, 1).labels.any()


@every
def test_a_partition_of_one_label_says_nothing(method, options):
    labels, truth = clear(4)
    result = call(method, options, np.column_stack([labels, np.zeros(33)]), 3)
    if method not in SINGLE:
        assert same(truth, result.labels)


@every
def test_weights_of_zero_leave_partitions_out(method, options):
    labels, truth = clear(2)
    rng = np.random.default_rng(0)
    noise = rng.integers(3, size=(33, 12))
    weights = np.r_[np.full(9, 2.0), np.zeros(12)]
    weights[:9] += np.arange(9) / 20
    if method in NO_WEIGHTS:
        with pytest.raises(ValueError, match=f"weights .* {method} does not know"):
            call(method, options, labels, 3, weights=weights[:9])
        return
    result = call(method, options, np.column_stack([labels, noise]), 3, weights=weights)
    if method not in SINGLE:
        assert same(truth, result.labels)
    only = call(method, options, labels, 3, weights=[1] + [0] * 8)
    if method not in UNIDENTIFIED:
        assert same(labels[:, 0], only.labels)


@every
def test_wrong_calls_say_what_is_wrong(method, options):
    labels, _ = clear(1)
    with pytest.raises(TypeError, match=f"{method}.*colour"):
        call(method, options, labels, 3, colour="red")
    with pytest.raises(ValueError, match="weights has shape"):
        call(method, options, labels, 3, weights=[1, 2])
    if "n_clusters" in inspect.signature(gpc.METHODS[method]).parameters:
        for k, words in ((0, "n_clusters=0 should be >= 1"), (99, "n_samples=33")):
            with pytest.raises(ValueError, match=words):
                call(method, options, labels, k)
        if not finds_n_clusters(gpc.METHODS[method]):
            with pytest.raises(TypeError, match="n_clusters=None should be an integer"):
                call(method, options, labels, None)


def test_every_method_is_public_and_documented():
    for method, function in gpc.METHODS.items():
        assert getattr(gpc, method) is function
        text = inspect.getdoc(function)
        for heading in ("Parameters", "Returns", "References", "Examples"):
            assert f"\n{heading}\n---" in text, (method, heading)


def test_options_are_those_of_methods_that_exist():
    parameters = {
        (method, name)
        for method, options in VARIANTS.items()
        if method in gpc.METHODS
        for name in itertools.chain.from_iterable(options)
    }
    for method, name in parameters:
        assert name in inspect.signature(gpc.METHODS[method]).parameters


@every
def test_long_methods_take_a_checkpoint_and_the_others_say_no(
    method, options, tmp_path
):
    labels, _ = clear(1)
    path = tmp_path / "state.npz"
    if method in RESUMED:
        first = call(method, options, labels, 3, checkpoint=path)
        again = call(method, options, labels, 3, checkpoint=path)
        assert path.is_file()
        assert np.array_equal(first.labels, again.labels)
    else:
        with pytest.raises(TypeError, match=f"{method}.*'checkpoint'"):
            call(method, options, labels, 3, checkpoint=path)


WRONG = {
    "weights": "heavy",
    "on_unlabelled": "drop",
    "backend": "gpu",
    "n_jobs": 0,
    "memory_limit": -1,
    "random_state": -1,
    "init": "colour",
    "n_init": 0,
    "max_iter": 0,
    "refine": "always",
    "checkpoint": 5,
}
"""A value that each option refuses by name."""


@pytest.mark.parametrize("method", gpc.METHODS)
def test_every_option_is_in_the_signature_and_arrives_under_its_name(method):
    function = gpc.METHODS[method]
    parameters = inspect.signature(function).parameters.values()
    assert not any(one.kind is one.VAR_KEYWORD for one in parameters)
    names = option_names(function)
    assert {*SHARED, "n_jobs", "progress"} <= set(names)
    for name in names:
        assert re.search(rf"\b{name}\b", inspect.getdoc(function)), name
    labels, _ = clear(0)
    told = {"n_clusters": 2} if "n_clusters" in names else {}
    for name in WRONG.keys() & set(names):
        with pytest.raises((ValueError, TypeError), match=rf"^{name}\b"):
            function(labels, **told, **{name: WRONG[name]})


SHARED = ["weights", "on_unlabelled", "backend", "memory_limit", "random_state"]


@pytest.mark.parametrize("method", gpc.METHODS)
def test_a_misspelt_option_is_met_with_the_real_ones(method):
    function = gpc.METHODS[method]
    parameters = inspect.signature(function).parameters
    own = [one.name for one in parameters.values() if one.kind is one.KEYWORD_ONLY]
    labels = np.array([[0, 0], [0, 1], [1, 1], [1, 0]])
    for name in own + SHARED:
        with pytest.raises(TypeError) as caught:
            gpc.consensus(labels, 2, method, **{name + "e": 1})
        listed = re.findall(r"'(\w+)'", str(caught.value).split("choose one of")[1])
        assert listed[0] == name
        assert set(own + SHARED) <= set(listed)
        assert ("checkpoint" in listed) == (method in RESUMED)


@pytest.mark.parametrize("path", [5, 2.5, b"bytes", ["a"], True])
def test_what_is_no_path_is_refused_in_one_sentence(path):
    words = re.escape(f"={path!r} should be a path")
    labels = np.array([[0, 0], [0, 1], [1, 1], [1, 0]])
    for method in RESUMED:
        with pytest.raises(TypeError, match="checkpoint" + words):
            gpc.METHODS[method](labels, 2, checkpoint=path)
    with pytest.raises(TypeError, match="checkpoint" + words):
        gpc.generate_partitions(np.ones((9, 2)), 3, checkpoint=path)
    for call in (gpc.Ensemble(labels).save, gpc.Ensemble.load):
        with pytest.raises(TypeError, match="path" + words):
            call(path)
