"""``--dry-run``: what a call would take, beside what it takes."""

import json
import time
import tracemalloc

import numpy as np
import pytest

import gpu_consensus as gpc
from gpu_consensus.cli import plan
from gpu_consensus.cli.main import main


@pytest.mark.parametrize("n", [1_500, 6_000, 24_000])
def test_time_and_memory_are_near_the_truth(monkeypatch, n):
    """Of one thread's own time, so that other programs do not count."""
    monkeypatch.setattr(time, "perf_counter", time.process_time)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 8)) + rng.integers(4, size=(n, 1)) * 6

    def work(rows):
        call = {"n_partitions": 12, "n_jobs": 1, "backend": "auto", "random_state": 0}
        return gpc.cluster(X[rows], 4, **call).details["seconds"]

    def trial(rows):
        return dict(zip(("partitions", "consensus"), work(rows), strict=True))

    before = plan._held_now()
    found = plan.estimate(n, trial)
    tracemalloc.start()
    try:
        seconds = sum(work(slice(None)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 1 / 3 < sum(found.seconds.values()) / seconds < 3
    assert found.nbytes > before + peak / 1.5
    assert found.nbytes < max(before, plan._most_held()) + 5 * peak


def test_nothing_is_written_and_the_plan_is_told(capsys, tmp_path):
    calls = (
        ("cluster", "--n-clusters", "3", "--report", tmp_path / "r.html"),
        ("generate",),
    )
    for command, *more in calls:
        words = [command, "--example", "iris", "--n-partitions", "5", *more]
        words += ["--output", tmp_path / "out.csv"][: 2 if command != "generate" else 0]
        words += ["--output", tmp_path / "out"] if command == "generate" else []
        assert main([str(word) for word in (*words, "--dry-run")]) == 0
        out = capsys.readouterr().out
        assert out.startswith("plan:   150 objects, 4 features -> 5 partitions (rps)")
        assert str(tmp_path / "out") in out
        assert "memory: about" in out
    path = tmp_path / "labels.csv"
    path.write_text("a,b\n" + "0,0\n0,0\n1,1\n1,0\n" * 10)
    words = ["consensus", str(path), "--n-clusters", "2", "--dry-run", "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["seconds"]) == {"reading", "consensus"}
    assert found["nbytes"] > 0
    assert [one.name for one in tmp_path.iterdir()] == ["labels.csv"]
