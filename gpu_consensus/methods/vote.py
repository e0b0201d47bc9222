"""Voting: align the partitions, then let every object take its most frequent label."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.checks import FloatArray, check_choice
from gpu_consensus.memory import check_memory
from gpu_consensus.methods.alignment import (
    for_all_objects,
    match,
    overlaps,
    vote_weights,
)
from gpu_consensus.methods.call import Shared, Task, open_task
from gpu_consensus.methods.disagreement import vote_agreement
from gpu_consensus.result import Consensus


def vote(
    ensemble: Any,
    n_clusters: int | None = None,
    *,
    order: str = "given",
    weights: Any = None,
    on_unlabelled: str = "raise",
    backend: str = "auto",
    n_jobs: int | None = None,
    memory_limit: int | None = None,
    random_state: Any = None,
    progress: bool = False,
) -> Consensus:
    """Voting (the greedy algorithm of Dimitriadou, Weingessel and Hornik).

    The partitions are taken one after another. The labels of each are matched one to
    one with the columns of the votes cast so far (the assignment problem), then its
    objects cast their votes. At the end every object takes the column with most votes,
    the first of equals.

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
        The basic partitions, with any numbers of labels. A partition casts no vote for
        objects it does not label.
    n_clusters : int, optional
        Clusters of the consensus, by default the largest number of labels in a
        partition; fewer may win votes, which a warning says. Where partitions have
        more labels, those matched with no column spread their vote evenly over all, as
        the R package clue does; the columns stand for the largest labels of the first
        partition.
    order : {"given", "random"}, default "given"
        Order of the partitions: it matters. The paper takes them as given, clue at
        random.
    weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
        As in :func:`kcc`.

    Returns
    -------
    Consensus
        ``objective`` is the weighted number of labels that voted for another cluster
        than their object's; ``value`` the share that voted for it.
        ``details["votes"]``: (n_samples, columns), the share of votes of each column.

    References
    ----------
    E. Dimitriadou, A. Weingessel, K. Hornik, "A combination scheme for fuzzy
    clustering", International Journal of Pattern Recognition and Artificial
    Intelligence 16, 2002.

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    >>> gpc.vote(ens).labels.tolist()
    [0, 0, 1, 1]
    """
    check_choice("order", order, ["given", "random"])
    shared = Shared(
        weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
    )
    task = open_task("vote", ensemble, n_clusters, shared, finds_n_clusters=True)
    sequence = np.arange(task.ensemble.n_partitions)
    if order == "random":
        sequence = task.rng().permutation(sequence)
    k = _n_columns(task)
    votes, columns = _cast_votes(task, k, sequence)
    labels = votes.argmax(axis=1)
    agreement = vote_agreement(task, columns, labels)
    share = votes / votes.sum(axis=1, keepdims=True)
    return task.result(
        labels,
        objective=agreement.objective,
        value=agreement.value,
        details={"votes": for_all_objects(task, share)},
    )


def borda(
    ensemble: Any,
    n_clusters: int | None = None,
    *,
    weights: Any = None,
    on_unlabelled: str = "raise",
    backend: str = "auto",
    n_jobs: int | None = None,
    memory_limit: int | None = None,
    random_state: Any = None,
    progress: bool = False,
) -> Consensus:
    """Borda consensus.

    Every partition is aligned with a reference (the assignment problem). For every
    object it ranks the k clusters: k points to the one that holds the object, and k/2,
    the mean of 1, ..., k - 1, to each of the others, which are tied; (k + 1)/2 to all
    where it has no label. The cluster with most points wins, the first of equals. For
    hard labels, the only ones an ensemble has, that is the plurality of the aligned
    votes; it differs from :func:`vote` in that all are aligned with one reference.

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
        The basic partitions, with any numbers of labels.
    n_clusters : int, optional
        Without it, the reference is the first partition; labels of others that match
        none of its own stand for clusters of their own, up to the largest number of
        labels in a partition. With it, the reference is the first partition that has
        so many labels, or if there is none, the result of :func:`vote`; labels that
        are left over by the matching count for the cluster they overlap most. Fewer
        clusters may win, which a warning says.
    weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
        As in :func:`kcc`; nothing is drawn here, so
        ``random_state`` has no effect.

    Returns
    -------
    Consensus
        ``objective`` and ``value`` as for :func:`vote`. ``details["points"]``:
        (n_samples, k), the points of each cluster.

    References
    ----------
    X. Sevillano, F. Alías, J. C. Socorró, "BordaConsensus: a new consensus function for
    soft cluster ensembles", SIGIR 2007. The alignment with one reference, the treatment
    of ties and of missing labels are ours.

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    >>> result = gpc.borda(ens)
    >>> result.labels.tolist(), result.details["points"].tolist()
    ([0, 0, 1, 1], [[6.0, 3.0], [6.0, 3.0], [4.0, 5.0], [3.0, 6.0]])
    """
    shared = Shared(
        weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
    )
    task = open_task("borda", ensemble, n_clusters, shared, finds_n_clusters=True)
    codes, n_labels = task.codes, task.ensemble.n_labels
    k = _n_columns(task)
    reference = _reference(task, k, is_first=n_clusters is None)
    votes = np.zeros((codes.shape[1], k))
    present = np.zeros(codes.shape[1])
    weights, all_columns = vote_weights(task), []
    for i, k_i in enumerate(n_labels.tolist()):
        overlap = overlaps(codes[i], k_i, reference)
        columns = match(overlap)
        left_over = columns >= k
        columns[left_over] = overlap[left_over].argmax(axis=1)
        here = np.flatnonzero(codes[i] < k_i)
        votes[here, columns[codes[i, here]]] += weights[i]
        present[here] += weights[i]
        all_columns.append(columns)
    points = votes * k + (present[:, None] - votes) * (k / 2)
    points += (weights.sum() - present)[:, None] * ((k + 1) / 2)
    labels = votes.argmax(axis=1)
    agreement = vote_agreement(task, all_columns, labels)
    return task.result(
        labels,
        objective=agreement.objective,
        value=agreement.value,
        details={"points": for_all_objects(task, points)},
    )


def _n_columns(task: Task) -> int:
    """Return how many clusters can win, once there is memory for their votes."""
    k = task.n_clusters or int(task.ensemble.n_labels.max())
    n_bytes = 32 * task.ensemble.n_samples * k
    check_memory(task.method, n_bytes, task.memory_limit, "use kcc, which needs less")
    return k


def _cast_votes(
    task: Task, k: int, sequence: npt.NDArray[np.intp]
) -> tuple[FloatArray, list[npt.NDArray[np.intp]]]:
    """Return the votes (n, k), in k-ths of a vote, and the columns of the labels.

    A column from k on means that the vote was spread evenly.
    """
    codes, n_labels = task.codes, task.ensemble.n_labels
    votes = np.zeros((codes.shape[1], k))
    weights = vote_weights(task)
    all_columns = [np.empty(0, dtype=np.intp)] * len(codes)
    for step, i in enumerate(sequence):
        k_i = int(n_labels[i])
        if step == 0:
            size = np.bincount(codes[i], minlength=k_i + 1)[:k_i]
            columns = np.empty(k_i, dtype=np.intp)
            columns[np.argsort(-size, kind="stable")] = np.arange(k_i)
        else:
            columns = match(overlaps(codes[i], k_i, votes))
        here = np.flatnonzero(codes[i] < k_i)
        column = columns[codes[i, here]]
        all_columns[i] = columns
        own = column < k
        votes[here[own], column[own]] += weights[i] * k
        votes[here[~own]] += weights[i]
    return votes, all_columns


def _reference(task: Task, k: int, is_first: bool) -> FloatArray:
    """Return the reference of Borda as 0/1 columns, (n, k)."""
    codes, n_labels = task.codes, task.ensemble.n_labels
    exact = np.flatnonzero(n_labels == k)
    if is_first or exact.size:
        i = 0 if is_first else int(exact[0])
        chosen = np.where(codes[i] < n_labels[i], codes[i].astype(np.intp), k)
    else:
        chosen = _cast_votes(task, k, np.arange(len(codes)))[0].argmax(axis=1)
    reference: FloatArray = (chosen[:, None] == np.arange(k)).astype(np.float64)
    return reference
