"""The door: features or labels in, a number of clusters out."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from gpu_consensus.backends import choose_backend
from gpu_consensus.backends.numpy import n_threads
from gpu_consensus.backends.protocol import Backend
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.generate.features import count_distinct_rows
from gpu_consensus.generate.rows import METRICS, prepare
from gpu_consensus.generate.store import digest
from gpu_consensus.methods import FINDERS, METHODS
from gpu_consensus.select.features import FeatureSettings, select_from_rows
from gpu_consensus.select.kept import Kept
from gpu_consensus.select.labels import LabelSettings, select_from_labels
from gpu_consensus.select.result import Selection
from gpu_consensus.select.runner import Runner
from gpu_consensus.util.arrays import on_device, to_host
from gpu_consensus.util.checks import (
    IntArray,
    check_choice,
    check_int,
    check_share,
)
from gpu_consensus.util.memory import check_memory
from gpu_consensus.util.options import option_names
from gpu_consensus.util.sparse import is_sparse
from gpu_consensus.util.tables import check_features
from gpu_consensus.util.threads import one_thread
from gpu_consensus.util.weights import useful_partitions

KINDS = ("auto", "features", "labels")
LEAST_PARTITIONS = 4  # two in each half

Begin = Callable[[dict[str, Any], Any], Runner]
"""Opens the checkpoint of a call on checked data."""


def select_n_clusters(
    data: Any,
    candidates: Iterable[int] = range(2, 11),
    *,
    kind: str = "auto",
    method: str = "auto",
    metric: str = "euclidean",
    n_partitions: int = 20,
    share: float = 0.8,
    n_init: int = 20,
    n_null: int = 39,
    alpha: float = 0.05,
    max_objects: int = 2_000,
    backend: str | Backend = "auto",
    n_jobs: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    random_state: Any = None,
    progress: bool = False,
) -> Selection:
    """Choose the number of clusters, or say that there are none.

    Features are tested for structure: is k-means tighter than on data like it that has
    one mode only? If so, the number of clusters is the one of largest gap among those
    that subsamples repeat best. Labels can only be tested for agreement: the number of
    clusters is the one at which halves of the partitions have the same consensus and
    all partitions are explained best.

    Parameters
    ----------
    data : array_like, DataFrame, scipy sparse or Ensemble
        Features of shape (n_samples, n_features), or labels: an Ensemble, or an array
        of shape (n_samples, n_partitions).
    candidates : iterable of int, default range(2, 11)
        Numbers to choose from, each at least 2. Those above the number of distinct
        rows are skipped, and ``reason`` says so.
    kind : {"auto", "features", "labels"}, default "auto"
        What a table holds. "auto" takes floats as features and text as labels, and
        asks where integers may be either.
    method : str, default "auto"
        For labels: the consensus method, one of ``gpc.METHODS`` that takes a number of
        clusters; "auto" is ``kcc`` with its search.
    metric : {"euclidean", "cosine"}, default "euclidean"
        For features. "cosine" brings rows to length 1 first.
    n_partitions : int, default 20
        For features: subsamples that are clustered for each candidate.
    share : float in (0.5, 1], default 0.8
        For features: share of the rows in each of them.
    n_init : int, default 20
        For features: starts of k-means in each of them.
    n_null : int, default 39
        Draws from each null at most; p is at least 1 / (n_null + 1).
    alpha : float in (0, 0.5], default 0.05
        Above this p the answer is 1.
    max_objects : int, default 2000
        So many objects are looked at, drawn at random; the time does not grow beyond.
    backend : {"auto", "cupy", "native", "numpy"} or Backend, default "auto"
        Where the consensus of labels is computed. k-means on features always runs on
        the host. No answer depends on it.
    n_jobs : int, optional
        Threads; all cores by default. No answer depends on it.
    checkpoint : path, optional
        A file where finished parts are kept; the same call goes on from there and ends
        with the same answer. If ``random_state`` is None, its seed is used.
    random_state : int, Generator, RandomState, SeedSequence, optional
        Same seed, same answer.
    progress : bool, default False
        Draw progress bars.

    Returns
    -------
    Selection
        ``n_clusters``, the ``reason`` in a sentence, ``p_value``, ``alternatives``, a
        ``table`` with a row for each candidate, and how stable each object is.

    Notes
    -----
    *Features.* W(K) is the scatter within the best of five k-means. It is compared with
    data drawn from three nulls: principal components that are independent, columns that
    are tied by a Gaussian copula, and independent scores along the flattest axes of the
    leading components, each of the unimodal distribution nearest to its own, with its
    variance. Of the data and of all draws, -log W(K) is standardised by all others, and
    the maximum over K is ranked. A null is drawn only if those before it leave p at
    most alpha, and it ends early once p cannot come below alpha.
    Stability is the mean adjusted Rand index of pairs of subsamples, the gap the mean
    log W(K) of ten Gaussian draws of the same covariance minus that of the data; stable
    is what comes within 0.03 of the most stable. Clusters of fewer than 1% of the
    objects, or of fewer than three, are outliers: they are set aside, and the choice is
    made again without them.

    Columns are taken as they are: scale them first if their units differ. Sparse rows
    that were sampled are made dense. "cosine", sparse data and counts run, but how
    often the answer is right was measured for dense Euclidean features alone.

    Known to fail: one curved piece is called structure; nested circles and moons need labels (make partitions
    with many clusters, and pass them); parallel elongated clusters are split; a cluster
    of a twentieth of the other may go unnoticed, in many dimensions most of all. Of
    other uniform data, 5 to 13% is called structure.

    *Labels.* Partitions that all cut one blob in the same way agree, too: agreement is
    not structure. S is the mean chance-corrected element-centric similarity of the
    consensus of both halves of ten random halvings of the partitions, ANMI the average
    NMI of the consensus with all of them; the largest S x ANMI wins, and alternatives
    have at least 0.97 of it.

    References
    ----------
    Hartigan and Hartigan, The dip test of unimodality, Annals of Statistics 13, 1985.
    Tibshirani, Walther and Hastie, Estimating the number of clusters in a data set via
    the gap statistic, JRSS B 63, 2001.
    Gates, Wood, Hetrick and Ahn, Element-centric clustering comparison unifies
    overlaps and hierarchy, Scientific Reports 9, 2019.

    Examples
    --------
    >>> import numpy as np
    >>> import gpu_consensus as gpc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(120, 3))
    >>> gpc.select_n_clusters(X, range(2, 6), random_state=0).n_clusters
    1
    >>> X[:40] += 8
    >>> X[40:80, 0] -= 8
    >>> gpc.select_n_clusters(X, range(2, 6), random_state=0).n_clusters
    3
    """
    ks = check_candidates(candidates)
    check_choice("kind", kind, KINDS)
    method = check_choice("method", method, METHODS)
    metric = check_choice("metric", metric, METRICS)
    n_partitions = check_int("n_partitions", n_partitions, 2)
    share = _check_subsample(share)
    n_init = check_int("n_init", n_init, 1)
    alpha = _check_alpha(alpha)
    n_null = _check_n_null(n_null, alpha)
    max_objects = check_int("max_objects", max_objects, 10)
    threads = n_threads(n_jobs)
    choose_backend(backend, None, n_jobs)
    call = {
        "candidates": ks,
        "n_null": n_null,
        "alpha": alpha,
        "max_objects": max_objects,
    }
    begin = functools.partial(_begin, checkpoint, random_state, threads, bool(progress))
    if _holds_labels(data, kind):
        labelled = LabelSettings(ks, n_null, alpha)
        return _from_labels(data, labelled, max_objects, method, backend, call, begin)
    call |= {"n_partitions": n_partitions, "share": share, "n_init": n_init}
    settings = FeatureSettings(ks, n_partitions, share, n_init, n_null, alpha)
    return _from_features(data, settings, max_objects, metric, call, begin)


def check_candidates(candidates: Any) -> tuple[int, ...]:
    """Return candidates as ascending numbers, each once.

    Examples
    --------
    >>> check_candidates([4, 2, 2])
    (2, 4)
    >>> check_candidates(range(1, 4))
    Traceback (most recent call last):
    ...
    ValueError: candidates has 1 and should hold numbers >= 2; one cluster, that is no \
structure, is always considered.
    """
    if isinstance(candidates, (str, bytes)) or not isinstance(candidates, Iterable):
        raise TypeError(
            f"candidates={candidates!r} should be numbers of clusters, like "
            "range(2, 11)."
        )
    numbers = []
    for candidate in candidates:
        number = check_int("a number of candidates", candidate, 0)
        if number < 2:
            raise ValueError(
                f"candidates has {number} and should hold numbers >= 2; one cluster, "
                "that is no structure, is always considered."
            )
        numbers.append(number)
        if len(numbers) > 1000:
            raise ValueError(
                "candidates has more than 1000 numbers; choose fewer, such as every "
                "tenth."
            )
    if not numbers:
        raise ValueError(
            "candidates is empty; give at least one number of clusters >= 2."
        )
    return tuple(sorted(set(numbers)))


def _check_subsample(share: Any) -> float:
    number = check_share("share", share, open_low=True, open_high=False)
    if number <= 0.5:
        raise ValueError(
            f"share={share!r} should be in (0.5, 1], so that any two subsamples have "
            "rows in common."
        )
    return number


def _check_alpha(alpha: Any) -> float:
    number = check_share("alpha", alpha, open_low=True, open_high=True)
    if number > 0.5:
        raise ValueError(f"alpha={alpha!r} should be in (0, 0.5].")
    return number


def _check_n_null(n_null: Any, alpha: float) -> int:
    number = check_int("n_null", n_null, 2)
    least = 1 / (number + 1)
    if least > alpha * (1 + 1e-9):
        raise ValueError(
            f"n_null={number} cannot show structure: p is at least {least:.3g}, above "
            f"alpha={alpha:g}; draw at least {int(np.ceil(1 / alpha - 1e-9)) - 1}."
        )
    return number


def _holds_labels(data: Any, kind: str) -> bool:
    """Whether data are labels; raise where nobody can tell."""
    if isinstance(data, Ensemble):
        if kind == "features":
            raise TypeError(
                "kind='features' but data is an Ensemble, which holds labels; leave "
                "kind out."
            )
        return True
    if kind != "auto":
        return kind == "labels"
    if is_sparse(data):
        return False
    framed = hasattr(data, "dtypes") and hasattr(data, "columns")
    if framed:
        types = [getattr(t, "kind", "O") for t in data.dtypes]
    else:
        types = [getattr(getattr(data, "dtype", None), "kind", None)]
        types = [np.asarray(data).dtype.kind] if types == [None] else types
    if all(t in "iub" for t in types) or (types == ["O"] and not framed):
        raise ValueError(
            "data holds integers or objects, which may be labels or features; say "
            "kind='labels' or kind='features'."
        )
    return all(t in "OUST" for t in types)


def _sample(n: int, max_objects: int, runner: Runner) -> IntArray:
    """Draw the objects to look at, in their order."""
    if n <= max_objects:
        return np.arange(n)
    rng = np.random.default_rng(runner.seed_of("sample"))
    chosen = rng.choice(n, max_objects, replace=False, shuffle=False)
    return np.sort(chosen).astype(np.int64)


def _begin(
    checkpoint: Any,
    random_state: Any,
    threads: int,
    progress: bool,
    call: dict[str, Any],
    data: Any,
) -> Runner:
    """Open the checkpoint of a call; without one the data need not be read."""
    if checkpoint is not None:
        codes = data.codes if isinstance(data, Ensemble) else None
        call |= {"data": digest(data if codes is None else to_host(codes))}
    return Runner(Kept(checkpoint, call, random_state), threads, progress)


def _from_features(
    data: Any,
    settings: FeatureSettings,
    max_objects: int,
    metric: str,
    call: dict[str, Any],
    begin: Begin,
) -> Selection:
    X = check_features(data)
    n, d = X.shape
    m = min(n, max_objects)
    runner = begin(call | {"kind": "features", "metric": metric, "shape": [n, d]}, X)
    check_memory(
        f"select_n_clusters on {m} objects of {d} features",
        8 * m * d * (6 + 3 * runner.n_threads),
        None,
        "lower max_objects, or reduce the features first (PCA, TruncatedSVD)",
    )
    chosen = _sample(n, max_objects, runner)
    sample = X[chosen]
    sample = sample.toarray() if is_sparse(sample) else sample
    rows = prepare(sample, metric, np.float64)
    distinct = count_distinct_rows(rows.X, settings.candidates[0])
    if distinct < 2:
        raise ValueError(
            f"the {m} objects are all equal, so there is no number of clusters to "
            "choose."
        )
    if distinct < settings.candidates[0]:
        raise ValueError(
            f"candidates={list(settings.candidates)} are all above the {distinct} "
            "distinct rows; ask for smaller numbers."
        )
    with one_thread():
        return select_from_rows(rows.X, rows.exponent, chosen, n, settings, runner)


def _from_labels(
    data: Any,
    settings: LabelSettings,
    max_objects: int,
    method: str,
    backend: str | Backend,
    call: dict[str, Any],
    begin: Begin,
) -> Selection:
    ensemble = data if isinstance(data, Ensemble) else Ensemble(data)
    name = "kcc" if method == "auto" else method
    function = METHODS[name]
    if name in FINDERS or "n_clusters" not in option_names(function):
        raise ValueError(
            f"method={name!r} finds the number of clusters itself; choose one that "
            "takes it, such as 'kcc'."
        )
    n = ensemble.n_samples
    call = call | {"kind": "labels", "method": name, "n_samples": n}
    call |= {"weights": ensemble.weights.tolist()}
    runner = begin(call, ensemble)
    chosen = _sample(n, max_objects, runner)
    part = ensemble.subset(rows=chosen)
    useful = useful_partitions(part.n_labels, part.weights)
    if len(useful) < LEAST_PARTITIONS:
        raise ValueError(
            f"{len(useful)} partitions have labels of the {len(chosen)} objects and a "
            f"weight, and at least {LEAST_PARTITIONS} are needed, so that both halves "
            "can be compared; make more partitions."
        )
    part = part.subset(partitions=useful)
    known = option_names(function)
    options = {"backend": backend, "n_jobs": 1, "on_unlabelled": "keep"}
    options = {option: options[option] for option in options if option in known}
    if on_device(choose_backend(backend, part.codes).xp.empty(0)):
        runner = replace(runner, n_threads=1)  # each fit fills the device

    def fit(ens: Ensemble, k: int, seed: np.random.SeedSequence) -> Any:
        return to_host(function(ens, k, random_state=seed, **options).labels)

    return select_from_labels(part, chosen, n, settings, fit, runner)
