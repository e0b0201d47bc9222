"""Basic partitions made on the CPU, each by one worker with one BLAS thread."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.ensemble.encoding import encode
from gpu_consensus.generate import clusterers as bases
from gpu_consensus.generate import views
from gpu_consensus.generate.kmeans import centroids_of, cluster_rows, nearest
from gpu_consensus.generate.rows import (
    Rows,
    assign,
    check_directions,
    prepare,
)
from gpu_consensus.generate.store import digest
from gpu_consensus.util.sparse import is_sparse
from gpu_consensus.util.threads import one_thread

Codes = npt.NDArray[Any]
SMALLEST = 2.0**-96  # of a column whose float32 still have digits to draw it from


@dataclass(frozen=True)
class HostMaker:
    """Everything a partition needs but its seed; goes to the workers as it is.

    Attributes
    ----------
    X : ndarray or scipy CSR of shape (n_samples, n_features)
        Checked features.
    recipe : Recipe
        What each partition sees.
    metric : str
        For k-means and for ``complete``.
    base : object
        "kmeans", a clusterer or a callable.
    complete : bool
        Whether rows that were not sampled get a label too.
    scale : ndarray of shape (n_features,) or None
        What "zipf" multiplies columns by, of ``rows`` where there are any.
    max_iter, rows_per_cluster : int or None
        How hard k-means tries; ``max_iter`` is None for other bases.
    rows : Rows or None
        ``X`` in float32, measured once for all partitions. None where k-means is not
        the base, or has to see drawn columns of ``X`` itself: sparse, for "cosine", or
        of scales too different for float32.
    """

    X: Any
    recipe: views.Recipe
    metric: str
    base: Any
    complete: bool
    scale: npt.NDArray[np.float64] | None
    max_iter: int | None
    rows_per_cluster: int | None
    rows: Rows | None
    to_device = staticmethod(np.asarray)

    def empty(self, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
        """Return room for codes."""
        return np.empty(shape, dtype=np.uint8)

    def describe(self) -> dict[str, Any]:
        """Describe the call, for a checkpoint."""
        return {
            "shape of X": list(self.X.shape),
            "type of X": str(self.X.dtype),
            "hash of X": digest(self.X),
            "base": bases.describe(self.base),
            "metric": self.metric,
            "complete": self.complete,
            "max_iter": self.max_iter,
            "rows_per_cluster": self.rows_per_cluster,
            **asdict(self.recipe),
        }

    def make(self, i: int, seed: np.random.SeedSequence) -> tuple[int, Codes, int]:
        """Make partition ``i``: its number, its codes and K_i."""
        rng = np.random.default_rng(seed)
        with one_thread():
            if self.max_iter is None:
                codes, n_labels = self._by_base(i, rng)
            else:
                codes, n_labels = self._by_kmeans(i, rng, self.max_iter)
        return i, codes, n_labels

    def _by_kmeans(
        self, i: int, rng: np.random.Generator, max_iter: int
    ) -> tuple[Codes, int]:
        view = self.rows
        if view is None or self.recipe.changes_columns:
            # float32 is drawn from where distances alone count
            shown = self.X if view is None else view.X
            shown = views.draw_view(shown, self.recipe, self.scale, rng)
            view = prepare(shown, self.metric, np.float32)
            del shown  # as large as the features for "zipf"
        rows = views.draw_rows(view.n_samples, self.recipe, rng)
        sample = view if rows is None else view.take(rows)
        k_range = self.recipe.range_of(i)
        assert k_range is not None
        k = views.draw_k(sample.X, k_range, rng)
        labels, centroids = cluster_rows(
            sample, k, [int(rng.integers(2**32))], max_iter, self.rows_per_cluster
        )
        codes = _codes(view.n_samples, rows, labels, len(centroids))
        if self.complete and rows is not None:
            others = _others(view.n_samples, rows)
            codes[others] = assign(view.take(others), centroids)
        return codes, len(centroids)

    def _by_base(self, i: int, rng: np.random.Generator) -> tuple[Codes, int]:
        n = self.X.shape[0]
        view = views.draw_view(self.X, self.recipe, self.scale, rng)
        rows = views.draw_rows(n, self.recipe, rng)
        sample = view if rows is None else view[rows]
        k_range = self.recipe.range_of(i)
        k = None if k_range is None else views.draw_k(sample, k_range, rng)
        labels = bases.cluster(self.base, sample, k, int(rng.integers(2**32)))
        sample_codes, categories = encode(labels, f"partition {i}")
        n_labels = len(categories)
        codes = _codes(n, rows, sample_codes, n_labels)
        if self.complete and rows is not None and n_labels:
            centroids = centroids_of(sample, sample_codes, n_labels, self.metric)
            others = _others(n, rows)
            codes[others] = nearest(view[others], centroids, self.metric)
        return codes, n_labels


def make_maker(
    X: Any,
    recipe: views.Recipe,
    metric: str,
    base: Any,
    complete: bool,
    max_iter: int,
    rows_per_cluster: int | None,
) -> HostMaker:
    """Measure the features once and return what the workers need."""
    scale = views.column_scale(X, recipe.strategy)
    if not isinstance(base, str):
        return HostMaker(X, recipe, metric, base, complete, scale, None, None, None)
    rows = None
    with one_thread():
        if not recipe.changes_columns:
            rows = prepare(X, metric, np.float32, streamed=rows_per_cluster is not None)
            check_directions(X, rows)
        elif metric == "euclidean" and not is_sparse(X):
            rows = prepare(X, metric, np.float32)
            if recipe.strategy != "projection" and _loses_columns(X, rows):
                rows = None
            else:
                scale = views.column_scale(rows.X, recipe.strategy)
    return HostMaker(
        X, recipe, metric, base, complete, scale, max_iter, rows_per_cluster, rows
    )


def _loses_columns(X: npt.NDArray[Any], rows: Rows) -> bool:
    """Whether a column is too small, compared with the largest, for float32."""
    moved = rows.X
    reach = np.maximum(moved.max(axis=0), -moved.min(axis=0))
    varies = X.max(axis=0) > X.min(axis=0)
    return bool((varies & (reach < SMALLEST)).any())


def _codes(
    n: int,
    rows: npt.NDArray[np.intp] | None,
    sample_codes: npt.NDArray[Any],
    n_labels: int,
) -> Codes:
    """Return codes of all rows: those of sampled rows, "missing" for the others."""
    codes = np.full(n, n_labels, np.uint8 if n_labels <= 255 else np.uint16)
    codes[slice(None) if rows is None else rows] = sample_codes
    return codes


def _others(n: int, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    return np.setdiff1d(np.arange(n), rows, assume_unique=True)
