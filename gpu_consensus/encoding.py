"""Labels of any hashable kind to codes 0..K_i-1, with K_i for a missing label."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from numbers import Integral, Number
from typing import Any

import numpy as np
import numpy.typing as npt

MAX_LABELS = 65_535
_COUNTED_AT_ONCE = 1 << 20


def encode(labels: Any, where: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Encode one partition.

    Parameters
    ----------
    labels : array_like of shape (n_samples,)
        -1, NaN, NaT, None, pandas.NA and masked entries mean missing.
    where : str
        How messages call this partition, such as ``"partition 3"``.

    Returns
    -------
    codes : ndarray of shape (n_samples,), int64
        ``len(categories)`` where the label is missing.
    categories : ndarray
        The label behind each code, sorted where the labels can be.

    Examples
    --------
    >>> codes, categories = encode(["b", None, "a"], "partition 0")
    >>> codes.tolist(), categories.tolist()
    ([1, 2, 0], ['a', 'b'])
    """
    values, present = _split_missing(labels, where)
    found, categories = _unique(values, where)
    if len(categories) > MAX_LABELS:
        raise ValueError(
            f"{where} has {len(categories)} labels but at most {MAX_LABELS} are "
            "possible; a partition this fine says nothing, leave it out."
        )
    if present is None:
        return found, categories
    codes = np.full(present.shape, len(categories), dtype=np.int64)
    codes[present] = found
    return codes, categories


def encode_known(
    labels: Any, categories: npt.NDArray[Any], where: str
) -> tuple[npt.NDArray[np.int64], int]:
    """Encode labels by known ``categories``; unknown ones count as missing.

    Returns the codes and how many labels were unknown.
    """
    return translate(*encode(labels, where), categories)


def translate(
    codes: npt.NDArray[Any], found: npt.NDArray[Any], categories: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.int64], int]:
    """Turn codes of the labels ``found`` into codes of ``categories``.

    Returns the codes and how many labels ``categories`` does not have.
    """
    if {found.dtype.kind, categories.dtype.kind} in ({"M"}, {"m"}):
        common = np.result_type(found, categories)  # days and seconds can be equal
        found, categories = found.astype(common), categories.astype(common)
    known = {label: code for code, label in enumerate(_items(categories))}
    n_labels = len(categories)
    to_known = np.array(
        [known.get(label, n_labels) for label in _items(found)] + [n_labels],
        dtype=np.int64,
    )
    missing_before = int(np.count_nonzero(codes == len(found)))
    codes = to_known[codes]
    return codes, int(np.count_nonzero(codes == n_labels)) - missing_before


def count_codes(codes: npt.NDArray[Any], n_labels: int) -> npt.NDArray[np.int64]:
    """Count the codes 0..K_i of one partition; a code above K_i is an error.

    In pieces, because ``np.bincount`` makes eight bytes of every code.
    """
    counts = np.zeros(n_labels + 1, dtype=np.int64)
    for begin in range(0, codes.size, _COUNTED_AT_ONCE):
        piece = codes[begin : begin + _COUNTED_AT_ONCE]
        found = np.bincount(piece, minlength=n_labels + 1)
        if len(found) > n_labels + 1:
            raise ValueError(
                f"a code is {len(found) - 1} but should be at most K_i={n_labels}, "
                "which means missing."
            )
        counts += found
    return counts


def category_array(labels: list[Any]) -> npt.NDArray[Any]:
    """Make an array that holds the labels exactly: of objects if it must be."""
    kinds = {type(label) for label in labels}
    if len(kinds) == 1 and kinds <= {bool, int, float, str}:
        array = np.asarray(labels)
        if array.tolist() == labels:  # not "a\0", and not integers turned to floats
            return array
    return np.fromiter(labels, dtype=object, count=len(labels))


def _items(categories: npt.NDArray[Any]) -> list[Any]:
    """Labels as dictionary keys; a time stays one, ``tolist`` might make it an int."""
    return list(categories) if categories.dtype.kind in "mM" else categories.tolist()


def _split_missing(
    labels: Any, where: str
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]:
    """Return the labels that are present and where they are (None: everywhere)."""
    if hasattr(labels, "isna") and hasattr(labels, "to_numpy"):  # a pandas column
        present = ~np.asarray(labels.isna(), dtype=bool)
        return _split_rest(labels[present].to_numpy(), present, where)
    if isinstance(labels, np.ma.MaskedArray):
        present = ~np.ma.getmaskarray(labels)
        return _split_rest(labels.data[present], present, where)
    if hasattr(labels, "__array__"):
        array = np.asarray(labels)
    else:
        array = _as_array(labels, where)
    if array.ndim != 1:
        raise ValueError(
            f"{where} has {array.ndim} dimensions; one label per object is needed."
        )
    kind = array.dtype.kind
    if kind == "T":  # NumPy's variable-width strings
        array, kind = array.astype(object), "O"
    if kind in "buUS":
        return array, None
    if kind in "if":
        return _split_numbers(array, where)
    if kind in "mM":
        present = ~np.isnat(array)
    elif kind == "O":
        present = np.fromiter(
            (not _is_missing(label) for label in array), dtype=bool, count=array.size
        )
    else:
        raise TypeError(
            f"{where} has labels of type {array.dtype}; use integers, strings or "
            "other hashable labels."
        )
    return (array, None) if present.all() else (array[present], present)


def _split_rest(
    values: npt.NDArray[Any], present: npt.NDArray[np.bool_], where: str
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Split ``values``, the labels where ``present``, once more: -1 may be left."""
    values, inner = _split_missing(values, where)
    if inner is not None:
        present[present] = inner
    return values, present


def _as_array(labels: Any, where: str) -> npt.NDArray[Any]:
    """Make an array without turning mixed labels into strings."""
    if isinstance(labels, (str, bytes, Set, Mapping)) or not isinstance(
        labels, Iterable
    ):
        raise TypeError(
            f"{where} is {labels!r}; it should be a vector with one label per object."
        )
    items = list(labels)
    kinds = {type(item) for item in items}
    if len(kinds) == 1 and kinds <= {int, float, bool}:
        array = np.asarray(items)
        if array.dtype.kind != "f" or kinds == {float}:  # integers may become floats
            return array
    return np.fromiter(items, dtype=object, count=len(items))


def _split_numbers(
    array: npt.NDArray[Any], where: str
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]:
    """Integers and whole floats: -1 and NaN are missing, other negatives wrong."""
    present = array != -1
    if array.dtype.kind == "f":
        present &= ~np.isnan(array)
    values = array if present.all() else array[present]
    if array.dtype.kind == "f":
        whole = np.isfinite(values) & (np.floor(values) == values)
        if values.dtype.itemsize > 2:  # float16 ends below 2^63, and cannot hold it
            whole &= np.abs(values) < 2.0**63
        if not whole.all():
            raise ValueError(_not_whole(where, values[~whole][0]))
        values = values.astype(np.int64)
    if values.size and values.min() < 0:
        raise ValueError(_negative(where, values.min()))
    return values, None if values.size == array.size else present


def _is_missing(label: Any) -> bool:
    if label is None or type(label).__name__ == "NAType":
        return True
    unequal = label != label  # NaN and NaT of any library
    if isinstance(unequal, (bool, np.bool_)) and unequal:
        return True
    return _is_number(label) and bool(label == -1)


def _is_number(label: Any) -> bool:
    return isinstance(label, Number) and not isinstance(label, np.timedelta64)


def _unique(
    values: npt.NDArray[Any], where: str
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Codes by sorted category; a table look-up where integers are dense enough."""
    if values.dtype.kind == "O":
        return _unique_objects(values, where)
    if values.dtype.kind in "iu" and values.size:
        low, high = int(values.min()), int(values.max())
        if high - low <= 4 * values.size + 65_536 and high < 2**63:
            shifted = values - values.dtype.type(low)
            seen = np.zeros(high - low + 1, dtype=bool)
            seen[shifted] = True
            rank = np.cumsum(seen) - 1
            return rank[shifted].astype(np.int64), np.flatnonzero(seen) + low
    categories, inverse = np.unique(values, return_inverse=True)
    return inverse.astype(np.int64).reshape(values.shape), categories


def _unique_objects(
    values: npt.NDArray[Any], where: str
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    first: dict[Any, int] = {}
    codes = np.empty(values.size, dtype=np.int64)
    for l, label in enumerate(values):
        # np.int8(2) and Decimal(2) have one hash but cannot be compared
        if isinstance(label, np.generic) and label.dtype.kind not in "mM":
            label = label.item()
        try:
            codes[l] = first.setdefault(label, len(first))
        except TypeError:
            raise TypeError(
                f"{where} has the label {label!r}, which is not hashable; use "
                "numbers, strings or tuples."
            ) from None
    labels = [_checked(label, where) for label in first]
    try:
        order = sorted(range(len(labels)), key=labels.__getitem__)
    except TypeError:
        order = list(range(len(labels)))
    rank = np.empty(len(labels), dtype=np.int64)
    rank[order] = np.arange(len(labels))
    return rank[codes], category_array([labels[j] for j in order])


def _checked(label: Any, where: str) -> Any:
    """Return a label; if it is a number, whole, >= 0 and of an integer type."""
    if not _is_number(label) or isinstance(label, complex):
        return label
    try:
        whole = math.floor(label)
    except OverflowError:  # infinite
        raise ValueError(_not_whole(where, label)) from None
    if whole != label:
        raise ValueError(_not_whole(where, label))
    if whole < 0:
        raise ValueError(_negative(where, label))
    return label if isinstance(label, Integral) else whole


def _not_whole(where: str, label: Any) -> str:
    return (
        f"{where} has the label {label}; numeric labels should be whole numbers, so "
        "round them or pass strings."
    )


def _negative(where: str, label: Any) -> str:
    return f"{where} has the label {label}; only -1 may be negative, and means missing."
