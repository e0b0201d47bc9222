"""One ensemble, clustered by kcc and by scikit-learn's KMeans."""

from __future__ import annotations

import json
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import gpu_consensus as gpc
from gpu_consensus.backends import why_unavailable

from . import formulas
from .environment import others_busy, usable_cores
from .measure import timed
from .suite import collect_warnings
from .synthetic import make_ensemble, one_hot

N_INIT = 10
MAX_ITER = 50
SAME_ITER = 5
_CHECK_ITER = 5
_SAME_F = 1e-9
_SAME_INERTIA = 1e-6


class Peer:
    """The two programs on the same input.

    Parameters
    ----------
    n_samples, n_partitions, n_clusters : int
    messages : dict
        Where warnings are counted.
    """

    def __init__(
        self,
        n_samples: int,
        n_partitions: int,
        n_clusters: int,
        messages: dict[str, int],
    ) -> None:
        self.ensemble, _ = make_ensemble(n_samples, n_partitions, n_clusters, 0)
        self.X = one_hot(self.ensemble)
        self.n_clusters = n_clusters
        self.messages = messages
        self.backend = "numpy" if why_unavailable("native") else "native"

    def kcc(self, **options: Any) -> gpc.Consensus:
        """Run kcc as k-means: utility c, random objects as seeds, no refinement."""
        settings: dict[str, Any] = {
            "init": "random",
            "n_init": N_INIT,
            "max_iter": MAX_ITER,
            "random_state": 0,
            "backend": self.backend,
            **options,
        }
        # a few iterations on purpose: that they do not suffice is no news
        few = settings["max_iter"] < MAX_ITER
        with collect_warnings({} if few else self.messages):
            return gpc.kcc(
                self.ensemble, self.n_clusters, "c", refine=False, **settings
            )

    def kmeans(self, **options: Any) -> Any:
        """Run scikit-learn's KMeans in the same manner."""
        from sklearn.cluster import KMeans

        settings: dict[str, Any] = {
            "init": "random",
            "n_init": N_INIT,
            "max_iter": MAX_ITER,
            "random_state": 0,
            **options,
        }
        few = settings["max_iter"] < MAX_ITER
        with collect_warnings({} if few else self.messages):
            return KMeans(self.n_clusters, algorithm="lloyd", tol=0, **settings).fit(
                self.X
            )

    def objective(self, labels: Any) -> float:
        """Return F of labels by the plain formula."""
        return formulas.objective(self.ensemble, np.asarray(labels), "c")

    def check(self) -> dict[str, Any]:
        """Compare answers."""
        n, r = self.ensemble.n_samples, self.ensemble.n_partitions
        result = self.kcc()
        again = self.objective(result.labels)
        difference = abs(result.objective / again - 1)
        few = self.kcc(max_iter=_CHECK_ITER)
        same_labels = all(
            np.array_equal(few.labels, self.kcc(max_iter=_CHECK_ITER, **options).labels)
            for options in self._cuts()
        )
        peer = self.kmeans(n_init=1)
        inertia = peer.inertia_ / r
        peer_difference = inertia / self.objective(peer.labels_) - 1
        # stopped by max_iter, KMeans measures to centres that have since moved
        slack = _SAME_INERTIA if peer.n_iter_ < MAX_ITER else np.inf
        return {
            "n": n,
            "r": r,
            "backend": result.backend,
            "same_labels": same_labels,
            "difference": difference,
            "peer_difference": peer_difference,
            "same_start": self._same_start(),
            "equal": bool(
                same_labels
                and difference <= _SAME_F
                and -_SAME_INERTIA <= peer_difference <= slack
            ),
        }

    def _cuts(self) -> list[dict[str, Any]]:
        """Return ways to cut the work that must not change the labels."""
        n = self.ensemble.n_samples
        cuts: list[dict[str, Any]] = [{"n_jobs": 1}, {"n_jobs": 2}]
        cuts.append({"backend": "numpy"})
        limits = [1 << 20, 1 << 16] if n >= 1000 else [1 << 12, 1]
        return cuts + [{"memory_limit": limit} for limit in limits]

    def _same_start(self) -> float:
        """Return how far F of the two lies apart when both start alike."""
        rng = np.random.default_rng(1)
        n, k = self.ensemble.n_samples, self.n_clusters
        labels = rng.permutation(np.arange(n) % k)
        centres = np.stack(
            [np.asarray(self.X[labels == c].mean(axis=0)).ravel() for c in range(k)]
        )
        ours = self.kcc(init=labels).objective
        theirs = self.objective(self.kmeans(init=centres, n_init=1).labels_)
        return ours / theirs - 1

    def time(self, repeats: int) -> dict[str, Any]:
        """Time both in turn on one thread and on all, and count their iterations.

        Each is compared at its best number of threads: threads do not always help, and
        on a busy machine those of KMeans, which spin while they wait, cost much.
        """
        from threadpoolctl import threadpool_limits

        self.kcc()  # compile, and fill the caches
        options = sorted({1, usable_cores()})
        seconds: dict[str, dict[int, list[float]]] = {
            name: {threads: [] for threads in options}
            for name in ("kcc", "auto", "kmeans")
        }
        results: dict[str, Any] = {}
        busy = [others_busy()]
        for _ in range(repeats):
            for threads in options:
                for name, backend in (("kcc", self.backend), ("auto", "auto")):
                    call = partial(self.kcc, n_jobs=threads, backend=backend)
                    spent, results[name] = timed(call)
                    seconds[name][threads].append(spent)
                with threadpool_limits(threads):
                    spent, results["kmeans"] = timed(self.kmeans)
                seconds["kmeans"][threads].append(spent)
            busy.append(others_busy())
        r = self.ensemble.n_partitions
        row: dict[str, Any] = {
            "n": self.ensemble.n_samples,
            "r": r,
            "k": self.n_clusters,
            "backend": results["kcc"].backend,
            "others_busy": max((b for b in busy if b is not None), default=None),
            "seconds": seconds,
            "kcc_f": results["kcc"].objective,
            "kmeans_f": results["kmeans"].inertia_ / r,
        }
        row["auto_backend"] = results["auto"].backend
        row["auto_s"] = min(min(spent) for spent in seconds["auto"].values())
        each = {
            "kcc": self._kcc_iterations(),
            "kmeans": self._kmeans_iterations(results["kmeans"].inertia_),
        }
        counts = {name: found and sum(found) for name, found in each.items()}
        work = self.ensemble.n_samples * r * self.n_clusters
        for name, count in counts.items():
            least = {threads: min(spent) for threads, spent in seconds[name].items()}
            threads = min(least, key=lambda t: least[t])
            row[f"{name}_s"] = least[threads]
            row[f"{name}_threads"] = threads
            row[f"{name}_iterations"] = count
            row[f"{name}_ms"] = count and 1000 * least[threads] / count
            row[f"{name}_lookups"] = count and work * count / least[threads]
        row["ratio_total"] = row["kmeans_s"] / row["kcc_s"]
        row["ratio_auto"] = row["kmeans_s"] / row["auto_s"]
        both = all(counts.values())
        row["ratio_iteration"] = row["kmeans_ms"] / row["kcc_ms"] if both else None
        row["ratio_same"] = None
        if all(found and min(found) >= SAME_ITER for found in each.values()):
            row["ratio_same"] = self._same_iterations(row, repeats)
        default = partial(self.kcc, init="partition", n_jobs=row["kcc_threads"])
        row["default_s"], found = timed(default)
        row["default_f"] = found.objective
        return row

    def _same_iterations(self, row: dict[str, Any], repeats: int) -> float:
        """Return KMeans / kcc where every start of both makes equally many."""
        from threadpoolctl import threadpool_limits

        ours = partial(self.kcc, max_iter=SAME_ITER, n_jobs=row["kcc_threads"])
        theirs = partial(self.kmeans, max_iter=SAME_ITER)
        kcc, kmeans = [], []
        for _ in range(repeats):
            kcc.append(timed(ours)[0])
            with threadpool_limits(row["kmeans_threads"]):
                kmeans.append(timed(theirs)[0])
        return min(kmeans) / min(kcc)

    def _kcc_iterations(self) -> list[int]:
        """Return the iterations of each start, which the checkpoint remembers."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run.npz"
            self.kcc(checkpoint=path)
            with np.load(path, allow_pickle=False) as archive:
                meta = json.loads(str(archive["meta"][()]))
        return [len(history) for history in meta["history"]]

    def _kmeans_iterations(self, inertia: float) -> list[int] | None:
        """Run the starts one by one on the same random numbers, to count.

        None if they turn out not to be the same starts.
        """
        rng = np.random.RandomState(0)
        runs = [self.kmeans(n_init=1, random_state=rng) for _ in range(N_INIT)]
        lowest = min(run.inertia_ for run in runs)
        if abs(lowest / inertia - 1) > 1e-9:
            return None
        return [int(run.n_iter_) for run in runs]
