"""Checks of arguments: each error is one sentence with parameter, value and cure."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.util.numbers import check_mask, plain_numbers, real_number, shown

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MOST = 1_000_000
"""Of what is counted one by one, such as starts and draws."""


def check_int(
    name: str, value: Any, low: int, high: int | None = None, *, cure: str = ""
) -> int:
    """Return ``value`` as an int in ``low..high``, or raise an error that says why.

    Examples
    --------
    >>> check_int("n_clusters", 3, 1)
    3
    """
    bound = f">= {low}" if high is None else f"in {low}..{high}"
    tail = f"; {cure}" if cure else ""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(
            f"{name}={shown(value)} should be an integer {bound}{tail}."
        ) from None
    if number < low or (high is not None and number > high):
        raise ValueError(f"{name}={shown(number)} should be {bound}{tail}.")
    return number


def check_count(name: str, value: Any, low: int = 1, most: int = MOST) -> int:
    """Return a number of things that each take time and memory.

    Examples
    --------
    >>> check_count("n_init", 10**12)
    Traceback (most recent call last):
    ...
    ValueError: n_init=1000000000000 should be <= 1000000; each takes time and memory.
    """
    number = check_int(name, value, low)
    if number > most:
        raise ValueError(
            f"{name}={shown(number)} should be <= {most}; each takes time and memory."
        )
    return number


def check_n_clusters(n_clusters: Any, n_samples: int) -> int:
    """Return a valid number of clusters for ``n_samples`` objects."""
    number = check_int("n_clusters", n_clusters, 1)
    if number > n_samples:
        raise ValueError(
            f"n_samples={n_samples} should be >= n_clusters={shown(number)}; "
            "ask for fewer clusters."
        )
    return number


def check_share(name: str, value: Any, *, open_low: bool, open_high: bool) -> float:
    """Return ``value`` as a float between 0 and 1."""
    number = real_number(value)
    inside = (number > 0 if open_low else number >= 0) and (
        number < 1 if open_high else number <= 1
    )
    if not inside:
        low, high = "(" if open_low else "[", ")" if open_high else "]"
        raise ValueError(
            f"{name}={shown(value)} should be a number in {low}0, 1{high}."
        )
    return number


def check_positive(name: str, value: Any) -> float:
    """Return ``value`` as a finite float above 0.

    Examples
    --------
    >>> check_positive("theta", 0)
    Traceback (most recent call last):
    ...
    ValueError: theta=0 should be a finite number > 0.
    """
    number = real_number(value)
    if not 0 < number < float("inf"):
        raise ValueError(f"{name}={shown(value)} should be a finite number > 0.")
    return number


def check_not_negative(name: str, value: Any) -> float:
    """Return ``value`` as a finite float of 0 or more.

    Examples
    --------
    >>> check_not_negative("tol", -1)
    Traceback (most recent call last):
    ...
    ValueError: tol=-1 should be a finite number >= 0.
    """
    number = real_number(value)
    if not 0 <= number < float("inf"):
        raise ValueError(f"{name}={shown(value)} should be a finite number >= 0.")
    return number


def check_choice(name: str, value: Any, choices: Iterable[str]) -> str:
    """Return ``value`` if it is one of ``choices``; else list them, nearest first.

    Examples
    --------
    >>> check_choice("strategy", "rp", ["zipf", "rps"])
    Traceback (most recent call last):
    ...
    ValueError: strategy='rp' is unknown; choose one of 'rps', 'zipf'.
    """
    names = list(choices)
    if isinstance(value, str) and value in names:
        return value
    raise unknown_name(name, value, names)


def unknown_name(
    name: str, value: Any, choices: Iterable[str], *, also: str = ""
) -> ValueError:
    """Return the error for an unknown name: the known ones, nearest first."""
    names = list(choices)
    given = value.lower()[:80] if isinstance(value, str) else ""
    near = difflib.get_close_matches(given, names, n=len(names), cutoff=0.0)
    listed = ", ".join(repr(n) for n in near + [n for n in names if n not in near])
    tail = f", {also}" if also else ""
    return ValueError(
        f"{name}={shown(value)} is unknown; choose one of {listed}{tail}."
    )


def check_weights(weights: Any, n_partitions: int) -> FloatArray:
    """Return partition weights as float64 that sum to 1; ``None`` means equal.

    Weights that sum to 1 already, up to rounding, come back bit for bit.
    """
    if weights is None:
        return np.full(n_partitions, 1.0 / n_partitions)

    def fail(*_: Any) -> TypeError:
        return TypeError(
            f"weights={shown(weights)} should be numbers, one per partition."
        )

    try:
        given = check_mask("weights", weights)
        array = plain_numbers(_as_array(given, fail), fail)
        if array.dtype.kind not in "biuf":  # NumPy would convert text and dates
            raise fail()
        with np.errstate(over="ignore"):
            array = array.astype(np.float64)
    except (TypeError, OverflowError):
        raise fail() from None
    if array.shape != (n_partitions,):
        raise ValueError(
            f"weights has shape {array.shape} but the ensemble has "
            f"n_partitions={n_partitions}; give one weight per partition."
        )
    bad = np.flatnonzero(~np.isfinite(array) | (array < 0))
    if bad.size:
        raise ValueError(
            f"weights[{bad[0]}]={array[bad[0]]} should be finite and >= 0; "
            "use 0 to leave a partition out."
        )
    largest = array.max()
    if largest == 0:
        raise ValueError("weights are all zero; at least one should be > 0.")
    if largest <= 1 and abs(array.sum() - 1) <= 64 * np.finfo(np.float64).eps:
        return array
    scaled: FloatArray = array / largest
    return np.asarray(scaled / scaled.sum(), dtype=np.float64)


def seed_sequence(random_state: Any) -> np.random.SeedSequence:
    """Turn any accepted ``random_state`` into a seed sequence.

    ``None`` is fresh entropy; an int or a ``SeedSequence`` is itself; a ``Generator``
    or ``RandomState`` is advanced by drawing 128 bits from it.
    """
    if random_state is None:
        return np.random.SeedSequence()
    if isinstance(random_state, np.random.SeedSequence):
        return np.random.SeedSequence(
            random_state.entropy,
            spawn_key=random_state.spawn_key,
            pool_size=random_state.pool_size,
        )
    if isinstance(random_state, np.random.Generator):
        words = random_state.integers(0, 2**32, size=4, dtype=np.uint64)
        return np.random.SeedSequence([int(word) for word in words])
    if isinstance(random_state, np.random.RandomState):
        words = random_state.randint(0, 2**32, size=4, dtype=np.uint64)
        return np.random.SeedSequence([int(word) for word in words])
    cure = "or pass None, a numpy Generator, RandomState or SeedSequence"
    return np.random.SeedSequence(check_int("random_state", random_state, 0, cure=cure))


def _as_array(value: Any, fail: Callable[[], Exception]) -> npt.NDArray[Any]:
    """Make an array; what is ragged is no array."""
    try:
        return np.asarray(value)
    except Exception:  # ragged, or whatever a class of the caller raises
        raise fail() from None
