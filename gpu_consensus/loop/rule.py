"""What makes a method of the k-means family: its table and its objective."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.protocol import Backend, Counts, Table
from gpu_consensus.backends.recipe import TableRecipe, make_tables
from gpu_consensus.backends.segments import Segments
from gpu_consensus.loop.utilities import Formula
from gpu_consensus.util.checks import FloatArray


class Refinement(NamedTuple):
    """By how much a single move changes an objective: what refinement works with."""

    formula: Formula
    segments: Segments
    weights: FloatArray


class Rule(Protocol):
    """A table and an objective, both from counts.

    A rule inherits from this, and overrides only what differs. ``absent`` (r, R, K) are
    the sums of the rule's ``absent_weight``, which counts do not hold; None for rules
    without.
    """

    monotone: bool = True
    """Whether the objective falls at every step; if not, repeats end the loop."""
    row_weight: npt.NDArray[np.float32] | None = None
    """(n,), for rules that have a row table too."""
    absent_weight: npt.NDArray[np.int64] | None = None
    """(n,), summed over the members of a cluster without a label in a partition."""
    recipe: TableRecipe | None = None
    """How backends make the table; without one, ``table`` makes it on the host."""
    fingerprint: str | None = None
    """Distinguishes it from other rules on the same data, for checkpoints."""
    refinement: Refinement | None = None
    """For rules that know how a single move changes the objective."""

    def table(
        self, counts: Counts, absent: Counts | None = None
    ) -> tuple[Table, Table | None]:
        """Return ``table`` (S, R, K) and ``row_table`` or None, from host to host."""
        assert self.recipe is not None, "a rule without a recipe makes its own table"
        return make_tables(self.recipe, counts, absent)

    def full_table(
        self, counts: Counts, absent: Counts | None
    ) -> tuple[Table, Table | None]:
        """As ``table``, for new objects, which may have gaps although others do not."""
        return self.table(counts, absent)

    def objective(self, counts: Counts, absent: Counts | None) -> FloatArray:
        """Return what is minimised, (R,), float64."""
        ...

    def value(self, objective: float, n_samples: int) -> float:
        """Turn an objective over ``n_samples`` into a value: larger is better."""
        ...


def tables_of(
    backend: Backend,
    rule: Rule,
    counts: Counts,
    there: Counts,
    absent: Counts | None = None,
    absent_there: Counts | None = None,
) -> tuple[Table, Table | None]:
    """Return the table and the row table of a rule where the backend computes.

    Counts and absent weights are given on the host and where the backend computes.
    """
    if rule.recipe is not None:
        return backend.table(rule.recipe, there, absent_there, counts)
    table, row_table = rule.table(counts, absent)
    return (
        backend.to_device(np.ascontiguousarray(table)),
        None if row_table is None else backend.to_device(row_table),
    )
