"""The sites of lambda-consensus: each keeps its data and hands out labels."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gpu_consensus.feedback.distances import (
    gaussian_similarity,
    pairwise_distances,
    rms_distance,
    torgerson,
)
from gpu_consensus.feedback.kernel_kmeans import kernel_kmeans
from gpu_consensus.feedback.prc import prc
from gpu_consensus.feedback.updates import FeedbackState
from gpu_consensus.generate import clusterers as bases
from gpu_consensus.generate import views
from gpu_consensus.generate.kmeans import kmeans
from gpu_consensus.util.checks import (
    FloatArray,
    check_choice,
    check_int,
    check_n_clusters,
    check_share,
    seed_sequence,
)
from gpu_consensus.util.sparse import is_sparse
from gpu_consensus.util.tables import check_features
from gpu_consensus.util.threads import one_thread

UPDATES = ("full", "truncated", "distances", "similarities")
OF_SIMILARITIES = ("kernel_kmeans", "prc")
SIMILARITIES = ("gaussian", "linear")


class Site(Protocol):
    """What lambda-consensus needs of a site; any object with this method will do.

    A site may live anywhere: only labels go in and out. Sites are called from several
    threads, each site once per round, rounds one after another.
    """

    def cluster(self, feedback: npt.NDArray[np.int32] | None) -> Any:
        """Return one label per object; -1, NaN or None where there is none.

        Parameters
        ----------
        feedback : ndarray of int32, or None
            None in the first round. Later the result of the round before: the consensus
            labels (n_samples,), or with ``feedback="all"`` those of every site,
            (n_samples, n_sites). -1 means missing.
        """
        ...


class View:
    """The points that a site sees, and their distances or similarities.

    A projection is drawn again from its seed whenever it is looked at: many sites then
    share the features, and none holds a copy.

    Parameters
    ----------
    X : ndarray or scipy CSR of shape (n_samples, n_features)
        Checked features.
    update, projection, scale, similarity
        As for :class:`LocalSite`.
    seed : SeedSequence
        Of the projection.
    keep : bool
        Keep the n x n matrix of the view rather than make it anew in every round.
    """

    def __init__(
        self,
        X: Any,
        update: str,
        projection: int | None,
        scale: str | None,
        similarity: str | Callable[[Any], Any],
        seed: np.random.SeedSequence,
        *,
        keep: bool,
    ) -> None:
        if is_sparse(X) and not projection and update in ("distances", "similarities"):
            raise ValueError(
                f"update={update!r} needs dense data but X is sparse; use "
                "projection=3, or update='full'."
            )
        self._X = X
        self._update = update
        self._projection = projection
        self._seed = seed
        self._similarity = similarity
        self._keep = keep
        self._kept: FloatArray | None = None
        self._lock = threading.Lock()
        self._rms = 0.0
        if scale == "rms":
            self._rms = rms_distance(self.points())

    @property
    def n_samples(self) -> int:
        """Number of objects."""
        return int(self._X.shape[0])

    def points(self) -> Any:
        """Return the features, projected and divided by their RMS distance if asked."""
        X = self._X
        if self._projection:
            recipe = views.Recipe("projection", None, n_components=self._projection)
            with one_thread():
                X = views.draw_view(X, recipe, None, np.random.default_rng(self._seed))
        return X / X.dtype.type(self._rms) if self._rms > 0 else X

    def matrix(self) -> FloatArray:
        """Return the distances D_0 or the similarities S_0, (n, n); do not write."""
        if not self._keep:
            return self._make()
        with self._lock:
            if self._kept is None:
                self._kept = self._make()
            return self._kept

    def _make(self) -> FloatArray:
        points = self.points()
        if self._update == "distances":
            return pairwise_distances(points)
        if self._similarity == "gaussian":
            return gaussian_similarity(points)
        if self._similarity == "linear":
            return np.asarray(points @ points.T, dtype=np.float64)
        assert callable(self._similarity)
        matrix = np.array(self._similarity(points), dtype=np.float64)
        if matrix.shape != (self.n_samples, self.n_samples):
            raise ValueError(
                f"similarity returned shape {matrix.shape} for {self.n_samples} "
                "objects; it should return (n_samples, n_samples)."
            )
        return matrix


class LocalSite:
    """A site that clusters its own data and mixes in the feedback it gets.

    :func:`~gpu_consensus.lambda_consensus` makes one for every view. Make one yourself
    to run it elsewhere, with any means of sending labels.

    Parameters
    ----------
    X : array_like, DataFrame or scipy sparse of shape (n_samples, n_features)
        The data of this site; they never leave it.
    n_clusters : int
        Clusters of each partition.
    lam : float in [0, 1], default 0.9
        Weight of the data against the feedback; the data count lam^t in round t.
    update : {"full", "truncated", "distances", "similarities"}, default "full"
    clusterer, projection, scale, similarity
        As for :func:`~gpu_consensus.methods.lambda_consensus.lambda_consensus`, but
        ``projection`` is None by default.
    random_state : int, Generator, RandomState, SeedSequence, optional
        Seed.

    Examples
    --------
    >>> import numpy as np
    >>> site = LocalSite(np.array([[0.0], [1.0], [8.0], [9.0]]), 2, random_state=0)
    >>> first = site.cluster(None)
    >>> bool(first[0] == first[1] != first[2] == first[3])
    True
    >>> site.cluster(np.array([0, 0, 0, 1])).shape
    (4,)
    """

    def __init__(
        self,
        X: Any,
        n_clusters: int,
        lam: float = 0.9,
        update: str = "full",
        *,
        clusterer: Any = "auto",
        projection: int | None = None,
        scale: str | None = "rms",
        similarity: str | Callable[[Any], Any] = "gaussian",
        random_state: Any = None,
    ) -> None:
        lam = check_share("lam", lam, open_low=False, open_high=False)
        clusterer = check_clusterer(clusterer, update)
        X = check_features(X)
        check_n_clusters(n_clusters, X.shape[0])
        if projection is not None:
            projection = check_int("projection", projection, 1)
        of_view, of_starts = seed_sequence(random_state).spawn(2)
        check_scale(scale)
        check_similarity(similarity)
        view = View(X, update, projection, scale, similarity, of_view, keep=True)
        self._fill(view, n_clusters, clusterer, FeedbackState(lam, update), of_starts)

    @classmethod
    def from_view(
        cls,
        view: View,
        n_clusters: int,
        clusterer: Any,
        state: FeedbackState,
        seed: np.random.SeedSequence,
    ) -> LocalSite:
        """Make a site that shares its view or its feedback with others."""
        new = object.__new__(cls)
        new._fill(view, n_clusters, clusterer, state, seed)
        return new

    def _fill(
        self,
        view: View,
        n_clusters: int,
        clusterer: Any,
        state: FeedbackState,
        seed: np.random.SeedSequence,
    ) -> None:
        self._view = view
        self._n_clusters = n_clusters
        self._clusterer = clusterer
        self._state = state
        self._rng = np.random.default_rng(seed)
        self._n_rounds = 0

    def cluster(self, feedback: Any = None) -> npt.NDArray[Any]:
        """Return labels of all objects, after the feedback has been mixed in.

        None begins again without any earlier feedback.
        """
        seed = self.take(feedback)
        k = self._n_clusters
        with one_thread():
            if self._state.update == "similarities":
                find = prc if self._clusterer == "prc" else kernel_kmeans
                return find(self.similarities(), k, random_state=seed).labels
            if isinstance(self._clusterer, str):
                return kmeans(self.points(), k, seed)[0]
            asked_k = k if bases.needs_n_clusters(self._clusterer) else None
            labels = bases.cluster(self._clusterer, self.points(), asked_k, seed)
        return np.asarray(labels)

    def take(self, feedback: Any = None) -> int:
        """Mix in the feedback and draw the seed of a round, as ``cluster`` does.

        By itself it brings a site to where another was that has clustered.
        """
        if feedback is None:
            self._n_rounds = 0
            self._state.reset()
        else:
            self._n_rounds += 1
            self._state.add(self._n_rounds, feedback, self._view.n_samples)
        return int(self._rng.integers(2**32))

    def points(self) -> Any:
        """Return the points that this round clusters, (n_samples, ...)."""
        weight, block = self._state.data_weight, self._state.block
        if block is None:
            return self._view.points()
        if self._state.update == "distances":
            return _without_noise(torgerson(weight * self._view.matrix() + block))
        points = self._view.points()
        kind = points.dtype.type
        if is_sparse(points):
            from scipy.sparse import csr_array, hstack

            parts = [points * kind(weight), csr_array(block.astype(kind))]
            return hstack(parts, format="csr")
        return np.hstack([points * kind(weight), block.astype(kind)])

    def similarities(self) -> FloatArray:
        """Return the similarities that this round clusters, (n_samples, n_samples)."""
        matrix, block = self._view.matrix(), self._state.block
        return matrix if block is None else self._state.data_weight * matrix + block


def _without_noise(points: FloatArray) -> FloatArray:
    """Round to 40 bits of the largest number: equal objects become equal points."""
    largest = float(np.abs(points).max(initial=0))
    if largest == 0:
        return points
    unit = 2.0 ** (math.frexp(largest)[1] - 40)
    return np.asarray(np.rint(points / unit) * unit)


def check_clusterer(clusterer: Any, update: Any) -> Any:
    """Return the clusterer, "auto" resolved; raise if the update is not for it."""
    check_choice("update", update, UPDATES)
    by_similarity = update == "similarities"
    if isinstance(clusterer, str):
        check_choice("clusterer", clusterer, ("auto", "kmeans", *OF_SIMILARITIES))
        if clusterer == "auto":
            return OF_SIMILARITIES[0] if by_similarity else "kmeans"
    else:
        try:
            bases.needs_n_clusters(clusterer)
        except TypeError as error:  # generation knows it by another name
            message = str(error).replace("base=", "clusterer=", 1)
            raise TypeError(message) from None
    takes = isinstance(clusterer, str) and clusterer in OF_SIMILARITIES
    if takes != by_similarity:
        cure = (
            "use clusterer='kernel_kmeans' or 'prc'"
            if by_similarity
            else "use update='similarities'"
        )
        raise ValueError(
            f"update={update!r} is not for clusterer={clusterer!r}; {cure}."
        )
    return clusterer


def check_scale(scale: Any) -> str | None:
    """Return "rms" or None."""
    return None if scale is None else check_choice("scale", scale, ("rms",))


def check_similarity(similarity: Any) -> str | Callable[[Any], Any]:
    """Return a known name or a callable."""
    if callable(similarity):
        function: Callable[[Any], Any] = similarity
        return function
    return check_choice("similarity", similarity, SIMILARITIES)
