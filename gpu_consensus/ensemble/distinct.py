"""Objects that no partition labels, and objects whose labels are all equal."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.protocol import Codes
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.checks import FloatArray, IntArray
from gpu_consensus.util.weights import useful_partitions


class Distinct(NamedTuple):
    """Objects with equal labels, seen as one.

    Attributes
    ----------
    first : ndarray of shape (m,)
        The first object of each group, ascending.
    group : ndarray of shape (n_samples,)
        The group of every object.
    size : ndarray of shape (m,)
        Objects in each group.
    """

    first: npt.NDArray[np.intp]
    group: npt.NDArray[np.intp]
    size: IntArray


def find_distinct(codes: Codes) -> Distinct:
    """Find the objects whose labels are all equal.

    Parameters
    ----------
    codes : ndarray of shape (r, n_samples)
        On the host.
    """
    rows = np.ascontiguousarray(codes.T)
    whole = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0]
    _, first, group, size = np.unique(
        whole, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return Distinct(first[order], rank[group.ravel()], size[order])


def find_unlabelled(
    ensemble: Ensemble, weights: FloatArray, on_unlabelled: str
) -> npt.NDArray[np.intp]:
    """Return the objects that no partition of positive weight has labelled."""
    useful = useful_partitions(ensemble.n_labels, weights)
    if (ensemble.n_missing[useful] == 0).any():
        return np.empty(0, dtype=np.intp)
    elsewhere = ensemble.elsewhere
    if elsewhere is None:
        skip = without_label(ensemble.codes, ensemble.n_labels, useful)
    else:
        skip = elsewhere.unlabelled(useful)
    if skip.size == ensemble.n_samples:
        raise ValueError("no object has any label; there is nothing to agree on.")
    if skip.size and on_unlabelled == "raise":
        named = ", ".join(str(l) for l in skip[:5]) + (", ..." if skip.size > 5 else "")
        raise ValueError(
            f"{skip.size} objects have no label in any partition (objects {named}); "
            "drop them, or pass on_unlabelled='keep' to give them the label -1."
        )
    return skip


def check_distinct_rows(
    ensemble: Ensemble,
    weights: FloatArray,
    n_clusters: int,
    skip: npt.NDArray[np.intp],
) -> None:
    """Raise an error if fewer than ``n_clusters`` objects differ in their labels."""
    useful = useful_partitions(ensemble.n_labels, weights)
    elsewhere = ensemble.elsewhere
    if elsewhere is None:
        number = len(distinct_rows(ensemble.codes, useful, skip, n_clusters))
    else:
        number = elsewhere.n_distinct(useful, skip, n_clusters)
    if number < n_clusters:
        raise ValueError(
            f"the ensemble has only {number} distinct rows but "
            f"n_clusters={n_clusters}; ask for at most {number} clusters."
        )


def without_label(
    codes: Codes, n_labels: IntArray, useful: npt.NDArray[np.intp]
) -> npt.NDArray[np.intp]:
    """Return the objects without a label in the useful partitions."""
    absent = np.ones(codes.shape[1], dtype=bool)
    for i in useful:
        absent &= to_host(codes[i]) == n_labels[i]
    return np.flatnonzero(absent)


def distinct_rows(
    codes: Codes,
    useful: npt.NDArray[np.intp],
    skip: npt.NDArray[np.intp],
    number: int,
) -> Codes:
    """Return rows of useful codes that differ, (m, r); looks for about so many.

    All of them where they are fewer.
    """
    found = np.empty((0, len(useful)), dtype=codes.dtype)
    n, begin, step = codes.shape[1], 0, max(64, 2 * number)
    while begin < n and len(found) < number:
        rows = np.setdiff1d(np.arange(begin, min(begin + step, n)), skip)
        block = to_host(codes[:, begin : begin + step])
        block = block[np.ix_(useful, rows - begin)].T
        found = unique_rows(np.concatenate([found, block]))
        begin, step = begin + step, min(4 * step, 1 << 16)
    return found


def unique_rows(rows: Codes) -> Codes:
    """Return the rows that differ, in the order of their bytes."""
    rows = np.ascontiguousarray(rows)
    whole = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0]
    return rows[np.unique(whole, return_index=True)[1]]
