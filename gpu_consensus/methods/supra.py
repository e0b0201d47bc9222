"""The best of CSPA, HGPA and MCLA by average normalised mutual information."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.protocol import Backend
from gpu_consensus.ensemble.contingency import (
    EncodedClustering,
    contingency,
    information,
)
from gpu_consensus.graphs import Partitioner, choose_partitioner
from gpu_consensus.graphs.graph_cut import GraphCut
from gpu_consensus.graphs.incidence import Incidence
from gpu_consensus.methods.call import Shared, Task, open_task
from gpu_consensus.methods.cspa import run_cspa
from gpu_consensus.methods.hgpa import run_hgpa
from gpu_consensus.methods.mcla import run_mcla
from gpu_consensus.result import Consensus
from gpu_consensus.util.checks import check_int

Run = Callable[[Task, Incidence, Partitioner, int], GraphCut]

_RUNS: dict[str, Run] = {"cspa": run_cspa, "hgpa": run_hgpa, "mcla": run_mcla}


def supra(
    ensemble: Any,
    n_clusters: int,
    *,
    cspa_limit: int = 4000,
    partitioner: str = "auto",
    imbalance: float | None = 0.05,
    weights: Any = None,
    on_unlabelled: str = "raise",
    backend: str | Backend = "auto",
    n_jobs: int | None = None,
    memory_limit: int | None = None,
    random_state: Any = None,
    progress: bool = False,
) -> Consensus:
    """Supra-consensus: the best of CSPA, HGPA and MCLA by average NMI.

    What the KCC paper calls GP and the SEC paper GCC.

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
        The basic partitions; missing labels are welcome.
    n_clusters : int
        Clusters of the consensus.
    cspa_limit : int, default 4000
        CSPA, which needs all pairs, is left out where more objects differ in their
        labels (the original leaves it out above 1000 objects), or where memory is too
        small for it; ``details`` says so.
    partitioner, imbalance
        For all three, as in :func:`cspa` and :func:`hgpa`.
    weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
        As in :func:`kcc`.

    Returns
    -------
    Consensus
        ``value`` is the average NMI: sum_i w_i n_i NMI(consensus, partition i) divided
        by sum_i w_i n_i, over the n_i objects that partition i has labelled; NMI is
        MI / sqrt(H H'), and 0 if an entropy is 0. ``objective`` is 1 - ``value``.
        ``details`` has ``winner`` (the first of the three in ties), ``anmi`` and
        ``partitioners`` by method, ``skipped`` with reasons, and the winner's own.

    References
    ----------
    A. Strehl, J. Ghosh, "Cluster ensembles - a knowledge reuse framework for combining
    multiple partitions", JMLR 3, 2002, sections 2.2 and 3.5.

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    >>> result = gpc.supra(ens, 2, random_state=0)
    >>> result.details["winner"], round(result.value, 4)
    ('cspa', 0.7819)
    """
    chosen = choose_partitioner(partitioner, imbalance)
    cspa_limit = check_int("cspa_limit", cspa_limit, 0)
    shared = Shared(
        weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
    )
    task = open_task("supra", ensemble, n_clusters, shared)
    incidence, seed = (
        task.incidence,
        task.seed(),
    )
    cuts: dict[str, GraphCut] = {}
    skipped: dict[str, str] = {}
    n_distinct = len(incidence.copies)
    for name, run in _RUNS.items():
        if name == "cspa" and n_distinct > cspa_limit:
            skipped[name] = (
                f"{n_distinct} objects differ in their labels, more than "
                f"cspa_limit={cspa_limit}."
            )
            continue
        try:
            cuts[name] = run(task, incidence, chosen, seed)
        except MemoryError as error:
            if name != "cspa":
                raise
            skipped[name] = str(error)
    anmi = {name: average_nmi(task, one.labels) for name, one in cuts.items()}
    winner = max(anmi, key=lambda name: anmi[name])
    details = {
        **cuts[winner].details,
        "winner": winner,
        "anmi": anmi,
        "partitioners": {n: one.details["partitioner"] for n, one in cuts.items()},
        "skipped": skipped,
    }
    return task.result(
        cuts[winner].labels,
        objective=1.0 - anmi[winner],
        value=anmi[winner],
        details=details,
    )


def average_nmi(task: Task, labels: npt.NDArray[np.intp]) -> float:
    """Return the average NMI of labels with the partitions of a task.

    Parameters
    ----------
    task : Task
    labels : ndarray of shape (n_labelled,)
        0-based.
    """
    consensus = EncodedClustering(labels, int(labels.max()) + 1, "labels")
    total = weight = 0.0
    codes = task.codes
    for i, k_i in enumerate(task.ensemble.n_labels.tolist()):
        partition = EncodedClustering(codes[i], k_i, f"partition {i}")
        table = contingency(partition, consensus)
        h, h_consensus, vi = information(table)
        share = float(task.weights[i]) * table.n_samples
        weight += share
        if h > 0 and h_consensus > 0:
            nmi = (h + h_consensus - vi) / 2 / np.sqrt(h * h_consensus)
            total += share * max(float(nmi), 0.0)
    return total / weight
