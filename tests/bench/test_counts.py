"""Instructions per lookup: what is kept in the docs, and how it is made."""

import re
import shutil
from pathlib import Path

import pytest

from bench import cli, kernel_driver, speed, speed_counts
from bench.speed_counts import count_instructions, stored_counts, with_section
from bench.suite import Column, Context, Table
from gpu_consensus.backends.native import library

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "speed.md"
WITHIN = 0.05
REASON = library.why_unavailable()
needs_library = pytest.mark.skipif(REASON is not None, reason=str(REASON))


def compiler_of(build):
    """Return level, compiler and its major version."""
    return re.match(r"([\w-]+), (\w+) (\d+)\.", build).groups()


def test_every_kernel_has_its_counts_in_the_docs():
    build, numbers = stored_counts(PAGE.read_text(encoding="utf-8"))
    kept = {kernel for kernel, _, _ in numbers}
    assert kept == set(kernel_driver.kernels()), "python -m bench.speed_counts"
    assert compiler_of(build)[0] == speed_counts.LEVEL
    assert all(number > 0 for number in numbers.values())


def table_of(value):
    columns = [Column(name, name) for name in ("kernel", "arguments", "lookup")]
    row = {"kernel": "a", "arguments": "x", "lookup": "entry", "R=1": value}
    return Table(
        "counts",
        speed_counts.TITLE,
        [*columns, Column("R=1", "R=1", ".4f")],
        [row],
        notes=["a note", "Library: x86-64-v3, gcc 12.2.0, -O3."],
    )


@pytest.mark.parametrize("after", ["", "\n## Another\n\nText.\n"])
def test_a_section_is_written_and_read(after):
    page = with_section("# A page\n\nWords.\n", table_of(1.5)) + after
    assert stored_counts(page)[1] == {("a", "x", "R=1"): 1.5}
    changed = with_section(page, table_of(2.25))
    build, numbers = stored_counts(changed)
    assert numbers == {("a", "x", "R=1"): 2.25}
    assert build == "x86-64-v3, gcc 12.2.0, -O3"
    assert changed == page.replace("1.5000", "2.2500")


def test_a_page_without_the_section_is_told():
    with pytest.raises(ValueError, match="should have a section"):
        stored_counts("# A page\n")


@needs_library
@pytest.mark.parametrize(
    ("missing", "words"), [("valgrind", "no valgrind"), ("cc", "no C compiler")]
)
def test_what_is_missing_is_told_in_one_line(monkeypatch, capsys, missing, words):
    found = {"valgrind": "/bin/valgrind", "cc": "/bin/cc"} | {missing: None}
    monkeypatch.setattr(shutil, "which", found.get)
    (table,) = speed.run(Context(counts=True))
    (skipped,) = table.skipped
    assert words in skipped.reason
    assert "install" in skipped.reason
    assert cli.main(["speed", "--counts"]) == 0
    (line,) = [x for x in capsys.readouterr().err.splitlines() if words in x]
    assert line.startswith("bench: instructions per lookup: ")


def test_counts_belong_to_speed(capsys):
    assert cli.main(["papers", "--counts"]) == 2
    assert "--counts belongs to the suite speed" in capsys.readouterr().err


@pytest.mark.slow
@needs_library
def test_counts_are_those_of_the_docs():
    """A change that costs instructions is seen however busy the machine is."""
    kept, numbers = stored_counts(PAGE.read_text(encoding="utf-8"))
    try:
        build, counted = count_instructions()
    except speed_counts.CannotCount as error:
        pytest.skip(str(error))
    if compiler_of(build) != compiler_of(kept):
        pytest.skip(f"the docs have counts of {kept}, and this library is {build}")
    found = {
        (one.kernel, one.arguments, one.shape): one.instructions / one.lookups
        for one in counted
    }
    assert found.keys() == numbers.keys(), "python -m bench.speed_counts docs/speed.md"
    changed = {
        key: (numbers[key], round(value, 4))
        for key, value in found.items()
        if abs(value / numbers[key] - 1) > WITHIN
    }
    assert not changed, "python -m bench.speed_counts docs/speed.md"
