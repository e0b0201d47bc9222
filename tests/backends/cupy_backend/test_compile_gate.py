"""Every kernel through NVIDIA's compiler, for every architecture: no GPU needed."""

import functools
import sys

import numpy as np
import pytest
from nvrtc import ARCHITECTURES, binding, compile_all, faults, record, require_nvrtc
from nvrtc.binding import CompileError, compile_text, version
from nvrtc.gate import compile_one
from nvrtc.launches import EXTREME, TYPICAL, Problem
from nvrtc.readme import COMMAND, SECTION, fingerprint, render, stated
from nvrtc.usage import Usage, complaints
from readme_tables import stored

from gpu_consensus.backends.cupy.source import all_kernels, assign_kernel

every_architecture = pytest.mark.parametrize(
    "architecture", ARCHITECTURES.values(), ids=lambda architecture: architecture.name
)


@pytest.fixture(scope="module")
def compiled():
    require_nvrtc()
    return compile_all()


@functools.cache
def all_launches(architecture):
    """Return every launch of the backend for many sizes."""
    return {
        launch
        for problem in TYPICAL + EXTREME
        for code in (np.uint8, np.uint16)
        if problem.n_labels <= np.iinfo(code).max
        for launch in record(architecture, problem, code)
    }


@every_architecture
def test_kernels_and_their_launches_fit(compiled, architecture):
    usages, _ = compiled
    launches = all_launches(architecture)
    found = [
        fault
        for kernel, taken in usages[architecture.number].items()
        for fault in faults(kernel, taken, architecture, launches)
    ]
    assert not found, "\n".join(found)


def test_no_warnings(compiled):
    _, warnings = compiled
    assert not warnings, "\n".join(warnings)


def test_the_gate_covers_exactly_what_is_launched():
    launched = {
        launch.kernel
        for architecture in ARCHITECTURES.values()
        for launch in all_launches(architecture)
    }
    assert launched == set(all_kernels())


def test_readme_tables_are_fresh(request):
    body = stored(SECTION)
    compiler, seen = stated(body)
    advice = f"cuda_kernels/README.md is stale; run: {COMMAND}"
    assert seen == fingerprint(), advice
    require_nvrtc()
    if compiler == version():  # another one may give other registers
        usages, _ = request.getfixturevalue("compiled")
        assert body == render(usages), advice


def test_spills_are_found():
    require_nvrtc()
    a100, kernel = ARCHITECTURES[80], assign_kernel("u8", 8, 1, 0)
    # four blocks of 512 threads leave 32 registers for a thread
    kernel = kernel._replace(defines=(*kernel.defines[:-1], ("MIN_BLOCKS", 4)))
    usages, _ = compile_one(kernel, a100)
    found = "\n".join(faults(kernel, usages["assign"], a100))
    assert "spill stores" in found
    assert "a stack of" in found


def test_missing_nvrtc_skips_but_fails_in_ci_on_linux(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(binding, "WHEEL", "no-such-wheel")
    binding._library.cache_clear()
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="install no-such-wheel"):
        require_nvrtc()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="install no-such-wheel"):
        require_nvrtc()
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(pytest.skip.Exception, match="install no-such-wheel"):
        require_nvrtc()


def test_warnings_are_found():
    require_nvrtc()
    text = 'extern "C" __global__ void __launch_bounds__(32) f() { int unused; }'
    done = compile_text(text, ("-arch=sm_80", "--ptxas-options=-v"))
    assert "never referenced" in "\n".join(complaints(done.log))


def test_errors_show_the_options_and_the_log():
    require_nvrtc()
    with pytest.raises(CompileError, match=r"-arch=sm_80:\s.*no_such_header"):
        compile_text('#include "no_such_header.h"', ("-arch=sm_80",))


def test_limits_are_found():
    a100 = ARCHITECTURES[80]
    kernel = assign_kernel("u8", 8, 1, 0)
    fine = Usage(64, 0, 0, 0, 0, max_threads=512, min_blocks=2)
    launches = record(a100, Problem(10), np.uint8)
    assert faults(kernel, fine, a100, launches) == []
    for broken, words in (
        ({"registers": 65}, "1 blocks together, 2 promised"),
        ({"registers": 129}, "69632 registers for a block"),
        ({"shared": 30_000}, "30000 + 140928 bytes of shared memory"),
        ({"max_threads": 256}, "launched with 512 threads"),
    ):
        found = faults(kernel, fine._replace(**broken), a100, launches)
        assert words in "\n".join(found)


# blocks per multiprocessor as NVIDIA's occupancy calculator gives them
@pytest.mark.parametrize(
    ("number", "registers", "threads", "shared", "blocks"),
    [
        (70, 32, 1024, 0, 2),
        (75, 32, 1024, 0, 1),
        (80, 255, 256, 0, 1),
        (80, 40, 256, 0, 6),
        (80, 32, 32, 0, 32),
        (80, 32, 128, 48 << 10, 3),
        (86, 32, 32, 0, 16),
        (89, 32, 32, 0, 24),
        (90, 168, 384, 0, 1),
        (90, 32, 256, 113 << 10, 2),
        (120, 32, 128, 99 << 10, 1),
    ],
)
def test_blocks_together(number, registers, threads, shared, blocks):
    together = ARCHITECTURES[number].blocks_together(registers, threads, shared)
    assert together == blocks
