"""Compile the C library of the CPU backend for every level, with warnings as errors.

It uses the compilers and flags of ``hatch_build.py``, which needs hatchling
(``pip install -e ".[test]"``), and keeps nothing. Where there is no compiler it says so
and ends well.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))


def main() -> None:
    """Compile with the compiler that a build would try first."""
    import hatch_build

    compilers = hatch_build.compilers() + hatch_build.zig()
    levels = hatch_build.machine_levels()
    if not compilers or not levels:
        lacking = "no C compiler" if levels else "no level of this kind of machine"
        print(f"skipped: there is {lacking}, so the C library was not compiled")
        return
    compiler = compilers[0]
    files = sorted((ROOT / hatch_build.SOURCES).glob("*.c"))
    broken = False
    for level in levels:
        flags = [*hatch_build.FLAGS, *hatch_build.target_flags(compiler, level)]
        if sys.platform != "win32":
            flags.append("-fPIC")
        print(f"{shlex.join(compiler)} for {level}, {len(files)} files", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            command = [*compiler, *flags, "-Werror", "-c", *map(str, files)]
            broken |= bool(subprocess.run(command, cwd=folder, check=False).returncode)
    sys.exit(broken)


if __name__ == "__main__":
    main()
