"""How often two objects lie together, as a map of some of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu_consensus.backends.numpy import NumpyBackend
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.loop.pairs import Pairs
from gpu_consensus.plot.given import (
    Objects,
    codes_of,
    confidence_of,
    ensemble_of,
    labels_of,
    sample,
)
from gpu_consensus.plot.picture import close_axes, open_axes
from gpu_consensus.plot.style import INK, MAP, colour_of, count, drawn, ink_on
from gpu_consensus.util.checks import FloatArray

MAX_OBJECTS = 1_500
_MOST_CLASSES = 8


def coassociation(
    ensemble: Any,
    result: Any,
    ax: Any = None,
    *,
    known: Any = None,
    max_objects: int = MAX_OBJECTS,
    random_state: Any = 0,
) -> Any:
    """Draw the share of partitions that put two objects together, as a heat map.

    Objects are ordered by cluster and, within it, by confidence; of more than
    ``max_objects`` some are drawn, at least five of each cluster. The n x n matrix of
    all objects never exists.

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
    result : Consensus, or labels of shape (n_samples,)
    ax : Axes, optional
        Where to draw; a new figure by default.
    known : array_like of shape (n_samples,), optional
        Labels known otherwise, drawn below the map: a line for each class, with a mark
        for each of its objects.
    max_objects : int, default 1500
    random_state : int, Generator, RandomState, SeedSequence, default 0
        Draws the objects.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> from matplotlib.figure import Figure
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    >>> res = gpc.kcc(ens, 2, random_state=0)
    >>> ax = gpc.plot.coassociation(ens, res, Figure().subplots())
    >>> ax.get_title(loc="left")
    'Objects together'
    """
    ens = ensemble_of(ensemble)
    labels = labels_of(result, ens.n_samples)
    rows = sample(labels, max_objects, random_state)
    matrix = pair_shares(ens, rows)
    sure = confidence_of(result)
    keys = _own_share(matrix, labels[rows]) if sure is None else sure[rows]
    order = _order(matrix, labels[rows], keys)
    rows, matrix = rows[order], matrix[np.ix_(order, order)]
    of = labels[rows]
    ax = open_axes(ax)
    image = ax.imshow(matrix, cmap=MAP, vmin=0, vmax=1, interpolation="antialiased")
    found, begin, size = np.unique(of, return_index=True, return_counts=True)
    _mark_clusters(ax, found, begin, size, len(rows))
    below = ""
    if known is not None:
        shown, there = _draw_known(ax, known, rows, ens.n_samples)
        which = f"the {shown} commonest of {there:,}" if shown < there else f"{shown}"
        below = f" Below the map, objects of known labels: {which}."
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.8, pad=0.03)
    bar.set_label("share of partitions")
    bar.outline.set_visible(False)
    means = _block_means(matrix, begin, size)
    inside = float(np.average(np.diag(means), weights=size))
    other = means[~np.eye(len(found), dtype=bool)]
    drawn_of = "all" if len(rows) == ens.n_samples else f"{len(rows):,} of"
    between = (
        f" The closest two clusters share {other.max():.2f}." if other.size else ""
    )
    text = (
        f"Heat map of {drawn_of} {count(ens.n_samples, 'object')}, ordered by cluster "
        "and confidence. Colour: share of the partitions that put two objects "
        f"together. Within clusters it is {inside:.2f} on average.{between} Blocks on "
        "the diagonal are clusters; light outside of them means "
        f"doubt.{below}"
    )
    return close_axes(
        ax,
        "Objects together",
        text,
        ("mean share with", *(f"cluster {k}" for k in found[:30])),
        [
            (f"cluster {k}", *(round(float(m), 3) for m in line[:30]))
            for k, line in zip(found[:30], means, strict=False)
        ],
        framed=True,
    )


def pair_shares(ens: Ensemble, rows: Objects) -> FloatArray:
    """Return the co-association of some objects with each other."""
    part = ens.subset(rows=rows)
    everyone = np.arange(len(rows))
    pairs = Pairs(NumpyBackend(), part.codes, part.n_labels, part.weights)
    return pairs.tile(everyone, everyone)


def _order(matrix: FloatArray, of: Any, keys: FloatArray) -> Objects:
    """Order objects by cluster, then by confidence; equals so that those alike meet."""
    score = np.zeros(len(of))
    for k in np.unique(of):
        own = np.flatnonzero(of == k)
        score[own] = _main_axis(matrix[np.ix_(own, own)])
    return np.lexsort((score, -np.round(keys, 2), of))


def _main_axis(block: FloatArray) -> FloatArray:
    """Return the first principal coordinate of objects, from their similarities."""
    block = block - block.mean(axis=0) - block.mean(axis=1)[:, None] + block.mean()
    vector = np.cos(np.arange(len(block)))
    for _ in range(50):
        moved = block @ vector
        length = float(np.sqrt((moved * moved).sum()))
        if length < 1e-12:
            return np.zeros(len(block))
        vector = moved / length
    return vector


def _own_share(matrix: FloatArray, of: Any) -> FloatArray:
    """Return the mean share of each object with its own cluster."""
    own = of[:, None] == of
    share: FloatArray = (matrix * own).sum(axis=1) / own.sum(axis=1)
    return share


def _block_means(matrix: FloatArray, begin: Any, size: Any) -> FloatArray:
    """Return the mean of each pair of clusters; pairs of an object with itself not."""
    sums = np.add.reduceat(np.add.reduceat(matrix, begin, axis=0), begin, axis=1)
    pairs = np.outer(size, size).astype(np.float64)
    diagonal = np.add.reduceat(np.diag(matrix), begin)
    sums[np.diag_indices(len(size))] -= diagonal
    pairs[np.diag_indices(len(size))] -= size
    return np.divide(sums, pairs, out=np.ones_like(sums), where=pairs > 0)


def _mark_clusters(ax: Any, found: Any, begin: Any, size: Any, n: int) -> None:
    """Draw lines between clusters, and their numbers and colours at the left."""
    for edge in begin[1:]:
        ax.axhline(edge - 0.5, color="white", linewidth=0.8)
        ax.axvline(edge - 0.5, color="white", linewidth=0.8)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    side = ax.inset_axes([-0.075, 0, 0.055, 1])
    side.set(xlim=(0, 1), ylim=(n - 0.5, -0.5), xticks=[], yticks=[])
    side.spines[:].set_visible(False)
    for k, low, length in zip(found, begin, size, strict=True):
        side.axhspan(low - 0.5, low + length - 0.5, color=colour_of(k), linewidth=0)
        if length >= 0.035 * n:
            middle = low + length / 2 - 0.5
            style = {"ha": "center", "va": "center", "fontsize": "small"}
            side.text(0.5, middle, str(k), color=ink_on(colour_of(k)), **style)
    side.set_ylabel("cluster")


def _draw_known(ax: Any, known: Any, rows: Objects, n_samples: int) -> tuple[int, int]:
    """Draw a line for each class below the map, with a mark for each object of it.

    Returns how many classes are drawn, and how many there are.
    """
    codes, classes = codes_of("known", known)
    if len(codes) != n_samples:
        raise ValueError(
            f"known has {len(codes)} labels but there are {n_samples} objects; give "
            "one label per object."
        )
    here = codes[rows]
    sizes = np.bincount(here[here >= 0], minlength=len(classes))
    shown = np.sort(np.argsort(-sizes, kind="stable")[:_MOST_CLASSES])
    shown = shown[sizes[shown] > 0]
    if not len(shown):
        return 0, 0
    height = 0.06 * len(shown)
    below = ax.inset_axes([0, -height - 0.02, 1, height])
    for line, c in enumerate(shown):
        at = np.flatnonzero(here == c)
        below.eventplot(
            at, lineoffsets=line, linelengths=0.72, color=INK, linewidth=0.5
        )
    below.set(xlim=(-0.5, len(rows) - 0.5), ylim=(len(shown) - 0.5, -0.5), xticks=[])
    below.set_yticks(range(len(shown)), [drawn(classes[c], 12) for c in shown])
    below.tick_params(left=False, labelsize="small")
    below.spines[:].set_visible(False)
    return len(shown), int((sizes > 0).sum())
