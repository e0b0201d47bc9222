"""The votes of cumulative voting: every label votes for clusters of a reference."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.host_loops import fastest
from gpu_consensus.backends.protocol import Codes
from gpu_consensus.methods.alignment import match, overlaps
from gpu_consensus.util.checks import FloatArray, IntArray

UNIT = 2.0**-32
"""Votes are multiples of it, so that their sums are exact in any order."""
_TILE = 1 << 14  # objects at a time: their sums stay far below 2^53 units


class Votes(NamedTuple):
    """What objects voted for.

    Attributes
    ----------
    votes : ndarray of shape (n, k)
        Sums over the partitions; multiples of 2^-32.
    weight : ndarray of shape (n,)
        Of the partitions that label each object.
    tables : list of ndarray of shape (K_i + 1, k), or None
        What each label adds to the votes, by partition; a missing label adds 0.
    """

    votes: FloatArray
    weight: FloatArray
    tables: list[FloatArray] | None


def cast(
    codes: Codes,
    n_labels: IntArray,
    weights: FloatArray,
    order: npt.NDArray[np.intp],
    alignment: str,
    *,
    keep_tables: bool = False,
    n_threads: int = 1,
) -> Votes:
    """Let one partition vote after another.

    Parameters
    ----------
    codes : ndarray of shape (r, n)
        On the host.
    n_labels : ndarray of shape (r,)
    weights : ndarray of shape (r,)
        What a vote of each partition counts; rounded to a multiple of 2^-32.
    order : ndarray of shape (r,)
        The reference first.
    alignment : {"adaptive", "fixed", "binary"}
        As in ``cvote``.
    keep_tables : bool, default False
    n_threads : int, default 1
    """
    vote_round = fastest("vote_round", numpy_vote_round)
    n, k = codes.shape[1], int(n_labels[order[0]])
    weights = np.maximum(np.rint(weights / UNIT), 1) * UNIT
    votes, weight = np.zeros((n, k)), np.zeros(n)
    voters: Codes | None = None
    table = np.empty((0, k))
    tables = [table] * len(codes)
    reference, known = votes, weight
    for step, i in enumerate(order):
        k_i, labels = int(n_labels[i]), codes[i]
        if step == 0:
            shares = np.eye(k)
        else:
            if alignment == "fixed":
                if step == 1:
                    reference, known = np.zeros_like(votes), weight.copy()
                    vote_round(reference, known, voters, table, None, 0, n_threads)
                vote_round(votes, weight, voters, table, None, 0, n_threads)
                voters = None
            sums = vote_round(reference, known, voters, table, labels, k_i, n_threads)
            shares = _shares(sums, labels, known > 0, alignment)
        table = np.zeros((k_i + 1, k))
        np.rint(shares * (weights[i] / UNIT), out=table[:k_i])
        table *= UNIT
        tables[i], voters = table, labels
        weight += np.where(labels < k_i, weights[i], 0.0)
    vote_round(votes, weight, voters, table, None, 0, n_threads)
    return Votes(votes, weight, tables if keep_tables else None)


def _shares(
    sums: IntArray, labels: Codes, known: npt.NDArray[np.bool_], alignment: str
) -> FloatArray:
    """Return what each label votes for, (k_i, k), from sums of mean votes by label."""
    k_i, k = len(sums) - 1, sums.shape[1]
    if alignment == "binary":
        columns = match(sums[:k_i])
        table: FloatArray = (columns[:, None] == np.arange(k)).astype(float)
        return table
    n = np.bincount(labels[known], minlength=len(sums))
    # a label none of whose objects has a vote yet takes the mean of all that have
    shares = np.tile(sums.sum(axis=0) / max(n.sum(), 1), (k_i, 1))
    voting = np.flatnonzero(n[:k_i])
    shares[voting] = sums[voting] / n[voting, None]
    return shares * UNIT


def numpy_vote_round(
    votes: FloatArray,
    weight: FloatArray,
    voters: Codes | None,
    table: FloatArray | None,
    labels: Codes | None,
    n_labels: int,
    n_threads: int,
) -> IntArray:
    """Add the votes of one partition, then sum the mean votes by labels of another.

    Parameters
    ----------
    votes : ndarray of shape (n, k)
        Changed in place.
    weight : ndarray of shape (n,)
        What the votes of an object are divided by; 0 if it has none yet.
    voters : ndarray of shape (n,), optional
        Rows of ``table`` (any, k) to add.
    labels : ndarray of shape (n,), optional
        By which to sum; ``n_labels`` means missing.

    Returns
    -------
    sums : ndarray of shape (n_labels + 1, k), int64
        In units of 2^-32, to which the mean votes were rounded.
    """
    sums = np.zeros((n_labels + 1, votes.shape[1]), dtype=np.int64)
    for begin in range(0, len(votes), _TILE):
        some = slice(begin, begin + _TILE)
        if voters is not None:
            assert table is not None
            votes[some] += table[voters[some]]
        if labels is not None:
            heavy = weight[some, None]
            mean = np.zeros_like(votes[some])
            np.divide(votes[some], heavy, out=mean, where=heavy > 0)
            units = np.rint(mean * 2.0**32)
            sums += overlaps(labels[some], n_labels + 1, units).astype(np.int64)
    return sums
