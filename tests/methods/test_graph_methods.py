"""CSPA, HGPA, MCLA, HBGF and the best of them, against the worked examples."""

import itertools
import warnings

import numpy as np
import oracles
import pytest
from graph_cuts import PARTITIONERS, all_cuts, cut_of
from hypothesis import given, settings
from hypothesis import strategies as st
from random_ensembles import noisy
from sklearn.metrics import normalized_mutual_info_score

import gpu_consensus as gpc
from gpu_consensus.graphs.kinds import bipartite_vectors
from gpu_consensus.methods.call import Shared, open_task
from gpu_consensus.methods.cspa import similarity_graph
from gpu_consensus.methods.hbgf import bipartite_graph
from gpu_consensus.methods.mcla import association, meta_graph
from gpu_consensus.methods.supra import average_nmi

pytestmark = pytest.mark.every_backend

METHODS = {name: gpc.METHODS[name] for name in ("cspa", "hgpa", "mcla", "hbgf")}
ALL = METHODS | {"supra": gpc.supra}
EMPTY = "ignore:.* found .* clusters although:UserWarning"


def worked(rows):
    return gpc.Ensemble.from_partitions(oracles.worked(rows))


def planted(seed, sizes, r=15, noise=0.1, missing=0.0):
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    strays = rng.integers(len(sizes), size=(len(truth), r))
    labels = np.where(rng.random((len(truth), r)) < noise, strays, truth[:, None])
    labels[rng.random(labels.shape) < missing] = -1
    return labels, truth


def clusters(rows):
    """The clusters of a worked example as sets of objects, by partition and label."""
    return [
        {l for l, other in enumerate(row) if other == label}
        for row in rows
        for label in sorted(set(row))
    ]


def jaccard(rows):
    found = clusters(rows)
    start = np.cumsum([0] + [len(set(row)) for row in rows])
    owner = np.searchsorted(start, np.arange(len(found)), side="right")
    dense = np.array([[len(a & b) / len(a | b) for b in found] for a in found])
    dense[owner[:, None] == owner] = 0
    return dense, np.array([len(a) for a in found], dtype=float)


def similarity(rows):
    table = np.array([list(row) for row in rows])
    dense = (table[:, :, None] == table[:, None]).mean(axis=0)
    np.fill_diagonal(dense, 0)
    return dense


def hyperedges_cut(rows, parts):
    return sum(len({int(parts[l]) for l in edge}) > 1 for edge in clusters(rows))


def same(a, b):
    return gpc.metrics.adjusted_rand(a, b) == 1


def test_the_oracles_are_those_of_the_papers():
    """Printed numbers for the first worked example, from the definitions."""
    dense, sizes = jaccard(oracles.E1)
    assert sizes.tolist() == [4, 4, 3, 5, 2, 2, 4, 3, 4, 1]
    pairs = {(0, 2): 0.75, (0, 8): 1, (1, 3): 0.8, (3, 7): 0.6, (1, 9): 0.25}
    for pair, value in pairs.items():
        assert dense[pair] == value
    cuts = {p.tobytes(): cut_of(dense, p) for p in all_cuts(10, 2, sizes, 32)}
    even = [p.tobytes() for p in all_cuts(10, 2, sizes, 16)]
    assert min(cuts.values()) == pytest.approx(0.416667, abs=1e-6)
    assert min(cuts[p] for p in even) == pytest.approx(1.116667, abs=1e-6)
    split = [hyperedges_cut(oracles.E1, p) for p in all_cuts(8, 2, np.ones(8), 4)]
    assert sorted(split)[:2] == [1, 6]
    dense = similarity(oracles.E1)
    assert min(cut_of(dense, p) for p in all_cuts(8, 2, np.ones(8), 4)) == 1


@pytest.mark.parametrize("partitioner", PARTITIONERS)
def test_first_worked_example(partitioner):
    """Every balanced optimum of the first worked example is found."""
    for method, objective in (("cspa", 1), ("hgpa", 1), ("mcla", 1.116667)):
        result = METHODS[method](
            worked(oracles.E1), 2, partitioner=partitioner, random_state=0
        )
        assert oracles.canonical(result.labels) == [0, 0, 0, 0, 1, 1, 1, 1]
        assert result.objective == pytest.approx(objective, abs=1e-6)
        assert result.value == -result.objective
        assert result.details["partitioner"] == partitioner
        assert result.details["imbalance"] == 0
        assert result.method == method


@pytest.mark.parametrize("method", METHODS)
def test_first_worked_example_without_balance(method):
    result = METHODS[method](worked(oracles.E1), 2, imbalance=None, random_state=0)
    assert oracles.canonical(result.labels) == [0, 0, 0, 0, 1, 1, 1, 1]
    assert result.details["partitioner"] == "spectral"
    if method == "hbgf":
        assert result.objective == 1  # object 4 in p2.2
    if method == "mcla":
        assert result.objective == pytest.approx(0.416667, abs=1e-6)
        meta = itertools.chain(*result.details["meta_clusters"])
        assert oracles.canonical(meta) == [0, 1, 0, 1, 0, 0, 1, 1, 0, 1]


@pytest.mark.parametrize("method", ALL)
def test_second_worked_example(method):
    result = ALL[method](worked(oracles.E2), 3, random_state=0)
    assert oracles.canonical(result.labels) == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_meta_graph_of_a_worked_example():
    task = open_task("test", worked(oracles.E1), 2)
    incidence = task.incidence
    graph, load, vertex = meta_graph(incidence)
    dense, sizes = jaccard(oracles.E1)
    # back to the order of partition and label
    at = np.empty(10, dtype=int)
    at[incidence.place] = vertex
    assert np.array_equal(at == at[0], [i in (0, 8) for i in range(10)])
    for a, b in itertools.combinations(range(10), 2):
        if at[a] == at[b]:
            assert clusters(oracles.E1)[a] == clusters(oracles.E1)[b]
            continue
        one, other = np.flatnonzero(at == at[a]), np.flatnonzero(at == at[b])
        expected = dense[np.ix_(one, other)].sum()
        assert graph.matrix[at[a], at[b]] == pytest.approx(expected)
    assert load.tolist() == [sizes[at == v].sum() for v in range(graph.n_vertices)]


def test_association_is_a_mean():
    """Object 3 of the second example: means tie, sums do not."""
    task = open_task("test", worked(oracles.E2), 3)
    incidence = task.incidence
    wanted = np.array([0, 1, 2, 0, 1, 2, 0, 2, 0, 0, 1, 2, 1, 0, 2])
    share, held = association(incidence, wanted[incidence.place], 3)
    assert share[incidence.row[2]].tolist() == [0.5, 0.5, 0]
    assert held[incidence.row[2]].tolist() == [3, 2, 0]


@pytest.mark.parametrize(
    ("rows", "values"),
    [
        (oracles.E1, [1, 0.9596, 0.5299, 0.5, 0.2199]),
        (
            oracles.E2,
            [1, 0.9154, 0.8125, 0.4868, 0.3624, 0.2802, 0.1761, 0.1552],
        ),
    ],
)
def test_singular_values_of_the_bipartite_graph(rows, values):
    incidence = open_task("test", worked(rows), 2).incidence
    graph = bipartite_graph(incidence)
    found = bipartite_vectors(graph.incidence, 20, np.random.default_rng(0))
    assert np.allclose(found[1][: len(values)], values, atol=5e-5)
    if rows is oracles.E1:
        # equal rows are one: their entries are shared out again by 1 / sqrt(copies)
        vector = (found[0][:, 1] / np.sqrt(incidence.copies))[incidence.row]
        vector *= np.sign(vector[0]) / np.sqrt(4)
        expected = [0.2038, 0.2038, 0.1877, 0.1015] + [-0.1742] * 4
        assert np.allclose(vector, expected, atol=5e-5)


@pytest.mark.parametrize(
    ("rows", "labels", "anmi"),
    [
        (oracles.E1, "11112222", 0.805424),
        (oracles.E1, "11223333", 0.773479),
        (oracles.E2, "111222333", 0.738501),
        (oracles.E2, "221111333", 0.723812),
    ],
)
def test_average_nmi_of_the_worked_examples(rows, labels, anmi):
    task = open_task("test", worked(rows), None, finds_n_clusters=True)
    found = average_nmi(task, np.array(oracles.canonical(labels)))
    assert found == pytest.approx(anmi, abs=1e-6)


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_similarity_is_the_definition(missing):
    labels, _ = noisy(3, n=25, r=4, missing=missing)
    labels[7] = labels[3]
    weights = np.array([1, 2, 3, 2]) / 8
    task = open_task("test", labels, 2, Shared(weights))
    incidence = task.incidence
    graph = similarity_graph(task, incidence)
    n = len(labels)
    expected = np.zeros((n, n))
    for l, m in itertools.product(range(n), repeat=2):
        both = (labels[l] >= 0) & (labels[m] >= 0)
        if both.any():
            same = both & (labels[l] == labels[m])
            expected[l, m] = weights[same].sum() / weights[both].sum()
    collect = np.eye(graph.n_vertices)[incidence.row]
    found = graph.matrix.toarray() + np.diag(graph.loops)
    assert np.allclose(found, collect.T @ expected @ collect)
    if not missing:
        assert np.allclose((graph.factor @ graph.factor.T).toarray(), found)


@pytest.mark.filterwarnings(EMPTY)
@pytest.mark.parametrize("method", METHODS)
@given(
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.4]),
    st.sampled_from([0.05, None]),
    st.booleans(),
)
@settings(max_examples=10)
def test_objectives_are_what_they_say(method, seed, missing, imbalance, weighted):
    labels, _ = noisy(seed, n=20, r=4, missing=missing)
    weights = np.array([1, 2, 3, 2]) / 8 if weighted else np.full(4, 1 / 4)
    result = METHODS[method](
        labels,
        3,
        weights=weights,
        imbalance=imbalance,
        partitioner="spectral",
        random_state=seed,
    )
    found, n = result.labels, len(labels)
    edges = [(i, j) for i in range(4) for j in sorted(set(labels[:, i]) - {-1})]
    members = [set(np.flatnonzero(labels[:, i] == j).tolist()) for i, j in edges]
    if method == "cspa":
        expected = 0.0
        for l, m in itertools.combinations(range(n), 2):
            both = (labels[l] >= 0) & (labels[m] >= 0)
            if found[l] != found[m] and both.any():
                same = both & (labels[l] == labels[m])
                expected += weights[same].sum() / weights[both].sum()
    elif method == "hgpa":
        expected = sum(
            4 * weights[i]
            for (i, _), member in zip(edges, members, strict=True)
            if len({int(found[l]) for l in member}) > 1
        )
    elif method == "mcla":
        meta = [part for row in result.details["meta_clusters"] for part in row]
        expected = sum(
            16
            * weights[edges[a][0]]
            * weights[edges[b][0]]
            * len(members[a] & members[b])
            / len(members[a] | members[b])
            for a, b in itertools.combinations(range(len(edges)), 2)
            if meta[a] != meta[b]
        )
    else:  # where the clusters lie is not told: each at best with most of its objects
        expected = sum(
            4 * weights[i] * (len(member) - np.bincount(found[list(member)]).max())
            for (i, _), member in zip(edges, members, strict=True)
        )
        assert result.objective >= expected - 1e-9
        return
    assert result.objective == pytest.approx(expected, abs=1e-9)
    assert result.value == -result.objective


@pytest.mark.parametrize("method", ALL)
def test_balance_spoils_clusters_of_unequal_size(method):
    """50, 50 and 12 objects are found without the bound."""
    labels, truth = planted(3, (50, 50, 12))
    free = ALL[method](labels, 3, imbalance=None, random_state=0)
    assert same(free.labels, truth)
    bound = ALL[method](labels, 3, imbalance=0.05, random_state=0)
    if method in ("cspa", "hgpa"):  # bounds on the clusters themselves
        assert np.bincount(bound.labels).max() <= 39
        assert gpc.metrics.adjusted_rand(truth, bound.labels) < 0.7
    if method in ("mcla", "supra"):  # a bound on meta-clusters, which objects leave
        assert same(bound.labels, truth)
    if method == "hbgf":
        assert gpc.metrics.adjusted_rand(truth, bound.labels) < 0.7


@pytest.mark.parametrize("partitioner", PARTITIONERS)
@pytest.mark.parametrize("method", METHODS)
def test_clusters_of_equal_size_are_found(method, partitioner):
    labels, truth = planted(1, (30, 30, 30, 30), noise=0.05)
    result = METHODS[method](labels, 4, partitioner=partitioner, random_state=0)
    if (method, partitioner) != ("hgpa", "mtkahypar"):  # fewer hyperedges can be cut
        assert same(result.labels, truth)
    assert result.details["partitioner"] == partitioner


@pytest.mark.filterwarnings(EMPTY)
@pytest.mark.parametrize("partitioner", PARTITIONERS)
@pytest.mark.parametrize("method", ALL)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.3]))
@settings(max_examples=5)
def test_row_order_and_names_of_labels_change_nothing(
    method, partitioner, seed, missing
):
    labels, _ = noisy(seed, n=40, r=7, missing=missing)
    rng = np.random.default_rng(seed)
    order = rng.permutation(40)
    renamed = np.full(labels.shape, -1)
    for i in range(7):
        names = rng.permutation(100)
        known = labels[:, i] >= 0
        renamed[known, i] = names[labels[known, i]]
    options = {"partitioner": partitioner, "random_state": seed}
    one = ALL[method](labels, 3, **options)
    other = ALL[method](renamed[order], 3, **options)
    assert other.objective == pytest.approx(one.objective)
    assert same(one.labels[order], other.labels)


@pytest.mark.parametrize("partitioner", PARTITIONERS)
@pytest.mark.parametrize("method", ALL)
def test_objects_seen_twice_change_nothing(method, partitioner):
    labels, _ = planted(8, (20, 20, 20), r=9, noise=0.2)
    options = {"partitioner": partitioner, "random_state": 0}
    once = ALL[method](labels, 3, **options)
    twice = ALL[method](np.repeat(labels, 2, axis=0), 3, **options)
    assert np.array_equal(twice.labels[::2], twice.labels[1::2])
    if (method, partitioner) != ("hgpa", "mtkahypar"):  # its cuts are many and equal
        assert same(once.labels, twice.labels[::2])


@pytest.mark.parametrize("partitioner", PARTITIONERS)
@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize("r", [1, 5])
@pytest.mark.parametrize("sizes", [(50, 50, 12), (90, 5, 5), (1, 1, 1)])
def test_equal_partitions_come_back(method, partitioner, r, sizes):
    truth = np.random.default_rng(0).permutation(np.repeat(np.arange(3), sizes))
    labels = np.repeat(truth[:, None], r, axis=1)
    for imbalance in (0.05, None):
        if imbalance is None and partitioner != "spectral":
            continue
        result = ALL[method](
            labels, 3, partitioner=partitioner, imbalance=imbalance, random_state=0
        )
        assert same(result.labels, truth)
        assert result.n_clusters == 3


@pytest.mark.parametrize("method", ALL)
def test_a_weight_counts_as_copies(method):
    labels, truth = planted(5, (20, 20, 20), r=5, noise=0.25)
    options = {"imbalance": None, "random_state": 0}
    copied = ALL[method](labels[:, [0, 0, 0, 1, 2, 2, 3, 4]], 3, **options)
    weighted = ALL[method](labels, 3, weights=[3, 1, 2, 1, 1], **options)
    assert same(copied.labels, weighted.labels)
    # all scale with r: 8 copies against weights that sum to 5
    scale = {"cspa": 1, "hgpa": 8 / 5, "mcla": (8 / 5) ** 2, "hbgf": 8 / 5, "supra": 1}
    assert copied.objective == pytest.approx(weighted.objective * scale[method])
    only = ALL[method](labels, 3, weights=[0, 0, 1, 0, 0], **options)
    assert same(only.labels, labels[:, 2])
    assert gpc.metrics.adjusted_rand(truth, weighted.labels) > 0.7


@pytest.mark.parametrize("partitioner", PARTITIONERS)
@pytest.mark.parametrize("method", METHODS)
def test_missing_labels(method, partitioner):
    labels, truth = planted(7, (30, 30, 30), r=20, noise=0.05, missing=0.4)
    labels[11] = -1
    with pytest.raises(ValueError, match="1 objects have no label"):
        METHODS[method](labels, 3, partitioner=partitioner)
    result = METHODS[method](
        labels, 3, partitioner=partitioner, on_unlabelled="keep", random_state=0
    )
    assert result.labels[11] == -1
    rest = np.arange(90) != 11
    if (method, partitioner) != ("hgpa", "mtkahypar"):
        found = gpc.metrics.adjusted_rand(truth[rest], result.labels[rest])
        assert found > 0.9


@pytest.mark.parametrize("method", ALL)
def test_one_cluster_and_one_object(method):
    labels, _ = noisy(1, n=20, r=4)
    with pytest.warns(UserWarning, match="n_clusters=1 puts all objects"):
        result = ALL[method](labels, 1)
    assert result.labels.tolist() == [0] * 20
    assert result.value == 0
    with pytest.warns(UserWarning, match="n_clusters=1 puts all objects"):
        alone = ALL[method](np.array([[4, 2]]), 1)
    assert alone.labels.tolist() == [0]


def test_fewer_meta_clusters_than_asked_for_are_said():
    """Three partitions of two labels have six clusters: eight cannot come out."""
    labels = np.array(list(itertools.product([0, 1], repeat=3)))
    with pytest.warns(UserWarning, match="mcla found . clusters although n_clusters=8"):
        result = gpc.mcla(labels, 8, random_state=0)
    assert result.n_clusters <= 6
    assert result.details["n_ties"] > 0


@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_supra_takes_the_best_by_average_nmi(missing):
    labels, _ = noisy(4, n=50, r=6, missing=missing)
    weights = np.array([1, 1, 2, 1, 1, 3]) / 9
    options = {"weights": weights, "random_state": 3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        result = gpc.supra(labels, 3, **options)
        scores = {}
        for name in ("cspa", "hgpa", "mcla"):
            one = METHODS[name](labels, 3, **options)
            total = weight = 0.0
            for i in range(6):
                known = labels[:, i] >= 0
                pair = labels[known, i], one.labels[known]
                nmi = normalized_mutual_info_score(*pair, average_method="geometric")
                total += weights[i] * known.sum() * nmi
                weight += weights[i] * known.sum()
            scores[name] = total / weight
            if name == result.details["winner"]:
                assert np.array_equal(one.labels, result.labels)
                assert one.details.items() <= result.details.items()
    assert result.details["anmi"] == pytest.approx(scores)
    assert result.details["winner"] == max(scores, key=scores.get)
    assert result.value == pytest.approx(max(scores.values()))
    assert result.objective == 1 - result.value
    assert result.details["skipped"] == {}
    assert set(result.details["partitioners"]) == set(scores)


def test_supra_leaves_cspa_out_of_large_problems():
    labels, truth = planted(2, (40, 40, 40))
    result = gpc.supra(labels, 3, cspa_limit=20, random_state=0)
    assert set(result.details["anmi"]) == {"hgpa", "mcla"}
    assert "more than cspa_limit=20" in result.details["skipped"]["cspa"]
    assert same(result.labels, truth)
    small = gpc.supra(labels, 3, memory_limit=200_000, random_state=0)
    assert small.details["skipped"]["cspa"].startswith("cspa needs ")
    with pytest.raises(ValueError, match="cspa_limit=-1 should be >= 0"):
        gpc.supra(labels, 3, cspa_limit=-1)


def test_a_partition_of_one_cluster_adds_nothing_to_average_nmi():
    labels = np.column_stack([[0, 0, 1, 1], [5, 5, 5, 5]])
    assert gpc.supra(labels, 2, random_state=0).value == pytest.approx(0.5)


def test_hyperedges_may_weigh_as_much_as_their_clusters():
    result = gpc.hgpa(worked(oracles.E1), 2, edge_weights="size", random_state=0)
    assert result.objective == 5  # p2.2
    with pytest.raises(ValueError, match="edge_weights='sizes' is unknown"):
        gpc.hgpa(worked(oracles.E1), 2, edge_weights="sizes")


def test_memory_is_asked_for_first():
    labels, _ = noisy(0, n=60)
    with pytest.raises(MemoryError, match=r"cspa needs .* kB .*; use mcla, hgpa or"):
        gpc.cspa(labels, 3, memory_limit=10_000)
    with pytest.raises(MemoryError, match=r"mcla needs .* kB .*; use hbgf, or fewer"):
        gpc.mcla(labels, 3, memory_limit=10_000)
    few = np.repeat(np.array([[0, 0], [0, 1], [1, 1]]), 10_000, axis=0)
    assert gpc.cspa(few, 2, memory_limit=10_000).n_clusters == 2  # three vertices


@pytest.mark.parametrize("method", ALL)
def test_the_result_serves_as_any_other(method):
    labels, truth = planted(1, (20, 15, 25))
    result = gpc.consensus(labels, 3, method, imbalance=None, random_state=0)
    assert np.array_equal(result.predict(labels), result.labels)
    assert (result.confidence > 0.5).all()
    with pytest.raises(TypeError, match=f"{method}.*'n_init'"):
        ALL[method](labels, 3, n_init=3)
    X = truth[:, None] + np.random.default_rng(0).normal(size=(60, 2)) / 20
    model = gpc.ConsensusClustering(
        3,
        method,
        n_partitions=10,
        method_options={"imbalance": None},
        random_state=0,
    )
    assert same(model.fit(X).labels_, truth)
