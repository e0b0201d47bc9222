"""The cupy backend of the package, unchanged, on kernels that run on the CPU."""

import functools
import importlib
import sys
import types
from itertools import combinations, product

import cudaemu
import fakecuml
import far_rows
import kernel_matrix
import numpy as np
import pytest
from conftest import emulated
from cudaemu import DeviceSpec, KernelFault, configured, recording
from emulated_devices import BIG, SMALL
from fresh_counts import fresh_sums
from oracles import UTILITIES
from random_ensembles import noisy

import gpu_consensus as gpc
from gpu_consensus.backends import choose_backend, profiling, why_unavailable
from gpu_consensus.backends.cupy import compile as cuda_compile
from gpu_consensus.backends.cupy import source as cuda_source
from gpu_consensus.backends.cupy import streamed_codes
from gpu_consensus.backends.cupy.launch_plan import histogram_groups, plan_assign
from gpu_consensus.backends.cupy.source import (
    OPTIONS,
    all_kernels,
    count_kernel,
    source,
)
from gpu_consensus.backends.cupy.streamed_codes import StreamedCodes
from gpu_consensus.backends.numpy import NumpyBackend
from gpu_consensus.backends.recipe import TableRecipe
from gpu_consensus.loop.code_blocks import CodeBlocks
from gpu_consensus.loop.exact_step import Refining, refine
from gpu_consensus.loop.local_rows import LocalRows
from gpu_consensus.loop.starts import Starts
from gpu_consensus.loop.utilities import parse_utility
from gpu_consensus.methods.kcc import KccRule
from gpu_consensus.methods.mixture import Model

lloyd = importlib.import_module("gpu_consensus.loop.lloyd")
CASES = kernel_matrix.pairwise_cases() + kernel_matrix.WIDE
both_devices = pytest.mark.parametrize(
    "device", [BIG, SMALL], ids=["resident", "tiled"]
)
both_codes = pytest.mark.parametrize("code", ["u8", "u16"])


def test_every_two_values_of_the_matrix_meet():
    assert len(CASES) <= 400
    for (a, first), (b, second) in combinations(kernel_matrix.FACTORS.items(), 2):
        found = {(case[a], case[b]) for case in CASES}
        absent = set(product(first, second)) - found
        too_large = {("u8", 256), ("u8", 300)}  # labels beyond a byte
        assert absent == (too_large if (a, b) == ("code", "n_labels") else set())


@pytest.mark.parametrize("part", range(5))
@both_devices
def test_every_primitive_equals_numpy_bit_for_bit(device, part):
    with emulated(device):
        backend = choose_backend("cupy", None)
        for number, case in list(enumerate(CASES))[part::5]:
            with configured(order=case["order"], seed=number):
                kernel_matrix.check_case(backend, case)


def checked(cases_of):
    """Run cases and climbs in check mode on both devices; say how much that was."""
    n_cases, launches = 0, 0
    with configured(mode="check"), kernel_matrix.noting_forms() as forms:
        for device in (BIG, SMALL):
            cases = cases_of(device.shared_memory_optin)
            with emulated(device), recording() as reports:
                kernel_matrix.check_all(choose_backend("cupy", None), cases)
            assert not any(report.bugs for report in reports)
            assert {report.mode for report in reports} == {"check"}
            n_cases, launches = n_cases + len(cases), launches + len(reports)
    assert forms == set(all_kernels())
    return (
        f"check mode: {n_cases} cases, {launches} launches of {len(forms)} forms, "
        "0 races, 0 out of bounds"
    )


def test_every_form_runs_without_a_race_or_an_access_out_of_bounds():
    """Every form of the compile gate runs, and equals numpy, in check mode too."""
    checked(lambda limit: kernel_matrix.few_cases(CASES, limit))


@pytest.mark.slow
def test_the_whole_matrix_in_check_mode(capsys):
    found = checked(lambda limit: CASES)
    with capsys.disabled():
        sys.stdout.write(f"\n{found}\n")


def run_asan(cases, timeout):
    cudaemu.require_compiler()
    done = cudaemu.run_asan(kernel_matrix.__file__, cases, timeout=timeout)
    assert done.returncode == 0, done.stdout
    assert f"all equal; {len(all_kernels())} of" in done.stdout
    return done.stdout


def test_every_form_is_clean_in_asan_mode():
    run_asan("few", 300)


@pytest.mark.slow
def test_the_whole_matrix_in_asan_mode(capsys):
    found = run_asan("all", 1800)
    with capsys.disabled():
        sys.stdout.write(f"\nasan mode: {found}")


@pytest.mark.parametrize("utility", UTILITIES)
@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_kcc_gives_equal_labels_end_to_end(device, utility, missing):
    labels, _ = noisy(3, n=150, r=10, missing=missing)
    options = {"utility": utility, "n_init": 3, "random_state": 1}
    on_device = gpc.kcc(labels, 4, backend="cupy", **options)
    on_host = gpc.kcc(labels, 4, backend="numpy", **options)
    assert on_device.backend == "cupy"
    assert np.array_equal(on_device.labels, on_host.labels)
    assert np.array_equal(on_device.history, on_host.history)
    assert on_device.value == on_host.value


def refined(name, ens, utility, n_clusters, memory_limit=None):
    """Take exact steps from random assignments; return labels, objectives, history."""
    backend = choose_backend(name, None)
    rule = KccRule(ens, parse_utility(utility)[1], ens.weights)
    skip = np.flatnonzero((ens.codes == ens.n_labels[:, None]).all(axis=0))
    blocks = CodeBlocks(backend, ens.codes, ens.offsets, memory_limit)
    rows = LocalRows(blocks, n_clusters, skip)
    rng, restarts = np.random.default_rng(0), [0, 1, 2]
    first = rng.integers(n_clusters, size=(3, ens.n_samples))
    first[:, skip] = n_clusters
    rows.start(first.astype(np.min_scalar_type(n_clusters)))
    starts = Starts.fresh(3)
    tally = rows.take(restarts)
    starts.objective[:] = rule.objective(tally.counts, tally.absent)
    refine(rows, backend, rule, starts, Refining(restarts, 60))
    return [rows.labels(q) for q in restarts], starts.objective, starts.history


@pytest.mark.parametrize("utility", ["c", "h", "cos", "l5"])
@pytest.mark.parametrize("memory_limit", [None, 32 * 3 * 50])
@both_devices
def test_the_exact_step_gives_equal_labels(device, memory_limit, utility):
    labels, _ = noisy(4, n=220, r=9, missing=0.3)
    labels[[7, 100]] = -1
    ens = gpc.Ensemble(labels)
    for n_clusters in (3, 17):  # some of whose columns are in another launch
        given = (ens, utility, n_clusters, memory_limit)
        with emulated(device):
            found = refined("cupy", *given)
        expected = refined("numpy", *given)
        assert np.array_equal(found[0], expected[0])
        assert np.array_equal(found[1], expected[1])
        assert found[2] == expected[2]
        assert all(len(steps) > 1 for steps in found[2])


@pytest.mark.parametrize("init", ["partition", "random", "careful", "labels"])
def test_every_start_and_kept_gaps_too(device, init):
    labels, _ = noisy(5, n=90, r=6, missing=0.3)
    labels[[4, 50]] = -1
    if init == "labels":
        init = np.arange(90) % 5
        init[[4, 50]] = -1
    results = [
        gpc.kcc(
            labels, 5, init=init, on_unlabelled="keep", backend=name, random_state=2
        )
        for name in ("cupy", "numpy")
    ]
    assert np.array_equal(results[0].labels, results[1].labels)
    assert results[0].labels[4] == -1
    assert np.array_equal(results[0].confidence, results[1].confidence)


def test_a_utility_of_ones_own_makes_its_table_on_the_host(device):
    labels, _ = noisy(6)
    cubic = gpc.Utility(lambda m: (m**3).sum(-1), lambda m: 3 * m**2)
    on_device, on_host = (
        gpc.kcc(labels, 3, cubic, backend=name, random_state=0)
        for name in ("cupy", "numpy")
    )
    assert np.array_equal(on_device.labels, on_host.labels)


def test_labels_come_back_where_the_codes_are(device):
    labels, _ = noisy(7)
    ens = gpc.Ensemble(labels)
    there = ens.to("cupy")
    assert isinstance(there.codes, device.xp.ndarray)
    result = gpc.kcc(there, 3, random_state=0)
    assert result.backend == "cupy"
    assert isinstance(result.labels, device.xp.ndarray)
    expected = gpc.kcc(ens, 3, backend="numpy", random_state=0)
    assert np.array_equal(result.labels.get(), expected.labels)
    assert np.array_equal(result.confidence, expected.confidence)
    assert np.array_equal(there.to("numpy").codes, ens.codes)


FITS = {
    **{
        name: functools.partial(gpc.kcc, utility=name, refine=False)
        for name in ("c", "h", "l5", "cos")
    },
    "sec": gpc.sec,
    "sec with gaps": gpc.sec,
    "ivc": gpc.ivc,
    "ipvc": gpc.ipvc,
}


def test_one_copy_comes_back_in_an_iteration_of_em(emulated_cupy, monkeypatch):
    """Soft counts and likelihoods together; parameters go over together."""
    labels = np.random.default_rng(0).integers(4, size=(400, 12))
    ens, copies, seen = gpc.Ensemble(labels), emulated_cupy.machine.copies, []
    expect = Model.expect

    def watched(model, mixture):
        copies.clear()
        found = expect(model, mixture)
        seen.append((len(mixture.alpha), list(copies)))
        return found

    monkeypatch.setattr(Model, "expect", watched)
    options = {"random_state": 0, "max_iter": 6, "memory_limit": 32 * 8 * 100}
    with pytest.warns(gpc.ConvergenceWarning):
        gpc.em(ens, 4, backend="cupy", n_init=2, **options)
    assert len(seen) > 2
    for n_active, made in seen[1:]:
        rows, number = int(ens.offsets[-1]), 8 * n_active
        up, down = 4 * (rows + 1) * number, (4 * rows + 2) * number
        assert made == [("up", up), ("down", down)]


def copies_by_iteration(cupy, monkeypatch, fit):
    """Return the copies of each iteration, and those before the first."""
    copies, iterations = cupy.machine.copies, []
    make_tables, judge, before = lloyd.tables_of, lloyd._judge, []

    def first(*arguments):
        before.extend(copies)
        copies.clear()
        return make_tables(*arguments)

    def last(rows, rule, starts, active, *arguments):
        judge(rows, rule, starts, active, *arguments)
        iterations.append((len(active), list(copies)))
        copies.clear()

    monkeypatch.setattr(lloyd, "tables_of", first)
    monkeypatch.setattr(lloyd, "_judge", last)
    copies.clear()
    fit()
    return iterations, before


@pytest.mark.parametrize("n_init", [1, 10])
@pytest.mark.parametrize("name", FITS)
def test_one_copy_comes_back_in_an_iteration(emulated_cupy, monkeypatch, name, n_init):
    """Moved objects, counts and hashes together; constants go over only once."""
    labels = np.random.default_rng(n_init).integers(4, size=(400, 12))
    if name == "sec with gaps":
        labels[::3, ::2] = -1
        labels[[5, 300]] = -1  # these stay without a cluster
    ens = gpc.Ensemble(labels)
    options = {"n_init": n_init, "init": "random", "on_unlabelled": "keep"}
    iterations, before = copies_by_iteration(
        emulated_cupy,
        monkeypatch,
        lambda: FITS[name](ens, 4, backend="cupy", random_state=3, **options),
    )
    assert sum(size for way, size in before if way == "up") >= ens.codes.nbytes
    assert len(iterations) > 2
    for n_active, copies in iterations[1:]:
        sums = 8 * n_active * 4  # of one partition, or of one label
        numbers = 16 if name == "ipvc" else 8  # objects moved, and a hash
        down = [size for way, size in copies if way == "down"]
        up = [size for way, size in copies if way == "up"]
        rows = int(ens.offsets[-1])
        if name == "sec with gaps":
            rows += 12  # also the weights of absent objects
        assert down == [rows * sums + numbers * n_active]
        # norms that only the host can make to the bit
        assert up == ([12 * sums] if name == "l5" else [])


def test_constants_are_known_by_their_contents(emulated_cupy):
    gpu, copies = choose_backend("cupy", None)._gpu, emulated_cupy.machine.copies
    numbers = np.arange(4)
    first = gpu.constant(numbers)
    copies.clear()
    assert gpu.constant(numbers.copy()) is first
    assert not copies
    for other in (numbers.astype(np.int32), numbers.reshape(2, 2), numbers + 1):
        assert np.array_equal(gpu.constant(other).get(), other)
    numbers[0] = 9  # whoever changes it gets another
    assert gpu.constant(numbers).get().tolist() == [9, 1, 2, 3]
    assert gpu.constant(np.arange(4)) is first
    for k in range(100, 163):
        gpu.constant(np.array([k]))
    assert gpu.constant(np.arange(4)) is first  # used last of those before
    copies.clear()
    gpu.constant(numbers)
    assert copies == [("up", 32)]


def test_several_arrays_come_back_in_one_copy(emulated_cupy):
    backend, copies = choose_backend("cupy", None), emulated_cupy.machine.copies
    given = [
        np.arange(3),
        np.arange(24).reshape(2, 3, 4) - 5,
        np.array([2**64 - 1], np.uint64),
    ]
    there = [backend.to_device(array) for array in given]
    copies.clear()
    found = backend.to_host(*there)
    assert copies == [("down", 8 * 28)]
    device = emulated_cupy.machine.device()
    device.fails = lambda number, nbytes: True
    alone = backend.to_host(*there)
    for arrays in (found, alone):
        for got, right in zip(arrays, given, strict=True):
            assert got.dtype == right.dtype
            assert np.array_equal(got, right)
            assert got.flags.writeable


def test_large_arrays_leave_no_pinned_memory_behind(emulated_cupy, monkeypatch):
    """CuPy keeps as much as an array takes that goes through ``asarray``."""
    monkeypatch.setattr("gpu_consensus.backends.cupy.backend.LARGE", 1024)
    labels, _ = noisy(3, n=1500, r=4)
    result = gpc.kcc(
        gpc.Ensemble(labels), 3, n_init=2, refine=False, backend="cupy", random_state=0
    )
    assert result.backend == "cupy"
    assert emulated_cupy.machine.staged <= 1024
    gpc.Ensemble(labels).to("cupy")
    assert emulated_cupy.machine.staged <= 1024
    backend = choose_backend("cupy", None)
    strange = np.arange(1200).reshape(30, 40)[::2, ::-1]
    assert np.array_equal(backend.to_device(strange).get(), strange)
    with fakecuml.installed(emulated_cupy):
        X = np.asfortranarray(np.random.default_rng(0).normal(size=(300, 4)))
        gpc.generate_partitions(X, 2, n_clusters=2, backend="cupy", random_state=0)
    assert emulated_cupy.machine.staged < X.nbytes


def test_codes_larger_than_the_device_are_streamed():
    labels, _ = noisy(9, n=3000, r=20)
    ens = gpc.Ensemble(labels)
    options = {"init": "partition", "n_init": 2, "refine": False, "random_state": 0}
    expected = gpc.kcc(ens, 4, "c", backend="numpy", **options)
    tiny = DeviceSpec(multiprocessors=2, memory=80_000)
    assert ens.codes.nbytes > 0.6 * tiny.memory
    with emulated(tiny):
        backend = choose_backend("cupy", None)
        assert isinstance(backend.resident(ens.codes), StreamedCodes)
        result = gpc.kcc(ens, 4, "c", backend="cupy", **options)
    assert np.array_equal(result.labels, expected.labels)
    assert np.array_equal(result.history, expected.history)


def test_codes_need_not_lie_side_by_side(device):
    rng, ens, _, after = kernel_matrix.draw(CASES[0] | {"n": 200, "n_clusters": 3})
    offsets, codes = ens.offsets, ens.codes[:, ::2]
    table = rng.random((int(offsets[-1]), len(after), 3), dtype=np.float32)
    held = device.to_device(ens.codes)[:, ::2]
    found = device.assign(held, offsets, device.to_device(table)).assignment
    expected = NumpyBackend().assign(codes, offsets, table).assignment
    assert np.array_equal(device.to_host(found), expected)


def test_no_objects_are_no_work(device):
    """CuPy makes one block of an empty grid; the backend must not launch it."""
    codes = device.xp.zeros((2, 5), np.uint8)[:, :0]
    offsets, up = np.array([0, 3, 6]), device.to_device
    nobody = device.xp.zeros((1, 0), np.uint8)
    weight = up(np.zeros(0, np.int64))
    for sums in fresh_sums(device, codes, offsets, nobody, 2, weight):
        assert device.to_host(sums).sum() == 0
    table = up(np.ones((6, 1, 2), np.float32))
    assert device.assign(codes, offsets, table, best=True).best.shape == (1, 0)
    assert device.scores(codes, offsets, table.astype(float)).shape == (0, 1, 2)
    shares = up(np.ones((0, 1, 2)))
    assert device.to_host(device.soft_count(codes, offsets, shares)).sum() == 0
    held, none = up(np.zeros((2, 5), np.uint8)), np.arange(0)
    for rows, columns in ((none, np.arange(3)), (np.arange(3), none), (none, none)):
        found = device.pairs(held, np.array([2, 2]), rows, columns)
        assert found.same.shape == (len(rows), len(columns))


def test_streamed_blocks_are_the_codes(device):
    codes = np.random.default_rng(0).integers(9, size=(3, 101), dtype=np.uint8)
    for step in (1, 10, 50, 101, 500):
        seen = np.empty_like(codes)
        for rows, block in StreamedCodes(device.xp, codes).blocks(step):
            seen[:, rows] = block.get()
        assert np.array_equal(seen, codes)


@pytest.mark.parametrize(("n_rows", "pinned"), [(None, 4096), (30, 1024)])
def test_pinned_buffers_stay_small_on_a_large_device(monkeypatch, n_rows, pinned):
    monkeypatch.setattr(streamed_codes, "MOST_PINNED", 4096)
    codes = np.random.default_rng(0).integers(9, size=(30, 500), dtype=np.uint8)
    limit = n_rows and n_rows * (32 + 2 * 30)  # a smaller one decides
    with emulated(DeviceSpec(multiprocessors=2, memory=80 << 30)) as cupy:
        blocks = choose_backend("cupy", None).blocks(
            StreamedCodes(cupy, codes), 1, limit
        )
        found = [block.get() for _, block in blocks]
        assert cupy.machine.pinned == [pinned] * 2
    assert np.array_equal(np.hstack(found), codes)


def test_a_large_device_asks_for_two_buffers_of_256_mib(monkeypatch):
    """One of 80 GB, and 10**9 objects in 100 partitions; CuPy rounds up from there."""

    class AskedError(Exception):
        pass

    def asked(self, n_rows, scratch):
        raise AskedError(n_rows * len(self.host) * self.host.itemsize)

    monkeypatch.setattr(StreamedCodes, "_buffers", asked)
    codes = np.broadcast_to(np.uint8(0), (100, 10**9))
    with emulated(DeviceSpec(memory=80 << 30)):
        backend = choose_backend("cupy", None)
        blocks = backend.blocks(backend.resident(codes), 10, None)
        with pytest.raises(AskedError) as error:
            next(blocks)
    (nbytes,) = error.value.args
    # ranges begin at multiples of 16 objects
    assert (256 << 20) - 1600 < nbytes <= 256 << 20


@both_codes
@both_devices
@pytest.mark.parametrize("n_clusters", [3, 20])
def test_rows_beyond_32_bits(tmp_path, device, code, n_clusters):
    """Every form of ``assign``, and all other kernels over rows: partition 2 begins
    beyond 2^32 codes."""
    with emulated(device):
        far_rows.check_rows(choose_backend("cupy", None), tmp_path, code, n_clusters)


@both_codes
def test_pairs_and_climbs_beyond_32_bits(emulated_cupy, tmp_path, code):
    backend = choose_backend("cupy", None)
    far_rows.check_pairs(backend, tmp_path, code)
    far_rows.check_climbs(backend, tmp_path, code)


def test_plans_fit_every_device_and_every_size():
    for limit in (20 << 10, 64 << 10, 99 << 10, 163 << 10, 227 << 10):
        for sizes in ([3], [10] * 100, [300] * 5, [65535, 2, 65535], [1000, 1, 1]):
            offsets = np.concatenate([[0], np.cumsum(np.array(sizes) + 1)])
            for n_restarts, k in ((1, 1), (10, 10), (1, 40), (7, 17), (3, 130)):
                plan = plan_assign(
                    offsets, n_restarts, k, shared_limit=limit, row_table=0, code="u8"
                )
                assert plan.shared <= limit
                # the pieces are the table, row by row
                ends = plan.pieces[:, 2] + plan.pieces[:, 3]
                assert plan.pieces[0, 2] == 0
                assert np.array_equal(ends[:-1], plan.pieces[1:, 2])
                assert ends[-1] == offsets[-1]
                # quads tell where labels begin
                for begin, end, first, _, quad in plan.pieces.tolist():
                    lines = plan.lines[4 * quad : 4 * quad + end - begin]
                    assert np.array_equal(lines, offsets[begin:end] - first)
                # the tiles are the columns, and none is too wide; only the last is
                # narrow, and restarts that go on are in one chain
                begins = np.arange(plan.n_tiles) * plan.step
                widths = np.diff([*begins, n_restarts * k])
                assert widths.min() > 0
                assert widths.max() <= dict(plan.kernel.defines)["CHUNKS"] * 4
                assert (widths[:-1] > 16).all()
                chained = np.arange(plan.n_tiles) % plan.tiles_of_chain > 0
                assert np.array_equal(begins % k > 0, chained)
                padded = np.where(widths > 16, 32, 16).sum()
                assert plan.floats == offsets[-1] * padded
            groups, bins = histogram_groups(offsets, 10, limit // 4)
            assert groups[0] == 0
            assert groups[-1] == len(sizes)
            assert (np.diff(groups) >= 1).all()
            assert (np.diff(groups) <= 4).all()
            assert 4 * bins <= limit


def test_no_cupy_no_device_and_an_old_device_say_so():
    with cudaemu.installed(None):
        with pytest.raises(
            RuntimeError, match="CuPy is not installed; run pip install"
        ):
            choose_backend("cupy", None)
        assert choose_backend("auto", None).name == "native"
    with cudaemu.installed(cudaemu.make_cupy(())):
        with pytest.raises(RuntimeError, match="there is no NVIDIA driver"):
            choose_backend("cupy", None)
        assert choose_backend("auto", None).name == "native"
    old = DeviceSpec(compute_capability=(6, 1))
    with cudaemu.installed(cudaemu.make_cupy((old,))):
        with pytest.raises(
            RuntimeError, match=r"compute capability 6.1 but at least 7.0"
        ):
            choose_backend("cupy", None)
        assert choose_backend("auto", None).name == "native"
    volta = cudaemu.make_cupy((DeviceSpec(compute_capability=(7, 0)),))
    with cudaemu.installed(volta):
        assert why_unavailable("cupy") == ""
        volta.cuda.runtime.runtimeGetVersion = lambda: 13_000
        volta.machine.driver = 13_000
        with pytest.raises(RuntimeError, match=r"7.0 but CUDA 13 needs .*\[cuda12\]"):
            choose_backend("cupy", None)
    with cudaemu.installed(cudaemu.make_cupy()) as cupy:
        assert why_unavailable("cupy") == ""
        cupy.cuda.is_available = lambda: False
        with pytest.raises(RuntimeError, match="finds no usable CUDA device; check"):
            choose_backend("cupy", None)


def test_numpy_codes_in_the_wrong_place_are_refused(device):
    here = np.zeros((1, 3), np.uint8)
    with pytest.raises(TypeError, match="was given NumPy codes; move them with"):
        device.count(here, np.array([0, 2]), None, here, np.zeros((2, 1, 1), np.int64))


def test_arrays_in_two_places_are_refused_by_name(device):
    """CuPy would hand the bytes of a NumPy array to the kernel as an address."""
    up = device.to_device
    held, offsets = up(np.zeros((1, 3), np.uint8)), np.array([0, 2])
    here = np.zeros((1, 3), np.uint8)
    table, shares = np.zeros((2, 1, 2), np.float32), np.zeros((3, 1, 2))
    weight, counts = np.zeros(3, np.float32), np.zeros((2, 1, 2), np.int64)
    whole = np.zeros(3, np.int64)
    calls = {
        "before": lambda: device.count(held, offsets, here, up(here), up(counts)),
        "after": lambda: device.count(held, offsets, None, here, up(counts)),
        "out": lambda: device.count(held, offsets, up(here), up(here), counts),
        "weight": lambda: device.count(
            held, offsets, None, up(here), up(counts), whole, up(counts[:1])
        ),
        "absent": lambda: device.count(
            held, offsets, None, up(here), up(counts), up(whole), counts[:1]
        ),
        "table": lambda: device.assign(held, offsets, table),
        "row_weight": lambda: device.assign(
            held, offsets, up(table), row_weight=weight, row_table=up(table)
        ),
        "row_table": lambda: device.assign(
            held, offsets, up(table), row_weight=up(weight), row_table=table
        ),
        "responsibilities": lambda: device.soft_count(held, offsets, shares),
    }
    for name, call in calls.items():
        with pytest.raises(TypeError, match=f"^{name} is on the host but the codes"):
            call()
    with pytest.raises(TypeError, match=r"^table is on the host"):
        device.scores(held, offsets, shares[:2])
    recipe = TableRecipe("C", offsets, np.array([3, 0]), np.ones(1))
    with pytest.raises(TypeError, match=r"^counts is on the host"):
        device.table(recipe, counts)


def test_small_arguments_may_be_in_either_place(device):
    labels, truth = noisy(7)
    ens, up = gpc.Ensemble(labels), device.to_device
    whole = gpc.Ensemble.from_codes(
        up(np.array(ens.codes)),
        up(ens.n_labels),
        up(np.ones(12)),
        marginals=up(np.array(ens.marginals)),
        categories=[up(np.arange(k_i)) for k_i in ens.n_labels],
    )
    vectors = gpc.Ensemble.from_partitions([up(labels[:, 0]), *labels.T[1:]])
    options = {"random_state": 0, "backend": "cupy"}
    expected = gpc.kcc(ens, 3, weights=np.ones(12), init=labels[:, 0] % 3, **options)
    for given in (ens, whole, vectors):
        found = gpc.kcc(
            given, 3, weights=up(np.ones(12)), init=up(labels[:, 0] % 3), **options
        )
        assert np.array_equal(device.to_host(found.labels), expected.labels)
    assert np.array_equal(whole.encode(up(labels)), ens.encode(labels))
    for name in ("adjusted_rand", "nmi", "purity", "van_dongen"):
        metric = getattr(gpc.metrics, name)
        assert metric(up(truth), expected.labels) == metric(truth, expected.labels)


def test_codes_on_another_device_are_refused_until_they_are_brought():
    with emulated(BIG, BIG) as cupy:
        ens = gpc.Ensemble(noisy(0)[0])
        with cupy.cuda.Device(1):
            there = ens.to("cupy")
        with pytest.raises(
            ValueError, match="codes are on CUDA device 1 but the current"
        ):
            gpc.kcc(there, 3, random_state=0)
        with cupy.cuda.Device(1):
            assert gpc.kcc(there, 3, random_state=0).backend == "cupy"
            assert there.to("cupy") is there
        here = there.to("cupy")
        assert here.codes.device.id == 0
        assert there.codes.device.id == 1
        assert np.array_equal(here.codes.get(), ens.codes)
        assert gpc.kcc(here, 3, random_state=0).labels.device.id == 0


def test_a_kernel_that_does_not_compile_shows_its_log(emulated_cupy, monkeypatch):
    monkeypatch.setattr(cuda_compile, "source", lambda name: "int no_such_cuda = f();")
    with pytest.raises(RuntimeError) as failed:
        gpc.kcc(noisy(0)[0], 3, backend="cupy")
    message = str(failed.value)
    kernel = count_kernel("u8", "u8")
    assert message.startswith(f"the CUDA kernel {kernel} failed to compile")
    assert f"with options {' '.join(OPTIONS)};" in message
    assert "--fmad=false" in OPTIONS
    assert "CODE=u8" in message
    assert "run gpu-consensus doctor" in message
    log = message.partition("this log: ")[2]
    assert "kernel.cu" in log  # the compiler's own words
    assert "no_such_cuda" in log
    # and the doctor itself tells of it instead of failing
    report = gpc.doctor()
    assert not report.healthy
    assert "no_such_cuda" in report.self_test["cupy"]


def test_without_nvrtc_the_message_says_what_to_install(emulated_cupy, monkeypatch):
    """CuPy 13 raises RuntimeError; CuPy 14 a class of cuda-pathfinder below it."""

    class DynamicLibNotFoundError(RuntimeError):
        pass

    reason = "CuPy failed to load libnvrtc.so.12: OSError: cannot open shared object"
    for kind in (RuntimeError, DynamicLibNotFoundError):

        def missing(*_, kind=kind):
            raise kind(reason)

        monkeypatch.setattr(emulated_cupy.RawModule, "get_function", missing)
        monkeypatch.setattr(emulated_cupy.cuda.nvrtc, "getVersion", missing)
        with pytest.raises(RuntimeError) as failed:
            gpc.kcc(noisy(0)[0], 3, backend="cupy")
        message = str(failed.value)
        kernel = count_kernel("u8", "u8")
        assert f"cannot make the CUDA kernel {kernel} with options" in message
        assert "run pip install 'gpu-consensus[cuda12]'" in message
        assert "gpu-consensus doctor" in message
        assert message.endswith(reason)
    report = gpc.doctor()
    assert reason in report.cuda["nvrtc"]
    assert reason in report.self_test["cupy"]


def test_the_doctor_finds_a_wrong_kernel(emulated_cupy, monkeypatch):
    healthy = gpc.doctor()
    assert healthy.self_test["cupy"] == ""
    assert healthy.healthy
    assert healthy.auto.startswith("cupy for large work")
    assert "Emulated A100" in str(healthy)
    assert set(healthy.cuda) == {"driver", "runtime", "nvrtc"}
    monkeypatch.setattr(
        cuda_compile,
        "source",
        lambda name: source(name).replace("score < low.best", "score <= low.best"),
    )
    cuda_compile.compiled.cache_clear()
    sick = gpc.doctor()
    assert not sick.healthy
    assert "of assign (ties, row table 0) differs in" in sick.self_test["cupy"]
    assert "WRONG RESULTS, do not use it" in str(sick)


@pytest.fixture
def ranges(monkeypatch):
    """What a profiler would show: each range, with those that it lies in."""
    seen, around = set(), []

    class Range:
        def __init__(self, name):
            self.name = name.removeprefix("gpu_consensus.")

        def __enter__(self):
            around.append(self.name)
            seen.add("/".join(around))

        def __exit__(self, *_):
            assert around.pop() == self.name

    fake = types.ModuleType("nvtx")
    fake.annotate = Range
    monkeypatch.setitem(sys.modules, "nvtx", fake)
    profiling._nvtx.cache_clear()
    yield seen
    profiling._nvtx.cache_clear()
    assert not around


def test_stages_have_names_for_the_profiler(emulated_cupy, ranges):
    gpc.kcc(noisy(0)[0], 3, backend="cupy", random_state=0, init="careful")
    assert {
        "upload",
        "seeding/assign",
        "iteration/table",
        "iteration/assign",
        "iteration/count",
        "refine",
    } <= ranges


def test_streams_and_generation_have_names_too(ranges):
    with emulated(DeviceSpec(multiprocessors=2, memory=80_000)):
        labels, _ = noisy(9, n=3000, r=20)
        options = {"init": "partition", "n_init": 1, "refine": False}
        gpc.kcc(labels, 4, "c", backend="cupy", random_state=0, **options)
        assert "iteration/stream" in ranges
    with emulated() as cupy, fakecuml.installed(cupy):
        X = np.random.default_rng(0).normal(size=(30, 2))
        ranges.clear()
        gpc.generate_partitions(X, 2, n_clusters=2, backend="cupy", random_state=0)
    assert ranges == {"upload", "generation"}


def test_no_profiler_is_loaded_without_a_device(monkeypatch):
    monkeypatch.setitem(sys.modules, "nvtx", None)  # would raise ModuleNotFoundError
    profiling._nvtx.cache_clear()
    gpc.kcc(noisy(0)[0], 3, backend="numpy", random_state=0)
    assert not profiling._nvtx.cache_info().currsize


def test_wrong_arguments_would_not_pass_the_emulator(emulated_cupy):
    """The stand-in is stricter than CuPy: a wrong scalar type is an error."""
    module = emulated_cupy.RawModule(
        code='extern "C" __global__ void f(int n, float* x) { x[0] = n; }'
    )
    x = emulated_cupy.empty(1, np.float32)
    with pytest.raises(TypeError, match="wants i4"):
        module.get_function("f")((1,), (1,), (np.int64(1), x))
    with pytest.raises(KernelFault):
        emulated_cupy.RawModule(
            code='extern "C" __global__ void f(float* x) { x[-1000] = 1; }'
        ).get_function("f")((1,), (1,), (x,))


def test_missing_kernels_say_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(cuda_source, "__file__", str(tmp_path / "a" / "b" / "c.py"))
    with pytest.raises(FileNotFoundError, match=r"kernels are missing .* install"):
        cuda_source.kernel_folder()


def test_kernel_texts_include_nothing():
    """NVRTC has no headers, and CuPy's cache would not see what is included."""
    for kernel in all_kernels():
        assert "#include" not in source(kernel.file)
        assert f" {kernel.name}(" in source(kernel.file)
