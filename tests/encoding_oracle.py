"""An oracle of ensembles in plain Python, and labels of all kinds."""

from __future__ import annotations

import datetime as dt
import math
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
from hypothesis import strategies as st


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
