"""Where tests run: on every backend, cupy on a device or emulated on the CPU.

The rule: a test runs once per backend unless it never computes with one. A module of
tests says so in one line::

    pytestmark = pytest.mark.every_backend

Its tests then call methods as users do, without ``backend``: the fixture makes "auto"
mean one backend after the other, and fails if the results came from another. Tests of
internals ask ``choose_backend("auto", None)``. Tests of text, storage or the words of
the command line, which would do the same work twice, leave the line out, and so do
those of one backend alone, which ``test_every_backend.py`` lists; a single test that is
too large for the emulator says ``@pytest.mark.every_backend(emulated=False)``.

The backends are those that work here. Without a device, cupy is the package's own code
on the emulator, and Hypothesis tries only the first few examples there. With
``GPU_CONSENSUS_REQUIRE_GPU=1`` cupy is the real one, its tests carry the mark ``gpu``,
and they fail where there is no device.
"""

import contextlib
import functools
import os

import cudaemu
import pytest
from hypothesis import settings

from gpu_consensus.backends import NAMES, choose_backend, why_unavailable
from gpu_consensus.backends.cupy.compile import compiled
from gpu_consensus.backends.host_loops import compiled_loops
from gpu_consensus.result import Consensus
from gpu_consensus.util import progress

# the same examples in every run; HYPOTHESIS_PROFILE=explore looks for new ones
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

NEEDS_GPU = os.environ.get("GPU_CONSENSUS_REQUIRE_GPU", "0") not in ("", "0")
HERE = [name for name in NAMES if name != "auto" and not why_unavailable(name)]
EMULATED = "cupy" not in HERE and not NEEDS_GPU
EMULATED_EXAMPLES = 3
BACKENDS = [name for name in NAMES if name in HERE or name == "cupy"]


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "every_backend(emulated=True): run once per backend; see conftest",
    )


def pytest_terminal_summary(terminalreporter):
    """Say how many of the bugs put into kernels and streams were noticed."""
    found = {
        outcome: sum(
            "noticed[" in report.nodeid and report.when == "call"
            for report in terminalreporter.stats.get(outcome, ())
        )
        for outcome in ("passed", "failed")
    }
    injected = sum(found.values())
    if injected:
        terminalreporter.write_line(
            f"bugs put in on purpose: {found['passed']} of {injected} noticed"
        )


def backend_parameters(names):
    """Return backends as parameters; a real device carries the mark ``gpu``."""
    return [
        pytest.param(name, marks=pytest.mark.gpu)
        if name == "cupy" and NEEDS_GPU
        else name
        for name in names
    ]


def pytest_generate_tests(metafunc):
    mark = metafunc.definition.get_closest_marker("every_backend")
    if mark is None:
        return
    names = BACKENDS
    if EMULATED and not mark.kwargs.get("emulated", True):
        names = [name for name in names if name != "cupy"]
    metafunc.parametrize("auto_backend", backend_parameters(names), indirect=True)


@contextlib.contextmanager
def emulated(*devices):
    """Give the program a CuPy whose kernels run on the CPU."""
    cudaemu.require_compiler()
    devices = devices or (cudaemu.DeviceSpec(multiprocessors=2),)
    compiled.cache_clear()
    try:
        with cudaemu.installed(cudaemu.make_cupy(devices)) as cupy:
            yield cupy
    finally:
        compiled.cache_clear()


@contextlib.contextmanager
def running(name):
    """Make a backend usable: cupy is emulated unless there is a device.

    With native the loops on the host run in C, with numpy never.
    """
    if name == "cupy" and EMULATED:
        with emulated():
            yield
        return
    reason = why_unavailable(name)
    if reason:
        pytest.fail(reason)
    if name == "cupy":
        yield
        return
    with compiled_loops(name == "native"):
        yield


@pytest.fixture
def told_at_once(monkeypatch):
    """Let progress tell a log of every step, not only after seconds of work."""
    monkeypatch.setattr(progress, "_FIRST", 0.0)
    monkeypatch.setattr(progress, "_AGAIN", 0.0)


@pytest.fixture
def emulated_cupy():
    with emulated() as cupy:
        yield cupy


@pytest.fixture(params=backend_parameters(["cupy"]))
def device(request):
    """The cupy backend on a device, emulated if there is none."""
    with running(request.param):
        yield choose_backend(request.param, None)


@pytest.fixture(params=backend_parameters(BACKENDS))
def backend(request):
    """Each backend; cupy is the package's own code on the emulator."""
    with running(request.param):
        yield choose_backend(request.param, None)


@pytest.fixture(autouse=True)
def auto_backend(request):
    """Make "auto" mean one backend for a marked test; its results must come from there.

    For all others nothing happens, and this is None.
    """
    name = getattr(request, "param", None)
    if name is None:
        yield None
        return
    make, ran = Consensus.__init__, []

    @functools.wraps(make)
    def make_and_note(self, *args, **fields):
        make(self, *args, **fields)
        ran.append(self.backend)

    with pytest.MonkeyPatch.context() as patch, running(name):
        patch.setattr(Consensus, "__init__", make_and_note)
        patch.setenv("GPU_CONSENSUS_BACKEND", name)
        if name == "cupy" and EMULATED:
            _few_examples(request.function, patch)
        assert choose_backend("auto", None).name == name
        yield name
    assert not ran or name in ran


def _few_examples(test, patch):
    """Let only the first examples of a Hypothesis test reach its body.

    After a failure all do, since Hypothesis then repeats and shrinks it.
    """
    handle = getattr(test, "hypothesis", None)
    if handle is None:
        return
    body, left = handle.inner_test, EMULATED_EXAMPLES

    @functools.wraps(body)
    def first_few(*args, **options):
        nonlocal left
        left -= 1
        if left >= 0:
            try:
                body(*args, **options)
            except BaseException:
                left = 10**9
                raise

    patch.setattr(handle, "inner_test", first_few)
