"""The text of the CUDA kernels, and every form in which they are compiled.

Nothing here needs CuPy or a device: the compile gate and the emulator of the tests read
the same list that the backend launches from.
"""

from __future__ import annotations

import functools
from itertools import product
from pathlib import Path
from typing import NamedTuple

# CuPy adds -ftz=true itself. Without fmad=false, sums would differ from the host's.
OPTIONS = ("-std=c++17", "--fmad=false")
OLDEST = (7, 0)
"""Compute capability that the kernels need."""


class Kernel(NamedTuple):
    """One compiled form of one kernel.

    Attributes
    ----------
    file : str
        Its text is ``cuda_kernels/<file>.cu`` behind the prelude.
    name : str
        Its entry point.
    defines : tuple of (str, str or int)
        Macros that choose the form.
    threads : int
        The most threads that a block may have.
    """

    file: str
    name: str
    defines: tuple[tuple[str, str | int], ...]
    threads: int

    @property
    def macros(self) -> str:
        """The macros as text for the front.

        As compiler options they would cost one more, empty, compilation per form and
        process, with which CuPy checks the options.
        """
        return "".join(f"#define {name} {value}\n" for name, value in self.defines)

    def __str__(self) -> str:
        chosen = [f"{name}={value}" for name, value in self.defines]
        return f"{self.name}({', '.join(chosen)})"


def assign_kernel(
    code: str, chunks: int, rows: int, row_table: int, own: int = 0
) -> Kernel:
    """Return the form of ``assign`` for a type of codes and a shape."""
    # registers decide: two rows of 32 columns, or two tables, take most of them
    threads = 512
    if chunks == 8:
        threads = 384 if rows == 2 else 256 if row_table == 2 else 512
    min_blocks = 2 if chunks == 4 and rows == 1 and row_table == 0 else 1
    defines = (
        ("CODE", code),
        ("CHUNKS", chunks),
        ("ROWS", rows),
        ("ROW_TABLE", row_table),
        ("OWN", own),
        ("THREADS", threads),
        ("MIN_BLOCKS", min_blocks),
    )
    return Kernel("assign", "assign", defines, threads)


def tiles_kernel() -> Kernel:
    """Return the kernel that lays tables out for ``assign``."""
    return Kernel("tiles", "tiles", (), 256)


def own_scores_kernel(code: str, cluster: str) -> Kernel:
    """Return the form of ``own_scores`` for the types of codes and clusters."""
    defines = (("CODE", code), ("CLUSTER", cluster))
    return Kernel("own_scores", "own_scores", defines, 256)


def count_kernel(code: str, cluster: str) -> Kernel:
    """Return the form of ``count`` for the types of codes and clusters."""
    return Kernel("count", "count", (("CODE", code), ("CLUSTER", cluster)), 256)


def weigh_kernel(code: str, cluster: str) -> Kernel:
    """Return the form of ``weigh`` for the types of codes and clusters."""
    return Kernel("weigh", "weigh", (("CODE", code), ("CLUSTER", cluster)), 256)


def add_rem_add_kernel(code: str, matrix: int) -> Kernel:
    """Return the form of ``add_rem_add`` for labels, or for a matrix of their type."""
    defines = (("CODE", code), ("MATRIX", matrix))
    return Kernel("add_rem_add", "add_rem_add", defines, 256)


def code_kernel(name: str, code: str) -> Kernel:
    """Return the form of a kernel that only depends on the type of codes."""
    threads = 1024 if name == "coassociation" else 256
    return Kernel(name, name, (("CODE", code),), threads)


def table_kernel(name: str, utility: str) -> Kernel:
    """Return ``table_sums`` or ``table`` for a rule such as "C", "LP" or "IVC".

    SEC has a ``table_norm`` too, and for its row table, SEC_ROW, only a ``table``.
    """
    threads = 32 if name == "table_norm" else 256
    return Kernel("table", name, ((f"UTILITY_{utility}", 1),), threads)


def shared_read_kernel() -> Kernel:
    """Return the kernel that measures how fast shared memory is read."""
    return Kernel("bandwidth", "shared_read", (), 512)


def measuring_kernels() -> list[Kernel]:
    """Return every form that only measures a device; no method needs these."""
    return [shared_read_kernel()]


def all_kernels() -> list[Kernel]:
    """Return every form that the backend may launch."""
    codes = ("u8", "u16")
    shapes = ((1, 0), (2, 0), (1, 1), (1, 2), (1, 0, 1), (2, 0, 1))
    forms = [
        assign_kernel(c, w, *shape) for c, w, shape in product(codes, (4, 8), shapes)
    ]
    forms.append(tiles_kernel())
    by_cluster = (own_scores_kernel, count_kernel, weigh_kernel)
    for form in by_cluster:
        forms += [form(*types) for types in product(codes, ("u8", "u16", "u32"))]
    names = ("scores", "soft_count", "coassociation")
    forms += [code_kernel(*pair) for pair in product(names, codes)]
    forms += [add_rem_add_kernel(*pair) for pair in product(codes, (0, 1))]
    utilities = ("C", "H", "H_SMOOTH", "COS", "LP", "IVC", "IPVC", "SEC")
    forms += [table_kernel("table_sums", utility) for utility in utilities]
    forms.append(table_kernel("table_norm", "SEC"))
    forms += [table_kernel("table", utility) for utility in (*utilities, "SEC_ROW")]
    return forms


@functools.cache
def source(file: str) -> str:
    """Return the text of a kernel file, with the prelude in front.

    The prelude is joined as text rather than included: CuPy's cache of compiled kernels
    does not see what is included.
    """
    folder = kernel_folder()
    prelude = (folder / "prelude.cuh").read_text(encoding="utf-8")
    return prelude + (folder / f"{file}.cu").read_text(encoding="utf-8")


def kernel_folder() -> Path:
    """Return where the kernels are: in the package, or next to it in a checkout."""
    package = Path(__file__).parents[2]
    for folder in (package / "cuda_kernels", package.parent / "cuda_kernels"):
        if (folder / "prelude.cuh").is_file():
            return folder
    raise FileNotFoundError(
        f"the CUDA kernels are missing beside {str(package)!r}; install gpu-consensus "
        "again."
    )
