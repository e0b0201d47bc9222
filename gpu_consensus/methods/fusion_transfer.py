"""Fusion-Transfer: merge classes, then move objects, while the score does not fall."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.protocol import Backend
from gpu_consensus.ensemble.distinct import Distinct
from gpu_consensus.methods.agglomerate import agglomerate, cut, likeness
from gpu_consensus.methods.call import Shared, Task, open_task
from gpu_consensus.result import Consensus
from gpu_consensus.util.checks import FloatArray, check_choice, check_share
from gpu_consensus.util.progress import progress_bar


def fusion_transfer(
    ensemble: Any,
    *,
    rule: str = "average",
    threshold: float = 0.5,
    weights: Any = None,
    on_unlabelled: str = "raise",
    backend: str | Backend = "auto",
    n_jobs: int | None = None,
    memory_limit: int | None = None,
    random_state: Any = None,
    progress: bool = False,
) -> Consensus:
    """Fusion-Transfer: the median partition by merging and moving; it finds K.

    The score of a partition is the sum of s - 1/2 over the pairs it joins, s their
    co-association; a partition of highest score is a median of the ensemble under the
    symmetric difference. Fusion starts from one class per object and merges the two
    classes of largest mean s - 1/2 as long as it is at least 0 (so also where nothing
    is gained), never below 2 classes. Transfer then moves the object that gains most to
    the class where it gains most, a new one if it scores below 0 in every class, until
    no object gains. Ties go to the lowest pair, object and class; without gaps, with
    equal weights and r ``threshold`` a multiple of 1/2 they are exact, otherwise what
    is less than 1e-9 counts as 0 where a merge or a move has to gain.

    Objects with equal labels are merged first and moved together: an optimal partition
    never separates them, since the gains of moving either to the other add up to more
    than 0.

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
        The basic partitions. The co-association of two objects is their share of equal
        labels among the partitions that label both, 0 if there is none.
    rule : {"average", "sum"}, default "average"
        Which classes are merged: those of largest mean s - 1/2, as the author's program
        does, or of largest sum, the best score, as the paper has it.
    threshold : float in (0, 1), default 0.5
        In place of 1/2; a lower one gives fewer classes.
    weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
        As in :func:`kcc`; nothing is drawn here, so
        ``random_state`` has no effect. Memory of
        18 m^2 bytes, m the objects that differ in their labels, and 150 MB have to fit
        ``memory_limit``, by default what the machine has free; otherwise there is a
        MemoryError before any work.

    Returns
    -------
    Consensus
        ``value`` is the score; ``objective`` minus the score; ``history`` the objective
        after the fusion and after every transfer.

    References
    ----------
    A. Guénoche, "Consensus of partitions: a constructive approach", Advances in Data
    Analysis and Classification 5, 2011.

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    >>> result = gpc.fusion_transfer(ens)
    >>> result.labels.tolist(), round(result.value, 3)
    ([0, 0, 1, 1], 0.667)
    """
    check_choice("rule", rule, ["average", "sum"])
    threshold = check_share("threshold", threshold, open_low=True, open_high=True)
    shared = Shared(
        weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
    )
    task = open_task(
        "fusion_transfer",
        ensemble,
        None,
        shared,
        compares_pairs=True,
        finds_n_clusters=True,
    )
    distinct = task.distinct
    sizes = distinct.size.astype(np.float64)
    # in the end up to m classes with what every object gains there, copied to grow
    similarity = likeness(task, distinct, 18, "use kcc or sec, which need no matrix")
    matrix, unit = similarity.matrix, similarity.unit
    matrix -= threshold * unit
    matrix *= sizes
    matrix *= sizes[:, None]
    inside = (1.0 - threshold) * float((sizes * (sizes - 1)).sum()) / 2
    # sums of halves are exact; elsewhere rounding must look like neither gain nor loss
    is_exact = unit > 1.0 and (2 * threshold * unit).is_integer()
    slack = 0.0 if is_exact else 1e-9
    merges = agglomerate(
        matrix, sizes, rule, least=-slack, n_left=2, progress=task.progress
    )
    classes = cut(merges, len(sizes))
    del matrix, similarity  # transfers read single columns of it, which are made anew
    transfer = _Transfer(task, distinct, classes, threshold, unit, slack)
    scores = [transfer.score]
    with progress_bar(task.progress, "transfer", None) as advance:
        while transfer.step():
            scores.append(transfer.score)
            advance()
    history = [-(inside + score / unit) for score in scores]
    return task.result(
        transfer.own[distinct.group],
        objective=history[-1],
        value=-history[-1],
        history=history,
    )


class _Transfer:
    """Classes of groups of equal objects, and what each group scores in each class.

    ``gain[g, c]`` is the sum of s - threshold over the pairs of group g with the other
    groups of class c, times ``unit``. Column ``new`` stands for a class that does not
    exist yet; columns beyond it, and of classes that lost all groups, hold -inf.
    """

    def __init__(
        self,
        task: Task,
        distinct: Distinct,
        classes: npt.NDArray[np.intp],
        threshold: float,
        unit: float,
        slack: float,
    ) -> None:
        self.pairs = task.pairs(distinct.first)
        self.sizes = distinct.size.astype(np.float64)
        self.threshold, self.unit, self.slack = threshold, unit, slack
        _, self.own = np.unique(classes, return_inverse=True)
        self.members = np.bincount(self.own)
        n_groups, n_classes = len(self.own), len(self.members)
        self.gain = np.empty((n_groups, 0))
        self._widen(n_classes + 1)
        order = np.argsort(self.own, kind="stable")
        begins = np.searchsorted(self.own[order], np.arange(n_classes))
        for rows in self.pairs.row_blocks():
            block = self._worth(rows, np.arange(n_groups))[:, order]
            self.gain[rows, :n_classes] = np.add.reduceat(block, begins, axis=1)
        self.new = n_classes
        self.gain[:, self.new] = 0.0
        self.score = float(self._at_own().sum()) / 2
        self.best = np.empty(n_groups)
        self.where = np.empty(n_groups, dtype=np.intp)
        for rows in self.pairs.row_blocks():
            self._look(rows)

    def step(self) -> bool:
        """Move the group that gains most, or say that none gains."""
        gains = self.best - self._at_own()
        g = int(gains.argmax())
        if gains[g] <= self.slack:
            return False
        before, after = int(self.own[g]), int(self.where[g])
        self.score += float(gains[g])
        if after == self.new:
            self._add_class()
        again = (self.where == before) | (self.where == after)
        worth = self._worth(np.arange(len(self.own)), np.array([g]))[:, 0]
        self.gain[:, before] -= worth
        self.gain[:, after] += worth
        self.own[g] = after
        self.members[before] -= 1
        self.members[after] += 1
        if self.members[before] == 0:
            self.gain[:, before] = -np.inf
        again[g] = True
        self._look(np.flatnonzero(again))
        self._compare(~again, before, after)
        return True

    def _add_class(self) -> None:
        """Turn the new class into one of the others, and add another new one."""
        self.new += 1
        self.members = np.append(self.members, 0)
        if self.new == self.gain.shape[1]:
            self._widen(self.new + 1)
        self.gain[:, self.new] = 0.0

    def _widen(self, n_columns: int) -> None:
        """Make room for so many classes, and some more."""
        wider = np.full((len(self.own), n_columns + n_columns // 8 + 8), -np.inf)
        wider[:, : self.gain.shape[1]] = self.gain
        self.gain = wider

    def _worth(
        self, rows: npt.NDArray[np.intp], columns: npt.NDArray[np.intp]
    ) -> FloatArray:
        """Return the sum of s - threshold of groups with others, 0 with themselves."""
        if self.unit > 1.0:
            tile = self.pairs.weighted(rows, columns)[0]
        else:
            tile = self.pairs.tile(rows, columns)
        tile -= self.threshold * self.unit
        tile *= self.sizes[rows, None]
        tile *= self.sizes[columns]
        tile[rows[:, None] == columns] = 0.0
        return tile

    def _at_own(self) -> FloatArray:
        return np.take_along_axis(self.gain, self.own[:, None], axis=1)[:, 0]

    def _look(self, rows: npt.NDArray[np.intp]) -> None:
        """Find the best other class of these groups, the first of equals."""
        gain = self.gain[rows]
        gain[np.arange(len(rows)), self.own[rows]] = -np.inf
        where = gain.argmax(axis=1)
        self.where[rows] = where
        self.best[rows] = gain[np.arange(len(rows)), where]

    def _compare(self, known: npt.NDArray[np.bool_], *classes: int) -> None:
        """Let the groups whose best class is as it was look at these classes."""
        for c in classes:
            gain = self.gain[:, c]
            first = (gain == self.best) & (c < self.where)
            takes = known & (self.own != c) & ((gain > self.best) | first)
            self.best[takes] = gain[takes]
            self.where[takes] = c
