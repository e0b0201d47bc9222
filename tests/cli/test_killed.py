"""Commands that are killed at random moments go on, and end as if nothing had been."""

import contextlib
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from gpu_consensus.cli.main import main

PROGRAM = "import gpu_consensus_command as command; command.run()"
COMMANDS = {
    "generate": "generate data.npy --n-partitions 40 --seed 1 --n-jobs 1",
    "consensus": "consensus labels.npy --n-clusters 6 --method kcc --seed 1 --n-jobs 1 "
    "--n-init 40",
    "select-k": "select-k data.npy --candidates 2:4 --seed 1 --n-jobs 1",
}
OUTPUTS = {"generate": "ensemble.npz", "consensus": "out.csv", "select-k": "k.csv"}


def start(folder, command, checkpoint):
    words = COMMANDS[command].split()
    words += ["--checkpoint", checkpoint, "--output", OUTPUTS[command]]
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def finish(folder, command, checkpoint):
    """Run a command to its end, in this process; return what it wrote."""
    path = folder / OUTPUTS[command]
    words = COMMANDS[command].split()
    words += ["--checkpoint", checkpoint, "--output", path.name]
    with contextlib.chdir(folder):
        assert main(words) == 0
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as parts:
            return {name: parts[name].tobytes() for name in parts.files}
    return path.read_bytes()


def make_inputs(folder):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) + 5 * rng.integers(4, size=(300, 1))
    np.save(folder / "data.npy", X)
    np.save(folder / "labels.npy", rng.integers(5, size=(1000, 30)))


def kill_and_go_on(folder, command, n_kills, seed, lasts=None):
    """Kill runs until so many were killed; each chain of them ends as one run does.

    Moments are drawn within ``lasts`` seconds, by default as long as a whole run takes.
    """
    make_inputs(folder)
    expected = finish(folder, command, "whole")
    output = folder / OUTPUTS[command]
    output.unlink()
    if lasts is None:
        begin = time.monotonic()
        assert start(folder, command, "process").wait() == 0
        lasts = time.monotonic() - begin
    moments, killed, chain = random.Random(seed), 0, 0
    while killed < n_kills:
        chain += 1
        output.unlink(missing_ok=True)
        for _ in range(min(moments.randint(1, 4), n_kills - killed)):
            process = start(folder, command, f"checkpoint-{chain}")
            try:
                process.wait(moments.uniform(0.05, lasts))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                killed += 1
            assert process.wait() in (0, -signal.SIGKILL)
        assert finish(folder, command, f"checkpoint-{chain}") == expected
    return killed


@pytest.mark.skipif(sys.platform == "win32", reason="it has no SIGKILL")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_killed_command_goes_on(tmp_path, command):
    assert kill_and_go_on(tmp_path, command, 1, 0, lasts=1.5) == 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="it has no SIGKILL")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_killed_many_times_goes_on(tmp_path, command):
    assert kill_and_go_on(tmp_path, command, 67, 1) == 67
