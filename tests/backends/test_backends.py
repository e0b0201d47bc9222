"""Every primitive of the seam against loops over single numbers.

All backends are compared with a toy that is nothing else; cupy also with numpy, at the
sizes where kernels go wrong, in ``test_cupy_backend.py``.
"""

import importlib.util
import sys
import types

import numpy as np
import oracles
import pytest
from conftest import HERE
from fresh_counts import fresh_counts
from hypothesis import given, settings
from hypothesis import strategies as st
from random_ensembles import noisy
from toy_backend import ToyBackend

import gpu_consensus as gpc
from gpu_consensus.backends import choose_backend
from gpu_consensus.backends.native import library
from gpu_consensus.backends.numpy import n_threads
from gpu_consensus.backends.segments import as_table
from gpu_consensus.doctor.primitives import RULES, Case
from gpu_consensus.doctor.self_test import compare

cases = st.builds(
    Case,
    n_samples=st.sampled_from([1, 2, 7, 33]),
    n_labels=st.lists(
        st.sampled_from([1, 2, 7, 255, 256, 300]), min_size=1, max_size=4
    ).map(tuple),
    n_restarts=st.sampled_from([1, 2, 5]),
    n_clusters=st.sampled_from([1, 2, 3, 8, 33]),
    missing=st.sampled_from([0.0, 0.3, 1.0]),
    rules=st.sampled_from([(rule,) for rule in RULES]),
    row_tables=st.sampled_from([(0,), (1,), (2,)]),
    code=st.none(),
    seed=st.integers(0, 2**32 - 1),
)


@pytest.mark.every_backend
@given(cases)
@settings(max_examples=100, deadline=None)
def test_every_primitive_equals_loops_bit_for_bit(case):
    for threads in (1, 2):
        backend = choose_backend("auto", None, threads)
        assert compare(backend, case, reference=ToyBackend()) == ""


def assign(backend, codes, offsets, table, weight, row_table):
    """Return winners, lowest scores and gaps on the host; weights may be None."""
    up = backend.to_device
    found = backend.assign(
        backend.resident(codes),
        offsets,
        up(table),
        row_weight=None if weight is None else up(weight),
        row_table=None if row_table is None else up(row_table),
        best=True,
        gap=True,
    )
    return [backend.to_host(part) for part in found]


@pytest.mark.parametrize("row_table_kind", [0, 2, 3])
def test_the_smallest_entries_of_a_table_cancel_alike(backend, row_table_kind):
    """Devices take subnormal sums for 0, so there must be none."""
    rng = np.random.default_rng(row_table_kind)
    codes, offsets = oracles.random_codes(rng, 300, [5, 4, 6], 0.1)

    def nearly_opposite():
        size = 1 + rng.integers(-3, 4, size=(int(offsets[-1]), 2, 5)) * 2.0**-23
        sign = rng.choice([-1, 1], size=(len(size), 1, 1))
        return as_table(sign * size * 2.0**-100)

    table, weight, row_table = nearly_opposite(), None, None
    assert (table == 0).any()
    assert (table != 0).any()
    if row_table_kind:
        weight = rng.integers(1, 4, size=300).astype(np.float32)
        row_table = nearly_opposite()[0 if row_table_kind == 2 else slice(None)]
    winner, best, gap = oracles.assign(codes, offsets, table, weight, row_table)
    tiny = np.finfo(np.float32).tiny
    for numbers in (best, gap):
        assert 0 < np.abs(numbers[numbers != 0]).min() < 2.0**-110
        assert np.abs(numbers[numbers != 0]).min() >= tiny
    found = assign(backend, codes, offsets, table, weight, row_table)
    assert all(map(np.array_equal, found, (winner, best, gap)))


def test_assign_does_not_depend_on_the_cut(backend):
    rng = np.random.default_rng(1)
    codes, offsets = oracles.random_codes(rng, 999, [7, 9, 300, 2], 0.2)
    table = rng.normal(size=(offsets[-1], 3, 4)).astype(np.float32)
    held, table = backend.resident(codes), backend.to_device(table)
    whole = backend.assign(held, offsets, table, best=True, gap=True)
    for step in (1, 7, 500):
        for begin in range(0, min(999, 100 * step), step):
            rows = slice(begin, begin + step)
            part = backend.assign(held[:, rows], offsets, table, best=True, gap=True)
            for of_part, of_whole in zip(part[:3], whole[:3], strict=True):
                expected = backend.to_host(of_whole)[:, rows]
                assert np.array_equal(backend.to_host(of_part), expected)


def test_soft_count_of_hard_labels_is_count(backend):
    rng = np.random.default_rng(4)
    codes, offsets = oracles.random_codes(rng, 100, [3, 5], 0.3)
    assignment = rng.integers(4, size=(2, 100)).astype(np.uint8)
    hard = np.eye(4)[assignment].transpose(1, 0, 2)
    codes, up = backend.resident(codes), backend.to_device
    soft = backend.to_host(backend.soft_count(codes, offsets, up(hard)))
    counts = fresh_counts(backend, codes, offsets, up(assignment), 4)
    assert np.array_equal(soft >> 32, backend.to_host(counts))


@pytest.mark.every_backend
def test_a_marked_test_runs_where_its_name_says(request):
    """It need not ask for the fixture by name."""
    expected = request.node.callspec.params["auto_backend"]
    assert f"[{expected}]" in request.node.name
    assert choose_backend("auto", None).name == expected
    assert gpc.kcc(np.array([[0], [1], [1]]), 2, random_state=0).backend == expected


def test_threads(monkeypatch):
    assert n_threads(3) == 3
    assert n_threads(-1) == n_threads(None) >= 1
    monkeypatch.setenv("GPU_CONSENSUS_NUM_THREADS", "5")
    assert n_threads(None) == 5
    monkeypatch.setenv("GPU_CONSENSUS_NUM_THREADS", "many")
    with pytest.raises(TypeError, match="GPU_CONSENSUS_NUM_THREADS='many' should be"):
        n_threads(None)
    with pytest.raises(ValueError, match="n_jobs=0 should be >= 1"):
        n_threads(0)


def test_auto_takes_the_environment_and_explicit_names_do_not(monkeypatch):
    expected = "cupy" if "cupy" in HERE else "native"
    monkeypatch.delenv("GPU_CONSENSUS_BACKEND", raising=False)
    assert choose_backend("auto", None).name == expected
    monkeypatch.setenv("GPU_CONSENSUS_BACKEND", "")  # as good as not set
    assert choose_backend("auto", None).name == expected
    monkeypatch.setenv("GPU_CONSENSUS_BACKEND", "cuda")
    with pytest.raises(ValueError, match="GPU_CONSENSUS_BACKEND='cuda' is unknown"):
        choose_backend("auto", None)
    assert choose_backend("numpy", None).name == "numpy"


def test_unknown_backend_lists_the_names_nearest_first():
    with pytest.raises(
        ValueError, match="backend='nunpy' is unknown; choose one of 'numpy'"
    ):
        choose_backend("nunpy", None)


@pytest.mark.skipif("cupy" in HERE, reason="a device is always preferred")
def test_auto_takes_the_library_for_any_size(monkeypatch):
    monkeypatch.delenv("GPU_CONSENSUS_BACKEND", raising=False)
    labels, _ = noisy(0, n=30, r=4)
    assert gpc.kcc(labels, 4, n_init=2, random_state=0).backend == "native"
    assert choose_backend("auto", None, lookups=2**20).name == "native"


def test_without_the_library_auto_takes_numpy(monkeypatch, tmp_path):
    monkeypatch.setattr(library, "FOLDER", tmp_path)
    monkeypatch.delenv("GPU_CONSENSUS_BACKEND", raising=False)
    with pytest.raises(RuntimeError, match="installed without its compiled code"):
        choose_backend("native", None)
    assert choose_backend("auto", None).name == "numpy"


def test_absent_cupy_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match=r"CuPy is not installed; run pip install"):
        choose_backend("cupy", None)
    with pytest.raises(RuntimeError, match=r"CuPy is not installed; run pip install"):
        gpc.Ensemble(np.array([[1], [2]])).to("cupy")


def test_cupy_without_a_device_says_so(monkeypatch):
    """A stand-in for the one CuPy call in question: CuPy itself is optional."""
    fake = types.ModuleType("cupy")
    runtime = types.SimpleNamespace(
        driverGetVersion=lambda: 12_090, runtimeGetVersion=lambda: 12_090
    )
    fake.cuda = types.SimpleNamespace(is_available=lambda: False, runtime=runtime)
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    with pytest.raises(RuntimeError, match="finds no usable CUDA device"):
        gpc.Ensemble(np.array([[1], [2]])).to("cupy")
