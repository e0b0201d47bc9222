"""Whether there is memory for the starts of a method, asked before any work."""

from __future__ import annotations

import numpy as np

from gpu_consensus.util.arrays import size_text
from gpu_consensus.util.memory import available_memory


def check_starts(
    method: str,
    n_init: int,
    n_clusters: int,
    n_samples: int,
    *,
    table_bytes: int,
    together: int,
    fixed: int,
) -> None:
    """Raise an error that says how many starts fit, if these do not.

    A start has its assignment, and those that share a table have tables, and the
    assignment before, besides.

    Parameters
    ----------
    method : str
        As messages call it.
    n_init, n_clusters, n_samples : int
    table_bytes : int
        Of the counts and tables of one start.
    together : int
        Starts that may share a table.
    fixed : int
        Bytes that do not depend on how many starts there are.
    """
    free = available_memory()
    if free is None:
        return
    one = n_samples * np.min_scalar_type(n_clusters).itemsize
    shared = table_bytes + 2 * one
    needed = fixed + min(together, n_init) * shared + 2 * n_init * one
    if needed <= free:
        return
    fits = (free - fixed - together * shared) // (2 * one)
    if fits < together:
        fits = (free - fixed) // (shared + 2 * one)
    cure = f"n_init={fits} fits" if fits > 0 else "lower n_clusters"
    raise MemoryError(
        f"{method} with n_init={n_init} and n_clusters={n_clusters} needs about "
        f"{size_text(needed)} but only {size_text(free)} of memory are free; {cure}."
    )
