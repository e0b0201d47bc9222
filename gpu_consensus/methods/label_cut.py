"""The consensus that ``lwgp`` and ``usenc`` share: one cut, other weights of edges."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu_consensus.methods.call import Task
from gpu_consensus.methods.label_contingency import LabelContingency
from gpu_consensus.methods.label_graph import cut_objects, normalised_cut
from gpu_consensus.methods.label_weights import SMALLEST, label_eci
from gpu_consensus.result import Consensus
from gpu_consensus.util.weights import vote_weights


def cut_by_labels(
    task: Task, labels: LabelContingency, theta: float | None = None
) -> Consensus:
    """Return the consensus by a cut of the graph of objects and labels.

    Parameters
    ----------
    task : Task
    labels : LabelContingency
        Of the task's ensemble.
    theta : float, optional
        How slowly the trust in a label, the weight of its edges, falls with entropy
        (LWGP); without it all labels are trusted alike (U-SENC).
    """
    edges = vote_weights(task.weights)[labels.partition]
    details: dict[str, Any] = {}
    if theta is not None:
        eci = label_eci(labels, task.weights, theta)
        edges = edges * np.maximum(eci, SMALLEST)
        details["eci"] = task.by_given_partition(labels.by_partition(eci))
    cut = cut_objects(task, labels, edges)
    objective, value = normalised_cut(task, labels, edges, cut.labels)
    details |= {
        "eigenvalues": cut.eigenvalues,
        "label_objects": labels.n_objects,
        "kmeans_objects": cut.kmeans_objects,
    }
    return task.result(cut.labels, objective=objective, value=value, details=details)
