"""Devices with too little memory: smaller parts and the same bits, or one clear error.

Allocations are made to fail one after the other, every one once, and from a size on.
"""

import importlib
import warnings

import kernel_matrix
import numpy as np
import pytest
from conftest import emulated
from cudaemu import DeviceSpec
from failing_memory import failing, outcomes
from fresh_counts import fresh_sums
from random_ensembles import noisy

import gpu_consensus as gpc
from gpu_consensus.backends import choose_backend
from gpu_consensus.backends.cupy import pairs as device_pairs
from gpu_consensus.backends.cupy.launcher import Launcher
from gpu_consensus.backends.cupy.streamed_codes import StreamedCodes
from gpu_consensus.backends.device_memory import (
    DeviceMemoryError,
    DeviceMemoryWarning,
    in_parts,
    memory_for,
    room_for,
)
from gpu_consensus.backends.numpy import NumpyBackend
from gpu_consensus.loop import count_by_cluster
from gpu_consensus.loop.utilities import parse_utility
from gpu_consensus.methods.climbs import climb_all, climb_bytes
from gpu_consensus.methods.kcc import KccRule

CASE = {"n": 65, "n_labels": 5, "n_clusters": 4, "n_restarts": 2, "repeat": 1}


@pytest.mark.parametrize(
    "change",
    [
        {"missing": 0.3, "rule": "sec", "row_table": 2},
        {"missing": 0.0, "rule": "sec", "row_table": 1},
        {"missing": 0.2, "rule": "l3", "row_table": 0, "n_clusters": 33},
    ],
    ids=str,
)
def test_primitives_survive_any_allocation_that_fails(emulated_cupy, change):
    backend = choose_backend("cupy", None)

    def work():
        kernel_matrix.check_case(backend, CASE | change)

    # without the first, the codes themselves, they would be streamed
    ended = outcomes(emulated_cupy, work, first=2)
    assert {"warned", "clear"} <= set(ended)
    assert not [where for where in ended if "/backends/" in where]


FITS = {
    "kcc": lambda ens, **options: gpc.kcc(ens, 2, "c", refine=False, **options),
    "careful": lambda ens, **options: gpc.kcc(ens, 2, "l3", init="careful", **options),
    "sec": lambda ens, **options: gpc.sec(ens, 2, **options),
    "ipvc": lambda ens, **options: gpc.ipvc(ens, 2, **options),
}


@pytest.mark.parametrize("streamed", [False, True], ids=["resident", "streamed"])
@pytest.mark.parametrize("name", FITS)
def test_a_fit_ends_with_the_same_labels_or_a_clear_error(
    emulated_cupy, monkeypatch, name, streamed
):
    labels, _ = noisy(0, n=30, r=3, missing=0.2)
    options = {"n_init": 1, "max_iter": 2, "random_state": 1}
    ens = gpc.Ensemble(labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gpc.ConvergenceWarning)
        expected = FITS[name](ens, backend="numpy", **options)
    if streamed:
        monkeypatch.setattr(
            "gpu_consensus.backends.cupy.backend.CupyBackend.resident",
            lambda self, codes, reserve=0: StreamedCodes(self.xp, codes),
        )

    def work():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gpc.ConvergenceWarning)
            found = FITS[name](ens, backend="cupy", **options)
        assert np.array_equal(found.labels, expected.labels)
        assert np.array_equal(found.history, expected.history)

    assert set(outcomes(emulated_cupy, work)) <= {"same", "warned", "clear"}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["kcc", "sec"])
def test_any_allocation_may_fail(emulated_cupy, method):
    labels, _ = noisy(0, n=30, r=3, missing=0.2)
    options = {"n_init": 1, "random_state": 1}
    expected = gpc.METHODS[method](labels, 2, backend="numpy", **options)

    def work():
        found = gpc.METHODS[method](labels, 2, backend="cupy", **options)
        assert np.array_equal(found.labels, expected.labels)

    ended = outcomes(emulated_cupy, work, most=10**9)
    assert set(ended) <= {"same", "warned", "clear"}


@pytest.mark.parametrize("how", ["matrix", "counted"])
def test_least_squares_ends_with_the_same_labels_or_a_clear_error(emulated_cupy, how):
    labels, _ = noisy(0, n=9, r=2, missing=0.2)
    expected = gpc.least_squares(labels, backend="numpy")
    assert expected.n_clusters > 1  # the similarities of the rest are picked out
    memory_limit = 1 if how == "counted" else None

    def work():
        found = gpc.least_squares(labels, backend="cupy", memory_limit=memory_limit)
        assert np.array_equal(found.labels, expected.labels)
        assert np.array_equal(found.history, expected.history)

    ended = outcomes(emulated_cupy, work)
    assert set(ended) == {"warned", "clear"}


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("furthest", {}),
        ("hac", {}),
        ("correspondence", {}),
        ("correspondence", {"variant": "svd"}),
        ("best", {}),
        ("fusion_transfer", {}),
        ("em", {"n_init": 1, "tol": 1.0}),
        ("cspa", {}),
    ],
)
def test_other_methods_end_with_the_same_labels_or_a_clear_error(
    emulated_cupy, method, options
):
    labels, _ = noisy(0, n=12, r=3, missing=0.2)
    arguments = () if method in ("best", "fusion_transfer") else (2,)
    options = {"random_state": 0, **options}
    expected = gpc.METHODS[method](labels, *arguments, backend="numpy", **options)

    def work():
        found = gpc.METHODS[method](labels, *arguments, backend="cupy", **options)
        assert np.array_equal(found.labels, expected.labels)

    assert set(outcomes(emulated_cupy, work)) <= {"same", "warned", "clear"}


def test_rounds_end_with_the_same_labels_or_a_clear_error(emulated_cupy):
    X = np.random.default_rng(0).normal(size=(12, 3)) + 4 * (np.arange(12) < 6)[:, None]
    options = {
        "n_clusterers": 3,
        "n_rounds": 0,
        "random_state": 0,
        "method_options": {"n_init": 1},
    }
    expected = gpc.lambda_consensus(X, 2, backend="numpy", **options)

    def work():
        found = gpc.lambda_consensus(X, 2, backend="cupy", **options)
        assert np.array_equal(found.labels, expected.labels)

    assert set(outcomes(emulated_cupy, work)) <= {"same", "warned", "clear"}


def test_waves_of_climbs_are_halved(emulated_cupy):
    codes, n_labels, starts, threshold = kernel_matrix.draw_climbs(1)
    expected = climb_all(codes, n_labels, starts, threshold)
    backend, done = choose_backend("cupy", None), []
    held = backend.resident(codes)
    with (
        # the states of 16 climbs of 40 objects, or of 32; the table is larger
        failing(emulated_cupy, lambda number, nbytes: 2000 < nbytes < 6000),
        pytest.warns(DeviceMemoryWarning) as said,
    ):
        found = climb_all(held, n_labels, starts, threshold, None, done.append)
    assert [str(warning.message).split()[-1] for warning in said] == ["16.", "8."]
    assert done == [8] * 5
    for got, right in zip(found, expected, strict=True):
        assert np.array_equal(got, right)


PAIRWISE = {
    "hac": lambda ens, **options: gpc.hac(ens, 3, **options),
    "furthest": lambda ens, **options: gpc.furthest(ens, 3, **options),
    "fusion_transfer": gpc.fusion_transfer,
    "correspondence": lambda ens, **options: gpc.correspondence(
        ens, 3, random_state=0, **options
    ),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", PAIRWISE)
def test_pairs_of_codes_larger_than_the_device(monkeypatch, name, weighted):
    n, r, memory = (6000, 12, 48_000) if name == "correspondence" else (520, 80, 40_000)
    monkeypatch.setattr(count_by_cluster, "_COUNTS", 1000)
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(n)[:, None] % 3, r, axis=1)
    for new in (rng.integers(3, size=(n, r)), -1):
        labels = np.where(rng.random((n, r)) < 0.1, new, labels)
    ens = gpc.Ensemble(labels, np.arange(r) // (r // 2) + 1 if weighted else None)
    assert ens.codes.nbytes > memory
    expected = PAIRWISE[name](ens, backend="numpy")
    with emulated(DeviceSpec(multiprocessors=2, memory=memory)) as cupy:
        found = PAIRWISE[name](ens, backend="cupy")
        assert cupy.machine.device().peak <= memory
    assert found.backend == "cupy"
    assert np.array_equal(found.labels, expected.labels)
    assert found.objective == expected.objective


def test_tiles_of_pairs_are_halved(emulated_cupy):
    codes = np.random.default_rng(0).integers(3, size=(5, 40), dtype=np.uint8)
    n_labels, rows, columns = np.full(5, 2), np.arange(30), np.arange(3, 40)
    expected = NumpyBackend().pairs(codes, n_labels, rows, columns)
    backend = choose_backend("cupy", None)
    for held in (backend.resident(codes), StreamedCodes(emulated_cupy, codes)):
        with (
            failing(emulated_cupy, lambda number, nbytes: nbytes > 2048),
            pytest.warns(DeviceMemoryWarning) as said,
        ):
            found = backend.pairs(held, n_labels, rows, columns)
        assert "1110 pairs at once; going on with 555" in str(said[0].message)
        assert len(said) == 2  # others of the same size are not tried
        for got, right in zip(found, expected, strict=True):
            assert np.array_equal(got, right)
        with (
            failing(emulated_cupy, lambda number, nbytes: True),
            pytest.warns(DeviceMemoryWarning),
            pytest.raises(DeviceMemoryError, match="a pair of objects; use backend="),
        ):
            backend.pairs(held, n_labels, rows, columns)
        assert backend.pairs(held, n_labels, rows[:0], columns).same.shape == (0, 37)


def test_few_pairs_are_tried_however_full_the_device_seems(emulated_cupy, monkeypatch):
    backend = choose_backend("cupy", None)
    held = backend.resident(np.zeros((2, 60), np.uint8))
    tiles, count = [], device_pairs._tile

    def noted(gpu, resident, n_labels, rows, columns):
        tiles.append((len(rows), len(columns)))
        return count(gpu, resident, n_labels, rows, columns)

    monkeypatch.setattr(device_pairs, "_tile", noted)
    monkeypatch.setattr(backend._gpu, "free_memory", lambda: 0)
    found = backend.pairs(held, np.array([1, 1]), np.arange(60), np.arange(60))
    assert found.same.min() == 2
    assert tiles == [(30, 30)] * 4  # 8 kB each


def test_codes_of_least_squares_that_do_not_fit_are_an_error_before_any_climb(
    monkeypatch,
):
    climbed = []
    monkeypatch.setattr(
        importlib.import_module("gpu_consensus.methods.least_squares"),
        "climb_all",
        lambda *arguments: climbed.append(arguments),
    )
    ens = gpc.Ensemble(noisy(0, n=250, r=60)[0])
    assert ens.codes.nbytes == 15_000
    with (
        emulated(DeviceSpec(multiprocessors=2, memory=14_999)),
        pytest.raises(DeviceMemoryError) as error,
    ):
        gpc.least_squares(ens, 2, backend="cupy")
    assert str(error.value) == (
        "the device has no memory left for the codes of least_squares, 15.0 kB; use "
        "backend='native' or 'numpy', or free memory that others hold."
    )
    assert not climbed


def test_codes_leave_the_climbs_their_room(emulated_cupy, monkeypatch):
    """Codes that fit the device are not held if the climbs beside them do not fit."""
    backend, codes = choose_backend("cupy", None), np.zeros((4, 1000), np.uint8)
    free = backend._gpu.free_memory()
    assert isinstance(backend.resident(codes, free - 3999), StreamedCodes)
    held = backend.resident(codes, free - 4000)
    assert not isinstance(held, StreamedCodes)
    for n in (1, 40, 1000):
        codes = np.zeros((2, n), np.uint8)
        with emulated(DeviceSpec(multiprocessors=2)) as cupy:
            backend = choose_backend("cupy", None)
            device, held = cupy.machine.device(), backend.resident(codes)
            before = device.used
            with monkeypatch.context() as patch:
                patch.setattr(Launcher, "free_memory", lambda gpu: 0)  # one at a time
                climb_all(held, np.full(2, 1), np.arange(min(n, 40)), (0, 1))
            assert device.peak - before <= climb_bytes(n)


@pytest.mark.filterwarnings("ignore:the device has no memory left for:UserWarning")
def test_no_room_for_a_single_climb_says_what_helps(emulated_cupy):
    codes, n_labels, starts, threshold = kernel_matrix.draw_climbs(8)
    backend = choose_backend("cupy", None)
    held = backend.resident(codes)
    said = set()
    for first in range(1, 12):
        with (
            failing(emulated_cupy, lambda number, nbytes, low=first: number >= low),
            pytest.raises(DeviceMemoryError, match="; use backend='native'") as error,
        ):
            climb_all(held, n_labels, starts, threshold)
        said.add(str(error.value).split(";")[0].split("left for ")[1])
    assert said == {"climbs among 12 objects", "one object at a time"}


@pytest.mark.parametrize("memory", [4_000, 40_000, 200_000])
def test_on_devices_of_any_size(memory):
    labels, _ = noisy(9, n=1500, r=20)
    ens = gpc.Ensemble(labels)
    options = {"init": "partition", "n_init": 2, "refine": False, "random_state": 0}
    with (
        emulated(DeviceSpec(multiprocessors=2, memory=memory)),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", DeviceMemoryWarning)
        if memory == 4_000:
            with pytest.raises(DeviceMemoryError, match="lower n_init"):
                gpc.kcc(ens, 4, backend="cupy", **options)
            return
        found = gpc.kcc(ens, 4, backend="cupy", **options)
    expected = gpc.kcc(ens, 4, backend="numpy", **options)
    assert np.array_equal(found.labels, expected.labels)
    assert np.array_equal(found.history, expected.history)


def test_primitives_halve_what_depends_on_the_objects(emulated_cupy):
    """Enough memory for the results, too little for what is needed on the way."""
    rng, ens, before, after = kernel_matrix.draw(CASE | {"n": 2000, "missing": 0.3})
    backend, numpy = choose_backend("cupy", None), NumpyBackend()
    held, offsets, up = backend.resident(ens.codes), ens.offsets, backend.to_device
    table = rng.random((int(offsets[-1]), 2, 4), np.float32)
    weight = rng.integers(9, size=2000)
    share = rng.dirichlet(np.ones(4), size=(2000, 2))
    first = fresh_sums(numpy, ens.codes, offsets, before, 4, weight)
    last = fresh_sums(numpy, ens.codes, offsets, after, 4, weight)
    there = {"table": up(table), "weight": up(weight)}
    # every other entry: to lie side by side they must be copied
    apart = [up(np.repeat(a, 2, axis=1))[:, ::2] for a in (before, after)]
    shares = up(np.repeat(share, 2, axis=0))[::2]

    def count(begin, end, sums, *, weighted):
        sums = [up(array.copy()) for array in sums]
        more = (there["weight"], sums[1]) if weighted else ()
        backend.count(held, offsets, begin, end, sums[0], *more)
        return sums[weighted]

    nothing = [np.zeros_like(sums) for sums in first]
    cases = [
        (lambda: count(None, apart[0], nothing, weighted=False), first[0], 2048),
        (lambda: count(*apart, first, weighted=False), last[0], 2048),
        (lambda: count(None, apart[0], nothing, weighted=True), first[1], 2048),
        (lambda: count(*apart, first, weighted=True), last[1], 2048),
        (
            lambda: backend.soft_count(held, offsets, shares),
            numpy.soft_count(ens.codes, offsets, share),
            100_000,
        ),
        (
            lambda: backend.assign(held, offsets, there["table"]).assignment,
            numpy.assign(ens.codes, offsets, table).assignment,
            9000,
        ),
    ]
    for work, bits, most in cases:
        with (
            failing(emulated_cupy, lambda number, nbytes, high=most: nbytes > high),
            pytest.warns(DeviceMemoryWarning, match="2000 objects .* on with 1000"),
        ):
            found = work()
        assert np.array_equal(found.get(), bits)


def test_ranges_are_halved_until_there_is_room_to_work(emulated_cupy):
    codes = np.random.default_rng(0).integers(9, size=(3, 900), dtype=np.uint8)
    backend = choose_backend("cupy", None)
    for held in (backend.resident(codes), StreamedCodes(emulated_cupy, codes)):
        with (
            failing(emulated_cupy, lambda number, nbytes: nbytes > 8192),
            pytest.warns(DeviceMemoryWarning) as said,
        ):
            # 32 bytes for each object: at most 256 of them
            ranges = [
                (rows, block.get()) for rows, block in backend.blocks(held, 1, None)
            ]
        assert [str(warning.message).split()[-1] for warning in said] == [
            "450.",
            "225.",
        ]
        assert max(rows.stop - rows.start for rows, _ in ranges) == 225
        assert np.array_equal(np.hstack([block for _, block in ranges]), codes)


def test_without_pinned_memory_ordinary_memory_serves(emulated_cupy):
    codes = np.arange(40, dtype=np.uint8).reshape(2, 20)
    streamed = StreamedCodes(emulated_cupy, codes)
    # of five allocations the fourth is the first of pinned memory
    with (
        failing(emulated_cupy, lambda number, nbytes: number == 4),
        pytest.warns(
            DeviceMemoryWarning, match="no pinned memory left for two buffers of 10 B"
        ) as said,
    ):
        blocks = [block.get() for _, block in streamed.blocks(5)]
    assert len(said) == 1
    assert [block.shape[1] for block in blocks] == [5, 5, 5, 5]
    assert np.array_equal(np.hstack(blocks), codes)

    def broken(shape, dtype):
        raise emulated_cupy.cuda.runtime.CUDARuntimeError(719, "launch failure")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cupyx.empty_pinned", broken)
        next(streamed[:1].blocks(5))  # a part knows, and does not ask again
        with pytest.raises(RuntimeError, match="launch failure"):
            next(StreamedCodes(emulated_cupy, codes).blocks(100))


def test_what_cannot_be_halved_says_what_helps(emulated_cupy):
    labels, _ = noisy(1)
    ens = gpc.Ensemble(labels)
    backend = choose_backend("cupy", None)
    held = backend.resident(ens.codes)
    recipe = KccRule(ens, parse_utility("c")[1], ens.weights).recipe
    counts = backend.to_device(np.zeros((int(ens.offsets[-1]), 2, 3), np.int64))
    with failing(emulated_cupy, lambda number, nbytes: True):
        with (
            pytest.warns(DeviceMemoryWarning),
            pytest.raises(DeviceMemoryError, match="one object at a time; use backend"),
        ):
            list(backend.blocks(held, 3, None))
        with pytest.raises(
            DeviceMemoryError,
            match=r"2 tables of \d+ labels x n_clusters=3; lower n_clusters, or use",
        ):
            backend.table(recipe, counts)
        with pytest.raises(DeviceMemoryError, match="an array of 60 B; use backend="):
            backend.to_device(np.zeros(60, np.uint8))
        with (
            pytest.raises(DeviceMemoryError, match="an array of 60 B; do this"),
            memory_for("all", "do this"),
        ):
            backend.to_device(np.zeros(60, np.uint8))
        with pytest.raises(DeviceMemoryError, match="a pair of objects; use backend="):
            backend.pairs(held, ens.n_labels, np.arange(1), np.arange(1))
        with pytest.warns(DeviceMemoryWarning, match="for 720 B of codes; going on"):
            assert isinstance(backend.resident(ens.codes), StreamedCodes)


def test_codes_that_cannot_be_moved_say_what_helps():
    labels, _ = noisy(2, n=3000, r=20)
    ens = gpc.Ensemble(labels)
    with emulated(DeviceSpec(multiprocessors=2, memory=50_000)):
        with pytest.raises(
            DeviceMemoryError,
            match=r"array of 60[.]0 kB; leave the codes on the host.* \(Out",
        ):
            ens.to("cupy")
        found = gpc.vote(ens, backend="cupy")  # which helps
    assert np.array_equal(found.labels, gpc.vote(ens, backend="numpy").labels)


def test_errors_of_our_own_are_not_wrapped_again(emulated_cupy):
    def work(rows):
        with room_for("the first", "do this"):
            raise MemoryError

    with pytest.raises(DeviceMemoryError, match="the first; do this"):
        in_parts(emulated_cupy, work, 10)
    with (
        pytest.raises(DeviceMemoryError, match="the first; do this"),
        room_for("the second", "do that"),
    ):
        work(slice(1))


def test_the_limit_of_the_pool_is_respected(emulated_cupy):
    backend = choose_backend("cupy", None)
    codes = np.zeros((4, 1000), np.uint8)
    emulated_cupy.machine.device().pool_limit = 5000
    assert backend._gpu.free_memory() == 5000
    assert isinstance(backend.resident(codes), StreamedCodes)
