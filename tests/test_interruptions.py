"""A call that is killed, or interrupted, goes on from its checkpoint to its answer."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gpu_consensus as gpc
from gpu_consensus.loop import saved_call

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="Windows has no such signals, and no fork"
)
AT_ONCE = 10  # seconds on a busy machine; alone it takes less than one


def interrupted(tmp_path, rounds, seed, number):
    here = Path(__file__).with_name("interruptions.py")
    done = subprocess.run(
        [sys.executable, here, tmp_path, str(rounds), str(seed), str(int(number))],
        env={
            **os.environ,
            "GPU_CONSENSUS_NUM_THREADS": "2",
            "COVERAGE_PROCESS_START": "",
        },
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one for one in found if not one["equal"]] == []
    struck = [one for one in found if one["code"] != 0]
    assert len(struck) > len(found) / 4
    assert any(one["kept"] for one in struck)
    return found, struck


def test_calls_that_are_killed_go_on(tmp_path):
    _, struck = interrupted(tmp_path, 2, 0, signal.SIGKILL)
    assert {one["code"] for one in struck} == {-signal.SIGKILL}


@pytest.mark.slow
def test_calls_that_are_killed_at_many_moments_go_on(tmp_path):
    found, _ = interrupted(tmp_path, 20, 1, signal.SIGKILL)
    assert len(found) == 20 * len({one["call"] for one in found})


def test_calls_that_are_interrupted_end_at_once_and_go_on(tmp_path):
    found, struck = interrupted(tmp_path, 1, 2, signal.SIGINT)
    assert {one["code"] for one in struck} == {130}
    assert max(one["seconds"] for one in found) < AT_ONCE


@pytest.mark.slow
def test_calls_that_are_interrupted_at_many_moments_go_on(tmp_path):
    _, struck = interrupted(tmp_path, 20, 3, signal.SIGINT)
    assert {one["code"] for one in struck} == {130}


def ensemble(seed=0):
    rng = np.random.default_rng(seed)
    return gpc.Ensemble(rng.integers(0, 4, (60, 8)))


X = np.random.default_rng(5).normal(size=(60, 3))
CALLS = {
    "em": lambda path, **options: gpc.em(
        **{"ensemble": ensemble(), "n_clusters": 3, "checkpoint": path, **options}
    ),
    "least_squares": lambda path, **options: gpc.least_squares(
        **{"ensemble": ensemble(), "checkpoint": path, **options}
    ),
    "lambda_consensus": lambda path, **options: gpc.lambda_consensus(
        **{
            "X": X,
            "n_clusters": 3,
            "n_clusterers": 4,
            "n_rounds": 2,
            "checkpoint": path,
            **options,
        }
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_without_a_seed_the_checkpoint_has_one(tmp_path, name):
    path = tmp_path / "kept"
    once = CALLS[name](path).labels
    np.testing.assert_array_equal(CALLS[name](path).labels, once)


@pytest.mark.parametrize(
    ("name", "options", "what"),
    [
        ("em", {"n_clusters": 4}, "n_clusters"),
        ("em", {"ensemble": ensemble(1)}, "ensemble"),
        ("em", {"tol": 0.1}, "tol"),
        ("em", {"random_state": 1}, "random_state"),
        ("em", {"init": np.arange(60) % 3}, "init"),
        ("em", {"weights": np.arange(1, 9)}, "weights"),
        ("least_squares", {"threshold": "half"}, "threshold"),
        ("least_squares", {"ensemble": ensemble(1)}, "ensemble"),
        ("lambda_consensus", {"X": X + 1}, "X"),
        ("lambda_consensus", {"lam": 0.5}, "options"),
        ("lambda_consensus", {"random_state": 3}, "random_state"),
    ],
)
def test_another_call_is_refused(tmp_path, name, options, what):
    path = tmp_path / "kept"
    CALLS[name](path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=rf"another call \(its {what} differs\)"):
        CALLS[name](path, **options)
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", CALLS)
def test_another_version_is_refused(tmp_path, monkeypatch, name):
    CALLS[name](tmp_path / "kept")
    monkeypatch.setattr(saved_call, "VERSION", saved_call.VERSION + 1)
    with pytest.raises(ValueError, match="its version differs"):
        CALLS[name](tmp_path / "kept")


@pytest.mark.parametrize("name", CALLS)
def test_a_damaged_file_is_refused(tmp_path, name):
    path = tmp_path / "kept"
    CALLS[name](path)
    whole = path.read_bytes()
    told = []
    for begin in range(80, len(whole), max(1, len(whole) // 12)):
        changed = bytes([whole[begin] ^ 255])
        path.write_bytes(whole[:begin] + changed + whole[begin + 1 :])
        with contextlib.suppress(ValueError):  # but for bytes that nobody reads
            CALLS[name](path)
            continue
        with pytest.raises(ValueError, match="not a readable checkpoint") as error:
            CALLS[name](path)
        told.append(str(error.value))
    assert len(told) > 6
    assert not any("\n" in one for one in told)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="not a readable checkpoint"):
        CALLS[name](path)


def test_the_checkpoint_of_one_method_is_not_that_of_another(tmp_path):
    path = tmp_path / "kept"
    CALLS["em"](path)
    with pytest.raises(ValueError, match="its method differs"):
        CALLS["least_squares"](path)
    with pytest.raises(ValueError, match="written by another program"):
        gpc.kcc(ensemble(), 3, checkpoint=path)


@pytest.mark.parametrize("name", CALLS)
def test_a_path_that_cannot_be_written_is_refused_before_the_work(tmp_path, name):
    with pytest.raises(OSError, match="checkpoint"):
        CALLS[name](tmp_path / "no" / "kept")
    with pytest.raises(ValueError, match="is a folder"):
        CALLS[name](tmp_path)


def test_sites_of_their_own_have_no_checkpoint(tmp_path):
    class Mine:
        def cluster(self, feedback):
            return np.arange(60) % 3

    with pytest.raises(ValueError, match="X holds sites"):
        CALLS["lambda_consensus"](tmp_path / "kept", X=[Mine()], n_clusterers=None)
    assert list(tmp_path.iterdir()) == []


def test_least_squares_in_parts_is_least_squares(tmp_path):
    rng = np.random.default_rng(1)
    true = np.repeat(np.arange(5), 60)[:, None]
    labels = np.where(rng.random((300, 9)) < 0.4, rng.integers(0, 7, (300, 9)), true)
    alone = gpc.least_squares(labels)
    kept = gpc.least_squares(labels, checkpoint=tmp_path / "kept")
    np.testing.assert_array_equal(alone.labels, kept.labels)
    np.testing.assert_array_equal(alone.history, kept.history)
