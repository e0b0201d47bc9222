"""Voting: align the partitions one after another, then take the plurality."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu_consensus.backends.protocol import Backend
from gpu_consensus.methods.call import Shared, open_task
from gpu_consensus.methods.cast_votes import cast_votes, n_columns
from gpu_consensus.methods.disagreement import vote_agreement
from gpu_consensus.result import Consensus
from gpu_consensus.util.checks import check_choice


def vote(
    ensemble: Any,
    n_clusters: int | None = None,
    *,
    order: str = "given",
    weights: Any = None,
    on_unlabelled: str = "raise",
    backend: str | Backend = "auto",
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
    k = n_columns(task)
    votes, columns = cast_votes(task, k, sequence)
    labels = votes.argmax(axis=1)
    agreement = vote_agreement(task, columns, labels)
    share = votes / votes.sum(axis=1, keepdims=True)
    return task.result(
        labels,
        objective=agreement.objective,
        value=agreement.value,
        details={"votes": task.for_all_objects(share)},
    )
