"""Shards in threads and under mpirun: the labels of one process, bit for bit."""

import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from random_ensembles import noisy

import gpu_consensus as gpc
from gpu_consensus import distributed
from gpu_consensus.distributed import Range, WorkerError, in_threads
from gpu_consensus.loop import best_start

pytestmark = pytest.mark.every_backend(emulated=False)
METHODS = (
    *("kcc", "sec", "ivc", "ipvc", "ipc", "qmi", "lce"),
    *("lwgp", "usenc", "cvote", "auto"),
)


@pytest.fixture(scope="module")
def given():
    """Labels with gaps, and objects without any."""
    labels, _ = noisy(4, n=130, r=7, missing=0.25)
    labels[[3, 77]] = -1
    return gpc.Ensemble(labels)


def same(found, expected):
    assert np.array_equal(found.labels, expected.labels)
    assert np.array_equal(found.history, expected.history)
    assert found.objective == expected.objective
    assert found.value == expected.value
    assert found.details.get("search") == expected.details.get("search")
    assert found.details.get("refinement") == expected.details.get("refinement")


def shared(name, given, size, n_clusters=4, **options):
    def work(comm):
        return getattr(distributed, name)(comm, given, n_clusters, **options)

    first, *others = in_threads(size, work)
    assert others == [None] * (size - 1)
    return first


@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize("name", METHODS)
def test_the_labels_are_those_of_one_process(name, size, given):
    options = {"random_state": 3, "on_unlabelled": "keep"}
    expected = getattr(gpc, name)(given, 4, **options)
    same(shared(name, given, size, **options), expected)


@pytest.mark.parametrize(
    "options",
    [
        {"init": "careful"},
        {"init": "random", "search": 2},
        {"init": "partition", "utility": "nh", "refine": True},
        {"n_init": 13, "memory_limit": 60_000},
        {"init": np.arange(130) % 4},
    ],
    ids=str,
)
def test_options_mean_the_same(options, given):
    options = {"random_state": 1, "on_unlabelled": "keep", **options}
    same(shared("kcc", given, 3, **options), gpc.kcc(given, 4, **options))


def test_a_search_by_a_sample(given, monkeypatch):
    monkeypatch.setattr(best_start, "MOST_OBJECTS", 60)
    options = {"random_state": 1, "on_unlabelled": "keep"}
    found = shared("kcc", given, 3, **options)
    assert found.details["search"]["objects"] == 60
    same(found, gpc.kcc(given, 4, **options))


def test_emptied_clusters_are_filled_from_any_shard(given):
    """Labels that all objects have leave clusters empty."""
    labels = np.repeat([[0, 0], [0, 1], [1, 1]], 20, axis=0)
    options = {"random_state": 0, "init": np.arange(60) % 3, "max_iter": 5}
    for name in ("kcc", "ivc"):
        expected = getattr(gpc, name)(labels, 3, **options)
        found = shared(name, gpc.Ensemble(labels), 4, n_clusters=3, **options)
        same(found, expected)


def test_folders_hold_ranges(given, tmp_path):
    given.save(tmp_path / "all")
    expected = gpc.kcc(given, 4, random_state=0, on_unlabelled="keep")
    options = {"random_state": 0, "on_unlabelled": "keep"}
    same(shared("kcc", tmp_path / "all", 2, **options), expected)
    path = str(tmp_path / "all")
    ranges = [Range(path, 90, 130, 90), Range(path, 0, 90, 0)]
    same(shared("kcc", ranges, 2, **options), expected)


def test_a_checkpoint_is_gone_on_with(given, tmp_path):
    path = tmp_path / "state"
    options = {"random_state": 0, "on_unlabelled": "keep", "checkpoint": path}
    expected = gpc.kcc(given, 4, random_state=0, on_unlabelled="keep")
    for size in (2, 3):
        same(shared("kcc", given, size, **options), expected)
        assert path.exists()


@pytest.mark.parametrize(
    ("ranges", "why"),
    [
        ([(0, 60), (50, 130)], "two shards have the objects 50 to 59"),
        ([(0, 60), (61, 130)], "no shard has the objects 60 to 60"),
        ([(0, 60), (60, 60)], "holds no object"),
        ([(0, 60), (60, 131)], "has 130 objects"),
        ([(0, 130)], "1 ranges for 2 processes"),
    ],
)
def test_ranges_that_do_not_fit_are_refused(ranges, why, given, tmp_path):
    given.save(tmp_path / "all")
    source = [Range(str(tmp_path / "all"), a, b, a) for a, b in ranges]
    with pytest.raises(WorkerError, match=why):
        shared("kcc", source, 2)


def test_shards_with_other_labels_are_refused(given, tmp_path):
    given.save(tmp_path / "a")
    gpc.Ensemble(noisy(0, n=50, r=7)[0]).save(tmp_path / "b")
    source = [
        Range(str(tmp_path / "a"), 0, 60, 0),
        Range(str(tmp_path / "b"), 60, 110, 0),
    ]
    with pytest.raises(ValueError, match=r"objects 60 to 109 has .* encode all shards"):
        shared("kcc", source, 2)


def test_an_error_reaches_all(given):
    with pytest.raises(ValueError, match="n_init=0"):
        shared("kcc", given, 2, n_init=0)
    with pytest.raises(WorkerError, match="backend='gpu'"):
        shared("kcc", given, 2, backend="gpu")
    with pytest.raises(WorkerError, match=r"a worker has no|no such|not exist"):
        shared("kcc", [Range("/nowhere", 0, 5, 0), Range("/nowhere", 5, 9, 5)], 2)
    with pytest.raises(TypeError, match=r"where=3 should be a distributed\.Client, or"):
        distributed.kcc(3, given, 4)
    with pytest.raises(ValueError, match="sequential"):
        shared("ipc", given, 2, update="sequential", on_unlabelled="keep")


def test_what_needs_the_codes_afterwards_says_so(given):
    found = shared("kcc", given, 2, on_unlabelled="keep", random_state=0)
    assert np.array_equal(
        found.predict(given.labels),
        gpc.kcc(given, 4, on_unlabelled="keep", random_state=0).predict(given.labels),
    )
    with pytest.raises(WorkerError, match="the codes are on the workers"):
        _ = found.confidence


def test_the_import_touches_no_engine():
    code = "import sys, gpu_consensus as gpc; gpc.distributed.kcc; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert not {"dask", "distributed", "mpi4py"} & set(ran.stdout.split())
    assert "gpu_consensus.distributed" in ran.stdout.split()


SCRIPT = """
import hashlib, json, sys
import gpu_consensus as gpc
from gpu_consensus import distributed
comm = distributed.MpiCommunicator()
found = {}
for name in sys.argv[2:]:
    result = getattr(distributed, name)(
        comm, sys.argv[1], 4, random_state=3, on_unlabelled="keep", n_jobs=1
    )
    assert (result is None) == (comm.rank > 0)
    if result is not None:
        found[name] = result.labels.tolist()
if comm.rank == 0:
    print(json.dumps(found))
"""


@pytest.mark.parametrize(
    ("size", "names"),
    [
        (2, ("kcc", "ivc")),
        pytest.param(2, METHODS, marks=pytest.mark.slow),
        pytest.param(4, METHODS, marks=pytest.mark.slow),
    ],
)
def test_under_mpirun(size, names, given, tmp_path):
    pytest.importorskip("mpi4py")
    launcher = shutil.which("mpirun")
    if launcher is None:
        pytest.skip("there is no mpirun")
    given.save(tmp_path / "all")
    environment = {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    script = tmp_path / "call.py"
    script.write_text(SCRIPT)
    call = [launcher, "--oversubscribe", "-n", str(size), sys.executable, str(script)]
    ran = subprocess.run(
        [*call, str(tmp_path / "all"), *names],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
        cwd=Path.cwd(),
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    for name in names:
        expected = getattr(gpc, name)(given, 4, random_state=3, on_unlabelled="keep")
        assert found[name] == expected.labels.tolist(), name


def test_the_communicator_of_the_docs(given):
    page = Path(__file__).parents[2] / "docs" / "distributed.md"
    (code,) = re.findall(
        r"```python\n(import numpy as np\n.*?)```", page.read_text("utf-8"), re.DOTALL
    )
    names = {}
    exec(code, names)
    ends = [multiprocessing.Pipe() for _ in range(2)]
    pipes = [[here for here, _ in ends], *([there] for _, there in ends)]
    options = {"random_state": 3, "on_unlabelled": "keep"}

    def work(comm):
        own = names["Pipes"](comm.rank, 3, pipes[comm.rank])
        return distributed.sec(own, given, 4, **options)

    same(in_threads(3, work)[0], gpc.sec(given, 4, **options))
