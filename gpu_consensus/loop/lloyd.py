"""The one loop: counts to table, table to assignment, until nothing moves.

A method of the k-means family is a :class:`Rule`, the small function from counts to
table; the loop, its restarts and its stopping rules are the same for all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpu_consensus.backends.profiling import stage
from gpu_consensus.backends.protocol import Backend, Table
from gpu_consensus.loop.rows import Rows, Tally
from gpu_consensus.loop.rule import Rule, tables_of
from gpu_consensus.loop.starts import Starts


def lloyd(
    rows: Rows,
    backend: Backend,
    rule: Rule,
    starts: Starts,
    *,
    max_iter: int,
    together: int | None = None,
    after_iteration: Callable[[Starts], None] | None = None,
) -> None:
    """Run all restarts until each stops; ``rows`` and ``starts`` are changed in place.

    Parameters
    ----------
    rows : Rows
        The objects, with the restarts begun.
    backend : Backend
        What makes tables.
    rule : Rule
    starts : Starts
    max_iter : int
        Iterations after which a restart is stopped, not converged.
    together : int, optional
        How many restarts share a table; all by default. Fewer need less memory.
    after_iteration : callable, optional
        Called with the state after every iteration.

    Notes
    -----
    A restart stops when nothing moves; when the objective of a monotone rule no longer
    falls (rounding or ties: the previous assignment is returned); when an assignment
    of another rule repeats; or after ``max_iter``.
    """
    active: list[int] = []
    tally: Tally | None = None
    while True:
        chosen = [
            q
            for q, history in enumerate(starts.history)
            if not starts.converged[q] and len(history) < max_iter
        ][:together]
        if not chosen:
            return
        with stage("iteration"):
            if tally is None or chosen != active:
                active, tally = chosen, rows.take(chosen)
            table, row_table = tables_of(
                backend,
                rule,
                tally.counts,
                tally.there,
                tally.absent,
                tally.absent_there,
            )
            tally = rows.step(table, row_table)
            repaired = fill_empty(rows, backend.xp, active, tally, table, row_table)
            _judge(rows, rule, starts, active, tally, repaired)
        if after_iteration is not None:
            after_iteration(starts)


def fill_empty(
    rows: Rows,
    xp: Any,
    active: list[int],
    tally: Tally,
    table: Table,
    row_table: Table | None,
) -> list[bool]:
    """Fill empty clusters; return which restarts had one. The tally is updated."""
    repaired = [False] * len(active)
    empty = tally.sizes == 0
    for a in np.flatnonzero(empty.any(axis=1)).tolist():
        single: Table = xp.ascontiguousarray(table[:, a : a + 1])
        row = None
        if row_table is not None:  # (S, R, K) or (R, K)
            row = xp.ascontiguousarray(row_table[..., a : a + 1, :])
        filled = rows.fill(active[a], np.flatnonzero(empty[a]), single, row)
        tally.counts[:, a : a + 1] = filled.counts
        if tally.absent is not None and filled.absent is not None:
            tally.absent[:, a : a + 1] = filled.absent
        if tally.hashes is not None and filled.hashes is not None:
            tally.hashes[a] = filled.hashes[0]
        repaired[a] = True
    return repaired


def _judge(
    rows: Rows,
    rule: Rule,
    starts: Starts,
    active: list[int],
    tally: Tally,
    repaired: list[bool],
) -> None:
    """Record the objectives, and which restarts have ended."""
    scored = np.isfinite(starts.objective[active])
    still = scored & (tally.moved == 0) & ~np.array(repaired)
    objective = starts.objective[active]
    if not still.all():
        objective = rule.objective(tally.counts, tally.absent)
    undone = []
    for a, q in enumerate(active):
        ended = bool(still[a])
        if rule.monotone and not ended and not objective[a] < starts.objective[q]:
            undone.append(q)
            ended = True
        elif not ended:
            starts.objective[q] = objective[a]
        starts.history[q].append(float(starts.objective[q]))
        if not rule.monotone and not ended:
            assert tally.hashes is not None
            word = int(tally.hashes[a])
            ended = word in starts.seen[q]
            starts.seen[q].add(word)
        starts.converged[q] = ended
    if undone:
        rows.back(undone)
