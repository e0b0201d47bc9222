"""The compiled backend: equal to numpy in every bit, on any number of threads."""

import multiprocessing
import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import oracles
import pytest
from fresh_counts import fresh_counts
from kernel_matrix import check_case, pairwise_cases
from random_ensembles import noisy

import gpu_consensus as gpc
from gpu_consensus.backends import choose_backend

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("threads", [1, 3])
def test_every_primitive_at_every_pair_of_sizes(monkeypatch, threads):
    from gpu_consensus.backends import numba_backend

    # the smallest work is shared out too
    monkeypatch.setattr(numba_backend, "_WORTH_A_THREAD", 1)
    for case in pairwise_cases(threads):
        check_case(choose_backend("numba", None, threads), case)


def test_counts_beyond_sixteen_bits():
    """One label and one cluster: every object adds to the same number."""
    n = 100_000
    codes, offsets = np.zeros((1, n), np.uint8), np.array([0, 2])
    assignment = np.zeros((40, n), np.uint8)
    backend = choose_backend("numba", None)
    counts = fresh_counts(backend, codes, offsets, assignment, 1)
    assert (counts[0] == n).all()
    backend.count(codes, offsets, assignment, assignment + 1, counts)
    assert not counts.any()


def test_slices_maps_and_strides_of_codes(tmp_path):
    rng = np.random.default_rng(0)
    codes, offsets = oracles.random_codes(rng, 300, [7, 9, 300], 0.2)
    table = rng.normal(size=(offsets[-1], 3, 4)).astype(np.float32)
    backend = choose_backend("numba", None)
    np.save(tmp_path / "codes.npy", codes)
    mapped = np.load(tmp_path / "codes.npy", mmap_mode="r")
    wide = np.repeat(codes, 2, axis=1)
    for same in (codes, mapped, wide[:, ::2], codes[::-1][::-1], codes.T.copy().T):
        for rows in (slice(0, 300), slice(7, 100)):
            found = backend.assign(same[:, rows], offsets, table).assignment
            expected = choose_backend("numpy", None).assign(
                codes[:, rows], offsets, table
            )
            assert np.array_equal(found, expected.assignment)


def test_restarts_of_a_table_are_not_taken_for_a_padded_table():
    """Slices of our own tables have strides of their own."""
    labels, _ = noisy(0, n=200, r=6)
    ens = gpc.Ensemble(labels)
    rng = np.random.default_rng(0)
    numba, numpy = (choose_backend(name, None) for name in ("numba", "numpy"))
    from gpu_consensus.loop.utilities import parse_utility
    from gpu_consensus.methods.kcc import KccRule

    rule = KccRule(ens, parse_utility("h")[1], ens.weights)
    for shape in ((17, 4), (2, 16), (16, 1), (1, 20)):
        assignment = rng.integers(shape[1], size=(shape[0], 200)).astype(np.uint8)
        counts = fresh_counts(numpy, ens.codes, ens.offsets, assignment, shape[1])
        table, _ = numba.table(rule.recipe, counts)
        for part in (
            table,
            table[:, 1:],
            table[:, :1],
            table[:, ::2],
            table[:, :, 1:],
            table.copy(),
        ):
            if not part.size:
                continue
            expected = numpy.assign(ens.codes, ens.offsets, part, gap=True)
            found = numba.assign(ens.codes, ens.offsets, part, gap=True)
            assert np.array_equal(found.assignment, expected.assignment)
            assert np.array_equal(found.gap, expected.gap)


METHODS = [
    ("kcc", {"utility": "c"}),
    ("kcc", {"utility": "nh", "init": "careful"}),
    ("kcc", {"utility": "l5"}),
    ("sec", {}),
    ("ivc", {"n_init": 20}),
    ("ipvc", {"n_init": 20}),
]


@pytest.mark.parametrize("missing", [0.0, 0.5])
@pytest.mark.parametrize(("method", "options"), METHODS)
def test_methods_give_the_labels_of_numpy(method, options, missing):
    labels, _ = noisy(1, n=700, r=12, k=5, missing=missing)
    ens = gpc.Ensemble(labels)
    results = [
        gpc.METHODS[method](ens, 5, random_state=0, backend=name, **options, **more)
        for name, more in (
            ("numpy", {}),
            ("numba", {}),
            ("numba", {"n_jobs": 1}),
            ("numba", {"memory_limit": 1 << 12}),
        )
    ]
    for found in results[1:]:
        assert found.backend == "numba"
        assert np.array_equal(found.labels, results[0].labels)
        assert np.array_equal(found.history, results[0].history)
        assert found.objective == results[0].objective


def test_many_threads_at_once():
    labels, _ = noisy(2, n=3000, r=20)
    ens = gpc.Ensemble(labels)

    def run(seed):
        return gpc.sec(ens, 5, random_state=seed, backend="numba", n_jobs=2)

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(run, [0, 1, 2] * 4))
    for seed in range(3):
        expected = gpc.sec(ens, 5, random_state=seed, backend="numpy")
        for result in found[seed::3]:
            assert np.array_equal(result.labels, expected.labels)


def _child(queue, labels):
    found = gpc.kcc(labels, 5, "c", random_state=0, backend="numba", n_jobs=2)
    queue.put(found.labels)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # from Python 3.12
def test_after_a_fork():
    labels, _ = noisy(3, n=3000, r=20)
    here = gpc.kcc(labels, 5, "c", random_state=0, backend="numba", n_jobs=2)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(queue, labels))
    child.start()
    found = queue.get(timeout=60)
    child.join()
    assert np.array_equal(found, here.labels)


def test_an_error_in_a_thread_arrives_and_leaves_the_threads_usable():
    from gpu_consensus.backends.numba_jit import for_each

    def work(part):
        if part == 3:
            raise ValueError("part 3")
        done.append(part)

    done = []
    with pytest.raises(ValueError, match="part 3"):
        for_each(work, range(8), 3)
    done.clear()
    for_each(work, range(3), 3)
    assert sorted(done) == [0, 1, 2]


def run_elsewhere(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def test_importing_the_package_leaves_numba_alone():
    done = run_elsewhere(
        """
        import sys
        import gpu_consensus as gpc
        gpc.kcc(gpc.Ensemble.from_partitions([[0, 0, 1], [0, 1, 1]]), 2)
        assert "numba" not in sys.modules
        """
    )
    assert done.returncode == 0, done.stderr


def test_a_numba_that_cannot_be_imported_is_done_without(tmp_path):
    """As when NumPy is newer than numba allows: only who asks for numba is told."""
    (tmp_path / "numba.py").write_text("raise ImportError('NumPy is too new.')")
    done = run_elsewhere(
        """
        import numpy as np
        import gpu_consensus as gpc
        from gpu_consensus.backends.host_loops import compiled_loops

        labels = np.random.default_rng(0).integers(3, size=(1 << 13, 4))
        labels[: 1 << 12, 1:] = labels[: 1 << 12, :1]
        options = {"n_init": 2, "random_state": 0}
        with compiled_loops(True):
            assert gpc.kcc(labels, 3, **options, backend="numpy").backend == "numpy"
        ipc = gpc.ipc(labels, 3, update="sequential", **options, backend="numpy")
        assert ipc.backend == "numpy"
        assert gpc.kcc(labels, 16, **options, refine=False).backend == "numpy"
        told = "numba is installed but cannot be imported (NumPy is too new); mend it"
        assert gpc.doctor().backends["numba"].startswith(told)
        try:
            gpc.kcc(labels, 3, backend="numba")
        except RuntimeError as error:
            assert told in str(error)
        else:
            raise AssertionError("it ran")
        """,
        PYTHONPATH=str(tmp_path),
        GPU_CONSENSUS_BACKEND="auto",
    )
    assert done.returncode == 0, done.stderr


def test_without_a_place_for_the_cache():
    """numba finds no folder beside a function that is in no file: we say so, once."""
    done = run_elsewhere(
        """
        import numba
        from gpu_consensus.backends.numba_jit import compiled

        def double(x):
            return 2 * x

        try:
            numba.njit(cache=True)(double)
        except RuntimeError as error:
            assert "cannot cache" in str(error)
        else:
            raise AssertionError("there is a place")
        assert compiled(double)(21) == compiled(double)(21) == 42
        """,
        NUMBA_CACHE_DIR="/dev/null/nowhere",
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Warning: NUMBA_CACHE_DIR='/dev/null/nowhere'") == 1
    assert "name a folder that may be written" in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="Windows has no limit on file sizes")
def test_with_a_full_disk(tmp_path):
    """Files may not grow: what is compiled is used, and not kept."""
    done = run_elsewhere(
        """
        import resource
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
        from gpu_consensus.backends.numba_tables import log2

        assert log2(8.0) == 3.0
        """,
        NUMBA_CACHE_DIR=str(tmp_path),
        PYTHONDONTWRITEBYTECODE="1",
    )
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.rglob("*.nbc"))


def test_with_a_damaged_cache(tmp_path):
    """As a crash of the machine leaves it: compiled once more, and kept again."""
    code = """
        from gpu_consensus.backends.numba_tables import log2

        assert log2(8.0) == 3.0
        print(sum(log2.stats.cache_hits.values()))
        """
    hits = []
    for files in ("none", "*.nbi", "*.nbc", "none"):
        for path in tmp_path.rglob(files):
            os.truncate(path, path.stat().st_size // 2 if files == "*.nbc" else 0)
        done = run_elsewhere(code, NUMBA_CACHE_DIR=str(tmp_path))
        assert done.returncode == 0, done.stderr
        hits.append(int(done.stdout))
    assert hits == [0, 0, 0, 1]
