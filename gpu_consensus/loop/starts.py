"""How far the restarts of a fit got."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpu_consensus.util.checks import FloatArray


@dataclass
class Starts:
    """How far R restarts got; their assignments are in :class:`Rows`.

    An objective of infinity marks seeds: objects that are not counted yet, so that any
    first assignment is better. ``history[q]`` holds the objective after each iteration
    of restart q, ``seen[q]`` the hashes of its earlier assignments (only for rules that
    are not monotone).
    """

    objective: FloatArray
    converged: npt.NDArray[np.bool_]
    history: list[list[float]]
    seen: list[set[int]]

    @classmethod
    def fresh(cls, number: int) -> Starts:
        """Return restarts that have not begun."""
        return cls(
            np.full(number, np.inf),
            np.zeros(number, dtype=bool),
            [[] for _ in range(number)],
            [set() for _ in range(number)],
        )

    def winner(self) -> int:
        """Return the restart of lowest objective, the first of equals."""
        return int(np.argmin(self.objective))
