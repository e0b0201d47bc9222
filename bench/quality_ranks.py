"""Mean ranks of methods over sets, and which of them differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

_COVERAGE = 2 / 3
_DIGITS = 6  # equal to so many digits is a tie


@dataclass(frozen=True)
class Ranks:
    """Mean ranks, 1 the best.

    Attributes
    ----------
    mean : dict
        By method.
    sets : list of str
        Those that all these methods have a value on.
    difference : float
        Critical difference of two mean ranks (Nemenyi, 5%).
    p : float
        Of Friedman's test that all methods are alike, with the F distribution of Iman
        and Davenport.
    """

    mean: dict[str, float]
    sets: list[str]
    difference: float
    p: float


def critical_difference(n_methods: int, n_sets: int, alpha: float = 0.05) -> float:
    """Return by how much mean ranks must differ (Nemenyi; Demsar 2006, section 3.2.2).

    Examples
    --------
    >>> round(critical_difference(4, 14), 2)
    1.25
    """
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(1 - alpha, n_methods, np.inf)) / np.sqrt(2)
    return float(q * np.sqrt(n_methods * (n_methods + 1) / (6 * n_sets)))


def mean_ranks(
    scores: Mapping[str, Mapping[str, float]], sets: Sequence[str]
) -> Ranks | None:
    """Rank methods by their scores, higher is better, ties share the mean rank.

    Parameters
    ----------
    scores : mapping
        Scores by method and set.
    sets : sequence of str
        Methods with a score on fewer than two thirds of them are left out; of the sets
        those count that all other methods have a score on.

    Returns
    -------
    Ranks or None
        None where there are fewer than two methods or sets left.
    """
    from scipy.stats import f, rankdata

    methods = [
        method
        for method, of in scores.items()
        if sum(name in of for name in sets) >= max(1, _COVERAGE * len(sets))
    ]
    common = [name for name in sets if all(name in scores[m] for m in methods)]
    n, k = len(common), len(methods)
    if n < 2 or k < 2:
        return None
    table = np.array([[scores[method][name] for method in methods] for name in common])
    ranks = rankdata(-np.round(table, _DIGITS), axis=1)
    mean = ranks.mean(axis=0)
    # with ties: the variance that the ranks have, not the one that they could have
    spread = float(((ranks - (k + 1) / 2) ** 2).sum())
    chi = (k - 1) * n**2 * float(((mean - (k + 1) / 2) ** 2).sum()) / max(spread, 1e-12)
    left = n * (k - 1) - chi
    p = (
        0.0
        if left <= 0
        else float(f.sf((n - 1) * chi / left, k - 1, (k - 1) * (n - 1)))
    )
    order = np.argsort(mean, kind="stable")
    return Ranks(
        {methods[i]: float(mean[i]) for i in order},
        common,
        critical_difference(k, n),
        p,
    )
