"""Process-wide settings that many threads need at once."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any


class SharedSetting:
    """A setting of the whole process: the first in makes it, the last out ends it.

    Contexts that restore the setting they began with would undo one another when
    threads leave in another order than they entered.

    Parameters
    ----------
    make : callable
        Returns the context manager that makes and ends the setting.

    Examples
    --------
    >>> import warnings
    >>> quiet = SharedSetting(lambda: warnings.catch_warnings(action="ignore"))
    >>> with quiet, quiet:
    ...     warnings.warn("not shown", UserWarning)
    """

    def __init__(self, make: Callable[[], AbstractContextManager[Any]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._users = 0
        self._active: AbstractContextManager[Any] | None = None

    def __enter__(self) -> None:
        with self._lock:
            if self._active is None:
                active = self._make()
                active.__enter__()
                self._active = active
            self._users += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._active is not None:
                active, self._active = self._active, None
                active.__exit__(None, None, None)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let BLAS and OpenMP use one thread here, so that no sum depends on how many."""
    with _one_blas_thread, _pools().limit(limits=1, user_api="openmp"):
        yield


@functools.cache
def _pools() -> Any:
    import sklearn.cluster  # noqa: F401  its pools have to be loaded to be found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


# BLAS has one limit per process; OpenMP has one per thread.
_one_blas_thread = SharedSetting(lambda: _pools().limit(limits=1, user_api="blas"))
