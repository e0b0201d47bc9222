"""The kernels of the C library under sanitizers, on every level, on another processor.

Most of it runs the program in ``bench/kernels``, which has a case for every kernel; the
rest runs the tests of the backend on a library that watches every access.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import kernel_driver
from gpu_consensus.backends.native import library

REASON = library.why_unavailable()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))
SOURCES = sorted(library.FOLDER.glob("*.c"))
GCC = shutil.which("gcc")
FLAGS = ["-O0", "-g", "-fno-math-errno"]
WATCHED = [
    "-fsanitize=address,undefined,float-cast-overflow",
    "-fno-sanitize-recover=all",
]
SHAPES = ["few", pytest.param("all", marks=pytest.mark.slow)]


def march(level: str) -> list[str]:
    return [f"-march={level}"] if level in library.X86_LEVELS else []


def usable_levels() -> list[str]:
    """Levels of which there is a library that this processor runs."""
    present = [
        name
        for name in library.levels()
        if (library.FOLDER / library.file_name(name)).is_file()
    ]
    return [name for name in present if library.load(name).level == name]


def run(program: Any, *arguments: Any, **options: Any) -> Any:
    command = [*(program if isinstance(program, list) else [program]), *arguments]
    return subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def digests(program: Any, shapes: str, n_threads: int = 1, **options: Any) -> str:
    """Return a line for every case; the sanitizer says on failure what it saw."""
    done = run(program, "digest", shapes, n_threads, **options)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("\n") > 100
    return str(done.stdout)


def kinds(program: Any) -> dict[str, str]:
    """Return the kernels with a case; "shared" if ranges write to the same arrays."""
    done = run(program, "list")
    assert done.returncode == 0, done.stderr
    return dict(line.split("\t") for line in done.stdout.splitlines())


def need_sanitizer(name: str) -> str:
    """Return where gcc's library of a sanitizer is, or skip the test."""
    if GCC is None or sys.platform != "linux":
        pytest.skip("sanitizers are tried with gcc on Linux")
    found = str(run(GCC, f"-print-file-name=lib{name}.so").stdout).strip()
    if not Path(found).is_absolute():
        pytest.skip(f"gcc has no lib{name} here")
    return found


@pytest.fixture(scope="module")
def plain(tmp_path_factory: Any) -> Path:
    """The program with the library that users of this processor get."""
    compiler = kernel_driver.find_compiler()
    if compiler is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("plain")
    return kernel_driver.compile_driver(
        [compiler], folder / "driver", [library.load().path]
    )


@pytest.fixture(scope="module")
def watched_library(tmp_path_factory: Any) -> Path:
    """A library of the lowest level with AddressSanitizer and UBSan."""
    need_sanitizer("asan")
    level = library.levels()[0]
    path = Path(tmp_path_factory.mktemp("watched"), library.file_name(level))
    flags = ["-std=c11", *FLAGS, *WATCHED, "-ffp-contract=off", "-fPIC", "-shared"]
    flags += ["-Wall", "-Wextra", "-Werror", *march(level)]
    done = run(GCC, *flags, *SOURCES, "-o", path)
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture(scope="module")
def watched(watched_library: Path) -> Path:
    """The program with that library."""
    folder = watched_library.parent
    return kernel_driver.compile_driver(
        [str(GCC)], folder / "driver", [watched_library], [*FLAGS, *WATCHED]
    )


def test_every_kernel_has_a_case(plain: Path) -> None:
    assert sorted(kinds(plain)) == sorted(kernel_driver.kernels())
    text = "".join(file.read_text() for file in kernel_driver.FOLDER.glob("*.c"))
    called = set(re.findall(r"\bgpc_(\w+)\(", text))
    assert called == set(library.signatures())


def test_the_program_is_linked_with_the_library_it_names(plain: Path) -> None:
    abi, _, build = run(plain, "about").stdout.strip().split("\t")
    assert int(abi) == library.ABI
    assert build == library.load().build


@pytest.mark.parametrize("shapes", SHAPES)
def test_levels_and_threads_agree(plain: Path, tmp_path: Path, shapes: str) -> None:
    expected = digests(plain, shapes)
    for n_threads in (2, 4):
        assert digests(plain, shapes, n_threads) == expected
    for level in usable_levels():
        path = library.FOLDER / library.file_name(level)
        program = kernel_driver.compile_driver(
            [str(kernel_driver.find_compiler())], tmp_path / level, [path]
        )
        assert digests(program, shapes) == expected, level


SAME_WORK = [
    {("assign", "plain"), ("assign_screened", "plain"), ("assign_screened", "apart")},
    {("count_rows", "all"), ("count_each", "all")},
    {("climb", "from-codes"), ("climb", "stored-8"), ("climb", "stored-16")},
]


@pytest.mark.parametrize("shapes", SHAPES)
def test_kernels_that_do_the_same_work_agree(plain: Path, shapes: str) -> None:
    lines = [line.split("\t") for line in digests(plain, shapes).splitlines()]
    for forms in SAME_WORK:
        found: dict[str, list[str]] = {}
        for kernel, arguments, shape, digest in lines:
            if (kernel, arguments) in forms:
                found.setdefault(shape, []).append(digest)
        assert all(len(set(each)) == 1 for each in found.values()), forms
        assert max(map(len, found.values())) == len(forms)


def test_sanitizers_find_nothing_in_a_few_shapes(watched: Path, plain: Path) -> None:
    assert digests(watched, "few") == digests(plain, "few")


def test_sanitizers_notice_a_range_that_is_too_long(watched: Path) -> None:
    missed = {
        kernel
        for kernel, kind in kinds(watched).items()
        if kind != "whole"
        and "ERROR: AddressSanitizer" not in run(watched, "overrun", kernel, 1).stderr
    }
    assert not missed


FEW = (
    "views or objects or ipc_sweep or climbs or best and (n70 or own_layout)"
    " or empty_cluster or fewer_clusters or mended and 7"
)


def all_of_the_lowest() -> str:
    """Choose every test but those of levels that the watched library has not."""
    others = library.levels()[1:]
    return " and ".join(f"not {level}" for level in others) or "not none"


@pytest.mark.parametrize("shapes", SHAPES)
def test_sanitizers_find_nothing_from_python(
    watched_library: Path, shapes: str
) -> None:
    """Views, read-only and unaligned arrays, no object and one, as Python has them."""
    here = Path(__file__)
    tests = [here.with_name(f"test_native{part}.py") for part in ("", "_kmeans")]
    chosen = FEW if shapes == "few" else all_of_the_lowest()
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", "-k", chosen]
    done = run(
        [sys.executable, "-m", "pytest", *options],
        *tests,
        env={
            **os.environ,
            "GPU_CONSENSUS_TEST_LIBRARY": str(watched_library),
            "LD_PRELOAD": need_sanitizer("asan"),
            "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0",
            "PYTHONMALLOC": "malloc",
        },
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " passed" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("level", library.levels())
def test_sanitizers_find_nothing_in_any_shape(
    level: str, plain: Path, tmp_path: Path
) -> None:
    """On every level: each has vectors of its own, and reads its own way past rows."""
    need_sanitizer("asan")
    if level not in usable_levels():
        pytest.skip(f"this processor has no {level}")
    flags = [*FLAGS, *WATCHED, *march(level)]
    program = kernel_driver.compile_driver(
        [str(GCC)], tmp_path / "driver", SOURCES, flags
    )
    assert digests(program, "all") == digests(plain, "all")


@pytest.fixture(scope="module")
def threaded(tmp_path_factory: Any) -> list[str]:
    """The command of the program under ThreadSanitizer."""
    need_sanitizer("tsan")
    level = library.levels()[0]  # threads are cut above the kernels, alike for all
    path = tmp_path_factory.mktemp("threaded") / "driver"
    flags = ["-O1", "-fno-math-errno", "-fsanitize=thread", *march(level)]
    kernel_driver.compile_driver([str(GCC)], path, SOURCES, flags)
    # older ones do not know how far newer systems spread the addresses of a process
    fixed = shutil.which("setarch")
    tried = [[str(path)], *([[fixed, "-R", str(path)]] if fixed else [])]
    for command in tried:
        if run(command, "list").returncode == 0:
            return command
    pytest.skip("ThreadSanitizer cannot start on this system")


RACE = "WARNING: ThreadSanitizer: data race"
FIRST = {**os.environ, "TSAN_OPTIONS": "halt_on_error=1:symbolize=0"}


def test_threads_do_not_race_in_a_few_shapes(threaded: Any, plain: Path) -> None:
    """And a race that is put in, by ranges that overlap, is seen."""
    assert digests(threaded, "few", 2, env=FIRST) == digests(plain, "few")
    assert RACE in run(threaded, "overlap", "assign", 2, env=FIRST).stderr


@pytest.mark.slow
@pytest.mark.parametrize("n_threads", [2, 4])
def test_threads_do_not_race(threaded: Any, plain: Path, n_threads: int) -> None:
    assert digests(threaded, "all", n_threads, env=FIRST) == digests(plain, "all")


@pytest.mark.slow
@pytest.mark.parametrize("n_threads", [2, 4])
def test_a_race_is_noticed_in_every_kernel(threaded: Any, n_threads: int) -> None:
    shared = [kernel for kernel, kind in kinds(threaded).items() if kind == "shared"]
    assert len(shared) > 10
    seen = [
        kernel
        for kernel in shared
        if RACE in run(threaded, "overlap", kernel, n_threads, env=FIRST).stderr
    ]
    assert seen == shared


def find_zig() -> list[str]:
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    found = shutil.which("zig")
    if found is None:
        pytest.skip("there is no zig to compile for aarch64; pip install ziglang")
    return [found, "cc"]


@pytest.mark.slow
def test_aarch64_agrees(plain: Path, tmp_path: Path) -> None:
    """Compiled by zig, with its libc, and run by an emulator of the processor."""
    emulator, compiler = shutil.which("qemu-aarch64"), find_zig()
    if emulator is None:
        pytest.skip("there is no qemu-aarch64 (Debian: qemu-user)")
    flags = ["-O3", "-fno-math-errno", "-target", "aarch64-linux-musl", "-static"]
    program = kernel_driver.compile_driver(
        compiler, tmp_path / "aarch64", SOURCES, flags
    )
    for n_threads in (1, 2):
        found = digests([emulator, program], "all", n_threads)
        assert found == digests(plain, "all")
