"""The objective, iteration by iteration."""

from __future__ import annotations

from typing import Any

from gpu_consensus.plot.picture import close_axes, open_axes
from gpu_consensus.plot.style import COLOURS, PALE, count
from gpu_consensus.result import Consensus
from gpu_consensus.util.arrays import to_host


def history(result: Consensus, ax: Any = None) -> Any:
    """Draw the objective after each iteration of the winning start.

    Parameters
    ----------
    result : Consensus
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
    >>> ax = gpc.plot.history(gpc.kcc(ens, 2, random_state=0), Figure().subplots())
    >>> ax.get_xlabel()
    'iteration'
    """
    if not isinstance(result, Consensus):
        raise TypeError(
            f"result={type(result).__name__} should be a Consensus, which has a "
            "history."
        )
    values = [float(v) for v in to_host(result.history)]
    ax = open_axes(ax)
    at = list(range(1, len(values) + 1))
    ax.plot(at, values, "o-", color=COLOURS[0], markersize=4.5, linewidth=1.4)
    ax.set(xlabel="iteration", ylabel="objective, smaller is better")
    if len(at) < 3:
        ax.set(xlim=(0.5, 2.5), xticks=at)
    else:
        ax.locator_params(axis="x", integer=True)
    ax.ticklabel_format(axis="y", useOffset=False)
    ax.grid(axis="y", color=PALE, linewidth=0.6)
    ax.set_axisbelow(True)
    state = "converged" if result.converged else "stopped before it converged"
    text = (
        f"Objective of {result.method} after each of "
        f"{count(len(values), 'iteration')}: from {values[0]:.6g} to {values[-1]:.6g}; "
        f"it {state}."
    )
    rows = [(i, float(f"{v:.8g}")) for i, v in zip(at, values, strict=True)]
    return close_axes(
        ax, "Objective by iteration", text, ("iteration", "objective"), rows
    )
