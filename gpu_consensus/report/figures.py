"""The pictures of a report: which there are, drawn one after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gpu_consensus import plot
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.methods.kcc import kcc
from gpu_consensus.plot.embedding import Plane, draw_plane, lay_out, length_of
from gpu_consensus.plot.given import sample
from gpu_consensus.plot.picture import Note, note_of
from gpu_consensus.plot.quality_diversity import draw_quality
from gpu_consensus.plot.selection import check_selection, table_columns
from gpu_consensus.plot.similarity import Alike, compare, draw_similarity
from gpu_consensus.report.facts import stability_of
from gpu_consensus.report.svg import inline_svg, new_axes
from gpu_consensus.result import Consensus
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.numbers import shown
from gpu_consensus.util.warn import own_warnings_off

_TREE_OBJECTS = 2_000
_PLANE_OBJECTS = 1_000


class Picture(NamedTuple):
    """A picture within a page: its SVG, and what it says."""

    ident: str
    svg: str
    note: Note


class Drawn(NamedTuple):
    """All pictures by section, and what was learned on the way."""

    pictures: dict[str, list[Picture]]
    left_out: list[str]
    alike: Alike
    tree_objects: int | None
    sampled: list[str]


def draw_all(
    res: Consensus,
    ens: Ensemble,
    X: Any,
    known: Any,
    selection: Any,
    by_k: Mapping[int, Any] | None,
    max_objects: int,
    random_state: Any,
) -> Drawn:
    """Draw every picture for which there is something to draw."""
    n, labels = ens.n_samples, np.asarray(to_host(res.labels), dtype=np.int64)
    alike = compare(ens, res, random_state=random_state)
    easel = _Easel()
    easel.add("ensemble", lambda ax: draw_similarity(ens, alike, ax))
    easel.add("ensemble", lambda ax: draw_quality(ens, alike, ax))
    heat = {"known": known, "max_objects": max_objects, "random_state": random_state}
    easel.add("answer", lambda ax: plot.coassociation(ens, res, ax, **heat))
    stability = stability_of(selection, n)
    easel.add("answer", lambda ax: plot.confidence(res, ax, stability=stability))
    plane = _plane(X, ens, labels, random_state, easel)
    for by in ("cluster", "confidence"):
        easel.add("answer", partial(draw_plane, plane, res, by=by))
    for measure in _measures(selection):
        easel.add("number", partial(plot.selection, selection, measure=measure))
    tree, tree_objects = _tree(by_k, res, ens, labels, random_state)
    if len(tree) > 1:
        easel.add(
            "number",
            lambda ax: plot.cluster_tree(tree, ax, chosen=res.n_clusters),
        )
    if n > 1:
        easel.add(
            "number",
            lambda ax: plot.pair_distribution(ens, ax, random_state=random_state),
        )
    if known is not None:
        easel.add("known", lambda ax: plot.contingency(res, known, ax))
    if len(res.history) > 1:
        easel.add("diagnostics", lambda ax: plot.history(res, ax))
    if res.details.get("candidates"):
        easel.add("diagnostics", lambda ax: plot.candidates(res, ax))
    n_labelled = int((labels >= 0).sum())
    sampled = [
        f"{what} shows {drawn:,} of {whole:,} {noun}"
        for what, drawn, whole, noun in (
            ("the heat map", min(max_objects, n_labelled), n_labelled, "objects"),
            ("the plane", len(plane.rows), n_labelled, "objects"),
            ("the comparison of partitions", alike.n_objects, n, "objects"),
            (
                "the comparison of partitions",
                len(alike.partitions),
                ens.n_partitions,
                "partitions",
            ),
        )
        if drawn < whole
    ]
    return Drawn(easel.pictures, easel.left_out, alike, tree_objects, sampled)


class _Easel:
    """Draws pictures, and numbers them."""

    def __init__(self) -> None:
        self.pictures: dict[str, list[Picture]] = {}
        self.left_out: list[str] = []
        self._n = 0

    def add(self, section: str, draw: Callable[[Any], Any]) -> None:
        self._n += 1
        ident = f"picture-{self._n}"
        ax = new_axes()
        note = note_of(draw(ax))
        svg = inline_svg(ax.figure, ident, note.title, note.text)
        self.pictures.setdefault(section, []).append(Picture(ident, svg, note))


def _plane(
    X: Any, ens: Ensemble, labels: Any, random_state: Any, easel: _Easel
) -> Plane:
    """Return objects in a plane: by their features, or else by their labels."""
    if X is not None:
        length = length_of(X, "X")
        if length != ens.n_samples:
            raise ValueError(
                f"X has {length} rows but there are {ens.n_samples} objects; give one "
                "row per object."
            )
        try:
            return lay_out(X, labels, _PLANE_OBJECTS, random_state)
        except (TypeError, ValueError) as error:
            easel.left_out.append(f"Objects are drawn by their labels: {error}")
    return lay_out(ens, labels, _PLANE_OBJECTS, random_state)


def _measures(selection: Any) -> list[str]:
    """Return the measures of a selection that have numbers to draw."""
    if selection is None:
        return []
    check_selection("selection", selection)
    columns = table_columns(selection.table)
    wanted = ("stability", "gap", "scatter", "product")
    return [m for m in wanted if m in columns and np.isfinite(columns[m]).any()]


def _tree(
    by_k: Mapping[int, Any] | None,
    res: Consensus,
    ens: Ensemble,
    labels: Any,
    random_state: Any,
) -> tuple[dict[int, Any], int | None]:
    """Return clusterings by their number of clusters, the answer among them."""
    k = res.n_clusters
    if by_k is not None:
        if not isinstance(by_k, Mapping):
            raise TypeError(
                f"by_k={shown(by_k)} should be a dict of clusterings by their "
                "number of clusters."
            )
        return {**by_k, k: labels}, None
    rows = sample(labels, _TREE_OBJECTS, random_state)
    some = ens.subset(rows=rows)
    tree: dict[int, Any] = {k: labels[rows]}
    for other in range(max(2, k - 2), k + 3):
        if other == k:
            continue
        try:
            with own_warnings_off():
                found = kcc(
                    some,
                    other,
                    n_init=3,
                    on_unlabelled="keep",
                    random_state=random_state,
                )
        except ValueError:
            continue  # more clusters than objects differ
        if found.n_clusters == other:
            tree[other] = found
    return tree, len(rows)
