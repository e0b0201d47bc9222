"""The interface between the loop and the objects, wherever these are.

The loop has tables and counts but no objects; it calls :class:`Rows`. Only integers
that can be added up, or a few objects, come back, so the same loop works for one
process, for ranges of a file, and for workers that have a part of the objects each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.protocol import Assignment, Codes, Counts, Table


class Seeds(NamedTuple):
    """How a restart begins; objects that it does not name are not counted yet.

    Attributes
    ----------
    objects, clusters : ndarray of shape (m,)
        Single objects and the clusters that they stand for.
    partition : int
        A basic partition whose labels stand for clusters too, or -1.
    cluster_of : ndarray of shape (K_i + 1,)
        The cluster of each of its labels, K for none.
    """

    objects: npt.NDArray[np.intp]
    clusters: npt.NDArray[np.intp]
    partition: int = -1
    cluster_of: npt.NDArray[Any] = np.empty(0, dtype=np.intp)


class Layer(NamedTuple):
    """One of the clusterings that are overlaid: a restart, or a basic partition.

    The other of the two is -1.
    """

    restart: int = -1
    partition: int = -1


Overlay = Sequence[Layer]
"""What is overlaid. Where the layers meet they cut the objects into cells; the number
of a cell is that of its clusters and labels, as digits, the first layer first. K and
K_i, which mean "not counted" and "missing", are digits too."""


class Tally(NamedTuple):
    """Counts of the A restarts at work, after a step.

    Attributes
    ----------
    counts : ndarray of shape (S, A, K)
        On the host.
    absent : ndarray of shape (r, A, K) or None
        Sums of the weights of absent members, where a rule needs them; on the host.
    sizes : ndarray of shape (A, K)
        Objects in each cluster.
    moved : ndarray of shape (A,)
        How many objects changed their cluster.
    hashes : ndarray of shape (A,), uint64, or None
        Hashes of the assignments, where a rule needs them.
    there, absent_there
        The same as ``counts`` and ``absent``, where the backend computes. They change
        with the next step.
    """

    counts: Counts
    absent: Counts | None
    sizes: npt.NDArray[np.int64]
    moved: npt.NDArray[np.int64]
    hashes: npt.NDArray[np.uint64] | None
    there: Any
    absent_there: Any


class Rows(Protocol):
    """All objects, and their cluster in each of R restarts."""

    n_samples: int
    n_clusters: int
    skip: npt.NDArray[np.intp]
    """Objects without any label, ascending; they are never counted."""

    def start(self, first: Sequence[Seeds] | Assignment) -> list[int]:
        """Begin more restarts, by seeds or by assignments (R, n).

        Returns their numbers, which go on from those of the restarts that are there.
        """
        ...

    def keep(self, restarts: list[int]) -> None:
        """Forget all restarts but some, which become 0, 1, ... in this order."""
        ...

    def take(self, restarts: list[int]) -> Tally:
        """Put some restarts to work, and only these; return their counts.

        ``moved`` is zero.
        """
        ...

    def step(
        self,
        table: Table,
        row_table: Table | None,
        stay: Table | None = None,
        least_gain: npt.NDArray[np.float32] | None = None,
    ) -> Tally:
        """Put every object of the restarts at work where its score is lowest.

        With ``stay`` (S, A, K), the price that an object pays for staying, only objects
        move that save more than the ``least_gain`` (A,) of their restart.
        """
        ...

    def gains(self, restart: int) -> npt.NDArray[np.int64]:
        """Return how many objects the last step with ``stay`` would save so much.

        Shape (2^15,), by the upper 16 bits of the float32 that they save. Asked for
        only where a step was in vain.
        """
        ...

    def back(self, restarts: list[int]) -> None:
        """Give some restarts at work the assignment they had before the last step."""
        ...

    def fill(
        self,
        restart: int,
        clusters: npt.NDArray[np.intp],
        table: Table,
        row_table: Table | None,
    ) -> Tally:
        """Give each empty cluster of a restart at work the worst-fitting object.

        The object comes from a cluster of several. Tables are those of this restart
        alone, and so is what is returned.
        """
        ...

    def draw(
        self, rng: np.random.Generator, table: Table | None = None
    ) -> tuple[int, Codes]:
        """Draw an object by its score, and return it with its codes (r,), on the host.

        The weight of an object is its lowest score by the tables (S, 1, 1) given since
        the first draw, which is made without one: any labelled object.
        """
        ...

    def cells(self, overlays: Sequence[Overlay]) -> list[npt.NDArray[np.int64]]:
        """Return how many objects each cell of each overlay has."""
        ...

    def count_cells(
        self,
        overlays: Sequence[Overlay],
        places: Sequence[npt.NDArray[Any]],
        n_cells: int,
    ) -> tuple[Counts, Counts | None]:
        """Count some cells as if they were clusters.

        ``places`` give for every cell of each overlay which it is of ``n_cells``, or
        ``n_cells`` for none. Returns the counts (S, R, n_cells) and the absent weights,
        on the host.
        """
        ...

    def join(
        self,
        overlays: Sequence[Overlay],
        clusters: Sequence[npt.NDArray[Any]],
        alone: Sequence[Seeds],
        counts: Counts | None = None,
        absent: Counts | None = None,
    ) -> list[int]:
        """Begin a restart by each overlay, and return their numbers.

        ``clusters`` give for every cell its cluster, K for none; then come the single
        objects of ``alone``. Restarts whose counts (S, R, K) are known, on the host,
        are put to work at once.
        """
        ...

    def codes(self, objects: npt.NDArray[np.intp]) -> Codes:
        """Return the codes of some objects, (r, m), on the host."""
        ...

    def labels(self, restart: int) -> Assignment:
        """Return the cluster of every object, (n,), on the host; K for not counted."""
        ...
