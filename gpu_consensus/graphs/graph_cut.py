"""The result of the methods that cut graphs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class GraphCut:
    """Clusters of the labelled objects and what they cut.

    Attributes
    ----------
    labels : ndarray of shape (n_labelled,)
    objective : float
        Weight of what is cut.
    details : dict
    """

    labels: npt.NDArray[np.intp]
    objective: float
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def outcome(self) -> dict[str, Any]:
        """The arguments of :meth:`Task.result` other than the labels."""
        return {
            "objective": self.objective,
            "value": 0.0 - self.objective,
            "details": self.details,
        }
