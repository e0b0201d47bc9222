"""How the number of clusters was chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpu_consensus.plot.picture import close_axes, open_axes
from gpu_consensus.plot.style import COLOURS, FAINT, INK, PALE
from gpu_consensus.util.checks import FloatArray, check_choice
from gpu_consensus.util.numbers import shown

_WORDS = {
    "stability": ("stability (1: always the same)", "Stability"),
    "gap": ("gap to a Gaussian of the same shape", "Gap"),
    "scatter": ("scatter within clusters, logarithm", "Scatter"),
    "anmi": ("mean NMI with the partitions", "Agreement"),
    "product": ("stability times mean NMI", "Product"),
    "entropy": ("entropy of the co-association", "Entropy"),
    "pac": ("share of pairs in doubt (PAC)", "Pairs in doubt"),
}
_PARTS = ("table", "n_clusters", "alternatives", "p_value")
_K_NAMES = ("n_clusters", "k", "K")


def selection(sel: Any, ax: Any = None, *, measure: str = "stability") -> Any:
    """Draw a measure for each number of clusters, with the choice and alternatives.

    Parameters
    ----------
    sel : Selection
        Of :func:`gpu_consensus.select_n_clusters`.
    ax : Axes, optional
        Where to draw; a new figure by default.
    measure : str, default "stability"
        A column of ``sel.table``, such as "stability", "gap" or "scatter", which has
        the band of data without clusters (``scatter_low`` to ``scatter_high``); of
        labels "product".

    Returns
    -------
    Axes
    """
    check_selection("sel", sel)
    columns = table_columns(sel.table)
    measures = [name for name in columns if name not in _K_NAMES]
    check_choice("measure", measure, measures)
    ks = next(columns[name] for name in _K_NAMES if name in columns)
    values = columns[measure]
    chosen, others = int(sel.n_clusters), {int(k) for k in sel.alternatives}
    label, title = _WORDS.get(measure, (measure, measure.capitalize()))
    ax = open_axes(ax)
    ax.plot(ks, values, "-", color=COLOURS[0], linewidth=1.5, zorder=2)
    others.discard(chosen)
    _draw_band(ax, measure, ks, columns, getattr(sel, "claim", "structure"))
    p = float(sel.p_value)
    verdict = (
        f"no structure (p = {p:.3g})" if chosen == 1 else f"{chosen} (p = {p:.3g})"
    )
    _draw_points(ax, ks, values, chosen, others, verdict)
    ax.set(xlabel="number of clusters", ylabel=label)
    ax.set_xticks(ks)
    ax.margins(x=0.06, y=0.16)
    ax.grid(axis="y", color=PALE, linewidth=0.6)
    ax.set_axisbelow(True)
    title_of = f"chosen: {verdict}" if chosen == 1 else None
    ax.legend(frameon=False, fontsize="small", title=title_of, loc="best")
    listed = ", ".join(str(k) for k in sorted(others)) or "none"
    text = (
        f"{title} for {int(ks[0])} to {int(ks[-1])} clusters. Chosen: {verdict}. "
        f"Alternatives: {listed}."
    )
    names = [name for name in _K_NAMES if name in columns][:1] + measures
    rows = [
        tuple(_plain(name, columns[name][row]) for name in names)
        for row in range(len(ks))
    ]
    return close_axes(ax, f"{title} by number of clusters", text, names, rows)


def check_selection(name: str, sel: Any) -> None:
    """Raise an error for what is no selection."""
    lacking = [part for part in _PARTS if not hasattr(sel, part)]
    if lacking:
        raise TypeError(
            f"{name}={shown(sel)} has no {lacking[0]}; pass what select_n_clusters "
            "returns."
        )


def table_columns(table: Any) -> dict[str, FloatArray]:
    """Return the columns of a table: of rows, of columns, or a DataFrame."""
    if hasattr(table, "to_dict") and hasattr(table, "columns"):
        table = {str(name): table[name].to_numpy() for name in table.columns}
    elif isinstance(table, np.ndarray) and table.dtype.names:
        table = {name: table[name] for name in table.dtype.names}
    elif isinstance(table, Sequence) and len(table):
        rows = [row._asdict() if hasattr(row, "_asdict") else row for row in table]
        rows = [row if isinstance(row, Mapping) else vars(row) for row in rows]
        table = {name: [row.get(name) for row in rows] for name in rows[0]}
    if not isinstance(table, Mapping) or not any(name in table for name in _K_NAMES):
        raise TypeError(
            f"sel.table is a {type(table).__name__}; it should have a row for each "
            "number of clusters, which n_clusters names."
        )
    columns = {}
    for name, values in table.items():
        try:
            numbers = [np.nan if v is None else float(v) for v in values]
        except (TypeError, ValueError):
            continue  # words, which no line can show
        columns[str(name)] = np.array(numbers)
    return columns


def _draw_band(ax: Any, measure: str, ks: FloatArray, columns: Any, claim: str) -> None:
    """Draw the band of the null, or of the numbers that are as good as the best."""
    low, high = f"{measure}_low", f"{measure}_high"
    if low in columns and high in columns:
        ax.fill_between(
            ks,
            columns[low],
            columns[high],
            color=PALE,
            alpha=0.7,
            linewidth=0,
            label="data without clusters (null), 95%",
        )
        return
    if measure == "gap":
        ax.axhline(0, color=FAINT, linewidth=1, linestyle="--", label="no clusters")
        return
    bounds = {"stability": (1.0, 0.03)} if claim == "structure" else {}
    bounds["product"] = (0.97, 0.0)
    if measure in bounds and np.isfinite(columns[measure]).any():
        factor, less = bounds[measure]
        best = float(np.nanmax(columns[measure]))
        bound = factor * best - less
        ax.axhspan(bound, best, color=PALE, alpha=0.7, linewidth=0)
        words = "0.03 below the best" if less else "0.97 of the best"
        ax.axhline(bound, color=FAINT, linewidth=0.8, linestyle="--", label=words)


def _draw_points(
    ax: Any,
    ks: FloatArray,
    values: FloatArray,
    chosen: int,
    others: set[int],
    verdict: str,
) -> None:
    """Draw the candidates: the chosen one, its alternatives, all others."""
    kinds = np.array([2 if k == chosen else int(k in others) for k in ks])
    signs = [
        ("o", 6, "white", COLOURS[0], None),
        ("s", 8, COLOURS[5], INK, "alternative"),
        ("D", 10, COLOURS[1], INK, f"chosen: {verdict}"),
    ]
    for kind, (marker, size, fill, edge, name) in enumerate(signs):
        own = kinds == kind
        if own.any():
            style = {"color": fill, "markeredgecolor": edge, "markersize": size}
            ax.plot(ks[own], values[own], marker, zorder=3, label=name, **style)


def _plain(name: str, value: float) -> Any:
    if np.isnan(value):
        return ""
    return int(value) if name in _K_NAMES else float(f"{value:.4g}")
