"""What a call would take: a small part of it is tried, and the rest extrapolated."""

from __future__ import annotations

import json
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpu_consensus.util.arrays import size_text
from gpu_consensus.util.memory import available_memory

MOST = 40_000
"""Objects of the larger trial."""
_LEAST = 1_000
_LESS = 4  # times that the smaller trial is smaller
_SPARE = 1.5  # of memory: what grows may be hidden below what does not

Rows = Any
Trial = Callable[[Rows], dict[str, float]]
"""Does the work on some rows; returns the seconds of each stage."""


class Estimate(NamedTuple):
    """What the whole would take.

    Attributes
    ----------
    seconds : dict
        Of each stage.
    nbytes : int
        The most memory that the process would hold.
    tried : tuple of int
        Objects of the trials.
    """

    seconds: dict[str, float]
    nbytes: int
    tried: tuple[int, ...]


def estimate(n_samples: int, trial: Trial) -> Estimate:
    """Try a part of the objects, and a part of these, and draw a line through both."""
    n_more = min(n_samples, MOST, max(_LEAST, n_samples // _LESS))
    sizes = [n_more] if n_more == n_samples else [n_more // _LESS, n_more]
    order = np.random.default_rng(0).permutation(n_samples)
    held = _held_now()
    times, peaks = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a part; the whole may give none
        trial(np.sort(order[: min(200, n_samples)]))  # what is only done once
        for size in sizes:
            tracemalloc.start()
            try:
                times.append(trial(np.sort(order[:size])))
                peaks.append(tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()
    seconds = {
        name: _at(n_samples, sizes, [one[name] for one in times]) for name in times[-1]
    }
    peak = _SPARE * _at(n_samples, sizes, [float(one) for one in peaks])
    return Estimate(seconds, max(_most_held(), held + int(peak)), tuple(sizes))


def told(
    what: str, found: Estimate, n_samples: int, read: float, written: list[Path | None]
) -> str:
    """Return the plan as lines of text."""
    total = read + sum(found.seconds.values())
    free = available_memory()
    stages = ", ".join(f"{name} {span(s)}" for name, s in found.seconds.items())
    tried = " and ".join(f"{size:,}" for size in found.tried)
    fits = ""
    if free is not None:
        left = found.nbytes - _held_now() <= free
        fits = f" ({size_text(free)} are free: it {'fits' if left else 'does NOT fit'})"
    lines = [
        f"plan:   {what}",
        f"time:   about {span(total)}: reading {span(read)}, {stages}",
        f"memory: about {size_text(found.nbytes)}{fits}",
        f"writes: {', '.join(str(p) for p in written if p is not None) or 'nothing'}",
        f"(tried on {tried} of {n_samples:,} objects; nothing was written; a report "
        "takes some seconds more)",
    ]
    return "\n".join(lines)


def facts(found: Estimate, read: float) -> str:
    """Return the plan as JSON."""
    seconds = {"reading": read, **found.seconds}
    plan = {"seconds": seconds, "nbytes": found.nbytes, "tried": list(found.tried)}
    return json.dumps(plan, indent=2)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what some work gives, and its seconds."""
    began = time.perf_counter()
    result = work()
    return result, time.perf_counter() - began


def span(seconds: float) -> str:
    """Write a time for a person who plans.

    Examples
    --------
    >>> span(0.21), span(42.3), span(500.0), span(9000.0)
    ('0.2 s', '42 s', '8 min', '2.5 h')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _at(n: int, sizes: list[int], values: list[float]) -> float:
    if len(sizes) == 1:
        return values[0]
    slope = max(0.0, values[1] - values[0]) / (sizes[1] - sizes[0])
    return values[1] + slope * (n - sizes[1])


def _held_now() -> int:
    """Return the bytes of memory that this process holds."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except OSError:  # not Linux
        return _most_held()
    import resource

    return int(pages) * resource.getpagesize()


def _most_held() -> int:
    """Return the most bytes that this process has held; 0 where that is unknown."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most
