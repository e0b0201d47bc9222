"""Merges of cells against the objective itself, pair by pair."""

import numpy as np
import pytest
from random_ensembles import noisy

import gpu_consensus as gpc
from gpu_consensus.backends import choose_backend
from gpu_consensus.backends.host_loops import compiled_form, has_compiled_loops
from gpu_consensus.backends.segments import Segments
from gpu_consensus.loop.count_by_cluster import count_by_cluster
from gpu_consensus.loop.merging import (
    merge_cells,
    numpy_merge_cells,
    whole_x_log2_x,
)
from gpu_consensus.loop.utilities import parse_utility
from gpu_consensus.methods.kcc import KccRule
from gpu_consensus.methods.sec import SecRule
from gpu_consensus.methods.voting import IvcRule

BACKEND = choose_backend("numpy", None)


def random_cells(seed, n=60, r=5, cells=9, missing=0.2):
    """An ensemble, some cells of its objects, and their counts."""
    rng = np.random.default_rng(seed)
    ens = gpc.Ensemble(noisy(seed, n=n, r=r, missing=missing)[0])
    cell_of = rng.integers(-1, cells, size=ens.n_samples)
    counts = count_by_cluster(BACKEND, ens.codes, ens.offsets, cell_of, cells)
    return ens, cell_of, counts


def absent_of(rule, ens, cell_of, cells):
    if rule.absent_weight is None:
        return None
    absent = np.zeros((ens.n_partitions, cells), dtype=np.int64)
    for i, k in enumerate(ens.n_labels):
        gone = (ens.codes[i] == k) & (cell_of >= 0)
        np.add.at(absent[i], cell_of[gone], rule.absent_weight[gone])
    return absent


def literal_merges(rule, counts, absent, n_clusters):
    """Merge by the objective of all clusters together, every pair tried."""
    groups = [[a] for a in range(counts.shape[1])]

    def objective(partition):
        n = np.stack([counts[:, group].sum(axis=1) for group in partition], axis=1)
        gone = None
        if absent is not None:
            gone = np.stack([absent[:, g].sum(axis=1) for g in partition], axis=1)
            gone = gone[:, None]
        return rule.objective(n[:, None], gone)[0]

    while len(groups) > n_clusters:
        best = None
        for a in range(len(groups)):
            for b in range(a + 1, len(groups)):
                rest = [g for c, g in enumerate(groups) if c not in (a, b)]
                cost = objective([*rest, groups[a] + groups[b]])
                if best is None or cost < best[0] - 1e-9 * abs(best[0]):
                    best = cost, a, b
        _, a, b = best
        groups[a] = groups[a] + groups.pop(b)
    name = np.empty(counts.shape[1], dtype=int)
    for k, group in enumerate(sorted(groups, key=min)):
        name[group] = k
    return name


def rules(ens):
    weights = np.asarray(ens.weights)
    for utility in ("h", "c", "cos", "l5", "nh", "nc"):
        _, formula, normalised = parse_utility(utility)
        yield utility, KccRule(ens, formula, weights, normalised)
    yield "sec", SecRule(ens)
    yield "ivc", IvcRule(ens, weights)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_merges_are_those_of_the_objective(seed, missing):
    ens, cell_of, counts = random_cells(seed, missing=missing)
    for name, rule in rules(ens):
        absent = absent_of(rule, ens, cell_of, counts.shape[1])
        expected = literal_merges(rule, counts, absent, 3)
        found = merge_cells(rule, counts, absent, 3)
        assert found.cluster_of.tolist() == expected.tolist(), name
        for k in range(3):
            total = counts[:, expected == k].sum(axis=1)
            assert np.array_equal(found.counts[:, k], total)


@pytest.mark.parametrize("kind", ["entropy", "square", "root"])
@pytest.mark.parametrize("cells", [1, 2, 3, 17, 40])
@pytest.mark.parametrize("seed", range(5))
def test_the_compiled_form_gives_the_same_merges(seed, cells, kind):
    if not has_compiled_loops():
        pytest.skip("no compiled code here")
    ens, _, counts = random_cells(seed, n=200, r=12, cells=cells, missing=0.4)
    if seed == 3:  # real ties: cells that are equal
        counts[:, 1:] = counts[:, :1]
    if seed == 4:
        counts *= 10_000
    segments, rng = Segments(ens.offsets), np.random.default_rng(seed)
    weights = rng.random(12)
    whole = whole_x_log2_x(2 * int(counts[: ens.offsets[1]].sum()))
    below = segments.sum(segments.present(counts))
    for n_clusters in {1, min(2, cells), cells}:
        given = (kind, counts, ens.offsets, weights, whole, below, n_clusters)
        found, expected = (
            compiled_form("merge_cells")(*given),
            numpy_merge_cells(*given),
        )
        assert found[0].tolist() == expected[0].tolist()
        assert np.array_equal(found[1], expected[1])


def test_wrong_shapes_are_refused_before_c():
    if not has_compiled_loops():
        pytest.skip("no compiled code here")
    ens, _, counts = random_cells(0)
    segments = Segments(ens.offsets)
    given = {
        "kind": "entropy",
        "counts": counts,
        "offsets": ens.offsets,
        "weights": np.ones(5),
        "whole": whole_x_log2_x(2 * int(counts[: ens.offsets[1]].sum())),
        "below": segments.sum(counts),
        "n_clusters": 2,
    }
    merge = compiled_form("merge_cells")
    for wrong, words in (
        ({"counts": counts[1:]}, "counts has shape"),
        ({"weights": np.ones(4)}, "weights has shape"),
        ({"whole": np.zeros(5, dtype=np.int64)}, "whole reach"),
        ({"below": given["below"][1:]}, "below has shape"),
        ({"n_clusters": 0}, "n_clusters=0"),
        ({"n_clusters": 99}, "n_clusters=99"),
        ({"counts": -counts}, "counts should be 0 or more"),
    ):
        with pytest.raises(ValueError, match=words):
            merge(**{**given, **wrong})
