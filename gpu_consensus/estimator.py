"""The scikit-learn estimator: features in, ``labels_`` out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import validate_data

from gpu_consensus.cluster import cluster
from gpu_consensus.generate import device
from gpu_consensus.util.arrays import on_device
from gpu_consensus.util.tables import check_features


class ConsensusClustering(ClusterMixin, BaseEstimator):
    """Cluster features many times and return the clustering that agrees best.

    Parameters
    ----------
    n_clusters : int or "auto", default 8
        Clusters of the consensus; "auto" finds 2 to 10 of them, or 1 if there is no
        structure, by :func:`select_n_clusters`. For ``"best"``, ``"fusion_transfer"``
        and ``"least_squares"``, which find their number, it only guides how the basic
        partitions are made.
    method : str, default "auto"
        Consensus method, one of ``gpc.METHODS``, or "lambda_consensus"; "auto" runs
        several and keeps the answer that the partitions explain best.
    n_partitions : int, default 100
        Basic partitions to make.
    strategy : str, default "rps"
        What varies between them; see :func:`generate_partitions`.
    k_range, metric, base, generate_options, method_options
        As in :func:`cluster`.
    backend, n_jobs, random_state, progress
        As in :func:`cluster`.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,), int32
    ensemble_ : Ensemble
        The basic partitions.
    consensus_ : Consensus
        The whole result: objective, value, history, confidence.
    selection_ : Selection or None
        Why there are so many clusters, with "auto".
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
        n_clusters: int | str = 8,
        method: str = "auto",
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
            table = check_features(X)
            validate_data(self, X, skip_check_array=True)  # what its columns are called
            X = table
        self.consensus_ = cluster(
            X,
            self.n_clusters,
            method=self.method,
            n_partitions=self.n_partitions,
            strategy=self.strategy,
            k_range=self.k_range,
            metric=self.metric,
            base=self.base,
            generate_options=self.generate_options,
            method_options=self.method_options,
            backend=self.backend,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
            progress=self.progress,
        )
        self.selection_ = self.consensus_.details.get("selection")
        self.ensemble_ = self.consensus_.details["ensemble"]
        self.labels_: npt.NDArray[np.int32] = self.consensus_.labels
        self.n_iter_ = self.consensus_.n_iter
        return self

    def __sklearn_tags__(self) -> Any:
        """Declare that sparse input is accepted, and that cuML is not deterministic.

        cuML makes the partitions where "cupy" was asked for, or features were on a
        device: the latter is only known after ``fit``.
        """
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        made, asked = self.generate_options, self.backend
        if isinstance(made, Mapping):
            asked = made.get("backend", asked)
        made_there = asked == "auto" and on_device(
            getattr(getattr(self, "ensemble_", None), "codes", None)
        )
        tags.non_deterministic = self.method != "lambda_consensus" and (
            asked == "cupy" or made_there
        )
        return tags
