"""The generated part of ``cuda_kernels/README.md``."""

import hashlib
import itertools
import re
from collections.abc import Sequence

import numpy as np
from readme_tables import table

from gpu_consensus.backends.cupy.source import (
    all_kernels,
    measuring_kernels,
    source,
)
from nvrtc.architectures import ARCHITECTURES
from nvrtc.binding import version
from nvrtc.gate import Usages, cupy_options
from nvrtc.launches import TYPICAL, Launch, Problem, record

COMMAND = "PYTHONPATH=tests python -m nvrtc --write"
SECTION = "generated"
_SHOWN = tuple(ARCHITECTURES.values())
_LAUNCH_BOUNDS = ("THREADS", "MIN_BLOCKS")
_SEEN = re.compile(r"NVRTC (\S+), fingerprint `(\w+)`")


def fingerprint() -> str:
    """Return a hash of all that the tables depend on, but for the compiler."""
    digest = hashlib.sha256()
    for architecture in _SHOWN:
        digest.update(repr(architecture).encode())
        for kernel in all_kernels() + measuring_kernels():
            options = cupy_options(architecture)
            digest.update(repr((source(kernel.file), kernel, options)).encode())
        for problem in TYPICAL:
            launches = record(architecture, problem, np.uint8)
            # the tables do not show grids
            shown = {(x.kernel, x.threads, x.shared, x.allowed): None for x in launches}
            digest.update(repr(list(shown)).encode())
    return digest.hexdigest()[:16]


def stated(body: str) -> tuple[str, str]:
    """Return the compiler and the fingerprint that the file's generated text states."""
    seen = _SEEN.search(body)
    return seen.groups() if seen else ("", "")


def render(usages: Usages) -> str:
    """Return the generated text for the compiler that is installed here."""
    return f"""
NVRTC {version()}, fingerprint `{fingerprint()}`. Nothing here has run on a GPU: these
numbers are the compiler's report, and arithmetic.

### Registers of a thread

No form spills and none has a stack, on any architecture.

{_registers(usages)}

### Occupancy of typical launches

Warps on a multiprocessor in percent of those it can hold, by registers, threads and
shared memory; and the dynamic shared memory of a block. The launches are the backend's
own for n = 1,000,000 objects, r = 100 partitions with K_i labels each, 8-bit codes, and
10 clusters: 100 columns are ten restarts, 10 columns are one.

{_occupancy(usages)}

"""


def _registers(usages: Usages) -> str:
    header = ["form", "threads", "static shared", *(a.name for a in _SHOWN)]
    rows = []
    for kernel in all_kernels() + measuring_kernels():
        (shared,) = {usages[a.number][kernel].shared for a in _SHOWN}
        registers = [str(usages[a.number][kernel].registers) for a in _SHOWN]
        defines = [f"{k}={v}" for k, v in kernel.defines if k not in _LAUNCH_BOUNDS]
        form = f"`{kernel.name}` {', '.join(defines)}".rstrip()
        rows.append([form, str(kernel.threads), f"{shared} B", *registers])
    return table(header, rows)


def _occupancy(usages: Usages) -> str:
    header = ["kernel", "sizes", *(f"{a.name} ({a.device})" for a in _SHOWN)]
    cells: dict[str, dict[Problem, dict[int, str]]] = {}
    for problem, architecture in itertools.product(TYPICAL, _SHOWN):
        usage = usages[architecture.number]
        for launch in record(architecture, problem, np.uint8):
            taken = usage[launch.kernel]
            share = architecture.occupancy(
                taken.registers, launch.threads, taken.shared + launch.shared
            )
            row = cells.setdefault(_label(launch), {}).setdefault(problem, {})
            row[architecture.number] = _cell(launch, share)
    rows = []
    for label, by_problem in cells.items():
        same: dict[tuple[str, ...], list[Problem]] = {}
        for problem, row in by_problem.items():
            same.setdefault(tuple(row.values()), []).append(problem)
        rows += [[label, _describe(problems), *row] for row, problems in same.items()]
    return table(header, rows)


def _label(launch: Launch) -> str:
    """Name a launch without what the device decides."""
    name, defines = launch.kernel.name, launch.kernel.defines
    if name == "assign":
        chosen = dict(defines)
        own = ", OWN=1" * chosen["OWN"]
        return f"`assign` ROW_TABLE={chosen['ROW_TABLE']}{own}"
    if name == "add_rem_add":
        return f"`add_rem_add` MATRIX={dict(defines)['MATRIX']}"
    if name == "table":
        return f"`table` {defines[0][0]}"
    return f"`{name}`"


def _cell(launch: Launch, share: float) -> str:
    parts = [f"{100 * share:.3g}%"]
    if launch.shared:
        parts.append(f"{launch.shared / 1024:.1f} KiB")
    rows = dict(launch.kernel.defines).get("ROWS")
    if rows:
        parts.append(f"ROWS={rows}")
    return ", ".join(parts)


def _describe(problems: Sequence[Problem]) -> str:
    """Say what some of the typical problems have in common.

    >>> _describe([Problem(10, 1), Problem(10, 10)])
    'K_i = 10'
    """
    labels = {f"K_i = {problem.n_labels}" for problem in problems}
    columns = {f"{problem.n_columns} columns" for problem in problems}
    shared = [next(iter(words)) for words in (labels, columns) if len(words) == 1]
    return ", ".join(shared) or "all"
