"""Time a call, and measure in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds that a call takes, and what it returns."""
    begin = time.perf_counter()
    result = call()
    return time.perf_counter() - begin, result


def measure_in_child(
    module: str, arguments: list[Any], timeout: float | None = None
) -> dict[str, Any]:
    """Run a module of the benchmark in a process that imports what this one does.

    Parameters
    ----------
    module : str
        By its name in the benchmark; it reads its arguments as JSON from the command
        line and prints a JSON object.
    arguments : list
    timeout : float, optional
        Seconds after which the process is ended, with a TimeoutExpired.
    """
    search = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
    done = subprocess.run(
        [sys.executable, "-m", f"{__package__}.{module}", json.dumps(arguments)],
        env={**os.environ, "PYTHONPATH": search},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=timeout,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found
