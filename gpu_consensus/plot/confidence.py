"""How sure the labels are, cluster by cluster."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu_consensus.plot.given import labels_of
from gpu_consensus.plot.picture import close_axes, open_axes
from gpu_consensus.plot.style import FAINT, INK, PALE, colour_of, count
from gpu_consensus.result import Consensus
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.numbers import array_of, check_mask, shown

_MOST = 24


def confidence(
    result: Consensus,
    ax: Any = None,
    *,
    stability: Any = None,
) -> Any:
    """Draw the confidence of the objects of each cluster and, if known, stability.

    A dot is the median, the thick bar holds the middle half, the thin line 90% of the
    objects. Of more than 24 clusters the least confident are drawn.

    Parameters
    ----------
    result : Consensus
        With a confidence.
    ax : Axes, optional
        Where to draw; a new figure by default.
    stability : array_like of shape (n_samples,), optional
        Of each object, NaN where it is unknown; the mean of each cluster is drawn as a
        diamond. ``Selection.stability`` has it.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> from matplotlib.figure import Figure
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    >>> res = gpc.kcc(ens, 2, random_state=0)
    >>> ax = gpc.plot.confidence(res, Figure().subplots())
    >>> gpc.plot.table_of(ax)[0][:3]
    ('cluster', 'objects', 'mean')
    """
    if not isinstance(result, Consensus):
        raise TypeError(
            f"result={type(result).__name__} should be a Consensus, which has a "
            "confidence; labels alone have none."
        )
    labels, sure = labels_of(result), result.confidence
    stable = _check_stability(stability, len(labels))
    found = np.unique(labels[labels >= 0])
    rows: list[tuple[Any, ...]] = []
    for k in found:
        own = sure[labels == k]
        points = np.quantile(own, [0.05, 0.25, 0.5, 0.75, 0.95])
        numbers = [own.mean(), *points]
        if stable is not None:
            numbers.append(_mean(stable[labels == k]))
        rows.append((int(k), len(own), *(round(float(v), 3) for v in numbers)))
    shown = rows
    if len(rows) > _MOST:
        shown = sorted(sorted(rows, key=lambda row: row[2])[:_MOST])
    ax = open_axes(ax)
    for y, row in enumerate(shown):
        _draw(ax, y, row)
    ax.set_yticks(range(len(shown)), [str(row[0]) for row in shown])
    low = min(row[3] for row in shown)
    if stable is not None:
        low = min([low, *(row[8] for row in shown if not np.isnan(row[8]))])
    left = max(0.0, np.floor(10 * low) / 10 - 0.02)
    ax.set(
        xlim=(left, 1.02),
        ylim=(len(shown) - (0.4 if stable is None else -0.3), -0.6),
        xlabel="confidence (dot: median, bars: 50%, 90%)",
        ylabel="cluster",
    )
    ax.grid(axis="x", color=PALE, linewidth=0.6)
    ax.set_axisbelow(True)
    ax.tick_params(left=False)
    for y, row in enumerate(shown):
        ax.annotate(
            f"{row[1]:,}",
            (1.0, y),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize="small",
            color=FAINT,
            annotation_clip=False,
        )
    ax.annotate(
        "objects",
        (1.0, -0.6),
        xycoords=("axes fraction", "data"),
        xytext=(4, 2),
        textcoords="offset points",
        fontsize="small",
        color=FAINT,
        annotation_clip=False,
    )
    if stable is not None:
        ax.plot(
            [], [], "D", color="white", markeredgecolor=INK, label="stability, mean"
        )
        ax.legend(frameon=False, fontsize="small", loc="lower left", borderpad=0)
    weakest = min(rows, key=lambda row: row[2])
    text = (
        f"Confidence of the objects of {count(len(rows), 'cluster')}"
        + (f", the {_MOST} least confident drawn" if len(rows) > _MOST else "")
        + f": median, middle half and 90%. Over all objects the mean is "
        f"{sure[labels >= 0].mean():.3f}. Least confident: cluster {weakest[0]}, "
        f"mean {weakest[2]:.3f}, {count(weakest[1], 'object')}."
    )
    columns = ["cluster", "objects", "mean", "5%", "25%", "median", "75%", "95%"]
    if stable is not None:
        columns.append("stability, mean")
    return close_axes(ax, "How sure each cluster is", text, columns, rows)


def _draw(ax: Any, y: int, row: tuple[Any, ...]) -> None:
    colour = colour_of(row[0])
    edge = {"edgecolor": INK, "linewidth": 0.5}
    ax.plot([row[3], row[7]], [y, y], color=INK, linewidth=1)
    ax.barh(y, row[6] - row[4], left=row[4], height=0.3, color=colour, **edge)
    ax.plot(row[5], y, "o", color="white", markeredgecolor=INK, markersize=5.5)
    if len(row) > 8:
        ax.plot(row[8], y, "D", color="white", markeredgecolor=INK, markersize=5)


def _check_stability(stability: Any, n_samples: int) -> Any:
    if stability is None:
        return None
    given = array_of("stability", check_mask("stability", to_host(stability)))
    if given.dtype.kind not in "biuf":
        raise TypeError(f"stability={shown(stability)} should be numbers, or NaN.")
    values = given.astype(np.float64)
    if values.shape != (n_samples,):
        raise ValueError(
            f"stability has shape {values.shape} but there are {n_samples} objects; "
            "give one number per object."
        )
    return values


def _mean(values: Any) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")
