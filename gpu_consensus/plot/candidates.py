"""The candidates of ``auto``: how well the partitions explain each."""

from __future__ import annotations

from typing import Any

from gpu_consensus.plot.picture import close_axes, open_axes
from gpu_consensus.plot.style import COLOURS, FAINT, PALE, drawn


def candidates(result: Any, ax: Any = None) -> Any:
    """Draw the methods that ``auto`` tried, by the share that partitions explain.

    Parameters
    ----------
    result : Consensus
        Of :func:`gpu_consensus.auto`, which is the default of ``consensus``.
    ax : Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> from matplotlib.figure import Figure
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    >>> res = gpc.auto(ens, 2, random_state=0)
    >>> ax = gpc.plot.candidates(res, Figure().subplots())
    >>> gpc.plot.table_of(ax)[1][0][0]
    'cvote'
    """
    tried = list(getattr(result, "details", {}).get("candidates", ()))
    if not tried:
        raise ValueError(
            "result has no candidates; they are those of method 'auto', "
            "gpc.consensus(ensemble, n_clusters)."
        )
    winner = str(result.method).rpartition(":")[2]
    ax = open_axes(ax)
    for y, one in enumerate(tried):
        if "criterion" not in one:
            ax.text(0.01, y, "left out", va="center", color=FAINT, fontsize="small")
            continue
        won = one["name"] == winner
        share = one["criterion"]
        fill = {"color": COLOURS[0]} if won else {"color": PALE, "hatch": "///"}
        ax.barh(y, share, height=0.62, edgecolor="white", **fill)
        words = f" {share:.4f}" + ("  chosen" if won else "")
        ax.text(share, y, words, va="center", fontsize="small")
    names = [drawn(one["name"]) for one in tried]
    ax.set_yticks(range(len(names)), names)
    ax.set(
        xlim=(0, 1.25),
        ylim=(len(names) - 0.4, -0.6),
        xlabel="share of the answer that partitions explain, 0 to 1",
    )
    ax.set_xticks([0, 0.25, 0.5, 0.75, 1])
    ax.tick_params(left=False)
    best = max((one.get("criterion", -1.0) for one in tried), default=0.0)
    text = (
        f"Bars for {len(tried)} methods that were tried, by the share of their answer "
        f"that the partitions explain. Chosen: {winner}, {best:.4f}."
    )
    columns = ("method", "share explained", "clusters", "smallest", "seconds", "note")
    return close_axes(
        ax, "What auto tried", text, columns, [_row(one) for one in tried]
    )


def _row(one: dict[str, Any]) -> tuple[Any, ...]:
    if "criterion" not in one:
        return (one["name"], "", "", "", "", f"left out: {one.get('left_out', '')}")
    return (
        one["name"],
        round(one["criterion"], 4),
        one["n_clusters"],
        one["smallest"],
        round(one["seconds"], 3),
        "",
    )
