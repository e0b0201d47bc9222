"""Clusters against a labelling that is known otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.metrics import adjusted_rand, nmi
from gpu_consensus.plot.given import codes_of, labels_of
from gpu_consensus.plot.picture import close_axes, open_axes
from gpu_consensus.plot.style import MAP, clean, count, drawn, ink_on
from gpu_consensus.util.checks import IntArray

_MOST = 16
_OTHER = "all others"


def contingency(result: Any, known: Any, ax: Any = None) -> Any:
    """Draw how many objects of each cluster are of each known class.

    A cell has its number of objects; its colour is the share of the cluster. Of more
    than 16 clusters or classes the largest are drawn, and all others as one.

    Parameters
    ----------
    result : Consensus, or labels of shape (n_samples,)
    known : array_like of shape (n_samples,)
        Labels of any hashable kind; missing ones (-1, NaN, None) are left out.
    ax : Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> from matplotlib.figure import Figure
    >>> known = ["a", "a", "a", "b"]
    >>> ax = gpc.plot.contingency([0, 0, 1, 1], known, Figure().subplots())
    >>> gpc.plot.table_of(ax)
    (('cluster', 'a', 'b'), [('0', 2, 0), ('1', 1, 1)])
    """
    codes, classes = codes_of("known", known)
    labels = labels_of(result, len(codes))
    both = (labels >= 0) & (codes >= 0)
    if not both.any():
        raise ValueError(
            "result and known have no labelled object in common; there is nothing to "
            "draw."
        )
    table = np.zeros((labels.max() + 1, len(classes)), dtype=np.int64)
    np.add.at(table, (labels[both], codes[both]), 1)
    table, rows = _largest(table, [str(k) for k in range(len(table))])
    turned, columns = _largest(table.T, [clean(c) for c in classes])
    table = turned.T
    ax = open_axes(ax)
    share = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    image = ax.imshow(share, cmap=MAP, vmin=0, vmax=1, aspect="auto")
    if table.size <= 200:
        _write_numbers(ax, table, image.cmap(share))
    names = [drawn(name, 14) for name in columns]
    turn = sum(map(len, names)) > 36
    angle = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if turn else {}
    ax.set_xticks(range(len(names)), names, fontsize="small", **angle)
    ax.set_yticks(range(len(rows)), rows, fontsize="small")
    ax.tick_params(length=0)
    ax.set(xlabel="known label", ylabel="cluster")
    ax.spines[:].set_visible(False)
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.8, pad=0.03)
    bar.set_label("share of the cluster")
    bar.outline.set_visible(False)
    rand, information = adjusted_rand(codes, labels), nmi(codes, labels)
    skipped = int((~both).sum())
    text = (
        f"Table of {count(int(both.sum()), 'object')}: clusters in rows, known labels "
        "in columns, numbers of objects in the cells. Adjusted Rand index "
        f"{rand:.3f}, NMI {information:.3f}."
        + (
            f" Left out, without a label: {count(skipped, 'object')}."
            if skipped
            else ""
        )
    )
    return close_axes(
        ax,
        "Clusters and known labels",
        text,
        ("cluster", *columns),
        [
            (name, *(int(v) for v in line))
            for name, line in zip(rows, table, strict=True)
        ],
        framed=True,
    )


def _largest(table: IntArray, names: list[str]) -> tuple[IntArray, list[str]]:
    """Keep the largest rows of a table, and add up all others."""
    if len(table) <= _MOST:
        return table, names
    order = np.argsort(-table.sum(axis=1), kind="stable")
    kept, others = np.sort(order[: _MOST - 1]), order[_MOST - 1 :]
    rest = table[others].sum(axis=0, keepdims=True)
    return np.concatenate([table[kept], rest]), [*(names[i] for i in kept), _OTHER]


def _write_numbers(ax: Any, table: IntArray, colours: npt.NDArray[Any]) -> None:
    for (y, x), number in np.ndenumerate(table):
        ax.text(
            x,
            y,
            f"{number:,}",
            ha="center",
            va="center",
            fontsize="small" if table.size <= 60 else "x-small",
            color=ink_on(tuple(colours[y, x, :3])),
            alpha=1.0 if number else 0.55,
        )
