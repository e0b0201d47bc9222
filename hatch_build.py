"""Build hook: compile the C library of the CPU backend, or say why it is left out.

``python hatch_build.py`` compiles it beside its sources, as an editable install does.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = "gpu_consensus/backends/native"
FLAGS = [
    "-std=c11",
    "-O3",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
]
_X86 = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
_ARM = ("aarch64",)
_LEVELS = {"x86_64": _X86, "amd64": _X86, "aarch64": _ARM, "arm64": _ARM}
_MACOS = "11.0"  # the oldest that a library runs on
_GLIBC = "2.17"  # likewise, where zig links: it knows the symbols of each


class CannotCompile(RuntimeError):
    """There is no library; the message says why."""


class NativeBuildHook(BuildHookInterface[Any]):
    """Put the library into wheels, and beside the sources of an editable install."""

    def dependencies(self) -> list[str]:
        """Ask for zig, a compiler in a wheel, only where there is no other."""
        needed = not is_off() and machine_levels() and not compilers()
        return ["ziglang>=0.13"] if needed else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and give the wheel the tag of this platform; or leave it pure."""
        try:
            if version == "editable":
                paths = compile_all(Path(self.root, SOURCES), Path(self.root, SOURCES))
                self.app.display_info(f"compiled {', '.join(p.name for p in paths)}")
                return
            self._folder = tempfile.TemporaryDirectory()
            folder = Path(self._folder.name)
            paths = compile_all(Path(self.root, SOURCES), folder)
        except CannotCompile as error:
            self.app.display_warning(
                f"gpu-consensus is built without its compiled code ({error}); NumPy "
                "does the work, several times slower."
            )
            return
        for path in paths:
            build_data["force_include"][str(path)] = f"{SOURCES}/{path.name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag()}"


def is_off() -> bool:
    """Whether the caller wants no compiled code."""
    return os.environ.get("GPU_CONSENSUS_NATIVE", "").strip() == "0"


def machine_levels() -> tuple[str, ...]:
    """Return the levels of this kind of machine; none where we have no code."""
    return _LEVELS.get(platform.machine().lower(), ())


def compilers() -> list[list[str]]:
    """Return the commands of the compilers here, the one to try first first."""
    if sys.platform == "win32":  # MSVC knows no vectors of ours
        return []
    asked = shlex.split(os.environ.get("CC", ""))
    names = [asked, ["cc"], ["gcc"], ["clang"]]
    return [name for name in names if name and shutil.which(name[0])]


def zig() -> list[list[str]]:
    """Return the command of zig's compiler, if its wheel is installed."""
    found = importlib.util.find_spec("ziglang") is not None
    return [[sys.executable, "-m", "ziglang", "cc"]] if found else []


def uses_zig(compiler: list[str]) -> bool:
    """Whether the compiler is zig, which names processors its own way."""
    return "ziglang" in compiler or Path(compiler[0]).stem == "zig"


def is_glibc() -> bool:
    """Whether this is a Linux with glibc."""
    return sys.platform == "linux" and platform.libc_ver()[0] == "glibc"


def target_flags(compiler: list[str], level: str) -> list[str]:
    """Return the flags that choose the processor and the system."""
    zigs = uses_zig(compiler)
    flags = [f"-march={level.replace('-', '_') if zigs else level}"]
    if level == "aarch64":
        flags = [] if zigs else ["-march=armv8-a"]
    if sys.platform == "darwin":
        flags.append(f"-mmacosx-version-min={_MACOS}")
    elif zigs:
        machine = "aarch64" if level == "aarch64" else "x86_64"
        system = "windows-gnu" if sys.platform == "win32" else "linux-musl"
        system = f"linux-gnu.{_GLIBC}" if is_glibc() else system
        flags += ["-target", f"{machine}-{system}"]
    return flags


def platform_tag() -> str:
    """Return the platform of a wheel with our library, which needs libc alone."""
    machine = platform.machine().lower()
    if sys.platform == "win32":
        return "win_arm64" if machine == "arm64" else "win_amd64"
    if sys.platform == "darwin":
        return f"macosx_{_MACOS.replace('.', '_')}_{machine}"
    if compilers() or not is_glibc():
        return f"linux_{machine}"
    return f"manylinux_{_GLIBC.replace('.', '_')}_{machine}.manylinux2014_{machine}"


def compile_level(compiler: list[str], level: str, sources: Path, folder: Path) -> Path:
    """Compile one library; an error carries what the compiler said."""
    suffix = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
    path = folder / f"gpc-{level}{suffix}"
    flags = FLAGS + target_flags(compiler, level)
    if sys.platform != "win32":
        flags.append("-fPIC")
    told = " ".join(flags)
    files = [str(file) for file in sorted(sources.glob("*.c"))]
    # written elsewhere first: a process may have the old library loaded
    with tempfile.TemporaryDirectory(dir=folder) as aside:
        made = Path(aside, path.name)
        command = [*compiler, *flags, f'-DGPC_BUILD="{told}"', "-shared"]
        if uses_zig(compiler):
            command.append('-DGPC_COMPILER=" of zig"')
        if sys.platform != "darwin":
            command.append("-s")  # no names for debuggers: zig would triple the size
        done = subprocess.run(
            [*command, *files, "-o", str(made)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode or not made.is_file():
            lines = (done.stderr or done.stdout).strip().splitlines()
            errors = [line for line in lines if "error" in line] or lines or ["nothing"]
            raise CannotCompile(f"{shlex.join(compiler)} said: {errors[0]}")
        made.replace(path)
    return path


def compile_all(sources: Path, folder: Path) -> list[Path]:
    """Compile the libraries of all levels into a folder.

    The first compiler that does the lowest level does all. A level that it does not
    know is left out: the one below serves.
    """
    if is_off():
        raise CannotCompile("GPU_CONSENSUS_NATIVE=0")
    levels = machine_levels()
    if not levels:
        raise CannotCompile(f"there is none for {platform.machine()}")
    reason = "no C compiler was found, and no ziglang wheel"
    for compiler in compilers() + zig():
        with ThreadPoolExecutor(len(levels)) as pool:
            jobs = [
                pool.submit(compile_level, compiler, level, sources, folder)
                for level in levels
            ]
        failed = [job.exception() for job in jobs]
        for error in failed:
            if error is not None and not isinstance(error, (CannotCompile, OSError)):
                raise error
        if failed[0] is None:
            return [job.result() for job in jobs if job.exception() is None]
        reason = str(failed[0])
    raise CannotCompile(reason)


if __name__ == "__main__":
    here = Path(__file__).parent / SOURCES
    try:
        for made in compile_all(here, here):
            sys.stdout.write(f"{made.name}\n")
    except CannotCompile as error:
        sys.exit(f"nothing was compiled: {error}.")
