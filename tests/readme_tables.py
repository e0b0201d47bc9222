"""Generated parts of ``cuda_kernels/README.md``, each between two markers."""

from collections.abc import Sequence

from gpu_consensus.backends.cupy.source import kernel_folder

PATH = kernel_folder() / "README.md"


def _markers(name: str) -> tuple[str, str]:
    return f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"


def stored(name: str) -> str:
    """Return the text between the markers of a part."""
    begin, end = _markers(name)
    return PATH.read_text(encoding="utf-8").partition(begin)[2].partition(end)[0]


def write(name: str, body: str) -> None:
    """Put the text between the markers of a part."""
    begin, end = _markers(name)
    head, found, rest = PATH.read_text(encoding="utf-8").partition(begin)
    _, also_found, tail = rest.partition(end)
    if not (found and also_found):
        raise ValueError(f"{PATH.name} should have {begin!r} and {end!r}.")
    PATH.write_text(head + begin + body + end + tail, encoding="utf-8")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
