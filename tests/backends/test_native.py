"""Every primitive of the native backend against NumPy, bit for bit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from gpu_consensus.backends.host_loops import compiled_loops
from gpu_consensus.backends.native import library, loops, screening
from gpu_consensus.backends.native.backend import NativeBackend
from gpu_consensus.backends.native.layout import as_protocol, blank_table
from gpu_consensus.backends.numpy import NumpyBackend, smallest_unsigned
from gpu_consensus.backends.recipe import TableRecipe
from gpu_consensus.backends.segments import Segments, label_sums
from gpu_consensus.feedback.tilo import tilo
from gpu_consensus.loop.exact_step import price_tables
from gpu_consensus.loop.rule import Refinement
from gpu_consensus.loop.utilities import parse_utility
from gpu_consensus.methods.agglomerate import numpy_merges
from gpu_consensus.methods.bottleneck import numpy_pair_sums
from gpu_consensus.methods.climbs import climb_all
from gpu_consensus.methods.cumulative import numpy_vote_round
from gpu_consensus.methods.expectation import numpy_expectation, numpy_memberships
from gpu_consensus.methods.ipc import Shares, count_members, sweep_objects

if os.environ.get("GPU_CONSENSUS_TEST_LIBRARY"):  # a folder of sanitized libraries
    library.FOLDER = Path(os.environ["GPU_CONSENSUS_TEST_LIBRARY"]).parent
REASON = library.why_unavailable()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))
REFERENCE = NumpyBackend(1)
# objects, restarts, clusters, labels of the partitions
SIZES = [
    (1, 1, 1, (3,)),
    (7, 1, 2, (1, 2)),
    (1000, 1, 10, (10,) * 20),
    (499, 3, 7, (5, 255, 2, 17)),
    (301, 10, 10, (30,) * 33),
    (300, 17, 3, (256, 3, 300)),
    (60, 40, 3, (2,) * 260),
    (2100, 1, 40, (3, 9)),
    (100, 2, 256, (12,) * 4),
    (90, 1, 300, (5, 6)),
    (70, 1, 3, (65_535, 2)),
]
NAMES = [f"n{n}-R{r}-K{k}-r{len(labels)}" for n, r, k, labels in SIZES]


class Case(NamedTuple):
    codes: Any
    offsets: Any
    n_restarts: int
    n_clusters: int
    rng: np.random.Generator

    @property
    def n_rows(self) -> int:
        return int(self.offsets[-1])

    @property
    def n_labels(self) -> Any:
        return np.diff(self.offsets) - 1

    @property
    def marginals(self) -> Any:
        found = [
            np.bincount(codes, minlength=size)[:size]
            for codes, size in zip(self.codes, self.n_labels + 1, strict=True)
        ]
        marginals = np.concatenate(found).astype(np.int64)
        marginals[self.offsets[1:] - 1] = 0
        return marginals

    def assignment(self, uncounted: bool = True) -> Any:
        return self.rng.integers(
            self.n_clusters + uncounted, size=(self.n_restarts, self.codes.shape[1])
        ).astype(smallest_unsigned(self.n_clusters))

    def table(self, dtype: Any = np.float32) -> Any:
        shape = (self.n_rows, self.n_restarts, self.n_clusters)
        table = self.rng.normal(size=shape).astype(dtype)
        table[self.offsets[1:] - 1] = 0
        return table


def make(size: Any, seed: int = 0, missing: float = 0.1) -> Case:
    n, n_restarts, n_clusters, labels = size
    rng = np.random.default_rng(seed)
    dtype = np.uint8 if max(labels) <= 255 else np.uint16
    codes = np.stack([rng.integers(k, size=n) for k in labels]).astype(dtype)
    gone = rng.random(codes.shape) < missing
    codes = np.where(gone, np.array(labels, dtype=dtype)[:, None], codes)
    offsets = np.concatenate([[0], np.cumsum(np.array(labels) + 1)]).astype(np.int64)
    return Case(codes, offsets, n_restarts, n_clusters, rng)


@pytest.fixture(params=SIZES, ids=NAMES)
def case(request: Any) -> Case:
    return make(request.param)


@pytest.fixture(
    params=[(level, 2) for level in library.levels()] + [(None, 1)],
    ids=lambda value: f"{value[0] or 'best'}-{value[1]}",
)
def backend(request: Any, monkeypatch: Any) -> NativeBackend:
    level, jobs = request.param
    # so that the second thread has work however small it is
    monkeypatch.setattr(
        "gpu_consensus.backends.native.threads.WORTH_A_THREAD", 8 if jobs > 1 else 1e18
    )
    found = NativeBackend(jobs, level=level)
    if level is not None and found._library.level != level:
        pytest.skip(f"this processor has no {level}")
    return found


def same(found: Any, expected: Any) -> None:
    """Equal in every bit; None is only equal to None."""
    for a, b in zip(found, expected, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert a.dtype == b.dtype
            assert a.shape == b.shape
            assert (
                np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()
            )


def test_assign(backend: NativeBackend, case: Case) -> None:
    table = case.table()
    for extra in ({}, {"best": True}, {"gap": True}, {"best": True, "gap": True}):
        found = backend.assign(case.codes, case.offsets, table, **extra)
        same(found, REFERENCE.assign(case.codes, case.offsets, table, **extra))


def test_assign_with_rows(backend: NativeBackend, case: Case) -> None:
    table, full = case.table(), case.table()
    weight = case.rng.integers(1, 1000, size=case.codes.shape[1]).astype(np.float32)
    for row_table in (full, full[0]):
        extra = {"row_weight": weight, "row_table": row_table, "best": True}
        found = backend.assign(case.codes, case.offsets, table, **extra)
        same(found, REFERENCE.assign(case.codes, case.offsets, table, **extra))


def test_ties_go_to_the_lowest_cluster(backend: NativeBackend, case: Case) -> None:
    table = np.round(case.table()) + np.float32(0)  # as_table knows no -0 either
    found = backend.assign(case.codes, case.offsets, table, gap=True)
    same(found, REFERENCE.assign(case.codes, case.offsets, table, gap=True))


def test_a_table_in_the_own_layout_is_not_copied(backend: NativeBackend) -> None:
    case = make(SIZES[4])
    padded = blank_table(case.n_rows, case.n_restarts * case.n_clusters)
    table = as_protocol(padded, case.n_restarts, case.n_clusters)
    table[:] = case.table()
    found = backend.assign(case.codes, case.offsets, table)
    same(found, REFERENCE.assign(case.codes, case.offsets, table))


def counted(backend: Any, case: Case, before: Any, after: Any) -> Any:
    counts = np.ones((case.n_rows, case.n_restarts, case.n_clusters), dtype=np.int64)
    backend.count(case.codes, case.offsets, before, after, counts)
    return counts


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
def test_count(backend: NativeBackend, case: Case, share: float) -> None:
    before, after = case.assignment(), case.assignment()
    after = np.where(case.rng.random(after.shape) < share, after, before)
    for old in (None, before):
        found = counted(backend, case, old, after)
        same([found], [counted(REFERENCE, case, old, after)])


@pytest.mark.parametrize("shape", [(1, 255), (17, 5), (33, 4), (16, 8)], ids=str)
@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32])
def test_count_of_many_restarts(
    backend: NativeBackend, shape: tuple[int, int], kind: Any
) -> None:
    rng = np.random.default_rng(shape)
    offsets = np.array([0, 4, 10, 301])
    codes = rng.integers([[4], [6], [291]], size=(3, 5000)).astype(np.uint16)
    after = rng.integers(shape[1] + 1, size=(shape[0], 5000)).astype(kind)
    stays = rng.random(after.shape) < 0.3
    before = np.where(stays, after, after[:, ::-1])
    for old in (None, before):
        counts = []
        for one in (backend, REFERENCE):
            counts.append(np.zeros((301, *shape), dtype=np.int64))
            one.count(codes, offsets, old, after, counts[-1])
        same(counts[:1], counts[1:])


def test_count_passes_16_bits(backend: NativeBackend) -> None:
    case = make((70_001, 12, 3, (1, 2)), missing=0.0)
    after = np.zeros_like(case.assignment())
    found = counted(backend, case, None, after)
    same([found], [counted(REFERENCE, case, None, after)])


def test_absent_weights(backend: NativeBackend, case: Case) -> None:
    before, after = case.assignment(), case.assignment()
    weight = case.rng.integers(1, 1 << 40, size=case.codes.shape[1])
    shape = (case.n_restarts, case.n_clusters)
    for old in (None, before):
        sums = []
        for one in (backend, REFERENCE):
            counts = np.zeros((case.n_rows, *shape), dtype=np.int64)
            absent = np.zeros((len(case.codes), *shape), dtype=np.int64)
            one.count(case.codes, case.offsets, old, after, counts, weight, absent)
            sums.append([counts, absent])
        same(*sums)


def test_prices(backend: NativeBackend, case: Case) -> None:
    """Ties included: coarse numbers make them."""
    own = case.assignment()
    for table, stay in (
        (case.table(), case.table()),
        (
            np.round(case.table()) + np.float32(0),
            np.round(case.table()) + np.float32(0),
        ),
    ):
        given = (case.codes, case.offsets, table)
        computed = backend.assign(*given, own=own, stay=stay)
        same(computed, REFERENCE.assign(*given, own=own, stay=stay))


def counts_of(case: Case) -> Any:
    """Counts of a random assignment, in which a cluster may have no member."""
    return counted(REFERENCE, case, None, case.assignment()) - 1


@pytest.mark.parametrize("name", ["C", "H", "H_SMOOTH", "COS", "LP", "IVC", "IPVC"])
def test_table(backend: NativeBackend, case: Case, name: str) -> None:
    weights = case.rng.random(len(case.codes)) + 0.1
    power = 5 if name == "LP" else 0
    recipe = TableRecipe(name, case.offsets, case.marginals, weights, power)
    counts = counts_of(case)
    same(backend.table(recipe, counts), REFERENCE.table(recipe, counts))


@pytest.mark.parametrize("row", ["sum", "labels"])
def test_table_of_sec(backend: NativeBackend, case: Case, row: str) -> None:
    ones, counts = np.ones(len(case.codes)), counts_of(case)
    everybody = case.rng.integers(1, 1 << 40, size=len(case.codes))
    recipe = TableRecipe("SEC", case.offsets, case.marginals, ones, 0, everybody, row)
    absent = None
    if row == "labels":
        shape = (len(case.codes), *counts.shape[1:])
        absent = case.rng.integers(10, size=shape)
    expected = REFERENCE.table(recipe, counts, absent)
    same(backend.table(recipe, counts, absent), expected)


@pytest.mark.parametrize("entropy", [False, True])
def test_label_sums(backend: NativeBackend, case: Case, entropy: bool) -> None:
    counts = counts_of(case)
    counts[case.rng.random(counts.shape) < 0.1] *= 3_000_000
    marginals = case.marginals
    found = backend.label_sums(case.offsets, counts, marginals, entropy)
    same(found, label_sums(case.offsets, counts, marginals, entropy))
    one = backend.label_sums(case.offsets, counts[:, 0], marginals)
    same(one, label_sums(case.offsets, counts[:, 0], marginals))


def test_scores(backend: NativeBackend, case: Case) -> None:
    table = case.table(np.float64)
    found = backend.scores(case.codes, case.offsets, table)
    same([found], [REFERENCE.scores(case.codes, case.offsets, table)])


def test_soft_count(backend: NativeBackend, case: Case) -> None:
    shape = (case.codes.shape[1], case.n_restarts, case.n_clusters)
    shares = case.rng.random(shape)
    found = backend.soft_count(case.codes, case.offsets, shares)
    same([found], [REFERENCE.soft_count(case.codes, case.offsets, shares)])


def test_pairs(backend: NativeBackend, case: Case) -> None:
    n = case.codes.shape[1]
    rows, columns = case.rng.integers(n, size=min(n, 60)), slice(0, min(n, 333))
    for missing in (0.0, 0.3):
        some = make((n, 1, 1, tuple(case.n_labels.tolist())), missing=missing)
        given = (some.codes, some.n_labels, rows, columns)
        same(backend.pairs(*given), REFERENCE.pairs(*given))


def views(codes: Any) -> dict[str, Any]:
    """Return the same codes as callers may have them."""
    n_partitions, n = codes.shape
    wide = np.zeros((n_partitions, n + 13), dtype=codes.dtype)
    wide[:, 5 : 5 + n] = codes
    raw = np.zeros(codes.nbytes + 1, dtype=np.uint8)
    unaligned = raw[1:].view(codes.dtype).reshape(codes.shape)
    unaligned[:] = codes
    read_only = codes.copy()
    read_only.flags.writeable = False
    return {
        "part of longer lines": wide[:, 5 : 5 + n],
        "unaligned": unaligned,
        "read-only": read_only,
        "by columns": np.asfortranarray(codes),
        "every second": np.repeat(codes, 2, axis=1)[:, ::2],
        "reversed": np.ascontiguousarray(codes[::-1])[::-1],
    }


@pytest.mark.parametrize("size", [SIZES[3], SIZES[5]], ids=["u8", "u16"])
def test_codes_may_be_views(size: Any) -> None:
    backend, case = NativeBackend(1), make(size)
    table, after = case.table(), case.assignment()
    expected = REFERENCE.assign(case.codes, case.offsets, table)
    counts = counted(REFERENCE, case, None, after)
    wide = np.repeat(after, 2, axis=1)
    for name, codes in views(case.codes).items():
        seen = case._replace(codes=codes)
        assert backend.assign(codes, case.offsets, table).assignment.tobytes() == (
            expected.assignment.tobytes()
        ), name
        same([counted(backend, seen, None, after)], [counts])
        same([counted(backend, seen, None, wide[:, ::2])], [counts])
        pairs = (case.n_labels, slice(0, 9), slice(None))
        same(backend.pairs(codes, *pairs), REFERENCE.pairs(case.codes, *pairs))


def test_no_objects() -> None:
    backend, case = NativeBackend(2), make((1, 2, 3, (4, 5)))
    codes, table = case.codes[:, :0], case.table()
    found = backend.assign(codes, case.offsets, table, best=True)
    assert found.assignment.shape == found.best.shape == (2, 0)
    counts = np.zeros(table.shape, dtype=np.int64)
    backend.count(codes, case.offsets, None, found.assignment, counts)
    assert not counts.any()
    assert backend.scores(codes, case.offsets, table.astype(float)).shape == (0, 2, 3)
    assert not backend.soft_count(codes, case.offsets, np.empty((0, 2, 3))).any()
    assert backend.pairs(codes, case.n_labels, [], []).same.shape == (0, 0)


class Untouched:
    """Stands for the kernels where none may be called."""

    def __getattr__(self, name: str) -> Any:
        def call(*_: Any) -> None:
            raise AssertionError(f"{name} was called")

        return call


def test_wrong_shapes_are_refused() -> None:
    backend, case = NativeBackend(1), make(SIZES[3])
    backend._call = Untouched()
    codes, offsets, table = case.codes, case.offsets, case.table()
    counts = np.zeros(table.shape, dtype=np.int64)
    after, n = case.assignment(), codes.shape[1]
    weight = np.ones(n, dtype=np.int64)
    absent = np.zeros((len(codes), *table.shape[1:]), dtype=np.int64)
    row = {"row_weight": np.ones(n, np.float32), "row_table": table[0]}
    recipe = TableRecipe("C", offsets, case.marginals, np.ones(len(codes)))
    shares = np.ones((n, 1, 2))
    refused = [
        lambda: backend.assign(codes.astype(np.int64), offsets, table),
        lambda: backend.assign(codes, offsets[:-1], table),
        lambda: backend.assign(codes, offsets.astype(np.int32), table),
        lambda: backend.assign(codes, offsets[::-1].copy(), table),
        lambda: backend.assign(codes, offsets, table[:-1]),
        lambda: backend.assign(codes, offsets, table[:, 0]),
        lambda: backend.assign(codes, offsets, table.astype(np.float64)),
        lambda: backend.assign(codes[0], offsets, table),
        lambda: backend.assign(codes[:0], offsets[:1], table),
        lambda: backend.assign(
            codes, offsets, table, **{**row, "row_weight": row["row_weight"][1:]}
        ),
        lambda: backend.assign(
            codes, offsets, table, **{**row, "row_table": table[1:]}
        ),
        lambda: backend.count(codes, offsets, None, after[:, 1:], counts),
        lambda: backend.count(codes, offsets, None, after[1:], counts),
        lambda: backend.count(codes, offsets, after.astype("u2"), after, counts),
        lambda: backend.count(codes, offsets, None, after.astype(int), counts),
        lambda: backend.count(codes, offsets, None, after, counts[:-1]),
        lambda: backend.count(codes, offsets, None, after, counts.astype("i4")),
        lambda: backend.count(codes, offsets, None, after, counts[::-1]),
        lambda: backend.count(codes, offsets, None, after, counts, weight[1:], absent),
        lambda: backend.count(codes, offsets, None, after, counts, weight, absent[1:]),
        lambda: backend.count(codes, offsets, None, after, counts, weight),
        lambda: backend.table(recipe, counts[1:]),
        lambda: backend.table(recipe._replace(marginals=weight), counts),
        lambda: backend.table(recipe._replace(weights=np.ones(1)), counts),
        lambda: backend.label_sums(offsets, counts[1:], case.marginals),
        lambda: backend.label_sums(offsets, counts, case.marginals[1:]),
        lambda: backend.scores(codes, offsets, table[1:].astype(float)),
        lambda: backend.soft_count(codes, offsets, shares[1:]),
        lambda: backend.pairs(codes, case.n_labels[1:], [0], [1]),
        lambda: backend.assign(codes, offsets, table, own=after[1:], stay=table),
        lambda: backend.assign(codes, offsets, table, own=after[:, 1:], stay=table),
        lambda: backend.assign(codes, offsets, table, own=after, stay=table[:, 1:]),
        lambda: backend.assign(codes, offsets, table, own=after, stay=table[:, :, 1:]),
        lambda: backend.assign(codes, offsets, table, own=after, stay=table[1:]),
        lambda: backend.table(recipe._replace(offsets=offsets[:-1]), counts),
        lambda: backend.table(recipe._replace(utility="LP"), counts),
        lambda: backend.table(recipe._replace(utility="LP", power=-1), counts),
        lambda: backend.table(recipe._replace(utility="SEC"), counts),
        lambda: backend.table(recipe._replace(utility="unknown"), counts),
        lambda: backend.scores(codes, offsets, table[:, 0].astype(float)),
        lambda: backend.soft_count(codes, offsets[:-1], shares),
        lambda: backend.soft_count(codes, offsets, shares[:, 0]),
        lambda: backend.pairs(codes[0], case.n_labels, [0], [1]),
        lambda: backend.pairs(codes.astype(np.int64), case.n_labels, [0], [1]),
    ]
    for call in refused:
        with pytest.raises((TypeError, ValueError)):
            call()
    read_only = counts.copy()
    read_only.flags.writeable = False
    with pytest.raises(ValueError, match="out is read-only"):
        backend.count(codes, offsets, None, after, read_only)


def copied(given: dict[str, Any]) -> dict[str, Any]:
    return {key: x.copy() if hasattr(x, "dtype") else x for key, x in given.items()}


def read_only(array: Any) -> Any:
    array = array.copy()
    array.flags.writeable = False
    return array


def test_wrong_shapes_are_refused_by_loops(monkeypatch: Any) -> None:
    case = make((40, 1, 3, (5, 2, 7)))
    codes, offsets, segments = case.codes, case.offsets, Segments(case.offsets)
    start, n = case.assignment(uncounted=False)[0], codes.shape[1]
    counts = counted(REFERENCE, case, None, start[None]) - 1
    shares = Shares(
        *(segments.starts, segments.missing, np.ones(3), np.ones(case.n_rows), True)
    )
    sizes, members = count_members(shares, counts[:, 0])
    sweep = dict(zip(("codes", *Shares._fields), (codes, *shares), strict=True))
    sweep |= {"assignment": start, "counts": counts[:, 0].copy()}
    sweep |= {"sizes": sizes, "members": members}
    prices = {"utility": "h", "counts": counts, "offsets": offsets}
    prices |= {"weights": np.ones(3), "unit": 0.0, "rises": np.ones(n + 1)}
    graph = np.ones((6, 6), dtype=np.int64) - np.eye(6, dtype=np.int64)
    tilo_given = {"weights": graph, "degree": graph.sum(axis=0)}
    tilo_given |= {name: np.zeros(6, np.int64) for name in ("order", "left")}
    tilo_given |= {"boundary": np.zeros(6, np.int64), "moves": np.zeros((6, 2), int)}
    climb = {"codes": codes, "n_labels": case.n_labels, "starts": np.arange(n)}
    climb |= {"threshold": (3, 2), "similarity": None, "own": np.ones(n, np.int32)}
    climb |= {"marks": np.arange(1, n + 1, dtype=np.uint64), "n_slots": 64}
    refused: list[tuple[Any, dict[str, Any], str, Any]] = [
        (loops.prices, prices | {"n_threads": 1}, name, value)
        for name, value in {
            "utility": "unknown",
            "counts": counts[1:],
            "offsets": offsets.astype(np.int32),
            "weights": np.ones(2),
            "rises": np.ones(3),
        }.items()
    ]
    refused += [
        (loops.ipc_sweep, sweep, name, value)
        for name, value in {
            "codes": codes[1:],
            "starts": segments.starts[1:],
            "weights": np.ones(2),
            "assignment": start[1:],
            "counts": counts[1:, 0],
            "sizes": sizes[:, 1:],
            "members": members[1:],
        }.items()
    ]
    refused += [
        (loops.ipc_sweep, sweep, "marginal", np.ones(case.n_rows - 1)),
        (loops.ipc_sweep, sweep, "assignment", start.astype(np.int64)),
        (loops.ipc_sweep, sweep, "assignment", read_only(start)),
        (loops.ipc_sweep, sweep, "counts", read_only(counts[:, 0])),
    ]
    refused += [
        (loops.tilo_sweep, tilo_given, name, value[1:])
        for name, value in tilo_given.items()
    ]
    refused += [
        (loops.tilo_sweep, tilo_given, "boundary", np.zeros(7, dtype=np.int64)),
        (loops.tilo_sweep, tilo_given, "order", read_only(tilo_given["order"])),
    ]
    refused += [
        (loops.climber, climb, name, value)
        for name, value in {
            "codes": codes[0],
            "n_labels": case.n_labels[1:],
            "starts": np.array([n]),
            "similarity": np.ones((n, n - 1), dtype=np.uint8),
            "own": np.ones(n - 1, np.int32),
            "marks": np.ones(n + 1, np.uint64),
            "n_slots": 63,
        }.items()
    ]
    refused += [(loops.climber, climb, "n_slots", 0)]
    # as they are, they are accepted: what follows is refused for its one change
    for loop, given in (
        (loops.prices, prices | {"n_threads": 1}),
        (loops.ipc_sweep, sweep),
        (loops.climber, climb),
    ):
        loop(**copied(given))
    untouched = library.load()._replace(call=Untouched())
    monkeypatch.setattr(loops, "load", lambda: untouched)
    for loop, given, name, value in refused:
        with pytest.raises((TypeError, ValueError)):
            loop(**copied(given) | {name: value})


def test_to_host() -> None:
    backend = NativeBackend(1)
    a, b = np.zeros(2), np.ones(3)
    assert backend.to_host(a) is a
    assert backend.to_host(a, None, b) == (a, None, b)
    assert backend.name == "native"


def test_the_best_level_is_loaded_and_tells_its_compiler() -> None:
    best = library.load()
    assert best.level in library.levels()
    assert best.build.startswith(("gcc", "clang"))
    assert "fast-math" not in best.build


def test_it_can_be_turned_off(monkeypatch: Any) -> None:
    monkeypatch.setenv("GPU_CONSENSUS_NATIVE", "0")
    assert "GPU_CONSENSUS_NATIVE=0" in str(library.why_unavailable())
    with pytest.raises(library.NativeUnavailable, match="turns compiled code off"):
        NativeBackend(1)


def test_a_folder_without_libraries_is_told(tmp_path: Any) -> None:
    with pytest.raises(library.NativeUnavailable, match="without its compiled code"):
        library._load(tmp_path, None)


class Near(NamedTuple):
    """Ensembles and tables in which many sums nearly tie."""

    codes: Any
    offsets: Any
    table: Any


def nearly_tied(seed: int) -> Near:
    """Draw an ensemble with duplicates and a table perturbed by 1e-7 or so."""
    rng = np.random.default_rng(seed)
    n, r = int(rng.integers(2048, 2600)), int(rng.integers(1, 120))
    n_restarts = int(rng.choice([1, 1, 2, 5, 17]))
    n_clusters = int(rng.choice([2, 3, 8, 9, 10, 16, 17, 33, 130]))
    labels = rng.integers(1, int(rng.choice([3, 12, 300])), size=r)
    dtype = np.uint8 if labels.max() <= 255 else np.uint16
    codes = np.stack([rng.integers(k + 1, size=n) for k in labels]).astype(dtype)
    codes[:, n // 2 :] = codes[:, : n - n // 2]
    offsets = np.concatenate([[0], np.cumsum(labels + 1)]).astype(np.int64)
    shape = (int(offsets[-1]), n_restarts, n_clusters)
    kind = int(rng.integers(5))
    table = rng.normal(size=shape) * 10.0 ** rng.integers(-20, 20)
    if kind == 1:  # clusters are copies of each other, but for the last bits
        table[:] = table[:, :, :1] * (1 + 1e-7 * rng.normal(size=shape))
    elif kind == 2:  # equal but for one partition
        table[:, :, 1:] = table[:, :, :1]
        table[: offsets[1]] += 1e-4 * np.abs(table).max() * rng.normal()
    elif kind == 3:  # whole numbers, so that there are real ties
        table = np.round(3 * rng.normal(size=shape)) + 0.0
    elif kind == 4:  # large beside small entries: float sums lose bits
        table[rng.random(shape) < 0.02] *= 1e6
    if rng.random() < 0.5:  # partitions of unequal weight: units of their own
        weight = 2.0 ** rng.integers(-6, 7, size=r) * (1 + rng.random(r))
        table *= np.repeat(weight, labels + 1)[:, None, None]
    table = table.astype(np.float32)
    table[offsets[1:] - 1] = 0
    return Near(codes, offsets, table)


def all_screened(
    backend: NativeBackend, monkeypatch: Any, size: int = 1
) -> NativeBackend:
    """Let the backend screen however many objects stay undecided."""
    own = "gpu_consensus.backends.native.screening."
    monkeypatch.setattr(own + "bearable_doubts", lambda *shape: 1e9)
    monkeypatch.setattr(own + "_SIZES", (size,))
    for name in ("_PAYS", "_FEWEST_COLUMNS"):
        monkeypatch.setattr(own + name, 0)
    return backend


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("seed", range(25))
def test_screening_finds_no_counterexample(
    backend: NativeBackend, seed: int, size: int, monkeypatch: Any
) -> None:
    all_screened(backend, monkeypatch, size)
    near = nearly_tied(seed)
    found = backend.assign(*near).assignment
    expected = backend.assign(*near, best=True).assignment  # never screened
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("size", [1, 2])
def test_most_of_these_are_screened(size: int, monkeypatch: Any) -> None:
    """Copies that differ in the last bits are not: units would be finer than floats."""
    number, seeds = 0, range(40)
    for seed in seeds:
        backend = all_screened(NativeBackend(1), monkeypatch, size)
        backend.assign(*nearly_tied(seed))
        number += backend._screening.screened > 0
    assert number > len(seeds) / 2


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2])
def test_screening_finds_no_counterexample_in_many(size: int, monkeypatch: Any) -> None:
    backend = all_screened(NativeBackend(1), monkeypatch, size)
    for seed in range(1000, 4000):
        near = nearly_tied(seed)
        expected = backend.assign(*near, best=True).assignment
        assert (backend.assign(*near).assignment == expected).all(), seed


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("n_restarts", [1, 3])
@pytest.mark.parametrize("r", [20, 100, 1000])
def test_sums_at_the_edge_of_the_bound_are_undecided(
    r: int, n_restarts: int, size: int, monkeypatch: Any
) -> None:
    """Roundings that all go the wrong way: a bound of 0.9 r units would be too short.

    In every partition but one, entries of 10.49 and 10.51 units become 10 and 11:
    the first cluster seems better by r - 1 units. The last partition makes it worse by
    a little more than it is better. Two other clusters set the least and the largest
    entry, so that a unit is known.
    """
    backend = all_screened(NativeBackend(1), monkeypatch, size)
    monkeypatch.setattr("gpu_consensus.backends.native.screening.SHARED_ROWS", 0)
    monkeypatch.setattr(screening, "_LEAST_REACH", 1.0)
    room, units = screening._units(np.full(r, 1 / r), size)
    assert not units.any()
    unit = r / room
    table = np.zeros((2 * r, 1, 4))
    table[0::4, 0, 2] = 1.0
    table[2::4, 0, 3] = 1.0
    table[0::2, 0, :2] = np.array([10.49, 10.51]) * unit
    table[2 * r - 2, 0, :2] = np.array([11.5 + 0.02 * r, 10.0]) * unit
    table = np.repeat(table, n_restarts, axis=1).astype(np.float32)
    codes, offsets = np.zeros((r, 4096), np.uint8), np.arange(r + 1) * 2
    found = backend.assign(codes, offsets, table)
    assert (found.assignment == 1).all()
    assert backend._screening.screened > 0
    assert backend._screening.undecided == n_restarts * backend._screening.screened
    same(found, REFERENCE.assign(codes, offsets, table))


def test_planted_clusters_are_decided_in_8_bits() -> None:
    """Screening does the work where it should, and says how much it left."""
    rng = np.random.default_rng(0)
    truth = rng.integers(5, size=20_000)
    redrawn = rng.integers(5, size=(50, truth.size))
    codes = np.where(rng.random(redrawn.shape) < 0.5, redrawn, truth).astype(np.uint8)
    offsets = np.arange(51, dtype=np.int64) * 6
    table = np.tile(np.append(1 - np.eye(5), np.zeros((1, 5)), axis=0), (50, 1))
    backend = NativeBackend(1)
    table = np.repeat(table[:, None], 4, axis=1).astype(np.float32)
    table *= 1 + 1e-3 * rng.random(table.shape, dtype=np.float32)
    found = backend.assign(codes, offsets, table)
    assert backend._screening.screened == truth.size - screening.PROBE
    assert backend._screening.undecided < 0.01 * backend._screening.screened
    assert (found.assignment[0] == truth).mean() > 0.99


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_as_many_objects_as_are_probed(more: int, monkeypatch: Any) -> None:
    backend = all_screened(NativeBackend(1), monkeypatch)
    rng = np.random.default_rng(0)
    codes = rng.integers(9, size=(20, screening.PROBE + more)).astype(np.uint8)
    offsets = np.arange(21, dtype=np.int64) * 10
    table = rng.normal(size=(200, 2, 12)).astype(np.float32)
    found = backend.assign(codes, offsets, table)
    same(found, REFERENCE.assign(codes, offsets, table))


def test_screening_pauses_where_it_does_not_pay() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=(30, 50_000)).astype(np.uint8)
    offsets = np.arange(31, dtype=np.int64) * 4
    table = np.ones((120, 1, 4), dtype=np.float32)
    table += 1e-3 * rng.random(table.shape, dtype=np.float32)
    table[0] += 1  # so that units are large beside all differences
    table[0, 0, 0] = 50
    table = np.repeat(table, 5, axis=1)
    backend = NativeBackend(1)
    expected = REFERENCE.assign(codes, offsets, table)
    pauses = []
    for _ in range(8):
        same(backend.assign(codes, offsets, table), expected)
        assert backend._screening.screened < 5000
        pauses.append(backend._screening.pause)
    assert pauses == [0, 0, 1, 0, 3, 2, 1, 0]


@pytest.mark.parametrize("shape", [(1, 3), (1, 40), (10, 10), (3, 130)], ids=str)
@pytest.mark.parametrize("r", [7, 100, 3000])
def test_two_values_are_decided_with_their_ties(
    r: int, shape: tuple[int, int], monkeypatch: Any
) -> None:
    """Votes: float sums of one value in any places, so that whole numbers decide."""
    backend = all_screened(NativeBackend(1), monkeypatch)
    rng = np.random.default_rng([r, *shape])
    n_labels = rng.integers(1, 30, size=r)
    offsets = np.append(0, np.cumsum(n_labels + 1))
    codes = rng.integers(n_labels[:, None] + 1, size=(r, 4096)).astype(np.uint8)
    value = rng.choice([0.02, 1.0, 1e-7, 3e4], size=(shape[0], 1))
    table = np.where(rng.random((offsets[-1], *shape)) < 0.3, value, 0.0)
    table[offsets[1:] - 1] = 0.0
    found = backend.assign(codes, offsets, table.astype(np.float32))
    assert (backend._screening.screened, backend._screening.undecided) == (4096, 0)
    same(found, REFERENCE.assign(codes, offsets, table.astype(np.float32)))


def test_signatures_are_those_of_the_sources() -> None:
    sources = Path(library.__file__).parent.glob("*.c")
    text = "".join(file.read_text() for file in sources)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    declared = {}
    for name, inside in re.findall(r"GPC_API [^;{]*?gpc_(\w+)\(([^)]*)\)\s*\{", text):
        arguments = [] if inside == "void" else inside.split(",")
        declared[name] = "".join(
            "p" if "*" in one else "d" if "double" in one else "i" for one in arguments
        )
    stated = {name: found[1] for name, found in library._SIGNATURES.items()}
    assert declared == stated


@pytest.mark.parametrize("name", ["c", "h", "cos"])
def test_price_tables(name: str, case: Case) -> None:
    segments, counts = Segments(case.offsets), counts_of(case)
    weights = case.rng.random(len(case.codes)) + 0.5
    refinement = Refinement(parse_utility(name)[1], segments, weights)
    sizes = counts[: case.offsets[1]].sum(axis=0)
    with compiled_loops(False):
        expected = price_tables(refinement, counts, sizes)
    for n_threads in (1, 2):
        same(price_tables(refinement, counts, sizes, n_threads), expected)


def logarithms(case: Case, sharp: float) -> Any:
    """Draw log theta and log alpha, some of them -inf; label 0 has none of these."""
    theta = -sharp * case.rng.random((case.n_rows, case.n_restarts, case.n_clusters))
    theta[case.rng.random(theta.shape) < 0.05] = -np.inf
    theta[:, :, 0] = -sharp
    theta[case.offsets[1:] - 1] = 0
    return theta, np.log(case.rng.dirichlet(np.ones(case.n_clusters), case.n_restarts))


@pytest.mark.parametrize("sharp", [0.5, 40.0])
def test_expectation(
    backend: NativeBackend, case: Case, sharp: float, monkeypatch: Any
) -> None:
    level = backend._library.level
    monkeypatch.setattr(loops, "load", lambda: library.load(level))
    n_samples = case.codes.shape[1]
    given = (case.offsets, *logarithms(case, sharp))
    expected = numpy_expectation(case.codes, *given, 1)
    found = [loops.expectation(case.codes, *given, jobs) for jobs in (1, 2, 3)]
    for one in found:
        same(one, expected)
    for cut in {0, 1, n_samples // 3, n_samples}:  # whatever the blocks
        parts = case.codes[:, :cut], case.codes[:, cut:]
        sums = [loops.expectation(part, *given, 2) for part in parts]
        same([a + b for a, b in zip(*sums, strict=True)], expected)
    shares = numpy_memberships(case.codes, *given, 1)
    for jobs in (1, 2, 3):
        same(loops.memberships(case.codes, *given, jobs), shares)


def test_expectation_with_memory_for_one_thread(monkeypatch: Any) -> None:
    case = make(SIZES[2])
    monkeypatch.setattr("gpu_consensus.backends.native.threads.WORTH_A_THREAD", 8)
    given = (case.codes, case.offsets, *logarithms(case, 3.0))
    expected = loops.expectation(*given, 2)
    monkeypatch.setattr(loops, "_SUMS", 1)
    same(loops.expectation(*given, 2), expected)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
@pytest.mark.parametrize("n", [0, 1, 7, 255, 257, 20_001])
@pytest.mark.parametrize("k", [1, 3, 17])
def test_vote_round(n: int, k: int, kind: Any) -> None:
    rng = np.random.default_rng(n + k)
    units = rng.integers(2**33, size=(n, k)) * (rng.random((n, k)) < 0.8)
    start = units * 2.0**-32
    weight = rng.random(n) * (rng.random(n) < 0.9)
    voters, labels = rng.integers([[6], [10]], size=(2, n)).astype(kind)
    table = rng.integers(2**32, size=(6, k)) * 2.0**-32
    for adds, asks in ((True, True), (True, False), (False, True)):
        given = (voters if adds else None, table if adds else None)
        asked = labels if asks else None
        votes = start.copy()
        expected = numpy_vote_round(votes, weight, *given, asked, 9, 1)
        for n_threads in (1, 2, 3):
            found = start.copy()
            sums = loops.vote_round(found, weight, *given, asked, 9, n_threads)
            same((sums, found), (expected, votes))


def test_vote_round_refuses_labels_without_a_row() -> None:
    votes, weight = np.zeros((3, 2)), np.ones(3)
    labels = np.array([0, 1, 2], dtype=np.uint8)
    with pytest.raises(ValueError, match="voters has 2 and should be below 2"):
        loops.vote_round(votes, weight, labels, np.zeros((2, 2)), None, 0, 1)
    with pytest.raises(ValueError, match="labels has 2 and should be below 2"):
        loops.vote_round(votes, weight, None, None, labels, 1, 1)
    with pytest.raises(ValueError, match="pairs should be columns, 0 to 2"):
        loops.pair_sums(np.zeros((3, 2)), np.array([[0, 3]]), 1)


@pytest.mark.parametrize("n", [0, 1, 7, 255, 257, 5_001])
@pytest.mark.parametrize("k", [1, 2, 23])
def test_pair_sums(n: int, k: int) -> None:
    rng = np.random.default_rng(n + k)
    shares = rng.random((k, n)) ** 9 * (rng.random((k, n)) < 0.8)
    columns = np.rint(shares * 2.0**32) * 2.0**-32
    pairs = rng.integers(k, size=(40, 2))
    expected = numpy_pair_sums(columns, pairs, 1)
    both = columns[pairs[:, 0]] + columns[pairs[:, 1]]
    terms = both * np.log2(np.where(both > 0, both, 1))
    assert expected * 2.0**-32 == pytest.approx(terms.sum(axis=1), abs=1e-9 * (n + 1))
    for n_threads in (1, 2, 3):
        same(loops.pair_sums(columns, pairs, n_threads), expected)
    same(loops.pair_sums(columns, pairs[:0], 2), expected[:0])


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("size", [SIZES[2], SIZES[3], SIZES[5]], ids=["1", "2", "3"])
def test_ipc_sweep(size: Any, missing: float) -> None:
    case = make((*size[:1], 1, *size[2:]), missing=missing)
    segments, marginals = Segments(case.offsets), case.marginals
    present = segments.to_labels(np.maximum(segments.sum(marginals), 1))
    weights = case.rng.random(len(case.codes)) if missing else np.ones(len(case.codes))
    start = case.assignment()[0]
    counts = counted(REFERENCE, case, None, start[None])[:, 0] - 1
    expected, ends = start.copy(), counts.copy()
    shares = Shares(
        *(segments.starts, segments.missing, weights, marginals / present, not missing)
    )
    for _ in range(2):
        moved = sweep_objects(
            *(case.codes, *shares, expected, ends, *count_members(shares, ends))
        )
        found = loops.ipc_sweep(
            *(case.codes, *shares, start, counts, *count_members(shares, counts))
        )
        assert found == moved
        same([start, counts], [expected, ends])


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("size", [SIZES[2], SIZES[3], SIZES[5]], ids=["1", "2", "3"])
def test_climbs(size: Any, stored: bool) -> None:
    case = make(size)
    codes, labels = case.codes[:, :150], case.n_labels
    n = codes.shape[1]
    matrix = REFERENCE.pairs(codes, labels, slice(None), slice(None)).same
    given = (codes, labels, np.arange(0, n, 2), (len(codes), 2))
    similarity = matrix.astype(np.uint8 if stored and len(codes) < 256 else np.uint16)
    extra = similarity if stored else None
    with compiled_loops(False):
        expected = climb_all(*given, extra)
    for n_threads in (1, 2):
        same(climb_all(*given, extra, None, n_threads), expected)


@pytest.mark.parametrize("kind", [None, np.uint8, np.uint16])
@pytest.mark.parametrize("threshold", [(0, 1), (3, 1), (7, 2)])
@pytest.mark.parametrize("n", [1, 2, 255, 256, 257, 600])
def test_climbs_of_several_blocks(n: int, threshold: Any, kind: Any) -> None:
    case = make((n, 1, 1, (3, 4, 300 if n > 256 else 2, 2, 3)), missing=0.2)
    codes, labels = case.codes, case.n_labels
    codes[:, n // 2] = labels  # one without any label
    codes[:, -1] = codes[:, 0]  # ties
    pairs = REFERENCE.pairs(codes, labels, slice(None), slice(None)).same
    extra = None if kind is None else pairs.astype(kind)
    given = (codes, labels, np.arange(0, n, 1 + n // 40), threshold, extra)
    with compiled_loops(False):
        expected = climb_all(*given)
    for n_threads in (1, 2, 3):
        same(climb_all(*given, None, n_threads), expected)


@pytest.mark.parametrize("linkage", loops.LINKAGES)
@pytest.mark.parametrize("n", [1, 2, 3, 64, 65, 129, 257])
def test_merges(n: int, linkage: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(loops, "_MERGES", 50)
    rng = np.random.default_rng(n)
    sizes = rng.integers(1, 4, size=n).astype(np.float64)
    for matrix in (
        rng.integers(5, size=(n, n)).astype(np.float64),  # full of ties
        rng.random((n, n)),
        np.add.outer(*2 * [np.arange(n)]) / 7.0,  # into one class, again and again
    ):
        even = np.triu(matrix, 1) + np.triu(matrix, 1).T
        for least, n_left in ((-np.inf, 1), (-np.inf, n // 3), (0.7, 1)):
            given = (sizes, linkage, least, n_left)
            expected = list(numpy_merges(even.copy(), *given))
            assert list(loops.merges(even.copy(), *given)) == expected
            assert list(loops.merges(even.copy("F"), *given)) == expected
    assert list(loops.merges(np.empty((0, 0)), np.empty(0), linkage, 0.0, 1)) == []


def test_tilo_sweep() -> None:
    rng = np.random.default_rng(0)
    for n in (2, 3, 9, 40):
        for _ in range(5):
            graph = rng.integers(4, size=(n, n))
            graph = graph + graph.T
            order = rng.permutation(n)
            with compiled_loops(False):
                expected = tilo(graph, order=order)
            same(tilo(graph, order=order), expected)


def test_threads_survive_a_fork() -> None:
    """A child has none of its parent's threads and makes its own."""
    if not hasattr(os, "fork"):
        pytest.skip("no fork on this system")
    script = (
        "import os, sys, numpy as np\n"
        "from gpu_consensus.backends.native.backend import NativeBackend\n"
        "b = NativeBackend(2)\n"
        "codes = np.zeros((50, 200_000), np.uint8)\n"
        "offsets = np.arange(51, dtype=np.int64) * 2\n"
        "table = np.ones((100, 1, 2), np.float32)\n"
        "b.assign(codes, offsets, table)\n"
        "if (child := os.fork()) == 0:\n"
        "    b.assign(codes, offsets, table)\n"
        "    os._exit(7)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], timeout=60, check=False
    )
    assert done.returncode == 7
