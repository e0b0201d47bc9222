"""How long a search goes on, and how far it has come."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

POPULATION = 10
"""Answers that a generation begins with; further starts compete at the end."""
_LARGE = 5000  # objects from which on fewer generations do
_PATIENCE = 2  # generations without a fall


@dataclass
class Searching:
    """How far a search has come: plain numbers, for checkpoints.

    Attributes
    ----------
    most : int
        Generations at most.
    patience : int
        Generations without a fall after which it ends.
    generation : int
        Generations done.
    waited : int
        Generations since the last fall.
    n_children : int
        Overlays tried.
    n_evolving : int
        Answers, the first, that go on evolving; the others compete at the end.
    best : list of float
        The lowest objective after the starts and after every generation.
    is_done : bool
    """

    most: int
    patience: int
    generation: int = 0
    waited: int = 0
    n_children: int = 0
    n_evolving: int = POPULATION
    best: list[float] = field(default_factory=list)
    with_partitions: bool = True
    useful: bool = True
    is_done: bool = False

    def plain(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return asdict(self)


def n_generations(search: bool | str | int, n_samples: int) -> Searching:
    """Return how long to search; small data bear more generations.

    Examples
    --------
    >>> n_generations("auto", 1000).most, n_generations("auto", 10**6).most
    (16, 8)
    >>> n_generations(3, 1000).most
    3
    """
    small = n_samples < _LARGE
    most = (16 if small else 8) if search == "auto" else int(search)
    return Searching(most, _PATIENCE)
