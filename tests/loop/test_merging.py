"""Merges and moves of cells against the objective itself, one by one."""

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
from gpu_consensus.loop.settling import numpy_settle_cells
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


def literal_objective(rule, counts, absent, name, n_clusters):
    """Return F of the cells that have a cluster, and whether none is empty."""
    groups = [np.flatnonzero(name == k) for k in range(n_clusters)]
    n = np.stack([counts[:, group].sum(axis=1) for group in groups], axis=1)
    gone = None
    if absent is not None:
        gone = np.stack([absent[:, g].sum(axis=1) for g in groups], axis=1)[:, None]
    return rule.objective(n[:, None], gone)[0]


def literal_merges(rule, counts, absent, n_clusters):
    """Merge by the objective of all clusters together, every pair tried."""
    name = np.arange(counts.shape[1])
    for left in range(len(name), n_clusters, -1):
        best = None
        for a in range(left):
            for b in range(a + 1, left):
                joined = np.where(name == b, a, name)
                joined = np.where(joined > b, joined - 1, joined)
                cost = literal_objective(rule, counts, absent, joined, left - 1)
                if best is None or cost < best[0] - 1e-9 * abs(best[0]):
                    best = cost, joined
        name = best[1]
    return name


def literal_settling(rule, counts, absent, name, n_clusters):
    """Put each cell where the objective of all clusters together is lowest."""
    name = np.array(name)

    def tried(x):
        costs = []
        for k in range(n_clusters):
            other = name.copy()
            other[x] = k
            costs.append(literal_objective(rule, counts, absent, other, n_clusters))
        return np.array(costs)

    for x in np.flatnonzero(name < 0):
        name[x] = tried(x).argmin()
    for _ in range(3):
        for x in range(len(name)):
            costs = tried(x)
            alone = (name == name[x]).sum() == 1
            if not alone and costs.min() < costs[name[x]] * (1 - 1e-12):
                name[x] = costs.argmin()
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
        gone = None if absent is None else absent[:, :6]
        merged = literal_merges(rule, counts[:, :6], gone, 3)
        begun = np.append(merged, [-1] * (counts.shape[1] - 6))
        expected = literal_settling(rule, counts, absent, begun, 3)
        found = merge_cells(rule, counts, absent, 3)
        if name == "ivc":  # whole numbers, many of them equal
            costs = [
                literal_objective(rule, counts, absent, one, 3)
                for one in (found.cluster_of, expected)
            ]
            assert costs[0] == pytest.approx(costs[1], rel=1e-12)
        else:
            assert found.cluster_of.tolist() == expected.tolist(), name
        for k in range(3):
            total = counts[:, found.cluster_of == k].sum(axis=1)
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
    for n_clusters in {1, min(2, cells), min(5, cells), cells}:
        given = (kind, counts, ens.offsets, weights, whole, below)
        found, expected = (
            compiled_form("merge_cells")(*given, n_clusters),
            numpy_merge_cells(*given, n_clusters),
        )
        assert found.tolist() == expected.tolist()
        if n_clusters == 1:
            continue
        name = np.append(np.arange(n_clusters), rng.integers(-1, n_clusters, cells))
        for sweeps in (0, 3):
            settled, expected = (
                settle(*given, name[:cells], n_clusters, sweeps)
                for settle in (compiled_form("settle_cells"), numpy_settle_cells)
            )
            assert settled[0].tolist() == expected[0].tolist()
            assert np.array_equal(settled[1], expected[1])


@pytest.mark.parametrize("kind", ["square", "root"])
@pytest.mark.parametrize(("cells", "times"), [(900, 1), (17, 2_000_000)])
def test_products_that_are_not_kept_or_that_no_double_holds(cells, times, kind):
    if not has_compiled_loops():
        pytest.skip("no compiled code here")
    ens, _, counts = random_cells(1, n=200, r=12, cells=cells, missing=0.4)
    counts = counts * times + (times > 1)
    segments, rng = Segments(ens.offsets), np.random.default_rng(1)
    nothing = np.empty(0, dtype=np.int64)
    below = segments.sum(segments.present(counts))
    given = (kind, counts, ens.offsets, rng.random(12), nothing, below, cells - 2)
    merged = [
        merge(*given) for merge in (compiled_form("merge_cells"), numpy_merge_cells)
    ]
    assert merged[0].tolist() == merged[1].tolist()
    name = np.append(np.arange(cells - 2), [-1, 0])
    settled = [
        settle(*given[:-1], name, cells - 2, 2)
        for settle in (compiled_form("settle_cells"), numpy_settle_cells)
    ]
    assert settled[0][0].tolist() == settled[1][0].tolist()
    assert np.array_equal(settled[0][1], settled[1][1])


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
    merge, settle = compiled_form("merge_cells"), compiled_form("settle_cells")
    name = np.arange(counts.shape[1]) % 2
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
        with pytest.raises(ValueError, match=words):
            settle(**{**given, "cluster_of": name, "sweeps": 3, **wrong})
    for wrong in (name - 2, name + 1):
        with pytest.raises(ValueError, match="cluster_of has"):
            settle(**given, cluster_of=wrong, sweeps=3)
    with pytest.raises(ValueError, match="cluster_of has shape"):
        settle(**given, cluster_of=name[1:], sweeps=3)
