"""What a user meets where a device, its driver or its memory fails."""

import importlib.metadata
import os
import warnings
from pathlib import Path

import cudaemu
import numpy as np
import pytest
from conftest import emulated
from failing_memory import outcomes
from random_ensembles import noisy

import gpu_consensus as gpc
from gpu_consensus.backends import (
    availability,
    choose,
    choose_backend,
    why_unavailable,
    worth,
)
from gpu_consensus.backends.device_errors import DeviceLostError
from gpu_consensus.backends.device_memory import DeviceMemoryError, DeviceMemoryWarning
from gpu_consensus.cli.main import main

LARGE = 10**12  # lookups that are worth a device


@pytest.fixture(autouse=True)
def plain_auto(monkeypatch):
    monkeypatch.delenv("GPU_CONSENSUS_BACKEND", raising=False)


@pytest.fixture
def codes():
    return gpc.Ensemble(noisy(0)[0]).codes


def test_auto_takes_a_device_for_what_is_worth_its_start(emulated_cupy, codes):
    assert choose_backend("auto", codes).name == "native"
    assert choose_backend("auto", codes, lookups=LARGE).name == "cupy"
    assert gpc.kcc(noisy(0)[0], 3, random_state=0).backend == "native"
    for there in (
        gpc.Ensemble(noisy(0)[0]).to("cupy"),
        emulated_cupy.asarray(noisy(0)[0]),
    ):
        found = gpc.kcc(there, 3, random_state=0)
        assert found.backend == "cupy"
        assert isinstance(found.labels, emulated_cupy.ndarray)
    assert choose_backend("cupy", codes, lookups=1).name == "cupy"


def test_a_single_look_at_every_label_is_not_worth_the_transfer():
    assert not worth.device_pays(LARGE, LARGE)
    assert worth.device_pays(LARGE, LARGE // 100)


def test_no_size_without_a_device_asks_for_one():
    with cudaemu.installed(cudaemu.make_cupy(())), warnings.catch_warnings():
        warnings.simplefilter("error")
        choose._warn_of_broken_cupy.cache_clear()
        assert choose_backend("auto", None, lookups=LARGE).name == "native"


def test_an_old_driver_is_named_with_both_cures(emulated_cupy):
    emulated_cupy.machine.driver = 12_020
    emulated_cupy.cuda.runtime.runtimeGetVersion = lambda: 13_000
    reason = why_unavailable("cupy")
    assert "driver knows CUDA 12.2 but CuPy is made for CUDA 13.0" in reason
    assert "update the driver" in reason
    assert "'gpu-consensus[cuda12]' in place of cuda13" in reason
    emulated_cupy.machine.driver = 11_080
    reason = why_unavailable("cupy")
    assert "update the driver, or use backend='numpy'" in reason
    assert "cuda11" not in reason
    emulated_cupy.machine.driver = 12_020
    # a newer minor version of the toolkit is no fault: CUDA promises that it runs
    emulated_cupy.cuda.runtime.runtimeGetVersion = lambda: 12_090
    assert why_unavailable("cupy") == ""


def test_two_cupys_at_once_are_refused_and_auto_says_so(emulated_cupy, monkeypatch):
    version = importlib.metadata.version
    both = {"cupy-cuda12x": "14.2.0", "cupy-cuda13x": "14.1.1"}
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: both.get(name) or version(name)
    )
    reason = why_unavailable("cupy")
    assert reason.startswith("cupy-cuda12x 14.2.0 and cupy-cuda13x 14.1.1 are")
    assert "pip uninstall -y cupy-cuda12x cupy-cuda13x, then pip install" in reason
    with pytest.raises(RuntimeError, match="at once and spoil each other"):
        choose_backend("cupy", None)
    choose._warn_of_broken_cupy.cache_clear()
    with pytest.warns(UserWarning, match="'auto' works on the CPU: cupy-cuda12"):
        assert choose_backend("auto", None, lookups=LARGE).name == "native"
    assert choose_backend("auto", None, lookups=LARGE).name == "native"  # said once


@pytest.mark.parametrize("folder", ["file/cache", "file"])
def test_a_cache_that_cannot_be_written_costs_time_only(
    emulated_cupy, monkeypatch, tmp_path, folder
):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / folder))
    monkeypatch.setenv("CUPY_CACHE_IN_MEMORY", "0")
    with pytest.warns(UserWarning, match=r"\((Not a|File ex).*\), so.*set CUPY_CACHE"):
        found = gpc.kcc(noisy(0)[0], 3, backend="cupy", random_state=0)
    assert found.backend == "cupy"
    assert os.environ["CUPY_CACHE_IN_MEMORY"] == "1"
    assert Path(os.environ["CUPY_CACHE_DIR"]).is_dir()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert why_unavailable("cupy") == ""


def test_a_cache_that_can_be_written_stays_as_it_is(
    emulated_cupy, monkeypatch, tmp_path
):
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "new"))
    monkeypatch.delenv("CUPY_CACHE_IN_MEMORY", raising=False)
    assert why_unavailable("cupy") == ""
    assert "CUPY_CACHE_IN_MEMORY" not in os.environ
    assert list((tmp_path / "new").iterdir()) == []


def test_a_user_without_a_home_gets_no_folder_of_that_name(emulated_cupy, monkeypatch):
    def homeless(self):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(availability.Path, "expanduser", homeless)
    availability._why_not_written.cache_clear()
    monkeypatch.delenv("CUPY_CACHE_DIR", raising=False)
    monkeypatch.setenv("CUPY_CACHE_IN_MEMORY", "")
    with pytest.warns(UserWarning, match="home directory.*set CUPY_CACHE_DIR"):
        assert why_unavailable("cupy") == ""
    assert Path(os.environ["CUPY_CACHE_DIR"]).is_dir()
    availability._why_not_written.cache_clear()


def test_a_device_lost_in_mid_run_is_one_sentence(
    emulated_cupy, monkeypatch, tmp_path, capsys
):
    calls = 0
    whole = emulated_cupy.asnumpy

    def lost(array):
        nonlocal calls
        calls += 1
        if calls > 2:
            raise emulated_cupy.cuda.runtime.CUDARuntimeError(
                719, "cudaErrorLaunchFailure: unspecified launch failure"
            )
        return whole(array)

    monkeypatch.setattr(emulated_cupy, "asnumpy", lost)
    labels = noisy(0)[0]
    kept = tmp_path / "kept.npz"
    options = {"backend": "cupy", "n_init": 3, "random_state": 0}
    with pytest.raises(DeviceLostError) as failed:
        gpc.kcc(labels, 3, checkpoint=kept, **options)
    message = str(failed.value)
    assert message.startswith("the CUDA device failed in mid-run (cudaErrorLaunchFail")
    assert "start again, with the same checkpoint" in message
    assert message.count(". ") == 0
    table = tmp_path / "labels.csv"
    np.savetxt(table, labels, fmt="%d", delimiter=",")
    call = ["consensus", table, "--n-clusters", 3, "--backend", "cupy"]
    assert main([str(word) for word in call]) == 1
    err = capsys.readouterr().err
    assert err.startswith("gpu-consensus: the CUDA device failed in mid-run")
    assert err.count("\n") == 1
    monkeypatch.undo()
    # and the same call goes on
    found = gpc.kcc(labels, 3, checkpoint=kept, **options)
    right = gpc.kcc(labels, 3, **(options | {"backend": "numpy"}))
    assert np.array_equal(found.labels, right.labels)


@pytest.mark.parametrize("method", ["kcc", "sec", "em", "hac", "least_squares"])
def test_memory_runs_out_alike_without_the_pool(emulated_cupy, method):
    """CUDA's own allocator says by a number what the pool says by a MemoryError."""
    labels, _ = noisy(3, n=30, r=6)
    run = {
        "kcc": lambda b: gpc.kcc(labels, 3, n_init=2, random_state=0, backend=b),
        "sec": lambda b: gpc.sec(labels, 3, n_init=2, random_state=0, backend=b),
        "em": lambda b: gpc.em(labels, 3, n_init=1, random_state=0, backend=b),
        "hac": lambda b: gpc.hac(labels, 3, backend=b),
        "least_squares": lambda b: gpc.least_squares(labels, backend=b),
    }[method]
    right = run("numpy")

    def work():
        assert np.array_equal(run("cupy").labels, right.labels)

    emulated_cupy.cuda.set_allocator(None)
    assert set(outcomes(emulated_cupy, work)) <= {"same", "warned", "clear"}


def test_a_kernel_that_finds_no_room_is_want_of_memory(emulated_cupy, monkeypatch):
    def full(self, name):
        raise cudaemu.errors.CUDADriverError(
            "CUDA_ERROR_OUT_OF_MEMORY: out of memory", 2
        )

    monkeypatch.setattr(emulated_cupy.RawModule, "get_function", full)
    with (
        pytest.warns(DeviceMemoryWarning),
        pytest.raises(DeviceMemoryError, match="CUDA_ERROR_OUT_OF_MEMORY"),
    ):
        gpc.kcc(noisy(0)[0], 3, backend="cupy")


def test_errors_that_are_neither_stay_as_they_are(emulated_cupy, monkeypatch):
    def wrong(array):
        raise emulated_cupy.cuda.runtime.CUDARuntimeError(1, "cudaErrorInvalidValue")

    monkeypatch.setattr(emulated_cupy, "asnumpy", wrong)
    with pytest.raises(emulated_cupy.cuda.runtime.CUDARuntimeError, match="InvalidVal"):
        gpc.kcc(noisy(0)[0], 3, backend="cupy")


def test_arrays_of_cupy_are_no_index():
    """A trap of CuPy that the stand-in once hid."""
    with emulated() as cupy, pytest.raises(TypeError):
        range(cupy.asarray(np.array(3)))


def test_copies_of_pinned_memory_are_made_when_their_turn_comes():
    """CuPy 14.2 makes no copy in between; whoever overwrites it too early is wrong."""
    with emulated() as cupy, cudaemu.configured(streams="late"):
        pinned = cupy._modules["cupyx"].empty_pinned(4, np.uint8)
        pinned[:] = 1
        there = cupy.asarray(pinned)
        pinned[:] = 2
        assert there.get().tolist() == [2] * 4
        host = np.ones(4, np.uint8)
        there = cupy.asarray(host)
        host[:] = 2
        assert there.get().tolist() == [1] * 4
