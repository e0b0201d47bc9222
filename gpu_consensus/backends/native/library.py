"""Find and load the compiled kernels: the best level that this processor has."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import sys
from pathlib import Path
from typing import Any, NamedTuple

ABI = 9
"""What the signatures below belong to: ``GPC_ABI`` of native.h."""
FOLDER = Path(__file__).parent
X86_LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
_SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")

# what a function takes and returns: p a pointer, i an int64, d a float64, s a string,
# v nothing
_SIGNATURES = {
    "abi": ("i", ""),
    "build": ("s", ""),
    "cpu_level": ("i", ""),
    "assign": ("v", "piipipipppiiiipiippppp"),
    "own_scores": ("v", "piipipiiiiipiip"),
    "assign_scratch": ("i", "ii"),
    "assign_screened": ("v", "piipipipipiipppipdiiiipiipp"),
    "screen_bounds": ("v", "pipiiiippp"),
    "screen_table": ("v", "pippiippppiipiip"),
    "screen_table_scratch": ("i", "ii"),
    "screen_apart": ("v", "piiiiiipi"),
    "screen_scratch": ("i", "iiiiiiiiii"),
    "count_moves": ("i", "pipiiiiii"),
    "pack_clusters": ("v", "piiiiip"),
    "count_rows": ("v", "piipiiipiiipip"),
    "count_rows_scratch": ("i", "iii"),
    "count_each": ("v", "piipiiipipiiiipp"),
    "count_each_scratch": ("i", "ii"),
    "count_absent": ("v", "piipiiipipiiiippp"),
    "table": ("v", "ipppppiiiiipip"),
    "table_scratch": ("i", "i"),
    "label_sums": ("v", "pippiippppp"),
    "scores": ("v", "piipipiiiipp"),
    "scores_scratch": ("i", "ii"),
    "soft_count": ("v", "piipiiipipip"),
    "soft_count_scratch": ("i", "i"),
    "expect": ("v", "piipipipiiiippppp"),
    "expect_scratch": ("i", "iii"),
    "pairs": ("v", "pipiipiiiipp"),
    "sweep": ("i", "piipiippipiipppp"),
    "merge": ("i", "piipppdiipp"),
    "climb": ("v", "piiippippiiiipippppp"),
    "prices": ("v", "ipppdpiiiippip"),
    "prices_scratch": ("i", "i"),
    "merge_cells": ("i", "ipiipippipipp"),
    "merge_cells_scratch": ("i", "iiii"),
    "settle_cells": ("i", "ipiipippipiippp"),
    "settle_cells_scratch": ("i", "iiiii"),
    "tilo_sweep": ("i", "pippppip"),
    "kmeans_nearest": ("v", "ipipiiiipp"),
    "kmeans_nearest_scratch": ("i", "iii"),
    "kmeans_draw": ("v", "ipiippiiidiippp"),
    "kmeans_draw_scratch": ("i", "iiii"),
    "kmeans_lloyd": ("v", "ipiipidipiiipppp"),
    "kmeans_lloyd_scratch": ("i", "iiii"),
    "vote_round": ("v", "pippippiiip"),
    "pair_sums": ("v", "pipiiip"),
}
_KINDS = {
    "p": ctypes.c_void_p,
    "i": ctypes.c_int64,
    "d": ctypes.c_double,
    "s": ctypes.c_char_p,
    "v": None,
}


class Library(NamedTuple):
    """A loaded library.

    Attributes
    ----------
    call : object
        Has every kernel as a function, ``call.assign(...)``; they let go of the GIL.
    level : str
        Such as "x86-64-v3".
    build : str
        Compiler and flags.
    path : Path
    """

    call: Any
    level: str
    build: str
    path: Path


class Kernels:
    """The functions of a library, with their types."""

    def __init__(self, library: ctypes.CDLL) -> None:
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(library, f"gpc_{name}")
            function.restype = _KINDS[result]
            function.argtypes = [_KINDS[kind] for kind in arguments]
            setattr(self, name, function)


class NativeUnavailable(RuntimeError):
    """There is no library that this process can use; the message says why."""


def signatures() -> dict[str, tuple[str, str]]:
    """Return what every function returns and takes, by its name without ``gpc_``.

    Letters are kinds: p a pointer, i an int64, d a float64, s a string, v nothing.

    Examples
    --------
    >>> signatures()["assign_scratch"]
    ('i', 'ii')
    """
    return dict(_SIGNATURES)


def file_name(level: str) -> str:
    """Return how the library of a level is called here.

    Examples
    --------
    >>> file_name("x86-64-v3").split(".")[0]
    'gpc-x86-64-v3'
    """
    return f"gpc-{level}{_SUFFIX}"


def levels() -> tuple[str, ...]:
    """Return the levels of this kind of machine, the lowest first."""
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64"):
        return X86_LEVELS
    return ("aarch64",) if machine in ("aarch64", "arm64") else ()


def open_library(path: Path, level: str) -> Library:
    """Load one library; one of another version of this package is refused."""
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise NativeUnavailable(f"the library cannot be loaded: {error}") from error
    library.gpc_abi.restype = ctypes.c_int64
    abi = library.gpc_abi()
    if abi != ABI:
        raise NativeUnavailable(
            f"{path.name} is of version {abi} and this package needs {ABI}; install "
            "the package again."
        )
    call: Any = Kernels(library)
    return Library(call, level, call.build().decode(), path)


@functools.cache
def _load(folder: Path, wanted: str | None) -> Library:
    names = levels()
    if not names:
        raise NativeUnavailable(
            f"there is no compiled code for this kind of machine, {platform.machine()}"
        )
    present = [name for name in names if (folder / file_name(name)).is_file()]
    if not present:
        raise NativeUnavailable(
            "the package was installed without its compiled code; install it again "
            "where there is a C compiler, or from a wheel of this platform"
        )
    if wanted is not None and wanted not in present:
        raise NativeUnavailable(f"level {wanted!r} is not among {present}")
    library = open_library(folder / file_name(present[0]), present[0])
    if names != X86_LEVELS:
        return library
    # levels 2, 3 and 4; the lowest library can be asked on any processor
    highest = library.call.cpu_level()
    usable = [name for name in present if int(name[-1]) <= highest]
    if not usable:
        raise NativeUnavailable(
            f"this processor is of level x86-64-v{highest} and the compiled code needs "
            f"{present[0]}"
        )
    best = wanted if wanted in usable else usable[-1]
    if best == present[0]:
        return library
    return open_library(folder / file_name(best), best)


def load(level: str | None = None) -> Library:
    """Return the library of the best level of this processor, or of a lower one.

    Raises
    ------
    NativeUnavailable
        If there is none; its message is the reason.
    """
    if os.environ.get("GPU_CONSENSUS_NATIVE", "").strip() == "0":
        raise NativeUnavailable("GPU_CONSENSUS_NATIVE=0 turns compiled code off")
    return _load(FOLDER, level)


def why_unavailable() -> str | None:
    """Return why there is no compiled code, or None if there is."""
    try:
        load()
    except NativeUnavailable as error:
        return str(error)
    return None
