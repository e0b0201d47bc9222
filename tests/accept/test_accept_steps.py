"""Single steps of the acceptance run, what it calls a GPU, and what it keeps secret."""

import getpass
import json
import socket
from pathlib import Path

import cudaemu
import fakecuml
import numpy as np
import pytest
from conftest import emulated
from cudaemu import DeviceSpec, configured

from gpu_consensus.accept import kernels, large_fit, machine, roofs, startup
from gpu_consensus.accept.generation import compare_generation
from gpu_consensus.accept.private import redact
from gpu_consensus.accept.run import Context, NotRun, Sizes, Step, new_entry, run_step
from gpu_consensus.backends.cupy.backend import CupyBackend
from gpu_consensus.backends.cupy.launcher import Launcher
from gpu_consensus.backends.cupy.source import (
    all_kernels,
    measuring_kernels,
    shared_read_kernel,
)

TINY = Sizes(40, 3000, 600, 4, 32, 1 << 14, 2, 2, 300, 2000, 6, 1000)
SMALL = DeviceSpec(multiprocessors=1)


def run_alone(run, sizes=TINY, **found):
    """Run one step on the current device; return its entry."""
    one = Step("alone", run)
    entry = new_entry(one)
    context = Context(sizes, float("inf"), False)
    context.results.update(found)
    run_step(one, context, entry)
    return entry


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("open('/home/al b/x.cu') failed", "open('<path>/x.cu') failed"),
        ("in C:\\Users\\al\\x.cu: no", "in <path>/x.cu: no"),
        ("see https://cupy.dev/en/x.html", "see https://cupy.dev/en/x.html"),
        ("8 GB/s and 1/2", "8 GB/s and 1/2"),
        ("-I/mnt/al/include", "-I<path>/include"),
        ("A=/opt/x:/mnt/al/lib", "A=<path>/x:<path>/lib"),
        ("open '/mnt/my data/al/x.cu'", "open '<path>/x.cu'"),
        ("on \\\\server\\al\\x.cu", "on <path>/x.cu"),
    ],
)
def test_paths_are_left_out_of_what_is_told(monkeypatch, text, left):
    monkeypatch.setattr(Path, "home", lambda: Path("/home/al b"))
    assert redact(text) == left


def test_names_are_left_out_of_what_is_told(monkeypatch):
    monkeypatch.setattr(getpass, "getuser", lambda: "alice")
    monkeypatch.setattr(socket, "gethostname", lambda: "lab7.example.org")
    error = OSError("alice has no file on lab7 or lab7.example.org")
    assert redact(error) == "OSError: <name> has no file on <name> or <name>"


def test_a_gpu_is_known_by_the_files_of_its_driver(monkeypatch, tmp_path):
    held = tmp_path / "proc/self/fd"
    held.mkdir(parents=True)
    (held / "0").symlink_to("/dev/null")
    (held / "1").symlink_to("/dev/nvidiactl")
    with emulated(SMALL) as cupy:
        assert "stand-in" in machine.why_no_gpu(tmp_path)
        monkeypatch.setattr(cupy, "__file__", __file__, raising=False)
        assert machine.why_no_gpu(tmp_path) == ""
        (held / "1").unlink()
        assert "driver" in machine.why_no_gpu(tmp_path)
        (held / "2").symlink_to("/dev/dxg")
        assert machine.why_no_gpu(tmp_path) == ""
        # a system that does not tell which files are open
        assert "no installed package" in machine.why_no_gpu(tmp_path / "proc")


def test_shared_memory_is_read_without_conflicts_and_as_often_as_counted():
    kernel = shared_read_kernel()
    rounds, words = 3, 1024
    with emulated(SMALL), cudaemu.recording() as reports, configured(mode="check"):
        gpu = CupyBackend()._gpu
        sums = gpu.xp.empty(kernel.threads, np.uint32)
        arguments = (np.int32(rounds), np.uint32(words), np.uint32(40), sums)
        gpu.launch(kernel, (1,), (kernel.threads,), arguments, shared=16 * words)
        found = sums.get()
    loads = reports[0].total(space="shared", operation="load", width=16)
    assert loads["bytes"] == 16 * kernel.threads * rounds * 8
    assert loads["wavefronts"] == loads["phases"]
    at = np.arange(kernel.threads)[:, None] + 40 * np.arange(rounds * 8)
    assert np.array_equal(found, (113 * (at % words)).sum(axis=1))
    assert measuring_kernels() == [kernel]
    assert kernel not in all_kernels()


def test_no_kernel_is_said_to_move_more_than_it_does():
    """Against what the emulator sees: sectors of 32 bytes, passes over the banks."""
    sizes = TINY._replace(n_kernels=512, r_kernels=8)
    with emulated(SMALL), configured(mode="check"):
        gpu = Launcher()
        context = Context(sizes, float("inf"), False)
        for case in kernels._cases(CupyBackend(gpu), gpu, context):
            with cudaemu.recording() as reports:
                case.call()
            mine = [one for one in reports if one.kernel == case.kernel]
            sites = [site for one in mine for site in one.sites]
            seen = 32 * sum(site.sectors for site in sites)
            assert 0 <= case.device_bytes <= seen, case
            shared = 128 * sum(site.wavefronts for site in sites)
            assert 0 <= case.shared_bytes <= shared, case


def test_memory_is_read_in_sectors():
    moved = np.zeros((2, 100), bool)
    moved[[0, 1, 1], [0, 31, 99]] = True
    assert kernels._sectors(moved, 1) == 64
    assert kernels._sectors(moved, 2) == 96


def test_wrong_sums_of_shared_memory_are_noticed(monkeypatch):
    monkeypatch.setattr(
        roofs, "_expected_sums", lambda threads, rounds: np.zeros(threads, np.uint32)
    )
    with emulated(SMALL):
        entry = run_alone(roofs.measure_roofs)
    assert entry["state"] == "failed"
    assert entry["reason"] == "shared_read gives wrong sums"


@pytest.mark.parametrize("rounds", [1, 200])
def test_sums_of_shared_memory_are_those_of_a_loop(rounds):
    expected = [
        113 * sum((thread + 40 * read) % 1024 for read in range(8 * rounds)) % 2**32
        for thread in range(5)
    ]
    assert roofs._expected_sums(5, rounds).tolist() == expected


def test_where_events_are_mute_the_host_keeps_time(monkeypatch):
    with emulated(SMALL) as cupy:
        monkeypatch.setattr(cupy.cuda, "get_elapsed_time", lambda start, end: 0.0)
        entry = run_alone(roofs.measure_roofs)
    assert entry["state"] == "passed"
    assert "host's clock" in entry["results"]["timed_by"]
    assert entry["results"]["copy_bytes_per_s"] > 0


def test_missing_pinned_memory_is_told_and_no_failure(monkeypatch):
    with emulated(SMALL) as cupy:
        error = cupy.cuda.runtime.CUDARuntimeError(2, "cudaErrorMemoryAllocation")

        def refuse(nbytes):
            raise error

        monkeypatch.setattr(roofs, "_pinned", refuse)
        entry = run_alone(roofs.measure_roofs)
    assert entry["state"] == "passed"
    assert entry["results"]["transfers"]["pinned"].startswith(
        "not run: CUDARuntimeError"
    )


def test_generation_by_cuml_beside_scikit_learn():
    with emulated(SMALL) as cupy, fakecuml.installed(cupy):
        entry = run_alone(compare_generation)
    assert entry["state"] == "passed", entry
    for name in ("cuml", "scikit-learn"):
        assert entry["results"][name]["seconds"] > 0
        assert entry["results"][name]["adjusted_rand"] > 0.7


def test_a_cpu_that_is_too_slow_gets_fewer_objects(monkeypatch):
    monkeypatch.setattr(large_fit, "_MOST_CPU_SECONDS", 1e-6)
    monkeypatch.setattr(large_fit, "why_unavailable", lambda name: "no library here")
    with emulated(SMALL):
        entry = run_alone(large_fit.fit_both)
    assert entry["state"] == "passed", entry
    found = entry["results"]
    assert found["cpu"] == "numpy"
    assert found["on_cpu"]["n"] == found["device_as_cpu"]["from_host"]["n"] < TINY.n_fit
    assert found["device"]["from_host"]["n"] == TINY.n_fit


def test_a_new_process_times_its_first_result(capsys):
    with emulated(SMALL):
        startup.child()
    times = json.loads(capsys.readouterr().out)
    assert set(times) == {"import_s", "context_s", "first_kcc_s", "second_kcc_s"}


def test_a_new_process_keeps_its_kernels_where_this_one_could_not(monkeypatch):
    monkeypatch.setenv("CUPY_CACHE_IN_MEMORY", "1")
    tell = "import json, os; print(json.dumps(dict(os.environ)))"
    monkeypatch.setattr(startup, "_CHILD", tell)
    found = startup._start("kept", 60)
    assert found["CUPY_CACHE_DIR"] == "kept"
    assert "CUPY_CACHE_IN_MEMORY" not in found


def test_a_process_that_fails_says_why(monkeypatch):
    monkeypatch.setattr(startup, "_CHILD", "raise SystemExit('no such thing')")
    entry = run_alone(startup.time_startup)
    assert entry["state"] == "failed"
    assert "a new process failed: no such thing" in entry["reason"]


def test_too_little_memory_is_no_failure():
    with emulated(DeviceSpec(multiprocessors=1, memory=4096)):
        assert run_alone(large_fit.fit_both)["state"] == "not run"
    with pytest.raises(NotRun, match="about 5 s"):
        Context(TINY, float("-inf"), False).need(5)


def test_a_device_that_fails_is_listed(monkeypatch):
    with emulated(SMALL) as cupy:

        def lost(index):
            raise RuntimeError("the device is lost")

        monkeypatch.setattr(cupy.cuda.runtime, "getDeviceProperties", lost)
        (device,) = machine.describe()["devices"]
    assert device["name"] == "RuntimeError: the device is lost"
