"""What :func:`select_n_clusters` returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.util.checks import FloatArray
from gpu_consensus.util.html import html_table

Row = Mapping[str, float | None]


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """A number of clusters, and why it was chosen.

    Attributes
    ----------
    n_clusters : int
        1 where there is no structure, or no agreement, to speak of.
    reason : str
        One sentence that says why, to be quoted.
    table : tuple of dict
        A row for each candidate: ``n_clusters``, ``stability``, ``entropy`` and
        ``pac`` of the co-association; from features ``scatter`` (the logarithm of the
        scatter within clusters) with the band ``scatter_low`` to ``scatter_high`` that
        holds 95% of the data of one mode, ``gap`` and ``p`` (of this candidate alone);
        from labels ``anmi`` and ``product``. ``pandas.DataFrame(sel.table)`` takes it.
    p_value : float
        Of the test of one mode, or of chance agreement.
    alternatives : tuple of int
        Numbers nearly as good as the chosen one; none where that is 1.
    best : int
        The candidate that the data would have without the test.
    stability : ndarray of shape (n_samples,)
        Would an object keep its companions if the clustering was made again? From 0
        to 1, at ``best`` clusters; NaN for objects outside the sample, or set aside.
    cluster_stability : ndarray of shape (best,)
        Its mean in each cluster of ``labels``.
    labels : ndarray of shape (n_samples,), int32
        The clusters that ``cluster_stability`` speaks of; -1 outside the sample. The
        labels of all objects are those of ``gpc.cluster`` or of a consensus.
    claim : {"structure", "agreement"}
        What was tested: features may show structure, labels only agreement.
    details : mapping
        Further results: ``n_objects`` that were looked at, ``skipped`` candidates,
        ``alpha``; from features ``p_by_null``, ``null`` (the scatter of all draws, by
        null) and ``set_aside``, the objects left out as outliers; from labels
        ``agreement`` of the partitions.
    """

    n_clusters: int
    reason: str
    table: tuple[Row, ...]
    p_value: float
    alternatives: tuple[int, ...]
    best: int
    stability: FloatArray
    cluster_stability: FloatArray
    labels: npt.NDArray[np.int32]
    claim: str
    details: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Selection({self.n_clusters}: {self.reason})"

    def _repr_html_(self) -> str:
        """Describe the selection in a notebook: a row for each candidate."""
        columns = list(self.table[0]) if self.table else []
        rows = [
            [
                _mark(row, self) if name == "n_clusters" else _digits(row[name])
                for name in columns
            ]
            for row in self.table
        ]
        return html_table(repr(self), columns, rows)

    def as_dict(self) -> dict[str, Any]:
        """Return the answer without its arrays, in JSON's types.

        Examples
        --------
        >>> import numpy as np
        >>> import gpu_consensus as gpc
        >>> X = np.random.default_rng(0).normal(size=(90, 2))
        >>> X[::2] += 9
        >>> found = gpc.select_n_clusters(X, range(2, 5), random_state=0).as_dict()
        >>> found["n_clusters"], found["claim"]
        (2, 'structure')
        """
        return {
            "n_clusters": self.n_clusters,
            "reason": self.reason,
            "claim": self.claim,
            "p_value": self.p_value,
            "best": self.best,
            "alternatives": list(self.alternatives),
            "cluster_stability": [_plain(x) for x in self.cluster_stability],
            "n_objects": self.details["n_objects"],
            "table": [
                {name: _plain(value) for name, value in row.items()}
                for row in self.table
            ],
        }


def _mark(row: Row, selection: Selection) -> str:
    """Write a candidate, and what was decided of it."""
    k = int(row["n_clusters"] or 0)
    chosen = dict.fromkeys(selection.alternatives, "alternative")
    if selection.n_clusters > 1:
        chosen[selection.n_clusters] = "chosen"
    return f"{k}, {chosen[k]}" if k in chosen else str(k)


def _digits(value: Any) -> str:
    """Write a number for a person; nothing for what is not known."""
    known = _plain(value)
    return "" if known is None else f"{known:.4g}"


def _plain(value: Any) -> Any:
    """Return a number as JSON knows it, None for what is not known."""
    if value is None or np.isnan(value):
        return None
    return value if isinstance(value, int) else float(value)


def listed(numbers: Any) -> str:
    """Return numbers as a sentence lists them.

    Examples
    --------
    >>> listed([2, 3, 5])
    '2, 3 and 5'
    """
    words = [str(number) for number in numbers]
    return " and ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)


def skipped_text(skipped: list[int], n_distinct: int, what: str) -> str:
    """Return what the reason says of candidates that were left out."""
    if not skipped:
        return ""
    verb = "was" if len(skipped) == 1 else "were"
    return (
        f"; {listed(skipped)} {verb} skipped for want of distinct {what} ({n_distinct})"
    )
