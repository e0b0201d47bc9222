"""Where and with what a benchmark ran."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

import gpu_consensus as gpc
from gpu_consensus.util.hardware import cpu_model, memory_gb

_PACKAGES = ("numpy", "scipy", "scikit-learn")


def describe() -> dict[str, Any]:
    """Return machine, system, versions and commit as plain values."""
    return {
        "machine": {
            "cpu": cpu_model(),
            "cores": os.cpu_count(),
            "usable_cores": usable_cores(),
            "memory_gb": memory_gb(),
            "others_busy_before": others_busy(),
        },
        "os": platform.platform(),
        "python": platform.python_version(),
        "versions": {
            "gpu_consensus": gpc.__version__,
            **{name: _version(name) for name in _PACKAGES},
        },
        "commit": commit(),
    }


def commit() -> dict[str, Any] | None:
    """Return the commit of the checkout and whether files differ from it.

    None when this is not a checkout, when the library comes from elsewhere, or when
    git cannot tell.
    """
    root = Path(__file__).resolve().parents[1]
    if Path(gpc.__file__).resolve().parents[1] != root:
        return None
    # an environment inside some other checkout must not pass for it
    top = _git(root, "rev-parse", "--show-toplevel")
    sha = _git(root, "rev-parse", "--verify", "HEAD")
    if not top or not sha or Path(top).resolve() != root:
        return None
    return {"sha": sha, "dirty": _git(root, "status", "--porcelain") != ""}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def usable_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def others_busy(seconds: float = 0.3) -> float | None:
    """Return the share of all cores that others use while this process sleeps.

    Threads that wait for one another by spinning lose a factor of several when another
    process holds a core, so times from a busy machine may not be compared. None where
    the system does not tell.
    """
    before, own = _ticks(), time.process_time()
    time.sleep(seconds)
    after, own = _ticks(), time.process_time() - own
    if before is None or after is None or after[1] == before[1]:
        return None
    idle = (after[0] - before[0]) / (after[1] - before[1])
    # threads of this process may still spin for a moment
    own /= seconds * (os.cpu_count() or 1)
    return round(min(1.0, max(0.0, 1 - idle - own)), 3)


def _ticks() -> tuple[int, int] | None:
    """Return idle and total ticks since the machine started."""
    try:
        line = Path("/proc/stat").read_text(encoding="utf-8").splitlines()[0]
    except (OSError, IndexError):
        return None
    ticks = [int(word) for word in line.split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)
