"""How long a new process takes to its first result, with and without cached kernels."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

from gpu_consensus.accept.private import redact
from gpu_consensus.accept.run import Context, JsonObject, NotRun
from gpu_consensus.backends import why_unavailable

_CHILD = "from gpu_consensus.accept.startup import child; child()"
_LONGEST = 120.0


def time_startup(context: Context, results: JsonObject) -> str:
    """Start two processes: one must compile its kernels, the other finds them."""
    context.need(10)
    with tempfile.TemporaryDirectory() as cache:
        for name in ("cold", "warm"):
            context.advance(1, f"a new process, {name}")
            times = _start(cache, min(_LONGEST, max(10.0, context.left())))
            if "reason" in times:
                raise NotRun(
                    f"a new process finds no device, because {times['reason']}"
                    if context.gpu
                    else "a new process does not see the stand-in."
                )
            results[name] = times
    return ""


def _start(cache: str, longest: float) -> JsonObject:
    if not sys.executable:
        raise NotRun("the path of Python is not known, so no process can be started.")
    # the child must find what this process imported, however it was found
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "CUPY_CACHE_DIR": cache, "PYTHONPATH": paths}
    environment.pop("CUPY_CACHE_IN_MEMORY", None)  # then no kernel would be cached
    began = time.perf_counter()
    try:
        done = subprocess.run(
            [sys.executable, "-c", _CHILD],
            env=environment,
            capture_output=True,
            text=True,
            timeout=longest,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(
            f"a new process had no result after {longest:.0f} s"
        ) from None
    seconds = time.perf_counter() - began
    if done.returncode:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        raise RuntimeError(f"a new process failed: {redact(last)}")
    times: JsonObject = json.loads(done.stdout.splitlines()[-1])
    return {"process_s": seconds, **times}


def child() -> None:
    """Fit a small ensemble on the device, and write the times to standard output."""
    began = time.perf_counter()
    reason = why_unavailable("cupy")  # imports CuPy
    if reason:
        sys.stdout.write(json.dumps({"reason": reason}))
        return
    import cupy

    imported = time.perf_counter()
    cupy.zeros(1)
    cupy.cuda.get_current_stream().synchronize()
    ready = time.perf_counter()
    _fit()
    first = time.perf_counter()
    _fit()
    times = {
        "import_s": imported - began,
        "context_s": ready - imported,
        "first_kcc_s": first - ready,
        "second_kcc_s": time.perf_counter() - first,
    }
    sys.stdout.write(json.dumps(times))


def _fit() -> None:
    """Find the consensus of an ensemble about as large as Fisher's irises."""
    from gpu_consensus.methods.kcc import kcc

    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(3), 50)[:, None]
    noise = rng.random((150, 50)) < 0.2
    labels = np.where(noise, rng.integers(3, size=noise.shape), truth)
    kcc(labels, 3, backend="cupy", random_state=0)
