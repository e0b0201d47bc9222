"""What every step of the acceptance run is given, and what it may say."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gpu_consensus.accept.private import redact
from gpu_consensus.util.progress import Advance

JsonObject = dict[str, Any]
"""What a step measured, as plain values; filled as it goes, so that nothing is lost."""


class Sizes(NamedTuple):
    """How large the work of each step is."""

    n_agree: int
    """Objects of the ensembles on which every method is compared."""
    n_large: int
    """Objects of the comparisons that must not fit into memory at once."""
    n_kernels: int
    """Objects that each kernel is timed with."""
    r_kernels: int
    """Partitions that each kernel is timed with."""
    n_pairs: int
    """Objects whose pairs are counted."""
    copied: int
    """Bytes of a copy."""
    rounds: int
    """Rounds of reads from shared memory."""
    repeats: int
    """Times that a measurement is repeated."""
    n_generate: int
    """Objects that are clustered into partitions."""
    n_fit: int
    """Objects of the large fit."""
    r_fit: int
    """Partitions of the large fit."""
    n_probe: int
    """Objects of the fit that measures how fast the CPU is."""


FULL = Sizes(
    600, 200_000, 1_000_000, 100, 4096, 512 << 20, 2000, 7, 100_000, 10**7, 100, 10**5
)
QUICK = Sizes(300, 30_000, 50_000, 50, 512, 32 << 20, 200, 3, 5000, 200_000, 50, 20_000)


class NotRun(Exception):
    """A step cannot run here; says why."""


@dataclass
class Context:
    """One acceptance run, as its steps see it."""

    sizes: Sizes
    ends: float
    """When the time is up, by ``time.monotonic``."""
    gpu: bool
    """Whether the device is a real GPU."""
    advance: Advance = field(default=lambda steps=1, note="": None)
    results: dict[str, JsonObject] = field(default_factory=dict)
    """The results of earlier steps, by their names."""

    def left(self) -> float:
        """Return seconds until the time is up."""
        return self.ends - time.monotonic()

    def need(self, seconds: float) -> None:
        """Raise :class:`NotRun` if there is less time than that."""
        if self.left() < seconds:
            raise NotRun(
                f"only {max(self.left(), 0):.0f} s of the time were left and it takes "
                f"about {seconds:.0f} s; give more with --budget."
            )


class Step(NamedTuple):
    """A part of the run."""

    name: str
    run: Callable[[Context, JsonObject], str]
    """Fills in what it finds; returns what is wrong, or an empty string."""


def new_entry(step: Step) -> JsonObject:
    """Return what a report says of a step that has not ended."""
    return {
        "name": step.name,
        "state": "unfinished",
        "reason": "",
        "seconds": 0.0,
        "results": {},
    }


def run_step(step: Step, context: Context, entry: JsonObject) -> None:
    """Run a step and record how it ended; only Ctrl-C and the like are raised."""
    began = time.monotonic()
    context.results[step.name] = entry["results"]
    try:
        context.need(0)
        entry["reason"] = redact(step.run(context, entry["results"]))
        _free_memory()
        entry["state"] = "failed" if entry["reason"] else "passed"
    except NotRun as stop:
        entry.update(state="not run", reason=redact(str(stop)))
    except Exception as error:
        entry.update(state="failed", reason=redact(error))
    finally:
        entry["seconds"] = round(time.monotonic() - began, 3)


def _free_memory() -> None:
    """Give memory that CuPy keeps back to the device, for the next step.

    It waits for all work, and raises errors of that work.
    """
    import cupy

    cupy.get_default_memory_pool().free_all_blocks()
