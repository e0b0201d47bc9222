"""Seeds as plain numbers, to be kept in files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


def plain_seed(seed: np.random.SeedSequence) -> dict[str, Any]:
    """Describe a seed by integers and lists alone, as JSON can hold them.

    How many children it has spawned is left out.

    Examples
    --------
    >>> import numpy as np
    >>> plain_seed(np.random.SeedSequence(np.array([1, 2]), spawn_key=(3,)))
    {'entropy': [1, 2], 'spawn_key': [3], 'pool_size': 4}
    """
    return {
        "entropy": _plain_words(seed.entropy),
        "spawn_key": _plain_words(seed.spawn_key),
        "pool_size": int(seed.pool_size),
    }


def seed_from_plain(plain: dict[str, Any]) -> np.random.SeedSequence:
    """Make the seed that :func:`plain_seed` described."""
    return np.random.SeedSequence(
        plain["entropy"],
        spawn_key=tuple(plain["spawn_key"]),
        pool_size=plain["pool_size"],
    )


def _plain_words(words: Any) -> Any:
    """Turn NumPy integers, arrays, ranges and tuples into integers and lists."""
    if isinstance(words, Iterable) and not isinstance(words, str):
        return [_plain_words(word) for word in words]
    return words if isinstance(words, str) else int(words)
