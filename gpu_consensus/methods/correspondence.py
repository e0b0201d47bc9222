"""Cluster correspondence: cluster the clusters of all partitions, then vote."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.protocol import Backend, Codes
from gpu_consensus.backends.segments import as_table
from gpu_consensus.generate.kmeans import kmeans
from gpu_consensus.graphs.eigenvectors import iterate_eigenvectors
from gpu_consensus.loop.code_blocks import CodeBlocks
from gpu_consensus.loop.count_by_cluster import count_many_by_cluster
from gpu_consensus.methods.alignment import match
from gpu_consensus.methods.call import Shared, Task, open_task
from gpu_consensus.result import Consensus
from gpu_consensus.util.checks import (
    FloatArray,
    IntArray,
    check_choice,
    check_count,
    check_int,
)
from gpu_consensus.util.memory import check_memory
from gpu_consensus.util.progress import progress_bar
from gpu_consensus.util.threads import one_thread
from gpu_consensus.util.weights import vote_weights

_DENSE = 1500  # labels up to which all eigenvectors are found at once


def correspondence(
    ensemble: Any,
    n_clusters: int,
    variant: str = "constrained",
    *,
    n_init: int = 10,
    max_iter: int = 100,
    weights: Any = None,
    on_unlabelled: str = "raise",
    backend: str | Backend = "auto",
    n_jobs: int | None = None,
    memory_limit: int | None = None,
    random_state: Any = None,
    progress: bool = False,
) -> Consensus:
    """Cluster correspondence by search (CCC, CCU) or by singular vectors (CCSVD).

    The clusters of all partitions are gathered into ``n_clusters`` meta-clusters. A
    cluster's place in a meta-cluster is worth its mean number of objects in common with
    the members, itself included. "constrained": every partition solves an assignment
    problem, so that it gives at most one cluster to a meta-cluster; clusters left over,
    where it has more than ``n_clusters``, go where they are worth most. Without the
    constraint each cluster goes where it is worth most. That is repeated until nothing
    changes; the best of ``n_init`` starts counts. Then every object takes the
    meta-cluster that holds most of its labels, the first of equals. "svd" projects the
    objects' one-hot labels on the ``n_clusters`` leading right singular vectors and
    clusters them there by k-means.

    From the source: clusters matched by a constrained or an unconstrained search over a
    linear programme or by singular value decomposition, and the vote. Ours, because
    only its abstract could be read: the worth of a place, the treatment of unequal
    numbers of clusters, the starts (the clusters of a partition drawn among those with
    at least ``n_clusters`` labels, or with most; its largest clusters found the
    meta-clusters and all others join by overlap), the rule that ends the search, and
    k-means as the last step of "svd".

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
        The basic partitions; missing labels have no vote.
    n_clusters : int
        Clusters of the consensus; fewer may win votes, which a warning says.
    variant : {"constrained", "unconstrained", "svd"}, default "constrained"
        CCC, CCU, CCSVD.
    n_init : int, default 10
        Starts, of k-means for "svd".
    max_iter : int, default 100
        Rounds of the search at most.
    weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
        As in :func:`kcc`. A matrix of 24 S^2 bytes, S the sum of the numbers of
        labels, has to fit ``memory_limit``, by default what the machine has free;
        otherwise there is a MemoryError before any work.

    Returns
    -------
    Consensus
        ``value`` is the worth of all places by weight, as a share of its bound (1 only
        if the meta-clusters' members are equal), for "svd" the share of the projected
        objects' squared length that their centroids explain; ``objective`` is what is
        missing, in objects, for "svd" the squared distance to the centroids.
        ``details["meta"]``: for each partition the meta-cluster of each label (-1 in
        partitions without weight), not for "svd".

    References
    ----------
    C. Boulis, M. Ostendorf, "Combining multiple clustering systems", PKDD 2004.

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    >>> result = gpc.correspondence(ens, 2)
    >>> result.labels.tolist(), [part.tolist() for part in result.details["meta"]]
    ([0, 0, 1, 1], [[0, 1], [1, 0], [0, 1]])
    """
    check_choice("variant", variant, ["constrained", "unconstrained", "svd"])
    n_init = check_count("n_init", n_init, 1)
    max_iter = check_int("max_iter", max_iter, 1)
    method = {"constrained": "ccc", "unconstrained": "ccu", "svd": "ccsvd"}[variant]
    shared = Shared(
        weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
    )
    task = open_task(f"correspondence:{method}", ensemble, n_clusters, shared)
    labels = Labels(task)
    if variant == "svd":
        return _svd(task, labels, n_init)
    rng = task.rng()
    starts = _starts(task, rng, n_init)
    best: _Search | None = None
    with progress_bar(task.progress, "correspondence", len(starts)) as advance:
        for i in starts:
            search = _Search(task, labels, variant == "constrained")
            search.run(int(i), max_iter)
            if best is None or search.worth > best.worth:
                best = search
            advance()
    assert best is not None
    total = labels.total
    return task.result(
        _vote(task, labels, best.meta),
        objective=total - best.worth,
        value=best.worth / total,
        history=[total - worth for worth in best.history],
        converged=best.converged,
        details={"meta": _meta_by_partition(task, labels, best.meta)},
    )


class Labels:
    """All labels of an ensemble, and how many objects any two have in common.

    Attributes
    ----------
    common : ndarray of shape (S, S)
        Objects that carry both labels; whole numbers.
    partition : ndarray of shape (S,)
    weight : ndarray of shape (S,)
        Of the label's partition.
    size : ndarray of shape (S,)
    total : float
        Labels in the ensemble by weight, in objects.
    is_whole : bool
        Whether the weights are whole numbers: all 1.
    """

    def __init__(self, task: Task) -> None:
        n_labels = task.ensemble.n_labels
        n_all = int(n_labels.sum())
        check_memory(
            f"{task.method} of {n_all} labels",
            24 * n_all * n_all,
            task.memory_limit,
            "use kcc, which needs no matrix",
        )
        self.common = _common(task).astype(np.float64)
        self.partition = np.repeat(np.arange(len(n_labels)), n_labels)
        weights = vote_weights(task.weights)
        self.weight = weights[self.partition]
        self.size = np.diag(self.common).copy()
        self.scale = float(weights.sum())
        self.is_whole = task.equal_weights
        self.total = float(self.weight @ self.size) / self.scale

    def of(self, i: int) -> npt.NDArray[np.intp]:
        """Return the labels of partition ``i``."""
        return np.flatnonzero(self.partition == i)


def _blocks(task: Task, n_columns: int) -> Iterator[Codes]:
    """Yield the codes of one range of objects after another."""
    ens = task.ensemble
    blocks = CodeBlocks(task.backend, ens.codes, ens.offsets, task.memory_limit)
    for _, codes in blocks.blocks(n_columns):
        yield codes


def _common(task: Task) -> IntArray:
    """Count the objects that carry two labels, for all pairs: (S, S)."""
    ens, codes = task.ensemble, task.codes
    k = int(ens.n_labels.max())
    real = np.ones(int(ens.offsets[-1]), dtype=bool)
    real[ens.offsets[1:] - 1] = False
    first = np.concatenate([[0], np.cumsum(ens.n_labels)])
    common = np.empty((int(first[-1]), int(first[-1])), dtype=np.int64)
    # every partition is a labelling; its missing labels are clusters that nobody reads
    for some, counts in count_many_by_cluster(
        task.backend, ens.codes, ens.offsets, codes, k, task.memory_limit
    ):
        for q, i in enumerate(range(some.start, some.stop)):
            common[:, first[i] : first[i + 1]] = counts[real, q, : ens.n_labels[i]]
    return common


def _starts(task: Task, rng: np.random.Generator, n_init: int) -> npt.NDArray[np.intp]:
    """Draw the partitions to start from, each at most once."""
    n_labels = task.ensemble.n_labels
    usable = np.flatnonzero(n_labels >= min(task.k, int(n_labels.max())))
    if len(usable) > n_init:
        usable = np.sort(rng.choice(usable, n_init, replace=False))
    return usable


class _State(NamedTuple):
    meta: npt.NDArray[np.intp]
    mean: FloatArray  # objects in common with each meta-cluster's members, (S, k)
    worth: float


class _Search:
    """One search for meta-clusters: ``meta`` (S,) says where every label is."""

    def __init__(self, task: Task, labels: Labels, is_constrained: bool) -> None:
        self.labels, self.k = labels, task.k
        self.parts = [labels.of(i) for i in range(task.ensemble.n_partitions)]
        self.is_constrained = is_constrained
        self.history: list[float] = []
        self.converged = False

    def run(self, start: int, max_iter: int) -> None:
        """Search from the clusters of one partition; keep the best state seen."""
        meta = self._seed(start)
        if self.is_constrained:  # the seed is not: labels follow the founders they like
            meta = self._place(self._mean_common(meta))
        state = self._state(meta)
        best, seen = state, {state.meta.tobytes()}
        self.history.append(state.worth)
        for _ in range(max_iter):
            state = self._state(self._place(state.mean))
            if state.meta.tobytes() in seen:
                self.converged = True
                break
            seen.add(state.meta.tobytes())
            best = max(best, state, key=lambda s: s.worth)
            self.history.append(best.worth)
        self.meta, self.worth = best.meta, best.worth

    def _seed(self, start: int) -> npt.NDArray[np.intp]:
        own = self.parts[start]
        size = self.labels.size[own]
        founders = own[np.argsort(-size, kind="stable")[: self.k]]
        founders = np.sort(founders)
        common = np.zeros((len(self.labels.size), self.k))
        common[:, : len(founders)] = self.labels.common[:, founders]
        meta = np.asarray(common.argmax(axis=1))
        meta[founders] = np.arange(len(founders))
        return meta

    def _mean_common(self, meta: npt.NDArray[np.intp]) -> FloatArray:
        member = np.zeros((len(meta), self.k))
        member[np.arange(len(meta)), meta] = self.labels.weight
        weight = member.sum(axis=0)
        # whole numbers add up to the same in any order, so on any number of threads
        with nullcontext() if self.labels.is_whole else one_thread():
            sums: FloatArray = self.labels.common @ member
        sums[:, weight > 0] /= weight[weight > 0]
        return sums

    def _place(self, worth: FloatArray) -> npt.NDArray[np.intp]:
        """Put every label where it is worth most."""
        if not self.is_constrained:
            return np.asarray(worth.argmax(axis=1))
        meta = np.empty(len(worth), dtype=np.intp)
        for own in self.parts:
            columns = match(worth[own])
            left_over = columns >= self.k
            columns[left_over] = worth[own[left_over]].argmax(axis=1)
            meta[own] = columns
        return meta

    def _state(self, meta: npt.NDArray[np.intp]) -> _State:
        mean = self._mean_common(meta)
        own = mean[np.arange(len(meta)), meta]
        worth = float(self.labels.weight @ own) / self.labels.scale
        return _State(meta, mean, worth)


def _vote(
    task: Task, labels: Labels, meta: npt.NDArray[np.intp]
) -> npt.NDArray[np.intp]:
    """Put every object where most of its labels are."""
    ens, backend = task.ensemble, task.backend
    table = np.zeros((int(ens.offsets[-1]), 1, task.k), dtype=np.float32)
    row = np.arange(len(meta)) + labels.partition  # one row for missing per partition
    table[row, 0, meta] = as_table(-labels.weight)
    there = backend.to_device(table)
    votes = [
        backend.to_host(backend.assign(codes, ens.offsets, there).assignment)[0]
        for codes in _blocks(task, 1)
    ]
    return np.concatenate(votes).astype(np.intp)


def _meta_by_partition(
    task: Task, labels: Labels, meta: npt.NDArray[np.intp]
) -> list[npt.NDArray[np.intp]]:
    """Return the meta-clusters of the labels of the ensemble as it was given."""
    given = task.given
    by_partition = [np.full(k_i, -1, dtype=np.intp) for k_i in given.n_labels]
    for row, i in enumerate(task.useful):
        # objects that were left out carry no label there, so no label is gone
        by_partition[i] = meta[labels.of(row)]
    return by_partition


def _svd(task: Task, labels: Labels, n_init: int) -> Consensus:
    """Cluster the objects along the leading right singular vectors of their labels."""
    ens, backend = task.ensemble, task.backend
    scale = np.sqrt(labels.weight / labels.scale)
    with one_thread():
        vectors = _leading(labels.common * scale * scale[:, None], task.k)
        # objects: the sum of the rows of their labels
        table = np.zeros((int(ens.offsets[-1]), 1, vectors.shape[1]))
        row = np.arange(len(scale)) + labels.partition
        table[row, 0] = vectors * scale[:, None]
    there = backend.to_device(table)
    sums = [
        backend.to_host(backend.scores(codes, ens.offsets, there))[:, 0]
        for codes in _blocks(task, table.shape[2])
    ]
    points = np.concatenate(sums)
    seeds = task.rng().integers(2**31, size=n_init)
    best: tuple[float, Any] = (np.inf, None)
    for seed in seeds:
        clusters, centroids = kmeans(points, task.k, int(seed))
        error = float(np.square(points - centroids[clusters]).sum())
        if error < best[0]:
            best = (error, clusters)
    length = float(np.square(points).sum())
    return task.result(
        best[1], objective=best[0], value=1.0 - best[0] / length if length else 1.0
    )


def _leading(gram: FloatArray, k: int) -> FloatArray:
    """Return the eigenvectors of the largest k eigenvalues, (S, k)."""
    from scipy.linalg import eigh

    n = len(gram)
    k = min(k, n)
    if n <= _DENSE or 2 * k >= n:
        return np.asarray(eigh(gram, subset_by_index=(n - k, n - 1))[1])
    return iterate_eigenvectors(gram.__matmul__, n, k, np.ones(n))[1]
