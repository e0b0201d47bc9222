"""Lambda-consensus: clusterers get the consensus as feedback and cluster again."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends import choose_backend
from gpu_consensus.backends.numpy import n_threads
from gpu_consensus.backends.protocol import Backend
from gpu_consensus.ensemble.distinct import check_distinct_rows, find_unlabelled
from gpu_consensus.ensemble.ensemble import Ensemble, as_ensemble
from gpu_consensus.feedback.sites import (
    LocalSite,
    Site,
    check_clusterer,
    check_scale,
    check_similarity,
)
from gpu_consensus.feedback.updates import FeedbackState
from gpu_consensus.feedback.views import SiteSettings, hash_features, make_sites
from gpu_consensus.generate.clusterers import describe
from gpu_consensus.loop.saved_call import SavedCall
from gpu_consensus.methods import METHODS
from gpu_consensus.methods.lambda_past import Past
from gpu_consensus.methods.prc_consensus import prc_consensus
from gpu_consensus.result import Consensus
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.checks import (
    FloatArray,
    check_choice,
    check_int,
    check_n_clusters,
    check_share,
)
from gpu_consensus.util.options import check_options, option_names
from gpu_consensus.util.progress import progress_bar
from gpu_consensus.util.warn import warn
from gpu_consensus.util.weights import useful_partitions

CONSENSUS: dict[str, Callable[..., Consensus]] = {**METHODS, "prc": prc_consensus}
FEEDBACKS = ("consensus", "all")
_OURS = ("n_clusters", "backend", "n_jobs", "memory_limit", "random_state", "progress")


def lambda_consensus(
    X: Any,
    n_clusters: int,
    lam: float = 0.9,
    n_rounds: int = 9,
    update: str = "full",
    *,
    n_clusterers: int | None = None,
    projection: int | str | None = "auto",
    clusterer: Any = "auto",
    scale: str | None = "rms",
    similarity: str | Callable[[Any], Any] = "gaussian",
    feedback: str = "consensus",
    method: str = "kcc",
    method_options: Mapping[str, Any] | None = None,
    stop_on_repeat: bool = True,
    keep_ensembles: bool = False,
    backend: str | Backend = "auto",
    n_jobs: int | None = None,
    memory_limit: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    random_state: Any = None,
    progress: bool = False,
) -> Consensus:
    """Cluster, agree, feed the consensus back, and cluster again.

    In round t = 0, 1, ... every clusterer r partitions its own view of the data; the
    consensus pi_t of these partitions goes back to the clusterers, which mix it into
    their data. Only labels travel.

    Parameters
    ----------
    X : array_like, DataFrame or scipy sparse of shape (n_samples, n_features), or list
        Features, seen by all clusterers, or a list with one entry per site: the
        features that this site alone sees (of any width, rows in the same order), or
        an object with a method ``cluster``, see
        :class:`~gpu_consensus.feedback.sites.Site`. Arrays of a device come to the
        host.
    n_clusters : int
        Clusters of every partition and of the consensus.
    lam : float in [0, 1], default 0.9
        Weight of the data. 1 feeds nothing back; 0 leaves only the feedback.
    n_rounds : int, default 9
        Rounds with feedback at most, after the round 0 without.
    update : str, default "full"
        How pi_t enters the data of the next round (z vectors, D distances, S
        similarities, D_0 Euclidean, b the one-hot code of an object's label):

        - "full": z <- [lam z, (1 - lam) b(pi_t)], more columns in every round;
        - "truncated": z <- [lam^(t+1) z_0, (1 - lam^(t+1)) b(pi_t)]. The paper prints
          the exponent t, with which round 0 would feed nothing back; t + 1 is what the
          recursion gives the data, and in round 1 the two updates agree;
        - "distances": D <- lam D + (1 - lam) [different clusters in pi_t], then points
          by Torgerson scaling, O(n^3) time and O(n^2) memory per clusterer at work;
        - "similarities": S <- lam S + (1 - lam) [same cluster in pi_t], O(n^2) memory.
    n_clusterers : int, optional
        Clusterers of a single ``X``, default 100 as in the paper. A list has one per
        site.
    projection : int, None or "auto", default "auto"
        Each clusterer sees its own fixed random projection of its features to so many
        dimensions; None, the features themselves. "auto" is the paper's choice: 3 for
        a single ``X`` (or its width, if smaller), but None for "prc", whose random
        orders differ, and for the sites of a list, whose data do.
    clusterer : str, clusterer or callable, default "auto"
        "kmeans", a scikit-learn clusterer or a callable ``(X, n_clusters, seed) ->
        labels`` for vectors and distances; "kernel_kmeans" or "prc" (pinch ratio
        clustering, a random order each) for similarities. "auto": "kmeans" and
        "kernel_kmeans".
    scale : {"rms", None}, default "rms"
        Divide each view by the root mean square distance of its objects, so that
        ``lam`` weighs things of one size; None is the paper's literal form. A Gaussian
        similarity has a scale of its own.
    similarity : {"gaussian", "linear"} or callable, default "gaussian"
        For ``update="similarities"``: exp(-d^2 / (2 sigma^2)), sigma the mean distance
        to the k-th neighbour, k = log(n) + 1; inner products; or your own function
        from a view to an (n_samples, n_samples) matrix, the same at every call.
    feedback : {"consensus", "all"}, default "consensus"
        Feed back the consensus labels, or for comparison the labels of all clusterers:
        b becomes X^b / sqrt(r), "same cluster" the co-association. With "full" the data
        then grow by n_clusterers n_clusters columns a round, and more than memory holds
        is refused.
    method : str, default "kcc"
        Consensus method, one of ``gpc.METHODS``, or "prc" on the co-association
        matrix. "kcc" takes utility "c" unless ``method_options`` says otherwise: as in
        the paper, k-means on X^b.
    method_options : mapping, optional
        Options of the method. Its seed is the same in every round, so that equal
        partitions have an equal consensus.
    stop_on_repeat : bool, default True
        Stop when a consensus equals that of the round before, up to the names of its
        clusters. The paper always runs all rounds.
    keep_ensembles : bool, default False
        Keep the partitions of every round, not only of the last.
    backend, n_jobs, memory_limit
        Of the consensus, as in :func:`kcc`. The clusterers run on the CPU, ``n_jobs``
        at a time (all cores by default); the result does not depend on it.
    checkpoint : path, optional
        A file that keeps the rounds, and the partitions of the one at work, at least
        every ten seconds: interrupted at any moment, the same call goes on from there
        and ends with the same answer. Not for sites that are objects of their own. A
        callable is known by its name only.
    random_state : int, Generator, RandomState, SeedSequence, optional
        Seed. What clusterer i draws depends on it and i alone. There are no warm
        starts: no clusterer begins a round where it ended the last.
    progress : bool, default False
        Draw a progress bar.

    Returns
    -------
    Consensus
        ``labels``, ``objective``, ``value``, ``confidence`` and ``predict`` are of the
        last round; ``history`` holds the objective of each round, so ``n_iter`` counts
        rounds, round 0 included. ``converged`` says whether the last consensus
        repeated that of the round before. In ``details``, T being the rounds that ran:

        - "labels": (T, n_samples), the consensus of each round;
        - "values": (T,), the method's value in each round;
        - "agreement": (T, n_clusterers), R_n of each clusterer with the consensus;
        - "pairwise": (T,), mean R_n of two clusterers, NaN if there is only one;
        - "n_rounds": T - 1; "repeated": as ``converged``;
        - "ensemble": the partitions of the last round; "ensembles": of each, if
          ``keep_ensembles``.

    Notes
    -----
    Where the partitions of a round differ in fewer objects than ``n_clusters``, as many
    clusters as there are different rows are looked for in it, and a warning says so.

    References
    ----------
    D. R. Heisterkamp, "Lambda consensus clustering".

    Examples
    --------
    >>> import numpy as np
    >>> import gpu_consensus as gpc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 6))
    >>> X[:20] += 4
    >>> X[20:40, :3] -= 4
    >>> result = gpc.lambda_consensus(X, 3, n_clusterers=10, random_state=0)
    >>> np.bincount(result.labels).tolist(), result.converged
    ([20, 20, 20], True)

    Two sites with different features of the same objects:

    >>> result = gpc.lambda_consensus([X[:, :2], X[:, 2:]], 3, random_state=0)
    >>> result.details["agreement"].shape[1]
    2
    """
    lam = check_share("lam", lam, open_low=False, open_high=False)
    n_rounds = check_int("n_rounds", n_rounds, 0)
    check_choice("feedback", feedback, FEEDBACKS)
    n_workers = n_threads(n_jobs)
    call: dict[str, Any] = {"method": "lambda_consensus"}
    if checkpoint is not None:
        call["X"] = hash_features(X)
        call["options"] = describe(
            {
                "n_clusters": n_clusters,
                "lam": lam,
                "n_rounds": n_rounds,
                "update": update,
                "n_clusterers": n_clusterers,
                "projection": projection,
                "clusterer": clusterer,
                "scale": scale,
                "similarity": similarity,
                "feedback": feedback,
                "method": method,
                "method_options": None
                if method_options is None
                else {**method_options},
                "stop_on_repeat": bool(stop_on_repeat),
                "keep_ensembles": bool(keep_ensembles),
            }
        )
    saved = SavedCall(checkpoint, call, random_state)
    seed_consensus, seed_sites = saved.seed.spawn(2)
    round_consensus = _RoundConsensus(
        check_int("n_clusters", n_clusters, 1),
        check_choice("method", method, CONSENSUS),
        _method_options(method, method_options),
        {"backend": backend, "n_jobs": n_jobs, "random_state": seed_consensus}
        | ({} if memory_limit is None else {"memory_limit": memory_limit}),
    )
    settings = SiteSettings(
        round_consensus.n_clusters,
        FeedbackState(lam, update),
        check_clusterer(clusterer, update),
        check_scale(scale),
        check_similarity(similarity),
        n_workers,
        memory_limit,
        _rounds_kept(n_rounds, update) if feedback == "all" else 0,
    )
    sites = make_sites(X, settings, n_clusterers, projection, seed_sites)
    choose_backend(backend, None, n_jobs)  # raises before the work if it cannot be had
    # a checkpoint of them all is needed to bring new sites to where the old ones were
    keep_rounds = saved.path is not None and feedback == "all"
    past = Past(backend, n_jobs, bool(keep_ensembles), keep_rounds)
    past.restore(saved, len(sites))
    for t in range(past.n_rounds):
        for site in sites:
            _as_before(site, past.message(t, feedback))
    n_workers = min(n_workers, len(sites))
    total = (n_rounds + 1) * len(sites)
    with (
        ThreadPoolExecutor(n_workers, "gpc-sites") as pool,
        progress_bar(progress, "lambda_consensus", total) as advance,
    ):
        for t in range(past.n_rounds, n_rounds + 1):
            message, partitions = past.message(t, feedback), past.rounds[-1]
            done = len(partitions)
            for site in sites[:done]:
                _as_before(site, message)
            advance(done, f"round {t}")
            todo = sites[done:]
            for labels in pool.map(_cluster, todo, [message] * len(todo)):
                partitions.append(labels)
                advance(1, f"round {t}")
                if saved.is_due():
                    past.save(saved)
            if saved.path is not None:
                past.save(saved)
            ensemble = Ensemble.from_partitions(partitions)
            past.add(round_consensus.run(ensemble), ensemble)
            if past.repeated and stop_on_repeat:
                break
    return past.result()


@dataclass(frozen=True)
class _RoundConsensus:
    """The consensus of one round."""

    n_clusters: int
    method: str
    options: Mapping[str, Any]
    shared: dict[str, Any]

    def run(self, ensemble: Ensemble) -> Consensus:
        options = {**self.shared, **self.options}
        function = CONSENSUS[self.method]
        if "n_clusters" not in option_names(function):
            return function(ensemble, **options)
        n_clusters = check_n_clusters(self.n_clusters, ensemble.n_samples)
        asked = options.get("weights")
        weights = as_ensemble(ensemble, None if isinstance(asked, str) else asked)[1]
        distinct = _count_distinct(ensemble, weights, n_clusters)
        if distinct < n_clusters:
            warn(
                f"the partitions of this round tell only {distinct} groups of objects "
                f"apart although n_clusters={n_clusters}; so many clusters are looked "
                "for."
            )
        return function(ensemble, min(distinct, n_clusters), **options)


def _as_before(site: Site, feedback: npt.NDArray[np.int32] | None) -> None:
    """Bring a site to where it was after a round of which the labels are known."""
    assert isinstance(site, LocalSite), "others are refused with a checkpoint"
    site.take(feedback)


def _cluster(site: Site, feedback: npt.NDArray[np.int32] | None) -> Any:
    return to_host(site.cluster(feedback))


def _method_options(method: Any, given: Mapping[str, Any] | None) -> Mapping[str, Any]:
    options = {} if given is None else dict(given)
    for name in _OURS:
        if name in options:
            raise ValueError(
                f"method_options has {name!r}, which lambda_consensus sets; give it to "
                "lambda_consensus itself."
            )
    check_options(method, CONSENSUS[method], options)
    return {"utility": "c", **options} if method == "kcc" else options


def _rounds_kept(n_rounds: int, update: str) -> int:
    """Return of how many rounds the last one has the feedback."""
    return n_rounds if update == "full" else min(1, n_rounds)


def _count_distinct(ensemble: Ensemble, weights: FloatArray, enough: int) -> int:
    """Count the objects that differ in their labels, and stop at ``enough``."""
    skip = find_unlabelled(ensemble, weights, "keep")
    try:
        check_distinct_rows(ensemble, weights, enough, skip)
    except ValueError:
        useful = useful_partitions(ensemble.n_labels, weights)
        rows = np.delete(to_host(ensemble.codes)[useful], skip, axis=1).T
        return len(np.unique(rows, axis=0))
    return enough
