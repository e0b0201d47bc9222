"""A mixture of multinomials over the labels, fitted by EM."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.device_memory import memory_for
from gpu_consensus.backends.protocol import Backend
from gpu_consensus.loop.local_rows import LocalRows
from gpu_consensus.loop.room import check_starts
from gpu_consensus.loop.saved_call import SavedCall, hash_ensemble
from gpu_consensus.loop.seeding import NAMES as INITS
from gpu_consensus.loop.seeding import encode_init, seed_starts
from gpu_consensus.methods.call import Shared, Task, open_task
from gpu_consensus.methods.em_climb import Climb, resumed, save_climb
from gpu_consensus.methods.mixture import Mixture, MixtureCentroids, Model
from gpu_consensus.methods.voting import IpvcRule
from gpu_consensus.result import Centroids, Consensus
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.checks import (
    FloatArray,
    check_choice,
    check_int,
    check_not_negative,
)
from gpu_consensus.util.numbers import shown
from gpu_consensus.util.progress import progress_bar

_TABLE_MEMORY = 256 << 20
_TABLE_BYTES = 64  # of the tables of a start, for each label and component
_TOO_MANY = 1 << 31  # as many objects, in units of 2^-32, overflow an int64


def em(
    ensemble: Any,
    n_clusters: int,
    *,
    init: Any = "partition",
    n_init: int = 10,
    max_iter: int = 200,
    tol: float = 1e-6,
    smoothing: float = 1e-10,
    weights: Any = None,
    on_unlabelled: str = "raise",
    backend: str | Backend = "auto",
    n_jobs: int | None = None,
    memory_limit: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    random_state: Any = None,
    progress: bool = False,
) -> Consensus:
    """Consensus by a mixture of multinomials.

    The labels of an object are taken as drawn from one of K components, each with its
    own distribution of labels in every partition, independent given the component:
    P(L_l) = sum_k alpha_k prod_i theta_ik(L_il). EM finds alpha and theta; an object
    belongs to its likeliest component.

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
        The basic partitions. Missing labels are left out of the product and of the
        M step, whose fixed points are those of the paper's expected counts.
    n_clusters : int
        Components of the mixture.
    init : {"partition", "random", "careful"} or array, default "partition"
        Seeds as in :func:`kcc` ("careful" by the costs of :func:`ipvc`), or one label
        per object; either is softened: responsibilities are 0.8 + 0.2 / K for an
        object's own component and 0.2 / K for the others, and seeds that leave objects
        out stand for all. Or an array (n_samples, n_clusters) of responsibilities, for
        the first M step as it is.
    n_init : int, default 10
        Starts, run together; the greatest likelihood wins. Given labels or
        responsibilities are one start.
    max_iter : int, default 200
        Most E steps of a start.
    tol : float, default 1e-6
        A start has converged when an iteration raises the log-likelihood by no more
        than this per object.
    smoothing : float, default 1e-10
        The least that any alpha or theta may be, so that no logarithm is infinite and
        no component is barred for ever. The M step is exact under this bound, hence
        the likelihood itself, with no penalty, never falls. 0 turns it off.
    weights, on_unlabelled, backend, n_jobs, memory_limit, checkpoint
        As in :func:`kcc`.
    random_state, progress
        As in :func:`kcc`.

    Returns
    -------
    Consensus
        ``value`` is the log-likelihood (natural logarithm), ``objective`` and
        ``history`` its negative; ``proba`` the responsibilities, 0 for kept objects
        without any label; ``details["alpha"]`` (n_clusters,) and ``details["theta"]``,
        one (n_clusters, K_i) per partition, None for partitions without weight or
        labels. A component that is nobody's likeliest is left out, with a warning, and
        rows of ``proba`` then sum to less than 1.

    Notes
    -----
    Weights w_i are exponents: theta_ik(L_il)^(r w_i), r the number of partitions of
    positive weight. Equal weights are the plain model. The M step stays as it is and
    EM's bound holds for any such product, so the weighted likelihood never falls
    either, but it is no longer that of a distribution over labels.

    Sums over objects are sums of integers (responsibilities in units of 2^-32), so the
    answer does not depend on chunks or threads; a device agrees up to rounding.
    Responsibilities are in memory for a block of objects at a time; only those of the
    winner are kept, 8 n_clusters bytes per object.

    References
    ----------
    A. Topchy, A. K. Jain, W. Punch, "A mixture model for clustering ensembles", SDM
    2004.

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> ens = gpc.Ensemble.from_partitions(
    ...     [[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 2, 2], [1, 1, 1, 0, 0, -1]]
    ... )
    >>> result = gpc.em(ens, 2, random_state=0)
    >>> result.labels[:3].tolist() == [int(result.labels[0])] * 3
    True
    >>> result.proba.shape
    (6, 2)
    """
    n_init = check_int("n_init", n_init, 1)
    max_iter = check_int("max_iter", max_iter, 1)
    tol = check_not_negative("tol", tol)
    if isinstance(init, str):
        check_choice("init", init, INITS)
    shared = Shared(
        weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
    )
    task = open_task("em", ensemble, n_clusters, shared, visits=16 * n_init)
    if task.ensemble.n_samples >= _TOO_MANY:
        raise ValueError(
            f"n_samples={task.ensemble.n_samples} should be < {_TOO_MANY} for em, or "
            "its sums pass 2^63; use kcc."
        )
    model = Model(task, _check_smoothing(smoothing, task))
    number = n_init if isinstance(init, str) else 1
    table_bytes = _TABLE_BYTES * int(model.blocks.offsets[-1]) * task.k
    together = max(1, _table_memory(task) // table_bytes)
    check_starts(
        "em",
        number,
        task.k,
        task.ensemble.n_samples,
        table_bytes=table_bytes,
        together=together,
        fixed=(8 * task.k + 12) * task.ensemble.n_samples,
    )
    saved = _open_saved(task, model, checkpoint, init, n_init, max_iter, tol)
    best, kept = resumed(saved)
    shortage = memory_for(
        "the starts that run together",
        "lower n_init or n_clusters, or set memory_limit",
    )
    with shortage, progress_bar(task.progress, "em", number) as advance:
        if kept is not None:
            advance(kept.next - len(kept.alive), "as saved")
        for climb in _climbs(task, model, init, n_init, saved.seed, together, kept):
            for ended in climb.run(model, max_iter, tol):
                for end in ended:
                    if best is None or end.rank < best.rank:
                        best = end
                    advance(1, f"log-likelihood {best.history[-1]:.6g}")
                if saved.is_due():
                    save_climb(saved, climb, best)
            save_climb(saved, climb, best)
    assert best is not None
    labels, proba = model.responsibilities(best.mixture)
    used = np.unique(labels)
    value = best.history[-1]
    result = task.result(
        labels,
        objective=-value,
        value=value,
        history=-np.array(best.history),
        converged=best.converged,
        max_iter=max_iter,
        proba=task.for_all_objects(proba[:, used]),
    )
    assert result.centroids is not None
    return _with_parameters(result, result.centroids, task, model, best.mixture, used)


def _climbs(
    task: Task,
    model: Model,
    init: Any,
    n_init: int,
    seed: np.random.SeedSequence,
    together: int,
    kept: Climb | None,
) -> Iterator[Climb]:
    """Yield the starts to run together: those that were saved, then all others."""
    begun = 0
    if kept is not None:
        begun = kept.next
        yield kept
    mixtures = _first_mixtures(task, model, init, n_init, seed, together, begun)
    for first, mixture in mixtures:
        number = len(mixture.alpha)
        starts = list(range(first, first + number))
        empty: dict[int, list[float]] = {q: [] for q in starts}
        yield Climb(first + number, starts, empty, mixture, mixture)


def _table_memory(task: Task) -> int:
    return _TABLE_MEMORY if task.memory_limit is None else task.memory_limit


def _open_saved(
    task: Task,
    model: Model,
    checkpoint: Any,
    init: Any,
    n_init: int,
    max_iter: int,
    tol: float,
) -> SavedCall:
    """Return the checkpoint of the call, with what an earlier run of it has saved."""
    call: dict[str, Any] = {"method": "em"}
    if checkpoint is not None:
        given = init
        if not isinstance(init, str):
            table = np.asarray(to_host(init))
            if table.ndim == 1:
                table = encode_init(init, task.given.n_samples, task.k)
            given = hashlib.blake2b(table.tobytes(), digest_size=16).hexdigest()
        call |= {
            "ensemble": hash_ensemble(task.given),
            "n_labels": task.given.n_labels.tolist(),
            "weights": task.given_weights.tolist(),
            "n_clusters": task.k,
            "init": given,
            "n_init": n_init,
            "max_iter": max_iter,
            "tol": tol,
            "smoothing": model.floor,
        }
    return SavedCall(checkpoint, call, task.random_state)


def _first_mixtures(
    task: Task,
    model: Model,
    init: Any,
    n_init: int,
    seed: np.random.SeedSequence,
    together: int,
    begun: int,
) -> Iterator[tuple[int, Mixture]]:
    """Yield the mixtures to begin with, as many as memory allows, and their number.

    ``begun`` is the first start that has not begun yet.
    """
    if begun >= (n_init if isinstance(init, str) else 1):
        return
    if not isinstance(init, str) and np.ndim(init) == 2:
        yield 0, model.from_responsibilities(_check_responsibilities(init, task))
        return
    if isinstance(init, str):
        rule = IpvcRule(task.ensemble, task.weights)  # its costs make seeds "careful"
        rows = LocalRows(model.blocks, task.k, np.empty(0, dtype=np.intp))
        rows.start(
            seed_starts(
                init,
                task.ensemble,
                rows,
                task.backend,
                rule,
                np.arange(task.ensemble.n_partitions),
                np.arange(task.ensemble.n_samples),
                task.k,
                seed.spawn(n_init),
            )
        )
        assignment = np.stack([rows.labels(q) for q in range(n_init)])
    else:
        given = encode_init(init, task.given.n_samples, task.k)
        assignment = np.delete(given, task.skip, axis=1)
    for first in range(begun, len(assignment), together):
        yield first, model.from_labels(assignment[first : first + together])


def _check_responsibilities(init: Any, task: Task) -> FloatArray:
    """Return given responsibilities of the labelled objects, rows summing to 1."""
    z = np.asarray(to_host(init), dtype=np.float64)
    wanted = (task.given.n_samples, task.k)
    if z.shape != wanted:
        raise ValueError(
            f"init has shape {z.shape} but n_samples and n_clusters are {wanted}; give "
            "one responsibility per object and cluster."
        )
    z = np.delete(z, task.skip, axis=0)
    total = z.sum(axis=1, keepdims=True)
    if not ((z >= 0).all() and (total > 0).all() and np.isfinite(total).all()):
        raise ValueError(
            "init should hold responsibilities that are finite, >= 0 and not all 0 for "
            "an object; mend the rows that are not."
        )
    return np.asarray(z / total)


def _check_smoothing(smoothing: Any, task: Task) -> float:
    floor = check_not_negative("smoothing", smoothing)
    most = max(int(task.ensemble.n_labels.max()), task.k)
    if floor * most >= 1:
        raise ValueError(
            f"smoothing={shown(smoothing)} should be < 1 / {most}, or {most} shares "
            "cannot all have it; use a smaller one."
        )
    return floor


def _with_parameters(
    result: Consensus,
    centroids: Centroids,
    task: Task,
    model: Model,
    mixture: Mixture,
    used: npt.NDArray[np.intp],
) -> Consensus:
    """Add the parameters, for the labels and partitions that the caller gave."""
    given, kept = task.given, task.ensemble
    logarithms = model.logarithms(mixture)
    log_theta = np.zeros((int(given.offsets[-1]), 1, len(used)))
    theta: list[FloatArray | None] = [None] * given.n_partitions
    for row, i in enumerate(task.useful):
        begin, k_i = int(given.offsets[i]), int(given.n_labels[i])
        labels = np.arange(k_i)
        if kept is not given:  # which has lost the labels that nobody carries
            labels = np.flatnonzero(given.marginals[begin : begin + k_i])
        rows = kept.offsets[row] + np.arange(len(labels))
        log_theta[begin + labels, 0] = logarithms.theta[rows, 0][:, used]
        shares = np.zeros((len(used), k_i))
        shares[:, labels] = mixture.theta[rows, 0][:, used].T
        theta[i] = shares
    return replace(
        result,
        centroids=MixtureCentroids(
            **vars(centroids),
            log_alpha=logarithms.alpha[0, used],
            log_theta=log_theta,
        ),
        details={
            **result.details,
            "alpha": mixture.alpha[0, used],
            "theta": theta,
        },
    )
