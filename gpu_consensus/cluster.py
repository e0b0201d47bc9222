"""Features to labels: make basic partitions, then find their consensus."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gpu_consensus.backends import choose_backend
from gpu_consensus.generate.generate_partitions import generate_partitions
from gpu_consensus.generate.store import stored_seed
from gpu_consensus.loop.utilities import parse_utility
from gpu_consensus.methods import FINDERS, METHODS, consensus
from gpu_consensus.methods.label_weights import check_word
from gpu_consensus.methods.lambda_consensus import lambda_consensus
from gpu_consensus.result import Consensus
from gpu_consensus.select.result import Selection
from gpu_consensus.select.select_n_clusters import select_n_clusters
from gpu_consensus.util.checks import (
    check_choice,
    check_int,
    check_n_clusters,
    seed_sequence,
)
from gpu_consensus.util.numbers import shown
from gpu_consensus.util.options import (
    as_options,
    check_options,
    finds_n_clusters,
    option_names,
)
from gpu_consensus.util.paths import check_no_link, check_path
from gpu_consensus.util.warn import warn

_SECOND_STAGE = 0xC0115E  # parts its seed from those of the partitions
_SELECTION = 0x5E1EC7
_FIRST_STAGE = ("n_partitions", "strategy", "n_clusters", "k_range")


def cluster(
    X: Any,
    n_clusters: int | str | None = None,
    *,
    method: str = "auto",
    n_partitions: int = 100,
    strategy: str = "rps",
    k_range: tuple[int, int] | None = None,
    metric: str = "euclidean",
    base: Any = "kmeans",
    generate_options: Mapping[str, Any] | None = None,
    method_options: Mapping[str, Any] | None = None,
    backend: str = "auto",
    n_jobs: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    random_state: Any = None,
    progress: bool = False,
) -> Consensus:
    """Cluster features many times and return the clustering that agrees best.

    Parameters
    ----------
    X : array_like, DataFrame or scipy sparse of shape (n_samples, n_features)
        Features; for "lambda_consensus" also a list of views.
    n_clusters : int or "auto", optional
        Clusters of the consensus. "auto" is what :func:`select_n_clusters` finds among
        2 to 10, with its defaults: 1, and a warning, where there is no structure. For
        ``"best"``, ``"fusion_transfer"`` and ``"least_squares"``, which find their
        number, it only guides how the basic partitions are made. These methods, and
        those that vote, do not need it.
    method : str, default "auto"
        Consensus method, one of ``gpc.METHODS``; "auto" runs several of them and keeps
        the answer that the partitions explain best. Or "lambda_consensus", whose
        ``n_partitions`` clusterers get the consensus as feedback. It makes its
        partitions itself: ``strategy``, ``k_range``, ``metric`` and ``base`` do not
        count then.
    n_partitions : int, default 100
        Basic partitions to make.
    strategy : str, default "rps"
        What varies between them; see :func:`generate_partitions`.
    k_range : (int, int), optional
        Clusters of the basic partitions; by default several for each of ``n_clusters``,
        as :func:`generate_partitions` says.
    metric : {"euclidean", "cosine"}, default "euclidean"
        Distance of the basic partitions; "cosine" for text.
    base : "kmeans", clusterer or callable, default "kmeans"
        What makes the basic partitions.
    generate_options, method_options : mapping, optional
        More options of :func:`generate_partitions` and of the method, such as
        ``{"utility": "nh", "n_init": 20}``.
    backend : {"auto", "cupy", "native", "numpy"}, default "auto"
        Where to compute.
    n_jobs : int, optional
        Threads; all cores by default. The labels do not depend on it.
    checkpoint : path, optional
        A folder where each finished partition is kept and, for methods that take a
        checkpoint, the state of the consensus (with "auto" also the parts of the
        selection); the same call goes on from there and ends with the same answer.
    random_state : int, Generator, RandomState, SeedSequence, optional
        Same seed, same labels.
    progress : bool, default False
        Draw progress bars.

    Returns
    -------
    Consensus
        As the method returns it; ``details["ensemble"]`` holds the basic partitions,
        ``details["seconds"]`` what the two stages took and, with "auto",
        ``details["selection"]`` why there are so many clusters.

    Examples
    --------
    >>> import numpy as np
    >>> import gpu_consensus as gpc
    >>> X = np.random.default_rng(0).normal(size=(60, 5))
    >>> X[::3] += 9
    >>> result = gpc.cluster(X, 2, n_partitions=20, random_state=0)
    >>> np.bincount(result.labels).tolist() in ([20, 40], [40, 20])
    True
    >>> result.details["ensemble"].n_partitions
    20
    """
    check_choice("method", method, [*METHODS, "lambda_consensus"])
    if isinstance(n_clusters, str):
        check_choice("n_clusters", n_clusters, ["auto"])
    made = as_options("generate_options", generate_options)
    for_method = as_options("method_options", method_options)
    _check_second_stage(method, n_clusters, for_method, X)
    # errors of the second stage should not come only after the first
    choose_backend(for_method.get("backend", backend), None, n_jobs)
    shared: dict[str, Any]
    shared = {"backend": backend, "n_jobs": n_jobs, "progress": progress}
    if method == "lambda_consensus":
        if made:
            raise ValueError(
                f"generate_options={shown(generate_options)} is of no use to "
                "lambda_consensus, which makes its partitions itself; leave it out."
            )
        if checkpoint is not None:
            raise ValueError(
                f"checkpoint={str(checkpoint)!r} is of no use to lambda_consensus, "
                "which keeps none; leave it out."
            )
    else:
        _refuse_own("generate_options", made, _FIRST_STAGE)
        check_options("generate_partitions", generate_partitions, made)
    more: dict[str, Any] = {}
    if isinstance(n_clusters, str):
        if random_state is not None:  # a generator is drawn from once
            random_state = seed_sequence(random_state)
        selection = _select(X, metric, checkpoint, random_state, shared)
        n_clusters, more = selection.n_clusters, {"selection": selection}
    if method == "lambda_consensus":
        own = {"n_clusterers": n_partitions, "random_state": random_state}
        assert n_clusters is not None  # it has no default there
        result = lambda_consensus(X, n_clusters, **shared | own | for_method)
        return replace(result, details={**result.details, **more})
    seeds: list[np.random.SeedSequence | None] = [None, None]
    if random_state is not None:  # a checkpoint has a seed of its own
        seeds = [*seed_sequence(random_state).spawn(2)]
    if checkpoint is not None:
        folder = check_path("checkpoint", checkpoint)
        made = {"checkpoint": folder} | made
        if "checkpoint" in option_names(METHODS[method]):
            check_no_link(folder / "consensus.npz", "a checkpoint")
            for_method = {"checkpoint": folder / "consensus.npz"} | for_method
    began = time.perf_counter()
    first = shared | {"random_state": seeds[0], "metric": metric, "base": base} | made
    ensemble = generate_partitions(
        X, n_partitions, strategy, n_clusters, k_range, **first
    )
    keeps_seed = "checkpoint" in option_names(METHODS[method])
    if seeds[1] is None and made.get("checkpoint") is not None and not keeps_seed:
        kept = stored_seed(check_path("checkpoint", made["checkpoint"]))
        seeds[1] = np.random.SeedSequence(
            kept.entropy,
            spawn_key=(*kept.spawn_key, _SECOND_STAGE),
            pool_size=kept.pool_size,
        )
    between = time.perf_counter()
    result = consensus(
        ensemble,
        None if method in FINDERS else n_clusters,
        method,
        **shared | {"random_state": seeds[1]} | for_method,
    )
    seconds = (between - began, time.perf_counter() - between)
    more |= {"ensemble": ensemble, "seconds": seconds}
    return replace(result, details={**result.details, **more})


def _select(
    X: Any,
    metric: str,
    checkpoint: Any,
    seed: np.random.SeedSequence | None,
    shared: dict[str, Any],
) -> Selection:
    """Choose the number of clusters; the seeds of both stages stay as they are."""
    if isinstance(X, (list, tuple)) and X and np.ndim(X[0]) == 2:
        raise TypeError(
            "n_clusters='auto' takes one table of features, not views; say how many "
            "clusters you want."
        )
    if seed is not None:
        seed = np.random.SeedSequence(
            seed.entropy,
            spawn_key=(*seed.spawn_key, _SELECTION),
            pool_size=seed.pool_size,
        )
    file = None
    if checkpoint is not None:
        folder = check_path("checkpoint", checkpoint)
        folder.mkdir(exist_ok=True)
        file = folder / ".selection.json"  # hidden: partitions want a folder of theirs
    selection = select_n_clusters(
        X,
        kind="features",
        metric=metric,
        checkpoint=file,
        random_state=seed,
        **shared,
    )
    if selection.n_clusters == 1:
        warn(f"n_clusters='auto' gives one cluster: {selection.reason}")
    return selection


def _check_second_stage(
    method: str, n_clusters: int | str | None, options: Mapping[str, Any], X: Any
) -> None:
    """Refuse what the method would refuse after the partitions were made."""
    function = METHODS.get(method, lambda_consensus)
    _refuse_own("method_options", options, ("n_clusters",))
    check_options(method, function, options)
    if n_clusters is None and not finds_n_clusters(function):
        raise TypeError(
            f"n_clusters=None should be an integer >= 1; method {method!r} does not "
            "find the number of clusters."
        )
    if n_clusters is not None and not isinstance(n_clusters, str):
        n_clusters = check_int("n_clusters", n_clusters, 1)
        shape = (len(X),) if isinstance(X, list) else getattr(X, "shape", ())
        if shape and method != "lambda_consensus":  # which may have views
            check_n_clusters(n_clusters, shape[0])
    if "utility" in options:
        parse_utility(options["utility"])
    if isinstance(options.get("weights"), str):
        check_word(options["weights"])


def _refuse_own(where: str, options: Mapping[str, Any], own: tuple[str, ...]) -> None:
    """Refuse what is given to ``cluster`` itself."""
    for name in own:
        if name in options:
            raise TypeError(
                f"{where} has {name}={shown(options[name])}; give it as {name} of the "
                "call itself."
            )
