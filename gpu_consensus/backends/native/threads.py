"""Threads of our own, kept between calls, and memory that each of them keeps."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

WORTH_A_THREAD = 1 << 18
"""Operations that pay for waking a thread, which takes some microseconds."""
_PARTS = 4  # per thread, so that one that is held up delays nobody
_LONGEST = 1 << 27
"""Operations of a part at most, about a tenth of a second: Ctrl-C waits for its end."""
_KEPT = 4 << 20  # bytes that a thread keeps for its next call
_pools: dict[int, ThreadPoolExecutor] = {}
_own = threading.local()


def over(
    work: Callable[[int, int], None],
    size: int,
    operations: int,
    n_threads: int,
    parts: int = _PARTS,
) -> None:
    """Call ``work`` with ranges that make up 0..size, on as many threads as pay."""
    if size == 0:
        return
    threads = min(n_threads, max(1, operations // WORTH_A_THREAD))
    number = min(size, max(operations // _LONGEST, threads * parts * (threads > 1)))
    if number < 2:
        work(0, size)
        return
    ends = [size * part // number for part in range(number + 1)]
    for_each(lambda part: work(*part), pairwise(ends), threads)


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


def scratch(n_bytes: int) -> tuple[npt.NDArray[np.uint8], int]:
    """Return memory of this thread and where it begins, a multiple of 64.

    It is the caller's until this thread asks again. Keep the array while in use.
    """
    kept: tuple[npt.NDArray[np.uint8], int] | None = getattr(_own, "memory", None)
    if kept is not None and kept[0].nbytes >= n_bytes + 64:
        return kept
    memory = np.empty(n_bytes + 64, dtype=np.uint8)
    address = memory.__array_interface__["data"][0]
    found = (memory, address + -address % 64)
    if memory.nbytes <= _KEPT:
        _own.memory = found
    return found


def _pool(n_threads: int) -> ThreadPoolExecutor:
    pool = _pools.get(n_threads)
    if pool is None:
        pool = _pools.setdefault(n_threads, ThreadPoolExecutor(n_threads, "gpc-native"))
    return pool


if hasattr(os, "register_at_fork"):
    # a child has the pools of its parent but none of their threads
    os.register_at_fork(after_in_child=_pools.clear)
