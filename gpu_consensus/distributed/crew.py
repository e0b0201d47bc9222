"""What works on shards: commands go out, sums of integers or parts come back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from gpu_consensus.distributed.communicator import Communicator, WorkerError
from gpu_consensus.distributed.shard import Shard
from gpu_consensus.distributed.wire import pack, unpack

Command = tuple[str, list[Any]]
"""A method of :class:`Shard`, and what it is given."""


class Crew(Protocol):
    """Those who hold the shards, as whoever runs the loop sees them."""

    def sum(self, commands: Sequence[Command]) -> list[Any]:
        """Have every shard do the commands; return the sums of its last answers."""
        ...

    def gather(self, commands: Sequence[Command]) -> list[list[Any]]:
        """Have every shard do the commands; return its last answers, shard by shard."""
        ...


def add(answers: Sequence[list[Any]]) -> list[Any]:
    """Add the answers of shards up; None stays None."""
    total = [None if part is None else np.array(part) for part in answers[0]]
    for answer in answers[1:]:
        for whole, part in zip(total, answer, strict=True):
            if whole is not None:
                whole += part
    return total


def do(shard: Shard, commands: Sequence[Any]) -> list[Any]:
    """Have one shard do commands; return its last answer."""
    answer: list[Any] = []
    for name, given in commands:
        answer = getattr(shard, name)(*given)
    return answer


class SpmdCrew:
    """Processes of a communicator with a shard each; the first runs the loop.

    Parameters
    ----------
    comm : Communicator
    open_shard : callable
        Makes the shard of this process; called by :meth:`ready`.
    """

    def __init__(self, comm: Communicator, open_shard: Callable[[], Shard]) -> None:
        self._comm = comm
        self._open = open_shard
        self._shard: Shard | None = None

    def ready(self) -> None:
        """Open the shards of all processes; all raise if one cannot."""
        self._try(self._make)

    def _make(self) -> list[Any]:
        self._shard = self._open()
        return []

    def serve(self) -> None:
        """Do what the first process says, until it says that it is done."""
        while True:
            message = unpack(self._broadcast(b"", 0))
            if message[0] == "end":
                if message[1]:
                    raise WorkerError(f"process 0 stopped: {message[1]}")
                return
            try:
                self._answer(*message)
            except WorkerError:
                continue  # the first process has it too, and ends

    def end(self, reason: str = "") -> None:
        """Let the others go on without orders; with a reason they raise."""
        self._broadcast(pack(["end", reason]), 0)

    def sum(self, commands: Sequence[Command]) -> list[Any]:
        """See :class:`Crew`."""
        self._broadcast(pack(["sum", list(commands)]), 0)
        (total,) = self._answer("sum", list(commands))
        return total

    def gather(self, commands: Sequence[Command]) -> list[list[Any]]:
        """See :class:`Crew`."""
        self._broadcast(pack(["gather", list(commands)]), 0)
        return self._answer("gather", list(commands))

    def _answer(self, way: str, commands: Sequence[Any]) -> list[list[Any]]:
        assert self._shard is not None
        shard = self._shard
        mine = self._try(lambda: do(shard, commands))
        if way == "gather":
            packed = pack(mine)
            return [
                unpack(self._broadcast(packed, rank)) for rank in range(self._comm.size)
            ]
        return [[None if part is None else self._add(part) for part in mine]]

    def _add(self, part: Any) -> Any:
        values = np.ascontiguousarray(part)
        return self._comm.all_reduce(values.view(np.int64)).view(values.dtype)

    def _try(self, work: Callable[[], list[Any]]) -> list[Any]:
        """Do something in all processes; raise in all of them if one cannot."""
        mine: list[Any] = []
        failed = np.zeros(self._comm.size, dtype=np.int64)
        text = ""
        try:
            mine = work()
        except Exception as error:
            text = str(error) or type(error).__name__
            failed[self._comm.rank] = 1
        failed = self._comm.all_reduce(failed)
        if failed.any():
            first = int(np.flatnonzero(failed)[0])
            why = self._broadcast(text.encode(), first).decode()
            raise WorkerError(f"process {first} of {self._comm.size} failed: {why}")
        return mine

    def _broadcast(self, message: bytes, root: int) -> bytes:
        size = np.array([len(message)], dtype=np.int64)
        self._comm.broadcast(size.view(np.uint8), root)
        buffer = np.empty(int(size[0]), dtype=np.uint8)
        if self._comm.rank == root:
            buffer[:] = np.frombuffer(message, dtype=np.uint8)
        self._comm.broadcast(buffer, root)
        return buffer.tobytes()
