"""Uploads and streamed codes, when copies and kernels really overlap.

The emulator does the work of streams late, copies first, or in random order, whatever
the program's own waits allow. Each wait taken away must then show.
"""

import types
from pathlib import Path

import numpy as np
import oracles
import pytest
from conftest import emulated
from cudaemu import DeviceSpec, configured
from cudaemu.stream import synchronize_all
from random_ensembles import noisy

import gpu_consensus as gpc
from gpu_consensus.backends import choose_backend
from gpu_consensus.backends.cupy import backend as cupy_backend
from gpu_consensus.backends.cupy import streamed_codes

LABELS, _ = noisy(9, n=400, r=8)
ENSEMBLE = gpc.Ensemble(LABELS)
ASSIGNMENT = np.random.default_rng(0).integers(3, size=(1, 400)).astype(np.uint8)
SCHEDULES = [("late", 0), ("copies first", 0), ("kernels first", 0), ("random", 0)]
EXPECTED = oracles.count(ENSEMBLE.codes, ENSEMBLE.offsets, ASSIGNMENT, 3)
# a step of 100 objects, so that every buffer is used twice
LIMIT = 100 * (32 + 2 * len(ENSEMBLE.codes))


def one_range(backend):
    """All codes in one buffer."""
    count_passes(backend, 1, 10 * LIMIT)


def two_passes(backend):
    """The second pass takes the memory of the first, whose work may be in the queue."""
    count_passes(backend, 2, LIMIT)


def count_passes(backend, n_passes, memory_limit):
    """Count so often without looking at a result in between."""
    codes = streamed_codes.StreamedCodes(backend.xp, ENSEMBLE.codes)
    assignment = backend.to_device(ASSIGNMENT)
    totals = []
    for _ in range(n_passes):
        total = backend.xp.zeros(EXPECTED.shape, np.int64)
        for rows, block in backend.blocks(codes, 1, memory_limit):
            backend.count(block, ENSEMBLE.offsets, None, assignment[:, rows], total)
        totals.append(total)
    for total in totals:
        assert np.array_equal(backend.to_host(total), EXPECTED)


def early_end(backend):
    """Stop after one range; what comes next may take its memory at once."""
    codes = streamed_codes.StreamedCodes(backend.xp, ENSEMBLE.codes)
    blocks = backend.blocks(codes, 1, LIMIT)
    _, block = next(blocks)
    first = block.copy()
    blocks.close()
    del block, blocks
    shape = (len(ENSEMBLE.codes), 100)
    others = [backend.to_device(np.full(shape, value, np.uint8)) for value in (7, 8)]
    synchronize_all()
    assert np.array_equal(first.get(), ENSEMBLE.codes[:, :100])
    for value, other in zip((7, 8), others, strict=True):
        assert (other.get() == value).all()


def whole_fit(backend):
    """All of kcc, as if the codes did not fit the device."""
    options = {"n_init": 2, "random_state": 0, "utility": "c", "refine": False}
    expected = gpc.kcc(ENSEMBLE, 4, backend="numpy", **options)

    def resident(self, codes, reserve=0):
        return streamed_codes.StreamedCodes(self.xp, codes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cupy_backend.CupyBackend, "resident", resident)
        found = gpc.kcc(ENSEMBLE, 4, backend="cupy", memory_limit=LIMIT, **options)
    assert found.backend == "cupy"
    assert np.array_equal(found.labels, expected.labels)
    assert np.array_equal(found.history, expected.history)


def overwritten(backend):
    """When an upload returns, the array on the host is the caller's again.

    On a stream of the caller's own, for which the default one does not wait.
    """
    with backend.xp.cuda.Stream(non_blocking=True):
        for step in (1, 2):
            here = np.array(ENSEMBLE.codes)[:, ::step]
            held = backend.resident(here)
            rows = streamed_codes.upload(backend.xp, here)
            here[:] = 9
            for there in (held, rows):
                assert np.array_equal(there.get(), ENSEMBLE.codes[:, ::step])


PROGRAMS = [one_range, two_passes, early_end, overwritten, whole_fit]


def run(program, schedule, seed):
    device = DeviceSpec(multiprocessors=1)
    with configured(streams=schedule, seed=seed), emulated(device):
        program(choose_backend("cupy", None))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_no_order_of_copies_and_kernels_changes_a_result(program, schedule, seed):
    run(program, schedule, seed)


MUTANTS = {
    "pinned buffer written too early": ("arrived[side].synchronize()", "pass"),
    "device buffer written too early": ("copies.wait_event(used[side])", "pass"),
    "arrival not recorded": ("arrived[side].record(copies)", "pass"),
    "readiness not recorded": ("ready.record(cuda.get_current_stream())", "pass"),
    "readiness not waited for": ("copies.wait_event(ready)", "pass"),
    "arrival not waited for": ("here.wait_event(arrived[side])", "pass"),
    "use not recorded": ("used[side].record(here)", "pass"),
    "copies outlive their buffers": ("copies.synchronize()", "pass"),
    "upload not waited for": ("stream.synchronize()", "pass"),
    "row gone before its copy": ("np.ascontiguousarray(here)", "here"),
    "use recorded before it": (
        "yield rows, device[side][:, : rows.stop - rows.start]\n"
        "                used[side].record(here)",
        "used[side].record(here)\n"
        "                yield rows, device[side][:, : rows.stop - rows.start]",
    ),
    "arrival recorded before it": (
        "device[side].set(pinned[side], stream=copies)\n"
        "            arrived[side].record(copies)",
        "arrived[side].record(copies)\n"
        "            device[side].set(pinned[side], stream=copies)",
    ),
    "waits from the fourth range on": ("number >= 2", "number >= 3"),
    "waits for the other buffer's use": (
        "wait_event(used[side])",
        "wait_event(used[1 - side])",
    ),
    "waits for the other buffer's arrival": (
        "here.wait_event(arrived[side])",
        "here.wait_event(arrived[1 - side])",
    ),
    "one buffer for all": ("number % 2, ranges[number]", "0, ranges[number]"),
    "arrival recorded on the wrong stream": (
        "arrived[side].record(copies)",
        "arrived[side].record()",
    ),
    "use recorded on the wrong stream": (
        "used[side].record(here)",
        "used[side].record(copies)",
    ),
}


def mutated(old, new):
    """Return the module of streamed codes with a bug in it."""
    text = Path(streamed_codes.__file__).read_text(encoding="utf-8")
    assert text.count(old) == 1
    module = types.ModuleType(streamed_codes.__name__)
    exec(compile(text.replace(old, new), streamed_codes.__file__, "exec"), vars(module))
    return module


@pytest.fixture
def broken(monkeypatch):
    """Return a function that puts a bug into the backend's module."""

    def put(old, new):
        module = mutated(old, new)
        for name in ("StreamedCodes", "upload", "upload_codes"):
            monkeypatch.setattr(streamed_codes, name, getattr(module, name))
            monkeypatch.setattr(cupy_backend, name, getattr(module, name))

    return put


def noticed():
    """Return which programs went wrong, and when."""
    wrong = []
    for program in (one_range, two_passes, early_end, overwritten):
        for schedule, seed in SCHEDULES:
            try:
                run(program, schedule, seed)
            except AssertionError:
                wrong.append((program.__name__, schedule))
    return wrong


@pytest.mark.parametrize("name", MUTANTS)
def test_every_missing_wait_is_noticed(broken, name):
    broken(*MUTANTS[name])
    assert noticed()


def test_without_a_bug_nothing_is_noticed(broken):
    broken("number >= 2", "number >= 2")
    assert not noticed()


def test_work_that_is_done_at_once_hides_them_all(broken):
    """Why the schedules are there."""
    for old, new in MUTANTS.values():
        if new == "pass":
            broken(old, new)
            run(two_passes, "at once", 0)


def test_the_docs_say_how_many_there_are():
    text = (Path(__file__).parents[3] / "docs" / "backends.md").read_text(
        encoding="utf-8"
    )
    said = f"each of {len(MUTANTS)} mistakes in those waits"
    assert said in " ".join(text.split())
