"""Fixtures that run a test on every backend: also on cupy, emulated on the CPU."""

import contextlib
import os

import cudaemu
import pytest
from hypothesis import settings

from gpu_consensus.backends import NAMES, choose_backend, why_unavailable
from gpu_consensus.backends.cuda_compile import compiled

# the same examples in every run; HYPOTHESIS_PROFILE=explore looks for new ones
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

HERE = [name for name in NAMES if name != "auto" and not why_unavailable(name)]
EMULATED = [] if "cupy" in HERE else ["cupy"]


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


@pytest.fixture
def emulated_cupy():
    with emulated() as cupy:
        yield cupy


@pytest.fixture(params=[*HERE, *EMULATED])
def backend(request):
    """Each backend; cupy is the package's own code on the emulator."""
    with emulated() if request.param in EMULATED else contextlib.nullcontext():
        yield choose_backend(request.param, None)
