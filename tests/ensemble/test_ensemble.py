"""What an ensemble is, refuses, and gives back."""

from __future__ import annotations

import math
import pickle
from copy import copy, deepcopy
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from encoding_oracle import MIXED, assert_encodes, assert_same, tables
from hypothesis import given
from hypothesis import strategies as st

from gpu_consensus import Ensemble
from gpu_consensus.ensemble.ensemble import as_ensemble
from gpu_consensus.util import checks

# Weights


def two_partitions(weights):
    return Ensemble.from_partitions([[0, 1, 1], [0, 0, 1]], weights=weights)


@pytest.mark.parametrize(
    "weights",
    [
        [1, 3],
        (0.25, 0.75),
        np.array([1, 3], np.int8),
        pd.Series([5, 15]),
        [5e307, 1.5e308],
    ],
)
def test_weights_are_scaled(weights):
    scale = [float(w) / 1e300 for w in weights]
    expected = [w / sum(scale) for w in scale]
    assert two_partitions(weights).weights.tolist() == pytest.approx(expected)


def test_weights_default_to_equal():
    assert Ensemble(np.zeros((2, 4), int)).weights.tolist() == [0.25] * 4


@given(st.lists(st.floats(0, 1e308), min_size=1, max_size=200).filter(any))
def test_weights_sum_to_one_and_stay(weights):
    scaled = checks.check_weights(weights, len(weights))
    assert math.fsum(scaled) == pytest.approx(1, abs=1e-14)
    again = checks.check_weights(scaled, len(weights))
    assert again.tobytes() == scaled.tobytes()
    assert again is not scaled


@pytest.mark.parametrize(
    ("weights", "error", "match"),
    [
        ([1, -2], ValueError, r"weights\[1\]=-2.0 should be finite and >= 0"),
        ([0, 0], ValueError, "weights are all zero"),
        ([1, 2, 3], ValueError, r"shape \(3,\) but the ensemble has n_partitions=2"),
        (1.0, ValueError, r"shape \(\) but the ensemble has n_partitions=2"),
        ([[1, 2]], ValueError, r"shape \(1, 2\)"),
        ([1, math.nan], ValueError, r"weights\[1\]=nan should be finite"),
        ([1, None], ValueError, r"weights\[1\]=nan should be finite"),
        ([math.inf, 1], ValueError, r"weights\[0\]=inf should be finite"),
        (["a", "b"], TypeError, r"weights=\['a', 'b'\] should be numbers"),
        (["1", "2"], TypeError, "should be numbers"),
        ([1j, 2], TypeError, "should be numbers"),
        ([[1], [1, 2]], TypeError, "should be numbers"),
        ({"a": 1, "b": 2}, TypeError, "should be numbers"),
    ],
)
def test_bad_weights(weights, error, match):
    with pytest.raises(error, match=match):
        two_partitions(weights)


def test_as_ensemble():
    ens = two_partitions([1, 3])
    same, weights = as_ensemble(ens)
    assert same is ens
    assert weights.tolist() == [0.25, 0.75]
    assert as_ensemble(ens, [1, 1])[1].tolist() == [0.5, 0.5]
    assert_same(as_ensemble(ens.labels)[0], Ensemble(ens.labels))
    with pytest.raises(ValueError, match="weights are all zero"):
        as_ensemble(ens, [0, 0])


# Bad input


@pytest.mark.parametrize(
    ("labels", "match"),
    [
        (np.empty((0, 3), int), "the ensemble is empty"),
        (np.empty((3, 0), int), "the ensemble is empty"),
        (pd.DataFrame(), "the ensemble is empty"),
        (np.zeros((2, 2, 2), int), "labels has 3 dimensions.*in each column"),
        (np.zeros(3, int), r"1 dimensions.*from_partitions\(\[labels\]\)"),
        (pd.Series([0, 1]), r"1 dimensions.*from_partitions\(\[labels\]\)"),
        (np.int64(3), "labels has 0 dimensions"),
        (None, "labels has 0 dimensions"),
        (np.array([[0, 0.5], [0, 1.0]]), "partition 1 has the label 0.5; .* whole"),
        (np.array([[0.0], [np.inf]]), "partition 0 has the label inf; .* whole"),
        (np.array([[0.0], [-np.inf]]), "partition 0 has the label -inf; .* whole"),
        (np.array([[0.0], [1e300]]), "partition 0 has the label 1e[+]300"),
        (np.array([[0, 0], [0, -2]]), "partition 1 has the label -2; only -1"),
        (np.array([[0.0], [-3.0]]), "partition 0 has the label -3; only -1"),
        (np.array([["a"], [-4]], dtype=object), "the label -4; only -1"),
        (np.array([["a"], [np.int8(-4)]], dtype=object), "the label -4; only -1"),
        (np.array([["a"], [0.5]], dtype=object), "the label 0.5; .* whole"),
        (np.array([["a"], [math.inf]], dtype=object), "the label inf; .* whole"),
        (np.array([["a"], [np.float32(0.5)]], dtype=object), "the label 0.5; .* whole"),
        (np.array([["a"], [Decimal("0.5")]], dtype=object), "the label 0.5; .* whole"),
        (np.array([["a"], [Decimal("inf")]], dtype=object), "Infinity; .* whole"),
    ],
)
def test_bad_labels(labels, match):
    with pytest.raises(ValueError, match=match):
        Ensemble(labels)


@pytest.mark.parametrize("labels", [[[0, 1], [1, 1]], ((0, 1), (1, 1)), []])
def test_a_plain_list_is_ambiguous(labels):
    with pytest.raises(TypeError, match=r"np\.asarray.*from_partitions"):
        Ensemble(labels)


def test_an_ensemble_is_no_array_of_labels():
    with pytest.raises(TypeError, match="is an Ensemble already"):
        Ensemble(two_partitions(None))


def test_complex_labels_in_an_array():
    with pytest.raises(TypeError, match="partition 0 has labels of type complex128"):
        Ensemble(np.ones((2, 2), complex))


@pytest.mark.parametrize(
    ("partitions", "error", "match"),
    [
        ([], ValueError, "the ensemble is empty"),
        (iter(()), ValueError, "the ensemble is empty"),
        ([[], []], ValueError, "the ensemble is empty"),
        ([[0, 1], [0]], ValueError, "partition 1 has 1 labels but partition 0 has 2"),
        ([[[0, 1], [1, 0]]], TypeError, r"label \[0, 1\], which is not hashable"),
        ([[{}, {}]], TypeError, r"partition 0 has the label {}, which is not hashable"),
        ([[0, 1], [{1}, 0]], TypeError, "partition 1 has the label .1., which is not"),
        ([[np.arange(2), 1]], TypeError, "not hashable"),
        ([np.zeros((3, 1))], ValueError, "partition 0 has 2 dimensions"),
        ([[0, 1], 5], TypeError, "partition 1 is 5; it should be a vector"),
        (["ab", "aa"], TypeError, "partition 0 is 'ab'; it should be a vector"),
        ([{0, 1}], TypeError, "partition 0 is {0, 1}; it should be a vector"),
        ({"a": [0, 1]}, TypeError, "partition 0 is 'a'; it should be a vector"),
        (np.array([0, 1]), ValueError, "partition 0 has 0 dimensions"),
        ("abc", TypeError, "partitions='abc' should be a sequence"),
        (3, TypeError, "partitions=3 should be a sequence"),
        (None, TypeError, "partitions=None should be a sequence"),
        (pd.DataFrame({"a": [0]}), TypeError, r"DataFrame; .*Ensemble\(partitions\)"),
    ],
)
def test_bad_partitions(partitions, error, match):
    with pytest.raises(error, match=match):
        Ensemble.from_partitions(partitions)


# from_codes

CODES = np.array([[0, 1, 2, 0], [0, 0, 0, 1]], dtype=np.uint8)


def test_from_codes():
    ens = Ensemble.from_codes(
        CODES, [2, 1], [1, 1], categories=[np.array(["x", "y"]), [5]]
    )
    assert np.shares_memory(ens.codes, CODES)
    assert CODES.flags.writeable
    assert ens.labels.tolist() == [[0, 0], [1, 0], [-1, 0], [0, -1]]
    assert ens.marginals.tolist() == [2, 1, 1, 3, 1]
    assert ens.offsets.tolist() == [0, 3, 5]
    assert ens.n_missing.tolist() == [1, 1]
    assert ens.subset(rows=[1]).categories[1].tolist() == [5]
    assert Ensemble.from_codes(CODES, [2, 1]).categories[0].tolist() == [0, 1]


def test_from_codes_makes_rows_contiguous():
    ens = Ensemble.from_codes(np.asfortranarray(CODES), [2, 1])
    assert ens.codes.flags.c_contiguous
    np.testing.assert_array_equal(ens.codes, CODES)


def test_from_codes_keeps_a_label_without_objects():
    assert Ensemble.from_codes(CODES, [4, 3]).n_missing.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("codes", "n_labels", "options", "match"),
    [
        (CODES.astype(int), [2, 1], {}, "type int64; they should be"),
        (CODES.tolist(), [2, 1], {}, "type int64; they should be"),
        (CODES[0], [2], {}, r"codes have shape \(4,\)"),
        (CODES[:, :0], [2, 1], {}, "the ensemble is empty"),
        (CODES[:0], [], {}, "the ensemble is empty"),
        (CODES, [2], {}, r"n_labels has shape \(1,\) but there are 2"),
        (CODES, 2, {}, r"n_labels has shape \(\) but there are 2"),
        (CODES, [1, 1], {}, "in partition 0 a code is 2 .* at most K_i=1"),
        (CODES, [2, 256], {}, r"n_labels\[1\]=256 should be in 0..255"),
        (CODES, [-1, 1], {}, r"n_labels\[0\]=-1 should be in 0..255"),
        (CODES, [2, 1], {"categories": [["x"], ["y"]]}, "categories do not fit"),
        (CODES, [2, 1], {"categories": [["x", "y"]]}, "categories do not fit"),
        (
            CODES,
            [2, 1],
            {"marginals": np.zeros(4, int)},
            "they are \\[2, 1, 1, 3, 1\\]",
        ),
        (CODES, [2, 1], {"weights": [0, 0]}, "all zero"),
    ],
)
def test_bad_codes(codes, n_labels, options, match):
    with pytest.raises(ValueError, match=match):
        Ensemble.from_codes(codes, n_labels, **options)


# Immutability and repr


def test_nothing_can_be_written():
    sizes = np.array([2, 1])
    ens = Ensemble.from_codes(CODES, sizes, np.array([0.25, 0.75]))
    for array in (ens.codes, ens.offsets, ens.marginals, *ens.categories):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    with pytest.raises(AttributeError):
        ens.codes = CODES
    sizes[:] = ens.n_labels[:] = ens.weights[:] = ens.labels[:] = 0
    assert ens.n_labels.tolist() == [2, 1]
    assert ens.weights.tolist() == [0.25, 0.75]
    assert ens.labels.max() == 1


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize(
    "again", [copy, deepcopy, lambda ens: pickle.loads(pickle.dumps(ens))]
)
def test_copies_and_pickles_cannot_be_written_either(tmp_path, again, mapped):
    ens = Ensemble.from_codes(CODES, [2, 1], [1, 3], categories=[["x", "y"], [5]])
    if mapped:
        ens.save(tmp_path / "ensemble")
        ens = Ensemble.load(tmp_path / "ensemble")
    other = again(ens)
    assert_same(other, ens)
    for array in (other.codes, other.offsets, other.marginals, *other.categories):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    in_memory = other.codes.base is None or not np.shares_memory(other.codes, ens.codes)
    assert ("mapped from disk" in repr(other)) == (mapped and not in_memory)


@pytest.mark.parametrize(
    ("ens", "text"),
    [
        (
            Ensemble(np.array([[0, 0], [1, 0], [2, -1]])),
            "Ensemble(2 partitions of 3 objects, 1 to 3 labels each, 16.7% missing, "
            "uint8, 6 B)",
        ),
        (
            Ensemble.from_partitions([[0]]),
            "Ensemble(1 partition of 1 object, 1 label each, none missing, uint8, 1 B)",
        ),
        (
            Ensemble(np.repeat(np.arange(600)[:, None], 2, axis=1), weights=[1, 2]),
            "Ensemble(2 partitions of 600 objects, 600 labels each, none missing, "
            "weighted, uint16, 2.4 kB)",
        ),
    ],
)
def test_repr(ens, text):
    assert repr(ens) == text


# Subsets

LABELS = [
    ["b", None, "a", "c", "b", "a"],
    [3, 3, -1, 1, 0, 1],
    [0, 0, 0, 0, 0, 0],
]


@pytest.mark.parametrize(
    "rows",
    [
        None,
        slice(None),
        slice(1, 4),
        slice(None, None, -2),
        [5, 0, 0],
        np.array([2], dtype=np.uint8),
        -1,
        range(2, 4),
        [True, False, True, False, False, True],
        pd.Series([False] * 5 + [True]),
    ],
)
@pytest.mark.parametrize(
    "partitions", [None, slice(1, None), [2, 0], [True, True, False]]
)
def test_subset(rows, partitions):
    weights = np.array([0.5, 0.2, 0.3])
    ens = Ensemble.from_partitions(LABELS, weights=weights)
    part = ens.subset(rows=rows, partitions=partitions)
    take = {"rows": range(6), "partitions": range(3)}
    for name, index in (("rows", rows), ("partitions", partitions)):
        if isinstance(index, slice):
            take[name] = take[name][index]
        elif isinstance(index, int):
            take[name] = [index]
        elif index is not None and isinstance(next(iter(index)), (bool, np.bool_)):
            take[name] = [l for l, keep in enumerate(index) if keep]
        elif index is not None:
            take[name] = list(index)
    chosen = [[LABELS[i][l] for l in take["rows"]] for i in take["partitions"]]
    assert_encodes(part, chosen)
    kept = weights[list(take["partitions"])]
    assert part.weights.tolist() == pytest.approx((kept / kept.sum()).tolist())


def test_subset_shrinks_the_codes_again():
    ens = Ensemble.from_partitions([np.arange(300), np.zeros(300, int)])
    assert ens.subset(rows=slice(0, 255)).codes.dtype == np.uint8
    assert ens.subset(rows=slice(0, 256)).codes.dtype == np.uint16
    assert ens.subset(partitions=[1]).codes.dtype == np.uint8


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"rows": []}, ValueError, "rows selects nothing"),
        ({"rows": slice(9, None)}, ValueError, "rows selects nothing"),
        ({"partitions": [False] * 3}, ValueError, "partitions selects nothing"),
        ({"rows": [6]}, IndexError, r"rows=\[6\] should be integers in 0..5"),
        ({"partitions": [True]}, IndexError, "or a mask of length 3"),
        ({"rows": True}, IndexError, "or a mask of length 6"),
        ({"rows": [0.5]}, TypeError, "should be a slice, a mask or a flat list of int"),
        ({"rows": [[0, 1]]}, TypeError, "a flat list of integers in 0..5"),
        ({"rows": "abc"}, TypeError, "rows='abc' should be a slice"),
        ({"rows": slice("a", None)}, TypeError, "should be a slice"),
        ({"partitions": [1]}, ValueError, "weights are all zero"),
    ],
)
def test_bad_subset(options, error, match):
    ens = Ensemble.from_partitions(LABELS, weights=[1, 0, 1])
    with pytest.raises(error, match=match):
        ens.subset(**options)


# New labels


@given(tables(MIXED), st.data())
def test_encode_knows_its_own_labels(partitions, data):
    ens = Ensemble.from_partitions(partitions)
    rows = data.draw(st.lists(st.integers(0, ens.n_samples - 1), max_size=5))
    array = np.empty((len(rows), ens.n_partitions), dtype=object)
    for i, labels in enumerate(partitions):
        for row, l in enumerate(rows):
            array[row, i] = labels[l]
    codes = ens.encode(array)
    assert codes.dtype == ens.codes.dtype
    assert codes.tolist() == ens.codes[:, rows].tolist()


def test_unknown_labels_warn_and_count_as_missing():
    ens = Ensemble.from_partitions([["a", "b"], [4, 9]])
    new = pd.DataFrame({"x": ["b", "z", None], "y": [5, 4, 6]})
    with pytest.warns(UserWarning, match="^3 labels were never seen") as caught:
        codes = ens.encode(new)
    assert codes.tolist() == [[1, 2, 2], [2, 0, 2]]
    assert caught[0].filename == __file__


def test_encode_across_types():
    ens = Ensemble(np.array([[1, 0], [2, 1]]))
    assert ens.encode(np.array([[2.0, 1.0], [-1.0, np.nan]])).tolist() == [
        [1, 2],
        [1, 2],
    ]
    assert ens.encode(np.array([[True, False]])).tolist() == [[0], [0]]
    days = Ensemble(np.array([["2020-01-01"], ["2020-01-02"]], dtype="M8[ns]"))
    assert days.encode(np.array([["2020-01-02"]], dtype="M8[D]")).tolist() == [[1]]
    with pytest.warns(UserWarning, match="1 labels were never seen"):
        days.encode(np.array([[1577836800000000000]]))


def test_encode_an_ensemble_by_its_own_labels():
    ens = Ensemble.from_partitions([["a", "b", "c"]])
    other = Ensemble.from_partitions([["c", None, "b"]])
    assert ens.encode(other).tolist() == [[2, 3, 1]]


def test_encode_wants_every_partition():
    with pytest.raises(ValueError, match=r"labels has 1 columns .* n_partitions=2"):
        two_partitions(None).encode(np.zeros((3, 1), int))


def test_to():
    ens = two_partitions(None)
    assert ens.to("numpy") is ens
    assert ens.to("native") is ens
    with pytest.raises(
        ValueError, match="backend='cuppy' is unknown; choose one of 'cupy'"
    ):
        ens.to("cuppy")
