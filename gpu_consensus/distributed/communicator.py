"""What workers need of each other: sums of integers, and news from one to all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


class Communicator(Protocol):
    """Processes that work together, numbered from 0; all make the same calls in order.

    Buffers are C-contiguous, and of the same shape and kind in all processes.
    """

    rank: int
    """The number of this process."""
    size: int
    """How many they are."""

    def all_reduce(self, values: Integers) -> Integers:
        """Return the sums of all processes' integers, to every process."""
        ...

    def broadcast(self, buffer: npt.NDArray[np.uint8], root: int) -> None:
        """Fill the buffer with that of one process, in place."""
        ...

    def barrier(self) -> None:
        """Wait until all processes are here."""
        ...


class WorkerError(RuntimeError):
    """A worker raised an error, or cannot do what was asked of it; all know it."""


class MpiCommunicator:
    """Processes that ``mpirun`` or ``srun`` started, by mpi4py.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm, optional
        All processes by default.
    """

    def __init__(self, comm: Any = None) -> None:
        from mpi4py import MPI

        self._sum = MPI.SUM
        self._comm = MPI.COMM_WORLD if comm is None else comm
        self.rank, self.size = int(self._comm.rank), int(self._comm.size)

    def all_reduce(self, values: Integers) -> Integers:
        """See :class:`Communicator`."""
        total = np.empty_like(values)
        self._comm.Allreduce(values, total, op=self._sum)
        return total

    def broadcast(self, buffer: npt.NDArray[np.uint8], root: int) -> None:
        """See :class:`Communicator`."""
        self._comm.Bcast(buffer, root=root)

    def barrier(self) -> None:
        """See :class:`Communicator`."""
        self._comm.Barrier()


class ThreadCommunicator:
    """Threads of this process; :func:`in_threads` makes one for each."""

    def __init__(self, rank: int, shared: _Meeting) -> None:
        self.rank, self.size = rank, len(shared.given)
        self._shared = shared

    def all_reduce(self, values: Integers) -> Integers:
        """See :class:`Communicator`."""
        total = np.zeros_like(values)
        for part in self._exchange(values):
            total += part
        return total

    def broadcast(self, buffer: npt.NDArray[np.uint8], root: int) -> None:
        """See :class:`Communicator`."""
        buffer[...] = self._exchange(buffer.copy())[root]

    def barrier(self) -> None:
        """See :class:`Communicator`."""
        self._shared.barrier.wait()

    def _exchange(self, values: Any) -> list[Any]:
        shared = self._shared
        shared.given[self.rank] = values
        shared.barrier.wait()
        found = list(shared.given)
        shared.barrier.wait()
        return found


class _Meeting:
    """Where threads meet."""

    def __init__(self, size: int) -> None:
        self.given: list[Any] = [None] * size
        self.barrier = threading.Barrier(size)


def in_threads(size: int, work: Callable[[ThreadCommunicator], Any]) -> list[Any]:
    """Run the same work in several threads; return what each returns, or raise.

    Examples
    --------
    >>> in_threads(3, lambda comm: int(comm.all_reduce(np.array([comm.rank]))[0]))
    [3, 3, 3]
    """
    shared, found = _Meeting(size), [None] * size
    errors: dict[int, BaseException] = {}

    def run(rank: int) -> None:
        try:
            found[rank] = work(ThreadCommunicator(rank, shared))
        except threading.BrokenBarrierError:
            pass  # another thread has raised
        except BaseException as error:
            errors[rank] = error
            if not isinstance(error, WorkerError):  # the others do not know it
                shared.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[min(errors)]
    return found
