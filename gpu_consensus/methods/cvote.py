"""Cumulative voting: soft votes on a reference, then clusters merged down to K."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.protocol import Backend
from gpu_consensus.ensemble.distinct import Distinct
from gpu_consensus.methods.agglomerate import agglomerate, cut
from gpu_consensus.methods.alignment import match, overlaps
from gpu_consensus.methods.call import Shared, Task, open_task
from gpu_consensus.result import Consensus
from gpu_consensus.util.checks import FloatArray, IntArray, check_choice
from gpu_consensus.util.memory import check_memory
from gpu_consensus.util.weights import vote_weights


def cvote(
    ensemble: Any,
    n_clusters: int | None = None,
    *,
    alignment: str = "adaptive",
    reduction: str = "aib",
    weights: Any = None,
    on_unlabelled: str = "raise",
    backend: str | Backend = "auto",
    n_jobs: int | None = None,
    memory_limit: int | None = None,
    random_state: Any = None,
    progress: bool = False,
) -> Consensus:
    """Cumulative voting (Ada-cVote) with reduction to ``n_clusters``.

    The partition of highest entropy is the reference, the others follow by falling
    entropy, ties by index. Each label of a partition votes for the reference's clusters
    in the shares that its objects have there, and the votes are averaged. The clusters
    are then merged until ``n_clusters`` are left, and every object takes the one with
    most votes, the first of equals. Made for partitions with more clusters than are
    asked for, and with different numbers of them.

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
        The basic partitions. The votes of an object are averaged over the partitions
        that label it; a label none of whose objects has a vote yet takes the mean of
        all votes.
    n_clusters : int, optional
        Clusters of the consensus; the reference then is the partition of highest
        entropy among those with at least so many labels. Without it nothing is merged.
        Fewer clusters may win, which a warning says.
    alignment : {"adaptive", "fixed", "binary"}, default "adaptive"
        Whether the shares are taken in the average so far (Ada-cVote) or always in the
        reference itself (URCV); "binary" (bVote) matches labels one to one with the
        average so far, and labels that are left over do not vote.
    reduction : {"aib", "js"}, default "aib"
        Merge the two clusters that lose least information about the objects
        (agglomerative information bottleneck), or by average linkage of the
        Jensen-Shannon divergence. Ties go to the lowest pair.
    weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
        As in :func:`kcc`; nothing is drawn here, so
        ``random_state`` has no effect.

    Returns
    -------
    Consensus
        ``value`` is the information in bits that the votes have about the objects,
        I(X; C), after the merges; ``objective`` what the merges lost of it.
        ``details["votes"]``: (n_samples, clusters), before the merges;
        ``details["order"]``: the partitions in the order taken, the reference first;
        ``details["merged"]``: the cluster after the merges of each before them.

    References
    ----------
    H. G. Ayad, M. S. Kamel, "On voting-based consensus of cluster ensembles", Pattern
    Recognition 43, 2010; "Cumulative voting consensus method for partitions with
    variable number of clusters", IEEE TPAMI 30, 2008.

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 2], [1, 1, 0, 0], [0, 0, 1, 1]])
    >>> gpc.cvote(ens, 2).labels.tolist()
    [0, 0, 1, 1]
    """
    check_choice("alignment", alignment, ["adaptive", "fixed", "binary"])
    check_choice("reduction", reduction, ["aib", "js"])
    shared = Shared(
        weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
    )
    task = open_task("cvote", ensemble, n_clusters, shared, finds_n_clusters=True)
    order = _order(task)
    distinct = task.distinct
    k = int(task.ensemble.n_labels[order[0]])
    n_rows = len(distinct.first)
    # the votes of all objects, in the result, are gathered from those that differ
    n_bytes = (32 * n_rows + 16 * task.given.n_samples) * k
    check_memory("cvote", n_bytes, task.memory_limit, "use kcc, which needs less")
    votes = _votes(task, distinct, order, alignment)
    mass = votes * distinct.size[:, None]
    joint = mass / mass.sum()
    names = np.arange(k)
    if n_clusters is not None and task.k < k:
        names = (_aib if reduction == "aib" else _js_average)(joint, task.k)
    _, merged = np.unique(names, return_inverse=True)
    after = _merge_columns(joint, merged)
    kept, before = _information(after), _information(joint)
    labels = _merge_columns(votes, merged).argmax(axis=1)
    return task.result(
        labels[distinct.group],
        objective=before - kept,
        value=kept,
        details={
            "votes": task.for_all_objects(votes[distinct.group]),
            "order": task.useful[order],
            "merged": merged,
        },
    )


def _order(task: Task) -> npt.NDArray[np.intp]:
    """Return the partitions by falling entropy, first one that is large enough."""
    ens = task.ensemble
    entropy = np.empty(ens.n_partitions)
    for i, (begin, end) in enumerate(
        zip(ens.offsets[:-1], ens.offsets[1:] - 1, strict=True)
    ):
        counts = np.sort(ens.marginals[begin:end])  # equal sizes, equal entropy
        share = counts / counts.sum()
        entropy[i] = -(share * np.log2(share)).sum()
    order = np.argsort(-entropy, kind="stable")
    if task.n_clusters is not None:
        enough = np.flatnonzero(ens.n_labels[order] >= task.k)
        if not enough.size:
            raise ValueError(
                f"n_clusters={task.k} should be <= {ens.n_labels.max()}, the largest "
                "number of labels in a partition, for cvote only merges; use kcc."
            )
        order = np.concatenate([order[enough[:1]], np.delete(order, enough[0])])
    return order


def _votes(
    task: Task, distinct: Distinct, order: npt.NDArray[np.intp], alignment: str
) -> FloatArray:
    """Return the averaged votes of each group of equal objects, (m, k)."""
    codes, n_labels = task.codes[:, distinct.first], task.ensemble.n_labels
    size, weights = distinct.size, vote_weights(task.weights)
    k = int(n_labels[order[0]])
    total, weight = np.zeros((len(size), k)), np.zeros(len(size))
    reference, known = total, weight > 0
    for step, i in enumerate(order):
        k_i = int(n_labels[i])
        here = np.flatnonzero(codes[i] < k_i)
        if step == 0:
            table = np.eye(k)
        else:
            if alignment != "fixed" or step == 1:
                known = weight > 0
                mean = total[known] / weight[known, None]
                reference = np.zeros_like(total)
                reference[known] = mean * size[known, None]
            table = _shares(codes[i], k_i, reference, size * known, alignment)
        total[here] += weights[i] * table[codes[i, here]]
        weight[here] += weights[i]
    return total / weight[:, None]


def _shares(
    codes: npt.NDArray[Any],
    k_i: int,
    reference: FloatArray,
    size: IntArray,
    alignment: str,
) -> FloatArray:
    """Return what each label votes for, (k_i, k)."""
    sums = overlaps(codes, k_i, reference)
    if alignment == "binary":
        columns = match(sums)
        table: FloatArray = (columns[:, None] == np.arange(sums.shape[1])).astype(float)
        return table
    n = np.bincount(codes, weights=size, minlength=k_i + 1)[:k_i]
    mean = reference.sum(axis=0) / max(size.sum(), 1)
    shares = np.tile(mean, (k_i, 1))
    shares[n > 0] = sums[n > 0] / n[n > 0, None]
    return shares


def _log_sum(p: FloatArray) -> FloatArray:
    """Return the sum of p log2 p over the first axis."""
    terms = np.zeros_like(p)
    np.log2(p, out=terms, where=p > 0)
    terms *= p
    return np.asarray(terms.sum(axis=0))


def _information(joint: FloatArray) -> float:
    """Return I(X; C) in bits of a joint distribution, (m, k)."""
    flat = _log_sum(joint.ravel())
    rows, columns = _log_sum(joint.sum(axis=1)), _log_sum(joint.sum(axis=0))
    return max(float(flat - rows - columns), 0.0)


def _term(joint: FloatArray) -> FloatArray:
    """Return minus p_c times the entropy of each cluster c over the objects, (k,)."""
    return _log_sum(joint) - _log_sum(joint.sum(axis=0)[None])


def _losses(
    joint: FloatArray, term: FloatArray, a: int, others: npt.NDArray[np.intp]
) -> FloatArray:
    """Return the information lost by merging cluster ``a`` with each of others.

    (p_a + p_b) JS(a, b), the divergence weighted by p_a and p_b.
    """
    both = _term(joint[:, [a]] + joint[:, others])
    return np.asarray(term[a] + term[others] - both)


def _aib(joint: FloatArray, n_clusters: int) -> npt.NDArray[np.intp]:
    """Merge the pair of least loss until ``n_clusters`` are left."""
    joint, term = joint.copy(), _term(joint)
    k = joint.shape[1]
    names = np.arange(k)
    loss = np.full((k, k), np.inf)
    for a in range(k - 1):
        others = np.arange(a + 1, k)
        loss[a, others] = _losses(joint, term, a, others)
    for _ in range(k - n_clusters):
        a, b = divmod(int(loss.argmin()), k)
        joint[:, a] += joint[:, b]
        term[a] = _term(joint[:, [a]])[0]
        names[names == b] = a
        loss[b], loss[:, b] = np.inf, np.inf
        left = np.unique(names)
        others = left[left != a]
        losses = _losses(joint, term, a, others)
        loss[a, others[others > a]] = losses[others > a]
        loss[others[others < a], a] = losses[others < a]
    return names


def _js_average(joint: FloatArray, n_clusters: int) -> npt.NDArray[np.intp]:
    """Merge by average linkage of the Jensen-Shannon divergence."""
    k = joint.shape[1]
    mass, term = joint.sum(axis=0), _term(joint)
    likeness = np.zeros((k, k))
    for a in range(k - 1):
        others = np.arange(a + 1, k)
        divergence = _losses(joint, term, a, others) / (mass[a] + mass[others])
        likeness[a, others] = likeness[others, a] = -divergence
    merges = agglomerate(likeness, np.ones(k), "average", n_left=n_clusters)
    return cut(merges, k)


def _merge_columns(votes: FloatArray, merged: npt.NDArray[np.intp]) -> FloatArray:
    """Add up the columns that were merged."""
    sums = np.zeros((len(votes), int(merged.max()) + 1))
    for column, k in zip(votes.T, merged, strict=True):
        sums[:, k] += column
    return sums
