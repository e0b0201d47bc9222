"""What a backend must do: the interface between algorithms and hardware.

Shapes, everywhere the same:

- ``codes`` (r, n), uint8 or uint16: label codes of n objects in r partitions; code K_i
  of partition i means missing;
- ``offsets`` (r + 1,), int64: partition i owns the rows ``offsets[i]:offsets[i + 1]``
  of a table, K_i labels and one row for "missing"; S = ``offsets[-1]``;
- ``assignment`` (R, n), the smallest unsigned type that holds K: the cluster of every
  object in each of R restarts; the value K means "not counted";
- ``counts`` (S, R, K), int64, and ``table`` (S, R, K), float32, whose entries are 0 or
  at least 2^-100 in size: no sum of them is subnormal, which devices would take for 0.

Callers pass any range of objects as ``codes[:, begin:end]``; a backend never needs all
of them at once, and no result depends on how the objects were cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.recipe import TableRecipe
from gpu_consensus.backends.segments import LabelSums

Codes = npt.NDArray[Any]
Assignment = npt.NDArray[Any]
Counts = npt.NDArray[np.int64]
Table = npt.NDArray[np.float32]
Offsets = npt.NDArray[np.int64]


class Assigned(NamedTuple):
    """What ``assign`` returns; all but the assignment only when asked for."""

    assignment: Assignment
    best: npt.NDArray[np.float32] | None
    gap: npt.NDArray[np.float32] | None
    gain: npt.NDArray[np.float32] | None = None


class PairCounts(NamedTuple):
    """A tile of counts of pairs, each (len(rows), len(columns)), int32."""

    same: npt.NDArray[np.int32]
    both: npt.NDArray[np.int32]


class Backend(Protocol):
    """A few large primitives over label codes.

    Every backend is tested against one triple-loop oracle. "Equal" means every bit.
    """

    name: str
    xp: Any
    """The array library: numpy, or cupy."""

    def to_device(self, array: Any) -> Any:
        """Copy an array to where this backend computes, if it is not there yet."""
        ...

    def to_host(self, *arrays: Any) -> Any:
        """Copy arrays of this backend to the host, if they are not there yet.

        One array gives an array. Several arrays, which must hold 64-bit numbers, give a
        tuple and are copied together; None stays None.
        """
        ...

    def resident(self, codes: Codes, reserve: int = 0) -> Any:
        """Return codes of an ensemble where they stay during a fit.

        A device keeps them only if ``reserve`` bytes stay free for the caller. The
        result has a ``shape``, and a slice of it holds the codes of some partitions in
        the same way.
        """
        ...

    def blocks(
        self, resident: Any, n_restarts: int, memory_limit: int | None
    ) -> Iterator[tuple[slice, Codes]]:
        """Cut the objects of resident codes into ranges, with the codes of each.

        Working memory then stays below ``memory_limit`` bytes (a fixed default when
        None), whatever n is.
        """
        ...

    def table(
        self,
        recipe: TableRecipe,
        counts: Counts,
        absent: Counts | None = None,
        on_host: Counts | None = None,
    ) -> tuple[Table, Table | None]:
        """Return the table of a recipe and its row table or None. Equal.

        They are what :func:`gpu_consensus.backends.recipe.make_tables` gives.
        ``absent`` (r, R, K) are sums of ``count``, for recipes of SEC with missing
        labels; ``on_host`` are the same counts on the host, if they are there already.
        """
        ...

    def label_sums(
        self,
        offsets: Offsets,
        counts: Counts,
        marginals: npt.NDArray[np.int64],
        entropy: bool = False,
    ) -> LabelSums:
        """Sum counts (S, R, K) over the labels of each partition. Equal.

        Counts and sums are on the host, where objectives and norms are made from them.
        """
        ...

    def count(
        self,
        codes: Codes,
        offsets: Offsets,
        before: Assignment | None,
        after: Assignment,
        out: Counts,
        weight: npt.NDArray[np.int64] | None = None,
        absent: Counts | None = None,
    ) -> None:
        """Count objects by label and cluster into ``out`` (S, R, K), in place. Equal.

        Row ``offsets[i] + j`` of ``out`` grows by how many objects of each cluster
        carry code j in partition i, the code for missing included. With ``before``,
        ``out`` goes from the counts of that assignment to those of ``after``, and only
        objects whose cluster differs are looked at.

        With ``weight`` (n,), integers, ``absent`` (r, R, K) does the same for the
        weights of the objects that are missing in each partition: entry (i, q, k) is
        the weight of the members of cluster k in restart q without a label there.
        """
        ...

    def assign(
        self,
        codes: Codes,
        offsets: Offsets,
        table: Table,
        *,
        row_weight: npt.NDArray[np.float32] | None = None,
        row_table: Table | None = None,
        best: bool = False,
        gap: bool = False,
        own: Assignment | None = None,
        stay: Table | None = None,
    ) -> Assigned:
        """Put every object where its score is lowest. Equal.

        The score of object l for cluster k is ``sum_i table[offsets[i] + codes[i, l]]``
        added in float32 in partition order, plus, where ``row_table`` is given,
        ``row_weight[l]`` times the same sum over ``row_table``: two sums, one multiply,
        one add, no fused operation. ``row_table`` is (S, R, K), or (R, K) and is then
        taken as that sum. Ties go to the lowest k. ``best`` (R, n) is the lowest score,
        ``gap`` (R, n) its distance to the second lowest, infinite when K = 1.

        With ``own`` (R, n), the cluster that each object is in, its score for that
        cluster is the same sum over ``stay`` (S, R, K) instead, and ``gain`` (R, n) is
        that score minus the lowest: 0 where it is not above r 2^-23 times the size of
        the score, which may be rounding, and for objects that are not counted.
        """
        ...

    def scores(
        self, codes: Codes, offsets: Offsets, table: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        """Return all scores (n, R, K) of a float64 table, added in partition order.

        Equal within a backend, close between backends.
        """
        ...

    def soft_count(
        self,
        codes: Codes,
        offsets: Offsets,
        responsibilities: npt.NDArray[np.float64],
    ) -> Counts:
        """Sum responsibilities (n, R, K) by label: (S, R, K), int64.

        Each is rounded to a multiple of 2**-32 first, so that the sum is an exact
        integer in units of 2**-32, whatever the order. Equal within a backend, close
        between backends (their responsibilities differ by rounding).
        """
        ...

    def pairs(
        self, resident: Any, n_labels: npt.NDArray[np.int64], rows: Any, columns: Any
    ) -> PairCounts:
        """Count in how many partitions two objects share a label, and both have one.

        ``rows`` and ``columns`` are indices of objects; the counts are on the host.
        Neither the codes nor the tile have to fit the memory of a device. Equal.
        """
        ...
