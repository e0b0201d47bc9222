"""A tree of clusterings: where objects go when there are more clusters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gpu_consensus.plot.given import labels_of
from gpu_consensus.plot.picture import close_axes, open_axes
from gpu_consensus.plot.style import FAINT, PALE, colour_of, count, ink_on
from gpu_consensus.util.checks import FloatArray, IntArray, check_int

_LEAST = 0.02  # of a cluster's objects; thinner streams are left out


class _Stream(NamedTuple):
    """Objects that go from a cluster of one clustering to one of the next."""

    k: int
    source: int
    target: int
    objects: int
    share: float  # of the target


def cluster_tree(
    clusterings: Mapping[int, Any], ax: Any = None, *, chosen: int | None = None
) -> Any:
    """Draw how clusters split and mix as their number grows.

    A row of circles for each number of clusters; a larger circle has more objects, and
    the width of a line is how many go from one cluster to another. Lines that join from
    several clusters above say that a cluster is no part of one before.

    Parameters
    ----------
    clusterings : mapping of int to Consensus or labels of shape (n_samples,)
        For each number of clusters a clustering of the same objects.
    ax : Axes, optional
        Where to draw; a new figure by default.
    chosen : int, optional
        The number of clusters that was chosen; its row gets the clusters' colours.

    Returns
    -------
    Axes

    References
    ----------
    L. Zappia, A. Oshlack, "Clustering trees: a visualization for evaluating clusterings
    at multiple resolutions", GigaScience 7(7), 2018.

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> from matplotlib.figure import Figure
    >>> by_k = {2: [0, 0, 0, 1], 3: [0, 0, 1, 2]}
    >>> ax = gpc.plot.cluster_tree(by_k, Figure().subplots(), chosen=2)
    >>> gpc.plot.table_of(ax)[1][0]
    (2, 0, 3, 0, 2, 1.0)
    """
    if chosen is not None:
        chosen = check_int("chosen", chosen, 1)
    if not isinstance(clusterings, Mapping) or not clusterings:
        raise ValueError(
            "clusterings should be a mapping from numbers of clusters to clusterings, "
            "with at least one."
        )
    ks = sorted(clusterings)
    layers = [labels_of(clusterings[k]) for k in ks]
    lengths = {len(labels) for labels in layers}
    if len(lengths) > 1:
        raise ValueError(
            f"clusterings have {min(lengths)} to {max(lengths)} objects; all should be "
            "of the same objects."
        )
    n = lengths.pop()
    sizes = [np.bincount(labels[labels >= 0]) for labels in layers]
    streams: list[_Stream] = []
    for k, above, below in zip(ks, layers, layers[1:], strict=False):
        streams += _streams(k, above, below)
    places = _places(ks, sizes, streams)
    ax = open_axes(ax)
    for stream in streams:
        level = ks.index(stream.k)
        x0, x1 = places[level][stream.source], places[level + 1][stream.target]
        width = 0.4 + 9.0 * stream.objects / n
        _curve(ax, x0, level, x1, level + 1, width, stream.share)
    for level, (k, size) in enumerate(zip(ks, sizes, strict=True)):
        for cluster, number in enumerate(size):
            _node(ax, places[level][cluster], level, cluster, number / n, k == chosen)
    names = [f"{k}  (chosen)" if k == chosen else str(k) for k in ks]
    ax.set_yticks(range(len(ks)), names)
    ax.set(
        xlim=(-0.06, 1.06),
        ylim=(len(ks) - 0.5, -0.6),
        xticks=[],
        ylabel="number of clusters",
    )
    ax.tick_params(left=False)
    ax.spines[:].set_visible(False)
    ax.set_xlabel("larger circle, wider line: more objects", fontsize="small")
    mixed = [s for s in streams if s.share < 0.9]
    text = (
        f"Tree of clusterings of {count(n, 'object')} with {ks[0]} to {ks[-1]} "
        "clusters, one row each; lines show which objects go where. "
        + (
            f"{count(len({(s.k, s.target) for s in mixed}), 'cluster')} below the "
            "first row are joined from several clusters above."
            if mixed
            else "Every cluster is part of one cluster of the row above."
        )
    )
    return close_axes(
        ax,
        "Where objects go with more clusters",
        text,
        ("clusters", "from", "clusters below", "to", "objects", "share of the target"),
        [
            (s.k, s.source, ks[ks.index(s.k) + 1], s.target, s.objects, s.share)
            for s in streams
        ],
        framed=True,
    )


def _streams(k: int, above: IntArray, below: IntArray) -> list[_Stream]:
    """Return the streams between two clusterings, thin ones left out."""
    both = (above >= 0) & (below >= 0)
    table = np.zeros((above.max() + 1, below.max() + 1), dtype=np.int64)
    np.add.at(table, (above[both], below[both]), 1)
    whole = np.maximum(table.sum(axis=0), 1)
    share = table / whole
    cells = np.argwhere((table > 0) & (share >= _LEAST))
    return [
        _Stream(k, int(a), int(b), int(table[a, b]), round(float(share[a, b]), 3))
        for a, b in cells
    ]


def _places(
    ks: list[int], sizes: list[IntArray], streams: list[_Stream]
) -> list[FloatArray]:
    """Return where the circles of each row lie, 0 to 1, below where they come from."""
    places: list[FloatArray] = []
    for level, size in enumerate(sizes):
        wish = np.arange(len(size), dtype=np.float64)
        if level:
            come = [s for s in streams if s.k == ks[level - 1]]
            for b in range(len(size)):
                own = [(places[-1][s.source], s.objects) for s in come if s.target == b]
                if own:
                    at, weight = zip(*own, strict=True)
                    wish[b] = float(np.average(at, weights=weight))
        row = np.empty(len(size))
        order = np.lexsort((-size, wish))
        row[order] = (np.arange(len(size)) + 0.5) / len(size)
        places.append(row)
    return places


def _curve(
    ax: Any, x0: float, y0: float, x1: float, y1: float, width: float, share: float
) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    middle = (y0 + y1) / 2
    path = Path(
        [(x0, y0), (x0, middle), (x1, middle), (x1, y1)],
        [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4],
    )
    style = "-" if share >= 0.5 else (0, (4, 1.5))
    ax.add_patch(
        PathPatch(
            path,
            facecolor="none",
            edgecolor=FAINT,
            alpha=0.25 + 0.55 * share,
            linewidth=width,
            linestyle=style,
            capstyle="butt",
        )
    )


def _node(
    ax: Any, x: float, y: float, cluster: int, share: float, coloured: bool
) -> None:
    fill = colour_of(cluster) if coloured else PALE
    ax.plot(
        x,
        y,
        "o",
        markersize=8 + 18 * np.sqrt(share),
        color=fill,
        markeredgecolor="white",
        markeredgewidth=1,
        zorder=3,
    )
    style = {"ha": "center", "va": "center", "fontsize": "small", "zorder": 4}
    ax.text(x, y, str(cluster), color=ink_on(fill), **style)
