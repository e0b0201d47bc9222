"""The exact step: every object is offered the true price of moving, all at once.

After the loop has stopped, the table no longer says by how much a single move changes
F. Here it does: entering a cluster costs w_i (mu(e_j) - change(+1)) in each partition,
and staying in the own one, as if it were entered anew, w_i (mu(e_j) + change(-1)). All
objects that save by it move together. Where F does not fall, or a cluster is emptied,
the step is taken back and repeated for those alone that save most, at most half as many
each time. Gains are compared in bins, so that a step is the same for any block, thread
or worker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.host_loops import compiled_form, has_compiled_loops
from gpu_consensus.backends.log2 import LOOKUP_BITS
from gpu_consensus.backends.protocol import Backend, Counts, Table
from gpu_consensus.backends.segments import as_table
from gpu_consensus.loop.rows import Rows
from gpu_consensus.loop.rule import Refinement, Rule
from gpu_consensus.loop.starts import Starts
from gpu_consensus.loop.utilities import rises

_LOWER_THAN_ANY = np.float32(-1e30)  # what staying costs an object that is alone


@dataclass
class Refining:
    """How far refinement has come: plain numbers, for checkpoints.

    Attributes
    ----------
    active : list of int
        The restarts that still move.
    least_gain : list of float
        By restart, what a move must save more than.
    n_steps : int
        Steps done, those that were taken back among them.
    most_steps : int
    """

    active: list[int]
    most_steps: int
    n_steps: int = 0
    least_gain: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.least_gain:
            self.least_gain = [0.0] * (max(self.active, default=-1) + 1)

    def plain(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return asdict(self)

    @property
    def is_done(self) -> bool:
        """Whether no move is left, or no step."""
        return not self.active or self.n_steps >= self.most_steps


def refine(
    rows: Rows,
    backend: Backend,
    rule: Rule,
    starts: Starts,
    state: Refining,
    *,
    n_threads: int = 1,
    after_step: Callable[[], None] = lambda: None,
) -> None:
    """Move objects at their true price until none saves by it; F only falls.

    Parameters
    ----------
    rows, backend, rule, starts
        As in :func:`gpu_consensus.loop.lloyd.lloyd`; the first and the last are
        changed in place.
    state : Refining
        Which restarts, and how many steps; changed in place.
    n_threads : int, default 1
    after_step : callable, optional
        Called after every step.
    """
    assert rule.refinement is not None
    while not state.is_done:
        active = state.active
        tally = rows.take(active)
        enter, stay = price_tables(
            rule.refinement, tally.counts, tally.sizes, n_threads
        )
        least = np.array([state.least_gain[q] for q in active], dtype=np.float32)
        tally = rows.step(
            backend.to_device(enter), None, backend.to_device(stay), least
        )
        objective = rule.objective(tally.counts, tally.absent)
        state.n_steps += 1
        state.active, undone = [], []
        for a, q in enumerate(active):
            if tally.moved[a] == 0:
                continue
            if objective[a] < starts.objective[q] and tally.sizes[a].all():
                starts.objective[q] = objective[a]
                starts.history[q].append(float(objective[a]))
                state.least_gain[q] = 0.0
            else:
                undone.append(q)
                edge = half_edge(rows.gains(q), least[a])
                if edge is None:
                    continue
                state.least_gain[q] = edge
            state.active.append(q)
        if undone:
            rows.back(undone)
        after_step()


def price_tables(
    refinement: Refinement,
    counts: Counts,
    sizes: npt.NDArray[np.int64],
    n_threads: int = 1,
) -> tuple[Table, Table]:
    """Return what entering and what staying costs, (S, A, K) each, float32.

    An object that is alone in its cluster stays.
    """
    formula, segments, weights = refinement
    bits = int(sizes.sum(axis=1).max(initial=0) + 1).bit_length()
    if formula.name and bits <= LOOKUP_BITS and has_compiled_loops():
        enter, stay = compiled_form("prices")(
            formula.name,
            counts,
            segments.offsets,
            weights,
            float(formula.unit(segments)[0]),
            rises(bits if formula.name == "h" else 0),
            n_threads,
        )
    else:
        enter, stay = numpy_prices(refinement, counts)
    alone = sizes == 1
    if alone.any():
        kept = stay[segments.missing]
        stay[:, alone] = _LOWER_THAN_ANY
        stay[segments.missing] = kept
    return enter, stay


def numpy_prices(refinement: Refinement, counts: Counts) -> tuple[Table, Table]:
    """Return both tables by the functions of the utility; missing labels cost 0."""
    formula, segments, weights = refinement
    n = segments.present(counts)
    weight = segments.to_labels(weights)[:, None, None]
    unit = formula.unit(segments)[:, None, None]
    enter = as_table(weight * (unit - formula.change(n, segments, 1)))
    stay = as_table(weight * (unit + formula.change(n, segments, -1)))
    enter[segments.missing] = 0.0
    stay[segments.missing] = 0.0
    return enter, stay


def half_edge(gains: npt.NDArray[np.int64], least: np.float32) -> float | None:
    """Return the lowest edge above which at most half as many objects save.

    Parameters
    ----------
    gains : ndarray of shape (2^15,)
        How many objects save so much, by the upper 16 bits of the float32.
    least : float32
        The edge before.

    Returns
    -------
    float or None
        What a move must save more than; None if that leaves nobody.

    Examples
    --------
    >>> import numpy as np
    >>> gains = np.zeros(1 << 15, dtype=np.int64)
    >>> gains[[0x3F80, 0x4000]] = 7, 2  # seven save about 1, two about 2
    >>> 1 < half_edge(gains, np.float32(0)) < 2, half_edge(gains, np.float32(1.99))
    (True, None)
    """
    below = int(np.asarray(least, dtype=np.float32).view(np.uint32) >> np.uint32(16))
    above = np.cumsum(gains[:below:-1])[::-1]  # in the bins from each on
    if not above.size:
        return None
    fits = np.flatnonzero((above > 0) & (above <= above[0] // 2))
    if not fits.size:
        return None
    edge = below + 1 + int(fits[0])
    # the number just below the first of that bin, which moves too
    return float(np.array((edge << 16) - 1, dtype=np.uint32).view(np.float32))
