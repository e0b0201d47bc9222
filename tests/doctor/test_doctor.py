"""The self-test finds a primitive that is wrong, whichever it is."""

import importlib
import importlib.metadata
import types

import pytest
from conftest import emulated
from cudaemu import DeviceSpec, installed, make_cupy
from emulated_devices import BIG
from kernel_matrix import noting_forms
from nvrtc import ARCHITECTURES
from toy_backend import ToyBackend

import gpu_consensus as gpc
from gpu_consensus.backends import MEMBERS, choose_backend
from gpu_consensus.backends.cupy import climbs as cuda_add_rem_add
from gpu_consensus.backends.cupy.backend import CupyBackend
from gpu_consensus.backends.cupy.source import all_kernels
from gpu_consensus.backends.native import loops
from gpu_consensus.doctor.primitives import FITS, PRIMITIVES, Case
from gpu_consensus.doctor.self_test import compare, self_test

PROTOCOL = set(MEMBERS) - {"name", "xp"}
# and, for what changes its arguments, which of them
SPOILED = sorted((name, None) for name in PROTOCOL - {"count"})
SPOILED += [("count", 4), ("count", 6)]


def off_by_one(value):
    """Add one to the first number of every array in a result."""
    if isinstance(value, types.GeneratorType):
        return (off_by_one(part) for part in value)
    if hasattr(value, "_fields"):
        return type(value)(*map(off_by_one, value))
    if isinstance(value, tuple):
        return tuple(map(off_by_one, value))
    if not hasattr(value, "dtype") or not value.size:
        return value
    value = value.copy()
    value[(0,) * value.ndim] += value.dtype.type(1)
    return value


def spoil(monkeypatch, backend, name, changed):
    right = getattr(backend, name)

    def wrong(*arguments, **options):
        found = right(*arguments, **options)
        if changed is not None and len(arguments) > changed:
            arguments[changed][...] = off_by_one(arguments[changed])
        return off_by_one(found)

    monkeypatch.setattr(type(backend), name, lambda self, *a, **o: wrong(*a, **o))


def native_backend():
    return choose_backend("native", None, n_jobs=1)


def test_every_primitive_is_in_the_table(monkeypatch):
    assert set(", ".join(PRIMITIVES).split(", ")) == PROTOCOL
    called = set()

    def noting(name, right):
        def note(self, *arguments, **options):
            called.add(name)
            return right(self, *arguments, **options)

        return note

    for name in PROTOCOL:
        right = getattr(ToyBackend, name)
        monkeypatch.setattr(ToyBackend, name, noting(name, right))
    assert compare(ToyBackend(), Case(9, (3, 4), 2, 3, 0.2)) == ""
    assert called == PROTOCOL


@pytest.mark.parametrize(("name", "changed"), SPOILED)
def test_a_wrong_primitive_of_the_library_is_found(monkeypatch, name, changed):
    backend = native_backend()
    spoil(monkeypatch, backend, name, changed)
    assert name in self_test(backend)


@pytest.mark.parametrize(("name", "changed"), SPOILED)
def test_a_wrong_primitive_of_the_device_is_found(
    emulated_cupy, monkeypatch, name, changed
):
    backend = CupyBackend()
    spoil(monkeypatch, backend, name, changed)
    assert name in self_test(backend)


def one_more(climb):
    """Spoil what climbs give: the sums come first."""

    def wrong(*arguments):
        total, *rest = climb(*arguments)
        return total + 1, *rest

    return wrong


def wrong_prices(*arguments, right=loops.prices):
    enter, stay = right(*arguments)
    enter[0, 0, 0] += 1
    return enter, stay


def wrong_climber(*arguments, right=loops.climber):
    return one_more(right(*arguments))


WRONG_LOOPS = {
    "prices": ("prices", wrong_prices),
    "ipc_sweep": ("ipc", lambda *_: 0),
    "tilo_sweep": ("tilo", lambda *_: 0),
    "climber": ("climbs", wrong_climber),
}


@pytest.mark.parametrize("name", WRONG_LOOPS)
def test_a_wrong_compiled_loop_is_found(monkeypatch, name):
    where, wrong = WRONG_LOOPS[name]
    monkeypatch.setattr(loops, name, wrong)
    assert where in self_test(native_backend())


def test_wrong_climbs_of_the_device_are_found(emulated_cupy, monkeypatch):
    climb = cuda_add_rem_add.climb_waves
    monkeypatch.setattr(cuda_add_rem_add, "climb_waves", one_more(climb))
    assert "climbs" in self_test(CupyBackend())


@pytest.mark.parametrize("name", FITS)
def test_a_wrong_end_of_a_fit_is_found(monkeypatch, name):
    backend = native_backend()
    right = FITS[name]

    def wrong(ensemble, options):
        found = right(ensemble, options)
        if options["backend"] is backend:
            found.labels[0] = (found.labels[0] + 1) % 4
        return found

    monkeypatch.setitem(FITS, name, wrong)
    assert self_test(backend).startswith(f"{name} (labels) differs in 1 of 400")


@pytest.mark.parametrize("number", [75, 100], ids=["least", "most"])
def test_every_form_of_every_kernel_is_compared(number):
    """On devices with the least shared memory and the most."""
    where, limits = (
        ARCHITECTURES[number],
        [a.shared_limit for a in ARCHITECTURES.values()],
    )
    assert where.shared_limit == (max if number == 100 else min)(limits)
    device = DeviceSpec(
        multiprocessors=2,
        shared_memory_optin=where.shared_limit,
        shared_memory_per_multiprocessor=where.shared,
    )
    with emulated(device), noting_forms() as launched:
        assert self_test(CupyBackend()) == ""
    assert launched == set(all_kernels())


def test_every_device_is_tested_but_those_too_old(monkeypatch):
    """Each has its own driver state and its own compiled kernels."""
    module = importlib.import_module("gpu_consensus.doctor")
    old = DeviceSpec(compute_capability=(6, 1))
    tried = []

    def wrong_on_the_last(backend):
        tried.append(backend._gpu.device.id)
        return "count differs" if tried[-1] == 2 else ""

    with emulated(BIG, old, BIG):
        monkeypatch.setattr(module, "self_test", wrong_on_the_last)
        found = module._test("cupy")
    assert tried == [0, 2]
    assert found == "device 2: WRONG RESULTS, do not use it: count differs"


def test_a_device_that_fails_is_named(monkeypatch):
    module = importlib.import_module("gpu_consensus.doctor")

    def fails_on_the_last(backend):
        if backend._gpu.device.id == 1:
            raise RuntimeError("an illegal address")
        return ""

    with emulated(BIG, BIG):
        monkeypatch.setattr(module, "self_test", fails_on_the_last)
        report = gpc.doctor()
    assert report.self_test["cupy"] == (
        "device 1: FAILED, do not use it: RuntimeError: an illegal address"
    )
    assert not report.healthy


def test_devices_are_listed_whatever_is_wrong_with_them(monkeypatch):
    module = importlib.import_module("gpu_consensus.doctor")
    monkeypatch.setattr(module, "self_test", lambda backend: "")
    old = DeviceSpec(compute_capability=(6, 1))
    with emulated(old, BIG) as cupy:
        report = gpc.doctor()
        assert "compute capability 6.1" in report.backends["cupy"]
        listed = [device["compute_capability"] for device in report.devices]
        assert listed == ["6.1", "8.0"]
        ask = cupy.cuda.runtime.getDeviceProperties

        def lost(index):
            if index == 1:
                raise RuntimeError("the device is lost")
            return ask(index)

        monkeypatch.setattr(cupy.cuda.runtime, "getDeviceProperties", lost)
        assert "device    RuntimeError: the device is lost" in str(gpc.doctor())


def test_versions_are_told_where_no_device_is_usable():
    with installed(make_cupy(())):
        report = gpc.doctor()
    assert "there is no NVIDIA driver" in report.backends["cupy"]
    assert set(report.cuda) == {"driver", "runtime", "nvrtc"}
    assert report.cuda["driver"] == "not installed"
    with installed(None):
        assert gpc.doctor().cuda == {}


def test_right_backends_pass():
    for name in ("numpy", "native"):
        assert self_test(choose_backend(name, None)) == ""


@pytest.mark.parametrize("name", ["cupy-cuda13x", "cupy"])
def test_packages_go_by_the_name_they_were_installed_as(monkeypatch, name):
    module = importlib.import_module("gpu_consensus.doctor")
    version = importlib.metadata.version
    monkeypatch.setattr(
        importlib.metadata,
        "version",
        lambda asked: "14.0" if asked == name else version(asked),
    )
    found = module._packages()
    assert found[name] == "14.0"
    assert [key for key in found if key.startswith("cupy")] == [name]
