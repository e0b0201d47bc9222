"""When the device runs out of memory: smaller parts, or an error that names the cure.

CuPy gives its cached blocks back and tries again before it raises, so an error here
means that the memory is really gone, or that the pool has reached its limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from gpu_consensus.backends.device_errors import cuda_errors, is_device_memory
from gpu_consensus.util.warn import warn

Result = TypeVar("Result")

ELSEWHERE = "use backend='native' or 'numpy', or free memory that others hold"
"""The cure where no option lowers the memory needed."""
_cure: ContextVar[str | None] = ContextVar("cure", default=None)


class DeviceMemoryWarning(UserWarning):
    """Memory ran out; the work goes on in smaller parts, or at a lower speed."""


class DeviceMemoryError(MemoryError):
    """The device has no memory for what cannot be made smaller; says what helps."""


@contextmanager
def room_for(what: str, cure: str) -> Iterator[None]:
    """Turn an out-of-memory error into one that says what did not fit and what helps.

    Examples
    --------
    >>> with room_for("a table of 3 x 2 x 2", "lower n_init"):
    ...     raise MemoryError("Out of memory allocating 512 bytes")
    Traceback (most recent call last):
    ...
    gpu_consensus.backends.device_memory.DeviceMemoryError: the device has no memory \
left for a table of 3 x 2 x 2; lower n_init (Out of memory allocating 512 bytes).
    """
    try:
        with cuda_errors():
            yield
    except DeviceMemoryError:
        raise
    except MemoryError as error:
        reason = str(error).rstrip(".")
        raise DeviceMemoryError(
            f"the device has no memory left for {what}; {cure} ({reason})."
        ) from error


@contextmanager
def memory_for(what: str, cure: str) -> Iterator[None]:
    """Raise an error that names ``what`` where the device runs out of memory.

    Work inside the context that knows no better cure names this one. Errors of a host
    that runs out of memory are left as they are.
    """
    token = _cure.set(cure)
    try:
        yield
    except Exception as error:
        if isinstance(error, DeviceMemoryError) or not is_device_memory(error):
            raise
        with room_for(what, cure):
            raise
    finally:
        _cure.reset(token)


def what_helps(otherwise: str = ELSEWHERE) -> str:
    """Return the cure named by the running method, or one that always helps."""
    return _cure.get() or otherwise


def in_parts(xp: Any, work: Callable[[slice], None], n_rows: int) -> None:
    """Do work over all objects at once, or over halves of them when memory runs out.

    ``work`` must take all its memory before it changes anything.
    """
    todo = [slice(0, n_rows)]
    while todo:
        rows = todo.pop()
        size = rows.stop - rows.start
        try:
            with cuda_errors():
                work(rows)
            continue
        except MemoryError as error:
            _smallest(size, error, what_helps())
        # here, not above: an error that is being handled keeps its arrays alive
        go_on(xp, size)
        middle = rows.start + size // 2
        todo += [slice(middle, rows.stop), slice(rows.start, middle)]


def for_fewer(
    xp: Any, make: Callable[[int], Result], n_rows: int
) -> tuple[Result, int]:
    """Make something for ``n_rows`` objects, or for half as many until it fits.

    Returns it with the number of objects that it is for.
    """
    while True:
        try:
            with cuda_errors():
                return make(n_rows), n_rows
        except MemoryError as error:
            _smallest(n_rows, error, what_helps())
        n_rows = go_on(xp, n_rows)


def _smallest(size: int, error: MemoryError, cure: str) -> None:
    """Raise the error when there is nothing left to halve."""
    if isinstance(error, DeviceMemoryError):
        raise error
    if size <= 1:
        with room_for("one object at a time", cure):
            raise error


def go_on(xp: Any, size: int, things: str = "objects") -> int:
    """Give cached memory back, say so, and return half the size."""
    xp.get_default_memory_pool().free_all_blocks()
    half = -(-size // 2)
    warn(
        f"the device has no memory left for {size} {things} at once; going on with "
        f"{half}.",
        DeviceMemoryWarning,
    )
    return half
