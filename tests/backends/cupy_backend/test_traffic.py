"""What ``assign`` reads, counted from the addresses of its real text in check mode."""

import cudaemu
import numpy as np
import pytest
import traffic
from conftest import emulated
from readme_tables import stored
from traffic import RESIDENT, TILED, Shape, measure

from gpu_consensus.backends import choose_backend
from gpu_consensus.backends.cupy import compile as cuda_compile
from gpu_consensus.backends.cupy.source import all_kernels, source


@pytest.fixture(scope="module")
def measured():
    cudaemu.require_compiler()
    return traffic.measure_all()


def test_every_form_is_measured(measured):
    forms = {shape.plan.kernel for shape in measured}
    assert forms == {kernel for kernel in all_kernels() if kernel.name == "assign"}
    both = {(shape.row_table, shape.resident) for shape in measured}
    assert len(both) == 6


def test_the_inner_loop_has_no_bank_conflicts(measured):
    for shape, found in measured.items():
        assert found.wavefronts <= 1.1, shape


def test_traffic_is_ideal_or_there_is_a_reason(measured):
    for shape, found in measured.items():
        shared, labels, reasons = traffic.expected(shape)
        assert found.shared_bytes == pytest.approx(shared), shape
        assert found.shared_loads == pytest.approx(shared / 16), shape
        assert found.label_bytes == pytest.approx(labels), shape
        ideal = shared == 4 and labels == (1 if shape.code == "u8" else 2)
        assert ideal == (reasons == ""), shape


# per (row, partition, cluster), and per (row, partition)
@pytest.mark.parametrize(
    ("shape", "shared", "labels"),
    [
        (Shape("u8", 1, 32, 0, RESIDENT), 4, 1),
        (Shape("u16", 1, 16, 0, TILED), 4, 2),
        (Shape("u8", 1, 10, 0, RESIDENT), 6.4, 1),
        (Shape("u8", 1, 32, 2, RESIDENT), 8, 1),
        (Shape("u8", 10, 10, 0, RESIDENT), 4.48, 4),
        (Shape("u8", 1, 100, 0, TILED), 4.48, 4),
        (Shape("u8", 1, 32, 0, TILED, filled=2 / 3), 6, 1.5),
        (Shape("u8", 1, 32, 0, TILED, n_labels=255), 8, 2),
    ],
)
def test_numbers_found_by_hand(measured, shape, shared, labels):
    assert measured[shape].shared_bytes == pytest.approx(shared)
    assert measured[shape].label_bytes == pytest.approx(labels)


def test_the_table_of_the_readme_is_fresh(measured):
    advice = f"cuda_kernels/README.md is stale; run: {traffic.COMMAND}"
    assert stored(traffic.SECTION) == traffic.render(measured), advice


@pytest.mark.parametrize(("first", "wide"), [(0, True), (1, False)])
def test_count_reads_labels_once_and_four_by_one_load(first, wide):
    """Whatever the alignment; with it, four bytes at a time, all before the atomics."""
    cudaemu.require_compiler()
    r, n, n_restarts, k = 4, 2048, 2, 3
    offsets = np.arange(r + 1) * 8
    rng = np.random.default_rng(0)
    codes = rng.integers(8, size=(r, n + first), dtype=np.uint8)
    with (
        emulated(cudaemu.DeviceSpec(multiprocessors=1)),
        cudaemu.configured(mode="check"),
        cudaemu.recording() as reports,
    ):
        backend = choose_backend("cupy", None)
        held = backend.resident(codes)[:, first:]
        after = backend.to_device(rng.integers(k, size=(n_restarts, n), dtype=np.uint8))
        counts = backend.xp.zeros((int(offsets[-1]), n_restarts, k), np.int64)
        backend.count(held, offsets, None, after, counts)
    (report,) = reports
    bytewise = report.total(space="global", operation="load", width=1)["accesses"]
    assert bytewise == (0 if wide else n * r * n_restarts)


def test_without_the_swizzle_lanes_wait_for_each_other(monkeypatch):
    cudaemu.require_compiler()
    text = source("assign")
    plain = text.replace("(copy * N + turn) * 16", "copy * N * 16").replace(
        "order<N>(score[0][j]);", ""
    )
    assert plain.count("turn") < text.count("turn")
    monkeypatch.setattr(
        cuda_compile, "source", lambda name: plain if name == "assign" else source(name)
    )
    assert measure(Shape("u8", 1, 32, 0, RESIDENT)).wavefronts > 5
