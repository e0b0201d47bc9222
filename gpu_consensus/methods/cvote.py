"""Cumulative voting: soft votes on a reference, then clusters merged down to K."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.device_memory import ELSEWHERE, memory_for
from gpu_consensus.backends.log2 import log2
from gpu_consensus.backends.numpy import n_threads
from gpu_consensus.backends.protocol import Backend
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.loop.code_blocks import CodeBlocks
from gpu_consensus.methods.bottleneck import merge_clusters
from gpu_consensus.methods.call import Shared, Task, open_task
from gpu_consensus.methods.cumulative import UNIT, cast
from gpu_consensus.result import Consensus
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.checks import FloatArray, check_choice, check_int
from gpu_consensus.util.memory import check_memory
from gpu_consensus.util.weights import vote_weights

_VOTERS = 5  # times the objects that decide on merges: votes are cheaper to learn


def cvote(
    ensemble: Any,
    n_clusters: int | None = None,
    *,
    alignment: str = "adaptive",
    reduction: str = "aib",
    merge_objects: int = 20_000,
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
        So many come out: a merge after which fewer clusters would have objects is
        passed over as long as there is another, and a cluster that still has none takes
        the object, with all that have its labels, whose own cluster has the smallest
        share of its votes, from a cluster that keeps others.
    alignment : {"adaptive", "fixed", "binary"}, default "adaptive"
        Whether the shares are taken in the average so far (Ada-cVote) or always in the
        reference itself (URCV); "binary" (bVote) matches labels one to one with the
        average so far, and labels that are left over do not vote.
    reduction : {"aib", "js"}, default "aib"
        Merge the two clusters that lose least information about the objects
        (agglomerative information bottleneck), or by average linkage of the
        Jensen-Shannon divergence. Ties go to the lowest pair.
    merge_objects : int, default 20_000
        Where there are more objects, so many, drawn by ``random_state``, decide which
        clusters are merged. What the labels vote for is learned from up to five times
        as many, and all objects are labelled by these votes.
    weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
        As in :func:`kcc`; a partition's votes count by its weight. Nothing is drawn up
        to ``merge_objects`` objects.

    Returns
    -------
    Consensus
        ``value`` is the information in bits that the votes have about the objects,
        I(X; C), after the merges; ``objective`` what the merges lost of it; both over
        the objects that decide. ``details["votes"]``: (n_samples, clusters), before the
        merges; ``details["order"]``: the partitions in the order taken, the reference
        first; ``details["merged"]``: the cluster after the merges of each before them;
        ``details["sampled"]``: None if all objects decided on merges, else those that
        did, ascending, and the rows of ``votes`` are theirs;
        ``details["voters"]``: None if the votes were learned from all objects, else
        those from which they were.

    Notes
    -----
    Votes, and terms of the information, are rounded to multiples of 2^-32, so that the
    sums over objects are exact and no backend, thread or block changes them.

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
    merge_objects = check_int("merge_objects", merge_objects, 1)
    shared = Shared(
        weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
    )
    task = open_task("cvote", ensemble, n_clusters, shared, finds_n_clusters=True)
    order, ens = _order(task), task.ensemble
    k, n = int(ens.n_labels[order[0]]), ens.n_samples
    n_voters, n_deciders = min(n, _VOTERS * merge_objects), min(n, merge_objects)
    n_rows = int(ens.offsets[-1]) if n_voters < n else 0
    most = max(24 * n_deciders, 8 * n_voters)  # in the merges, or while votes are cast
    n_bytes = (8 * n_voters + most + 8 * n_rows + 48 * k) * k
    cure = "lower merge_objects, or use kcc, which needs less"
    check_memory("cvote", n_bytes, task.memory_limit, cure)
    voters, deciders = None, None
    if n_deciders < n:
        rng = task.rng()
        voters, deciders = _draw(rng, n, n_voters), _draw(rng, n_voters, n_deciders)
    codes = task.codes if voters is None else ens.codes_of(voters)
    threads = n_threads(n_jobs)
    votes, weight, tables = cast(
        codes,
        ens.n_labels,
        vote_weights(task.weights),
        order,
        alignment,
        keep_tables=voters is not None,
        n_threads=threads,
    )
    shown, heavy = votes, weight
    if deciders is not None:
        shown, heavy = votes[deciders], weight[deciders]
    end = merge_clusters(shown, heavy, task.n_clusters or k, reduction, threads)
    if tables is None:
        labels, share = _winners(_merge_columns(votes, end.merged))
    else:
        labels, share = _label_all(task, tables, end.merged)
    if task.n_clusters is not None:
        _fill_clusters(task, labels, share)
    shown /= heavy[:, None]
    sampled = deciders
    if voters is not None:
        sampled = voters if deciders is None else voters[deciders]
    return task.result(
        labels,
        objective=end.before - end.after,
        value=end.after,
        details={
            "votes": task.for_all_objects(shown) if sampled is None else shown,
            "order": task.useful[order],
            "merged": end.merged,
            "sampled": None if sampled is None else task.labelled[sampled],
            "voters": None if voters is None else task.labelled[voters],
        },
    )


def _draw(
    rng: np.random.Generator, n: int, number: int
) -> npt.NDArray[np.int64] | None:
    """Draw so many of n objects, ascending; None for all."""
    return np.sort(rng.choice(n, number, replace=False)) if number < n else None


def _order(task: Task) -> npt.NDArray[np.intp]:
    """Return the partitions by falling entropy, first one that is large enough."""
    ens = task.ensemble
    entropy = np.empty(ens.n_partitions)
    for i, (begin, end) in enumerate(
        zip(ens.offsets[:-1], ens.offsets[1:] - 1, strict=True)
    ):
        counts = np.sort(ens.marginals[begin:end])  # equal sizes, equal entropy
        share = counts / counts.sum()
        entropy[i] = -(share * log2(share)).sum()
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


def _merge_columns(votes: FloatArray, merged: npt.NDArray[np.intp]) -> FloatArray:
    """Add up the columns that were merged."""
    sums = np.zeros((len(votes), int(merged.max()) + 1))
    for column, k in zip(votes.T, merged, strict=True):
        sums[:, k] += column
    return sums


def _winners(sums: FloatArray) -> tuple[npt.NDArray[np.intp], FloatArray]:
    """Return the cluster with most votes, the first of equals, and its share."""
    share = sums.max(axis=1) / np.maximum(sums.sum(axis=1), UNIT)
    return sums.argmax(axis=1), np.asarray(share)


def _label_all(
    task: Task, tables: list[FloatArray], merged: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.intp], FloatArray]:
    """Return the clusters that all objects vote for most, and their shares.

    Sums of votes are exact, so that they are those of the objects that decided.
    """
    ens, n_clusters = task.ensemble, int(merged.max()) + 1
    whole = np.concatenate([_merge_columns(table, merged) for table in tables])[:, None]
    if ens.elsewhere is not None:
        found: tuple[npt.NDArray[np.intp], FloatArray] = ens.elsewhere.winners(whole)
        return found
    with memory_for(f"the votes for {n_clusters} clusters", ELSEWHERE):
        return most_voted(
            CodeBlocks(task.backend, ens.codes, ens.offsets, task.memory_limit), whole
        )


def most_voted(
    blocks: CodeBlocks, table: FloatArray
) -> tuple[npt.NDArray[np.intp], FloatArray]:
    """Return the cluster of most votes of each object, and its share, (n,) each.

    ``table`` (S, 1, k) is what each label votes for.
    """
    labels = np.empty(blocks.n_samples, dtype=np.intp)
    shares = np.empty(blocks.n_samples)
    there = blocks.backend.to_device(table)
    for rows, codes in blocks.blocks(table.shape[2]):
        score = blocks.backend.scores(codes, blocks.offsets, there)[:, 0]
        labels[rows], shares[rows] = _winners(blocks.backend.to_host(score))
    return labels, shares


def _fill_clusters(task: Task, labels: npt.NDArray[np.intp], share: FloatArray) -> None:
    """Give every cluster without objects one whose own cluster has least of its votes.

    In place. Objects with equal labels stay together, and no cluster gives all it has.
    """
    sizes = np.bincount(labels, minlength=task.k)
    empty = np.flatnonzero(sizes == 0)
    if not empty.size:
        return
    candidates = iter(np.argsort(share, kind="stable").tolist())
    looked_at = np.zeros(len(labels), dtype=bool)
    for k in empty:
        while True:
            l = next(l for l in candidates if not looked_at[l])
            equals = _equals(task.ensemble, l)
            looked_at |= equals
            number = int(np.count_nonzero(equals))
            if number < sizes[labels[l]]:
                break
        sizes[labels[l]] -= number
        sizes[k] = number
        labels[equals] = k


def _equals(ensemble: Ensemble, l: int) -> npt.NDArray[np.bool_]:
    """Return which objects have the labels of one, (n,)."""
    equals = np.ones(ensemble.n_samples, dtype=bool)
    if ensemble.elsewhere is not None:
        equals[:] = False
        equals[ensemble.elsewhere.equal_to(l)] = True
        return equals
    for given in ensemble.codes:
        line = to_host(given)
        equals &= line == line[l]
    return equals
