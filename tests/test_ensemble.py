from __future__ import annotations

import datetime as dt
import enum
import errno
import itertools
import json
import math
import os
import pickle
import re
import shutil
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import copy, deepcopy
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpu_consensus import Ensemble, checks, encoding, storage
from gpu_consensus.encoding import count_codes, encode
from gpu_consensus.ensemble import as_ensemble

# The oracle: a dictionary from label to number, filled in plain Python.


def missing(label):
    return label is None or label is pd.NA or label != label or label == -1


def oracle(labels):
    """Codes by sorted label, or by first appearance where labels have no order."""
    # np.int8(2) and Decimal(2) are equal by hash, but refuse to be compared
    labels = [
        x.item() if isinstance(x, (np.integer, np.floating)) else x for x in labels
    ]
    present = list(dict.fromkeys(x for x in labels if not missing(x)))
    with suppress(TypeError):
        present = sorted(present)
    number = {label: code for code, label in enumerate(present)}
    return [-1 if missing(x) else number[x] for x in labels], present


def assert_encodes(ens, partitions):
    """Check an ensemble in full against the oracle; ``partitions``: lists of labels."""
    assert (ens.n_partitions, ens.n_samples) == (len(partitions), len(partitions[0]))
    largest = 0
    for i, labels in enumerate(partitions):
        codes, present = oracle(labels)
        assert ens.labels[:, i].tolist() == codes
        assert ens.n_labels[i] == len(present)
        assert list(ens.categories[i]) == present
        assert ens.n_missing[i] == codes.count(-1)
        internal = [len(present) if code == -1 else code for code in codes]
        assert ens.codes[i].tolist() == internal
        rows = slice(ens.offsets[i], ens.offsets[i + 1])
        counts = [internal.count(code) for code in range(len(present) + 1)]
        assert ens.marginals[rows].tolist() == counts
        largest = max(largest, len(present))
    assert ens.codes.dtype == (np.uint8 if largest <= 255 else np.uint16)
    assert ens.codes.flags.c_contiguous
    assert ens.labels.dtype == np.int32


def assert_same(a, b):
    assert a.codes.dtype == b.codes.dtype
    np.testing.assert_array_equal(a.codes, b.codes)
    np.testing.assert_array_equal(a.n_labels, b.n_labels)
    np.testing.assert_array_equal(a.marginals, b.marginals)
    np.testing.assert_array_equal(a.offsets, b.offsets)
    assert a.weights.tobytes() == b.weights.tobytes()
    for one, other in zip(a.categories, b.categories, strict=True):
        assert one.tolist() == other.tolist()
        assert [type(x) for x in one.tolist()] == [type(x) for x in other.tolist()]


class DeviceArray:
    """A stand-in for a CuPy array: an address on a device, and get()."""

    def __init__(self, array):
        self._array = np.asarray(array)
        self.__cuda_array_interface__ = {"shape": self._array.shape}

    def get(self):
        return self._array


def cudf_object(frame):
    """Make a stand-in for a cuDF object: its module's name, and to_pandas()."""
    members = {"__module__": "cudf.core.frame", "to_pandas": lambda self: frame}
    return type("CudfObject", (), members)()


# Input forms

NUMBERS = st.one_of(st.just(-1), st.integers(0, 5), st.integers(0, 100))
MIXED = st.one_of(
    st.none(),
    st.just(math.nan),
    st.integers(-1, 4),
    st.sampled_from([0.0, 1.0, -1.0, True, np.int8(2), np.float32(3), np.int64(-1)]),
    st.text(max_size=2),
    st.tuples(st.integers(0, 1), st.text(max_size=1)),
    st.binary(max_size=1),
    st.sampled_from([Decimal(2), Decimal("nan"), Fraction(4), pd.NA, pd.NaT]),
    st.sampled_from([frozenset(), dt.date(2020, 1, 1), 2**70, 1j]),
)


def tables(labels, min_size=1):
    """Partitions of equal length."""
    return st.integers(min_size, 12).flatmap(
        lambda n: st.lists(
            st.lists(labels, min_size=n, max_size=n), min_size=1, max_size=4
        )
    )


@given(tables(NUMBERS))
def test_integers(partitions):
    assert_encodes(Ensemble(np.array(partitions).T), partitions)
    assert_encodes(Ensemble.from_partitions(partitions), partitions)
    assert_encodes(Ensemble(pd.DataFrame(np.array(partitions).T)), partitions)


@given(tables(MIXED))
@example([["a\0", "a", "b"]])
@example([[2**63, 1, -1]])
@example([[2**63, 2**63 + 1, 2**63 + 2]])
@example([[1, "1", 1.0]])
@example([[None, None]])
def test_any_hashable(partitions):
    assert_encodes(Ensemble.from_partitions(partitions), partitions)
    array = np.empty((len(partitions[0]), len(partitions)), dtype=object)
    for i, labels in enumerate(partitions):
        for l, label in enumerate(labels):
            array[l, i] = label
    assert_encodes(Ensemble(array), partitions)
    assert_encodes(Ensemble(pd.DataFrame(array)), partitions)


@given(tables(st.one_of(st.text(max_size=3), st.none())))
def test_strings(partitions):
    assert_encodes(Ensemble.from_partitions(partitions), partitions)
    complete = [[x or "" for x in labels] for labels in partitions]
    array = np.array(complete).T
    assert array.dtype.kind == "U"
    assert_encodes(Ensemble(array), array.T.tolist())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoding, "_STRINGS_AT_ONCE", 2)
        assert_encodes(Ensemble(array), array.T.tolist())
    for dtype in ("string", "category"):
        columns = [pd.Series(labels, dtype=dtype) for labels in partitions]
        assert_encodes(Ensemble.from_partitions(columns), partitions)
        frame = pd.concat(columns, axis=1)
        assert_encodes(Ensemble(frame), partitions)


@pytest.mark.parametrize("dtype", [*np.typecodes["AllInteger"], ">i4", ">u2", ">i8"])
def test_every_integer_type(dtype):
    info = np.iinfo(dtype)
    highest = int(info.max)
    labels = [[0, highest, 3, highest], [highest - 1, highest, highest, highest - 1]]
    if info.min < 0:
        labels[0][2] = -1
    array = np.array(labels, dtype=dtype).T
    assert_encodes(Ensemble(array), labels)
    assert_encodes(Ensemble.from_partitions(array.T), labels)


@pytest.mark.parametrize("dtype", ["e", "f", "d", "g", ">f8"])
def test_every_float_type(dtype):
    labels = [[0.0, 2.0, -1.0, math.nan, 100.0], [-0.0, 0.0, 7.0, 7.0, math.nan]]
    ens = Ensemble(np.array(labels, dtype=dtype).T)
    assert_encodes(ens, labels)
    assert [c.dtype for c in ens.categories] == [np.int64, np.int64]


@pytest.mark.parametrize(
    ("dtype", "labels"),
    [
        (bool, [True, False, True, True]),
        ("S3", [b"x", b"", b"abc", b"x"]),
        ("M8[D]", ["2020-01-02", "NaT", "2020-01-01", "2020-01-02"]),
        ("M8[ns]", ["2020-01-02", "NaT", "2020-01-01", "2020-01-02"]),
        ("m8[s]", [5, "NaT", -2, 0]),
    ],
)
def test_other_numpy_types(dtype, labels):
    array = np.array(labels, dtype=dtype)
    as_objects = [None if x != x else x for x in array]
    assert_encodes(Ensemble(array[:, None]), [as_objects])
    assert_encodes(Ensemble.from_partitions([list(array)]), [as_objects])


def test_a_time_of_minus_one_is_a_label():
    times = np.array([2, -1, "NaT"], dtype="m8[s]")
    for vector in (times, list(times)):
        assert Ensemble.from_partitions([vector]).labels.T.tolist() == [[1, 0, -1]]


def test_variable_width_strings():
    if not hasattr(np.dtypes, "StringDType"):
        pytest.skip("NumPy 1 has no StringDType")
    array = np.array([["b"], ["a"], ["b"]], dtype=np.dtypes.StringDType())
    assert_encodes(Ensemble(array), [["b", "a", "b"]])


def test_masked_entries_are_missing():
    array = np.ma.masked_array(
        [[4, 1], [5, -1], [4, 2]], mask=[[0, 0], [1, 0], [0, 1]], dtype=np.int16
    )
    assert_encodes(Ensemble(array), [[4, None, 4], [1, -1, None]])


def test_memmap_and_strides(tmp_path):
    labels = np.random.default_rng(0).integers(-1, 5, (40, 3)).astype(np.int16)
    mapped = np.memmap(tmp_path / "labels", np.int16, "w+", shape=labels.shape)
    mapped[:] = labels
    assert_encodes(Ensemble(mapped), labels.T.tolist())
    assert_encodes(Ensemble(labels[::-2, ::-1]), labels[::-2, ::-1].T.tolist())
    assert_encodes(Ensemble(np.asfortranarray(labels)), labels.T.tolist())


@pytest.mark.parametrize("kind", [np.int8, np.uint64, np.float32, np.str_, np.bool_])
def test_lists_of_numpy_scalars(kind):
    labels = [kind(1), kind(0), kind(1), kind(1)]
    assert_encodes(Ensemble.from_partitions([labels]), [labels])


def test_sparse_large_integers():
    labels = [10**15, 3, 10**15, 2**62, -1]
    assert_encodes(Ensemble(np.array(labels)[:, None]), [labels])


@pytest.mark.parametrize(
    ("column", "labels"),
    [
        (pd.array([3, None, -1, 3], dtype="Int64"), [3, None, -1, 3]),
        (pd.array([3, 0, 7, 3], dtype="UInt8"), [3, 0, 7, 3]),
        (pd.array([3.0, None, -1.0, 3.0], dtype="Float64"), [3, None, -1, 3]),
        (pd.array([True, None, False, True], dtype="boolean"), [1, None, 0, 1]),
        (pd.array(["b", None, "a", "b"], dtype="string"), ["b", None, "a", "b"]),
        (pd.Series(["b", None, "a", "b"]), ["b", None, "a", "b"]),
        (pd.Series(["b", pd.NA, 1, "b"], dtype=object), ["b", None, 1, "b"]),
        (pd.Series([2.0, np.nan, -1.0, 0.0]), [2, None, None, 0]),
        (pd.Categorical(["z", None, "a", "z"]), ["z", None, "a", "z"]),
        (
            pd.Categorical([9, -1, 4, 9], categories=[9, 4, -1, 5], ordered=True),
            [9, -1, 4, 9],
        ),
        (pd.CategoricalIndex([3.0, None, 0.0, 3.0]), [3, None, 0, 3]),
        (
            pd.Categorical([1, "1", None, 1], categories=[0.5, 1, "1"]),
            [1, "1", None, 1],
        ),
        (pd.array(["a\0", "a", None, "a"], dtype="string"), ["a\0", "a", None, "a"]),
        (pd.arrays.SparseArray([2, 0, 0, -1]), [2, 0, 0, -1]),
    ],
)
def test_pandas_columns(column, labels):
    index = [7, 7, 1, 0]  # an index is no order and may repeat
    frame = pd.DataFrame({"a": pd.Series(column), "b": [0, 1, 1, 0]})
    frame.index = index
    frame.columns = ["same", "same"]
    assert_encodes(Ensemble(frame), [labels, [0, 1, 1, 0]])
    assert_encodes(
        Ensemble.from_partitions([column, frame.iloc[:, 1]]), [labels, [0, 1, 1, 0]]
    )


@pytest.mark.parametrize(
    ("column", "match"),
    [
        (pd.Categorical([0.5, 1.0]), "the label 0.5; .* whole"),
        (pd.Categorical([1, -2]), "the label -2; only -1"),
        (pd.array([0.5, None], dtype="Float64"), "the label 0.5; .* whole"),
        (pd.array([-3, None], dtype="Int64"), "the label -3; only -1"),
    ],
)
def test_bad_labels_in_pandas_columns(column, match):
    with pytest.raises(ValueError, match=f"partition 0 has {match}"):
        Ensemble.from_partitions([column])


def test_a_categorical_column_is_not_read_object_by_object():
    class Label(str):
        n_hashed = 0

        def __hash__(self):
            Label.n_hashed += 1
            return super().__hash__()

    categories = pd.Index([Label("b"), Label("a"), Label("c")], dtype=object)
    picked = np.arange(5000) % 2
    column = pd.Series(pd.Categorical.from_codes(picked, categories))
    Label.n_hashed = 0
    ens = Ensemble.from_partitions([column])
    assert Label.n_hashed < 100
    assert ens.labels[:, 0].tolist() == (1 - picked).tolist()
    assert ens.categories[0].tolist() == ["a", "b"]


def test_pandas_times_and_intervals():
    days = pd.to_datetime(["2020-01-02", None, "2020-01-01"])
    bins = pd.cut([0.5, 1.5, 0.7], [0, 1, 2])
    frame = pd.DataFrame({"day": days, "zone": days.tz_localize("UTC"), "bin": bins})
    assert Ensemble(frame).labels.T.tolist() == [[1, -1, 0], [1, -1, 0], [0, 1, 0]]


def test_device_arrays_come_to_the_host():
    labels = np.array([[0, 5, -1, 5], [1, 1, 0, 0]])
    expected = labels.tolist()
    assert_encodes(Ensemble(DeviceArray(labels.T)), expected)
    assert_encodes(Ensemble.from_partitions(map(DeviceArray, labels)), expected)
    assert_encodes(Ensemble.from_partitions(DeviceArray(labels)), expected)
    ens = Ensemble(labels.T, weights=DeviceArray([1.0, 3.0]))
    assert ens.weights.tolist() == [0.25, 0.75]
    assert ens.encode(DeviceArray(labels.T)).tolist() == ens.codes.tolist()
    assert ens.subset(rows=DeviceArray([2, 3])).labels.tolist() == [[-1, 0], [0, 0]]


def test_device_codes_are_kept_and_read_back():
    class Codes(DeviceArray):
        ndim = property(lambda self: self._array.ndim)
        dtype = property(lambda self: self._array.dtype)
        shape = property(lambda self: self._array.shape)
        flags = property(lambda self: self._array.flags)

        def __getitem__(self, key):
            return Codes(self._array[key])

    codes = Codes(np.array([[0, 1, 2], [1, 0, 1]], dtype=np.uint8))
    ens = Ensemble.from_codes(codes, [2, 2])
    assert ens.codes is codes
    assert ens.labels.tolist() == [[0, 1], [1, 0], [-1, 1]]
    assert type(ens.to("numpy").codes) is np.ndarray
    assert_same(ens.to("numpy"), ens.subset())


def test_device_array_without_get():
    class Tensor:
        __cuda_array_interface__ = None

    with pytest.raises(TypeError, match=r"Tensor on a CUDA device.*cupy\.asarray"):
        Ensemble(Tensor())


def test_cudf_objects_come_to_the_host():
    frame = pd.DataFrame({"a": ["x", None, "y"], "b": [1, 1, 0]})
    expected = [["x", None, "y"], [1, 1, 0]]
    assert_encodes(Ensemble(cudf_object(frame)), expected)
    columns = [cudf_object(frame["a"]), cudf_object(frame["b"])]
    assert_encodes(Ensemble.from_partitions(columns), expected)


def test_from_partitions_takes_any_iterable():
    labels = [[0, 0, 1], [2, -1, 2]]
    for partitions in (
        labels,
        tuple(map(tuple, labels)),
        iter(labels),
        np.array(labels),
    ):
        assert_encodes(Ensemble.from_partitions(partitions), labels)
    generator = ((label for label in vector) for vector in labels)
    assert_encodes(Ensemble.from_partitions(generator), labels)
    assert_encodes(
        Ensemble.from_partitions([range(3), "aab".__iter__()]), [[0, 1, 2], list("aab")]
    )


def test_from_partitions_keeps_no_raw_vector():
    alive = []

    class Labels:
        def __init__(self, labels):
            self.labels = labels

        def __iter__(self):
            return iter(self.labels)

    def vectors():
        for i in range(5):
            assert sum(ref() is not None for ref in alive) <= 1
            vector = Labels([0, i, 1])
            alive.append(weakref.ref(vector))
            yield vector

    Ensemble.from_partitions(vectors())
    assert len(alive) == 5


def test_enumerations_keep_their_members():
    class Kind(enum.IntEnum):
        A = 3
        B = 1

    ens = Ensemble.from_partitions([[Kind.A, Kind.B, Kind.A]])
    assert ens.labels[:, 0].tolist() == [1, 0, 1]
    assert ens.categories[0][0] is Kind.B


# Limits


@pytest.mark.parametrize(
    ("n_labels", "dtype"), [(255, np.uint8), (256, np.uint16), (65_535, np.uint16)]
)
@pytest.mark.parametrize("last", [-1, 0])
def test_code_type_follows_the_number_of_labels(n_labels, dtype, last):
    labels = np.append(np.arange(n_labels), last)
    small = np.zeros_like(labels)
    ens = Ensemble.from_partitions([small, labels, small])
    assert ens.codes.dtype == dtype
    assert ens.n_labels.tolist() == [1, n_labels, 1]
    np.testing.assert_array_equal(ens.labels, np.stack([small, labels, small], axis=1))


def test_too_many_labels():
    labels = np.arange(65_536)
    with pytest.raises(
        ValueError, match="partition 1 has 65536 labels but at most 65535"
    ):
        Ensemble.from_partitions([labels % 7, labels])


def test_encode_without_a_limit():
    labels = np.arange(70_000)[::-1]
    for vector in (labels, labels.astype(str), labels.tolist()):
        codes, categories = encode(vector, "labels", max_labels=None)
        assert len(categories) == 70_000
        assert [str(x) for x in categories[codes]] == [str(x) for x in vector]
    with pytest.raises(ValueError, match="labels has 70000 labels but at most 9 are"):
        encode(labels, "labels", max_labels=9)
    ens = Ensemble.from_partitions([[69_999, 0]])
    with pytest.warns(UserWarning, match="69998 labels were never seen"):
        assert ens.encode(labels[:, None])[0, [0, 1, -1]].tolist() == [1, 2, 0]


def test_one_object_one_label_and_nothing_but_missing():
    assert_encodes(Ensemble(np.array([[7]])), [[7]])
    assert_encodes(Ensemble.from_partitions([[-1, -1], [0, 0]]), [[-1, -1], [0, 0]])


def test_many_partitions():
    labels = np.random.default_rng(0).integers(0, 3, (10, 300))
    assert_encodes(Ensemble(labels), labels.T.tolist())


def test_count_codes_in_pieces():
    codes = np.random.default_rng(0).integers(0, 4, (1 << 20) + 5).astype(np.uint8)
    expected = [int((codes == code).sum()) for code in range(5)]
    assert count_codes(codes, 4).tolist() == expected
    with pytest.raises(ValueError, match="a code is 3 but should be at most K_i=2"):
        count_codes(codes, 2)


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
        (CODES, [2, 1], {"marginals": np.zeros(4, int)}, r"should be \(5,\)"),
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
        ({"rows": [6]}, IndexError, "rows: index 6 is out of bounds"),
        ({"partitions": [True]}, IndexError, "partitions: boolean index did not match"),
        ({"rows": True}, IndexError, "rows: boolean index did not match"),
        ({"rows": [0.5]}, IndexError, "rows: .* integer"),
        ({"rows": [[0, 1]]}, IndexError, "rows has 2 dimensions"),
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
    assert ens.to("numba") is ens
    with pytest.raises(
        ValueError, match="backend='cuppy' is unknown; choose one of 'cupy'"
    ):
        ens.to("cuppy")


# Storage


@pytest.fixture(params=["ensemble", "ensemble.npz"])
def path(request, tmp_path):
    return tmp_path / request.param


def example_ensemble(seed=0):
    rng = np.random.default_rng(seed)
    return Ensemble(rng.integers(-1, 5, (40, 3)), weights=rng.random(3))


OLD_CODE = int(example_ensemble(0).codes[0, 0])
assert example_ensemble(1).codes[0, 0] != OLD_CODE


def names(folder):
    """Return all names below a folder, those of codes without their number."""
    found = (entry.name for entry in folder.rglob("*"))
    return sorted(re.sub(r"^codes-[0-9a-f]{16}", "codes-*", name) for name in found)


def codes_file(folder):
    (file,) = folder.glob("codes-*.npy")
    return file


@given(
    partitions=tables(
        st.one_of(st.none(), st.integers(0, 2**70), st.text(), st.booleans())
    ),
    data=st.data(),
)
@settings(max_examples=50)
def test_round_trip(partitions, data, tmp_path_factory):
    n = len(partitions)
    weights = data.draw(st.lists(st.floats(1e-3, 1e3), min_size=n, max_size=n))
    ens = Ensemble.from_partitions(partitions, weights=weights)
    folder = tmp_path_factory.mktemp("round_trip")
    for name in ("ensemble", "ensemble.npz"):
        ens.save(folder / name)
        assert_same(Ensemble.load(str(folder / name)), ens)
    shutil.rmtree(folder)


def test_round_trip_of_wide_codes(path):
    ens = Ensemble.from_partitions([np.arange(300), np.arange(300) % 2])
    ens.save(path)
    assert_same(Ensemble.load(path), ens)


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("verify", [True, False])
def test_load_maps_a_folder(tmp_path, mmap, verify):
    ens = example_ensemble()
    ens.save(tmp_path / "ensemble")
    loaded = Ensemble.load(tmp_path / "ensemble", mmap=mmap, verify=verify)
    assert_same(loaded, ens)
    assert ("mapped from disk" in repr(loaded)) == mmap
    assert not loaded.codes.flags.writeable
    assert_same(loaded.subset(rows=[1, 2]), ens.subset(rows=[1, 2]))
    assert loaded.encode(ens).tolist() == ens.codes.tolist()


def test_save_leaves_only_the_ensemble(path):
    example_ensemble().save(path)
    extra = ["codes-*.npy", "meta.json"] if path.suffix == "" else []
    assert names(path.parent) == sorted([path.name, *extra])
    reference = path.parent / "reference"
    reference.touch()
    file = path / "meta.json" if path.is_dir() else path
    assert file.stat().st_mode == reference.stat().st_mode  # the umask counts


def test_save_replaces_an_ensemble(path):
    example_ensemble(0).save(path)
    before = names(path.parent)
    mapped = Ensemble.load(path)
    example_ensemble(1).save(path)
    assert_same(Ensemble.load(path), example_ensemble(1))
    assert_same(mapped, example_ensemble(0))
    Ensemble.load(path).save(path)  # onto the file it is mapped from
    assert_same(Ensemble.load(path), example_ensemble(1))
    assert names(path.parent) == before


def test_save_replaces_a_damaged_ensemble_and_an_empty_folder(tmp_path):
    (tmp_path / "empty").mkdir()
    example_ensemble().save(tmp_path / "empty")
    meta = tmp_path / "empty" / "meta.json"
    meta.write_bytes(meta.read_bytes()[:-10])
    example_ensemble(1).save(tmp_path / "empty")
    assert_same(Ensemble.load(tmp_path / "empty"), example_ensemble(1))


def test_save_follows_a_link(path):
    target = path.with_name("target" + path.suffix)
    example_ensemble(0).save(target)
    path.symlink_to(target)
    example_ensemble(1).save(path)
    assert path.is_symlink()
    assert_same(Ensemble.load(target), example_ensemble(1))


@pytest.mark.parametrize(
    "content",
    [
        {"thesis.tex": "mine"},
        {"meta.json": "{}"},
        {"meta.json": "{}", "codes-0123456789abcdef.npy": ""},
        {"meta.json": "gpu_consensus.Ensemble", "notes": "mine"},
        {"codes.npy": "mine"},
        {"codes-0123456789abcdef.npy": "", "codes-mine.npy": "mine"},
    ],
)
def test_save_refuses_a_foreign_folder(tmp_path, content):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, text in content.items():
        (folder / name).write_text(text)
    with pytest.raises(FileExistsError, match="exists and is not an ensemble"):
        example_ensemble().save(folder)
    assert {p.name: p.read_text() for p in folder.iterdir()} == content
    assert len(names(tmp_path)) == 1 + len(content)


def test_save_refuses_a_file_where_a_folder_goes(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="exists and is not an ensemble"):
        example_ensemble().save(tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("old", [True, False])
@pytest.mark.parametrize(
    ("error", "match"),
    [
        (
            OSError(errno.ENOSPC, "No space left"),
            "^cannot write '[^']*': No space left; ",
        ),
        (KeyboardInterrupt("stop"), "stop"),
    ],
)
def test_a_write_that_fails_leaves_the_old_ensemble(
    path, monkeypatch, error, match, old
):
    if old:
        example_ensemble(0).save(path)
    before = names(path.parent)

    def half(file, *args, **kwargs):
        file.write(b"half")
        raise error

    monkeypatch.setattr(np, "save", half)
    monkeypatch.setattr(np, "savez", half)
    with pytest.raises(type(error), match=match):
        example_ensemble(1).save(path)
    assert names(path.parent) == before
    if old:
        assert_same(Ensemble.load(path), example_ensemble(0))


def test_a_rename_that_fails_leaves_the_old_ensemble(path, monkeypatch):
    example_ensemble(0).save(path)
    before = names(path.parent)

    def broken(self, target):
        raise OSError(errno.EIO, "broken disk")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", broken)
        with pytest.raises(OSError, match=r"^cannot write '[^']*': broken disk; c"):
            example_ensemble(1).save(path)
    assert_same(Ensemble.load(path), example_ensemble(0))
    assert names(path.parent) == before


@pytest.mark.parametrize("old", [True, False])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "broken"), KeyboardInterrupt()])
@pytest.mark.parametrize("done", [True, False])
def test_a_save_that_stops_at_any_step(tmp_path, monkeypatch, old, error, done):
    """The k-th step raises, after it is ``done`` or before, for every k."""
    steps = [(Path, "mkdir"), (Path, "open"), (np, "save"), (os, "fsync")]
    steps += [(Path, "replace"), (Path, "unlink"), (Path, "iterdir")]
    path = tmp_path / "ensemble"
    n_steps = stop_at = 0

    def breaking(call):
        def step(*args, **options):
            nonlocal n_steps
            n_steps += 1
            stop = n_steps == stop_at
            if stop and not done:
                raise error
            result = call(*args, **options)
            if stop:
                raise error
            return result

        return step

    while stop_at <= n_steps:
        if old:
            example_ensemble(0).save(path)
        stop_at, n_steps = stop_at + 1, 0
        with monkeypatch.context() as patch, suppress(OSError, KeyboardInterrupt):
            for owner, name in steps:
                patch.setattr(owner, name, breaking(getattr(owner, name)))
            example_ensemble(1).save(path)
        if old or (path / "meta.json").exists():
            found = Ensemble.load(path)
            assert_same(found, example_ensemble(int(found.codes[0, 0] != OLD_CODE)))
        example_ensemble(2).save(path)
        assert_same(Ensemble.load(path), example_ensemble(2))
        assert names(tmp_path) == ["codes-*.npy", "ensemble", "meta.json"]
        shutil.rmtree(path)
    assert stop_at > 6


@pytest.mark.skipif(
    not hasattr(os, "fork"), reason="the child is a fork, which Windows has not"
)
def test_a_save_that_is_killed_at_any_step(tmp_path):
    """Nothing is cleaned up then: the child leaves at its k-th call of the system."""
    program = """
import itertools, os, sys
import numpy as np
from gpu_consensus import Ensemble

def ensemble(label):
    return Ensemble.from_codes(np.full((1, 9), label, np.uint8), [3])

def kill(event, args):
    global left
    left -= event == "open" or event.startswith(("os.", "fcntl."))
    if left < 0:
        os._exit(1)

path = sys.argv[1]
for k, old in itertools.product(range(99), (True, False)):
    if old:
        ensemble(0).save(path)
    child = os.fork()
    if not child:
        left = k
        sys.addaudithook(kill)
        ensemble(1).save(path)
        os._exit(0)
    killed = os.waitpid(child, 0)[1]
    if old or os.path.exists(path + "/meta.json"):
        found = Ensemble.load(path).codes
        assert (found == found[0, 0]).all() and found[0, 0] in (0, 1), found
        assert killed or found[0, 0] == 1
    ensemble(2).save(path)
    assert (Ensemble.load(path).codes == 2).all()
    assert len(os.listdir(path)) == 2, os.listdir(path)
    for name in os.listdir(path):
        os.remove(os.path.join(path, name))
    os.rmdir(path)
    if not killed and old:
        break
print("steps", k)
"""
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, tmp_path / "ensemble"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert 6 < int(result.stdout.split()[1]) < 98


@pytest.mark.parametrize("locks", [True, False])
@pytest.mark.parametrize("n_savers", [1, 2])
def test_load_beside_savers(tmp_path, monkeypatch, n_savers, locks):
    if not locks:
        monkeypatch.setattr(storage, "_is_alone", lambda handle: False)
    path = tmp_path / "ensemble"
    ensembles = [
        Ensemble.from_codes(np.full((1, 999), label, np.uint8), [3]) for label in (0, 1)
    ]
    ensembles[0].save(path)
    stop = threading.Event()

    def save():
        for label in itertools.cycle((1, 0)):
            if stop.is_set():
                return
            ensembles[label].save(path)

    with ThreadPoolExecutor(n_savers) as pool:
        savers = [pool.submit(save) for _ in range(n_savers)]
        try:
            seen, end = set(), time.monotonic() + 0.3
            while time.monotonic() < end or seen != {0, 1}:
                found = Ensemble.load(path).codes
                assert (found == found[0, 0]).all()
                seen.add(int(found[0, 0]))
        finally:
            stop.set()
        for saver in savers:
            saver.result()
    assert Ensemble.load(path).codes[0, 0] in (0, 1)
    if locks:
        ensembles[0].save(path)
    if locks or n_savers == 1:
        assert names(path) == ["codes-*.npy", "meta.json"]


def test_codes_have_no_other_name(tmp_path):
    np.save(tmp_path / "codes-0123456789abcdef.npy", example_ensemble().codes)
    path = tmp_path / "ensemble"
    for name in ("../codes-0123456789abcdef.npy", "codes.npy", 7, None):
        example_ensemble().save(path)
        rewrite(path, codes=name)
        with pytest.raises(ValueError, match=f"its description names {name!r} as"):
            Ensemble.load(path)


@pytest.mark.parametrize("name", ["ensemble", "ensemble.npz"])
def test_unwritable_paths(tmp_path, name):
    (tmp_path / "file").write_text("mine")
    for parent in (tmp_path / "file", tmp_path / "absent"):
        with pytest.raises(
            OSError, match=r"^cannot write .*; choose a path in a folder"
        ):
            example_ensemble().save(parent / name)
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize(
    "labels",
    [
        [(0, 1), (1, 0), (0, 1)],
        [b"x", b"y", b"x"],
        [dt.date(2020, 1, 1), dt.date(2020, 1, 2), dt.date(2020, 1, 1)],
        np.array([0, 1, 0], dtype="M8[ns]"),
    ],
)
def test_labels_that_cannot_be_saved_warn(path, labels):
    ens = Ensemble.from_partitions([[4, 5, 4], labels])
    with pytest.warns(UserWarning, match="labels of partition 1 are neither") as caught:
        ens.save(path)
    assert caught[0].filename == __file__
    loaded = Ensemble.load(path)
    assert loaded.labels.tolist() == ens.labels.tolist()
    assert loaded.categories[0].tolist() == [4, 5]
    assert loaded.categories[1].tolist() == [0, 1]


def test_whole_floats_and_numpy_numbers_can_be_saved(path):
    ens = Ensemble.from_partitions([[0, None, 2.0], [np.int64(3), np.str_("a"), True]])
    ens.save(path)
    assert_same(Ensemble.load(path), ens)


def test_load_of_nothing(path):
    for absent in (path, path / "below"):
        with pytest.raises(FileNotFoundError, match="does not exist; check the path"):
            Ensemble.load(absent)
    path.write_text("a file")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        Ensemble.load(path / "below")


class Bomb:
    """Says so if it is unpickled."""

    def __reduce__(self):
        return pytest.fail, ("a pickle was opened",)


def rewrite(path, **changes):
    """Write the description anew, in either form; None removes an entry."""
    if path.is_dir():
        meta = json.loads((path / "meta.json").read_text())
    else:
        with np.load(path) as archive:
            codes, meta = archive["codes"], json.loads(str(archive["meta"][()]))
    meta.update(changes)
    text = json.dumps({key: value for key, value in meta.items() if value is not None})
    if path.is_dir():
        (path / "meta.json").write_text(text)
    else:
        np.savez(path, codes=codes, meta=np.str_(text))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"format": "other"}, "written by another program"),
        ({"format": None}, "written by another program"),
        ({"version": 99}, "its version is 99, this release reads 1"),
        ({"version": None}, "its version is None, this release reads 1"),
        ({"shape": None}, "lacks 'shape'"),
        ({"dtype": None}, "lacks 'dtype'"),
        ({"n_labels": None}, "lacks 'n_labels'"),
        ({"weights": None}, "lacks 'weights'"),
        ({"marginals": None}, "lacks 'marginals'"),
        ({"categories": None}, "lacks 'categories'"),
        ({"shape": [3, 41]}, "codes are .3, 40. uint8, not .3, 41. uint8 as saved"),
        ({"dtype": "uint16"}, "not .3, 40. uint16 as saved"),
        ({"n_labels": [5, 5]}, ""),
        ({"n_labels": [5, 5, 5, 5]}, ""),
        ({"n_labels": [5, 5, -1]}, ""),
        ({"n_labels": "abc"}, ""),
        ({"n_labels": {"a": 1}}, ""),
        ({"weights": [1.0]}, "weights has shape"),
        ({"weights": [math.nan, 1.0, 1.0]}, "weights.0.=nan"),
        ({"weights": "abc"}, ""),
        ({"marginals": [1, 2]}, "labels of partition 0 are not those saved"),
        ({"categories": [[0], [0], [0]]}, "categories do not fit"),
        ({"categories": [[[0]] * 5] * 3}, "neither numbers nor strings"),
        ({"categories": 7}, ""),
    ],
)
def test_damaged_description(path, changes, reason):
    example_ensemble().save(path)
    rewrite(path, **changes)
    match = rf"is not a readable ensemble \(.*{reason}.*\); make it again with"
    with pytest.raises(ValueError, match=match):
        Ensemble.load(path)


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "\ufeff{}", "[" * 100_000])
def test_description_that_is_no_object(path, text):
    example_ensemble().save(path)
    if path.is_dir():
        (path / "meta.json").write_text(text, encoding="utf-8")
    else:
        np.savez(path, codes=np.zeros((1, 1), np.uint8), meta=np.str_(text))
    with pytest.raises(ValueError, match="is not a readable ensemble"):
        Ensemble.load(path)


@pytest.mark.parametrize("keep", [0, 1, 5, 60, 128, 130, 247])
@pytest.mark.parametrize("mmap", [True, False])
def test_truncated_codes(tmp_path, keep, mmap):
    example_ensemble().save(tmp_path / "ensemble")
    file = codes_file(tmp_path / "ensemble")
    assert file.stat().st_size == 248
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(ValueError, match="is not a readable ensemble"):
        Ensemble.load(tmp_path / "ensemble", mmap=mmap)


def test_missing_half_of_a_folder(tmp_path):
    path = tmp_path / "ensemble"
    for pattern in ("codes-*.npy", "meta.json"):
        example_ensemble().save(path)
        (file,) = path.glob(pattern)
        file.unlink()
        with pytest.raises(ValueError, match=rf"\(it lacks {file.name}\)"):
            Ensemble.load(path)


def test_truncated_archive(tmp_path):
    path = tmp_path / "ensemble.npz"
    example_ensemble().save(path)
    whole = path.read_bytes()
    for keep in range(0, len(whole), 97):
        path.write_bytes(whole[:keep])
        with pytest.raises(ValueError, match="is not a readable ensemble"):
            Ensemble.load(path)


@pytest.mark.parametrize("name", ["codes-*.npy", "meta.json", ""])
def test_any_flipped_bit_is_an_error_or_harmless(tmp_path, name):
    ens = Ensemble.from_partitions(
        [["a", "b", "a", None], [0, 1, 2, 2]], weights=[1, 2]
    )
    path = tmp_path / ("ensemble" if name else "ensemble.npz")
    ens.save(path)
    (file,) = path.glob(name) if name else [path]
    whole = file.read_bytes()
    rng = np.random.default_rng(0)
    n_refused = 0
    for position in range(len(whole)):
        flipped = whole[position] ^ (1 << int(rng.integers(8)))
        file.write_bytes(whole[:position] + bytes([flipped]) + whole[position + 1 :])
        try:
            loaded = Ensemble.load(path, mmap=False)
        except ValueError:
            n_refused += 1
        else:
            np.testing.assert_array_equal(loaded.codes, ens.codes)
    assert n_refused > len(whole) / 8


def test_a_flipped_bit_in_the_codes_is_found(tmp_path):
    ens = example_ensemble()
    ens.save(tmp_path / "ensemble")
    file = codes_file(tmp_path / "ensemble")
    damaged = bytearray(file.read_bytes())
    damaged[-1] ^= 1
    file.write_bytes(damaged)
    with pytest.raises(ValueError, match="labels of partition 2 are not those saved"):
        Ensemble.load(tmp_path / "ensemble")
    Ensemble.load(tmp_path / "ensemble", verify=False)


def test_foreign_files(tmp_path):
    np.savez(tmp_path / "other.npz", x=np.arange(3))
    np.save(tmp_path / "array.npy", np.arange(3))
    (tmp_path / "text.npz").write_text("label,1\n")
    (tmp_path / "pickle.npz").write_bytes(pickle.dumps(Bomb()))
    (tmp_path / "folder").mkdir()
    for name, reason in {
        "other.npz": "it holds .'x'., not codes and meta",
        "array.npy": "it is neither a folder nor a .npz file",
        "text.npz": "it is neither a folder nor a .npz file",
        "pickle.npz": "it is neither a folder nor a .npz file",
        "folder": "it lacks meta.json",
    }.items():
        with pytest.raises(ValueError, match=rf"not a readable ensemble \({reason}\)"):
            Ensemble.load(tmp_path / name)


def test_pickles_are_never_opened(path):
    example_ensemble().save(path)
    bombs = np.array([[Bomb()]], dtype=object)
    for codes, meta in ((bombs, np.str_("{}")), (np.zeros((1, 1)), bombs)):
        if path.is_dir():
            np.save(codes_file(path), bombs, allow_pickle=True)
        else:
            np.savez(path, codes=codes, meta=meta)
        with pytest.raises(
            ValueError, match=r"not a readable .*(allow_pickle|Python objects)"
        ):
            Ensemble.load(path)


# Checks of arguments


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3), np.array(3)])
def test_check_int(value):
    number = checks.check_int("n", value, 1, 3)
    assert number == 3
    assert type(number) is int


@pytest.mark.parametrize(
    ("value", "error", "match"),
    [
        (0, ValueError, r"^n=0 should be in 1\.\.9; try more\.$"),
        (10, ValueError, r"^n=10 should be in 1\.\.9; try more\.$"),
        (3.0, TypeError, r"^n=3\.0 should be an integer in 1\.\.9; try more\.$"),
        ("3", TypeError, "n='3' should be an integer"),
        (True, TypeError, "n=True should be an integer"),
        (np.True_, TypeError, "should be an integer"),
        (None, TypeError, "n=None should be an integer"),
        ([3], TypeError, "should be an integer"),
    ],
)
def test_check_int_refuses(value, error, match):
    with pytest.raises(error, match=match):
        checks.check_int("n", value, 1, 9, cure="try more")


def test_check_int_without_upper_bound():
    assert checks.check_int("n", 10**30, 0) == 10**30
    with pytest.raises(ValueError, match=r"^n=-1 should be >= 0\.$"):
        checks.check_int("n", -1, 0)


def test_check_n_clusters():
    assert checks.check_n_clusters(5, 5) == 5
    with pytest.raises(ValueError, match="n_samples=5 should be >= n_clusters=6"):
        checks.check_n_clusters(6, 5)
    with pytest.raises(ValueError, match="n_clusters=0 should be >= 1"):
        checks.check_n_clusters(0, 5)


@pytest.mark.parametrize("open_low", [True, False])
@pytest.mark.parametrize("open_high", [True, False])
def test_check_share(open_low, open_high):
    options = {"open_low": open_low, "open_high": open_high}
    assert checks.check_share("s", np.float32(0.5), **options) == 0.5
    wrong = [-0.1, 1.1, math.nan, "0.5", None, True]
    wrong += [0] * open_low + [1] * open_high
    for value in wrong:
        bounds = ("(" if open_low else "[") + "0, 1" + (")" if open_high else "]")
        with pytest.raises(ValueError) as caught:
            checks.check_share("s", value, **options)
        assert str(caught.value) == f"s={value!r} should be a number in {bounds}."
    for value in [0] * (not open_low) + [1] * (not open_high):
        assert checks.check_share("s", value, **options) == value


def test_check_choice():
    assert checks.check_choice("method", "sec", ["kcc", "sec"]) == "sec"
    for value, listed in {
        "lambda": "'lambda_consensus', ",
        "KCC": "'kcc', ",
        "kc": "'kcc', ",
        3: "'",
        None: "'",
    }.items():
        with pytest.raises(ValueError) as caught:
            checks.check_choice("method", value, ["sec", "kcc", "lambda_consensus"])
        text = str(caught.value)
        assert text.startswith(f"method={value!r} is unknown; choose one of {listed}")
        assert all(f"'{name}'" in text for name in ("sec", "kcc", "lambda_consensus"))


def words(sequence):
    return sequence.generate_state(4).tolist()


def test_seed_sequence_repeats():
    assert words(checks.seed_sequence(7)) == words(np.random.SeedSequence(7))
    assert words(checks.seed_sequence(np.int64(7))) == words(np.random.SeedSequence(7))
    given = np.random.SeedSequence(7, spawn_key=(2,), pool_size=8)
    given.spawn(3)
    taken = checks.seed_sequence(given)
    assert words(taken) == words(given)
    first_child = np.random.SeedSequence(7, spawn_key=(2, 0), pool_size=8)
    assert words(taken.spawn(1)[0]) == words(first_child)
    assert given.n_children_spawned == 3
    assert words(checks.seed_sequence(None)) != words(checks.seed_sequence(None))


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_seed_sequence_from_a_generator_moves_it_on(make):
    source, again = make(5), make(5)
    first, second = (words(checks.seed_sequence(source)) for _ in range(2))
    assert first != second
    assert [first, second] == [words(checks.seed_sequence(again)) for _ in range(2)]


@pytest.mark.parametrize(
    ("value", "error"),
    [(-1, ValueError), (1.5, TypeError), ("a", TypeError), (True, TypeError)],
)
def test_seed_sequence_refuses(value, error):
    with pytest.raises(
        error, match=r"random_state=.*; or pass None, a numpy Generator"
    ):
        checks.seed_sequence(value)
