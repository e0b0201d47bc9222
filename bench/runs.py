"""One timed call of kcc, checked against the paper's formula."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

import gpu_consensus as gpc

from . import formulas
from .data import DataSet
from .suite import collect_warnings


@dataclass(frozen=True)
class Run:
    """What came out of a call.

    Attributes
    ----------
    objective, r_n, seconds : float
    n_clusters : int
        Clusters that have members.
    difference : float
        Between the objective and the recomputed one, relative.
    rise : float
        Largest rise of the objective from one iteration to the next, relative.
    """

    objective: float
    r_n: float
    seconds: float
    n_clusters: int
    difference: float
    rise: float


def run_kcc(
    data: DataSet,
    utility: str,
    messages: dict[str, int],
    ensemble: gpc.Ensemble | None = None,
    **options: Any,
) -> Run:
    """Run kcc with the number of classes and look at the result.

    Parameters
    ----------
    data : DataSet
    utility : str
    messages : dict
        Where warnings are counted.
    ensemble : Ensemble, optional
        In place of the data set's.
    **options
        Of kcc.
    """
    ensemble = data.ensemble if ensemble is None else ensemble
    with collect_warnings(messages):
        begin = time.perf_counter()
        result = gpc.kcc(ensemble, data.n_clusters, utility, **options)
        seconds = time.perf_counter() - begin
    again = formulas.objective(ensemble, result.labels, utility)
    history = result.history
    rise = float(np.diff(history).max(initial=0.0))
    return Run(
        result.objective,
        gpc.metrics.adjusted_rand(result.labels, data.y),
        seconds,
        len(np.unique(result.labels[result.labels >= 0])),
        abs(again - result.objective) / max(abs(again), 1e-300),
        rise / max(abs(float(history[-1])), 1e-300),
    )
