"""AddRemAdd climbs everywhere, against loops over exact fractions."""

import itertools

import kernel_matrix
import numpy as np
import oracles
import pytest
from climb_oracle import b, literal_climb, literal_matrix
from conftest import emulated
from cudaemu import configured, recording
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_consensus.backends import choose_backend
from gpu_consensus.backends.cupy import climbs as cuda_add_rem_add
from gpu_consensus.backends.host_loops import compiled_loops
from gpu_consensus.methods import climbs
from gpu_consensus.methods.climbs import climb_all, count_labels, score, walk

THRESHOLDS = [(0, 1), (1, 1), (5, 2), (7, 3)]
shapes = st.fixed_dictionaries(
    {
        "n": st.integers(1, 11),
        "n_labels": st.lists(st.integers(1, 4), min_size=1, max_size=7),
        "missing": st.sampled_from([0.0, 0.4]),
        "threshold": st.sampled_from(THRESHOLDS),
        "seed": st.integers(0, 10**6),
    }
)


def draw(shape):
    rng = np.random.default_rng(shape["seed"])
    codes, _ = oracles.random_codes(
        rng, shape["n"], shape["n_labels"], shape["missing"]
    )
    return codes, np.array(shape["n_labels"])


def equal(found, expected):
    for field, right in expected._asdict().items():
        got = getattr(found, field)
        assert got.dtype == right.dtype, field
        assert np.array_equal(got, right), field


def in_numpy(*arguments):
    """Climb by the reference."""
    with compiled_loops(False):
        return climb_all(*arguments)


def members_of(packed, n):
    return set(np.flatnonzero(np.unpackbits(packed, count=n)).tolist())


@pytest.mark.every_backend
@given(shapes)
@settings(max_examples=40)
def test_climbs_are_the_literal_ones(shape):
    codes, n_labels = draw(shape)
    n, threshold = shape["n"], shape["threshold"]
    matrix = literal_matrix(codes, n_labels)
    paths = [literal_climb(matrix, start, threshold) for start in range(n)]
    backend = choose_backend("auto", None)
    for similarity in (None, backend.to_device(np.array(matrix, dtype=np.uint8))):
        done = []
        found = climb_all(
            backend.resident(codes),
            n_labels,
            np.arange(n),
            threshold,
            similarity,
            done.append,
        )
        assert sum(done) == n
        for start, path in enumerate(paths):
            last = path[-1]
            packed = found.sets[found.which[start]]
            assert members_of(packed, n) == last
            assert found.n_flips[start] == len(path) - 1
            assert found.total[start] == sum(matrix[l][m] for l in last for m in last)
        assert len({packed.tobytes() for packed in found.sets}) == len(found.sets)
        first = np.unique(found.which, return_index=True)[1]
        assert np.array_equal(first, np.sort(first))


@given(shapes)
@settings(max_examples=40)
def test_b_rises_with_every_flip(shape):
    codes, n_labels = draw(shape)
    matrix = np.array(literal_matrix(codes, n_labels))
    own, threshold = count_labels(codes, n_labels), shape["threshold"]
    for start in range(shape["n"]):
        before, heights = set(), []
        for step in walk(lambda l: matrix[l], own, start, threshold):
            members = set(np.flatnonzero(step.members).tolist())
            assert members ^ before == {step.flipped}
            assert step.size == len(members)
            exact = b(matrix, members, threshold)
            found = score(step.total, step.size, threshold) / threshold[1]
            assert found == pytest.approx(float(exact), rel=1e-14)
            heights.append(exact)
            before = members
        assert all(low < high for low, high in itertools.pairwise(heights))


@pytest.mark.every_backend
@pytest.mark.parametrize("number", range(len(kernel_matrix.CLIMBS)))
def test_threads_tables_and_backends_change_nothing(number):
    for threads in (1, 3):
        kernel_matrix.check_climbs(choose_backend("auto", None), number, threads)


def test_the_cases_let_objects_go_again():
    """Otherwise the comparisons of backends would see half of the method."""
    strayed = 0
    for number in range(len(kernel_matrix.CLIMBS)):
        codes, n_labels, starts, threshold = kernel_matrix.draw_climbs(number)
        found = in_numpy(codes, n_labels, starts, threshold)
        size = np.unpackbits(found.sets, axis=1).sum(axis=1)[found.which]
        strayed += int((found.n_flips > size - 1).sum())
    assert strayed > 20


@pytest.mark.parametrize("order", ["forward", "reverse", "random"])
def test_the_order_of_threads_on_the_device_changes_nothing(device, order):
    with configured(order=order, seed=3):
        for number in range(len(kernel_matrix.CLIMBS)):
            kernel_matrix.check_climbs(device, number)


def test_check_mode_finds_no_race_and_nothing_out_of_bounds():
    with emulated(), configured(mode="check", order="random"), recording() as reports:
        backend = choose_backend("cupy", None)
        for number in (0, 1, 3, 5, 6, 8):
            kernel_matrix.check_climbs(backend, number)
    assert not any(report.bugs for report in reports)
    assert sum(report.kernel == "add_rem_add" for report in reports) >= 10


def test_waves_change_nothing(emulated_cupy, monkeypatch):
    monkeypatch.setattr(cuda_add_rem_add, "_BLOCKS", 3)
    done = []
    codes, n_labels, starts, threshold = kernel_matrix.draw_climbs(1)
    expected = in_numpy(codes, n_labels, starts, threshold)
    backend = choose_backend("cupy", None)
    found = climb_all(
        backend.resident(codes), n_labels, starts, threshold, None, done.append
    )
    assert done == [6] * 6 + [4]
    equal(found, expected)


@pytest.mark.every_backend
def test_a_table_that_is_full_changes_nothing(monkeypatch):
    monkeypatch.setattr(climbs, "table_size", lambda n_starts: 4)
    kernel_matrix.check_climbs(choose_backend("auto", None), 1)


def test_the_reference_remembers_no_more_than_it_may(monkeypatch):
    """Sets of unlike climbs are many: they took n^3 / 20 bytes."""
    codes, n_labels, starts, threshold = kernel_matrix.draw_climbs(1)
    expected = in_numpy(codes, n_labels, starts, threshold)
    monkeypatch.setattr(climbs, "_VISITED", 3000)
    climb = climbs.numpy_climber(codes, n_labels, starts, threshold, None)
    ends = [climb(x) for x in range(len(starts))]
    assert sum(found.n_flips + 1 for found in ends) > 15
    (visited,) = (
        cell.cell_contents
        for cell in climb.__closure__
        if isinstance(cell.cell_contents, dict)
    )
    assert len(visited) == 3000 // (40 // 8 + climbs._ENTRY)
    with compiled_loops(False):
        found = climb_all(codes, n_labels, starts, threshold, n_threads=2)
    equal(found, expected)


def test_marks_tell_objects_apart():
    marks = climbs.marks_of(10_000)
    assert len(np.unique(marks)) == 10_000
    assert np.array_equal(marks[:50], climbs.marks_of(50))
    bits = np.unpackbits(marks.view(np.uint8)).mean()
    assert bits == pytest.approx(0.5, abs=0.01)
