"""A real Dask cluster of processes: the labels of one process, whoever is killed."""

import os
import random
import signal
import threading
import time

import numpy as np
import pytest
from random_ensembles import noisy

import gpu_consensus as gpc
from gpu_consensus import distributed
from gpu_consensus.distributed import Range, WorkerError

dask = pytest.importorskip("distributed")

from gpu_consensus.distributed.dask_crew import DaskCrew  # noqa: E402

# of Dask, about a busy machine
pytestmark = pytest.mark.filterwarnings("default")
METHODS = (
    *("kcc", "sec", "ivc", "ipvc", "ipc", "qmi", "lce"),
    *("lwgp", "usenc", "cvote", "auto"),
)
OPTIONS = {"random_state": 3, "on_unlabelled": "keep"}


@pytest.fixture(scope="module")
def client():
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with dask.LocalCluster(2, **options) as cluster, dask.Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """Labels with gaps and objects without any, and where they are saved."""
    labels, _ = noisy(4, n=130, r=7, missing=0.25)
    labels[[3, 77]] = -1
    ensemble = gpc.Ensemble(labels)
    path = tmp_path_factory.mktemp("shared") / "all"
    ensemble.save(path)
    return ensemble, path


@pytest.fixture
def crews(monkeypatch):
    """The crews that calls make."""
    made, begin = [], DaskCrew.__init__

    def noted(self, *given):
        made.append(self)
        begin(self, *given)

    monkeypatch.setattr(DaskCrew, "__init__", noted)
    return made


def same(found, expected):
    assert np.array_equal(found.labels, expected.labels)
    assert np.array_equal(found.history, expected.history)
    assert found.objective == expected.objective
    assert found.details.get("search") == expected.details.get("search")


def no_actors(client):
    """Whether the scheduler forgets all actors, within seconds."""
    for _ in range(100):
        left = client.run_on_scheduler(
            lambda dask_scheduler: [
                key for key, task in dask_scheduler.tasks.items() if task.actor
            ]
        )
        if not left:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("kcc", "sec") else pytest.param(name, marks=pytest.mark.slow)
        for name in METHODS
    ],
)
def test_the_labels_are_those_of_one_process(name, client, given):
    ensemble, path = given
    found = getattr(distributed, name)(client, path, 4, **OPTIONS)
    same(found, getattr(gpc, name)(ensemble, 4, **OPTIONS))
    assert no_actors(client)


def test_an_iteration_is_a_table_down_and_a_sum_up(client, given, crews):
    """r = 7, K = 4: 4 S R K bytes down; 8 (S R K + R) bytes up; a header each."""
    ensemble, path = given
    traffic = []

    def noted(self, message):
        sent, received = self.sent, self.received
        answer = climb(self, message)
        if b'"step"' in message[:400]:
            traffic.append((self.sent - sent, self.received - received))
        return answer

    climb, DaskCrew._climb = DaskCrew._climb, noted
    options = {**OPTIONS, "init": "partition", "refine": False, "n_init": 1}
    try:
        distributed.kcc(client, path, 4, **options)
    finally:
        DaskCrew._climb = climb
    entries = int(ensemble.offsets[-1]) * 4
    assert len(traffic) >= 2
    for down, up in traffic[1:]:
        assert 0 < down - 4 * entries < 1024
        assert 0 < up - 8 * (entries + 1) < 1024


def kill_one(client):
    """Kill a worker as the kernel would."""
    wait_for(client, 1)
    pids = client.run(os.getpid)
    os.kill(random.choice(list(pids.values())), signal.SIGKILL)


def wait_for(client, number):
    client.wait_for_workers(number, timeout=60)


@pytest.mark.parametrize(
    ("name", "at"), [("kcc", 9), ("ipvc", 12)], ids=["in a search", "in a loop"]
)
def test_a_worker_killed_in_an_iteration(name, at, client, given, crews, monkeypatch):
    ensemble, path = given
    options = {**OPTIONS, "init": "partition"} if name == "ipvc" else OPTIONS
    climb = DaskCrew._climb

    def cut(self, message):
        if self._number == at and not self.n_lost:
            killer = threading.Thread(target=kill_one, args=(client,))
            killer.start()
            killer.join()
        return climb(self, message)

    monkeypatch.setattr(DaskCrew, "_climb", cut)
    with pytest.warns(UserWarning, match="lost the worker"):
        found = getattr(distributed, name)(client, path, 4, **options)
    assert crews[-1].n_lost >= 1
    same(found, getattr(gpc, name)(ensemble, 4, **options))
    wait_for(client, 2)
    assert no_actors(client)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_worker_killed_at_any_moment(seed, client, given, crews):
    ensemble, path = given
    name = ("kcc", "sec", "ipvc", "lce")[seed % 4]
    timer = threading.Timer(random.Random(seed).uniform(0.3, 1.5), kill_one, (client,))
    timer.start()
    found = getattr(distributed, name)(client, path, 4, **OPTIONS)
    timer.join()
    same(found, getattr(gpc, name)(ensemble, 4, **OPTIONS))
    wait_for(client, 2)


def test_a_worker_that_raises_gives_one_error(client, given):
    _, path = given
    with pytest.raises(WorkerError, match=r"^the worker tcp:.*backend='gpu'"):
        distributed.kcc(client, path, 4, backend="gpu")
    source = [Range(str(path), 0, 60, 0), Range("/nowhere", 60, 130, 0)]
    with pytest.raises(WorkerError, match=r"^the worker tcp:.* a worker has no '/now"):
        distributed.kcc(client, source, 4)
    with pytest.raises(ValueError, match="n_init=0"):
        distributed.kcc(client, path, 4, n_init=0)
    assert no_actors(client)


def test_calls_that_cannot_run_are_refused(client, given):
    ensemble, path = given
    with pytest.raises(TypeError, match="save it to a folder"):
        distributed.kcc(client, ensemble, 4)
    with pytest.raises(ValueError, match="two shards have the objects 50 to 59"):
        distributed.kcc(client, [Range("", 0, 60, 0), Range("", 50, 130, 0)], 4)
    closed = dask.Client(client.scheduler.address, set_as_default=False)
    closed.close()
    with pytest.raises(ValueError, match="where is a Client that is closed"):
        distributed.kcc(closed, path, 4)


def test_another_release_on_a_worker_is_refused(client, given, monkeypatch):
    _, path = given
    monkeypatch.setattr(gpc, "__version__", "99.0")
    with pytest.raises(WorkerError, match=r"has gpu-consensus .* the client has 99.0"):
        distributed.kcc(client, path, 4)
