"""Instructions per lookup of every kernel, which do not depend on the machine's load.

``python -m bench.speed_counts docs/speed.md`` writes the section of that page anew.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from gpu_consensus.backends.native import library

from .kernel_driver import compile_driver, find_compiler
from .render import render_table
from .suite import Column, Context, Skipped, Table

TITLE = "Instructions per lookup"
LEVEL = "x86-64-v3"
"""Valgrind knows no AVX-512, so that it cannot run the highest level."""


class CannotCount(RuntimeError):
    """Instructions cannot be counted here; the message says what to install."""


class Counted(NamedTuple):
    """What one kernel took on one shape."""

    kernel: str
    arguments: str
    shape: str
    lookups: int
    lookup: str
    instructions: int


def counts_table(context: Context) -> Table:
    """Count the instructions of every kernel, or say why that cannot be done here."""
    heads = [
        ("kernel", "kernel"),
        ("arguments", "arguments"),
        ("lookup", "a lookup is"),
    ]
    table = Table("counts", TITLE, [Column(*head) for head in heads])
    try:
        with context.progress("instructions", None):
            build, counted = count_instructions()
    except CannotCount as error:
        table.skipped = [Skipped(TITLE.lower(), str(error))]
        return table
    shapes = list(dict.fromkeys(one.shape for one in counted))
    table.columns += [Column(shape, shape, ".4f") for shape in shapes]
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for one in counted:
        row = rows.setdefault(
            (one.kernel, one.arguments),
            {"kernel": one.kernel, "arguments": one.arguments, "lookup": one.lookup},
        )
        row[one.shape] = one.instructions / one.lookups
    table.rows = list(rows.values())
    table.notes = [
        "n=2,000, r=50, half of the labels at random, 2% missing; codes of 8 bits up "
        "to 255 labels, else 16. One call on one thread by the program in "
        "bench/kernels, which callgrind counts from the call to the return.",
        f"Library: {build}.",
    ]
    return table


def count_instructions() -> tuple[str, list[Counted]]:
    """Return level, compiler and flags of the library, and what its kernels take."""
    level = LEVEL if LEVEL in library.levels() else "".join(library.levels()[-1:])
    reason = library.why_unavailable()
    if reason is None and not (library.FOLDER / library.file_name(level)).is_file():
        reason = f"the package has no library for {level}; install it again"
    if reason is None and library.load(level).level != level:
        reason = f"this processor cannot run the library for {level}"
    compiler, valgrind = find_compiler(), shutil.which("valgrind")
    if reason is None and compiler is None:
        reason = "there is no C compiler; install one (Debian: build-essential)"
    if reason is None and valgrind is None:
        reason = "there is no valgrind; install it (Debian: valgrind)"
    if reason is not None or compiler is None or valgrind is None:
        raise CannotCount(str(reason))
    used = library.load(level)
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "driver")
        try:
            flags = ["-O2", "-DDRIVER_COUNTS"]
            compile_driver([compiler], program, [used.path], flags)
        except RuntimeError as error:
            raise CannotCount(str(error)) from error
        return f"{used.level}, {used.build}", _run(valgrind, program)


def _run(valgrind: str, program: Path) -> list[Counted]:
    """Run the program under callgrind; it writes one file for each line printed."""
    dump = program.with_name("dump")
    options = ["--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={dump}"]
    done = subprocess.run(
        [valgrind, *options, str(program), "count"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CannotCount(f"valgrind failed: {done.stderr.strip()[-300:]}")
    found = []
    for number, line in enumerate(done.stdout.splitlines(), 1):
        kernel, arguments, shape, lookups, lookup = line.split("\t")
        text = Path(f"{dump}.{number}").read_text(encoding="utf-8")
        total = re.search(r"^totals: (\d+)$", text, re.MULTILINE)
        trigger = f"desc: Trigger: Client Request: {kernel}\n"
        if total is None or trigger not in text:
            raise CannotCount(f"callgrind wrote no count for {kernel}")
        found.append(
            Counted(kernel, arguments, shape, int(lookups), lookup, int(total[1]))
        )
    return found


def stored_counts(page: str) -> tuple[str, dict[tuple[str, str, str], float]]:
    """Return the library and the numbers of the section of a page.

    Keys are kernel, arguments and shape.
    """
    section = _section().search(page)
    if section is None:
        raise ValueError(f"the page should have a section {TITLE!r}.")
    lines = section[0].splitlines()
    grid = [line[2:-2].split(" | ") for line in lines if line.startswith("| ")]
    build = [line for line in lines if line.startswith("- Library: ")]
    if len(grid) < 3 or len(build) != 1:
        raise ValueError(f"the section {TITLE!r} should have a table and its library.")
    numbers = {
        (row[0], row[1], shape): float(cell)
        for row in grid[2:]
        for shape, cell in zip(grid[0][3:], row[3:], strict=True)
        if cell != "-"
    }
    return build[0].removeprefix("- Library: ").removesuffix("."), numbers


def with_section(page: str, table: Table) -> str:
    """Return a page with this table as its section, at its end if it had none."""
    text = render_table(asdict(table)) + "\n"
    if _section().search(page) is None:
        return page.rstrip("\n") + "\n\n" + text
    return _section().sub(lambda match: text + match[1], page)


def _section() -> re.Pattern[str]:
    return re.compile(rf"^## {TITLE}\n.*?(\n(?=## )|\Z)", re.MULTILINE | re.DOTALL)


def main() -> None:
    """Write the section of a page anew."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_file():
        sys.exit(f"name the page: python -m {__package__}.speed_counts docs/speed.md")
    table = counts_table(Context())
    if table.skipped:
        sys.exit(f"nothing was written: {table.skipped[0].reason}.")
    path = Path(sys.argv[1])
    page = path.read_text(encoding="utf-8")
    path.write_text(with_section(page, table), encoding="utf-8")


if __name__ == "__main__":
    main()
