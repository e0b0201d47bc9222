"""The candidates of ``auto``: how each is run, and when it is left out."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.loop import search
from gpu_consensus.methods.call import Shared, Task, open_task
from gpu_consensus.methods.cvote import cvote
from gpu_consensus.methods.kcc import kcc
from gpu_consensus.methods.label_contingency import LabelContingency
from gpu_consensus.methods.label_cut import cut_by_labels
from gpu_consensus.methods.label_weights import THETA
from gpu_consensus.methods.lwea import check_size, link_by_labels
from gpu_consensus.result import Consensus
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.checks import FloatArray

_MERGE_OBJECTS = 5_000  # that decide on the merges of cvote, at most
_AGREEING = ("cvote+kcc", "lwgp", "kcc")  # whose answers are brought together
_PAIRED = 2_000  # objects whose pairs are looked at, at most: n^2 would cost too much
_FEW_STEPS = 20  # of kcc, where objects are so many that its search takes a sample


@dataclass
class Trial:
    """What the candidates of one call share.

    Attributes
    ----------
    task : Task
        The call of ``auto``.
    trusted : ndarray of shape (r,)
        The weights of the given partitions times their ECI, 0 for the coarse ones
        where these are few; they sum to 1.
    labels : LabelContingency
        Of the task's ensemble.
    without_eci : str
        Why ECI was left out; "" if it was not.
    few_coarse : bool
        Whether a few partitions are coarse and all others fine.
    all_fine : bool
        Whether none is coarse, and all have as many labels as there are clusters.
    found : dict
        The labels of the candidates that were run, by name; -1 for unlabelled objects.
    """

    task: Task
    trusted: FloatArray
    labels: LabelContingency
    without_eci: str = ""
    few_coarse: bool = False
    all_fine: bool = False
    found: dict[str, npt.NDArray[np.int32]] = field(default_factory=dict)

    def shared(self, name: str, weights: FloatArray) -> Shared:
        """Return the shared options of a candidate.

        Its random stream comes from the seed and its name alone: a candidate that is
        left out changes no other.
        """
        task, seeds = self.task, self.task.draws
        own = np.random.SeedSequence(
            seeds.entropy,
            spawn_key=(*seeds.spawn_key, zlib.crc32(name.encode())),
            pool_size=seeds.pool_size,
        )
        return Shared(
            weights,
            "raise" if not task.skip.size else "keep",
            task.backend,
            task.n_jobs,
            task.memory_limit,
            own,
        )

    def open(self, name: str) -> Task:
        """Open the task of a candidate that shares ``labels``."""
        task = self.task
        return open_task(
            name, task.given, task.k, self.shared(name, task.given_weights)
        )

    def call(
        self, name: str, method: Callable[..., Consensus], weights: Any, **options: Any
    ) -> Consensus:
        """Run a method as a candidate."""
        shared = self.shared(name, weights)._asdict()
        return method(self.task.given, self.task.k, **shared, **options)


class Candidate(NamedTuple):
    """One way to an answer.

    ``left_out`` says why it is not run, "" if it is.
    """

    name: str
    run: Callable[[Trial], Consensus]
    left_out: Callable[[Trial], str]


def _cvote(trial: Trial) -> Consensus:
    weights = trial.task.given_weights if trial.few_coarse else trial.trusted
    return trial.call("cvote", cvote, weights, merge_objects=_MERGE_OBJECTS)


def _no_cvote(trial: Trial) -> str:
    most = int(trial.task.ensemble.n_labels.max())
    if most < trial.task.k:
        return f"no partition has n_clusters={trial.task.k} labels, at most {most}"
    return ""


def _polish(trial: Trial) -> Consensus:
    start = trial.found["cvote"]
    name = "cvote+kcc"
    return trial.call(name, kcc, trial.trusted, init=start, search=False)


def _no_polish(trial: Trial) -> str:
    if trial.few_coarse:
        return "a few partitions are coarse and the others fine: it brings nothing"
    if "cvote" not in trial.found:
        return "it starts from the labels of cvote, which was left out"
    n_found = int(trial.found["cvote"].max()) + 1
    if n_found < trial.task.k:
        return f"it starts from the labels of cvote, which found {n_found} clusters"
    return ""


def _lwgp(trial: Trial) -> Consensus:
    return cut_by_labels(trial.open("lwgp"), trial.labels, THETA)


def _lwea(trial: Trial) -> Consensus:
    task = trial.open("lwea")
    check_size(task)
    return link_by_labels(task, trial.labels, THETA)


def _no_lwea(trial: Trial) -> str:
    if not trial.few_coarse:
        return "it is for fine partitions beside a few coarse ones"
    n = trial.task.ensemble.n_samples
    if n > _PAIRED:
        return f"it looks at all pairs, and of {n:,} objects they are too many"
    return ""


def _usenc(trial: Trial) -> Consensus:
    return cut_by_labels(trial.open("usenc"), trial.labels)


def _no_usenc(trial: Trial) -> str:
    if trial.few_coarse or trial.all_fine:
        return ""
    return "some partitions have fewer labels than there are clusters"


def _kcc(trial: Trial) -> Consensus:
    weights = trial.task.given_weights if trial.few_coarse else trial.trusted
    return trial.call("kcc", kcc, weights, **_steps(trial))


def _steps(trial: Trial) -> dict[str, Any]:
    """Return options of kcc that keep it from taking longer than all others."""
    many = trial.task.ensemble.n_samples > search.MOST_OBJECTS
    return {"max_iter": _FEW_STEPS, "refine": False} if many else {}


def _agreed(trial: Trial) -> Consensus:
    task = trial.task
    answers = np.array([trial.found[name] for name in _AGREEING])[:, task.labelled]
    shared = trial.shared("agreed", np.ones(len(answers)))._asdict()
    ensemble = Ensemble.from_partitions(list(answers))
    found = kcc(ensemble, task.k, **shared, **_steps(trial))
    return trial.open("agreed").result(
        to_host(found.labels),
        objective=found.objective,
        value=found.value,
        converged=found.converged,
        details=found.details,
    )


def _not_agreed(trial: Trial) -> str:
    if trial.few_coarse:
        return "a few partitions are coarse, and make answers plain enough"
    missing = [name for name in _AGREEING if name not in trial.found]
    if missing:
        return f"it needs the labels of {', '.join(missing)}"
    if all(trial.found[name].max() + 1 < trial.task.k for name in _AGREEING):
        return "no answer that it could take up has all clusters"
    return ""


def _never(trial: Trial) -> str:
    return ""


PORTFOLIO = (
    Candidate("cvote", _cvote, _no_cvote),
    Candidate("cvote+kcc", _polish, _no_polish),
    Candidate("lwgp", _lwgp, _never),
    Candidate("lwea", _lwea, _no_lwea),
    Candidate("usenc", _usenc, _no_usenc),
    Candidate("kcc", _kcc, _never),
    Candidate("agreed", _agreed, _not_agreed),
)
"""In this order; of equals the first wins."""
