"""What a Dask worker runs: the shards that it holds, and its place in the tree."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gpu_consensus.distributed.crew import add, do
from gpu_consensus.distributed.journal import CHANGES
from gpu_consensus.distributed.shard import Range, Shard
from gpu_consensus.distributed.wire import pack, unpack

Tree = list[Any]
"""``[address, key, children]``: a worker, its actor, and who answers to it."""


class Post:
    """An actor with shards; messages are bytes, see :mod:`wire`."""

    def __init__(self) -> None:
        from distributed import get_worker

        self._worker = get_worker()
        self._shards: dict[int, Shard] = {}
        # the last message that each shard has done, and its answer
        self._done: dict[int, tuple[int, list[Any]]] = {}
        self._thread = ThreadPoolExecutor(1)

    async def run(self, message: bytes, tree: bytes) -> bytes:
        """Do a message and have all below do it; return the sum of the answers.

        Doing one again gives the answer of the first time.
        """
        below = [
            asyncio.create_task(self._ask(message, child)) for child in unpack(tree)[2]
        ]
        loop = asyncio.get_running_loop()
        parts = [await loop.run_in_executor(self._thread, self._own, message)]
        parts += [unpack(await task) for task in below]
        for part in parts:
            if part[0] != "ok":
                return pack(part)
        sums = [part[1] for part in parts if part[1] is not None]
        return pack(["ok", add(sums) if sums else None])

    async def _ask(self, message: bytes, child: Tree) -> bytes:
        address, key, _ = child
        try:
            return await call(self._worker.rpc(address), key, "run", message, child)
        except OSError:
            return pack(["lost", address])

    def _own(self, message: bytes) -> list[Any]:
        answers = self._answers(message)
        if isinstance(answers, str):
            return ["error", f"{self._worker.address}: {answers}"]
        return ["ok", add(list(answers.values())) if answers else None]

    def _answers(self, message: bytes) -> dict[int, list[Any]] | str:
        number, commands = unpack(message)
        try:
            for index, shard in self._shards.items():
                if self._done.get(index, (-1, []))[0] != number:
                    self._done[index] = (number, do(shard, commands))
        except Exception as error:
            return str(error) or type(error).__name__
        return {index: self._done[index][1] for index in self._shards}

    async def each(self, message: bytes) -> bytes:
        """Do a message; return the answer of each shard here."""
        loop = asyncio.get_running_loop()
        answers = await loop.run_in_executor(self._thread, self._answers, message)
        if isinstance(answers, str):
            return pack(["error", f"{self._worker.address}: {answers}"])
        return pack(["ok", {str(index): part for index, part in answers.items()}])

    async def adopt(self, given: bytes) -> bytes:
        """Open a shard, and do what it was told so far."""
        loop = asyncio.get_running_loop()
        return pack(await loop.run_in_executor(self._thread, self._adopt, given))

    def _adopt(self, given: bytes) -> list[Any]:
        index, where, options, entries = unpack(given)
        try:
            shard = Shard(Range(*where), **options)
            for entry in entries:
                name, values = unpack(entry.tobytes())
                if name in CHANGES:
                    do(shard, [(name, values)])
        except Exception as error:
            return ["error", f"{self._worker.address}: {error}"]
        self._shards[index] = shard
        self._done.pop(index, None)
        return ["ok", None]


async def call(rpc: Any, key: str, function: str, *given: Any) -> bytes:
    """Call a method of an actor by the connection to its worker."""
    from distributed import protocol

    wrap: Any = vars(protocol)["to_serialize"]
    plain = [one if isinstance(one, bytes) else pack(one) for one in given]
    answer = await rpc.actor_execute(
        function=function,
        actor=key,
        args=[wrap(one) for one in plain],
        kwargs={},
    )
    if answer["status"] != "OK":
        raise answer["exception"]
    return bytes(answer["result"])
