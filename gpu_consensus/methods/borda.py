"""Borda: align all partitions with one reference, then add up their points."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu_consensus.backends.protocol import Backend
from gpu_consensus.methods.alignment import match, overlaps
from gpu_consensus.methods.call import Shared, Task, open_task
from gpu_consensus.methods.cast_votes import cast_votes, n_columns
from gpu_consensus.methods.disagreement import vote_agreement
from gpu_consensus.result import Consensus
from gpu_consensus.util.checks import FloatArray
from gpu_consensus.util.weights import vote_weights


def borda(
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
    k = n_columns(task)
    reference = _reference(task, k, is_first=n_clusters is None)
    votes = np.zeros((codes.shape[1], k))
    present = np.zeros(codes.shape[1])
    weights, all_columns = vote_weights(task.weights), []
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
        details={"points": task.for_all_objects(points)},
    )


def _reference(task: Task, k: int, is_first: bool) -> FloatArray:
    """Return the reference of Borda as 0/1 columns, (n, k)."""
    codes, n_labels = task.codes, task.ensemble.n_labels
    exact = np.flatnonzero(n_labels == k)
    if is_first or exact.size:
        i = 0 if is_first else int(exact[0])
        chosen = np.where(codes[i] < n_labels[i], codes[i].astype(np.intp), k)
    else:
        chosen = cast_votes(task, k, np.arange(len(codes)))[0].argmax(axis=1)
    reference: FloatArray = (chosen[:, None] == np.arange(k)).astype(np.float64)
    return reference
