"""What a shard has been told, so that another worker can take it up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpu_consensus.distributed.crew import Command
from gpu_consensus.distributed.wire import pack

CHANGES = frozenset(
    ["open", "start", "keep", "take", "step", "back", "move", "join", "lower"]
)
"""Commands after which a shard is not what it was."""
MOST_BYTES = 256 << 20


class Journal:
    """Commands that bring a new shard to where the others are.

    An assignment by a table does not depend on the one before it. So after two such
    steps with all restarts, all that went before the first is forgotten.
    """

    def __init__(self) -> None:
        self.entries: list[tuple[str, bytes]] = []
        self._opened: bytes = b""
        self._n_restarts = 0
        self._restarts: list[int] = []

    @property
    def n_bytes(self) -> int:
        """How large the tables and all else are."""
        return sum(len(packed) for _, packed in self.entries)

    @property
    def state(self) -> tuple[int, list[int]]:
        """How many restarts there are, and which are at work."""
        return self._n_restarts, list(self._restarts)

    def add(self, commands: Sequence[Command]) -> None:
        """Note commands that all shards have done."""
        for name, given in commands:
            if name in CHANGES:
                self._add(name, given)

    def _add(self, name: str, given: list[Any]) -> None:
        packed = pack([name, given])
        if name == "open":
            self.entries, self._opened = [], packed
            self._n_restarts, self._restarts = 0, []
        elif name == "start":
            self._n_restarts += len(given[0] if given[0] is not None else given[1])
        elif name == "join":
            begin = self._n_restarts
            self._n_restarts += len(given[0])
            if given[3]:
                self._restarts = list(range(begin, self._n_restarts))
        elif name == "keep":
            self._n_restarts, self._restarts = len(given[0]), []
        elif name == "take":
            self._restarts = list(given[0])
        is_whole = (
            name == "step"
            and given[2] is None
            and len(self._restarts) == self._n_restarts
        )
        if is_whole:
            self._prune()
        self.entries.append(("whole step" if is_whole else name, packed))

    def _prune(self) -> None:
        names = [name for name, _ in self.entries]
        if "whole step" not in names:
            return
        last = len(names) - 1 - names[::-1].index("whole step")
        if not {"back", "take", "keep", "start", "join"} & set(names[last:]):
            self.entries = [*self._blank(), *self.entries[last:]]

    def _blank(self) -> list[tuple[str, bytes]]:
        """Return what begins as many restarts, of objects that are not counted."""
        nobody = [[[], [], -1, []] for _ in range(self._n_restarts)]
        return [
            ("open", self._opened),
            ("start", pack(["start", [nobody, None]])),
            ("take", pack(["take", [self._restarts]])),
        ]

    def replace(self, assignment: Any) -> None:
        """Forget all commands for the assignments (R, n) that they led to."""
        self.entries = [
            ("open", self._opened),
            ("start", pack(["start", [None, assignment]])),
        ]
        if self._restarts:
            self.entries.append(("take", pack(["take", [self._restarts]])))
