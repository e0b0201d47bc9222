"""From features, or a list of views, to the sites of lambda-consensus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpu_consensus.feedback.sites import LocalSite, Site, View
from gpu_consensus.feedback.updates import FeedbackState
from gpu_consensus.generate.store import digest
from gpu_consensus.util.checks import check_int, check_n_clusters
from gpu_consensus.util.memory import check_memory
from gpu_consensus.util.tables import check_features

N_CLUSTERERS = 100
_MATRICES = 6  # n x n, of a site at work: the view's, with feedback, and of its solver
_SHARED_MATRICES = 3  # the view's if all share it, the feedback's and its last
_COLUMNS, _SHARED_COLUMNS = 5, 2  # the same for columns fed back, with k-means' own


@dataclass(frozen=True)
class SiteSettings:
    """What all local sites share.

    ``rounds_kept`` is the number of rounds whose labels, of all clusterers, are columns
    of the data at the same time.
    """

    n_clusters: int
    state: FeedbackState
    clusterer: Any
    scale: str | None
    similarity: str | Callable[[Any], Any]
    n_workers: int
    memory_limit: int | None
    rounds_kept: int

    def sites(
        self, X: Any, projection: int | None, seeds: Sequence[np.random.SeedSequence]
    ) -> list[Site]:
        """Make sites of the same features: one view for all, or a projection each."""
        sites: list[Site] = []
        view: View | None = None
        for seed in seeds:
            of_view, of_starts = seed.spawn(2)
            if view is None or projection is not None:
                view = View(
                    X,
                    self.state.update,
                    projection,
                    self.scale,
                    self.similarity,
                    of_view,
                    keep=projection is None and len(seeds) > 1,
                )
            sites.append(
                LocalSite.from_view(
                    view, self.n_clusters, self.clusterer, self.state, of_starts
                )
            )
        return sites

    def check_memory(self, n_samples: int, n_sites: int, n_clusterers: int) -> None:
        """Refuse what does not fit before any of it is made."""
        at_work = min(self.n_workers, n_sites)
        if self.state.update in ("distances", "similarities"):
            needed = 8 * n_samples**2 * (_MATRICES * at_work + _SHARED_MATRICES)
            what = f"update={self.state.update!r} of {n_samples} objects"
            cure = "use update='full' or 'truncated', or a smaller n_jobs"
        else:
            columns = self.rounds_kept * n_clusterers * self.n_clusters
            times = _COLUMNS * at_work + _SHARED_COLUMNS
            needed = 8 * n_samples * columns * times
            what = f"feedback='all' with {columns} columns for {n_samples} objects"
            less = " or update='truncated'" if self.state.update == "full" else ""
            cure = f"use feedback='consensus'{less}, or a smaller n_jobs"
        check_memory(what, needed, self.memory_limit, cure)


def make_sites(
    X: Any,
    settings: SiteSettings,
    n_clusterers: int | None,
    projection: int | str | None,
    seed: np.random.SeedSequence,
) -> list[Site]:
    """Make the sites of a single ``X`` or of a list of views; sites in it are kept."""
    dimensions = None
    if projection != "auto" and projection is not None:
        dimensions = check_int("projection", projection, 1, cure="None, or 'auto'")
    if _is_list_of_sites(X):
        if n_clusterers is not None:
            raise ValueError(
                f"n_clusterers={n_clusterers!r} is for a single X, but X is a list "
                f"with one clusterer for each of its {len(X)} sites; leave it out."
            )
        return _sites_of_views(X, settings, dimensions, seed)
    n_clusterers = N_CLUSTERERS if n_clusterers is None else n_clusterers
    r = check_int("n_clusterers", n_clusterers, 1)
    X = check_features(X)
    check_n_clusters(settings.n_clusters, X.shape[0])
    settings.check_memory(X.shape[0], r, r)
    if projection == "auto" and settings.clusterer != "prc":
        dimensions = min(3, X.shape[1])
    return settings.sites(X, dimensions, seed.spawn(r))


def hash_features(X: Any) -> list[str]:
    """Hash what the sites will see, for a checkpoint; refuse sites that exist."""
    tables = X if _is_list_of_sites(X) else [X]
    if any(_is_site(x) for x in tables):
        raise ValueError(
            "checkpoint is for features, but X holds sites, which have a memory of "
            "their own; leave checkpoint out, or give their features."
        )
    return [digest(check_features(x)) for x in tables]


def _is_list_of_sites(X: Any) -> bool:
    """Whether this is a list of tables or sites; a list of rows is one table."""
    if not isinstance(X, (list, tuple)):
        return False
    if not X:
        raise ValueError("X is an empty list; give at least one view.")
    return any(_is_site(x) or len(getattr(x, "shape", ())) == 2 for x in X)


def _is_site(x: Any) -> bool:
    """Whether this is a site; a DataFrame may well have a column "cluster"."""
    return not hasattr(x, "shape") and callable(getattr(x, "cluster", None))


def _sites_of_views(
    X: Sequence[Any],
    settings: SiteSettings,
    projection: int | None,
    seed: np.random.SeedSequence,
) -> list[Site]:
    tables: dict[int, Any] = {}
    for i, x in enumerate(X):
        if _is_site(x):
            continue
        try:
            tables[i] = check_features(x)
        except (TypeError, ValueError) as error:
            raise type(error)(f"view {i}: {error}") from error
    sizes = {i: table.shape[0] for i, table in tables.items()}
    for i, size in sizes.items():
        first = next(iter(sizes))
        if size != sizes[first]:
            raise ValueError(
                f"view {i} has {size} rows but view {first} has {sizes[first]}; every "
                "view should have one row for each object, in the same order."
            )
    for size in set(sizes.values()):
        check_n_clusters(settings.n_clusters, size)
        settings.check_memory(size, len(sizes), len(X))
    sites: list[Site] = []
    for i, child in enumerate(seed.spawn(len(X))):
        sites += (
            settings.sites(tables[i], projection, [child]) if i in tables else [X[i]]
        )
    return sites
