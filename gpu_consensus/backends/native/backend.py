"""The CPU backend in C: the primitives of the seam, bit for bit those of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.host_arrays import HostArrays
from gpu_consensus.backends.native.layout import (
    Array,
    Lines,
    address,
    as_protocol,
    blank_table,
    check_array,
    check_codes,
    check_offsets,
    dense,
    lines,
    padded_rows,
)
from gpu_consensus.backends.native.library import load
from gpu_consensus.backends.native.screening import (
    PROBE,
    Lookups,
    bearable_doubts,
    make_screen,
    share_lookups,
    worth_screening,
)
from gpu_consensus.backends.native.threads import over, scratch
from gpu_consensus.backends.numpy import gains_of, n_threads, smallest_unsigned
from gpu_consensus.backends.protocol import (
    Assigned,
    Assignment,
    Codes,
    Counts,
    Offsets,
    PairCounts,
    Table,
)
from gpu_consensus.backends.recipe import (
    UTILITIES,
    TableRecipe,
    lp_norms,
    sec_row_sums,
    sec_weights,
)
from gpu_consensus.backends.segments import LabelSums

_MOST_PAUSE = 7  # calls without screening where it did not pay: 0, 0, 1, 3, then 7
_VECTOR = 64  # bytes, of the widest registers
_MOST_BYTES = 255  # clusters whose names are bytes


class NativeBackend(HostArrays):
    """All primitives of the seam in C.

    Parameters
    ----------
    n_jobs : int, optional
        Threads; all usable cores by default. They change no result.
    level : str, optional
        A lower level of the library than the best one, for tests.

    Raises
    ------
    NativeUnavailable
        If the package was installed without its compiled code, or it is turned off.
    """

    name = "native"

    def __init__(self, n_jobs: int | None = None, level: str | None = None) -> None:
        self._n_threads = n_threads(n_jobs)
        self._library = load(level)
        self._call = self._library.call
        self._screened, self._undecided = 0, 0
        self._pause, self._failures = 0, 0
        self._shared: tuple[Offsets, Lookups] | None = None

    def count(
        self,
        codes: Codes,
        offsets: Offsets,
        before: Assignment | None,
        after: Assignment,
        out: Counts,
        weight: npt.NDArray[np.int64] | None = None,
        absent: Counts | None = None,
    ) -> None:
        """See the Protocol."""
        check_array("out", out, np.int64, (None, None, None), writeable=True)
        n_rows, n_restarts, n_clusters = out.shape
        found = check_codes(codes, offsets, n_rows)
        n_partitions, n_samples = found.shape
        shape = (n_restarts, n_samples)
        new = lines("after", after, "124", shape)
        old = None
        if before is not None:
            old = lines("before", before, "124", shape)
            if old.itemsize != new.itemsize:
                raise TypeError(
                    f"before has dtype {old.array.dtype} and should have that of "
                    f"after, {new.array.dtype}."
                )
        heavy = None
        if weight is not None or absent is not None:
            heavy = dense("weight", weight, np.int64, (n_samples,))
            size = (n_partitions, n_restarts, n_clusters)
            check_array("absent", absent, np.int64, size, writeable=True)
        if out.size == 0 or n_samples == 0:
            return
        moves = (
            None if old is None else old.address,
            0 if old is None else old.stride,
            new.address,
            new.stride,
            new.itemsize,
            n_restarts,
            n_clusters,
        )
        additions, objects = self._moves(moves, n_samples)
        if not additions:
            return
        given = (found.address, found.itemsize, found.stride, address(offsets))
        self._step(given, offsets, moves, n_samples, out, additions, objects)
        if heavy is None:
            return

        def add_absent(first: int, last: int) -> None:
            self._call.count_absent(
                *given, first, last, n_samples, *moves, address(heavy), address(absent)
            )

        size_of = n_partitions * n_samples
        over(add_absent, n_partitions, size_of, self._n_threads, parts=1)

    def _moves(self, moves: tuple[Any, ...], n_samples: int) -> tuple[int, int]:
        """Return how many steps of a count a partition sees, and objects that move."""
        found: list[npt.NDArray[np.int64]] = []

        def look(begin: int, end: int) -> None:
            part = np.zeros(2, dtype=np.int64)
            found.append(part)
            self._call.count_moves(*moves, begin, end, address(part))

        work = n_samples * int(moves[5]) // 16
        over(look, n_samples, work, self._n_threads, parts=1)
        additions, objects = np.sum(found, axis=0).tolist()
        return additions, objects

    def _step(
        self,
        given: tuple[Any, ...],
        offsets: Offsets,
        moves: tuple[Any, ...],
        n_samples: int,
        out: Counts,
        additions: int,
        objects: int,
    ) -> None:
        """Bring counts from one assignment to another, whichever way is quicker."""
        call, n_partitions = self._call, len(offsets) - 1
        n_restarts, n_clusters = out.shape[1:]
        vectors = -(-n_restarts * n_clusters // _VECTOR)
        by_rows = objects * n_partitions * (1 + vectors) + out.size // 4
        one_by_one = additions * n_partitions
        rows = n_clusters <= _MOST_BYTES and by_rows < one_by_one

        def step(first: int, last: int) -> None:
            if rows:
                n_rows = int(offsets[last] - offsets[first])
                room = call.count_rows_scratch(n_rows, n_restarts, n_clusters)
                kernel = call.count_rows
            else:
                room, kernel = call.count_each_scratch(), call.count_each
            memory, place = scratch(room)
            kernel(*given, first, last, n_samples, *moves, address(out), place)
            del memory

        work = min(by_rows, one_by_one)
        over(step, n_partitions, work, self._n_threads, parts=1)

    def table(
        self,
        recipe: TableRecipe,
        counts: Counts,
        absent: Counts | None = None,
        on_host: Counts | None = None,
    ) -> tuple[Table, Table | None]:
        """See the Protocol."""
        counts = dense("counts", counts, np.int64, (None, None, None))
        check_offsets("recipe.offsets", recipe.offsets, len(counts))
        check_array("recipe.marginals", recipe.marginals, np.int64, (len(counts),))
        n_partitions = len(recipe.offsets) - 1
        check_array("recipe.weights", recipe.weights, np.float64, (n_partitions,))
        if recipe.utility == "LP" and recipe.power < 1:
            raise ValueError(f"recipe.power={recipe.power} should be >= 1 for LP.")
        if recipe.utility == "SEC" and recipe.present_weight is None:
            raise ValueError("recipe.present_weight is None and SEC needs it.")
        if recipe.present_weight is None:
            norm = lp_norms(recipe, counts) if recipe.power else None
            return self._fill(recipe, recipe.utility, counts, norm), None
        sums = self.label_sums(recipe.offsets, counts, recipe.marginals)
        weight = sec_weights(recipe, sums, absent)
        norm = np.maximum(weight, 1).astype(np.float64)
        table = self._fill(recipe, "SEC", counts, norm)
        if recipe.row == "sum":
            return table, sec_row_sums(recipe, sums, weight)
        return table, self._fill(recipe, "SEC_ROW", counts, norm)

    def _fill(
        self,
        recipe: TableRecipe,
        utility: str,
        counts: Counts,
        norm: npt.NDArray[np.float64] | None,
    ) -> Table:
        number = UTILITIES.index(utility)
        n_rows, n_restarts, n_clusters = counts.shape
        n_columns = n_restarts * n_clusters
        table = blank_table(n_rows, n_columns, make=np.empty)
        n_partitions = len(recipe.offsets) - 1
        if norm is not None:
            norm = dense("norm", norm, np.float64, (n_partitions, *counts.shape[1:]))

        def fill(first: int, last: int) -> None:
            memory, place = scratch(self._call.table_scratch(n_columns))
            self._call.table(
                number,
                address(counts),
                address(recipe.offsets),
                address(recipe.marginals),
                address(recipe.weights),
                address(norm),
                recipe.power,
                n_restarts,
                n_clusters,
                first,
                last,
                address(table),
                table.shape[1],
                place,
            )
            del memory

        over(fill, n_partitions, counts.size, self._n_threads)
        return as_protocol(table, n_restarts, n_clusters)

    def label_sums(
        self,
        offsets: Offsets,
        counts: Counts,
        marginals: npt.NDArray[np.int64],
        entropy: bool = False,
    ) -> LabelSums:
        """See the Protocol; counts are (S, ...)."""
        counts = dense("counts", counts, np.int64, (None, *[None] * (counts.ndim - 1)))
        check_offsets("offsets", offsets, len(counts))
        heavy = dense("marginals", marginals, np.int64, (len(counts),))
        n_partitions, n_columns = len(offsets) - 1, counts.size // len(counts)
        shape = (n_partitions, *counts.shape[1:])
        size, square, weighted, most = np.empty((4, *shape), dtype=np.int64)
        bits = np.empty(shape) if entropy else None

        def add(first: int, last: int) -> None:
            self._call.label_sums(
                address(counts),
                n_columns,
                address(offsets),
                address(heavy),
                first,
                last,
                *map(address, (size, square, weighted, most)),
                address(bits),
            )

        work = counts.size * (8 if entropy else 1)
        over(add, n_partitions, work, self._n_threads)
        return LabelSums(size, square, weighted, most, bits)

    def assign(
        self,
        codes: Codes,
        offsets: Offsets,
        table: Table,
        *,
        row_weight: npt.NDArray[np.float32] | None = None,
        row_table: Table | None = None,
        best: bool = False,
        gap: bool = False,
        own: Assignment | None = None,
        stay: Table | None = None,
    ) -> Assigned:
        """See the Protocol."""
        rows, width = padded_rows("table", table)
        found = check_codes(codes, offsets, len(rows))
        n_samples = found.shape[1]
        n_restarts, n_clusters = table.shape[1:]
        shape = (n_restarts, n_samples)
        assignment = np.empty(shape, dtype=smallest_unsigned(n_clusters))
        prices = own is not None
        lowest = np.empty(shape, dtype=np.float32) if best or prices else None
        gaps = np.empty(shape, dtype=np.float32) if gap else None
        full, row_sum, weight = None, None, None
        if row_table is not None and row_weight is not None:
            weight = dense("row_weight", row_weight, np.float32, (n_samples,))
            full, row_sum = _row_terms(row_table, table.shape, width)
        given = (found.address, found.itemsize, found.stride, address(offsets))
        begin = 0
        mine, price = None, None
        if own is not None and stay is not None:
            if stay.shape != table.shape:
                raise ValueError(
                    f"stay has shape {stay.shape} and should have that of table, "
                    f"{table.shape}."
                )
            mine = dense("own", own, assignment.dtype, shape)
            price = self._own_scores(found, offsets, stay, mine)
        if weight is None and not best and not gap and not prices:
            begin = self._assign_screened(found, offsets, rows, table.shape, assignment)
        room = self._call.assign_scratch(width, len(rows))

        def some(first: int, last: int) -> None:
            memory, place = scratch(room)
            self._call.assign(
                *given,
                found.shape[0],
                address(rows),
                width,
                address(full),
                address(row_sum),
                address(weight),
                n_restarts,
                n_clusters,
                begin + first,
                begin + last,
                address(assignment),
                assignment.itemsize,
                n_samples,
                address(lowest),
                address(gaps),
                address(mine),
                address(price),
                place,
            )
            del memory

        over(some, n_samples - begin, _lookups(found, width), self._n_threads)
        gains = None
        if price is not None:
            gains = gains_of(price, lowest, found.shape[0])
        return Assigned(assignment, lowest if best else None, gaps, gains)

    def _own_scores(
        self, codes: Lines, offsets: Offsets, stay: Table, own: Assignment
    ) -> npt.NDArray[np.float32]:
        """Return the score of every object for the cluster that it is in, (R, n)."""
        rows, width = padded_rows("stay", stay)
        price = np.empty(own.shape, dtype=np.float32)

        def some(begin: int, end: int) -> None:
            self._call.own_scores(
                codes.address,
                codes.itemsize,
                codes.stride,
                address(offsets),
                codes.shape[0],
                address(rows),
                width,
                *stay.shape[1:],
                begin,
                end,
                address(own),
                own.itemsize,
                own.shape[1],
                address(price),
            )

        over(some, own.shape[1], _lookups(codes, 16 * len(own)), self._n_threads)
        return price

    def _assign_screened(
        self,
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
        if self._pause:
            self._pause -= 1
            return 0
        call, (_, n_restarts, n_clusters) = self._call, shape
        if self._shared is None or self._shared[0] is not offsets:
            self._shared = offsets, share_lookups(offsets, n_samples)
        screen = make_screen(
            call,
            rows,
            offsets,
            self._shared[1],
            n_restarts,
            n_clusters,
            self._n_threads,
        )
        if screen is None:
            return 0
        width, n_lookups = rows.shape[1], len(screen.parts)
        n_rows, small_width = screen.small.shape
        apart_width = 0 if screen.apart is None else screen.apart.shape[2]
        room = call.screen_scratch(
            codes.itemsize,
            n_partitions,
            width,
            small_width,
            n_rows,
            len(rows),
            apart_width,
            n_restarts,
            n_clusters,
        )
        bearable = bearable_doubts(n_restarts, n_clusters)
        found: list[npt.NDArray[np.int64]] = []

        def some(begin: int, end: int) -> None:
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
                small_width,
                address(screen.parts),
                address(screen.rows),
                address(screen.raised),
                n_lookups,
                address(screen.distance),
                bearable,
                n_restarts,
                n_clusters,
                begin,
                end,
                address(assignment),
                assignment.itemsize,
                n_samples,
                address(part),
                place,
            )
            found.append(part)
            del memory

        some(0, PROBE)
        screened, undecided = found[0].tolist()
        if undecided > bearable * screened:
            self._pause = min(2 ** max(self._failures - 1, 0), _MOST_PAUSE + 1) - 1
            self._failures += 1
            self._screened, self._undecided = screened, undecided
            return PROBE
        self._failures = 0
        rest = n_samples - PROBE
        work = _lookups(codes, small_width // 2)
        over(
            lambda begin, end: some(PROBE + begin, PROBE + end),
            rest,
            work,
            self._n_threads,
        )
        self._screened, self._undecided = np.sum(found, axis=0).tolist()
        return n_samples

    def scores(
        self, codes: Codes, offsets: Offsets, table: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        """See the Protocol."""
        table = dense("table", table, np.float64, (None, None, None))
        n_rows, n_restarts, n_clusters = table.shape
        found = check_codes(codes, offsets, n_rows)
        n_columns, n_samples = n_restarts * n_clusters, found.shape[1]
        score = np.empty((n_samples, n_restarts, n_clusters))
        padded = blank_table(n_rows, n_columns, np.float64)
        padded[:, :n_columns] = table.reshape(n_rows, -1)
        width = padded.shape[1]
        room = self._call.scores_scratch(width, n_rows)

        def some(begin: int, end: int) -> None:
            memory, place = scratch(room)
            self._call.scores(
                found.address,
                found.itemsize,
                found.stride,
                address(offsets),
                found.shape[0],
                address(padded),
                width,
                n_columns,
                begin,
                end,
                address(score),
                place,
            )
            del memory

        over(some, n_samples, 2 * _lookups(found, width), self._n_threads)
        return score

    def soft_count(
        self,
        codes: Codes,
        offsets: Offsets,
        responsibilities: npt.NDArray[np.float64],
    ) -> Counts:
        """See the Protocol."""
        found = check_codes(codes, offsets)
        n_partitions, n_samples = found.shape
        shares = dense(
            "responsibilities", responsibilities, np.float64, (n_samples, None, None)
        )
        _, n_restarts, n_clusters = shares.shape
        n_columns, lanes = n_restarts * n_clusters, _VECTOR // 8
        width = -(-n_columns // lanes) * lanes
        counts = np.zeros((int(offsets[-1]), width), dtype=np.int64)
        room = self._call.soft_count_scratch(width)

        def some(first: int, last: int) -> None:
            memory, place = scratch(room)
            self._call.soft_count(
                found.address,
                found.itemsize,
                found.stride,
                address(offsets),
                first,
                last,
                n_samples,
                address(shares),
                n_columns,
                address(counts),
                width,
                place,
            )
            del memory

        work = _lookups(found, 2 * width)
        over(some, n_partitions, work, self._n_threads, parts=1)
        dense_counts = np.ascontiguousarray(counts[:, :n_columns])
        return dense_counts.reshape(-1, n_restarts, n_clusters)

    def pairs(
        self, resident: Any, n_labels: npt.NDArray[np.int64], rows: Any, columns: Any
    ) -> PairCounts:
        """See the Protocol."""
        known = lines("codes", resident, "12", (None, None))
        left = np.ascontiguousarray(known.array[:, rows])
        right = np.ascontiguousarray(known.array[:, columns])
        missing = dense("n_labels", n_labels, np.int64, (len(left),))
        shape = (left.shape[1], right.shape[1])
        same = np.zeros(shape, dtype=np.int32)
        both = np.zeros(shape, dtype=np.int32)
        absent = missing[:, None].astype(left.dtype)
        complete = not (right == absent).any()

        def some(begin: int, end: int) -> None:
            self._call.pairs(
                address(left),
                shape[0],
                address(right),
                shape[1],
                left.itemsize,
                address(missing),
                len(left),
                complete,
                begin,
                end,
                address(same),
                address(both),
            )

        over(some, shape[0], same.size * len(left) // 16, self._n_threads)
        if complete:
            both += (left != absent).sum(axis=0, dtype=np.int32)[:, None]
        return PairCounts(same, both)


def _row_terms(
    row_table: Table, shape: tuple[int, ...], width: int
) -> tuple[Array | None, Array | None]:
    """Return a row table as padded rows, or the one row that is the same for all."""
    wanted = shape if row_table.ndim == 3 else shape[1:]
    if row_table.shape != wanted:
        raise ValueError(
            f"row_table has shape {row_table.shape} and should have {wanted}, as table."
        )
    if row_table.ndim == 2:
        return None, padded_rows("row_table", row_table[None])[0]
    full, found = padded_rows("row_table", row_table)
    if found != width:
        padded = blank_table(len(full), width)
        as_protocol(padded, *shape[1:])[:] = row_table
        full = padded
    return full, None


def _lookups(codes: Lines, width: int) -> int:
    """Return the work of adding rows of a table, in steps of one vector."""
    return codes.shape[0] * codes.shape[1] * width // 16
