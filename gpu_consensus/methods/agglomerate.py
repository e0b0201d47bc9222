"""Merge groups of objects pair by pair, the most alike first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.host_loops import fastest
from gpu_consensus.ensemble.distinct import Distinct
from gpu_consensus.methods.call import Task
from gpu_consensus.util.checks import FloatArray, IntArray
from gpu_consensus.util.memory import check_memory
from gpu_consensus.util.progress import progress_bar

_COMBINE: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "average": np.add,
    "sum": np.add,
    "single": np.maximum,
    "complete": np.minimum,
}


class Merge(NamedTuple):
    """Class ``gone`` joined class ``into`` (``into < gone``) at this likeness."""

    into: int
    gone: int
    score: float


class Likeness(NamedTuple):
    """How often groups of equal objects share a label, of all pairs.

    Attributes
    ----------
    matrix : ndarray of shape (m, m)
        Of one object of each group.
    unit : float
        What stands for a co-association of 1. Without gaps and with equal weights the
        matrix holds whole counts, so that ties are exact; otherwise shares.
    """

    matrix: FloatArray
    unit: float


def likeness(
    task: Task, distinct: Distinct, bytes_per_pair: int, cure: str
) -> Likeness:
    """Return the co-association of all pairs of groups; raise if memory is too small.

    Parameters
    ----------
    task : Task
    distinct : Distinct
        Of the task.
    bytes_per_pair : int
        What the method will need in all, for each of the m^2 pairs.
    cure : str
        What to do instead, for the error.
    """
    m = len(distinct.first)
    pairs = task.pairs(distinct.first)
    check_memory(
        f"{task.method} of {m} objects with different labels",
        bytes_per_pair * m * m + pairs.block_bytes,
        task.memory_limit,
        cure,
    )
    whole = task.equal_weights and not task.ensemble.n_missing.any()
    matrix = np.empty((m, m))
    everyone = np.arange(m)
    with progress_bar(task.progress, f"{task.method}: pairs", m) as advance:
        for rows in pairs.row_blocks():
            if whole:
                matrix[rows[0] : rows[-1] + 1] = pairs.same(rows, everyone)
            else:
                matrix[rows] = pairs.tile(rows, everyone)
            advance(len(rows))
    return Likeness(matrix, float(task.ensemble.n_partitions) if whole else 1.0)


def agglomerate(
    matrix: FloatArray,
    sizes: npt.NDArray[np.floating] | IntArray,
    linkage: str,
    *,
    least: float = -np.inf,
    n_left: int = 1,
    progress: bool = False,
) -> list[Merge]:
    """Merge the two most alike classes until few enough are left.

    Of equally alike pairs the first in the order of the classes' first members is
    merged. Each class remembers its best partner, so a merge costs O(m) and, where a
    partner was lost, another O(m) at the time the class comes up: about O(m^2) in all.

    Parameters
    ----------
    matrix : ndarray of shape (m, m), float64
        Likeness of the first classes, symmetric; for "average" and "sum" added up over
        all pairs of their objects. Overwritten. The diagonal does not matter.
    sizes : ndarray of shape (m,)
        Objects in each class.
    linkage : {"average", "sum", "single", "complete"}
        Likeness of two classes: the mean, the sum, the largest or the least of those
        of their objects.
    least : float, default -inf
        Stop before a merge of less likeness.
    n_left : int, default 1
        Stop at so many classes.
    progress : bool, default False
        Draw a bar of the merges.

    Returns
    -------
    list of Merge

    Examples
    --------
    >>> import numpy as np
    >>> agglomerate(np.array([[0, 1, 5], [1, 0, 4.0], [5, 4, 0]]), np.ones(3), "single")
    [Merge(into=0, gone=2, score=5.0), Merge(into=0, gone=1, score=4.0)]
    """
    merges: list[Merge] = []
    form = fastest("merges", numpy_merges)
    whole = np.asarray(sizes, dtype=np.float64)
    with progress_bar(progress, "merge", max(len(whole) - n_left, 0)) as advance:
        for merge in form(matrix, whole, linkage, least, n_left):
            merges.append(Merge(*merge))
            advance()
    return merges


def numpy_merges(
    matrix: FloatArray, sizes: FloatArray, linkage: str, least: float, n_left: int
) -> Iterator[tuple[int, int, float]]:
    """Yield merges as they are made, the fields of :class:`Merge`.

    The arguments are those of :func:`agglomerate`.
    """
    classes = _Classes(matrix, sizes, linkage)
    while classes.n_left > n_left:
        a, b, score = classes.best_pair()
        if score < least:
            return
        yield int(classes.name[a]), int(classes.name[b]), score
        classes.merge(a, b)


def cut(merges: Sequence[Merge], n_groups: int) -> npt.NDArray[np.intp]:
    """Return the class of every group after these merges, by its first group.

    Examples
    --------
    >>> cut([Merge(1, 2, 0.5), Merge(0, 1, 0.1)], 4).tolist()
    [0, 0, 0, 3]
    """
    labels = np.arange(n_groups)
    for merge in reversed(merges):  # where a class went last is known first
        labels[merge.gone] = labels[merge.into]
    return labels


class _Classes:
    """The classes that are left, and the best partner of each.

    ``best`` is never below the true likeness of a class to its best partner; it and
    ``partner`` are exact unless ``stale``.
    """

    def __init__(self, matrix: FloatArray, sizes: FloatArray, linkage: str) -> None:
        np.fill_diagonal(matrix, -np.inf)
        self.matrix, self.sizes = matrix, sizes.copy()
        self.combine, self.linkage = _COMBINE[linkage], linkage
        self.name = np.arange(len(matrix))
        self.n_left = len(matrix)
        self.best = np.full(len(matrix), np.inf)
        self.partner = np.zeros(len(matrix), dtype=np.intp)
        self.stale = np.ones(len(matrix), dtype=bool)

    def best_pair(self) -> tuple[int, int, float]:
        """Return the most alike classes; no class before them is in as good a pair."""
        while True:
            a = int(self.best.argmax())
            if not self.stale[a]:
                return a, int(self.partner[a]), float(self.best[a])
            self._refresh(a)

    def merge(self, a: int, b: int) -> None:
        row = self.combine(self.matrix[a], self.matrix[b])
        row[[a, b]] = -np.inf
        self.matrix[a], self.matrix[:, a] = row, row
        self.matrix[:, b] = -np.inf
        self.sizes[a] += self.sizes[b]
        self.n_left -= 1
        new = self._scores(a)
        lost = (self.partner == a) | (self.partner == b)
        tied = (new == self.best) & ~self.stale & (lost | (a < self.partner))
        takes = (new > self.best) | tied
        self.stale |= lost
        self.stale[takes] = False
        self.best[takes] = new[takes]
        self.partner[takes] = a
        self.best[b], self.stale[b] = -np.inf, False
        self._refresh(a)
        if 2 * self.n_left < len(self.name) and len(self.name) > 64:
            self._compact()

    def _refresh(self, a: int) -> None:
        scores = self._scores(a)
        b = int(scores.argmax())
        self.best[a], self.partner[a], self.stale[a] = scores[b], b, False

    def _scores(self, a: int) -> FloatArray:
        if self.linkage == "average":
            means: FloatArray = self.matrix[a] / (self.sizes[a] * self.sizes)
            return means
        scores: FloatArray = self.matrix[a]
        return scores

    def _compact(self) -> None:
        """Leave out the classes that are gone."""
        keep = np.flatnonzero(self.best > -np.inf)
        place = np.zeros(len(self.name), dtype=np.intp)
        place[keep] = np.arange(len(keep))
        self.matrix = self.matrix[np.ix_(keep, keep)]
        self.sizes, self.name = self.sizes[keep], self.name[keep]
        self.best, self.stale = self.best[keep], self.stale[keep]
        self.partner = place[self.partner[keep]]  # of a fresh class: it is still there
