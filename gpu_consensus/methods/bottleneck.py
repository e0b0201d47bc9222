"""Clusters with soft members, merged until so many are left and each has objects."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.host_loops import fastest
from gpu_consensus.backends.log2 import log2
from gpu_consensus.methods.cumulative import UNIT
from gpu_consensus.util.checks import FloatArray, IntArray

_TINY = 2.0**-200  # changes no vote but 0, and 0 log2 of it is 0
_TILE = 1 << 15  # numbers at a time: they stay in the cache


class Merged(NamedTuple):
    """What the merges ended with.

    Attributes
    ----------
    merged : ndarray of shape (k,)
        The cluster after the merges of each before them.
    before, after : float
        I(X; C) in bits, before and after the merges.
    """

    merged: npt.NDArray[np.intp]
    before: float
    after: float


def merge_clusters(
    votes: FloatArray,
    weight: FloatArray,
    n_clusters: int,
    reduction: str,
    n_threads: int = 1,
) -> Merged:
    """Merge the pair of least cost until ``n_clusters`` are left.

    A merge after which fewer than ``n_clusters`` clusters would have objects is passed
    over as long as there is another.

    Parameters
    ----------
    votes : ndarray of shape (n, k)
        Sums of votes, multiples of 2^-32.
    weight : ndarray of shape (n,)
        What makes means of them, > 0.
    n_clusters : int
        From k on, nothing is merged.
    reduction : {"aib", "js"}
        The cost: information lost, or the average over pairs of the Jensen-Shannon
        divergence. Ties go to the lowest pair.
    n_threads : int, default 1
    """
    k = votes.shape[1]
    owners = _Owners(np.ascontiguousarray(votes.T))
    sums = _Sums(votes, weight, n_threads)
    names, alive, size = np.arange(k), np.arange(k), np.ones(k)
    before = sums.information(alive)
    cost = np.full((k, k), np.inf)
    if n_clusters < k:
        low, high = np.triu_indices(k, 1)
        cost[low, high] = sums.losses(low, high)
        if reduction == "js":
            both = sums.mass[low] + sums.mass[high]
            cost[low, high] /= np.where(both > 0, both, 1.0)
    while len(alive) > n_clusters:
        a, b = owners.choose(cost, n_clusters)
        alive = alive[alive != b]
        others = alive[alive != a]
        low, high = np.minimum(a, others), np.maximum(a, others)
        gone = cost[np.minimum(b, others), np.maximum(b, others)]
        cost[b], cost[:, b] = np.inf, np.inf
        sums.merge(a, b)
        if reduction == "aib":
            cost[low, high] = sums.losses(low, high)
        else:
            mixed = size[a] * cost[low, high] + size[b] * gone
            cost[low, high] = mixed / (size[a] + size[b])
        size[a] += size[b]
        owners.merge(a, b)
        names[names == b] = a
    merged = np.searchsorted(alive, names)
    return Merged(merged, before, sums.information(alive))


class _Owners:
    """Which cluster has most votes of each object, as clusters are merged."""

    def __init__(self, columns: FloatArray) -> None:
        self.columns = columns
        self.owner = columns.argmax(axis=0)
        self.best = columns.max(axis=0)

    def _after(self, a: int, b: int) -> tuple[npt.NDArray[np.intp], FloatArray]:
        """Return who would own the objects if b were merged into a, and by how much."""
        both = self.columns[a] + self.columns[b]
        wins = (both > self.best) | ((both == self.best) & (a < self.owner))
        return np.where(wins, a, self.owner), np.maximum(both, self.best)

    def _n_owners(self, owner: npt.NDArray[np.intp]) -> int:
        return int(np.count_nonzero(np.bincount(owner)))

    def choose(self, cost: FloatArray, n_clusters: int) -> tuple[int, int]:
        """Return the pair of least cost that leaves enough clusters their objects."""
        k = len(cost)
        first = divmod(int(cost.argmin()), k)
        has = np.bincount(self.owner, minlength=k) > 0
        number = int(np.count_nonzero(has))
        least = min(n_clusters, number)
        pair, left = first, cost
        while self._n_owners(self._after(*pair)[0]) < least:
            if left is cost:
                left = cost.copy()
                if number == least:  # one of two owners would be gone
                    left[np.ix_(has, has)] = np.inf
            left[pair] = np.inf
            pair = divmod(int(left.argmin()), k)
            if left[pair] == np.inf:
                return first
        return pair

    def merge(self, a: int, b: int) -> None:
        """Merge b into a."""
        self.owner, self.best = self._after(a, b)
        self.columns[a] += self.columns[b]
        self.columns[b] = 0.0


class _Sums:
    """Sums of x log2 x over the objects, from which information follows.

    With v the mean votes, V their sum over the objects, f = x log2 x and M the sum of
    all V, the information that a merge loses is 1 / M times
    sum_l [f(v_a) + f(v_b) - f(v_a + v_b)] - f(V_a) - f(V_b) + f(V_a + V_b).
    """

    def __init__(self, votes: FloatArray, weight: FloatArray, n_threads: int) -> None:
        self.pair_sums = fastest("pair_sums", numpy_pair_sums)
        self.n_threads = n_threads
        n, k = votes.shape
        # the last column stays 0: a cluster and it are a pair
        self.columns = np.zeros((k + 1, n))
        np.divide(votes.T, weight, out=self.columns[:k])
        self.columns *= 1 / UNIT
        np.rint(self.columns, out=self.columns)
        self.columns *= UNIT
        self.mass = self.columns[:k].sum(axis=1)
        self.total = float(self.mass.sum())
        rows = self.columns.sum(axis=0)
        self.rows = float(_x_log2_x(rows).sum())
        self.single = self._of(np.arange(k), np.full(k, k))

    def _of(self, a: npt.NDArray[np.intp], b: npt.NDArray[np.intp]) -> IntArray:
        pairs = np.column_stack([a, b]).astype(np.int64)
        return self.pair_sums(self.columns, pairs, self.n_threads)

    def losses(self, a: npt.NDArray[np.intp], b: npt.NDArray[np.intp]) -> FloatArray:
        """Return M times the information that merging each pair loses.

        That is (V_a + V_b) times the Jensen-Shannon divergence.
        """
        inside = (self.single[a] + self.single[b] - self._of(a, b)) * UNIT
        f = _x_log2_x(self.mass)
        whole = _x_log2_x(self.mass[a] + self.mass[b])
        return np.asarray(inside + (whole - f[a] - f[b]))

    def merge(self, a: int, b: int) -> None:
        """Merge b into a."""
        self.columns[a] += self.columns[b]
        self.columns[b] = 0.0
        self.mass[a] += self.mass[b]
        self.mass[b] = 0.0
        self.single[b] = 0
        self.single[a] = self._of(np.array([a]), np.array([len(self.mass)]))[0]

    def information(self, alive: npt.NDArray[np.intp]) -> float:
        """Return I(X; C) in bits of the clusters that are left."""
        inside = int(self.single[alive].sum()) * UNIT - self.rows
        inside -= float(_x_log2_x(self.mass[alive]).sum())
        whole = float(log2(np.array([self.total]))[0])
        return max(inside / self.total + whole, 0.0)


def _x_log2_x(x: FloatArray) -> FloatArray:
    return np.asarray(x * log2(x + _TINY))


def numpy_pair_sums(columns: FloatArray, pairs: IntArray, n_threads: int) -> IntArray:
    """Sum x log2 x over the objects, x the numbers of two columns added.

    Parameters
    ----------
    columns : ndarray of shape (k, n)
        Multiples of 2^-32, at least 0.
    pairs : ndarray of shape (m, 2)
        Of columns.

    Returns
    -------
    sums : ndarray of shape (m,), int64
        In units of 2^-32, to which every term was rounded.
    """
    sums = np.zeros(len(pairs), dtype=np.int64)
    n = columns.shape[1]
    width = max(1, min(n, _TILE))
    height = max(1, _TILE // width)
    for first in range(0, len(pairs), height):
        a, b = pairs[first : first + height].T
        for begin in range(0, n, width):
            some = slice(begin, begin + width)
            terms = np.rint(_x_log2_x(columns[a, some] + columns[b, some]) / UNIT)
            sums[first : first + height] += terms.astype(np.int64).sum(axis=1)
    return sums
