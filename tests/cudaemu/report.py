"""What check mode saw of a launch: memory traffic by source line, and bugs."""

import dataclasses
import functools
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).parent
_PC = re.compile(r"<pc (0x[0-9a-f]+)>")


@dataclasses.dataclass
class Site:
    """The accesses of one kind at one source line, over a whole launch."""

    file: str
    line: int
    space: str  # global or shared
    operation: str  # load, store or atomic
    width: int  # bytes per lane; 16 for a float4
    requests: int = 0  # of a warp
    accesses: int = 0  # of lanes
    sectors: int = 0  # of 32 bytes, global memory only
    phases: int = 0  # of at most 128 bytes, shared memory only
    wavefronts: int = 0  # passes over the banks, shared memory only

    @property
    def bytes(self) -> int:
        """Bytes that lanes asked for."""
        return self.accesses * self.width

    @property
    def sectors_per_request(self) -> float:
        return self.sectors / self.requests

    @property
    def wavefronts_per_phase(self) -> float:
        """1.0 without bank conflicts."""
        return self.wavefronts / self.phases


@dataclasses.dataclass
class Report:
    """One launch: its shape, and in check mode its sites and bugs."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_mem: int
    mode: str
    sites: list[Site] = dataclasses.field(default_factory=list)
    bugs: list[str] = dataclasses.field(default_factory=list)

    def select(self, **wanted: object) -> list[Site]:
        """Return the sites with these values, such as ``line=12, space="shared"``."""
        return [
            site
            for site in self.sites
            if all(getattr(site, name) == value for name, value in wanted.items())
        ]

    def total(self, **wanted: object) -> dict[str, int]:
        """Add up the selected sites."""
        names = ("requests", "accesses", "bytes", "sectors", "phases", "wavefronts")
        chosen = self.select(**wanted)
        return {name: sum(getattr(site, name) for site in chosen) for name in names}


def locate(library: Path, base: int, text: str) -> str:
    """Replace the code addresses in a text by file and line."""
    addresses = tuple(int(pc, 16) - base - 1 for pc in _PC.findall(text))
    places = _places(library, tuple(sorted(set(addresses))))
    return _PC.sub(lambda m: "{}:{}".format(*places[int(m[1], 16) - base - 1]), text)


@functools.lru_cache(maxsize=256)
def _places(library: Path, offsets: tuple[int, ...]) -> dict[int, tuple[str, int]]:
    """Return file and line of every offset into a library's code."""
    if not offsets:
        return {}
    lines = subprocess.run(
        ["addr2line", "-a", "-i", "-e", str(library), *map(hex, offsets)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    places: dict[int, tuple[str, int]] = {}
    offset = 0
    for text in lines:
        if text.startswith("0x"):
            offset = int(text, 16)
            places[offset] = ("?", 0)
            continue
        # -i lists inlined calls from the inside out: the first that is the kernel's own
        path, _, line = text.split(" ")[0].rpartition(":")
        ours = path.startswith((str(HERE), "/usr/")) or path.startswith("?")
        if places[offset][0] == "?" and not ours:
            places[offset] = (Path(path).name, int(line) if line.isdigit() else 0)
    return places


def read_sites(lines: Iterable[str]) -> list[Site]:
    """Add up the sites of one source line: unrolled and instantiated code has many."""
    sites: dict[tuple, Site] = {}
    for text in lines:
        _, place, space, operation, *numbers = text.split(" ")
        file, line = place.rsplit(":", 1)
        width, *counts = map(int, numbers)
        key = (file, int(line), space, operation, width)
        site = sites.setdefault(key, Site(*key))
        names = ("requests", "accesses", "sectors", "phases", "wavefronts")
        for name, count in zip(names, counts, strict=True):
            setattr(site, name, getattr(site, name) + count)
    return [sites[key] for key in sorted(sites)]


def describe_bug(text: str) -> tuple[str, str]:
    """Return kind and sentence for a line of the runtime's report."""
    words = text.split(" ")
    if words[0] == "unwritten":
        _, place, count = words
        return (
            "unwritten",
            f"shared memory is read at {place} before it is written, {count} times",
        )
    _, space, first, place, block, thread, second, other, block2, thread2, count = words
    return "race", (
        f"{first} at {place} (block {block}, thread {thread}) and {second} at {other} "
        f"(block {block2}, thread {thread2}) of {space} memory, {count} times"
    )
