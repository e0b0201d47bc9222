"""Labels of any hashable kind to codes 0..K_i-1, with K_i for a missing label."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from itertools import chain, count
from numbers import Integral, Number
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.util.numbers import array_of, shown

MAX_LABELS = 65_535
_COUNTED_AT_ONCE = 1 << 20
_STRINGS_AT_ONCE = 1 << 16

CodesAndCategories = tuple[npt.NDArray[np.int64], npt.NDArray[Any]]


def encode(
    labels: Any, where: str, *, max_labels: int | None = MAX_LABELS
) -> CodesAndCategories:
    """Encode one partition.

    Parameters
    ----------
    labels : array_like of shape (n_samples,)
        -1, NaN, NaT, None, pandas.NA and masked entries mean missing.
    where : str
        How messages call this partition, such as ``"partition 3"``.
    max_labels : int or None, default 65,535
        More are an error: an ensemble's codes have 16 bits. None: any number.

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
    codes, categories = _encode(labels, where)
    if max_labels is not None and len(categories) > max_labels:
        raise ValueError(
            f"{where} has {len(categories)} labels but at most {max_labels} are "
            "possible; a partition this fine says nothing, leave it out."
        )
    return codes, categories


def encode_known(
    labels: Any, categories: npt.NDArray[Any], where: str
) -> tuple[npt.NDArray[np.int64], int]:
    """Encode labels by known ``categories``; unknown ones count as missing.

    Returns the codes and how many labels were unknown.
    """
    return translate(*encode(labels, where, max_labels=None), categories)


def translate(
    codes: npt.NDArray[Any], labels: npt.NDArray[Any], categories: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.int64], int]:
    """Turn codes of ``labels`` into codes of ``categories``.

    Returns the codes and how many labels ``categories`` does not have.
    """
    if {labels.dtype.kind, categories.dtype.kind} in ({"M"}, {"m"}):
        common = np.result_type(labels, categories)  # days and seconds can be equal
        labels, categories = labels.astype(common), categories.astype(common)
    known = {label: code for code, label in enumerate(_items(categories))}
    n_labels = len(categories)
    to_known = np.array(
        [known.get(label, n_labels) for label in _items(labels)] + [n_labels],
        dtype=np.int64,
    )
    missing_before = int(np.count_nonzero(codes == len(labels)))
    codes = to_known[codes]
    return codes, int(np.count_nonzero(codes == n_labels)) - missing_before


def count_codes(codes: npt.NDArray[Any], n_labels: int) -> npt.NDArray[np.int64]:
    """Count the codes 0..K_i of one partition; a code above K_i is an error.

    In pieces, because ``np.bincount`` makes eight bytes of every code.
    """
    counts = np.zeros(n_labels + 1, dtype=np.int64)
    for begin in range(0, codes.size, _COUNTED_AT_ONCE):
        piece = codes[begin : begin + _COUNTED_AT_ONCE]
        in_piece = np.bincount(piece, minlength=n_labels + 1)
        if len(in_piece) > n_labels + 1:
            raise ValueError(
                f"a code is {len(in_piece) - 1} but should be at most K_i={n_labels}, "
                "which means missing."
            )
        counts += in_piece
    return counts


def category_array(labels: list[Any]) -> npt.NDArray[Any]:
    """Make an array that holds the labels exactly; its dtype is object if need be."""
    kinds = {type(label) for label in labels}
    if len(kinds) == 1 and kinds <= {bool, int, float, str}:
        array = np.asarray(labels)
        if array.tolist() == labels:  # not "a\0", and not integers turned to floats
            return array
    return np.fromiter(labels, dtype=object, count=len(labels))


def _items(categories: npt.NDArray[Any]) -> list[Any]:
    """Labels as dictionary keys; a time stays one, ``tolist`` might make it an int."""
    return list(categories) if categories.dtype.kind in "mM" else categories.tolist()


def _encode(labels: Any, where: str) -> CodesAndCategories:
    dimensions = getattr(labels, "ndim", 1)
    if dimensions != 1:
        raise ValueError(
            f"{where} has {shown(dimensions)} dimensions; one label per object is "
            "needed."
        )
    if hasattr(labels, "isna") and hasattr(labels, "to_numpy"):  # a pandas column
        if isinstance(labels.dtype, np.dtype):
            return _encode(labels.to_numpy(), where)
        # categories, strings, times with a zone: pandas has or finds the codes fast
        numbers, uniques = labels.factorize()
        return _relabel(numbers, *_encode(uniques.to_numpy(), where))
    if isinstance(labels, np.ma.MaskedArray):
        present = ~np.ma.getmaskarray(labels)
        return _place_codes(present, *_encode(labels.data[present], where))
    if hasattr(labels, "__array__"):
        array = array_of(where, labels)
    else:
        array = _as_array(labels, where)
    if array.ndim != 1:
        raise ValueError(
            f"{where} has {array.ndim} dimensions; one label per object is needed."
        )
    kind = array.dtype.kind
    if kind in "OT":  # T: NumPy's variable-width strings
        return _encode_objects(array.astype(object, copy=False), where)
    if kind in "US":
        return _encode_strings(array)
    if kind in "bu":
        return _unique(array)
    if kind in "if":
        values, present = _split_numbers(array, where)
        return _place_codes(present, *_unique(values))
    if kind in "mM":
        present = ~np.isnat(array)
        return _place_codes(present, *_unique(array[present]))
    raise TypeError(
        f"{where} has labels of type {array.dtype}; use integers, strings or other "
        "hashable labels."
    )


def _place_codes(
    present: npt.NDArray[np.bool_],
    codes: npt.NDArray[np.int64],
    categories: npt.NDArray[Any],
) -> CodesAndCategories:
    """Return codes of all objects: those given where ``present``, else "missing"."""
    if present.all():
        return codes, categories
    all_codes = np.full(present.shape, len(categories), dtype=np.int64)
    all_codes[present] = codes
    return all_codes, categories


def _relabel(
    numbers: npt.NDArray[Any],
    codes: npt.NDArray[np.int64],
    categories: npt.NDArray[Any],
) -> CodesAndCategories:
    """Codes of objects, from a number into ``codes`` or -1 (missing) for each."""
    return np.append(codes, len(categories))[numbers], categories


def _as_array(labels: Any, where: str) -> npt.NDArray[Any]:
    """Make an array without turning mixed labels into strings."""
    if isinstance(labels, (str, bytes, Set, Mapping)) or not isinstance(
        labels, Iterable
    ):
        raise TypeError(
            f"{where} is {shown(labels)}; it should be a vector with one label per "
            "object."
        )
    items = list(labels)
    kinds = set(map(type, items))
    if len(kinds) == 1 and kinds <= {int, float, bool}:
        array = np.asarray(items)
        if array.dtype.kind != "f" or kinds == {float}:  # integers may become floats
            return array
    return np.fromiter(items, dtype=object, count=len(items))


def _split_numbers(
    array: npt.NDArray[Any], where: str
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return the integers or whole floats that are present, and where they are.

    -1 and NaN are missing, other negatives wrong.
    """
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
    return values, present


def _is_missing(label: Any) -> bool:
    if label is None or type(label).__name__ == "NAType":
        return True
    unequal = label != label  # NaN and NaT of any library
    if isinstance(unequal, (bool, np.bool_)) and unequal:
        return True
    return _is_number(label) and bool(label == -1)


def _is_number(label: Any) -> bool:
    return isinstance(label, Number) and not isinstance(label, np.timedelta64)


def _unique(values: npt.NDArray[Any]) -> CodesAndCategories:
    """Codes by sorted category; a table look-up where integers are dense enough."""
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


def _encode_strings(array: npt.NDArray[Any]) -> CodesAndCategories:
    """Hash fixed-width strings: np.unique sorts them all, which takes far longer."""
    starts = range(0, array.size, _STRINGS_AT_ONCE)
    pieces = (array[start : start + _STRINGS_AT_ONCE].tolist() for start in starts)
    numbers, labels = _number(chain.from_iterable(pieces), array.size)
    rank, ordered = _sort(labels)
    return rank[numbers], np.array(ordered, dtype=array.dtype)


def _encode_objects(array: npt.NDArray[Any], where: str) -> CodesAndCategories:
    kinds = set(map(type, array))
    if len(kinds) == 1 and issubclass(kind := next(iter(kinds)), np.integer):
        return _encode(array.astype(kind), where)
    # np.int8(2) and Decimal(2) have one hash but cannot be compared
    if any(issubclass(kind, np.generic) for kind in kinds):
        array = np.fromiter(map(_item, array), dtype=object, count=array.size)
    try:
        numbers, labels = _number(array, array.size)
    except TypeError:
        for label in array:
            try:
                hash(label)
            except TypeError:
                raise TypeError(
                    f"{where} has the label {shown(label)}, which is not hashable; use "
                    "numbers, strings or tuples."
                ) from None
        raise
    missing = np.array([_is_missing(label) for label in labels], dtype=bool)
    rank, ordered = _sort(
        [
            _checked(label, where)
            for label, lost in zip(labels, missing, strict=True)
            if not lost
        ]
    )
    categories = category_array(ordered)
    return _relabel(numbers, *_place_codes(~missing, rank, categories))


def _item(label: Any) -> Any:
    """Return a NumPy number as Python's; times stay, they may have no equal there."""
    if isinstance(label, np.generic) and label.dtype.kind not in "mM":
        return label.item()
    return label


def _number(items: Iterable[Any], size: int) -> tuple[npt.NDArray[np.int64], list[Any]]:
    """Number the different items as they appear; the loop itself runs in C."""
    first: defaultdict[Any, int] = defaultdict(count().__next__)
    numbers = np.fromiter(map(first.__getitem__, items), dtype=np.int64, count=size)
    return numbers, list(first)


def _sort(labels: list[Any]) -> tuple[npt.NDArray[np.int64], list[Any]]:
    """Return the rank of each label and the labels in order, if they have one."""
    try:
        order = sorted(range(len(labels)), key=labels.__getitem__)
    except TypeError:
        order = list(range(len(labels)))
    rank = np.empty(len(labels), dtype=np.int64)
    rank[order] = np.arange(len(labels))
    return rank, [labels[j] for j in order]


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
