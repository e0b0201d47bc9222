"""The rounds of lambda-consensus so far, in memory and in a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends import choose_backend
from gpu_consensus.backends.protocol import Backend
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.feedback.agreement import agreement, mean_pairwise
from gpu_consensus.loop.saved_call import SavedCall
from gpu_consensus.result import Consensus
from gpu_consensus.util.arrays import read_only, to_host
from gpu_consensus.util.checks import FloatArray


@dataclass
class Past:
    """The results of the rounds so far, and the partitions of the one at work.

    Attributes
    ----------
    rounds : list of list of ndarray
        The labels that sites gave, by round, the last of which may be unfinished. Of
        earlier ones they are kept with ``keep_rounds`` alone, else they are empty.
    """

    backend: str | Backend
    n_jobs: int | None
    keep_ensembles: bool
    keep_rounds: bool = False
    last: Consensus | None = None
    repeated: bool = False
    labels: list[npt.NDArray[np.int32]] = field(default_factory=list)
    objectives: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    agreement: list[FloatArray] = field(default_factory=list)
    pairwise: list[float] = field(default_factory=list)
    ensembles: list[Ensemble] = field(default_factory=list)
    rounds: list[list[npt.NDArray[Any]]] = field(default_factory=lambda: [[]])

    @property
    def n_rounds(self) -> int:
        """How many rounds are finished."""
        return len(self.labels)

    def message(self, t: int, feedback: str) -> npt.NDArray[np.int32] | None:
        """Return what sites get in round ``t``."""
        if t == 0:
            return None
        if feedback == "consensus":
            sent = self.labels[t - 1]
        elif t == self.n_rounds and self.ensembles:
            sent = self.ensembles[-1].labels
        else:
            sent = Ensemble.from_partitions(self.rounds[t - 1]).labels
        message: npt.NDArray[np.int32] = read_only(sent)
        return message

    def add(self, result: Consensus, ensemble: Ensemble) -> None:
        """Record the consensus of a round and the partitions it came from."""
        labels = to_host(result.labels)
        self.repeated = bool(self.labels) and same_partition(self.labels[-1], labels)
        self.last = result  # earlier ones would keep their ensembles in memory
        self.labels.append(labels)
        self.objectives.append(result.objective)
        self.values.append(result.value)
        lookups = ensemble.codes.size * ensemble.n_partitions
        there = choose_backend(
            self.backend, ensemble.codes, self.n_jobs, lookups=lookups
        )
        self.agreement.append(agreement(there, ensemble, labels[None])[:, 0])
        self.pairwise.append(mean_pairwise(there, ensemble))
        self.ensembles = [*self.ensembles, ensemble][0 if self.keep_ensembles else -1 :]
        if not (self.keep_rounds or self.keep_ensembles):
            self.rounds[-1] = []
        self.rounds.append([])

    def result(self) -> Consensus:
        """Return the last consensus, with the history of all."""
        assert self.last is not None
        details = {
            "labels": np.stack(self.labels),
            "values": np.array(self.values),
            "agreement": np.stack(self.agreement),
            "pairwise": np.array(self.pairwise),
            "n_rounds": len(self.labels) - 1,
            "repeated": self.repeated,
            "ensemble": self.ensembles[-1],
        }
        if self.keep_ensembles:
            details["ensembles"] = tuple(self.ensembles)
        return replace(
            self.last,
            history=np.array(self.objectives),
            converged=self.repeated,
            method=f"lambda_consensus:{self.last.method}",
            details=details,
        )

    def save(self, saved: SavedCall) -> None:
        """Keep all of it but the consensus of the last round, which is made again."""
        arrays: dict[str, npt.NDArray[Any]] = {
            f"labels_{t}_{i}": labels
            for t, labels_of in enumerate(self.rounds)
            for i, labels in enumerate(labels_of)
        }
        objects = [name for name, labels in arrays.items() if labels.dtype.hasobject]
        if objects:
            raise ValueError(
                "checkpoint keeps labels that are numbers or text, but a clusterer "
                "returned Python objects; leave checkpoint out, or return numbers."
            )
        if self.labels:
            arrays["labels"] = np.stack(self.labels)
            arrays["agreement"] = np.stack(self.agreement)
        for name in ("objectives", "values", "pairwise"):
            arrays[name] = np.array(getattr(self, name), dtype=np.float64)
        saved.save({"sites": [len(labels_of) for labels_of in self.rounds]}, arrays)

    def restore(self, saved: SavedCall, n_sites: int) -> None:
        """Take in what was saved."""
        if saved.state is None:
            return
        arrays = saved.arrays
        try:
            numbers = [int(number) for number in saved.state["sites"]]
            self.rounds = [
                [arrays[f"labels_{t}_{i}"] for i in range(number)]
                for t, number in enumerate(numbers)
            ]
            if "labels" in arrays:
                self.labels, self.agreement = (
                    list(arrays[name]) for name in ("labels", "agreement")
                )
            self.objectives, self.values, self.pairwise = (
                arrays[name].tolist() for name in ("objectives", "values", "pairwise")
            )
            finished = [*self.labels], self.agreement, self.objectives, self.pairwise
            if {len(parts) for parts in finished} != {len(numbers) - 1}:
                raise ValueError("its rounds differ in number")
            if numbers[-1] > n_sites:
                raise ValueError("it has too many sites")
        except (LookupError, TypeError, ValueError) as error:
            raise saved.damaged("its parts are not those of these rounds") from error
        if self.keep_ensembles:
            self.ensembles = [Ensemble.from_partitions(x) for x in self.rounds[:-1]]


def same_partition(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    """Whether two labellings are equal up to the names of their clusters.

    Examples
    --------
    >>> same_partition(np.array([0, 0, 1, -1]), np.array([1, 1, 0, -1]))
    True
    """
    if not np.array_equal(a < 0, b < 0):
        return False
    joint = np.unique(a.astype(np.int64) * (int(b.max()) + 2) + b)
    return len(joint) == len(np.unique(a)) == len(np.unique(b))
