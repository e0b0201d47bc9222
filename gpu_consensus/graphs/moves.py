"""Single vertices moved between parts: to fill, to balance, to cut less."""

from __future__ import annotations

import numpy as np

from gpu_consensus.graphs.kinds import Graph, Parts
from gpu_consensus.util.checks import FloatArray

_BUDGET = 1 << 28  # weights looked at by one refinement
_BATCH = 8  # an overload is moved out in about this many rounds
_PATIENCE = 32  # moves without a lower cut before a pass ends


class Moves:
    """A partition of a graph, changed vertex by vertex; ties go to the lowest index.

    Parameters
    ----------
    graph : Graph
    weights : ndarray of shape (m,)
        What each vertex adds to the load of its part.
    parts : ndarray of shape (m,)
        The part of each vertex; changed in place.
    n_parts : int
    """

    def __init__(
        self, graph: Graph, weights: FloatArray, parts: Parts, n_parts: int
    ) -> None:
        self.graph, self.weights, self.parts = graph, weights, parts
        self.n_parts = n_parts
        self.load = np.bincount(parts, weights=weights, minlength=n_parts)
        self.counted = np.arange(len(parts)) < graph.n_objects
        self.count = np.bincount(parts[self.counted], minlength=n_parts)
        self._connect()

    def _connect(self) -> None:
        self.tie = self.graph.connect(np.eye(self.n_parts)[self.parts])
        self.slack = 1e-9 * max(float(self.tie.max(initial=0.0)), 1e-300)

    def _relabel(self, v: int, b: int) -> int:
        a = int(self.parts[v])
        self.parts[v] = b
        self.load[a] -= self.weights[v]
        self.load[b] += self.weights[v]
        self.count[a] -= self.counted[v]
        self.count[b] += self.counted[v]
        return a

    def move(self, v: int, b: int) -> None:
        """Move vertex ``v`` to part ``b``."""
        a = self._relabel(v, b)
        column = self.graph.column(v)
        self.tie[:, a] -= column
        self.tie[:, b] += column

    def gains(self) -> FloatArray:
        """Return by how much each move lowers the cut, -inf where it is none, (m, K).

        The last object of a part stays.
        """
        own = np.take_along_axis(self.tie, self.parts[:, None], 1)
        gain = self.tie - own
        gain[np.arange(len(gain)), self.parts] = -np.inf
        gain[self.counted & (self.count[self.parts] == 1)] = -np.inf
        return gain

    def fill(self) -> None:
        """Give every part without an object the one that is missed least elsewhere."""
        for b in np.flatnonzero(self.count == 0).tolist():
            v = int(self.gains()[self.counted, b].argmax())
            self.move(v, b)

    def relieve(self, cap: float) -> None:
        """Move vertices out of parts whose load exceeds ``cap``, cheapest first.

        Where no vertex fits elsewhere, a part less full than this one takes over one;
        what remains above ``cap`` then cannot be moved one by one.
        """
        while True:
            a = int(self.load.argmax())
            if self.load[a] <= cap:
                return
            rows = np.flatnonzero(self.parts == a)
            gain = self.gains()[rows]
            after = self.load + self.weights[rows, None]
            movable = np.isfinite(gain)
            fits = movable & (after <= cap)
            if not fits.any():
                if not self._even_out(a, rows, after, movable):
                    return
                continue
            # per unit of load: one heavy vertex against several light ones
            rate = gain / np.maximum(self.weights[rows, None], 1e-300)
            rate = np.where(fits, rate, -np.inf)
            self._move_out(a, rows, rate, cap)

    def _move_out(self, a: int, rows: Parts, rate: FloatArray, cap: float) -> None:
        target, best = rate.argmax(axis=1), rate.max(axis=1)
        order = np.argsort(-best, kind="stable")
        goal = self.load[a] - max((self.load[a] - cap) / _BATCH, 0.0)
        moved = 0
        for l in order.tolist():
            v, b = int(rows[l]), int(target[l])
            if best[l] == -np.inf:
                break
            last = self.counted[v] and self.count[a] == 1
            if not last and self.load[b] + self.weights[v] <= cap:
                self._relabel(v, b)
                moved += 1
            if self.load[a] <= max(goal, cap):
                break
        assert moved
        self._connect()

    def _even_out(
        self, a: int, rows: Parts, after: FloatArray, movable: FloatArray
    ) -> bool:
        """Move one vertex to a part that stays below the load of ``a``."""
        left = self.load[a] - self.weights[rows, None]
        worst = np.where(movable, np.maximum(after, left), np.inf)
        worst[:, a] = np.inf
        l, b = np.unravel_index(int(worst.argmin()), worst.shape)
        if not worst[l, b] < self.load[a]:
            return False
        self.move(int(rows[l]), int(b))
        return True

    def refine(self, cap: float) -> None:
        """Lower the cut within the bound by passes of single moves.

        Fiduccia and Mattheyses, A linear-time heuristic for improving network
        partitions, DAC 1982: in a pass each vertex moves once at most, the best first
        even if it cuts more; what came after the lowest cut is undone. On the way one
        part may exceed ``cap`` by one vertex, so that swaps are found. Ends when a pass
        gains nothing, or after a fixed amount of work.
        """
        steps = max(16, _BUDGET // max(1, self.tie.size))
        while steps > 0:
            gained, used = self._pass(max(cap, float(self.load.max())), steps)
            steps -= used
            if not gained:
                return

    def _pass(self, cap: float, steps: int) -> tuple[bool, int]:
        heaviest = float(self.weights.max())
        patience = max(_PATIENCE, len(self.parts) // 8)
        free = np.ones(len(self.parts), dtype=bool)
        log: list[tuple[int, int]] = []
        total = best = 0.0
        best_at = 0
        while len(log) < steps and len(log) - best_at < patience:
            gain = self.gains()
            gain[~free] = -np.inf
            gain[self.load + self.weights[:, None] > cap + heaviest] = -np.inf
            over = self.load > cap
            if over.any():
                gain[~over[self.parts]] = -np.inf
            v, b = divmod(int(gain.argmax()), self.n_parts)
            if gain[v, b] == -np.inf:
                break
            log.append((v, int(self.parts[v])))
            total += float(gain[v, b])
            self.move(v, b)
            free[v] = False
            if total > best + self.slack and self.load.max() <= cap:
                best, best_at = total, len(log)
        for v, a in reversed(log[best_at:]):
            self.move(v, a)
        return best_at > 0, len(log)
