"""The seam: what a backend must do, written once.

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

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from gpu_consensus.loop.problem import Rule
    from gpu_consensus.loop.segments import LabelSums

Codes = npt.NDArray[Any]
Assignment = npt.NDArray[Any]
Counts = npt.NDArray[np.int64]
Table = npt.NDArray[np.float32]
Offsets = npt.NDArray[np.int64]


class Assigned(NamedTuple):
    """What ``assign`` returns; ``best`` and ``gap`` only when asked for."""

    assignment: Assignment
    best: npt.NDArray[np.float32] | None
    gap: npt.NDArray[np.float32] | None


class Coassociation(NamedTuple):
    """A tile of pair counts, each (len(rows), len(columns)), int32."""

    same: npt.NDArray[np.int32]
    both: npt.NDArray[np.int32]


class Groups(NamedTuple):
    """Objects put together by their row of labels; G rows, as they first appear."""

    codes: Codes
    """(r, G), the distinct rows."""
    place: npt.NDArray[np.int32]
    """(n,), the row of each object."""
    first: npt.NDArray[np.int64]
    """(G,), the first object of each row."""
    times: npt.NDArray[np.int32]
    """(G,), how many objects have it."""


class TableRecipe(NamedTuple):
    """What a device needs to make a rule's table.

    Attributes
    ----------
    utility : {"C", "H", "COS", "LP", "IVC", "IPVC", "SEC"}
    offsets, marginals, weights : ndarray
    power : int
        P of lP.
    norm : callable or None
        Host function from counts and absent weights to norms (r, R, K), for lP and SEC.
    row_utility : {"SEC_ROW"} or None
        What the row table, if it has as many rows as the table, is made by.
    row_sum : callable or None
        Host function from counts and absent weights to a row table (R, K).
    present_weight : ndarray of shape (r,) or None
        For SEC, the weight of all objects present: a device then makes norms and row
        sums itself.
    """

    utility: str
    offsets: npt.NDArray[np.int64]
    marginals: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float64]
    power: int = 0
    norm: Callable[..., npt.NDArray[np.float64]] | None = None
    row_utility: str | None = None
    row_sum: Callable[..., Table] | None = None
    present_weight: npt.NDArray[np.int64] | None = None

    @property
    def wants_host(self) -> bool:
        """Whether a device lacks norms, because powers round alike only on the host."""
        return self.norm is not None and self.present_weight is None


class Backend(Protocol):
    """Few, fat primitives over label codes.

    Every backend is tested against one triple-loop oracle. "Equal" means every bit.
    """

    name: str
    xp: Any
    """The array library: numpy, or cupy."""

    def to_device(self, array: Any) -> Any:
        """Bring an array to where this backend computes; nothing on the host."""
        ...

    def to_host(self, array: Any) -> Any:
        """Bring an array of this backend to the host; nothing on the host."""
        ...

    def bring(self, *arrays: Any) -> tuple[Any, ...]:
        """Bring arrays of 64-bit integers to the host together, in one copy.

        None stays None. On the host they are the same arrays.
        """
        ...

    def stage(self, name: str) -> AbstractContextManager[Any]:
        """Return a context that a profiler of the device shows by name."""
        ...

    def memory_for(self, what: str, cure: str) -> AbstractContextManager[None]:
        """Return a context in which want of device memory is said to be for ``what``.

        The error then names the cure. On the host nothing changes.
        """
        ...

    def hold(self, codes: Codes, beside: int = 0) -> Any:
        """Bring the codes of an ensemble to where they stay during a fit.

        They leave ``beside`` bytes to the caller, or are not kept on a device.
        A slice of what this returns holds the codes of some partitions likewise.
        """
        ...

    def blocks(
        self, codes: Any, n_restarts: int, memory_limit: int | None
    ) -> Iterator[tuple[slice, Codes]]:
        """Cut the objects of ``hold``'s codes into ranges, with the codes of each.

        Working memory then stays below ``memory_limit`` bytes (a fixed default when
        None), whatever n is.
        """
        ...

    def table(
        self,
        rule: Rule,
        counts: Counts,
        absent: Counts | None,
        on_host: Counts | None = None,
    ) -> tuple[Table, Table | None]:
        """Return the tables of a rule, ``rule.table(counts, absent)``. Equal.

        ``on_host`` are the same counts on the host, if they are there already.
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

        Counts and sums are on the host: objectives and norms are made of them there.
        """
        ...

    def count(
        self, codes: Codes, offsets: Offsets, assignment: Assignment, n_clusters: int
    ) -> Counts:
        """Count objects by label and cluster: (S, R, K), int64. Equal.

        Row ``offsets[i] + j`` holds how many objects of each cluster carry code j in
        partition i, the code for missing included.
        """
        ...

    def recount(
        self,
        codes: Codes,
        offsets: Offsets,
        before: Assignment,
        after: Assignment,
        counts: Counts,
    ) -> None:
        """Update ``counts`` in place from ``before`` to ``after``. Equal to ``count``.

        Only objects whose cluster differs are looked at.
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
    ) -> Assigned:
        """Put every object where its score is lowest. Equal.

        The score of object l for cluster k is ``sum_i table[offsets[i] + codes[i, l]]``
        added in float32 in partition order, plus, where ``row_table`` is given,
        ``row_weight[l]`` times the same sum over ``row_table``: two sums, one multiply,
        one add, no fused operation. ``row_table`` is (S, R, K), or (R, K) and is then
        taken as that sum. Ties go to the lowest k. ``best`` (R, n) is the lowest score,
        ``gap`` (R, n) its distance to the second lowest, infinite when K = 1.
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

    def weigh(
        self,
        codes: Codes,
        offsets: Offsets,
        assignment: Assignment,
        row_weight: npt.NDArray[np.int64],
        n_clusters: int,
    ) -> Counts:
        """Sum integer weights of the objects missing in each partition, (r, R, K).

        Entry (i, q, k) is the weight of the members of cluster k in restart q that have
        no label in partition i. Equal.
        """
        ...

    def reweigh(
        self,
        codes: Codes,
        offsets: Offsets,
        before: Assignment,
        after: Assignment,
        row_weight: npt.NDArray[np.int64],
        total: Counts,
    ) -> None:
        """Update the sums of ``weigh`` in place from ``before`` to ``after``. Equal.

        Only objects whose cluster differs are looked at.
        """
        ...

    def coassociation(
        self, codes: Codes, n_labels: npt.NDArray[np.int64], rows: Any, columns: Any
    ) -> Coassociation:
        """Count in how many partitions two objects share a label, and both have one.

        ``rows`` and ``columns`` are indices of objects. Equal.
        """
        ...

    def pairs(
        self, held: Any, n_labels: npt.NDArray[np.int64], rows: Any, columns: Any
    ) -> Coassociation:
        """As ``coassociation``, of ``hold``'s codes and with the counts on the host.

        Neither the codes nor the tile have to fit the memory of a device.
        """
        ...
