"""The basic partition that agrees best with all of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gpu_consensus import metrics
from gpu_consensus.backends.protocol import Backend
from gpu_consensus.ensemble.contingency import EncodedClustering
from gpu_consensus.loop.count_by_cluster import count_by_cluster
from gpu_consensus.methods.call import Shared, Task, open_task
from gpu_consensus.methods.voting import IpvcRule
from gpu_consensus.result import Consensus
from gpu_consensus.util.checks import check_choice
from gpu_consensus.util.numbers import number_from, shown
from gpu_consensus.util.progress import progress_bar

_SIGN: dict[str, int] = {
    "adjusted_rand": 1,
    "nmi": 1,
    "purity": 1,
    "accuracy": 1,
    "variation_of_information": -1,
    "van_dongen": -1,
    "rand_distance": -1,
}
"""Measures of two clusterings; -1: lower is better."""

_SYMMETRIC = set(_SIGN) - {"purity"}


def best(
    ensemble: Any,
    measure: str | Callable[[Any, Any], float] = "rand_distance",
    *,
    higher_is_better: bool = True,
    weights: Any = None,
    on_unlabelled: str = "raise",
    backend: str | Backend = "auto",
    n_jobs: int | None = None,
    memory_limit: int | None = None,
    random_state: Any = None,
    progress: bool = False,
) -> Consensus:
    """Best of the basic partitions (BESTCLUSTERING, BEST, best of K).

    The partition whose measure against all partitions, itself included, has the best
    mean by weight; the first of equals. Its number of clusters is that of the
    consensus. For the Rand distance, and without gaps, its mean distance is at most
    twice the least that any partition has.

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
        The basic partitions. Where a partition has no label, it is completed first:
        the object goes to the cluster in whose members its other labels have the
        largest mean share, the rule of ``Consensus.predict``. Completed partitions are
        compared with the partitions as they are.
    measure : str or callable, default "rand_distance"
        A measure of :mod:`gpu_consensus.metrics` for two label vectors, by name or as
        the function, or your own ``measure(partition, labels) -> float``.
    higher_is_better : bool, default True
        Of a measure of your own; of ours it is known.
    weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
        As in :func:`kcc`; nothing is drawn here, so
        ``random_state`` has no effect.

    Returns
    -------
    Consensus
        ``value`` is the mean of the measure over the partitions, negative if lower is
        better; ``objective`` is minus that. ``details["partition"]``: which partition
        it is; ``details["criterion"]``: the mean measure of each, NaN for those of
        weight 0.

    References
    ----------
    A. Gionis, H. Mannila, P. Tsaparas, "Clustering aggregation", ICDE 2005; N. Nguyen,
    R. Caruana, "Consensus clusterings", ICDM 2007, Eq. 4 (any measure).

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    >>> result = gpc.best(ens, "nmi")
    >>> result.details["partition"], result.labels.tolist()
    (0, [0, 0, 1, 1])
    """
    name = next((n for n in _SIGN if measure is getattr(metrics, n)), measure)
    function: Callable[[Any, Any], float]
    if callable(name):
        sign, function = (1 if higher_is_better else -1), name
    else:
        sign = _SIGN[check_choice("measure", name, _SIGN)]
        function = getattr(metrics, name)
    shared = Shared(
        weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
    )
    task = open_task("best", ensemble, None, shared, finds_n_clusters=True)
    n_partitions = task.ensemble.n_partitions
    # of two complete partitions, these measures do not ask which comes first
    is_own = callable(name)
    is_symmetric = (
        not is_own and name in _SYMMETRIC and not task.ensemble.n_missing.any()
    )
    values = np.empty((n_partitions, n_partitions))
    with progress_bar(task.progress, "best", n_partitions) as advance:
        for i in range(n_partitions):
            candidate = _completed(task, i)
            others = range(i, n_partitions) if is_symmetric else range(n_partitions)
            for j in others:
                values[i, j] = _compare(task, j, candidate, function, is_own)
            if is_symmetric:
                values[i:, i] = values[i, i:]
            advance()
    means = [math.fsum(task.weights * row) for row in values]
    winner = int(np.argmax(sign * np.array(means)))
    criterion = np.full(task.given.n_partitions, np.nan)
    criterion[task.useful] = means
    return task.result(
        _completed(task, winner).codes,
        objective=-sign * means[winner],
        value=sign * means[winner],
        details={"partition": int(task.useful[winner]), "criterion": criterion},
    )


def _completed(task: Task, i: int) -> EncodedClustering:
    """Return partition ``i`` with a label for every object."""
    codes, k_i = task.codes[i], int(task.ensemble.n_labels[i])
    absent = np.flatnonzero(codes == k_i)
    if absent.size:
        counts = count_by_cluster(
            task.backend,
            task.ensemble.codes,
            task.ensemble.offsets,
            codes,
            k_i,
            task.memory_limit,
        )
        rule = IpvcRule(task.ensemble, task.weights)
        table, _ = rule.table(counts[:, None])
        others = np.ascontiguousarray(task.codes[:, absent])
        assigned = task.backend.assign(
            task.backend.to_device(others),
            task.ensemble.offsets,
            task.backend.to_device(table),
        )
        codes = codes.copy()
        codes[absent] = task.backend.to_host(assigned.assignment)[0]
    return EncodedClustering(codes, k_i, f"partition {i}")


def _compare(
    task: Task,
    j: int,
    candidate: EncodedClustering,
    function: Callable[[Any, Any], float],
    is_own: bool,
) -> float:
    """Return the measure between partition ``j`` and a complete one."""
    codes, k_j = task.codes[j], int(task.ensemble.n_labels[j])
    if not is_own:
        return function(EncodedClustering(codes, k_j, f"partition {j}"), candidate)
    here = codes < k_j
    value = function(
        codes[here].astype(np.int64), candidate.codes[here].astype(np.int64)
    )
    return number_from(f"measure={shown(function)}", value)
