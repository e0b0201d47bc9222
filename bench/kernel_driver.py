"""Compile and call the program in ``kernels/``, which runs every kernel of the library.

It needs a C compiler. Its prototypes are written from the signatures by which Python
calls the library, and it is linked with a library as it is installed, or compiled
together with the library's sources.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from gpu_consensus.backends.native import library

FOLDER = Path(__file__).parent / "kernels"
_TYPES = {"p": "void*", "i": "int64_t", "d": "double", "s": "const char*", "v": "void"}
_FLAGS = ["-std=c11", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror"]


def kernels() -> list[str]:
    """Return the functions of the library that read or write arrays."""
    found = library.signatures().items()
    return [name for name, (_, arguments) in found if "p" in arguments]


def prototypes() -> str:
    """Return a header with every function of the library."""
    lines = ["#include <stdint.h>"]
    for name, (result, arguments) in library.signatures().items():
        inside = ", ".join(_TYPES[kind] for kind in arguments) or "void"
        lines.append(f"{_TYPES[result]} gpc_{name}({inside});")
    return "\n".join(lines) + "\n"


def find_compiler() -> str | None:
    """Return the C compiler of this machine, if it has one."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def compile_driver(
    compiler: Sequence[str],
    path: Path,
    kernels: Sequence[Path],
    flags: Sequence[str] = ("-O1",),
) -> Path:
    """Compile the program; an error carries what the compiler said.

    Parameters
    ----------
    compiler : sequence of str
        Its command.
    path : Path
        What to write; a header is written beside it.
    kernels : sequence of Path
        One library, or the sources of one.
    flags : sequence of str
        Added to those that it always has.
    """
    header = path.parent / f"{path.name}-signatures"
    header.mkdir()
    (header / "signatures.h").write_text(prototypes(), encoding="utf-8")
    files = [*sorted(FOLDER.glob("*.c")), *kernels]
    command = [*compiler, *_FLAGS, f"-I{header}", *flags, *map(str, files)]
    done = subprocess.run(
        [*command, "-o", str(path), "-pthread"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{compiler[0]} cannot compile the driver: {done.stderr}")
    return path
