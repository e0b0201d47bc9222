"""A crew on the workers of a Dask cluster, which outlives the loss of some."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import gpu_consensus
from gpu_consensus.distributed.communicator import WorkerError
from gpu_consensus.distributed.crew import Command
from gpu_consensus.distributed.elsewhere import SharedEnsemble
from gpu_consensus.distributed.journal import MOST_BYTES, Journal
from gpu_consensus.distributed.post import Post, Tree, call
from gpu_consensus.distributed.ranges import plan
from gpu_consensus.distributed.shard import Range
from gpu_consensus.distributed.wire import pack, unpack
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.util.warn import warn

_ASK_AGAIN = 1.0  # seconds after which the scheduler is asked who is left
_WAIT = 30.0  # seconds in which a worker has to answer at the start


class _Lost(Exception):
    """A worker is gone."""


class DaskCrew:
    """Actors that hold shards; counts are added from worker to worker, up a tree.

    Parameters
    ----------
    client : distributed.Client
        Of this crew alone, with connections of its own to the workers.
    ranges : sequence of Range
    options : dict
        Of :class:`Shard`.

    Attributes
    ----------
    sent, received : int
        Bytes that went from here to the top of the tree, and back.
    n_lost : int
        Workers that were lost.
    """

    def __init__(
        self, client: Any, ranges: Sequence[Range], options: dict[str, Any]
    ) -> None:
        self._client, self._ranges, self._options = client, list(ranges), options
        self._posts: dict[str, Any] = {}  # futures of actors, by the worker's address
        self._keys: dict[str, str] = {}
        self._holder: dict[int, str] = {}
        self._journal = Journal()
        self._number = 0
        self.sent = self.received = self.n_lost = 0
        self._recover()  # nobody holds a shard yet

    def sum(self, commands: Sequence[Command]) -> list[Any]:
        """See :class:`Crew`."""
        message = self._next(commands)
        answer: list[Any] = self._again(lambda: self._climb(message))
        self._journal.add(commands)
        self._bound()
        return [None if part is None else np.array(part) for part in answer]

    def gather(self, commands: Sequence[Command]) -> list[list[Any]]:
        """See :class:`Crew`."""
        message = self._next(commands)
        parts: list[list[Any]] = self._again(lambda: self._collect(message))
        self._journal.add(commands)
        return parts

    def _next(self, commands: Sequence[Command]) -> bytes:
        self._number += 1
        return pack([self._number, list(commands)])

    def _bound(self) -> None:
        """Note assignments where the commands that led to them take more memory."""
        if self._journal.n_bytes <= MOST_BYTES:
            return
        number, _ = self._journal.state
        labels = [self.gather([("labels", [q])]) for q in range(number)]
        whole = [np.concatenate([part[0] for part in parts]) for parts in labels]
        if sum(row.nbytes for row in whole) < self._journal.n_bytes:
            self._journal.replace(np.stack(whole))

    def _again(self, work: Any) -> Any:
        """Do something until no worker is lost meanwhile."""
        while True:
            try:
                return work()
            except _Lost:
                self._recover()

    # one message

    def _tree(self) -> Tree:
        """Return the workers with shards, each with up to two below it."""
        order = sorted(set(self._holder.values()))

        def branch(a: int) -> Tree:
            below = [branch(b) for b in (2 * a + 1, 2 * a + 2) if b < len(order)]
            return [order[a], self._keys[order[a]], below]

        return branch(0)

    def _climb(self, message: bytes) -> list[Any]:
        tree = self._tree()
        given = pack(tree)
        reply = self._call({tree[0]: ("run", message, given)})[tree[0]]
        self.sent += len(message) + len(given)
        self.received += len(reply)
        answer: list[Any] = self._checked(reply)
        return answer

    def _collect(self, message: bytes) -> list[list[Any]]:
        holders = sorted(set(self._holder.values()))
        replies = self._call(dict.fromkeys(holders, ("each", message)))
        parts: dict[str, list[Any]] = {}
        for reply in replies.values():
            self.received += len(reply)
            parts |= self._checked(reply)
        self.sent += len(message) * len(holders)
        return [parts[str(index)] for index in range(len(self._ranges))]

    def _checked(self, reply: bytes) -> Any:
        status, answer = unpack(reply)
        if status == "lost":
            raise _Lost
        if status == "error":
            raise WorkerError(f"the worker {answer}")
        return answer

    def _call(self, asked: dict[str, tuple[Any, ...]]) -> dict[str, bytes]:
        """Call actors at once, and watch that all workers with shards are there."""
        found: dict[str, bytes] = self._client.sync(self._call_all, asked)
        return found

    async def _call_all(self, asked: dict[str, tuple[Any, ...]]) -> dict[str, bytes]:
        tasks = {
            address: asyncio.create_task(
                call(self._client.rpc(address), self._keys[address], *given)
            )
            for address, given in asked.items()
        }
        watched = set(asked) | set(self._holder.values())
        try:
            pending = set(tasks.values())
            while pending:
                done, pending = await asyncio.wait(
                    pending,
                    timeout=_ASK_AGAIN,
                    return_when=asyncio.FIRST_EXCEPTION,
                )
                for task in done:
                    if isinstance(task.exception(), OSError):
                        raise _Lost
                if pending and not watched <= await self._alive():
                    raise _Lost
            return {address: task.result() for address, task in tasks.items()}
        finally:
            for task in tasks.values():
                task.cancel()
            # what they say now is of no interest
            await asyncio.gather(*tasks.values(), return_exceptions=True)

    async def _alive(self) -> set[str]:
        try:
            known = await asyncio.wait_for(self._client.scheduler.identity(), _WAIT)
        except (TimeoutError, OSError) as error:
            raise WorkerError(
                "the scheduler is gone; start the cluster again, and make the same "
                "call: with a checkpoint it goes on from there."
            ) from error
        return set(known["workers"])

    async def _alive_soon(self) -> set[str]:
        """Return the workers; where there are none, wait for those that begin anew."""
        for _ in range(int(_WAIT / _ASK_AGAIN)):
            alive = await self._alive()
            if alive:
                break
            await asyncio.sleep(_ASK_AGAIN)
        return alive

    # shards and workers

    def _place(self, indices: Any) -> None:
        """Give shards to the workers that hold fewest, and let them catch up."""
        alive = sorted(self._client.sync(self._alive_soon))
        if not alive:
            raise WorkerError("the cluster has no workers; start some, and try again.")
        load = dict.fromkeys(alive, 0)
        for holder in self._holder.values():
            load[holder] += 1
        entries = [
            np.frombuffer(packed, dtype=np.uint8) for _, packed in self._journal.entries
        ]
        for index in indices:
            address = min(alive, key=lambda one: (load[one], one))
            load[address] += 1
            self._man(address)
            where = list(self._ranges[index])
            given = pack([index, where, self._options, entries])
            self._checked(self._call({address: ("adopt", given)})[address])
            self._holder[index] = address

    def _man(self, address: str) -> None:
        """Put an actor on a worker that has none."""
        if address in self._posts:
            return
        post = self._client.submit(
            Post, actor=True, workers=[address], allow_other_workers=False, pure=False
        )
        for _ in range(int(_WAIT / _ASK_AGAIN)):
            try:
                self._keys[address] = post.result(timeout=_ASK_AGAIN).key
                break
            except TimeoutError:
                pass
            except Exception as error:
                if address not in self._client.sync(self._alive):
                    raise _Lost from error
                raise WorkerError(
                    f"the worker {address} did not start: {error}"
                ) from error
            if address not in self._client.sync(self._alive):
                raise _Lost
        else:
            raise WorkerError(
                f"the worker {address} did not start in {_WAIT:g} seconds; it may be "
                "busy with other work."
            )
        self._posts[address] = post

    def _recover(self) -> None:
        """Give the shards of workers that are gone to others."""
        while True:
            gone = self._client.sync(self._gone)
            self.n_lost += len(gone)
            if gone:
                named = ", ".join(sorted(gone))
                warn(f"lost the worker {named}; others load its shards and go on.")
            for address in gone:
                self._posts.pop(address, None)
                self._keys.pop(address, None)
            lost = [index for index, one in self._holder.items() if one in gone]
            for index in lost:
                del self._holder[index]
            missing = [a for a in range(len(self._ranges)) if a not in self._holder]
            try:
                self._place(missing)
                return
            except _Lost:
                continue

    async def _gone(self) -> set[str]:
        """Return the workers of ours that do not answer, or that nobody knows."""
        alive = await self._alive()
        gone = set(self._posts) - alive
        for address in set(self._posts) & alive:
            try:
                rpc = self._client.rpc(address)
                await asyncio.wait_for(rpc.identity(), _WAIT)
            except (TimeoutError, OSError):
                gone.add(address)
        return gone


@contextmanager
def on_dask(
    client: Any, source: Any, options: dict[str, Any]
) -> Iterator[tuple[DaskCrew, SharedEnsemble]]:
    """Open the shards of a source on a Dask cluster; let all go at the end."""
    import distributed

    dask: Any = distributed
    if client.asynchronous:
        raise TypeError(
            "where is an asynchronous Client; give one made with asynchronous=False."
        )
    if client.status != "running":
        raise ValueError(
            f"where is a Client that is {client.status}; connect one to the cluster."
        )
    if isinstance(source, Ensemble):
        raise TypeError(
            "source is an Ensemble in memory, which workers cannot read; save it to a "
            "folder that all of them see, and give its path."
        )
    _check_versions(client)
    workers = client.scheduler_info(n_workers=-1)["workers"]
    ranges, like, _ = plan(source, max(1, len(workers)))
    own = dask.Client(
        client.scheduler.address,
        security=client.security,
        direct_to_workers=True,
        set_as_default=False,
    )
    try:
        lock = dask.Lock(
            "gpu_consensus.distributed", scheduler_rpc=own.scheduler, loop=own.loop
        )
        with lock:
            crew = DaskCrew(own, ranges, options)
            ensemble = SharedEnsemble(crew, ranges, like)
            yield crew, ensemble
            ensemble.leave()
    finally:
        own.close()


def _check_versions(client: Any) -> None:
    """Raise an error if a worker has another release of this package, or none."""

    def version() -> str | None:
        from importlib import metadata

        try:
            return metadata.version("gpu-consensus")
        except metadata.PackageNotFoundError:
            return None

    here = gpu_consensus.__version__
    for address, there in client.run(version, on_error="ignore").items():
        if there != here:
            what = "no gpu-consensus" if there is None else f"gpu-consensus {there}"
            raise WorkerError(
                f"the worker {address} has {what} but the client has {here}; install "
                "the same release everywhere."
            )
