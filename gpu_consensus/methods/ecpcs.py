"""Propagation of the similarities of clusters, and meta-clusters of them (ECPCS)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.protocol import Backend
from gpu_consensus.graphs.kinds import unit_rows
from gpu_consensus.graphs.spectral import fit_kmeans
from gpu_consensus.methods.call import Shared, Task, open_task
from gpu_consensus.methods.label_contingency import LabelContingency
from gpu_consensus.methods.label_graph import leading_vectors, object_sums
from gpu_consensus.methods.label_links import label_jaccard
from gpu_consensus.result import Consensus
from gpu_consensus.util.checks import FloatArray, check_count, check_int
from gpu_consensus.util.memory import check_memory
from gpu_consensus.util.threads import one_thread
from gpu_consensus.util.weights import vote_weights

MOST_STEPS = 10_000
"""Of a walk: what is left of it after so many is less than rounding."""

_PAIR_BYTES = 64  # of two labels: eight matrices while walks are compared


def ecpcs(
    ensemble: Any,
    n_clusters: int,
    steps: int = 20,
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
    """Enhanced ensemble clustering by propagation of cluster-wise similarities.

    The labels of all partitions are the vertices of a graph, tied by their Jaccard
    similarity. Two labels are as alike as the random walks that begin there: the cosine
    of where they are after 1, 2, ..., ``steps`` steps, side by side. That graph is cut
    into ``n_clusters`` meta-clusters by its leading eigenvectors and k-means, and every
    object goes to the meta-cluster whose labels it carries most often on average
    (ECPCS-MC); ties go to the one with more of its labels, then to the first.

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
        The basic partitions; a missing label is no label. A label that shares no
        object with another is like itself alone.
    n_clusters : int
        Clusters of the consensus. A meta-cluster may win no object: then fewer come
        out, with a warning.
    steps : int, default 20
        Steps of a walk.
    label_objects : int, default 100_000
        Objects that labels are compared by; where there are more, so many are drawn by
        ``random_state``.
    weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
        As in :func:`kcc`. Walks go to a label in proportion to the weight of its
        partition, and so do ties and means count it. Matrices of 64 S^2 bytes, S the
        labels of all partitions, have to fit ``memory_limit``, by default what the
        machine has free; the time grows with S^3.

    Returns
    -------
    Consensus
        ``objective`` is the normalised cut between the meta-clusters, sum_k (1 - share
        of the ties of k that stay inside); ``value`` the sum of these shares.
        ``details`` has ``meta_clusters``: for each partition that of each label in use
        (None for partitions that do not count); ``n_ties``, the objects for which means
        tied; and ``label_objects``, how many objects were looked at.

    References
    ----------
    D. Huang, C.-D. Wang, H. Peng, J. Lai, C.-K. Kwoh, "Enhanced ensemble clustering via
    fast propagation of cluster-wise similarities", IEEE Transactions on Systems, Man,
    and Cybernetics: Systems 51(1), 2021.

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    >>> result = gpc.ecpcs(ens, 2, random_state=0)
    >>> result.labels.tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    True
    """
    steps = check_count("steps", steps, 1, MOST_STEPS)
    label_objects = check_int("label_objects", label_objects, 1)
    shared = Shared(
        weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
    )
    task = open_task("ecpcs", ensemble, n_clusters, shared)
    n_all = int(task.ensemble.n_labels.sum())
    cure = "use lwgp or usenc, which need less"
    what = f"ecpcs of {n_all} labels"
    check_memory(what, _PAIR_BYTES * n_all * n_all, task.memory_limit, cure)
    labels = task.label_contingency(label_objects)
    copies = vote_weights(task.weights)[labels.partition]
    alike = walk_similarity(label_jaccard(labels), copies, steps)
    alike *= copies
    alike *= copies[:, None]
    meta = _cut(alike, copies, min(task.k, n_all), task.seed())
    clusters, n_ties = join_objects(task, labels, meta, copies)
    shares = [
        math.fsum(alike[np.ix_(own, own)].ravel()) / math.fsum(alike[own].ravel())
        for own in (np.flatnonzero(meta == k) for k in np.unique(meta))
    ]
    return task.result(
        clusters,
        objective=math.fsum(1.0 - share for share in shares),
        value=math.fsum(shares),
        details={
            "meta_clusters": task.by_given_partition(labels.by_partition(meta)),
            "n_ties": n_ties,
            "label_objects": labels.n_objects,
        },
    )


def walk_similarity(ties: FloatArray, copies: FloatArray, steps: int) -> FloatArray:
    """Return the cosine of the random walks from each pair of vertices, (S, S).

    A walk from a is the rows a of P, P^2, ..., P^steps side by side, P the ties times
    the copies of the vertex they lead to, rows scaled to sum 1. No power is made: with
    the eigenvectors V and values x of the symmetric form of P, the sum over t of
    P^t (P^t)' has between V and V' the elements of V' D V times sum_t (x_a x_b)^t, D
    the degrees.

    Parameters
    ----------
    ties : ndarray of shape (S, S)
        Symmetric, not negative, 0 on the diagonal.
    copies : ndarray of shape (S,)
    steps : int
    """
    from scipy.linalg import eigh

    tied = ties * copies * copies[:, None]
    degree = tied.sum(axis=1)
    root = np.sqrt(degree)
    inverse = np.divide(1.0, root, out=np.zeros(len(root)), where=root > 0)
    tied *= inverse
    tied *= inverse[:, None]
    with one_thread():
        values, vectors = eigh(tied, overwrite_a=True)
        middle = vectors.T @ (vectors * degree[:, None])
        middle *= _geometric_sums(values, steps)
        inner = vectors @ middle @ vectors.T
    inner *= inverse
    inner *= inverse[:, None]
    length = np.sqrt(np.maximum(np.diag(inner), 0.0))
    scale = np.divide(1.0, length, out=np.zeros(len(length)), where=degree > 0)
    alike = (inner + inner.T) * (0.5 * np.outer(scale, scale))
    np.clip(alike, 0.0, 1.0, out=alike)  # walks have no negative entries
    np.fill_diagonal(alike, 1.0)
    return np.asarray(alike)


def _geometric_sums(values: FloatArray, steps: int) -> FloatArray:
    """Return x + x^2 + ... + x^steps of all products x of two values."""
    product = np.outer(values, values)
    total = product.copy()
    for _ in range(steps - 1):
        total += 1.0
        total *= product
    return total


def _cut(
    alike: FloatArray, copies: FloatArray, n_parts: int, seed: int
) -> npt.NDArray[np.intp]:
    """Cut the graph of labels; parts are numbered by their first label."""
    root = 1.0 / np.sqrt(alike.sum(axis=1))
    _, vectors = leading_vectors(alike * root * root[:, None], n_parts)
    parts = fit_kmeans(unit_rows(vectors), copies, n_parts, seed).labels_
    _, first, part = np.unique(parts, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[part.ravel()])


def join_objects(
    task: Task,
    labels: LabelContingency,
    meta: npt.NDArray[np.intp],
    copies: FloatArray,
) -> tuple[npt.NDArray[np.intp], int]:
    """Put every object where it is on average; return also how often means tied."""
    member = copies[:, None] * np.eye(int(meta.max()) + 1)[meta]
    size = member.sum(axis=0)
    clusters, n_ties = [], 0
    for carried in object_sums(task, labels, member, task.ensemble.codes):
        share = carried / size
        tied = share == share.max(axis=1, keepdims=True)
        clusters.append(np.where(tied, carried, -1.0).argmax(axis=1))
        n_ties += int(np.count_nonzero(tied.sum(axis=1) > 1))
    return np.concatenate(clusters), n_ties
