"""Partitioners against brute force: quality, bounds, refusals."""

import itertools

import numpy as np
import pytest
from graph_cuts import PARTITIONERS, all_cuts, cut_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from gpu_consensus.graphs import (
    PartitionerError,
    choose_partitioner,
    largest_load,
)
from gpu_consensus.graphs.external import MODULES, installed
from gpu_consensus.graphs.kinds import (
    Bipartite,
    Hypergraph,
    Similarity,
    cut_weight,
)


def random_graph(seed, m, density=0.6):
    rng = np.random.default_rng(seed)
    dense = np.triu(rng.integers(1, 9, (m, m)) * (rng.random((m, m)) < density), 1)
    dense = (dense + dense.T).astype(float)
    return Similarity(sparse.csr_array(dense), np.ones(m), np.ones(m)), dense


def random_hypergraph(seed, m, n_edges):
    rng = np.random.default_rng(seed)
    member = rng.random((m, n_edges)) < 0.4
    member[rng.integers(m, size=n_edges), np.arange(n_edges)] = True
    weight = rng.integers(1, 4, n_edges).astype(float)
    copies = rng.integers(1, 3, m).astype(float)
    incidence = sparse.csr_array(member.astype(float))
    return Hypergraph(incidence, weight, copies), member


@pytest.mark.parametrize("partitioner", PARTITIONERS)
def test_cuts_come_near_the_optimum(partitioner):
    ratios = []
    for seed in range(15):
        graph, dense = random_graph(seed, 9)
        weights = np.ones(9)
        best = min(cut_of(dense, p) for p in all_cuts(9, 3, weights, 3))
        found = choose_partitioner(partitioner, 0.05).cut(graph, weights, 3, seed)
        assert found.partitioner == partitioner
        assert np.bincount(found.parts).tolist() == [3, 3, 3]
        assert found.imbalance == 0
        ratios.append(cut_of(dense, found.parts) / best)
    assert np.mean(ratios) < 1.06
    assert max(ratios) < 1.25


@pytest.mark.parametrize("partitioner", PARTITIONERS)
def test_a_bisection_of_weighted_vertices_comes_near_the_optimum(partitioner):
    ratios = []
    for seed in range(15):
        graph, dense = random_graph(seed, 10, density=0.5)
        weights = np.random.default_rng(seed).integers(1, 6, 10).astype(float)
        cap = largest_load(weights, 2, 0.1)
        best = min(cut_of(dense, p) for p in all_cuts(10, 2, weights, cap))
        found = choose_partitioner(partitioner, 0.1).cut(graph, weights, 2, seed)
        assert np.bincount(found.parts, weights=weights).max() <= cap
        ratios.append(cut_of(dense, found.parts) / best)
    assert np.mean(ratios) < 1.1


@pytest.mark.parametrize("partitioner", PARTITIONERS)
@given(
    st.integers(0, 10**6),
    st.integers(2, 30),
    st.integers(1, 6),
    st.sampled_from([0.0, 0.05, 0.3]),
    st.sampled_from(["graph", "hypergraph", "bipartite", "no edges"]),
)
@settings(max_examples=25)
def test_the_bound_is_met_and_no_part_is_empty(
    partitioner, seed, m, k, imbalance, kind
):
    k = min(k, m)
    graph, _ = random_graph(seed, m)
    if kind == "hypergraph":
        graph, _ = random_hypergraph(seed, m, 7)
    elif kind == "bipartite":
        incidence = random_hypergraph(seed, m, 7)[0].incidence
        graph = Bipartite(incidence, np.ones(m + 7))
    elif kind == "no edges":
        graph = Similarity(sparse.csr_array((m, m)), np.zeros(m), np.ones(m))
    weights = np.ones(graph.n_vertices)
    found = choose_partitioner(partitioner, imbalance).cut(graph, weights, k, seed)
    sizes = np.bincount(found.parts, minlength=k)
    assert np.bincount(found.parts[:m], minlength=k).min() >= 1
    mean = graph.n_vertices / k
    assert sizes.max() <= max((1 + imbalance) * mean, np.ceil(mean))
    assert found.imbalance == pytest.approx(sizes.max() / mean - 1)
    again = choose_partitioner(partitioner, imbalance).cut(graph, weights, k, seed)
    assert np.array_equal(found.parts, again.parts)


def test_vertices_too_heavy_for_the_bound_stay_whole():
    """Four vertices of weight 5 in three parts: one part has to take two."""
    graph, _ = random_graph(0, 6)
    weights = np.array([5.0, 5, 5, 5, 1, 1])
    found = choose_partitioner("spectral", 0.05).cut(graph, weights, 3, 0)
    load = np.bincount(found.parts, weights=weights)
    assert load.max() == 10
    assert found.imbalance == pytest.approx(10 / (22 / 3) - 1)


@given(st.integers(0, 10**6), st.integers(2, 9), st.integers(1, 6))
@settings(max_examples=30)
def test_graphs_are_what_they_say(seed, m, n_edges):
    """Ties, columns and cuts of each kind against loops over pairs."""
    graph, member = random_hypergraph(seed, m, n_edges)
    s, w = graph.copies, graph.edge_weights
    pairs = np.zeros((m, m))
    for u, v, e in itertools.product(range(m), range(m), range(n_edges)):
        if u != v and member[u, e] and member[v, e]:
            size = s[member[:, e]].sum()
            pairs[u, v] += s[u] * s[v] * w[e] / (size - 1)
    star = np.zeros((m + n_edges,) * 2)
    star[:m, m:] = s[:, None] * member * w
    star[m:, :m] = star[:m, m:].T
    rng = np.random.default_rng(seed)
    for kind, dense in ((graph, pairs), (graph.star(), star)):
        assert kind.n_vertices == len(dense)
        assert np.allclose(kind.adjacency().toarray(), dense)
        parts = rng.integers(3, size=len(dense))
        assert np.allclose(kind.connect(np.eye(3)[parts]), dense @ np.eye(3)[parts])
        for v in range(len(dense)):
            assert np.allclose(kind.column(v), dense[v])
        assert cut_weight(kind, parts, 3) == pytest.approx(cut_of(dense, parts))
    parts = rng.integers(3, size=m)
    whole = [len(set(parts[member[:, e]])) == 1 for e in range(n_edges)]
    assert graph.cut_weight(parts) == w[~np.array(whole)].sum()


def test_large_matrices_give_the_same_vectors_as_small_ones(monkeypatch):
    graph, _ = random_hypergraph(0, 80, 30)
    small = graph.embedding(3, np.random.default_rng(0))
    monkeypatch.setattr("gpu_consensus.graphs.kinds.DENSE", 1)
    large = graph.embedding(3, np.random.default_rng(0))
    assert np.allclose(small @ small.T, large @ large.T, atol=1e-8)


def test_the_bound_counts_whole_objects():
    assert largest_load(np.ones(8), 2, 0.05) == 4
    assert largest_load(np.ones(7), 2, 0.0) == 4
    assert largest_load(np.ones(112), 3, 0.05) == 39
    assert largest_load(np.array([9.0, 1, 1, 1]), 3, 0.05) == 9
    assert largest_load(np.array([0.5, 0.5, 1]), 2, 0.1) == pytest.approx(1.1)


@pytest.mark.parametrize("name", MODULES)
def test_a_partitioner_that_is_not_there_says_how_to_get_it(name):
    if installed(name):
        pytest.skip(f"{MODULES[name]} is installed")
    with pytest.raises(PartitionerError, match=r"pip install 'gpu-consensus\[graph\]'"):
        choose_partitioner(name, 0.05)


@pytest.mark.parametrize("imbalance", [-0.1, float("nan"), float("inf"), False, 1j])
def test_wrong_bounds_say_what_to_do(imbalance):
    with pytest.raises(ValueError, match=r"imbalance=.* should be a number >= 0, or"):
        choose_partitioner("auto", imbalance)


def test_wrong_names_list_the_right_ones():
    with pytest.raises(ValueError, match=r"partitioner='metsi' is unknown; .*'metis'"):
        choose_partitioner("metsi", 0.05)


@pytest.mark.parametrize("partitioner", PARTITIONERS[1:])
def test_only_the_spectral_partitioner_drops_the_bound(partitioner):
    with pytest.raises(ValueError, match="imbalance=None is not for partitioner="):
        choose_partitioner(partitioner, None)
