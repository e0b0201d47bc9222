"""The command ``gpu-consensus bench``: the benchmarks, wherever they lie.

They are ``gpu_consensus.bench`` in the installed package, and a folder beside the
package in a checkout.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]


def run_bench(given: list[str]) -> int:
    """Hand the words after ``bench`` to the benchmarks; return their exit code."""
    name = "bench"
    if (_PACKAGE / name).is_dir():
        name = f"{_PACKAGE.name}.bench"
    else:
        sys.path.insert(0, str(_PACKAGE.parent))  # they start processes that inherit it
    cli = importlib.import_module(f"{name}.cli")
    code: int = cli.main(given, "gpu-consensus bench", "gpu-consensus")
    return code
