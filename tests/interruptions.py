"""Ends calls at random moments by a signal, repeats them, and compares the answers.

``python interruptions.py FOLDER ROUNDS SEED SIGNAL`` prints one JSON object per
interruption. Every call runs in a fork of this process, which has imported what they
need and has no thread; so an interruption takes no longer than the call.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import numpy as np
import scipy.sparse.linalg
import sklearn.cluster

import gpu_consensus as gpc
from gpu_consensus.loop import checkpoint, saved_call
from gpu_consensus.select import kept

LOADED = (scipy.sparse.linalg, sklearn.cluster)  # before the first fork
LEFT = 60  # seconds until a call that does not end is given up
rng = np.random.default_rng(0)
X = np.repeat(rng.normal(size=(6, 4)) * 3, 150, axis=0) + rng.normal(size=(900, 4))
labels = np.repeat(np.arange(6), 150)[:, None] + np.zeros((1, 20), dtype=int)
labels = np.where(
    rng.random(labels.shape) < 0.5, rng.integers(0, 9, labels.shape), labels
)
labels[rng.random(labels.shape) < 0.2] = -1
ENSEMBLE = gpc.Ensemble(labels)


def generate(path, **options):
    return gpc.generate_partitions(
        X, 60, n_clusters=6, checkpoint=path, random_state=0, **options
    ).labels


def of(method, *arguments, **options):
    def call(path):
        function = getattr(gpc, method)
        given = {"random_state": 0, "checkpoint": path, **options}
        return function(*arguments, **given).labels

    return call


CALLS = {
    "generate": lambda path: generate(path, n_jobs=1),
    "generate by workers": lambda path: generate(path, n_jobs=3),
    "kcc": of("kcc", ENSEMBLE, 6, search=6, n_init=20),
    "sec": of("sec", ENSEMBLE, 6, search=6, n_init=20),
    "ipc": of("ipc", ENSEMBLE, 6, update="sequential", n_init=20),
    "em": of("em", ENSEMBLE, 6, n_init=20, tol=1e-9),
    "least_squares": of("least_squares", ENSEMBLE),
    "lambda_consensus": of(
        "lambda_consensus", X, 6, n_clusterers=12, n_rounds=4, stop_on_repeat=False
    ),
    "lambda_consensus, all": of(
        "lambda_consensus",
        [X[:, :2], X[:, 2:]] * 3,
        6,
        n_rounds=3,
        feedback="all",
        stop_on_repeat=False,
    ),
}


def begin(name: str, path: Path, result: Path) -> int:
    """Run a call in a fork; it writes its labels, or exits by 130."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        found = CALLS[name](path)
        with result.open("wb") as file:
            np.save(file, found)
        code = 0
    except KeyboardInterrupt:
        code = 130
    finally:
        sys.stdout.flush()
        os._exit(code)


def wait(child: int) -> int:
    end = time.monotonic() + LEFT
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise TimeoutError("the call did not end")


def run(folder: Path, rounds: int, seed: int, number: int) -> None:
    moments = np.random.default_rng(seed)
    for module in (checkpoint, saved_call, kept):
        module.SECONDS_BETWEEN_SAVES = 0.0
    for name in CALLS:
        path, result = folder / "kept", folder / "result.npy"
        start = time.monotonic()
        assert wait(begin(name, path, result)) == 0, name
        whole = time.monotonic() - start
        expected = np.load(result)
        for _ in range(rounds):
            remove(path, result)
            child = begin(name, path, result)
            time.sleep(moments.uniform(0, whole))
            os.kill(child, number)
            struck = time.monotonic()
            code = wait(child)
            seconds = time.monotonic() - struck
            was_kept, was_done = path.exists(), result.exists()
            again = wait(begin(name, path, result))
            equal = again == 0 and np.array_equal(np.load(result), expected)
            told = {
                "call": name,
                "code": code,
                "seconds": round(seconds, 3),
                "kept": was_kept,
                "done": was_done,
                "equal": bool(equal),
            }
            sys.stdout.write(json.dumps(told) + "\n")
            sys.stdout.flush()
        remove(path, result)


def remove(*paths: Path) -> None:
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


if __name__ == "__main__":
    run(Path(sys.argv[1]), *map(int, sys.argv[2:]))
