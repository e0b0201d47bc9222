"""Quality against diversity: what each partition adds."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.plot.given import ensemble_of
from gpu_consensus.plot.picture import close_axes, open_axes
from gpu_consensus.plot.similarity import (
    MAX_OBJECTS,
    MAX_PARTITIONS,
    Alike,
    compare,
)
from gpu_consensus.plot.style import COLOURS, INK, MARKERS, PALE, count

_GROUPS = 3
_NAMED = 3


def quality_diversity(
    ensemble: Any,
    result: Any,
    ax: Any = None,
    *,
    max_partitions: int = MAX_PARTITIONS,
    max_objects: int = MAX_OBJECTS,
    random_state: Any = 0,
) -> Any:
    """Draw, for each partition, how near the consensus it is and how unlike the others.

    Quality is the normalised mutual information with the consensus, diversity one minus
    the mean adjusted Rand index with all other partitions.

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
    result : Consensus, or labels of shape (n_samples,)
    ax : Axes, optional
        Where to draw; a new figure by default.
    max_partitions, max_objects : int, default 100 and 5,000
        Of more, some are drawn and compared.
    random_state : int, Generator, RandomState, SeedSequence, default 0

    Returns
    -------
    Axes

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> from matplotlib.figure import Figure
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [1, 1, 0, 0], [0, 1, 0, 1]])
    >>> ax = gpc.plot.quality_diversity(ens, [0, 0, 1, 1], Figure().subplots())
    >>> gpc.plot.table_of(ax)[1][2]
    (2, 2, 0.0, 1.5)
    """
    ens = ensemble_of(ensemble)
    if result is None:
        raise TypeError(
            "result=None should be a Consensus, or labels of shape (n_samples,)."
        )
    alike = compare(ens, result, max_partitions, max_objects, random_state)
    return draw_quality(ens, alike, ax)


def draw_quality(ens: Ensemble, alike: Alike, ax: Any) -> Any:
    """Draw partitions that were compared already, also with a consensus."""
    assert alike.with_result is not None
    quality = np.nan_to_num(alike.with_result)
    diversity = 1 - alike.mean_rand
    ax = open_axes(ax)
    values = np.sort(alike.n_labels)
    wanted = min(_GROUPS, len(np.unique(values)))
    cuts = values[np.linspace(0, len(values), wanted, endpoint=False).astype(int)[1:]]
    group = np.searchsorted(np.unique(cuts), alike.n_labels, side="right")
    for g in np.unique(group):
        own = group == g
        low, high = int(alike.n_labels[own].min()), int(alike.n_labels[own].max())
        name = count(low, "label") if low == high else f"{low} to {high} labels"
        ax.plot(
            diversity[own],
            quality[own],
            MARKERS[g],
            color=COLOURS[g],
            markeredgecolor="white",
            markeredgewidth=0.5,
            markersize=6,
            alpha=0.9,
            label=name,
        )
    for i in _outliers(quality):
        ax.annotate(
            str(alike.partitions[i]),
            (diversity[i], quality[i]),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize="small",
            color=INK,
        )
    ax.margins(0.08)
    ax.grid(color=PALE, linewidth=0.6)
    ax.set_axisbelow(True)
    ax.set(
        xlabel="diversity: 1 - mean ARI with the others",
        ylabel="quality: NMI with the consensus",
    )
    ax.locator_params(nbins=6)
    ax.legend(frameon=False, fontsize="small", loc="best")
    some = "" if len(quality) == ens.n_partitions else f" of {ens.n_partitions:,}"
    worst = int(np.argmin(quality))
    text = (
        f"Each of {count(len(quality), 'partition')}{some} as a point: diversity to "
        "the right, quality upwards. Quality is "
        f"{quality.mean():.2f} on average, diversity {diversity.mean():.2f}. Farthest "
        f"from the consensus: partition {alike.partitions[worst]}, quality "
        f"{quality[worst]:.2f}."
    )
    return close_axes(
        ax,
        "What each partition adds",
        text,
        ("partition", "labels", "quality (NMI)", "diversity"),
        [
            (int(i), int(k), round(float(q), 3), round(float(d), 3))
            for i, k, q, d in zip(
                alike.partitions, alike.n_labels, quality, diversity, strict=True
            )
        ],
    )


def _outliers(quality: Any) -> list[int]:
    """Return the few partitions that are much farther from the consensus than most."""
    low, middle, high = np.quantile(quality, [0.25, 0.5, 0.75])
    bound = min(low - 1.5 * (high - low), middle - 0.02)
    order = np.argsort(quality)[:_NAMED]
    return [int(i) for i in order if quality[i] < bound]
