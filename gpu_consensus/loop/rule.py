"""What makes a method of the k-means family: its table and its objective."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.protocol import Backend, Counts, Table
from gpu_consensus.backends.recipe import TableRecipe, make_tables
from gpu_consensus.backends.segments import Segments
from gpu_consensus.loop.utilities import Formula
from gpu_consensus.util.checks import FloatArray, IntArray


class Refinement(NamedTuple):
    """By how much a single move changes an objective: what refinement works with."""

    formula: Formula
    segments: Segments
    weights: FloatArray


class Merging(NamedTuple):
    """How much dearer two clusters become as one: what merges of cells work with.

    Attributes
    ----------
    kind : {"entropy", "square", "root"}
        Which function of the counts n_kj of a partition a total is: the sum of
        n_kj log2 n_kj less n_k log2 n_k; that of n_kj^2 over ``below``; its root.
    segments : Segments
    weights : ndarray of shape (r,)
    below : callable
        From counts (S, M) and absent weights to what stands below the squares, (r, M).
    """

    kind: str
    segments: Segments
    weights: FloatArray
    below: Callable[[Counts, Counts | None], IntArray]


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
    label_weights: IntArray | None = None
    """(S,): what both are sums of, over the labels of an object."""
    weighs_absent: bool = False
    """Whether it has an ``absent_weight``."""
    recipe: TableRecipe | None = None
    """How backends make the table; without one, ``table`` makes it on the host."""
    fingerprint: str | None = None
    """Distinguishes it from other rules on the same data, for checkpoints."""
    refinement: Refinement | None = None
    """For rules that know how a single move changes the objective."""
    merging: Merging | None = None
    """For rules whose merges are quicker than by their objective."""
    smoothed: TableRecipe | None = None
    """The recipe of a table without infinite costs, for the first steps of a search."""

    restricted: Callable[[Any], Rule] | None = None
    """Returns the same rule for some objects, a :class:`best_start.Sample`."""

    def table(
        self, counts: Counts, absent: Counts | None = None
    ) -> tuple[Table, Table | None]:
        """Return ``table`` (S, R, K) and ``row_table`` or None, from host to host."""
        assert self.recipe is not None, "a rule without a recipe makes its own table"
        return make_tables(self.recipe, counts, absent)

    @property
    def full_recipe(self) -> TableRecipe | None:
        """The recipe for new objects, which may have gaps although others do not."""
        return self.recipe

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
    smoothed: bool = False,
    for_new: bool = False,
) -> tuple[Table, Table | None]:
    """Return the table and the row table of a rule where the backend computes.

    Counts and absent weights are given on the host and where the backend computes.
    With ``smoothed`` it is the smoothed table, of rules that have one; with ``for_new``
    the one that new objects are assigned by.
    """
    recipe = rule.full_recipe if for_new else rule.recipe
    if smoothed and rule.smoothed is not None:
        recipe = rule.smoothed
    if recipe is not None:
        return backend.table(recipe, there, absent_there, counts)
    table, row_table = rule.table(counts, absent)
    return (
        backend.to_device(np.ascontiguousarray(table)),
        None if row_table is None else backend.to_device(row_table),
    )
