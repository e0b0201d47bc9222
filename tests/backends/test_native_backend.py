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
    from gpu_consensus.backends.native import threads as native_threads

    # the smallest work is shared out too
    monkeypatch.setattr(native_threads, "WORTH_A_THREAD", 1)
    for case in pairwise_cases(threads):
        check_case(choose_backend("native", None, threads), case)


def test_counts_beyond_sixteen_bits():
    """One label and one cluster: every object adds to the same number."""
    n = 100_000
    codes, offsets = np.zeros((1, n), np.uint8), np.array([0, 2])
    assignment = np.zeros((40, n), np.uint8)
    backend = choose_backend("native", None)
    counts = fresh_counts(backend, codes, offsets, assignment, 1)
    assert (counts[0] == n).all()
    backend.count(codes, offsets, assignment, assignment + 1, counts)
    assert not counts.any()


def test_slices_maps_and_strides_of_codes(tmp_path):
    rng = np.random.default_rng(0)
    codes, offsets = oracles.random_codes(rng, 300, [7, 9, 300], 0.2)
    table = rng.normal(size=(offsets[-1], 3, 4)).astype(np.float32)
    backend = choose_backend("native", None)
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
    native, numpy = (choose_backend(name, None) for name in ("native", "numpy"))
    from gpu_consensus.loop.utilities import parse_utility
    from gpu_consensus.methods.kcc import KccRule

    rule = KccRule(ens, parse_utility("h")[1], ens.weights)
    for shape in ((17, 4), (2, 16), (16, 1), (1, 20)):
        assignment = rng.integers(shape[1], size=(shape[0], 200)).astype(np.uint8)
        counts = fresh_counts(numpy, ens.codes, ens.offsets, assignment, shape[1])
        table, _ = native.table(rule.recipe, counts)
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
            found = native.assign(ens.codes, ens.offsets, part, gap=True)
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
            ("native", {}),
            ("native", {"n_jobs": 1}),
            ("native", {"memory_limit": 1 << 12}),
        )
    ]
    for found in results[1:]:
        assert found.backend == "native"
        assert np.array_equal(found.labels, results[0].labels)
        assert np.array_equal(found.history, results[0].history)
        assert found.objective == results[0].objective


def test_many_threads_at_once():
    labels, _ = noisy(2, n=3000, r=20)
    ens = gpc.Ensemble(labels)

    def run(seed):
        return gpc.sec(ens, 5, random_state=seed, backend="native", n_jobs=2)

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(run, [0, 1, 2] * 4))
    for seed in range(3):
        expected = gpc.sec(ens, 5, random_state=seed, backend="numpy")
        for result in found[seed::3]:
            assert np.array_equal(result.labels, expected.labels)


def _child(queue, labels):
    found = gpc.kcc(labels, 5, "c", random_state=0, backend="native", n_jobs=2)
    queue.put(found.labels)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # from Python 3.12
def test_after_a_fork():
    labels, _ = noisy(3, n=3000, r=20)
    here = gpc.kcc(labels, 5, "c", random_state=0, backend="native", n_jobs=2)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(queue, labels))
    child.start()
    found = queue.get(timeout=60)
    child.join()
    assert np.array_equal(found, here.labels)


def test_an_error_in_a_thread_arrives_and_leaves_the_threads_usable():
    from gpu_consensus.backends.native.threads import for_each

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


def test_turned_off_it_is_done_without():
    """Labels are the same, and who asks for it by name learns why not."""
    done = run_elsewhere(
        """
        import numpy as np
        import gpu_consensus as gpc

        labels = np.random.default_rng(0).integers(3, size=(1 << 10, 4))
        options = {"n_init": 2, "random_state": 0}
        assert gpc.kcc(labels, 3, **options).backend == "numpy"
        ipc = gpc.ipc(labels, 3, update="sequential", **options)
        assert ipc.backend == "numpy"
        reason = "GPU_CONSENSUS_NATIVE=0 turns compiled code off"
        assert gpc.doctor(quick=True).backends["native"].startswith(reason)
        try:
            gpc.kcc(labels, 3, backend="native")
        except RuntimeError as error:
            assert reason in str(error)
        else:
            raise AssertionError("it ran")
        """,
        GPU_CONSENSUS_NATIVE="0",
        GPU_CONSENSUS_BACKEND="auto",
    )
    assert done.returncode == 0, done.stderr
