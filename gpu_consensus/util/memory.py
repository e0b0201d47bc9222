"""How much memory is free, checked before much of it is taken."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from gpu_consensus.util.arrays import size_text


def check_memory(what: str, nbytes: int, memory_limit: int | None, cure: str) -> None:
    """Raise an error if ``nbytes`` are not free, before any work is done.

    Parameters
    ----------
    what : str
        What needs the memory, as the message begins.
    nbytes : int
    memory_limit : int or None
        The caller's own bound; None stands for what this machine has free.
    cure : str
        What to do instead.

    Examples
    --------
    >>> check_memory("hac", 8_000_000_000, 1_000_000, "use kcc")
    Traceback (most recent call last):
    ...
    MemoryError: hac needs 8.0 GB but memory_limit=1000000 allows 1.0 MB; use kcc.
    """
    if memory_limit is not None:
        bound = f"memory_limit={memory_limit} allows {size_text(memory_limit)}"
        limit: int | None = memory_limit
    else:
        limit = available_memory()
        bound = f"only {size_text(limit or 0)} of memory are free"
    if limit is not None and nbytes > limit:
        raise MemoryError(f"{what} needs {size_text(nbytes)} but {bound}; {cure}.")


def available_memory(root: Path = Path("/")) -> int | None:
    """Return bytes that can still be taken without swapping; None if unknown.

    In a container, or wherever else a control group bounds the memory of this process,
    that is what the tightest of its groups has left.

    Parameters
    ----------
    root : Path, default Path("/")
        Where ``proc`` and ``sys`` are.
    """
    known = [_machine_memory(root / "proc/meminfo"), *_group_memory(root)]
    return min((nbytes for nbytes in known if nbytes is not None), default=None)


def _machine_memory(table: Path) -> int | None:
    for line in _read(table).splitlines():
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):  # Windows has none
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


class _Files(NamedTuple):
    """The files of one version of Linux's control groups, below sys/fs/cgroup."""

    folder: str
    limit: str
    used: str
    cache: str


_VERSION_2 = _Files("", "memory.max", "memory.current", "inactive_file")
_VERSION_1 = _Files(
    "memory",
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    "total_inactive_file",
)


def _group_memory(root: Path) -> Iterator[int | None]:
    """Yield what each control group of this process has left; None without a bound."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            files = _VERSION_2
        elif "memory" in controllers.split(","):
            files = _VERSION_1
        else:
            continue
        top = root / "sys/fs/cgroup" / files.folder
        # a container may see its own group at the top, and its path as from outside
        inside = PurePosixPath(path.lstrip("/"))
        if ".." in inside.parts:
            inside = PurePosixPath()
        for group in (inside, *inside.parents):
            yield _left(top / group, files)


def _left(group: Path, files: _Files) -> int | None:
    limit, used = _read(group / files.limit).strip(), _read(group / files.used)
    if not limit.isdecimal() or not used:  # "max", or no such group
        return None
    statistics = dict(
        line.split(maxsplit=1) for line in _read(group / "memory.stat").splitlines()
    )
    # what files left behind is given up when memory is asked for
    cache = int(statistics.get(files.cache, 0))
    return max(0, int(limit) - int(used) + cache)


def _read(path: Path) -> str:
    """Return what a file of the kernel says; nothing where there is none."""
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""
