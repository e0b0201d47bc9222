"""The acceptance run for the first machine with a CUDA device.

``GPU_CONSENSUS_REQUIRE_GPU=1 python -m pytest -m gpu -n 0`` runs what the emulator
runs, on the device, and fails instead of skipping where there is none: the tests here,
which are larger, and the cupy side of every test that runs on all backends (see
conftest).
"""

import kernel_matrix
import numpy as np
import pytest
from conftest import NEEDS_GPU
from oracles import UTILITIES
from random_ensembles import noisy

import gpu_consensus as gpc
from gpu_consensus.backends import choose_backend, why_unavailable
from gpu_consensus.backends.cupy.streamed_codes import StreamedCodes
from gpu_consensus.generate.device import why_not_on_device

pytestmark = pytest.mark.gpu


def require(reason):
    """Skip a test for a reason, or fail in the acceptance run."""
    if reason and NEEDS_GPU:
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


@pytest.fixture
def device():
    require(why_unavailable("cupy"))
    return choose_backend("cupy", None)


@pytest.mark.parametrize(
    "case", kernel_matrix.pairwise_cases() + kernel_matrix.WIDE, ids=str
)
def test_every_primitive_equals_numpy_bit_for_bit(device, case):
    kernel_matrix.check_case(device, case)


@pytest.mark.parametrize("number", range(len(kernel_matrix.CLIMBS)))
def test_climbs_equal_numpy_bit_for_bit(device, number):
    kernel_matrix.check_climbs(device, number)


@pytest.mark.parametrize("utility", UTILITIES)
@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_kcc_gives_equal_labels_end_to_end(device, utility, missing):
    labels, _ = noisy(3, n=5000, r=30, missing=missing)
    options = {"utility": utility, "n_init": 5, "random_state": 1}
    there, here = (
        gpc.kcc(labels, 4, backend=name, **options) for name in ("cupy", "numpy")
    )
    assert there.backend == "cupy"
    assert np.array_equal(there.labels, here.labels)
    assert np.array_equal(there.history, here.history)


def test_large_data_and_streaming_agree_with_numpy(device):
    rng = np.random.default_rng(0)
    codes = rng.integers(30, size=(50, 400_000), dtype=np.uint8)
    offsets = np.arange(51) * 31
    table = rng.random((int(offsets[-1]), 10, 10), dtype=np.float32)
    expected = choose_backend("numpy", None).assign(codes, offsets, table).assignment
    found = device.assign(device.resident(codes), offsets, device.to_device(table))
    assert np.array_equal(device.to_host(found.assignment), expected)
    streamed = StreamedCodes(device.xp, codes)
    for rows, block in streamed.blocks(70_001):
        part = device.assign(block, offsets, device.to_device(table)).assignment
        assert np.array_equal(device.to_host(part), expected[:, rows])


def test_the_doctor_is_content(device):
    found = gpc.doctor()
    assert found.self_test["cupy"] == ""
    assert found.devices


def test_partitions_by_cuml(device):
    rng = np.random.default_rng(0)
    truth = np.arange(3000) % 3
    X = rng.normal(size=(3000, 5)) + 9 * truth[:, None]
    require(why_not_on_device(X, "kmeans"))
    ens = gpc.generate_partitions(X, 10, n_clusters=3, backend="cupy", random_state=0)
    result = gpc.kcc(ens, 3, random_state=0)
    assert gpc.metrics.adjusted_rand(truth, result.labels) > 0.95
