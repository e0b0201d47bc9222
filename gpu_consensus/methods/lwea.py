"""Locally weighted evidence accumulation (LWEA)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.protocol import Backend
from gpu_consensus.methods.agglomerate import agglomerate, cut
from gpu_consensus.methods.call import Shared, Task, open_task
from gpu_consensus.methods.disagreement import pair_agreement
from gpu_consensus.methods.label_contingency import LabelContingency
from gpu_consensus.methods.label_graph import object_sums
from gpu_consensus.methods.label_weights import label_eci
from gpu_consensus.result import Consensus
from gpu_consensus.util.checks import FloatArray, check_int, check_positive
from gpu_consensus.util.memory import check_memory
from gpu_consensus.util.progress import progress_bar

_PAIR_BYTES = 10  # of two objects: a matrix, and a quarter of it while it shrinks
_TABLE = 1 << 21  # numbers of a table of some objects' labels
_COLUMNS = 256  # objects that all are compared with at a time


def lwea(
    ensemble: Any,
    n_clusters: int,
    theta: float = 0.4,
    *,
    label_objects: int = 100_000,
    weights: Any = None,
    on_unlabelled: str = "raise",
    backend: str | Backend = "auto",
    n_jobs: int | None = None,
    memory_limit: int | None = None,
    random_state: Any = None,
    progress: bool = False,
) -> Consensus:
    """Locally weighted evidence accumulation.

    Average linkage, as in :func:`hac`, on a co-association in which a shared label
    counts as much as it can be trusted: ECI = exp(-E / theta), E the mean over the
    partitions of the entropy of the label's objects there. Objects with equal labels
    start as one cluster: none is more like them than they are like each other.

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
        The basic partitions. The likeness of two objects is the mean over the
        partitions that label both of the ECI of the label they share, 0 where they
        share none.
    n_clusters : int
        Clusters of the consensus.
    theta : float, default 0.4
        How slowly trust falls with entropy, in bits; positive.
    label_objects : int, default 100_000
        Objects that labels are compared by; where there are more, so many are drawn by
        ``random_state``.
    weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
        As in :func:`kcc`. A matrix of 10 m^2 bytes, m the objects that differ in their
        labels, has to fit ``memory_limit``, by default what the machine has free;
        otherwise there is a MemoryError before any work. :func:`lwgp` needs none.

    Returns
    -------
    Consensus
        ``objective`` is the cost of correlation clustering, as in :func:`furthest`;
        ``value`` the share of pairs that agree. ``details`` has ``heights``: 1 minus
        the likeness of each merge, up to a single cluster, of which the last
        ``n_clusters - 1`` were not made; ``eci``: for each partition that of each label
        in use (None for partitions that do not count); and ``label_objects``, how many
        objects were looked at.

    References
    ----------
    D. Huang, C.-D. Wang, J.-H. Lai, "Locally weighted ensemble clustering", IEEE
    Transactions on Cybernetics 48(5), 2018.

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    >>> result = gpc.lwea(ens, 2)
    >>> result.labels.tolist(), result.details["heights"].round(2).tolist()
    ([0, 0, 1, 1], [0.71, 0.96])
    """
    theta = check_positive("theta", theta)
    label_objects = check_int("label_objects", label_objects, 1)
    shared = Shared(
        weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
    )
    task = open_task("lwea", ensemble, n_clusters, shared, compares_pairs=True)
    check_size(task)
    return link_by_labels(task, task.label_contingency(label_objects), theta)


def check_size(task: Task) -> None:
    """Raise a MemoryError if the matrix of pairs would not fit."""
    m = len(task.distinct.first)
    check_memory(
        f"lwea of {m} objects with different labels",
        _PAIR_BYTES * m * m + 16 * _COLUMNS * m,
        task.memory_limit,
        "use lwgp, which needs no matrix",
    )


def link_by_labels(task: Task, labels: LabelContingency, theta: float) -> Consensus:
    """Return the consensus by average linkage, labels trusted by their entropy.

    Parameters
    ----------
    task : Task
    labels : LabelContingency
        Of the task's ensemble.
    theta : float
        As in :func:`lwea`.
    """
    distinct = task.distinct
    m = len(distinct.first)
    eci = label_eci(labels, task.weights, theta)
    matrix = locally_weighted(task, labels, eci, distinct.first)
    sizes = distinct.size.astype(np.float64)
    matrix *= sizes
    matrix *= sizes[:, None]
    merges = agglomerate(matrix, sizes, "average", progress=task.progress)
    _, clusters = np.unique(cut(merges[: m - task.k], m), return_inverse=True)
    clusters = clusters[distinct.group]
    agreement = pair_agreement(task, clusters, task.k)
    return task.result(
        clusters,
        objective=agreement.objective,
        value=agreement.value,
        details={
            "heights": 1.0 - np.array([merge.score for merge in merges]),
            "eci": task.by_given_partition(labels.by_partition(eci)),
            "label_objects": labels.n_objects,
        },
    )


def locally_weighted(
    task: Task,
    labels: LabelContingency,
    eci: FloatArray,
    objects: npt.NDArray[np.intp],
) -> FloatArray:
    """Return the locally weighted co-association of some objects, (m, m).

    Some objects at a time have a column each in a table: what a label adds to the
    likeness to them. Sums over the labels of all objects then are the likeness.
    """
    codes = np.ascontiguousarray(task.codes[:, objects])
    missing = bool(task.ensemble.n_missing.any())
    n_labels, begins = labels.n_labels[:, None], labels.begins[:-1, None]
    weight = task.weights[labels.partition]
    m = len(objects)
    matrix = np.empty((m, m))
    step = max(1, min(_COLUMNS, _TABLE // len(weight)))
    with progress_bar(task.progress, "lwea: pairs", m) as advance:
        for begin in range(0, m, step):
            some = slice(begin, min(begin + step, m))
            own = codes[:, some].astype(np.intp)
            i, column = np.nonzero(own < n_labels)
            label = (own + begins)[i, column]
            shared = np.zeros((len(weight), own.shape[1]))
            shared[label, column] = weight[label] * eci[label]
            sums = np.concatenate([*object_sums(task, labels, shared, codes)])
            if missing:  # divided by the weight of the partitions that label both
                known = (own < n_labels) * task.weights[:, None]
                both = np.repeat(known, labels.n_labels, axis=0)
                total = np.concatenate([*object_sums(task, labels, both, codes)])
                sums = np.divide(sums, total, out=np.zeros(sums.shape), where=total > 0)
            matrix[:, some] = sums
            advance(own.shape[1])
    return matrix
