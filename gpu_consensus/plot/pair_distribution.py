"""The distribution of co-association, by the number of labels of the partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.plot.given import ensemble_of
from gpu_consensus.plot.picture import close_axes, open_axes
from gpu_consensus.plot.style import MAP, MARKERS, PALE, count
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.checks import FloatArray, IntArray, check_int, seed_sequence

_GROUPS = 5
_DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
_STEPS = 50


class _Group(NamedTuple):
    """Partitions drawn as one line."""

    name: str
    ensemble: Ensemble


def pair_distribution(
    ensembles: Any,
    ax: Any = None,
    *,
    n_pairs: int = 20_000,
    random_state: Any = 0,
) -> Any:
    """Draw how co-association is distributed over pairs of objects, for each K.

    Where partitions agree, pairs lie together always or never: the line is flat
    between 0.1 and 0.9. The share of pairs in between (PAC, the proportion of
    ambiguous clustering) is in the table.

    Parameters
    ----------
    ensembles : Ensemble, or mapping of int to Ensemble
        For each K an ensemble whose partitions have K clusters. The partitions of one
        ensemble are put into at most five groups by their number of labels.
    ax : Axes, optional
        Where to draw; a new figure by default.
    n_pairs : int, default 20,000
        Pairs of objects to draw, the same for all lines.
    random_state : int, Generator, RandomState, SeedSequence, default 0
        Draws the pairs.

    Returns
    -------
    Axes

    References
    ----------
    S. Monti, P. Tamayo, J. Mesirov, T. Golub, "Consensus clustering", Machine Learning
    52, 2003 (the distribution); Y. Senbabaoglu, G. Michailidis, J. Li, "Critical
    limitations of consensus clustering in class discovery", Scientific Reports 4, 2014
    (PAC).

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> from matplotlib.figure import Figure
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [0, 0, 0, 1]])
    >>> ax = gpc.plot.pair_distribution(ens, Figure().subplots())
    >>> ax.get_xlabel()
    'co-association of a pair'
    """
    n_pairs = check_int("n_pairs", n_pairs, 1)
    groups = _groups(ensembles)
    n_samples = groups[0].ensemble.n_samples
    if n_samples < 2:
        raise ValueError("ensembles have one object; a pair needs two.")
    first, second = _draw_pairs(n_samples, n_pairs, random_state)
    ax = open_axes(ax)
    import matplotlib

    colours = matplotlib.colormaps[MAP](np.linspace(0, 0.85, len(groups)))
    grid = np.linspace(0, 1, _STEPS + 1)
    rows = []
    for g, (name, ens) in enumerate(groups):
        share = _shares(ens, first, second)
        below = np.searchsorted(np.sort(share), grid + 1e-9, side="right")
        ax.plot(
            grid,
            below / len(share),
            drawstyle="steps-post",
            color=colours[g],
            linestyle=_DASHES[g % len(_DASHES)],
            marker=MARKERS[g % len(MARKERS)],
            markevery=(2 + 2 * g, 10),
            markersize=4.5,
            linewidth=1.6,
            label=name,
        )
        unclear = float(((share > 0.1) & (share < 0.9)).mean())
        together = float((share >= 0.9).mean())
        rows.append(
            (
                name,
                ens.n_partitions,
                round(float(share.mean()), 3),
                round(1 - unclear - together, 3),
                round(unclear, 3),
                round(together, 3),
            )
        )
    ax.axvspan(0.1, 0.9, color=PALE, alpha=0.35, linewidth=0)
    ax.text(0.12, 0.02, "pairs in doubt", va="bottom", fontsize="small")
    ax.set(
        xlim=(-0.01, 1.01),
        ylim=(0, 1.02),
        xlabel="co-association of a pair",
        ylabel="share of pairs, cumulative",
    )
    ax.legend(frameon=False, fontsize="small", loc="lower right", handlelength=3.2)
    best = min(rows, key=lambda row: row[4])
    n_drawn = len(first)
    text = (
        "Cumulative distribution of co-association, the share of partitions that put a "
        f"pair together, over {count(n_drawn, 'pair')} of objects; a line for each "
        "group of partitions. "
        "A line that is flat between 0.1 and 0.9 belongs to partitions that agree. "
        f"Fewest pairs in doubt: {best[0]}, {best[4]:.1%} of them."
    )
    return close_axes(
        ax,
        "Pairs in doubt, by number of labels",
        text,
        (
            "partitions with",
            "partitions",
            "mean co-association",
            "at most 0.1",
            "between (PAC)",
            "at least 0.9",
        ),
        rows,
    )


def _groups(ensembles: Any) -> list[_Group]:
    """Return the groups of partitions that get a line each."""
    if isinstance(ensembles, Mapping):
        if not ensembles:
            raise ValueError("ensembles is empty; give one for at least one K.")
        groups = [
            _Group(f"{k} labels", ensemble_of(ensembles[k])) for k in sorted(ensembles)
        ]
        sizes = {group.ensemble.n_samples for group in groups}
        if len(sizes) > 1:
            raise ValueError(
                f"ensembles have {min(sizes)} to {max(sizes)} objects; all should be "
                "of the same objects."
            )
        return groups
    ens = ensemble_of(ensembles)
    order = np.argsort(ens.n_labels, kind="stable")
    values = ens.n_labels[order]
    wanted = min(_GROUPS, len(np.unique(values)))
    cuts = values[np.linspace(0, len(values), wanted, endpoint=False).astype(int)[1:]]
    group_of = np.searchsorted(np.unique(cuts), values, side="right")
    groups = []
    for g in np.unique(group_of):
        own = order[group_of == g]
        low, high = int(ens.n_labels[own].min()), int(ens.n_labels[own].max())
        name = count(low, "label") if low == high else f"{low} to {high} labels"
        if ens.weights[own].any():
            groups.append(_Group(name, ens.subset(partitions=np.sort(own))))
    return groups


def _draw_pairs(n: int, n_pairs: int, random_state: Any) -> tuple[IntArray, IntArray]:
    """Draw pairs of different objects; all pairs where they are not more."""
    if n * (n - 1) // 2 <= n_pairs:
        every, other = np.triu_indices(n, 1)
        return every.astype(np.int64), other.astype(np.int64)
    rng = np.random.default_rng(seed_sequence(random_state))
    first = rng.integers(0, n, n_pairs)
    second = (first + rng.integers(1, n, n_pairs)) % n
    return first, second


def _shares(ens: Ensemble, first: IntArray, second: IntArray) -> FloatArray:
    """Return the co-association of pairs; of pairs that never meet 0."""
    same, both = np.zeros(len(first)), np.zeros(len(first))
    for i, weight in enumerate(ens.weights):
        codes = to_host(ens.codes[i])
        a, b = codes[first], codes[second]
        present = (a != ens.n_labels[i]) & (b != ens.n_labels[i])
        both += weight * present
        same += weight * (present & (a == b))
    return np.divide(same, both, out=np.zeros(len(same)), where=both > 0)
