"""The acceptance run: one command for the first machine with a GPU.

It compares the device with NumPy, times its kernels against the limits measured on the
device, and ends in a verdict: a JSON file and a page of text to send back. It uses no
network and reports nothing about the user: see ``private.py``.

The command ``gpu-consensus accept`` exits with 0 if no step failed and the comparisons
passed, 1 if not, 2 if there is no usable device or the output cannot be written; then
nothing is run and nothing written. On a stand-in for a GPU, exit code 0 means that the
results agree, and the first line of the page says that this was no GPU.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import gpu_consensus as gpc
from gpu_consensus import data_files
from gpu_consensus.accept.agreement import check_agreement
from gpu_consensus.accept.generation import compare_generation
from gpu_consensus.accept.kernels import time_kernels
from gpu_consensus.accept.large_fit import fit_both
from gpu_consensus.accept.machine import describe, why_no_gpu
from gpu_consensus.accept.page import HEADING, render
from gpu_consensus.accept.private import redact_all
from gpu_consensus.accept.roofs import measure_roofs
from gpu_consensus.accept.run import (
    FULL,
    QUICK,
    Context,
    JsonObject,
    Sizes,
    Step,
    new_entry,
    run_step,
)
from gpu_consensus.accept.startup import time_startup
from gpu_consensus.accept.verdict import judge
from gpu_consensus.backends import BackendError, why_unavailable
from gpu_consensus.ensemble.storage import write_atomic
from gpu_consensus.util.progress import progress_bar

__all__ = ["FULL", "QUICK", "Sizes", "accept", "render"]

FORMAT = "gpu_consensus.accept"
VERSION = 1
_NO_TIMES = (
    "This was no GPU: all times and speeds in this file are those of a stand-in, and "
    "say nothing about a GPU."
)


def _doctor(context: Context, results: JsonObject) -> str:
    report = gpc.doctor()
    results.update(redact_all(report.as_dict()))
    wrong = [f"{name}: {text}" for name, text in report.self_test.items() if text]
    return "; ".join(wrong)


STEPS = (
    Step("doctor", _doctor),
    Step("agreement", check_agreement),
    Step("roofs", measure_roofs),
    Step("kernels", time_kernels),
    Step("startup", time_startup),
    Step("generation", compare_generation),
    Step("fit", fit_both),
)


def accept(
    output: Path,
    *,
    sizes: Sizes = FULL,
    budget: float = 600.0,
    progress: bool = False,
    log: Callable[[str], None] = lambda text: None,
) -> JsonObject:
    """Run all steps on the current CUDA device and write the results.

    Both files are written whole after every step, so that a run which is interrupted,
    or ends with its process, leaves what it measured.

    Parameters
    ----------
    output : Path
        The JSON file; the page of text goes into the same folder, with the ending
        ``.txt``.
    sizes : Sizes, default FULL
        How large the work is.
    budget : float, default 600.0
        Seconds; steps that would take longer are cut down, or not run.
    progress : bool, default False
        Draw a bar for every step on standard error.
    log : callable, optional
        Called with one line for every step that has ended.

    Returns
    -------
    dict
        The content of the JSON file; :func:`render` makes the page of it.
    """
    page = check_output(output)
    reason = why_unavailable("cupy")
    if reason:
        raise BackendError(f"accept needs a CUDA device: {reason}")
    if not 0 < budget < math.inf:
        raise ValueError(f"budget={budget!r} should be a number of seconds above 0.")
    began = time.monotonic()
    no_gpu = why_no_gpu()
    report: JsonObject = {
        "format": FORMAT,
        "version": VERSION,
        "gpu_consensus": gpc.__version__,
        "gpu": not no_gpu,
        "why_no_gpu": no_gpu,
        "note": _NO_TIMES if no_gpu else "",
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "seconds": 0.0,
        "interrupted": False,
        "n_steps": len(STEPS),
        "sizes": sizes._asdict(),
        "budget": budget,
        "machine": describe(),
        "steps": [],
    }
    context = Context(sizes, began + budget, not no_gpu)

    def save() -> None:
        report["seconds"] = round(time.monotonic() - began, 1)
        judge(report)
        text = json.dumps(report, indent=2, allow_nan=False) + "\n"
        write_atomic(output, lambda file: file.write(text.encode()))
        write_atomic(page, lambda file: file.write(render(report).encode()))

    try:
        for number, step in enumerate(STEPS, 1):
            entry = new_entry(step)
            report["steps"].append(entry)
            title = f"{number} of {len(STEPS)}: {step.name}"
            with progress_bar(progress, title, None) as context.advance:
                run_step(step, context, entry)
            save()
            why = f": {entry['reason']}" if entry["reason"] else ""
            log(f"{title}: {entry['state']} in {entry['seconds']:.1f} s{why}")
    except (KeyboardInterrupt, SystemExit):
        report["interrupted"] = True
        save()
        log(f"interrupted; what was measured is in {output} and {page}")
        raise
    return report


def check_output(output: Path) -> Path:
    """Check before the work that both files can be written; return the page's path.

    The caller does not choose the page's name, so no file of another kind is replaced.
    """
    if output.suffix.lower() != ".json":
        raise ValueError(f"--output {str(output)!r} should end in .json.")
    page = output.with_suffix(".txt")
    for path in (output, page):
        if path.is_dir():
            raise IsADirectoryError(
                f"--output {str(path)!r} is a folder; choose the name of a file."
            )
        data_files.check_writable("--output", path)
    if page.exists():
        with page.open(encoding="utf-8", errors="replace") as file:
            if not file.read(len(HEADING)) == HEADING:
                raise FileExistsError(
                    f"--output {str(output)!r} would write its page of text to "
                    f"{str(page)!r}, which is another file; choose another name."
                )
    return page
