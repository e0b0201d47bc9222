"""Furthest consensus: centres far from one another, every object to the nearest."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.protocol import Backend
from gpu_consensus.ensemble.distinct import Distinct
from gpu_consensus.loop.pairs import Pairs
from gpu_consensus.methods.call import Shared, Task, open_task
from gpu_consensus.methods.disagreement import Agreement, pair_agreement
from gpu_consensus.result import Consensus
from gpu_consensus.util.checks import FloatArray
from gpu_consensus.util.progress import progress_bar

EXACT_ROWS = 10_000


def furthest(
    ensemble: Any,
    n_clusters: int | None = None,
    *,
    weights: Any = None,
    on_unlabelled: str = "raise",
    backend: str | Backend = "auto",
    n_jobs: int | None = None,
    memory_limit: int | None = None,
    random_state: Any = None,
    progress: bool = False,
) -> Consensus:
    """Furthest consensus (FC).

    The distance of two objects is 1 minus their co-association. The first two centres
    are the objects furthest from each other, each next one is the object furthest from
    its nearest centre, and every object goes to its nearest centre. Ties go to the
    lowest object, then to the centre found first. There is no n x n matrix: after the
    first pair, the cost is O(n K r).

    The first pair is the furthest of all pairs, found tile by tile, as long as at most
    10,000 objects differ in their labels. Beyond that, two sweeps find it: from the
    object of least total co-association to the one furthest from it, and from there to
    the one furthest away.

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
        The basic partitions. The co-association of two objects counts the partitions
        that label both; objects that no partition labels both of are at distance 1.
    n_clusters : int, optional
        Clusters of the consensus. Without it, centres are added until the objective no
        longer falls.
    weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
        As in :func:`kcc`; nothing is drawn here, so
        ``random_state`` has no effect.

    Returns
    -------
    Consensus
        ``objective`` is the cost of correlation clustering: the number of pairs that
        are together here and apart in a partition, or the other way round, averaged
        over the partitions by weight; ``value`` the share of pairs that agree.
        ``history`` has the objectives of 1, 2, ... clusters where their number is
        sought.
        ``details["centres"]``: the centre of each cluster, as an object.

    References
    ----------
    A. Gionis, H. Mannila, P. Tsaparas, "Clustering aggregation", ICDE 2005 (FURTHEST);
    N. Nguyen, R. Caruana, "Consensus clusterings", ICDM 2007, section 3.1 (FC: the
    number of clusters given).

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    >>> result = gpc.furthest(ens, 2)
    >>> result.labels.tolist(), result.details["centres"].tolist()
    ([0, 0, 1, 1], [0, 3])
    """
    shared = Shared(
        weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
    )
    task = open_task(
        "furthest",
        ensemble,
        n_clusters,
        shared,
        compares_pairs=True,
        finds_n_clusters=True,
    )
    # equal objects are equally far from everything: only the first can be a centre
    distinct = task.distinct
    pairs = task.pairs(distinct.first)
    least = 1 if n_clusters is None else task.k
    most = pairs.n_samples if n_clusters is None else task.k

    def agree(rows: npt.NDArray[np.intp], k: int) -> Agreement:
        return pair_agreement(task, rows[distinct.group], k)

    nearest = np.zeros(pairs.n_samples, dtype=np.intp)
    agreement, centres = agree(nearest, 1), [0]
    history = [agreement.objective]
    if most > 1:
        distance = np.full(pairs.n_samples, np.inf)
        outlier = functools.partial(_outlier, task, distinct)
        start = _furthest_pair(pairs, outlier, task.progress)
        chosen: list[int] = []
        labels = nearest.copy()
        while len(chosen) < most:
            # a chosen centre is at distance -1, so that it is not chosen again
            c = start[len(chosen)] if len(chosen) < 2 else int(distance.argmax())
            away = _distances(pairs, c)
            labels[away < distance] = len(chosen)
            distance = np.minimum(distance, away)
            labels[c], distance[c] = len(chosen), -1.0
            chosen.append(c)
            if len(chosen) < max(2, least):
                continue
            now = agree(labels, len(chosen))
            history.append(now.objective)
            if n_clusters is None and now.objective >= agreement.objective:
                break
            agreement, nearest, centres = now, labels.copy(), list(chosen)
    objects = task.labelled
    return task.result(
        nearest[distinct.group],
        objective=agreement.objective,
        value=agreement.value,
        history=history if n_clusters is None else (),
        details={"centres": objects[distinct.first[centres]]},
    )


def _distances(pairs: Pairs, c: int) -> FloatArray:
    """Return the distance of every object to object ``c``."""
    column = np.array([c])
    blocks = [1.0 - pairs.tile(rows, column)[:, 0] for rows in pairs.row_blocks(1)]
    return np.concatenate(blocks)


def _outlier(task: Task, distinct: Distinct) -> int:
    """Return the group whose labels are rarest on average, the first of equals."""
    ens = task.ensemble
    total, weight = np.zeros(len(distinct.first)), np.zeros(len(distinct.first))
    for i, line in enumerate(task.codes[:, distinct.first]):
        carried = ens.marginals[ens.offsets[i] : ens.offsets[i + 1] - 1]
        share = task.weights[i] * np.append(carried / carried.sum(), 0.0)
        total += share[line]
        weight += task.weights[i] * (line < ens.n_labels[i])
    return int((total / weight).argmin())


def _furthest_pair(
    pairs: Pairs, start: Callable[[], int], progress: bool
) -> tuple[int, int]:
    """Return two objects at the largest distance, the first such pair if exact."""
    n = pairs.n_samples
    if n > EXACT_ROWS:
        a = int(_distances(pairs, start()).argmax())
        away = _distances(pairs, a)
        away[a] = -1.0
        b = int(away.argmax())
        return min(a, b), max(a, b)
    best, pair = -1.0, (0, 1)
    with progress_bar(progress, "furthest: pairs", n) as advance:
        for rows in pairs.row_blocks():
            tile = 1.0 - pairs.tile(rows, np.arange(rows[0], n))
            tile[np.tril_indices(len(rows), 0, tile.shape[1])] = -1.0
            l, m = divmod(int(tile.argmax()), tile.shape[1])
            if tile[l, m] > best:
                best, pair = float(tile[l, m]), (int(rows[l]), int(rows[0]) + m)
            advance(len(rows))
            if best >= 1.0:  # no pair is further
                break
    return pair
