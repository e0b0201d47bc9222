"""Small facts about arrays of any library."""

from __future__ import annotations

from typing import Any

import numpy as np


def to_host(array: Any) -> Any:
    """Copy a CuPy or cuDF object to the host; return others as they are."""
    library = type(array).__module__.split(".")[0]
    if library == "cudf":
        return array.to_pandas()
    if library == "cupyx":
        return array.get()
    if hasattr(array, "__cuda_array_interface__"):
        if not hasattr(array, "get"):
            raise TypeError(
                f"{type(array).__name__} on a CUDA device is not understood; pass it "
                "through cupy.asarray first."
            )
        return array.get()
    return array


def on_device(array: Any) -> bool:
    """Whether an array lives on a CUDA device."""
    return hasattr(array, "__cuda_array_interface__")


def is_array(value: Any) -> bool:
    """Whether a value is one array, on the host or on a device."""
    return isinstance(value, np.ndarray) or on_device(value)


def read_only(array: Any) -> Any:
    """Return a view that cannot be written; CuPy has no such thing."""
    if isinstance(array, np.ndarray):
        array = array.view()
        array.flags.writeable = False
    return array


def is_mapped(array: Any) -> bool:
    """Whether an array is mapped from a file."""
    while array is not None:
        if isinstance(array, np.memmap):
            return True
        array = getattr(array, "base", None)
    return False


def size_text(size: float) -> str:
    """Write a number of bytes for a person.

    Examples
    --------
    >>> size_text(1500)
    '1.5 kB'
    """
    size = float(min(size, 1e300))
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
