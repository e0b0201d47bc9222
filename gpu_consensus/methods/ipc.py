"""Iterative pairwise consensus (IPC) without the matrix of pairs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gpu_consensus.backends.host_loops import fastest
from gpu_consensus.backends.protocol import Assignment, Backend, Codes, Counts
from gpu_consensus.loop.fit import LoopOptions
from gpu_consensus.loop.lloyd import lloyd
from gpu_consensus.loop.local_rows import LocalRows
from gpu_consensus.loop.starts import Starts
from gpu_consensus.methods.call import Shared, open_task
from gpu_consensus.methods.voting import IpvcRule
from gpu_consensus.result import Consensus
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.checks import FloatArray, IntArray, check_choice


def ipc(
    ensemble: Any,
    n_clusters: int,
    *,
    update: str = "batch",
    weights: Any = None,
    init: Any = "partition",
    n_init: int = 100,
    max_iter: int = 100,
    on_unlabelled: str = "raise",
    backend: str | Backend = "auto",
    n_jobs: int | None = None,
    memory_limit: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    random_state: Any = None,
    progress: bool = False,
) -> Consensus:
    """Iterative pairwise consensus.

    Each object goes to the cluster whose members it shares most labels with: the
    largest mean co-association S(x, C_k) (Eq. 3), the object itself included where it
    is a member. The paper keeps the n x n matrix; here there is none, see Notes.

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
        The basic partitions.
    n_clusters : int
        Clusters of the consensus.
    update : {"batch", "sequential"}, default "batch"
        "batch", as the paper prints it: all objects are assigned to the clusters of
        the previous iteration. "sequential": one object after another in index order,
        and a move counts at once for the next object.
    n_init : int, default 100
        Starts, drawn from the basic partitions. The batch form runs them together.
    weights, init, max_iter, on_unlabelled, backend, n_jobs, memory_limit
        As in :func:`kcc`; ``max_iter`` counts sweeps over all objects in the
        sequential form.
    checkpoint, random_state, progress
        As in :func:`kcc`.

    Returns
    -------
    Consensus
        ``value`` is the mean, over all labels, of the share of the object's cluster
        that carries the label; on complete data the mean of S(x, own cluster).
        ``objective`` is the weighted sum of 1 minus that share.

    Notes
    -----
    With complete labels S(x, C_k) = (1/r) sum_i n_{k,L_xi} / n_k: the sum over members
    and the sum over partitions change places, and counts of labels take the place of
    pairs. A batch step is therefore the step of :func:`ipvc`, and memory grows with
    n r instead of n^2. With missing labels the literal form would divide by |C_k| and
    so hold gaps of the members against a cluster; IPC is defined there as IPVC is, by
    the members present. Weights w_i take the place of 1/r.

    Ties go to the lowest cluster. The batch form compares float32 sums; the sequential
    one, with complete labels and equal weights, exact integers over n_k.

    The objective may rise. A start ends when nothing moves, when an assignment comes
    back, or after ``max_iter``, with the assignment it then has, as the paper's
    algorithm does, even if it passed a better one; the best of the starts' ends by
    ``objective`` is returned. No cluster is left empty: in the batch form an emptied
    one takes the worst-fitting object of a larger one, in the sequential form an object
    that is alone stays. Where ``init`` leaves objects out, a first batch step assigns
    them before the sweeps begin.

    References
    ----------
    N. Nguyen, R. Caruana, "Consensus clusterings", ICDM 2007, section 5.3, algorithm 3.

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    >>> gpc.ipc(ens, 2, random_state=0).value
    0.9166666666666666
    >>> gpc.ipc(ens, 2, update="sequential", random_state=0).n_clusters
    2
    """
    check_choice("update", update, ["batch", "sequential"])
    shared = Shared(
        weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
    )
    loop = LoopOptions(init, n_init, max_iter, checkpoint)
    method = "ipc" if update == "batch" else "ipc:sequential"
    task = open_task(method, ensemble, n_clusters, shared, loop=loop)
    if update == "sequential" and task.given.elsewhere is not None:
        raise ValueError(
            "update='sequential' looks at one object after another, which workers "
            "cannot share; use update='batch'."
        )
    rule = IpvcRule(task.given, task.given_weights, task.backend.label_sums)
    return task.fit(rule, run=lloyd if update == "batch" else _sweep_starts)


class Shares(NamedTuple):
    """The properties of the partitions that a sweep needs.

    Attributes
    ----------
    starts, missing : ndarray of shape (r,)
        First row of each partition, and its row for "missing".
    weights : ndarray of shape (r,)
        1.0 each where they are equal, so that sums of counts stay exact.
    marginal : ndarray of shape (S,)
        Share of each label among the objects present, for clusters without any.
    complete : bool
        Whether no label is missing.
    """

    starts: IntArray
    missing: IntArray
    weights: FloatArray
    marginal: FloatArray
    complete: bool

    @classmethod
    def of(cls, rule: IpvcRule, n_labelled: int) -> Shares:
        """Take from the rule what a sweep over so many objects needs."""
        segments, weights = rule.segments, rule.weights
        present = segments.to_labels(np.maximum(rule.present, 1))
        return cls(
            segments.starts,
            segments.missing,
            np.ones_like(weights) if np.ptp(weights) == 0 else weights,
            rule.marginals / present,
            complete=bool((rule.present == n_labelled).all()),
        )


def _sweep_starts(
    rows: LocalRows,
    backend: Backend,
    rule: IpvcRule,
    starts: Starts,
    *,
    max_iter: int,
    together: int | None = None,
    after_iteration: Callable[[Starts], None] | None = None,
) -> None:
    """Run one start after another to its end; stands in for :func:`lloyd`."""
    if not np.isfinite(starts.objective).all():
        # seeds: a batch step gives every object a cluster
        lloyd(
            rows,
            backend,
            rule,
            starts,
            max_iter=1,
            together=together,
            after_iteration=after_iteration,
        )
    codes = to_host(rows.blocks.codes)
    n_labelled = codes.shape[1] - len(rows.skip)
    shares = Shares.of(rule, n_labelled)
    sweep = fastest("ipc_sweep", sweep_objects)
    for q, history in enumerate(starts.history):
        assignment, counts = rows.labels(q), rows.counts(q)
        sizes, members = count_members(shares, counts)
        while not starts.converged[q] and len(history) < max_iter:
            moved = sweep(codes, *shares, assignment, counts, sizes, members)
            rows.put(q, assignment.copy())
            starts.objective[q] = rule.objective(counts[:, None])[0]
            history.append(float(starts.objective[q]))
            digest = hashlib.blake2b(assignment.tobytes(), digest_size=8).digest()
            word = int.from_bytes(digest, "little")
            starts.converged[q] = moved == 0 or word in starts.seen[q]
            starts.seen[q].add(word)
            if after_iteration is not None:
                after_iteration(starts)


def count_members(shares: Shares, counts: Counts) -> tuple[IntArray, IntArray]:
    """Return the members present in each partition, (r, K), and the members, (K,)."""
    whole = np.add.reduceat(counts, shares.starts, axis=0)
    return whole - counts[shares.missing], whole[0].copy()


def sweep_objects(
    codes: Codes,
    starts: IntArray,
    missing: IntArray,
    weights: FloatArray,
    marginal: FloatArray,
    complete: bool,
    assignment: Assignment,
    counts: Counts,
    sizes: IntArray,
    members: IntArray,
) -> int:
    """Visit every object once and move it where its mean share is largest.

    Parameters
    ----------
    codes : ndarray of shape (r, n)
    starts, missing, weights, marginal, complete
        As in :class:`Shares`.
    assignment : ndarray of shape (n,)
        Changed in place. Objects with value K stay out.
    counts : ndarray of shape (S, K)
        Changed in place.
    sizes, members : ndarray of shape (r, K), (K,)
        Of :func:`count_members`; changed in place.

    Returns
    -------
    moved : int
        Objects that changed their cluster.
    """
    n_clusters = counts.shape[1]
    moved = 0
    for l in range(codes.shape[1]):
        own = int(assignment[l])
        if own == n_clusters or members[own] == 1:
            continue
        rows = starts + codes[:, l]
        present = rows != missing
        if complete:
            share = weights[:, None] * counts[rows]
        else:
            label_share = counts[rows] / np.maximum(sizes, 1)
            label_share = np.where(sizes == 0, marginal[rows][:, None], label_share)
            share = np.where(present[:, None], weights[:, None] * label_share, 0.0)
        # in partition order, as the compiled form adds
        score = np.add.accumulate(share, axis=0)[-1]
        if complete:
            score = score / np.maximum(members, 1)
        k = int(score.argmax())
        if k != own:
            assignment[l] = k
            counts[rows, own] -= 1
            counts[rows, k] += 1
            sizes[present, own] -= 1
            sizes[present, k] += 1
            members[own] -= 1
            members[k] += 1
            moved += 1
    return moved
