"""Checks of arguments: each error is one sentence with parameter, value and cure."""

from __future__ import annotations

import difflib
import operator
import reprlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


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
            f"{name}={value!r} should be an integer {bound}{tail}."
        ) from None
    if number < low or (high is not None and number > high):
        raise ValueError(f"{name}={number} should be {bound}{tail}.")
    return number


def check_n_clusters(n_clusters: Any, n_samples: int) -> int:
    """Return a valid number of clusters for ``n_samples`` objects."""
    number = check_int("n_clusters", n_clusters, 1)
    if number > n_samples:
        raise ValueError(
            f"n_samples={n_samples} should be >= n_clusters={number}; "
            "ask for fewer clusters."
        )
    return number


def check_share(name: str, value: Any, *, open_low: bool, open_high: bool) -> float:
    """Return ``value`` as a float between 0 and 1."""
    try:
        number = float("nan") if isinstance(value, (bool, str)) else float(value)
    except (TypeError, ValueError):
        number = float("nan")
    inside = (number > 0 if open_low else number >= 0) and (
        number < 1 if open_high else number <= 1
    )
    if not inside:
        low, high = "(" if open_low else "[", ")" if open_high else "]"
        raise ValueError(f"{name}={value!r} should be a number in {low}0, 1{high}.")
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
    try:
        number = float("nan") if isinstance(value, (bool, str)) else float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not 0 < number < float("inf"):
        raise ValueError(f"{name}={value!r} should be a finite number > 0.")
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


def check_path(name: str, value: Any) -> Path:
    """Return ``value`` as a path, or raise an error that says what it is.

    Examples
    --------
    >>> check_path("checkpoint", 5)
    Traceback (most recent call last):
    ...
    TypeError: checkpoint=5 should be a path, as text or as a pathlib.Path.
    """
    try:
        return Path(value)
    except TypeError:
        raise TypeError(
            f"{name}={reprlib.repr(value)} should be a path, as text or as a "
            "pathlib.Path."
        ) from None


def unknown_name(
    name: str, value: Any, choices: Iterable[str], *, also: str = ""
) -> ValueError:
    """Return the error for an unknown name: the known ones, nearest first."""
    names = list(choices)
    near = difflib.get_close_matches(
        str(value).lower(), names, n=len(names), cutoff=0.0
    )
    listed = ", ".join(repr(n) for n in near + [n for n in names if n not in near])
    tail = f", {also}" if also else ""
    return ValueError(f"{name}={value!r} is unknown; choose one of {listed}{tail}.")


def check_weights(weights: Any, n_partitions: int) -> FloatArray:
    """Return partition weights as float64 that sum to 1; ``None`` means equal.

    Weights that sum to 1 already, up to rounding, come back bit for bit.
    """
    if weights is None:
        return np.full(n_partitions, 1.0 / n_partitions)
    try:
        array = np.asarray(weights)
        if array.dtype.kind in "cSU":  # NumPy would convert these
            raise TypeError
        array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"weights={reprlib.repr(weights)} should be numbers, one per partition."
        ) from None
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
