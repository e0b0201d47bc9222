"""How tight k-means clusters are, and the test of it against data of one mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_consensus.generate.kmeans import best_start
from gpu_consensus.generate.rows import prepare
from gpu_consensus.select import nulls
from gpu_consensus.select.runner import Runner
from gpu_consensus.util.checks import FloatArray

MAX_ITER = 10
N_STARTS = 5
FIRST_DRAWS = 10
"""Draws before a test may stop."""

NULLS = {
    "unimodal components": nulls.unimodal_components,
    "unimodal columns": nulls.unimodal_columns,
    "unimodal axes": nulls.unimodal_axes,
}
"""What the data is tested against, in this order."""

_LEAST = 1e-12  # of the total scatter: below it, clusters are points
_LEAST_VARIANCE = 1e-12


@dataclass(frozen=True)
class Scatter:
    """The logarithm of the scatter within the best of five k-means, for each K.

    Attributes
    ----------
    candidates : tuple of int
    floor : float
        The least that counts.
    """

    candidates: tuple[int, ...]
    floor: float

    def of(self, X: FloatArray, seed: np.random.SeedSequence) -> list[float]:
        """Return log W(K) of rows, for each candidate."""
        rows = prepare(nulls.compact(X), "euclidean", np.float32)
        numbers = seed.generate_state(N_STARTS * len(self.candidates), np.uint64)
        found = []
        for i, k in enumerate(self.candidates):
            seeds = numbers[N_STARTS * i : N_STARTS * (i + 1)].tolist()
            half = best_start(rows, k, seeds, MAX_ITER)[2]
            if half > 0:
                value = np.log(2 * half) + 2 * rows.exponent * np.log(2)
            else:
                value = -np.inf
            found.append(max(float(value), self.floor))
        return found


def scatter_of(X: FloatArray, candidates: Sequence[int]) -> Scatter:
    """Return the measure of scatter for data, its total the yardstick."""
    total = float(((X - X.mean(axis=0)) ** 2).sum())
    return Scatter(tuple(candidates), float(np.log(total * _LEAST)))


def largest_z(values: FloatArray) -> FloatArray:
    """Standardise each row by all others, column by column, and return its maximum.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_columns)
        At least three rows; larger means more structure.

    Returns
    -------
    ndarray of shape (n_rows,)
        Rows that are exchangeable stay so.

    Examples
    --------
    >>> import numpy as np
    >>> largest_z(np.array([[5.0], [1.0], [3.0], [2.0]])).round(2).tolist()
    [3.0, -1.53, 0.16, -0.5]
    """
    n = len(values)
    centred = values - values.mean(axis=0)
    # of all rows but one: its own share is taken out of the sums
    mean = -centred / (n - 1)
    squares = (centred**2).sum(axis=0) - centred**2
    variance = (squares - (n - 1) * mean**2) / (n - 2)
    z = (centred - mean) / np.sqrt(np.maximum(variance, _LEAST_VARIANCE))
    return np.asarray(z.max(axis=1))


@dataclass(frozen=True)
class NullTest:
    """The scatter of draws from a null, and how the data stands among them.

    Attributes
    ----------
    drawn : ndarray of shape (n_draws, n_candidates)
        log W of the draws.
    p_value : float
    p_by_k : ndarray of shape (n_candidates,)
        Of each candidate alone.
    """

    drawn: FloatArray
    p_value: float
    p_by_k: FloatArray


def exceedances(real: FloatArray, drawn: FloatArray) -> int:
    """Count draws that show at least as much structure as the data."""
    largest = largest_z(-np.vstack([real, drawn]))
    return int((largest[1:] >= largest[0]).sum())


def draws_needed(real: FloatArray, drawn: FloatArray, enough: int) -> int | None:
    """Return after how many draws the test may stop; None if it has to go on."""
    for n in range(FIRST_DRAWS, len(drawn) + 1):
        if exceedances(real, drawn[:n]) >= enough:
            return n
    return None


def compare_with_null(
    X: FloatArray,
    real: FloatArray,
    scatter: Scatter,
    name: str,
    n_null: int,
    alpha: float,
    runner: Runner,
) -> NullTest:
    """Compare the scatter of data with that of up to ``n_null`` draws from a null.

    It stops as soon as so many draws show as much structure that p is above alpha
    whatever follows.
    """
    draw = NULLS[name](X)
    enough = int(np.floor(alpha * (n_null + 1) + 1e-9))
    place = list(NULLS).index(name)

    def one(b: int) -> list[float]:
        seed = runner.seed_of("null", place, b)
        drawing, starting = seed.spawn(2)
        return scatter.of(draw(np.random.default_rng(drawing)), starting)

    values: list[list[float]] = []
    n_draws = None
    with runner.stage(name, n_null) as stage:
        while n_draws is None and len(values) < n_null:
            # the first together, then as many as there are threads
            more = FIRST_DRAWS if not values else runner.n_threads
            wave = range(len(values), min(n_null, len(values) + more))
            values += stage.run(wave, one)
            n_draws = draws_needed(real, np.array(values), enough)
    drawn = np.array(values[: n_draws or n_null])
    below = 1 + (drawn <= real).sum(axis=0)
    total = 1 + len(drawn)
    p_value = (1 + exceedances(real, drawn)) / total
    return NullTest(drawn, p_value, below / total)
