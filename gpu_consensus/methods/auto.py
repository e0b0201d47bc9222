"""Several methods, and the answer that the partitions explain best."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.protocol import Backend
from gpu_consensus.methods.call import Shared, Task, open_task
from gpu_consensus.methods.explained_share import evenness, explained_share
from gpu_consensus.methods.label_weights import partition_eci
from gpu_consensus.methods.portfolio import PORTFOLIO, Candidate, Trial
from gpu_consensus.result import Consensus
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.checks import IntArray
from gpu_consensus.util.progress import progress_bar
from gpu_consensus.util.warn import own_warnings_off

_VISITS = 100  # about how often all candidates together look at a label
_TIE = 1e-9  # what one candidate has to be better by; less is rounding
_EVEN = 30  # evenness counts one part in so many
_PLAIN = ("usenc", "kcc")  # their borders are plain where a few partitions are coarse
_AGREED = ("agreed",)  # the plain answer elsewhere
_CLEAR = 0.8  # of what the plain answer leaves unexplained, another has to leave less
_CLEARER = 0.5  # the same for labels of which some have fewer than there are clusters
_COARSE = (2, 5, 8)  # labels per cluster; partitions at least; one in so many
_TINY = 50  # a cluster so many times smaller than the mean cluster counts as lost
_LABEL_OBJECTS = 5_000  # labels are compared by, at most


def auto(
    ensemble: Any,
    n_clusters: int,
    *,
    weights: Any = None,
    on_unlabelled: str = "raise",
    backend: str | Backend = "auto",
    n_jobs: int | None = None,
    memory_limit: int | None = None,
    random_state: Any = None,
    progress: bool = False,
) -> Consensus:
    """Run several methods and keep the answer that the partitions explain best.

    The candidates, in this order: "cvote"; "cvote+kcc", its labels moved by
    :func:`kcc`; "lwgp"; "lwea"; "usenc"; "kcc" with its search (beyond 200,000 objects
    stopped after 20 steps and not refined); and "agreed", what :func:`kcc` makes of the
    three answers "cvote+kcc", "lwgp" and "kcc". The criterion is the share of its
    entropy that is explained, the mean over the partitions, weighted by ECI, of
    I(C; P_i) / H(C), less up to a thirtieth of it the more unequal the clusters are. It
    is computed from counts; no features are looked at, and no classes. A cluster of
    fewer than n / (50 ``n_clusters``) objects counts as lost: a few outliers would be
    explained best of all. A candidate that lost a cluster wins only where all have; of
    equals the first wins.

    Where a few partitions are coarse and all others fine, as :func:`cluster` makes
    them (five or more, but at most an eighth of all, have 2 ``n_clusters`` labels or
    fewer), all partitions make answers and the fine ones alone judge them. Clusters
    that overlap get their plain borders from "usenc" or "kcc", whichever has the larger
    criterion, and another candidate wins only if it leaves less than 0.8 of what that
    one leaves unexplained. "lwea" takes part there, up to 2,000 objects, "cvote+kcc"
    and "agreed" do not.

    Elsewhere "cvote" and "kcc" weigh partitions by ECI, "agreed" wins unless another
    candidate leaves less than half of what it leaves unexplained (less than 0.8, where
    no partition has fewer than ``n_clusters`` labels), "lwea" does not take part, and
    "usenc" only in that case.

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
        The basic partitions; missing labels are welcome.
    n_clusters : int
        Clusters of the consensus.
    weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
        As in :func:`kcc`. ECI multiplies the weights. A candidate for which memory is
        too small is left out, and so is ECI. Each candidate has a random stream of its
        own.

    Returns
    -------
    Consensus
        ``method`` names the winner, as in "auto:lwgp". ``value`` is its criterion,
        from 0 to 1, and ``objective`` 1 - ``value``. ``details`` has
        ``candidates``, a list with ``name`` and, for those that were run,
        ``criterion``, ``objective`` (the candidate's own), ``n_clusters``,
        ``smallest`` (objects of the smallest cluster), ``objects`` (that it learned
        from, where they are so many that some were drawn) and ``seconds``, for the
        others ``left_out``, the reason; ``eci_weights``, the weights of the share;
        ``eci_objects``, how many objects labels were compared by, at most 5,000;
        ``eci_left_out``, why ECI was left out, "" if it was not; and ``winner``, the
        details of the winner, such as how many objects its search looked at.

    References
    ----------
    A. Strehl, J. Ghosh, "Cluster ensembles - a knowledge reuse framework for combining
    multiple partitions", JMLR 3, 2002 (the best of several by a criterion of the labels
    alone); D. Huang, C.-D. Wang, J.-H. Lai, "Locally weighted ensemble clustering",
    IEEE Transactions on Cybernetics 48(5), 2018 (ECI); H. Theil, "On the estimation of
    relationships involving qualitative variables", American Journal of Sociology 76(1),
    1970 (I / H).

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    >>> result = gpc.auto(ens, 2, random_state=0)
    >>> result.labels.tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    True
    >>> result.method, round(result.value, 4)
    ('auto:agreed', 0.7949)
    """
    shared = Shared(
        weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
    )
    task = open_task("auto", ensemble, n_clusters, shared, visits=_VISITS)
    trial = _open_trial(task)
    told: list[dict[str, Any]] = []
    answers: list[_Found] = []
    with progress_bar(task.progress, "auto", len(PORTFOLIO)) as advance:
        for candidate in PORTFOLIO:
            found, about = _try(trial, candidate)
            told.append({"name": candidate.name, **about})
            if found is not None:
                answers.append(found)
            advance(note=candidate.name)
    if not answers:
        reasons = "; ".join(f"{one['name']}: {one['left_out']}" for one in told)
        raise MemoryError(f"auto has no candidate that fits memory ({reasons}).")
    best = _winner(trial, answers)
    return replace(task, method=f"auto:{best.name}").result(
        trial.found[best.name][task.labelled],
        objective=1.0 - best.criterion,
        value=best.criterion,
        converged=best.result.converged,
        details={
            "candidates": told,
            "eci_weights": trial.trusted,
            "eci_objects": None if trial.without_eci else trial.labels.n_objects,
            "eci_left_out": trial.without_eci,
            "winner": best.result.details,
        },
    )


class _Found(NamedTuple):
    """What a candidate found, and how good it is.

    ``whole`` says that no cluster was lost.
    """

    name: str
    result: Consensus
    criterion: float
    whole: bool

    def beats(self, other: _Found) -> bool:
        """Whether it is the better answer; not if both are equally good."""
        if self.whole != other.whole:
            return self.whole
        return self.criterion > other.criterion + _TIE

    def is_clear(self, other: _Found, share: float) -> bool:
        """Whether it leaves less unexplained than a share of what another leaves."""
        if self.whole != other.whole:
            return self.whole
        return 1.0 - self.criterion < share * (1.0 - other.criterion) - _TIE


def _winner(trial: Trial, answers: list[_Found]) -> _Found:
    """Return the plain answer, or the best if that is clearly better."""
    best = _best(answers)
    names = _PLAIN if trial.few_coarse else _AGREED
    share = _CLEAR if trial.few_coarse or trial.all_fine else _CLEARER
    plain = [one for one in answers if one.name in names]
    if not plain or best.is_clear(_best(plain), share):
        return best
    return _best(plain)


def _best(answers: list[_Found]) -> _Found:
    """Return the answer of the largest criterion, of equals the first."""
    best = answers[0]
    for one in answers[1:]:
        best = one if one.beats(best) else best
    return best


def _coarse(task: Task, n_labels: IntArray) -> npt.NDArray[np.bool_]:
    """Return which partitions are coarse: a few among fine ones, or none."""
    labels_per_cluster, least, one_in = _COARSE
    coarse = n_labels <= labels_per_cluster * task.k
    few = least <= int(coarse.sum()) <= len(coarse) / one_in
    return coarse & few


def _open_trial(task: Task) -> Trial:
    """Compare the labels with each other, once for all candidates."""
    labels = task.label_contingency(_LABEL_OBJECTS)
    coarse = _coarse(task, task.ensemble.n_labels)
    why = ""
    try:
        judging = task.weights * partition_eci(labels, task.weights)
    except MemoryError as error:
        why = str(error)
        judging = task.weights
    trusted = np.zeros(task.given.n_partitions)
    trusted[task.useful] = np.where(coarse, 0.0, judging)
    few_coarse = bool(coarse.any())
    all_fine = not few_coarse and int(task.ensemble.n_labels.min()) >= task.k
    trusted /= trusted.sum()
    return Trial(task, trusted, labels, why, few_coarse, all_fine)


def _try(trial: Trial, candidate: Candidate) -> tuple[_Found | None, dict[str, Any]]:
    """Run a candidate; return what it found, if anything, and what to tell of it."""
    why = candidate.left_out(trial)
    if why:
        return None, {"left_out": why}
    began = time.perf_counter()
    try:
        with own_warnings_off():
            result = candidate.run(trial)
    except MemoryError as error:
        return None, {"left_out": str(error) or "memory is too small"}
    assert result.centroids is not None
    task, labels = trial.task, to_host(result.labels)
    counts, offsets = result.centroids.counts, task.given.offsets
    share = explained_share(counts, offsets, trial.trusted)
    trial.found[candidate.name] = labels
    sizes = np.bincount(labels[labels >= 0])
    whole = (_TINY * task.k * sizes >= sizes.sum()).sum() == task.k
    criterion = share * (1.0 - (1.0 - evenness(sizes, task.k)) / _EVEN)
    return _Found(candidate.name, result, criterion, bool(whole)), {
        "criterion": criterion,
        "objective": result.objective,
        "n_clusters": result.n_clusters,
        "smallest": int(sizes.min()),
        "objects": _learned_from(result.details, task.ensemble.n_samples),
        "seconds": time.perf_counter() - began,
    }


def _learned_from(details: Mapping[str, Any], n_objects: int) -> int:
    """Return how many objects a candidate looked at before it assigned all of them."""
    drawn = details.get("sampled")  # by cvote, for its merges
    searched = details.get("search", {}).get("objects", n_objects)
    compared = details.get("label_objects", n_objects)
    return min(int(searched), int(compared), n_objects if drawn is None else len(drawn))
