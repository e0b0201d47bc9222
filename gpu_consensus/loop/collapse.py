"""Objects with equal labels are scored once, and counted as often as they appear.

Equal rows of labels have equal scores, so after every assignment they share a cluster.
Only then: seeds, labels to begin with, and objects that fill an empty cluster may tell
them apart, which the next assignment mends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.protocol import Assignment, Counts, Groups, Table
from gpu_consensus.loop.lazy import BYTES, Laziness, fits, pays

if TYPE_CHECKING:
    from gpu_consensus.loop.problem import Problem, Rule

_SHARE = 4  # objects for each distinct row, from which it pays
_SMALL = 1 << 16  # labels
_FEW = 16  # columns of a table, below which to look for equal rows takes too long


class Collapsed(Laziness):
    """Laziness over the distinct rows of labels.

    Parameters
    ----------
    problem : Problem
    rule : Rule
    n_restarts : int
    groups : Groups
        Which objects have equal labels.
    lazy : bool
        Whether to leave out rows that cannot move.
    """

    def __init__(
        self,
        problem: Problem,
        rule: Rule,
        n_restarts: int,
        groups: Groups,
        lazy: bool,
    ) -> None:
        weight = rule.row_weight
        super().__init__(
            problem,
            groups.codes,
            None if weight is None else weight[groups.first],
            np.unique(groups.place[problem.skip]),
            n_restarts,
            lazy,
        )
        self.groups = groups
        self.kept: Assignment | None = None
        self.fresh = set(range(n_restarts))
        self.apart: dict[int, list[int]] = {}

    def step(
        self,
        active: list[int],
        assignment: Assignment,
        counts: Counts,
        table: Table,
        row_table: Table | None,
    ) -> npt.NDArray[np.int64]:
        """See :class:`Laziness`."""
        n_clusters = self.problem.n_clusters
        if self.kept is None:
            shape = self.gap.shape
            self.kept = np.full(shape, n_clusters, dtype=assignment.dtype)
        before = self.kept[active]
        mixed = []
        for a, q in enumerate(active):
            if q in self.fresh:
                counts[:, a] = 0
                mixed.append(a)
            elif q in self.apart:
                for l in self.apart.pop(q):
                    self._put_back(l, assignment[q], before[a], counts[:, a])
                mixed.append(a)
        after = self.assign(active, before, table, row_table)
        moved: npt.NDArray[np.int64] = self.backend.recount_groups(
            self.groups, self.problem.offsets, before, after, counts
        )
        for a in mixed:
            whole = after[a][self.groups.place]
            moved[a] = (assignment[active[a]] != whole).sum()
        changed = np.flatnonzero(moved)
        restarts = np.asarray(active, dtype=np.int64)[changed]
        self.backend.spread(self.groups, after[changed], restarts, assignment)
        self.kept[active] = after
        self.fresh.difference_update(active)
        self.note(active, moved)
        return moved

    def forget(self, q: int, l: int) -> None:
        """Note that object l of restart q is apart from its equals, till it returns.

        The gap is that of its row, which did not move.
        """
        self.apart.setdefault(q, []).append(l)

    def _put_back(self, l: int, assignment: Any, before: Any, counts: Any) -> None:
        """Count an object in the cluster of its equals again."""
        group = self.groups.place[l]
        rows = self.problem.offsets[:-1] + self.codes[:, group]
        counts[rows, assignment[l]] -= 1
        counts[rows, before[group]] += 1


def find_groups(problem: Problem, n_restarts: int) -> Groups | None:
    """Return which objects have equal labels, or None where that gains nothing."""
    n_partitions, n_samples = problem.codes.shape
    columns = n_restarts * problem.n_clusters
    backend: Any = problem.backend
    if (
        not hasattr(backend, "groups")
        or problem.codes.size < _SMALL
        or columns < _FEW
        or n_samples >= 2**31
    ):
        return None
    most = n_samples // _SHARE
    row = n_partitions * problem.codes.itemsize + BYTES * n_restarts
    if not fits(problem, 4 * n_samples + (row + 32) * most):
        return None
    found: Groups | None = backend.groups(problem.codes, most)
    return found


def collapse(
    problem: Problem, rule: Rule, n_restarts: int, lazy: bool
) -> Collapsed | None:
    """Return the distinct rows to work on; None if there are not few of them."""
    groups, weight = problem.groups, rule.row_weight
    if groups is None:
        return None
    if weight is not None and (weight != weight[groups.first][groups.place]).any():
        return None
    lazy = lazy and pays(problem, groups.codes)
    return Collapsed(problem, rule, n_restarts, groups, lazy)


def count_groups(problem: Problem, groups: Groups, assignment: Assignment) -> Counts:
    """Count an assignment (R, n) by its rows, then the objects apart from theirs."""
    backend: Any = problem.backend
    shape = (int(problem.offsets[-1]), len(assignment), problem.n_clusters)
    counts = np.zeros(shape, dtype=np.int64)
    found = np.ascontiguousarray(assignment[:, groups.first])
    nowhere = np.full_like(found, problem.n_clusters)
    backend.recount_groups(groups, problem.offsets, nowhere, found, counts)
    whole = np.empty_like(assignment)
    backend.spread(groups, found, np.arange(len(found)), whole)
    backend.recount(problem.held, problem.offsets, whole, assignment, counts)
    return counts
