"""Labels as users give them, turned into codes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.ensemble.encoding import category_array, count_codes, encode
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.checks import IntArray
from gpu_consensus.util.numbers import check_mask, shown
from gpu_consensus.util.sparse import is_sparse

Codes = npt.NDArray[Any]


class Parts(NamedTuple):
    """What an ensemble is made of.

    Attributes
    ----------
    codes : ndarray of shape (r, n), uint8 or uint16
    n_labels : ndarray of shape (r,)
    categories : tuple of ndarray
    """

    codes: Codes
    n_labels: IntArray
    categories: tuple[npt.NDArray[Any], ...]


def split_columns(labels: Any, expected: int | None = None) -> list[Any]:
    """Split a 2-D array or DataFrame into its columns, one per partition.

    With ``expected`` there must be so many; without, at least one of one object.
    """
    labels = to_host(labels)
    if is_frame(labels):
        _check_columns(labels, expected)
        return [labels.iloc[:, i] for i in range(labels.shape[1])]
    if isinstance(labels, (list, tuple)):
        raise TypeError(
            "labels is a plain list, which is ambiguous; use "
            "Ensemble(np.asarray(labels)) if its rows are objects, or "
            "Ensemble.from_partitions(labels) if its entries are partitions."
        )
    if is_sparse(labels):
        raise TypeError(
            "labels is a sparse matrix, in which a label 0 is not stored; use "
            "labels.toarray()."
        )
    masked = isinstance(labels, np.ma.MaskedArray)
    array = labels if masked else np.asarray(labels)
    if array.ndim != 2:
        cure = (
            "for a single partition use Ensemble.from_partitions([labels])"
            if array.ndim == 1
            else "put one partition in each column"
        )
        raise ValueError(
            f"labels has {array.ndim} dimensions but should be (n_samples, "
            f"n_partitions); {cure}."
        )
    _check_columns(array, expected)
    return list(array.T)


def _check_columns(table: Any, expected: int | None) -> None:
    """Look at the shape first: a file may promise any number of empty columns."""
    if expected is None:
        check_some(table.shape[::-1])
    elif table.shape[1] != expected:
        raise ValueError(
            f"labels has {table.shape[1]} columns but the ensemble has "
            f"n_partitions={expected}; give one column per partition."
        )


def check_some(shape: tuple[int, ...]) -> None:
    """Refuse the shape (r, n) of no partition, or of no object."""
    if shape[0] == 0 or shape[1] == 0:
        raise ValueError(
            f"the ensemble is empty (n_partitions={shape[0]}, "
            f"n_samples={shape[1]}); at least one partition of one object "
            "is needed."
        )


def check_parts(codes: Any, n_labels: Any, categories: Any) -> Parts:
    """Check the parts of an ensemble that come from elsewhere, all but the codes.

    Parameters
    ----------
    codes : ndarray of shape (r, n)
    n_labels : sequence of int
    categories : sequence of sequence, or None
        None stands for the codes themselves.
    """
    codes = check_mask("codes", codes)
    if not hasattr(codes, "dtype"):
        codes = np.asarray(codes)
    if codes.ndim != 2 or codes.dtype not in (np.uint8, np.uint16):
        raise ValueError(
            f"codes have shape {codes.shape} and type {codes.dtype}; they should "
            "be (n_partitions, n_samples), uint8 or uint16."
        )
    check_some(codes.shape)
    sizes = np.asarray(check_mask("n_labels", to_host(n_labels)))
    if sizes.dtype.kind not in "iu":
        raise TypeError(
            f"n_labels={shown(n_labels)} should be integers, one K_i per partition."
        )
    if sizes.shape != (codes.shape[0],):
        raise ValueError(
            f"n_labels has shape {sizes.shape} but there are {codes.shape[0]} "
            "partitions; give one K_i per partition."
        )
    most = int(np.iinfo(codes.dtype).max)
    wrong = np.flatnonzero((sizes < 0) | (sizes > most))
    if wrong.size:
        raise ValueError(
            f"n_labels[{wrong[0]}]={sizes[wrong[0]]} should be in 0..{most}, "
            f"because {codes.dtype} codes include one for missing."
        )
    sizes = sizes.astype(np.int64)
    return Parts(codes, sizes, _check_categories(categories, sizes))


def check_marginals(marginals: Any, parts: Parts) -> None:
    """Refuse counts that cannot be those of any codes."""
    sizes = parts.n_labels + 1
    if np.shape(marginals) != (sizes.sum(),):
        raise ValueError(
            f"marginals have shape {np.shape(marginals)} but should be "
            f"({sizes.sum()},), K_i + 1 counts per partition."
        )
    starts = np.cumsum(sizes) - sizes
    totals = np.add.reduceat(marginals, starts)
    if (marginals < 0).any() or (totals != parts.codes.shape[1]).any():
        raise ValueError(
            f"the marginals of a partition should be >= 0 and sum to "
            f"n_samples={parts.codes.shape[1]}."
        )


def count_all(codes: Codes, n_labels: IntArray) -> IntArray:
    """Count each code of each partition."""
    marginals = []
    for i, k_i in enumerate(n_labels.tolist()):
        try:
            marginals.append(count_codes(to_host(codes[i]), k_i))
        except ValueError as error:
            raise ValueError(f"in partition {i} {error}") from None
    return np.concatenate(marginals)


def _check_categories(
    categories: Any, n_labels: IntArray
) -> tuple[npt.NDArray[Any], ...]:
    """Return one array of K_i different labels per partition."""
    if categories is None:
        return tuple(np.arange(size) for size in n_labels)
    try:
        arrays = tuple(
            labels if isinstance(labels, np.ndarray) else category_array(list(labels))
            for labels in map(to_host, categories)
        )
        fitting = [labels.shape for labels in arrays] == [(k,) for k in n_labels]
    except TypeError:
        fitting = False
    if not fitting:
        raise ValueError(
            "categories do not fit n_labels; give one array of K_i labels per "
            "partition."
        )
    for i, labels in enumerate(arrays):
        try:
            different = len(set(labels.tolist()))
        except TypeError:
            raise TypeError(
                f"categories[{i}]={shown(labels)} are not hashable; use numbers, "
                "strings or tuples."
            ) from None
        if different < len(labels):
            raise ValueError(
                f"categories[{i}]={shown(labels)} has a label twice; give every code "
                "a label of its own."
            )
    return arrays


def encode_all(
    columns: Iterable[Any],
) -> tuple[Codes, IntArray, tuple[npt.NDArray[Any], ...], IntArray]:
    """Encode the partitions one by one into the smallest type that holds them."""
    rows: list[Codes] = []
    categories, marginals = [], []
    for i, (row, labels) in enumerate(encode_each(columns)):
        rows.append(row)
        categories.append(labels)
        marginals.append(count_codes(rows[i], len(labels)))
    sizes = np.array([len(labels) for labels in categories], dtype=np.int64)
    codes = np.empty((len(rows), len(rows[0])), dtype=np.min_scalar_type(sizes.max()))
    for i in range(len(rows)):
        codes[i] = rows[i]
        rows[i] = codes[i]  # frees the row itself
    return codes, sizes, tuple(categories), np.concatenate(marginals)


def encode_each(columns: Iterable[Any]) -> Iterator[tuple[Codes, npt.NDArray[Any]]]:
    """Yield the codes and the labels of each partition; all are of one length."""
    size = -1
    for i, column in enumerate(columns):
        encoded, labels = encode(column, f"partition {i}")
        if size not in (-1, len(encoded)):
            raise ValueError(
                f"partition {i} has {len(encoded)} labels but partition 0 has "
                f"{size}; give every partition one label per object, -1 where it is "
                "missing."
            )
        size = len(encoded)
        yield encoded.astype(np.min_scalar_type(len(labels))), labels
    if size < 0:
        raise ValueError("the ensemble is empty; at least one partition is needed.")


def is_frame(labels: Any) -> bool:
    """Whether this is a pandas DataFrame, or looks like one."""
    return hasattr(labels, "iloc") and hasattr(labels, "columns")
