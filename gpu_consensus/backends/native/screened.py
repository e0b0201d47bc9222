"""The screened form of ``assign``: screen.c."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.native.layout import (
    Array,
    Lines,
    address,
    lookups,
)
from gpu_consensus.backends.native.rounding import fill_screen
from gpu_consensus.backends.native.screening import (
    CLUSTERS_IN_DOUBT,
    PROBE,
    Bounds,
    Lookups,
    bound_table,
    has_room,
    mostly_missing,
    plan_exact,
    plan_rounded,
    share_lookups,
    worth_screening,
)
from gpu_consensus.backends.native.threads import over, scratch
from gpu_consensus.backends.protocol import (
    Assignment,
    Offsets,
)

_REACHED = 128  # objects that tell how far the scores of winners reach
_MOST_PAUSE = 7  # calls without screening where it did not pay: 0, 0, 1, 3, then 7


class Screening:
    """Screens calls of ``assign`` where it pays, and remembers where it did not.

    Attributes
    ----------
    screened, undecided : int
        Objects of the last screened call, and what they left in doubt.
    pause : int
        Calls to come that are not screened.
    """

    def __init__(self) -> None:
        self.screened, self.undecided = 0, 0
        self.pause, self._failures = 0, 0
        self._shared: tuple[Offsets, Lookups] | None = None

    def assign(
        self,
        call: Any,
        n_threads: int,
        codes: Lines,
        offsets: Offsets,
        rows: Array,
        shape: tuple[int, ...],
        assignment: Assignment,
    ) -> int:
        """Assign objects from the first on, as many as screening pays for.

        Returns how many are done. The first few tell whether it pays; where it did not,
        later calls try again, for tables change, and more seldom the oftener that was
        in vain.
        """
        n_partitions, n_samples = codes.shape
        if not worth_screening(n_samples, n_partitions, shape):
            return 0
        if self.pause:
            self.pause -= 1
            return 0
        if mostly_missing(codes.array, offsets):
            return 0
        _, n_restarts, n_clusters = shape
        if self._shared is None or self._shared[0] is not offsets:
            self._shared = offsets, share_lookups(offsets, n_samples)
        shared = self._shared[1]
        bounds = bound_table(call, rows, offsets, n_restarts, n_clusters, n_threads)
        if not has_room(bounds, shared):
            return 0
        begin, settles_apart = 0, False
        plan = plan_exact(rows, bounds, shared, n_clusters)
        if plan is None:
            begin = PROBE
            gaps, reach = _probe(
                call, n_threads, codes, offsets, rows, shape, assignment, bounds
            )
            plans = plan_rounded(bounds, shared, reach, n_clusters)
            if not plans:
                self.screened, self.undecided = 0, 0
                return PROBE
            doubts = [
                int((gaps * x.scale[:, None] < x.distance[:, None]).sum())
                for x in plans
            ]
            costs = [
                x.cost(n_clusters, d / PROBE)
                for x, d in zip(plans, doubts, strict=True)
            ]
            best = int(np.argmin(costs))
            plan = plans[best]
            if costs[best] >= 1:
                self.pause = min(2 ** max(self._failures - 1, 0), _MOST_PAUSE + 1) - 1
                self._failures += 1
                self.screened, self.undecided = PROBE, doubts[best]
                return PROBE
            total = doubts[best] / PROBE * n_samples
            settles_apart = plan.settles_apart(n_clusters, total)
        self._failures = 0
        screen = fill_screen(
            call, rows, offsets, plan, n_clusters, n_threads, settles_apart
        )
        width, n_lookups = rows.shape[1], len(screen.parts)
        n_rows, small_width = screen.small.shape
        apart_width = 0 if screen.apart is None else screen.apart.shape[2]
        room = call.screen_scratch(
            codes.itemsize,
            n_partitions,
            width,
            screen.small.itemsize,
            small_width,
            n_rows,
            len(rows),
            apart_width,
            n_restarts,
            n_clusters,
        )
        bearable = plan.bearable(n_clusters)
        if screen.apart is None:
            bearable *= CLUSTERS_IN_DOUBT
        found: list[npt.NDArray[np.int64]] = []

        def some(first: int, last: int) -> None:
            memory, place = scratch(room)
            part = np.zeros(2, dtype=np.int64)
            call.assign_screened(
                codes.address,
                codes.itemsize,
                codes.stride,
                address(offsets),
                n_partitions,
                address(rows),
                width,
                address(screen.apart),
                apart_width,
                address(screen.small),
                screen.small.itemsize,
                small_width,
                address(screen.parts),
                address(screen.rows),
                address(screen.raised),
                n_lookups,
                address(screen.distance),
                bearable,
                n_restarts,
                n_clusters,
                begin + first,
                begin + last,
                address(assignment),
                assignment.itemsize,
                n_samples,
                address(part),
                place,
            )
            found.append(part)
            del memory

        over(
            some,
            n_samples - begin,
            lookups(codes, small_width * screen.small.itemsize // 2),
            n_threads,
        )
        self.screened, self.undecided = np.sum(found, axis=0).tolist()
        return n_samples


def _probe(
    call: Any,
    n_threads: int,
    codes: Lines,
    offsets: Offsets,
    rows: Array,
    shape: tuple[int, ...],
    assignment: Assignment,
    bounds: Bounds,
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64]]:
    """Assign the first objects in float32.

    Returns how far the next cluster is, (R, PROBE), and how far the scores of winners
    are above the sums of the least entries, (R,), as some of them tell.
    """
    _, n_restarts, n_clusters = shape
    found = np.empty((n_restarts, PROBE), dtype=assignment.dtype)
    gaps, scores = np.empty((2, n_restarts, PROBE), dtype=np.float32)
    room = call.assign_scratch(rows.shape[1], len(rows))

    def some(first: int, last: int) -> None:
        memory, place = scratch(room)
        call.assign(
            codes.address,
            codes.itemsize,
            codes.stride,
            address(offsets),
            codes.shape[0],
            address(rows),
            rows.shape[1],
            None,
            None,
            None,
            n_restarts,
            n_clusters,
            first,
            last,
            address(found),
            found.itemsize,
            PROBE,
            address(scores),
            address(gaps),
            None,
            None,
            place,
        )
        del memory

    work = PROBE * codes.shape[0] * n_restarts * n_clusters // 4
    over(some, PROBE, work, n_threads, parts=1)
    assignment[:, :PROBE] = found
    few = codes.array[:, :_REACHED] + offsets[:-1, None]
    least = bounds.lowest[few].sum(axis=0, dtype=np.float64).T
    return gaps, (scores[:, :_REACHED] - least).max(axis=1)
