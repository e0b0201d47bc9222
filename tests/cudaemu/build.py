"""Compile CUDA text with g++, with a cache on disk."""

import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from cudaemu.errors import CompileException
from cudaemu.source import find_kernels, rewrite_shared

HERE = Path(__file__).parent
COMMON = ["-fPIC", "-ffp-contract=off", "-fvisibility=hidden", "-w"]
# addr2line (binutils 2.40) mixes up file names in version 5.
COMMON += ["-gdwarf-4"]
# Template statics would otherwise be one object across all loaded files: a mutant would
# run on the shared memory of the kernel it was made from.
COMMON += ["-fno-gnu-unique"]
UNINITIALISED = ["-ftrivial-auto-var-init=pattern"]
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
FLAGS = {
    "fast": ["-O2", "-g1"],
    "asan": ["-O1", "-g", *SANITIZE, "-fno-omit-frame-pointer"],
    "check": ["-O1", "-g", "-DEMU_CHECK"],
}
# Only for kernels, and libtsan is never linked: the hooks are in checker.cpp.
HOOKS = ["-fsanitize=thread", "--param", "tsan-instrument-func-entry-exit=0"]
SOURCES = ["fiber.cpp", "runtime.cpp", "watch.cpp"]
CHECK_SOURCES = ["checker.cpp", "traffic.cpp"]
# What NVRTC defines. g++ leaves these names alone.
PREDEFINED = ["-D__CUDACC__", "-D__CUDACC_RTC__"]
# NVRTC options without a meaning on the CPU.
IGNORED = (
    "--fmad=false", "-fmad=false", "-ftz=", "--ftz=", "-lineinfo", "-w", "--restrict",
    "--generate-line-info", "-arch=", "--gpu-architecture=", "--ptxas-options=",
    "-default-device", "--device-as-default-execution-space",
)  # fmt: skip  # one name a line would hide the rest


def why_no_compiler() -> str:
    """Return why kernels cannot be compiled here, or an empty string."""
    if sys.platform != "linux":
        return f"the emulator is written for Linux, and this is {sys.platform}"
    missing = [tool for tool in ("g++", "addr2line") if shutil.which(tool) is None]
    return f"{' and '.join(missing)} not found" if missing else ""


def require_compiler() -> None:
    """Skip the test where g++ is missing; in CI (CI=true) on Linux fail instead."""
    import pytest  # slow, and processes in asan mode need it not

    reason = why_no_compiler()
    if reason and os.environ.get("CI") == "true" and sys.platform == "linux":
        pytest.fail(f"CI must emulate CUDA kernels: {reason}.")
    if reason:
        pytest.skip(f"cannot emulate CUDA kernels: {reason}.")


@functools.cache
def cache_folder() -> Path:
    """Return the folder of compiled files: CUDAEMU_CACHE, or in the user's cache."""
    user = os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")
    folder = Path(os.environ.get("CUDAEMU_CACHE", Path(user) / "gpu-consensus-cudaemu"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="cudaemu-"))
    return folder


@functools.cache
def _runtime_key() -> str:
    """Hash everything besides the kernel's text that decides what it becomes."""
    digest = hashlib.sha256()
    for path in sorted([*HERE.glob("*.h"), *HERE.glob("*.cpp"), HERE / "build.py"]):
        digest.update(path.name.encode() + path.read_bytes())
    version = subprocess.run(["g++", "--version"], capture_output=True, check=True)
    return hashlib.sha256(digest.digest() + version.stdout).hexdigest()[:20]


def _run(command: list[str | Path], folder: Path | None = None) -> str:
    """Run the compiler; return its log, empty when all went well."""
    words = [str(word) for word in command]
    # in asan mode this process carries a preloaded library that would slow g++ down
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, cwd=folder, env=environment
    )
    return "" if done.returncode == 0 else done.stderr or f"exit code {done.returncode}"


def _link_into_place(target: Path, command: list[str | Path]) -> str:
    """Write to another name first: other processes may build the same file."""
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        product = Path(folder) / target.name
        log = _run([*command, "-o", product])
        if not log:
            product.replace(target)
    return log


@functools.cache
def runtime_library(mode: str) -> Path:
    """Return the compiled runtime of a mode: fibers, scheduler, checker."""
    target = cache_folder() / f"runtime-{mode}-{_runtime_key()}.so"
    if not target.exists():
        names = SOURCES + (CHECK_SOURCES if mode == "check" else [])
        # the checker runs once per access, so it is optimised also in check mode
        flags = [
            "-std=c++17",
            *COMMON,
            *FLAGS[mode],
            "-O2",
            "-shared",
            "-Wl,-Bsymbolic",
        ]
        sources = [HERE / name for name in names]
        log = _link_into_place(target, ["g++", *flags, *sources, "-lrt"])
        if log:
            raise RuntimeError(f"the emulator's runtime does not compile:\n{log}")
    return target


def translate_options(options: Iterable[str]) -> list[str]:
    """Return the g++ options for NVRTC options; raise ValueError for unknown ones."""
    translated, standard = [], "-std=c++17"
    for option in options:
        if option.startswith("-D"):
            translated.append(option)
        elif option.startswith("--define-macro="):
            translated.append("-D" + option.removeprefix("--define-macro="))
        elif option.startswith(("-std=", "--std=")):
            standard = "-" + option.lstrip("-")
        elif not option.startswith(IGNORED):
            raise ValueError(f"nvrtc: error: unrecognized option {option!r}")
    return [standard, *translated]


def build(
    code: str,
    mode: str,
    options: tuple[str, ...] = (),
    compute_capability: str = "80",
) -> Path:
    """Compile CUDA text and return the shared library.

    Kernels are the ``extern "C"`` ones, also those that macros make.
    """
    try:
        flags = translate_options(options)
    except ValueError as error:
        raise CompileException(str(error), code, "kernel.cu", options) from None
    flags += PREDEFINED
    if "__CUDA_ARCH__" in code:
        flags.append(f"-D__CUDA_ARCH__={compute_capability}0")
    parts = [code, mode, *flags, "--", _runtime_key()]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]
    target = cache_folder() / f"{mode}-{key}.so"
    if target.exists():
        return target
    with tempfile.TemporaryDirectory() as folder:
        log = _compile(code, mode, flags, target, Path(folder))
    if log:
        raise CompileException(log, code, "kernel.cu", options)
    return target


def _compile(code: str, mode: str, flags: list[str], target: Path, folder: Path) -> str:
    original, rewritten = folder / "kernel.cu", folder / "kernel.cpp"
    expanded = folder / "expanded.cpp"
    original.write_text(code)
    # Macros make most of our kernels, so names are read from the preprocessed text;
    # what is compiled keeps its macros and its line numbers.
    log = _run(["g++", *flags, "-x", "c++", "-E", "-P", original, "-o", expanded])
    if log:
        return log
    kernels = find_kernels(expanded.read_text()).items()
    table = "".join(f'EMU_KERNEL("{n}", {limit}, {n})\n' for n, limit in kernels)
    try:
        body = rewrite_shared(code)
    except ValueError as error:
        return f"kernel.cu: {error}"
    rewritten.write_text(
        f'#include "{HERE}/cuda_emu.h"\n#line 1 "kernel.cu"\n{body}\n'
        f'#line 1 "kernel table"\n'
        f"EMU_API const emu::Kernel emu_kernels[];\n"
        f"const emu::Kernel emu_kernels[] = {{{table}{{}}}};\n"
    )
    flags = [*flags, *COMMON, *FLAGS[mode], *UNINITIALISED]
    flags += HOOKS if mode == "check" else []
    compiled = folder / "kernel.o"
    # debug information names kernel.cu relative to where the compiler runs
    log = _run(["g++", *flags, "-c", rewritten, "-o", compiled], folder)
    if log:
        return log
    link = ["g++", "-shared", *(SANITIZE if mode == "asan" else [])]
    return _link_into_place(target, [*link, compiled, runtime_library(mode)])
