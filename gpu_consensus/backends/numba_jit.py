"""Compilation that survives a read-only disk, and threads that survive a fork."""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba

from gpu_consensus.util.warn import warn

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
_pools: dict[int, ThreadPoolExecutor] = {}


def compiled(function: Callable[..., Any]) -> Any:
    """Compile at the first call, without the GIL; kept on disk where there is room.

    No fast mathematics: every backend adds in the same order.
    """
    try:
        dispatcher: Any = numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # nowhere to keep it: a read-only file system
        _tell_of_no_folder()
        return numba.njit(**_OPTIONS)(function)
    # numba finds a place that can be written, and fails if the disk is full later
    cache = dispatcher._cache
    for name in ("load_overload", "save_overload"):
        setattr(cache, name, _without_disk_errors(cache, getattr(cache, name)))
    return dispatcher


@functools.cache
def _tell_of_no_folder() -> None:
    """Warn once in a process: a dozen functions have no folder, for one reason."""
    warn(
        f"NUMBA_CACHE_DIR={os.environ.get('NUMBA_CACHE_DIR', '')!r}: numba finds no "
        "folder that it may write, so compiled code is not kept and every process "
        "spends some ten seconds on it; name a folder that may be written, or mount "
        "one there."
    )


def _without_disk_errors(cache: Any, method: Callable[..., Any]) -> Callable[..., Any]:
    """Do without the cache where the disk fails: it only saves time.

    A damaged file, as a crash of the machine may leave, is written anew.
    """

    def call(*arguments: Any) -> Any:
        with contextlib.suppress(OSError):
            try:
                return method(*arguments)
            except (EOFError, pickle.UnpicklingError):
                cache.flush()
        return None

    return call


def for_each(work: Callable[[Any], None], parts: Iterable[Any], n_threads: int) -> None:
    """Call ``work`` with every part, on so many threads; this one is among them.

    Parts are taken one after another, so a thread that is held up takes fewer.
    """
    queue = deque(parts)
    helpers = min(n_threads, len(queue)) - 1

    def take() -> None:
        while True:
            try:
                part = queue.popleft()
            except IndexError:
                return
            work(part)

    futures = [_pool(helpers).submit(take) for _ in range(helpers)]
    try:
        take()
    finally:
        queue.clear()  # after an error nobody begins another part
        for future in futures:
            # a helper that waits for a thread may wait for this one
            if not future.cancel():
                future.result()


def _pool(n_threads: int) -> ThreadPoolExecutor:
    pool = _pools.get(n_threads)
    if pool is None:
        pool = _pools.setdefault(n_threads, ThreadPoolExecutor(n_threads, "gpc-numba"))
    return pool


if hasattr(os, "register_at_fork"):
    # a child has the pools of its parent but none of their threads
    os.register_at_fork(after_in_child=_pools.clear)
