"""One door for numbers: what is no number is refused before it becomes one.

NumPy turns text, dates, complex numbers and the values behind a mask into floats
without a word, and a Python integer of 400 digits into an error of its own.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 80
_short.maxlong = 40


def shown(value: Any) -> str:
    """Write a value for a message: short, and in one line.

    Examples
    --------
    >>> shown(list(range(100)))
    '[0, 1, 2, 3, 4, 5, ...]'
    """
    try:
        text = _short.repr(value)
    except Exception:  # an integer of too many digits, or a repr that fails
        text = f"<{type(value).__name__}>"
    return " ".join(text.split())


def real_number(value: Any) -> float:
    """Return a real number as a float, and NaN for everything else.

    Text, truth values, dates, arrays of several entries and integers beyond float64
    are no numbers here.

    Examples
    --------
    >>> real_number(3), real_number("3"), real_number(10**400)
    (3.0, nan, nan)
    """
    if isinstance(value, (bool, str, bytes, np.ma.MaskedArray)):
        return float("nan")
    try:
        array = np.asarray(value)
        if array.ndim or array.dtype.kind not in "iufO":
            return float("nan")
        return float(value)
    except Exception:  # whatever a class of the caller raises
        return float("nan")


def array_of(name: str, value: Any) -> npt.NDArray[Any]:
    """Make an array of what a caller gave, whatever its class answers.

    Examples
    --------
    >>> array_of("X", [[1, 2], [3]])
    Traceback (most recent call last):
    ...
    ValueError: X=[[1, 2], [3]] cannot be made an array (setting an array element with \
a sequence); pass a NumPy array of rows of one length.
    """
    try:
        return np.asarray(value)
    except Exception as error:
        raise ValueError(
            f"{name}={shown(value)} cannot be made an array ({first_sentence(error)}); "
            "pass a NumPy array of rows of one length."
        ) from error


def first_sentence(error: Exception) -> str:
    """Return what an error of others says at first, to stand in brackets."""
    text = " ".join(str(error).split()).split(". ")[0].rstrip(".")
    return text[:120] or type(error).__name__


def number_from(what: str, value: Any) -> float:
    """Return what a function of the caller's gave, if it is a finite number.

    Examples
    --------
    >>> number_from("measure=f", "much")
    Traceback (most recent call last):
    ...
    ValueError: measure=f returned 'much'; it should return a finite number for any \
two label vectors.
    """
    number = real_number(value)
    if not np.isfinite(number):
        raise ValueError(
            f"{what} returned {shown(value)}; it should return a finite number for any "
            "two label vectors."
        )
    return number


def check_mask(name: str, value: Any) -> Any:
    """Return a masked array that masks nothing as a plain one; refuse the others."""
    if not isinstance(value, np.ma.MaskedArray):
        return value
    hidden = np.argwhere(np.ma.getmaskarray(value))
    if len(hidden):
        where = ", ".join(str(index) for index in hidden[0])
        raise ValueError(
            f"{name} has {len(hidden)} masked entries, the first at [{where}]; fill "
            "them in, or leave out their rows."
        )
    return np.asarray(value.data)


def plain_numbers(
    array: npt.NDArray[Any], fail: Callable[[str, int], Exception]
) -> npt.NDArray[Any]:
    """Turn an array of Python objects into float64; others come back as they are.

    Parameters
    ----------
    array : ndarray
    fail : callable
        ``(what, place)``: makes the error for an entry that is no number, from words
        on it and its place in the flattened array.
    """
    if array.dtype.kind != "O":
        return array
    flat = array.ravel()
    odd = {kind for kind in set(map(type, flat)) if not _may_be_number(kind)}
    for place, value in enumerate(flat) if odd else ():
        if type(value) in odd:
            raise fail(shown(value), place)
    try:
        with np.errstate(over="ignore"):
            return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        for place, value in enumerate(flat):
            try:
                float(value)
            except OverflowError:
                raise fail("a number too large for float64", place) from None
            except TypeError:
                raise TypeError(str(fail(shown(value), place))) from None
            except Exception:  # whatever a class of the caller raises
                raise fail(shown(value), place) from None
        raise


def _may_be_number(kind: type) -> bool:
    text_or_time = (str, bytes, complex, np.complexfloating, np.datetime64)
    return not issubclass(kind, (*text_or_time, np.timedelta64))
