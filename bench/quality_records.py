"""The JSON lines of ``bench quality``: kept as they come, so that a run can go on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Record = dict[str, Any]
Key = tuple[str, str, int, str, int]


def key_of(record: Record) -> Key:
    """Return what tells a record from all others."""
    return (
        record["part"],
        record["set"],
        record["partitions"],
        record["method"],
        record["seed"],
    )


@dataclass
class Records:
    """What was measured so far, in memory and in a file.

    A line is a session (machine, versions, command) or a measurement. A last line that
    was cut short, as when the machine stopped, is left out and written over.

    Attributes
    ----------
    path : Path or None
        None: only in memory.
    sessions : list of dict
    found : dict
        Measurements by key.
    """

    path: Path | None = None
    sessions: list[Record] = field(default_factory=list)
    found: dict[Key, Record] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read what the file holds."""
        if self.path is None or not self.path.exists():
            return
        lines = self.path.read_bytes().splitlines(keepends=True)
        if lines and not lines[-1].endswith(b"\n"):
            whole = sum(map(len, lines[:-1]))
            with self.path.open("r+b") as file:
                file.truncate(whole)
            lines.pop()
        for number, line in enumerate(lines, 1):
            try:
                self._take(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(
                    f"--output {str(self.path)!r} is not a file of this benchmark "
                    f"(line {number}: {error!r}); give another name."
                ) from error

    def _take(self, record: Record) -> None:
        if record["part"] == "session":
            self.sessions.append(record)
        else:
            self.found[key_of(record)] = record

    def add(self, record: Record) -> None:
        """Keep a session or a measurement."""
        self._take(record)
        if self.path is not None:
            with self.path.open("a", encoding="utf-8", newline="\n") as file:
                file.write(json.dumps(record, allow_nan=False) + "\n")

    def take_all(self, path: Path) -> None:
        """Take what another file holds; what it has as well replaces what was there."""
        other = Records(path)
        self.sessions += other.sessions
        self.found |= other.found

    def of(self, part: str) -> Iterator[Record]:
        """Yield the measurements of a part."""
        return (record for record in self.found.values() if record["part"] == part)
