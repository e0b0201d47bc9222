"""TILO and PRC against the paper's worked example and the literal algorithm."""

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_ensembles import noisy

import gpu_consensus as gpc
from gpu_consensus.backends.host_loops import compiled_loops, fastest
from gpu_consensus.feedback.prc import prc
from gpu_consensus.feedback.tilo import (
    exact_weights,
    measure,
    sweep,
    tilo,
    width,
)
from gpu_consensus.methods.prc_consensus import prc_consensus


def edges(n, *pairs):
    graph = np.zeros((n, n))
    for a, b in pairs:
        graph[a, b] = graph[b, a] = 1
    return graph


FIGURE_2 = edges(6, (0, 1), (0, 2), (0, 4), (1, 3), (1, 5), (2, 3), (2, 4), (3, 5))


def random_graph(rng, n, high=4):
    weights = np.triu(rng.integers(high, size=(n, n)), 1)
    return weights + weights.T


def counts_graph(rows):
    labels = np.array(oracles.worked(rows))
    return (labels[:, :, None] == labels[:, None, :]).sum(axis=0)


def cut(graph, inside):
    """The weight between a set and the rest, edge by edge."""
    inside = set(inside)
    return sum(
        graph[a, b]
        for a in inside
        for b in range(len(graph))
        if b not in inside and a != b
    )


def boundary_of(graph, order):
    return [cut(graph, order[: i + 1]) for i in range(len(order))]


def shifted(order, source, target):
    order = list(order)
    order.insert(target, order.pop(source))
    return order


def literal_sweep(graph, order):
    """The best shift at every local maximum, by trying each and cutting anew."""
    order = list(order)
    b = [0, *boundary_of(graph, order)]  # b[i + 1] is b_i
    flats, begin = [], 0
    for i in range(1, len(b) + 1):
        if i == len(b) or b[i] != b[begin]:
            flats.append((begin - 1, i - 2, b[begin]))
            begin = i
    minima = [
        f
        for q, f in enumerate(flats)
        if (q == 0 or flats[q - 1][2] > f[2])
        and (q == len(flats) - 1 or flats[q + 1][2] > f[2])
    ]
    shifts = []
    for q in range(1, len(flats) - 1):
        first, last, height = flats[q]
        if not flats[q - 1][2] < height > flats[q + 1][2]:
            continue
        a = max(f[1] for f in minima if f[1] < first)
        d = min(f[0] for f in minima if f[0] > last)
        choices = []
        for k in range(a + 1, first + 1):
            without = [o for o in order[: first + 1] if o != order[k]]
            if cut(graph, without) < height:  # the slope of k is positive
                drop = height - cut(graph, [*without, order[first + 1]])
                choices.append((drop, -len(choices), k, first + 1))
        for k in range(last + 1, d + 1):
            if cut(graph, [*order[: last + 1], order[k]]) < height:
                drop = height - cut(graph, [*order[:last], order[k]])
                choices.append((drop, -len(choices), k, last))
        drop, _, source, target = max(choices, default=(0, 0, 0, 0))
        if drop > 0:
            shifts.append((source, target))
    for source, target in shifts:
        order = shifted(order, source, target)
    return order, shifts


def test_figure_2_of_the_paper_step_by_step():
    assert boundary_of(FIGURE_2, range(6)) == [3, 4, 5, 4, 2, 0]
    found = tilo(FIGURE_2, order=range(6))
    assert found.shifts.tolist() == [[4, 2], [1, 2], [2, 3], [0, 1]]
    assert found.order.tolist() == [4, 0, 2, 1, 3, 5]
    assert found.boundary.tolist() == [2, 3, 2, 3, 2, 0]
    clusters = prc(FIGURE_2, 2, order=range(6))
    assert clusters.labels.tolist() == [0, 1, 0, 1, 0, 1]
    assert clusters.ratios.tolist() == [2 / 3]


def test_worked_counts_graph():
    graph = counts_graph(oracles.E1)
    order = np.array([1, 5, 2, 6, 3, 7, 4, 8]) - 1
    found = tilo(graph, order=order)
    assert len(found.shifts) == 4
    assert (found.order + 1).tolist() == [1, 2, 3, 4, 6, 5, 7, 8]
    assert found.boundary.tolist() == [9, 10, 7, 4, 14, 16, 10, 0]
    clusters = prc(graph, 2, order=order)
    assert oracles.canonical(clusters.labels) == oracles.canonical("11112222")
    assert clusters.ratios.tolist() == [0.4]


@given(st.integers(0, 10**6), st.integers(2, 9), st.integers(2, 5))
@settings(max_examples=150)
def test_tilo_is_the_literal_algorithm(seed, n, high):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, n, high)
    order = rng.permutation(n)
    found = tilo(graph, order=order)
    expected, all_shifts = list(order), []
    while True:
        expected, shifts = literal_sweep(graph, expected)
        if not shifts:
            break
        all_shifts += shifts
    assert found.shifts.tolist() == [list(pair) for pair in all_shifts]
    assert found.order.tolist() == expected
    assert found.boundary.tolist() == boundary_of(graph, expected)


@given(st.integers(0, 10**6), st.integers(1, 14))
@settings(max_examples=40)
def test_boundary_is_the_cut_and_every_shift_lowers_the_width(seed, n):
    rng = np.random.default_rng(seed)
    graph = rng.random((n, n)) * (rng.random((n, n)) < 0.5)
    graph = graph + graph.T
    order = rng.permutation(n).tolist()
    found = tilo(graph, order=order)
    before = width(np.round(boundary_of(graph, order), 9))
    for source, target in found.shifts:
        order = shifted(order, source, target)
        after = width(np.round(boundary_of(graph, order), 9))
        assert after < before
        before = after
    assert found.order.tolist() == order
    assert np.allclose(found.boundary, boundary_of(graph, order), atol=1e-9)
    assert len(tilo(graph, order=order).shifts) == 0


def test_compiled_code_makes_the_same_shifts():
    rng = np.random.default_rng(0)
    weights, _ = exact_weights(random_graph(rng, 60, 50))
    order = rng.permutation(60)
    histories = []
    with compiled_loops(True):
        fast = fastest("tilo_sweep", sweep)
    assert fast is not sweep
    for run in (sweep, fast):
        state = [order.copy(), np.zeros(60, np.int64), np.zeros(60, np.int64)]
        moves, history = np.zeros((60, 2), np.int64), []
        degree = weights.sum(axis=1)
        measure(weights, degree, *state)
        while n_shifts := run(weights, degree, *state, moves):
            history.append(moves[:n_shifts].tolist())
        histories.append((history, state[0].tolist(), state[2].tolist()))
    assert len(histories[0][0]) > 20
    assert histories[0] == histories[1]


def first_pinch(boundary):
    """The smallest pinch ratio, by its definition at every position."""
    n = len(boundary)
    ratios = []
    for k in range(1, n - 1):
        before = [b for b in boundary[:k] if b != boundary[k]]
        behind = [b for b in boundary[k:] if b != boundary[k]]
        is_low = before and behind and before[-1] > boundary[k] < behind[0]
        if is_low and boundary[k - 1] != boundary[k]:
            thick = min(max(boundary[: k + 1]), max(boundary[k + 1 :]))
            ratios.append((boundary[k] / thick, boundary[k] - thick, k))
    return min(ratios, default=None)


@given(st.integers(0, 10**6), st.integers(2, 14))
@settings(max_examples=60)
def test_first_cut_is_the_smallest_pinch_ratio(seed, n):
    graph = random_graph(np.random.default_rng(seed), n)
    order = tilo(graph, random_state=seed)
    expected = first_pinch(order.boundary.tolist())
    found = prc(graph, 2, random_state=seed)
    if expected is None:
        assert found.labels.tolist() == [0] * n
        assert found.ratios.size == 0
        return
    assert found.ratios.tolist() == [pytest.approx(expected[0])]
    front = set(order.order[: expected[2] + 1].tolist())
    labels = [int(l in front) for l in range(n)]
    assert oracles.canonical(found.labels) == oracles.canonical(labels)


def planted(seed, sizes=(12, 9, 15, 11)):
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    same = truth[:, None] == truth
    chance = np.where(same, 0.9, 0.05)
    weights = np.triu(rng.random(chance.shape) < chance, 1).astype(float)
    return weights + weights.T, truth


@pytest.mark.parametrize("recursive", [False, True])
def test_planted_clusters_are_found(recursive):
    for seed in range(3):
        graph, truth = planted(seed)
        found = prc(graph, 4, n_init=5, recursive=recursive, random_state=seed)
        assert gpc.metrics.adjusted_rand(truth, found.labels) > 0.85
        assert len(found.ratios) == 3
        for k in range(4):  # a cluster is a run of the order
            places = np.flatnonzero(found.labels[found.order] == k)
            assert np.ptp(places) == len(places) - 1


def test_more_starts_never_widen_the_order():
    graph, _ = planted(1)
    widths = [
        width(prc(graph, 3, n_init=n, random_state=4).boundary) for n in (1, 4, 12)
    ]
    assert widths == sorted(widths, reverse=True)


def test_components_come_apart_and_no_edge_is_no_cut():
    two = np.kron(np.eye(2), np.ones((5, 5)))
    found = prc(two, 2, random_state=0)
    assert oracles.canonical(found.labels) == [0] * 5 + [1] * 5
    assert found.ratios.tolist() == [0.0]
    assert prc(np.zeros((4, 4)), 3).labels.tolist() == [0] * 4
    assert prc(np.ones((1, 1)), 1).labels.tolist() == [0]


def test_scale_of_the_weights_does_not_matter():
    graph, _ = planted(2)
    graph *= 1 / 3
    expected = prc(graph, 4, random_state=1)
    for factor in (1e-305, 1e200, 7.0):
        found = prc(graph * factor, 4, random_state=1)
        assert np.array_equal(found.labels, expected.labels)
        assert np.allclose(found.boundary / factor, expected.boundary)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tilo(np.ones((2, 3))), "shape"),
        (lambda: tilo([["a"]]), "type"),
        (lambda: tilo([[0, 1], [2, 0]]), "not symmetric"),
        (lambda: tilo([[0, -1], [-1, 0]]), "negative .*; use similarities"),
        (lambda: tilo([[0, np.nan], [np.nan, 0]]), "not finite"),
        (lambda: tilo(FIGURE_2, order=[0, 0, 1, 2, 3, 4]), "each of 0..5 once"),
        (lambda: prc(FIGURE_2, 7), "ask for fewer clusters"),
        (lambda: prc(FIGURE_2, 2, n_init=0), "n_init=0"),
    ],
)
def test_wrong_calls_say_what_is_wrong(call, words):
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.every_backend
def test_consensus_by_prc():
    ens = gpc.Ensemble.from_partitions(oracles.worked(oracles.E1))
    found = prc_consensus(ens, 2, n_init=5, random_state=0)
    assert oracles.canonical(found.labels) == oracles.canonical("11112222")
    assert found.objective == -found.value == found.details["ratios"].sum()
    labels, truth = noisy(0, n=90, r=20, missing=0.2)
    found = prc_consensus(labels, 3, n_init=3, random_state=0)
    assert gpc.metrics.adjusted_rand(truth, found.labels) > 0.8
    with pytest.raises(MemoryError, match="prc needs 259\\.2 kB"):
        prc_consensus(labels, 3, memory_limit=1000)
    with pytest.warns(UserWarning, match="prc found 1 clusters"):
        prc_consensus(np.array([[0], [1]]), 2)


@pytest.mark.every_backend
def test_consensus_by_prc_is_the_same_on_every_backend(auto_backend):
    labels, _ = noisy(1, n=50, r=8, missing=0.2)
    there, here = (
        prc_consensus(labels, 3, backend=name, random_state=0)
        for name in (auto_backend, "numpy")
    )
    assert there.backend == auto_backend
    assert np.array_equal(there.labels, here.labels)
    assert there.objective == here.objective
