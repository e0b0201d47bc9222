"""The scikit-learn estimator: features in, ``labels_`` out."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import validate_data

from gpu_consensus.arrays import on_device
from gpu_consensus.backends import choose_backend
from gpu_consensus.checks import check_choice, check_n_clusters, seed_sequence
from gpu_consensus.generate import generate_partitions
from gpu_consensus.generation import device
from gpu_consensus.loop.utilities import parse_utility
from gpu_consensus.methods import FINDERS, METHODS, consensus
from gpu_consensus.methods.lambda_consensus import lambda_consensus
from gpu_consensus.options import check_options


class ConsensusClustering(ClusterMixin, BaseEstimator):
    """Cluster features many times and return the clustering that agrees best.

    Parameters
    ----------
    n_clusters : int, default 8
        Clusters of the consensus. For ``"best"``, ``"fusion_transfer"`` and
        ``"least_squares"``, which find their number, only the clusters in mind when
        the basic partitions are made.
    method : str, default "kcc"
        Consensus method, one of ``gpc.METHODS``; or "lambda_consensus", whose
        ``n_partitions`` clusterers hear the consensus. It makes its partitions itself:
        ``strategy``, ``k_range``, ``metric`` and ``base`` do not count then.
    n_partitions : int, default 100
        Basic partitions to make.
    strategy : str, default "rps"
        What varies between them; see :func:`generate_partitions`.
    k_range : (int, int), optional
        Clusters of the basic partitions.
    metric : {"euclidean", "cosine"}, default "euclidean"
        Distance of the basic partitions; "cosine" for text.
    base : "kmeans", clusterer or callable, default "kmeans"
        What makes the basic partitions.
    generate_options, method_options : dict, optional
        More options of :func:`generate_partitions` and of the method, such as
        ``{"utility": "nh", "n_init": 20}``.
    backend : {"auto", "cupy", "numba", "numpy"}, default "auto"
        Where to compute.
    n_jobs : int, optional
        Threads; all cores by default. The labels do not depend on it.
    random_state : int, RandomState, Generator, optional
        Same seed, same labels.
    progress : bool, default False
        Draw progress bars.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,), int32
    ensemble_ : Ensemble
        The basic partitions.
    consensus_ : Consensus
        The whole result: objective, value, history, confidence.
    n_iter_ : int
        Iterations of the winning start.
    n_features_in_ : int
    feature_names_in_ : ndarray
        When X has column names.

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = gpc.ConsensusClustering(3, n_partitions=20, random_state=0).fit(X)
    >>> bool(gpc.metrics.adjusted_rand(y, model.labels_) > 0.6)
    True
    """

    def __init__(
        self,
        n_clusters: int = 8,
        method: str = "kcc",
        n_partitions: int = 100,
        strategy: str = "rps",
        *,
        k_range: tuple[int, int] | None = None,
        metric: str = "euclidean",
        base: Any = "kmeans",
        generate_options: dict[str, Any] | None = None,
        method_options: dict[str, Any] | None = None,
        backend: str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.method = method
        self.n_partitions = n_partitions
        self.strategy = strategy
        self.k_range = k_range
        self.metric = metric
        self.base = base
        self.generate_options = generate_options
        self.method_options = method_options
        self.backend = backend
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any = None) -> Self:
        """Make the basic partitions of X and find their consensus.

        Parameters
        ----------
        X : array_like, DataFrame or sparse matrix of shape (n_samples, n_features)
            Features.
        y : ignored
        """
        if on_device(X):  # scikit-learn would want it on the host
            self.n_features_in_ = int(device.check_form(X).shape[1])
        else:
            kinds = [np.float64, np.float32]
            X = validate_data(self, X, accept_sparse="csr", dtype=kinds)
        check_n_clusters(self.n_clusters, X.shape[0])
        check_choice("method", self.method, [*METHODS, "lambda_consensus"])
        # what is wrong with the second stage should not wait for the first
        options = self.method_options or {}
        choose_backend(options.get("backend", self.backend), None, self.n_jobs)
        if "n_clusters" in options:
            raise TypeError(
                f"method_options has n_clusters={options['n_clusters']!r}; give it as "
                "n_clusters of the estimator."
            )
        if self.method in METHODS:
            check_options(self.method, METHODS[self.method], options)
        if "utility" in options:
            parse_utility(options["utility"])
        if self.method == "lambda_consensus":
            self._fit_rounds(X, options)
        else:
            self._fit_stages(X, options)
        self.labels_: npt.NDArray[np.int32] = self.consensus_.labels
        self.n_iter_ = self.consensus_.n_iter
        return self

    def _fit_stages(self, X: Any, options: dict[str, Any]) -> None:
        """Make the basic partitions, then find their consensus."""
        seeds = seed_sequence(self.random_state).spawn(2)
        self.ensemble_ = generate_partitions(
            X,
            self.n_partitions,
            self.strategy,
            self.n_clusters,
            self.k_range,
            **self._shared(seeds[0])
            | {"metric": self.metric, "base": self.base}
            | (self.generate_options or {}),
        )
        self.consensus_ = consensus(
            self.ensemble_,
            None if self.method in FINDERS else self.n_clusters,
            self.method,
            **self._shared(seeds[1]) | options,
        )

    def _fit_rounds(self, X: Any, options: dict[str, Any]) -> None:
        """Let as many clusterers as partitions hear the consensus."""
        if self.generate_options:
            raise ValueError(
                f"generate_options={self.generate_options!r} is of no use to "
                "lambda_consensus, which makes its partitions itself; leave it out."
            )
        clusterers = {"n_clusterers": self.n_partitions}
        self.consensus_ = lambda_consensus(
            X,
            self.n_clusters,
            **self._shared(self.random_state) | clusterers | options,
        )
        self.ensemble_ = self.consensus_.details["ensemble"]

    def _shared(self, random_state: Any) -> dict[str, Any]:
        """Return what every stage takes."""
        return {
            "backend": self.backend,
            "n_jobs": self.n_jobs,
            "random_state": random_state,
            "progress": self.progress,
        }

    def __sklearn_tags__(self) -> Any:
        """Say that sparse input is welcome, and that cuML repeats itself loosely.

        cuML makes the partitions where "cupy" was asked for, or features were on a
        device: the latter is known once they were seen.
        """
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        asked = (self.generate_options or {}).get("backend", self.backend)
        made_there = asked == "auto" and on_device(
            getattr(getattr(self, "ensemble_", None), "codes", None)
        )
        tags.non_deterministic = self.method != "lambda_consensus" and (
            asked == "cupy" or made_there
        )
        return tags
