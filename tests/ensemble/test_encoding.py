"""Labels of any kind become codes as a dictionary would number them."""

from __future__ import annotations

import enum
import math
import weakref

import numpy as np
import pandas as pd
import pytest
from encoding_oracle import (
    MIXED,
    NUMBERS,
    DeviceArray,
    assert_encodes,
    assert_same,
    cudf_object,
    tables,
)
from hypothesis import example, given
from hypothesis import strategies as st

from gpu_consensus import Ensemble
from gpu_consensus.ensemble import encoding
from gpu_consensus.ensemble.encoding import count_codes, encode


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
        # as pandas holds them: before 3.1 its categories end a string at "\0"
        held = [[None if pd.isna(x) else x for x in column] for column in columns]
        assert_encodes(Ensemble.from_partitions(columns), held)
        frame = pd.concat(columns, axis=1)
        assert_encodes(Ensemble(frame), held)


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
