"""How much memory there is, asked before a large piece of it is taken."""

from __future__ import annotations

import os
from pathlib import Path

from gpu_consensus.arrays import size_text


def check_memory(what: str, nbytes: int, memory_limit: int | None, cure: str) -> None:
    """Raise an error if ``nbytes`` cannot be had, before any work is done.

    Parameters
    ----------
    what : str
        What needs the memory, as the message begins.
    nbytes : int
    memory_limit : int or None
        The caller's own bound; None stands for what this machine has free.
    cure : str
        What to do instead.

    Examples
    --------
    >>> check_memory("hac", 8_000_000_000, 1_000_000, "use kcc")
    Traceback (most recent call last):
    ...
    MemoryError: hac needs 8.0 GB but memory_limit=1000000 allows 1.0 MB; use kcc.
    """
    if memory_limit is not None:
        bound = f"memory_limit={memory_limit} allows {size_text(memory_limit)}"
        limit: int | None = memory_limit
    else:
        limit = available_memory()
        bound = f"only {size_text(limit or 0)} of memory are free"
    if limit is not None and nbytes > limit:
        raise MemoryError(f"{what} needs {size_text(nbytes)} but {bound}; {cure}.")


def available_memory() -> int | None:
    """Return bytes that can still be taken without swapping; None if unknown."""
    table = Path("/proc/meminfo")
    if table.is_file():
        for line in table.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):  # Windows has none
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None
