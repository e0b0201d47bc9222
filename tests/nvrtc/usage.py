"""What the assembler (ptxas -v) and the PTX say of a kernel."""

import re
from typing import NamedTuple

_FUNCTION = re.compile(
    r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
)
_ENTRY = re.compile(r"Compiling entry function '(\w+)'")
_BOUNDS = re.compile(
    r"\.entry\s+(\w+)\([^)]*\)\s*\.maxntid (\d+)(?:, 1, 1)?(?:\s*\.minnctapersm (\d+))?"
)
_REPORT = re.compile(r"ptxas +(info +:|\.)")
_OLD = re.compile(
    r"nvrtc: warning: Architectures prior to '<compute/sm>_75' are deprecated"
)


class Usage(NamedTuple):
    """What one kernel takes on one architecture."""

    registers: int
    shared: int  # bytes declared in the text; a launch may add to them
    stack: int
    spill_stores: int
    spill_loads: int
    max_threads: int  # of a block, by __launch_bounds__
    min_blocks: int  # that it promises on a multiprocessor; 1 where it is silent


def read_usage(ptx: str, log: str) -> dict[str, Usage]:
    """Return the usage of every entry point.

    >>> log = '''ptxas info : Compiling entry function 'f' for 'sm_80'
    ... ptxas info : Function properties for f
    ... ptxas . 8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
    ... ptxas info : Used 31 registers, used 1 barriers, 8448 bytes smem'''
    >>> ptx = '''.visible .entry f(.param .u64 p)
    ... .maxntid 256, 1, 1
    ... .minnctapersm 4'''
    >>> read_usage(ptx, log)["f"]._asdict()
    {'registers': 31, 'shared': 8448, 'stack': 8, 'spill_stores': 4, 'spill_loads': 4, \
'max_threads': 256, 'min_blocks': 4}
    """
    bounds = {
        name: (int(threads), int(blocks or 1))
        for name, threads, blocks in _BOUNDS.findall(ptx)
    }
    _, *parts = _ENTRY.split(log)
    return {
        name: _one(report, *bounds.get(name, (1024, 1)))
        for name, report in zip(parts[::2], parts[1::2], strict=True)
    }


def _one(report: str, max_threads: int, min_blocks: int) -> Usage:
    (registers,) = re.findall(r"Used (\d+) registers", report)
    shared = re.findall(r"(\d+) bytes smem", report)
    # functions that were not inlined have a line of their own
    functions = [[int(n) for n in found] for found in _FUNCTION.findall(report)]
    stack, stores, loads = map(max, zip(*functions, strict=True))
    return Usage(
        registers=int(registers),
        shared=int(shared[0]) if shared else 0,
        stack=stack,
        spill_stores=stores,
        spill_loads=loads,
        max_threads=max_threads,
        min_blocks=min_blocks,
    )


def complaints(log: str) -> list[str]:
    """Return the lines that are no report; that sm_70 grows old is known.

    >>> complaints("ptxas info    : 0 bytes gmem\\nkernel.cu(3): warning #177-D: x")
    ['kernel.cu(3): warning #177-D: x']
    """
    return [
        line
        for line in log.splitlines()
        if line.strip() and not _REPORT.match(line) and not _OLD.match(line)
    ]
