"""Text, dates, masks, complex numbers and overflow are never taken for numbers."""

import datetime
import decimal
import fractions
import math

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import gpu_consensus as gpc
from gpu_consensus.generate.features import column_deviation
from gpu_consensus.util.checks import (
    check_int,
    check_not_negative,
    check_positive,
    check_share,
    check_weights,
)
from gpu_consensus.util.numbers import check_mask, real_number, shown
from gpu_consensus.util.tables import check_features

NO_NUMBERS = [
    "0.5",
    b"0.5",
    True,
    np.True_,
    None,
    0.5j,
    10**400,
    np.datetime64("2020-01-01"),
    np.timedelta64(1, "s"),
    datetime.date(2020, 1, 1),
    np.ma.masked,
    np.array([0.5, 0.5]),
    np.array([0.5]),
    [0.5],
    object(),
]


@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda value: type(value).__name__)
def test_what_is_no_number(value):
    assert math.isnan(real_number(value))
    for check in (check_positive, check_not_negative):
        with pytest.raises(ValueError, match=r"^theta=.* should be a finite number"):
            check("theta", value)
    with pytest.raises(ValueError, match=r"^share=.* should be a number in"):
        check_share("share", value, open_low=True, open_high=True)


@pytest.mark.parametrize(
    "value",
    [0.5, np.float16(0.5), fractions.Fraction(1, 2), decimal.Decimal("0.5")],
)
def test_numbers_of_every_kind(value):
    assert real_number(value) == 0.5
    assert real_number(np.asarray(0.5)) == 0.5


def test_messages_are_short_and_one_line():
    class Odd:
        def __repr__(self):
            raise RuntimeError

    values = ["a\nb" * 999, 10**5000, Odd(), sparse.eye_array(9), np.zeros((99, 99))]
    for value in values:
        text = shown(value)
        assert "\n" not in text
        assert len(text) < 200
        with pytest.raises((TypeError, ValueError)) as caught:
            check_int("n", value, 0, 3)
        assert "\n" not in str(caught.value)


def test_checked_integers_are_kept():
    """A small NumPy integer would overflow in the first product."""
    labels = np.random.default_rng(0).integers(3, size=(60, 4))
    plain = gpc.kcc(labels, 3, n_init=100, max_iter=99, random_state=0)
    small = gpc.kcc(
        labels, 3, n_init=np.int8(100), max_iter=np.uint8(99), random_state=0
    )
    assert plain.objective == small.objective
    assert plain.labels.tolist() == small.labels.tolist()


@pytest.mark.parametrize(
    "weights",
    [
        np.array(["2020-01-01"] * 2, "M8[D]"),
        np.array([1, 2], "m8[s]"),
        np.array(["1", "2"], dtype=object),
        ["1", "2"],
        [1, 10**400],
        [1, 2j],
        [[1], [2, 3]],
        sparse.csr_array([[1, 2]]),
        [datetime.date(2020, 1, 1)] * 2,
    ],
    ids=repr,
)
def test_weights_that_are_no_numbers(weights):
    with pytest.raises(TypeError, match=r"^weights=.* should be numbers, one per"):
        check_weights(weights, 2)


def test_masks_are_not_ignored():
    hidden = np.ma.masked_array([[1.0, 2.0], [3.0, 4.0]], mask=[[0, 0], [1, 0]])
    where = r"has 1 masked entries, the first at \[1, 0\]; fill"
    for call in (
        lambda: check_features(hidden),
        lambda: gpc.metrics.compactness(hidden, [0, 0]),
        lambda: gpc.ConsensusClustering(1).fit(hidden),
    ):
        with pytest.raises(ValueError, match=f"^X {where}"):
            call()
    with pytest.raises(ValueError, match=r"^weights has 1 masked"):
        check_weights(np.ma.masked_array([1, 2], mask=[0, 1]), 2)
    nothing = np.ma.masked_array([[1.0]], mask=[[0]])
    assert type(check_mask("X", nothing)) is np.ndarray


@pytest.mark.parametrize(
    ("X", "what"),
    [
        ([[10**400, 1]], "a number too large for float64 in row 0, column 0"),
        (np.array([[1, "2"]], dtype=object), "'2' in row 0, column 1"),
        (np.array([[1, 2j]], dtype=object), "2j in row 0, column 1"),
        (pd.DataFrame({"a": [1, 2], "b": ["1", "2"]}), "'1' in row 0, column 1"),
        (pd.DataFrame({"a": [None, "2"]}, dtype=object), "'2' in row 1, column 0"),
        (
            np.array([[np.datetime64("2020-01-01")]], dtype=object),
            "datetime64.* in row 0, column 0",
        ),
    ],
)
def test_features_that_look_like_numbers(X, what):
    with pytest.raises(ValueError, match=f"^X has .*{what}, but every cell"):
        check_features(X)


def test_small_integers_do_not_overflow_in_a_sparse_sum():
    twice = ([100, 100], ([0, 0], [0, 0]))
    X = sparse.coo_array(twice, shape=(1, 1), dtype=np.int8)
    assert check_features(X).toarray().tolist() == [[200.0]]


@pytest.mark.parametrize("scale", [2.0**660, 2.0**-660, 2.0**1000, 1.0])
def test_the_spread_of_a_column_of_any_size(scale):
    X = np.random.default_rng(0).normal(size=(50, 3))
    expected = X.std(axis=0)
    expected[1] *= scale
    X[:, 1] *= scale
    np.testing.assert_allclose(column_deviation(X), expected, rtol=1e-12)
    X[:, 2] = scale
    assert column_deviation(X)[2] == 1


@pytest.mark.parametrize("scale", [2.0**660, 2.0**-660])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_compactness_of_any_size(make, scale):
    X = np.random.default_rng(1).normal(size=(20, 2))
    labels = [0] * 9 + [1] * 11
    expected = gpc.metrics.compactness(make(X), labels) * scale
    assert gpc.metrics.compactness(make(X * scale), labels) == pytest.approx(expected)


def test_compactness_beyond_float64():
    with pytest.raises(ValueError, match="too large for float64; divide X"):
        gpc.metrics.compactness([[1.7e308], [-1.7e308]], [0, 0])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones((2, 1)) + 1j, "Complex data not supported"),
        ([["1"], ["2"]], "entries of type <U1"),
        (np.array([["2020-01-01"]] * 2, "M8[D]"), "entries of type datetime64"),
        ([[1], [2, 3]], "X is not a table"),
    ],
)
def test_compactness_of_what_is_no_table(X, message):
    with pytest.raises(ValueError, match=message) as caught:
        gpc.metrics.compactness(X, [0, 0])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), "much", None, [1, 2]])
def test_a_measure_that_returns_no_number(value):
    labels = np.array([[0, 0], [0, 1], [1, 1]])

    def measure(a, b):
        return value

    with pytest.raises(ValueError, match=r"measure=.* returned .* a finite number"):
        gpc.metrics.consensus_criterion(labels, [0, 0, 1], measure)


@pytest.mark.parametrize("value", ["x", np.array("x"), [[1], [2, 3]], 1j])
def test_a_utility_that_returns_no_numbers(value):
    utility = gpc.Utility(lambda m: value, lambda m: value)
    labels = np.array([[0, 0], [0, 1], [1, 1]])
    with pytest.raises(ValueError, match="mu of utility 'mine' returned"):
        gpc.kcc(labels, 2, utility)


@pytest.mark.parametrize("name", ["method_options", "generate_options"])
def test_options_that_are_no_dict(name):
    X = np.random.default_rng(0).normal(size=(9, 2))
    model = gpc.ConsensusClustering(2, n_partitions=3, **{name: 5})
    assert model.__sklearn_tags__().input_tags.sparse
    with pytest.raises(TypeError, match=f"^{name}=5 should be a dict of options"):
        model.fit(X)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_labels": [3.7]}, r"n_labels=\[3.7\] should be integers"),
        ({"n_labels": ["3"]}, r"n_labels=\['3'\] should be integers"),
        ({"n_labels": None}, "n_labels=None should be integers"),
        ({"n_labels": [2**33]}, r"n_labels\[0\]=8589934592 should be in 0..255"),
        ({"categories": [["a", "a", "b"]]}, "has a label twice"),
        ({"categories": [5]}, "categories do not fit"),
        ({"categories": 5}, "categories do not fit"),
        ({"marginals": np.array([5, 0, 0, 0])}, r"they are \[2, 2, 1, 0\]"),
        ({"marginals": "x"}, r"they are \[2, 2, 1, 0\]"),
        (
            {"codes": np.ma.masked_array([[0, 1]], mask=[[0, 1]], dtype=np.uint8)},
            "codes has 1 masked",
        ),
        ({"codes": "abc"}, "codes have shape"),
    ],
)
def test_codes_from_elsewhere(arguments, message):
    codes = np.array([[0, 1, 2, 0, 1]], dtype=np.uint8)
    with pytest.raises((ValueError, TypeError), match=message):
        gpc.Ensemble.from_codes(**{"codes": codes, "n_labels": [3], **arguments})


def test_a_sparse_matrix_is_no_table_of_labels():
    with pytest.raises(TypeError, match=r"a sparse matrix, .* use labels.toarray"):
        gpc.kcc(sparse.csr_array(np.eye(3)), 2)


def test_no_objects_of_many_partitions_end_at_once():
    with pytest.raises(ValueError, match="the ensemble is empty"):
        gpc.Ensemble(np.empty((0, 10**12)))


class Refuses:
    """Answers no question."""

    def __array__(self, *_, **__):
        raise RuntimeError("no array")


@pytest.mark.parametrize(
    "call",
    [
        lambda odd: gpc.Ensemble(odd),
        lambda odd: gpc.Ensemble.from_partitions([odd]),
        lambda odd: gpc.Ensemble.from_codes(odd, [2]),
        lambda odd: gpc.generate_partitions(odd),
        lambda odd: gpc.kcc(np.eye(4, dtype=int), 2, weights=odd),
        lambda odd: gpc.metrics.nmi(odd, odd),
        lambda odd: gpc.select_n_clusters(odd),
        lambda odd: gpc.ConsensusClustering(2).fit(odd),
    ],
)
def test_an_object_that_refuses_to_be_an_array(call):
    with pytest.raises((TypeError, ValueError), match=r"^[^\n]*\.$"):
        call(Refuses())


@pytest.mark.parametrize(
    "call",
    [
        lambda labels: gpc.kcc(labels, 2, n_init=10**12),
        lambda labels: gpc.em(labels, 2, n_init=10**30),
        lambda labels: gpc.ecpcs(labels, 2, steps=10**12),
        lambda labels: gpc.kcc(labels, 2, search=10**12),
        lambda labels: gpc.generate_partitions(labels * 1.0, 10**8),
        lambda labels: gpc.generate_partitions(
            labels * 1.0, 2, "projection", 2, n_components=10**30
        ),
        lambda labels: gpc.lambda_consensus(labels * 1.0, 2, n_clusterers=2**63),
        lambda labels: gpc.select_n_clusters(labels * 1.0, n_null=10**30),
    ],
)
def test_counts_have_a_bound_before_the_work(call):
    labels = np.random.default_rng(0).integers(3, size=(20, 4))
    with pytest.raises(ValueError, match=r"^\w+=\d.* should be <= \d+; each takes"):
        call(labels)


@pytest.mark.filterwarnings("ignore:ecpcs found 2 clusters:UserWarning")
@pytest.mark.parametrize("method", ["ecpcs", "kcc", "lwgp", "hac"])
def test_a_tiny_weight_is_none(method):
    labels = np.random.default_rng(0).integers(3, size=(20, 3))
    none, tiny = (
        gpc.METHODS[method](labels, 3, weights=weights, random_state=0)
        for weights in ([1, 1, 0], [1, 1, 1e-320])
    )
    assert np.array_equal(none.labels, tiny.labels)
    assert none.objective == tiny.objective


@pytest.mark.parametrize("method", ["kcc", "sec", "em", "ivc"])
def test_tables_that_no_memory_holds_are_refused_before_the_work(method):
    rng = np.random.default_rng(0)
    fine = np.stack([rng.permutation(60_000) for _ in range(30)], axis=1)
    with pytest.raises(MemoryError, match=rf"^{method}.* 59000 clusters needs"):
        gpc.METHODS[method](fine, 59_000, random_state=0)
