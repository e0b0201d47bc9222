"""One method on one set, for ``bench quality``: labels, measures, seconds.

Calls are made in a worker process, so that one that takes too long can be ended.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import gpu_consensus as gpc
from gpu_consensus.methods import FINDERS

from .quality_blobs import run_blobs
from .quality_ensembles import ENSEMBLES, load_ensemble
from .quality_sets import SETS, Loaded, load_set
from .suite import Context

OUTSIDE = ("KMeans", "Ward", "GaussianMixture", "SpectralClustering")
"""The methods of scikit-learn that ours are compared with."""

LARGEST = {
    "Ward": 10_000,
    "SpectralClustering": 5_000,
    "hac": 12_000,
    "lwea": 12_000,
    "cspa": 5_000,
    "least_squares": 5_000,
    "fusion_transfer": 5_000,
    "furthest": 12_000,
    "supra": 12_000,
}
"""Most objects for methods that look at all pairs, or nearly."""

_COMPONENTS = 50  # of text, for those of scikit-learn that take no sparse matrix
_WARM_UP = 60.0  # seconds for starting a worker and loading a set
_GRACE = 5.0  # seconds for an idle worker to end by itself


def method_names() -> tuple[str, ...]:
    """Return the names of all methods: the default, ours, those outside."""
    return ("default", *gpc.METHODS, *OUTSIDE)


def too_large(method: str, n: int) -> str | None:
    """Return why a method is not tried on n objects, or None."""
    if n > LARGEST.get(method, n):
        return f"not tried with n > {LARGEST[method]:,}"
    return None


class Bench:
    """The sets and ensembles that a process holds, and calls of methods on them.

    Parameters
    ----------
    data_dir : Path or None
        The folder that the user names.
    """

    def __init__(self, data_dir: Path | None) -> None:
        self.context = Context(data_dir=data_dir)
        self._set: tuple[Any, Loaded] | None = None
        self._made: tuple[Any, gpc.Ensemble, float] | None = None

    def features(self, name: str, method: str, seed: int) -> dict[str, Any]:
        """Run a method on a set of features."""
        data = self._data(name, seed)
        k = len(np.unique(data.y))
        if method in OUTSIDE:
            X = _for_outside(method, data)
            begin = time.perf_counter()
            labels = run_outside(method, X, k, seed)
            return _measures(data.y, labels, time.perf_counter() - begin)
        if method == "default":
            begin = time.perf_counter()
            result = gpc.cluster(data.X, k, metric=_metric(data), random_state=seed)
            return _measures(data.y, result.labels, time.perf_counter() - begin)
        if self._made is None or self._made[0] != (name, seed):
            self.prepare(name, seed)
        assert self._made is not None
        _, ensemble, before = self._made
        # as cluster() does it, so that its labels are these
        second = np.random.SeedSequence(seed).spawn(2)[1]
        begin = time.perf_counter()
        labels = run_ours(method, ensemble, k, second)
        return _measures(data.y, labels, before + time.perf_counter() - begin)

    def _data(self, name: str, seed: int) -> Loaded:
        if self._set is None or self._set[0] != (name, seed):
            (item,) = (item for item in SETS if item.name == name)
            self._set = (name, seed), load_set(item, self.context, seed)
        return self._set[1]

    def prepare(self, name: str, seed: int) -> dict[str, Any]:
        """Make the partitions that cluster() makes by default, for all label methods.

        A call of its own, so that a method's time is its own.
        """
        data = self._data(name, seed)
        details = gpc.cluster(
            data.X,
            len(np.unique(data.y)),
            method="vote",  # the cheapest
            metric=_metric(data),
            random_state=seed,
        ).details
        seconds = float(details["seconds"][0])
        self._made = (name, seed), details["ensemble"], seconds
        return {"seconds": seconds}

    def labels(self, name: str, method: str, seed: int, draw: int) -> dict[str, Any]:
        """Run a method on ``draw`` partitions of a pool, all where it is 0."""
        (item,) = (item for item in ENSEMBLES if item.name == name)
        labels, y = load_ensemble(item, self.context)
        rng = np.random.default_rng([seed, 1878])
        if draw:
            labels = labels[:, rng.choice(labels.shape[1], draw, replace=False)]
        order = rng.permutation(len(y))
        ensemble, k = gpc.Ensemble(labels[order]), len(np.unique(y))
        begin = time.perf_counter()
        found = run_ours(method, ensemble, k, seed)
        return _measures(y[order], found, time.perf_counter() - begin)

    def regret(self, name: str, problem: str, seed: int, first: int) -> dict[str, Any]:
        """Return F of a problem on the first partitions of a pool, default options."""
        (item,) = (item for item in ENSEMBLES if item.name == name)
        labels, y = load_ensemble(item, self.context)
        order = np.random.default_rng([seed, 1878]).permutation(len(y))
        ensemble, k = gpc.Ensemble(labels[order, :first]), len(np.unique(y))
        begin = time.perf_counter()
        result = run_problem(problem, ensemble, k, seed)
        return {
            "objective": float(result.objective),
            "seconds": time.perf_counter() - begin,
        }

    def blobs(self, name: str, method: str, seed: int) -> dict[str, Any]:
        """Run a method on blobs."""
        self._set = self._made = None  # memory is measured
        return run_blobs(name, method, seed)


def _metric(data: Loaded) -> str:
    return "cosine" if data.is_text else "euclidean"


def run_ours(method: str, ensemble: gpc.Ensemble, k: int, seed: Any) -> Any:
    """Return the labels of a method of the library, or of its default."""
    if method == "default":
        return gpc.consensus(ensemble, k, random_state=seed).labels
    wanted = None if method in FINDERS else k
    return gpc.consensus(ensemble, wanted, method, random_state=seed).labels


def run_problem(
    problem: str, ensemble: Any, k: int, seed: Any, **options: Any
) -> gpc.Consensus:
    """Minimise F: "kcc:h", "kcc:c" or "sec"."""
    method, _, utility = problem.partition(":")
    if utility:
        return gpc.kcc(ensemble, k, utility, random_state=seed, **options)
    return gpc.METHODS[method](ensemble, k, random_state=seed, **options)


def _for_outside(method: str, data: Loaded) -> Any:
    """Return the features in a form that the method takes."""
    if not data.is_text or method in ("KMeans", "SpectralClustering"):
        return data.X
    from sklearn.decomposition import TruncatedSVD
    from sklearn.preprocessing import normalize

    return normalize(TruncatedSVD(_COMPONENTS, random_state=0).fit_transform(data.X))


def run_outside(method: str, X: Any, k: int, seed: int) -> Any:
    """Return the labels of a method of scikit-learn."""
    from sklearn import cluster, mixture

    if method == "KMeans":
        return cluster.KMeans(k, n_init=10, random_state=seed).fit_predict(X)
    if method == "Ward":
        return cluster.AgglomerativeClustering(k, linkage="ward").fit_predict(X)
    if method == "GaussianMixture":
        model = mixture.GaussianMixture(k, n_init=3, random_state=seed)
        return model.fit_predict(X)
    return cluster.SpectralClustering(
        k, affinity="nearest_neighbors", random_state=seed, assign_labels="kmeans"
    ).fit_predict(X)


def _measures(y: Any, labels: Any, seconds: float) -> dict[str, Any]:
    return {
        "ari": float(gpc.metrics.adjusted_rand(y, labels)),
        "nmi": float(gpc.metrics.nmi(y, labels)),
        "clusters": len(np.unique(labels)),
        "seconds": round(seconds, 4),
    }


def _serve(pipe: Any, data_dir: Path | None) -> None:
    """Make the calls that come through a pipe, until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who calls
    bench = Bench(data_dir)
    warnings.simplefilter("ignore")
    while True:
        try:
            part, arguments = pipe.recv()
        except EOFError:
            return
        try:
            found = getattr(bench, part)(*arguments)
        except (ValueError, TypeError, MemoryError, ArithmeticError) as error:
            found = {"reason": " ".join(f"{type(error).__name__}: {error}".split())}
        pipe.send(found)


class Worker:
    """A process that makes the calls; ended and begun anew when one takes too long.

    Parameters
    ----------
    data_dir : Path or None
    limit : float
        Seconds that a call may take.
    """

    def __init__(self, data_dir: Path | None, limit: float) -> None:
        self.data_dir, self.limit = data_dir, limit
        self._process: Any = None
        self._pipe: Any = None
        self._prepared: dict[tuple[str, int], str | None] = {}

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._pipe.close()
            self._process.join(_GRACE)  # it frees what it holds
        self._end()

    def prepare(self, name: str, seed: int) -> str | None:
        """Have the partitions of a set made; return the reason where that fails.

        It is not tried again, whatever other methods ask for them.
        """
        key = name, seed
        if key not in self._prepared:
            reason = self.call("prepare", name, seed).get("reason")
            if reason is not None:
                reason = f"making the partitions: {reason}"
            self._prepared[key] = reason
        return self._prepared[key]

    def call(self, part: str, *arguments: Any) -> dict[str, Any]:
        """Return what a method of :class:`Bench` returns, or the reason why not."""
        limit = self.limit
        if self._process is None:
            self._begin()
            limit += _WARM_UP
        self._pipe.send((part, arguments))
        try:
            if self._pipe.poll(limit):
                found: dict[str, Any] = self._pipe.recv()
                return found
        except (EOFError, OSError):
            self._end()
            return {"reason": "the process ended, perhaps for want of memory"}
        self._end()
        return {"reason": f"took more than {self.limit:g} s"}

    def _begin(self) -> None:
        # not a fork: threads of OpenMP do not outlive one
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, self.data_dir), daemon=True
        )
        self._process.start()
        theirs.close()

    def _end(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.join()
            self._pipe.close()
        self._process = self._pipe = None
        # a new process has no partitions, but what cannot be made stays so
        self._prepared = {k: why for k, why in self._prepared.items() if why}
