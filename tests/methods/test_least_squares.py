"""Least-squares consensus, against the literal method on exact fractions."""

import contextlib
import importlib
from fractions import Fraction

import numpy as np
import oracles
import pytest
from climb_oracle import b, literal_climb, literal_matrix
from hypothesis import given, settings
from hypothesis import strategies as st
from random_ensembles import noisy

import gpu_consensus as gpc
from gpu_consensus.backends import choose_backend
from gpu_consensus.backends.device_memory import DeviceMemoryWarning

pytestmark = pytest.mark.every_backend

# the function hides the module of its name
module = importlib.import_module("gpu_consensus.methods.least_squares")


def literal(ens, threshold=Fraction(0), n_clusters=None):
    """From every object, the best cluster out, until nothing is left: labels and b."""
    matrix = literal_matrix(ens.codes, ens.n_labels)
    n = ens.n_samples
    if threshold == "mean":
        threshold = Fraction(sum(map(sum, matrix)), n * n)
    if threshold == "half":
        threshold = Fraction(ens.n_partitions, 2)
    ratio = Fraction(threshold).as_integer_ratio()
    rest, labels, heights = list(range(n)), np.full(n, -1), []
    while rest and len(heights) != n_clusters:
        part = [[matrix[l][m] for m in rest] for l in rest]
        best, chosen = None, None
        for start in range(len(rest)):
            last = literal_climb(part, start, ratio)[-1]
            height = b(part, last, ratio)
            if best is None or height > best:
                best, chosen = height, [rest[l] for l in last]
        labels[chosen] = len(heights)
        heights.append(best)
        rest = [l for l in rest if labels[l] < 0]
    found = labels.copy()
    for l in rest:
        means = [
            Fraction(int(sum(matrix[l][m] for m in np.flatnonzero(found == k))))
            / int((found == k).sum())
            for k in range(len(heights))
        ]
        labels[l] = means.index(max(means))
    return labels, heights


@pytest.mark.parametrize(
    ("rows", "threshold", "clusters", "heights"),
    [
        (oracles.E1, 0, "11110000", [14.5, 12.5]),
        (oracles.E1, "mean", "11110000", [7.25, 5.25]),
        (oracles.E1, "half", "11120000", [6.5, 14 / 3, 2]),
        (oracles.E2, 0, "110000000", [113 / 7, 9]),
        (oracles.E2, "mean", "222111000", [8 + 2 / 9, 6 + 8 / 9, 5 + 5 / 9]),
        (oracles.E2, "half", "223111000", [37 / 6, 29 / 6, 4, 2.5]),
    ],
)
def test_the_worked_examples(rows, threshold, clusters, heights):
    ens = gpc.Ensemble.from_partitions(oracles.worked(rows))
    result = gpc.least_squares(ens, threshold=threshold)
    assert "".join(map(str, result.labels)) == clusters
    assert result.history == pytest.approx(heights, rel=1e-14)
    assert result.value == pytest.approx(sum(heights), rel=1e-14)
    assert result.details["b"] == pytest.approx(heights, rel=1e-14)
    sizes = np.bincount(result.labels)
    assert result.details["sizes"].tolist() == sizes.tolist()
    assert result.details["attached"] == 0


@given(
    st.integers(0, 10**6),
    st.sampled_from([0, "mean", "half", 1.3, 2.0]),
    st.sampled_from([0.0, 0.4]),
    st.sampled_from([None, 2, 3]),
)
@settings(max_examples=40)
def test_labels_are_those_of_the_literal_method(seed, threshold, missing, n_clusters):
    labels, _ = noisy(seed, n=13, r=5, missing=missing)
    ens = gpc.Ensemble(labels)
    exact = Fraction(13, 10) if threshold == 1.3 else threshold
    expected, heights = literal(ens, exact, n_clusters)
    if n_clusters is not None and len(heights) < n_clusters:
        with pytest.warns(UserWarning, match="least_squares found"):
            result = gpc.least_squares(ens, n_clusters, threshold=threshold)
    else:
        result = gpc.least_squares(ens, n_clusters, threshold=threshold)
    assert result.labels.tolist() == expected.tolist()
    assert result.history == pytest.approx([float(h) for h in heights], rel=1e-13)
    assert result.n_clusters == len(heights)


@pytest.mark.filterwarnings("ignore:least_squares found 1 clusters:UserWarning")
@given(st.integers(0, 10**6), st.sampled_from([0, "mean"]), st.sampled_from([None, 2]))
@settings(max_examples=20)
def test_the_objective_is_the_sum_of_squared_residuals(seed, threshold, n_clusters):
    """Eq. 2: what the projection on the clusters leaves of the binary matrix."""
    labels, _ = noisy(seed, n=30, r=6, missing=0.2)
    ens = gpc.Ensemble(labels)
    result = gpc.least_squares(ens, n_clusters, threshold=threshold)
    binary = np.concatenate(
        [
            (ens.labels[:, i, None] == np.arange(k_i)).astype(float)
            for i, k_i in enumerate(ens.n_labels)
        ],
        axis=1,
    )
    z = np.eye(result.n_clusters)[result.labels]
    left = binary - z @ np.linalg.inv(z.T @ z) @ z.T @ binary
    assert result.objective == pytest.approx((left**2).sum(), rel=1e-9, abs=1e-9)
    shift = result.details["threshold"]
    total = result.objective + result.value + 30 * shift
    assert total == pytest.approx(binary.sum(), rel=1e-12)


@pytest.mark.parametrize(
    ("missing", "threshold"), [(0.0, "mean"), (0.4, 0), (0.2, "half")]
)
def test_every_way_to_compute_gives_the_same(missing, threshold, monkeypatch):
    labels, _ = noisy(3, n=35, r=9, k=4, missing=missing)
    options = {"threshold": threshold}
    plain = gpc.least_squares(labels, threshold=threshold, backend="numpy", n_jobs=1)
    results = [
        gpc.least_squares(labels, **options),
        gpc.least_squares(labels, memory_limit=1, **options),
        gpc.least_squares(labels, n_jobs=3, **options),
    ]
    monkeypatch.setattr(module, "_TILE", 200)
    results.append(gpc.least_squares(labels, **options))
    results.append(gpc.least_squares(labels, memory_limit=1, **options))
    for result in results:
        assert np.array_equal(result.labels, plain.labels)
        assert np.array_equal(result.history, plain.history)
        assert result.objective == plain.objective


def test_the_matrix_is_only_made_if_it_fits(monkeypatch):
    labels, _ = noisy(0, n=40, r=5)
    made = []
    monkeypatch.setattr(
        type(choose_backend("auto", None)),
        "pairs",
        lambda *_: made.append(1) or pytest.fail("the matrix was made"),
    )
    gpc.least_squares(labels, memory_limit=2 * 40 * 40 - 1)
    assert not made


def test_without_room_for_the_matrix_the_labels_are_counted(monkeypatch):
    labels, _ = noisy(1, n=40, r=5)
    expected = gpc.least_squares(labels)

    def full(*_):
        raise MemoryError

    monkeypatch.setattr(type(choose_backend("auto", None)), "pairs", full)
    with pytest.warns(DeviceMemoryWarning, match="similarities of 40 objects; going"):
        found = gpc.least_squares(labels)
    assert np.array_equal(found.labels, expected.labels)


def test_a_weight_of_two_is_a_partition_twice():
    labels, _ = noisy(5, n=40, r=4, missing=0.2)
    twice = np.column_stack([labels, labels[:, 1], labels[:, 3], labels[:, 3]])
    for weights in ([1, 2, 1, 3], [0.5, 1, 0.5, 1.5]):
        found = gpc.least_squares(labels, weights=weights, threshold="half")
        expected = gpc.least_squares(twice, threshold="half")
        assert np.array_equal(found.labels, expected.labels)
        assert found.value == expected.value
    without = gpc.least_squares(labels[:, :3])
    found = gpc.least_squares(labels, weights=[1, 1, 1, 0])
    assert np.array_equal(found.labels, without.labels)
    with pytest.raises(ValueError, match="weights should be in the ratio of small"):
        gpc.least_squares(labels, weights=[1, np.pi, np.e, np.sqrt(2)])


def test_names_of_labels_and_copies_of_partitions_do_not_matter():
    labels, _ = noisy(7, n=60, r=6)
    expected = gpc.least_squares(labels)
    renamed = np.array([f"name {(7 * label) % 11}" for label in labels.ravel()])
    found = gpc.least_squares(renamed.reshape(labels.shape))
    assert np.array_equal(found.labels, expected.labels)
    found = gpc.least_squares(np.repeat(labels, 60, axis=1))  # uint16 similarities
    assert np.array_equal(found.labels, expected.labels)
    assert found.value == pytest.approx(60 * expected.value, rel=1e-14)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=20), st.integers(1, 4))
def test_equal_partitions_come_back(truth, r):
    result = gpc.least_squares(np.repeat(np.array(truth)[:, None], r, axis=1))
    assert oracles.canonical(result.labels) == oracles.canonical(truth)
    # every cluster is worth r times its size: the first found is the largest
    assert np.array_equal(
        result.history, r * np.sort(np.bincount(truth))[::-1][: len(set(truth))]
    )
    assert result.objective == 0


def test_unlabelled_objects_stay_out():
    labels, _ = noisy(2, n=30, r=5)
    labels[[3, 17]] = -1
    with pytest.raises(ValueError, match="2 objects have no label"):
        gpc.least_squares(labels)
    result = gpc.least_squares(labels, on_unlabelled="keep")
    assert np.flatnonzero(result.labels < 0).tolist() == [3, 17]
    expected = gpc.least_squares(np.delete(labels, [3, 17], axis=0))
    assert np.array_equal(np.delete(result.labels, [3, 17]), expected.labels)


def test_known_clusters_are_found_and_new_objects_join_them():
    labels, truth = noisy(11, n=120, r=30, k=4)
    result = gpc.least_squares(labels, threshold="mean")
    assert result.n_clusters >= 4
    assert gpc.metrics.adjusted_rand(truth, result.labels) > 0.95
    assert np.array_equal(result.predict(labels), result.labels)
    assert gpc.consensus(labels, method="least_squares").n_clusters >= 1


def test_enough_clusters_stop_the_search():
    labels, _ = noisy(4, n=60, r=8, k=5)
    whole = gpc.least_squares(labels, threshold="half")
    assert whole.n_clusters > 3
    result = gpc.least_squares(labels, 3, threshold="half")
    assert result.n_clusters == 3
    assert np.array_equal(result.history, whole.history[:3])
    kept = np.flatnonzero(whole.labels < 3)
    assert np.array_equal(result.labels[kept], whole.labels[kept])
    assert result.details["attached"] == 60 - len(kept)
    with pytest.warns(UserWarning, match="n_clusters=1"):
        assert gpc.least_squares(labels, 1).n_clusters == 1


def test_thresholds_are_kept_exactly_or_nearly():
    labels, _ = noisy(4, n=60, r=8)
    for threshold, kept in ((0.1, 0.1), (8, 8.0), ("half", 4.0)):
        result = gpc.least_squares(labels, threshold=threshold)
        assert result.details["threshold"] == kept
    ens = gpc.Ensemble(labels)
    matrix = literal_matrix(ens.codes, ens.n_labels)
    assert (
        module._as_threshold("mean", ens.codes, ens.n_labels)
        == Fraction(sum(map(sum, matrix)), 3600).as_integer_ratio()
    )
    # a matrix of 10^12 numbers leaves few bits for the denominator
    wide = np.broadcast_to(np.arange(2, dtype=np.uint8).repeat(500_000), (100, 10**6))
    p, q = module._as_threshold(np.pi, wide, np.full(100, 2))
    assert q * 10**12 * 100 <= 2**62
    assert p / q == pytest.approx(np.pi, abs=1e-8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"threshold": "median"},
            "threshold='median' is unknown; choose one",
        ),
        (
            {"threshold": -1},
            r"threshold=-1 should be 'mean', 'half' or .* 0..2",
        ),
        ({"threshold": 3}, r"threshold=3 should be .* in 0..2"),
        ({"threshold": np.nan}, "threshold=nan should be"),
        ({"threshold": None}, "threshold=None should be"),
        ({"n_clusters": 0}, "n_clusters=0 should be >= 1"),
    ],
)
def test_wrong_arguments_say_what_to_do(options, message):
    with pytest.raises(ValueError, match=message):
        gpc.least_squares(np.array([[0, 1], [1, 1], [0, 0]]), **options)


@pytest.mark.parametrize("shape", [(2, 2**28), (65_536, 3), (65_000, 10**5)])
def test_sizes_that_pass_the_integers_are_refused(shape, monkeypatch):
    codes = np.broadcast_to(np.zeros(1, np.uint8), shape)
    monkeypatch.setattr(module, "_repeat", lambda task: (codes, np.ones(shape[0])))
    with pytest.raises(ValueError, match=rf"n_samples={shape[1]} .* too large for"):
        gpc.least_squares(np.zeros((4, 2), dtype=int))


def test_climbs_that_no_cluster_touched_are_not_repeated(monkeypatch):
    n, climbs = 150, []
    climb = module.climb_all
    monkeypatch.setattr(module, "climb_all", lambda *a: climbs.append(1) or climb(*a))
    labels = np.column_stack([np.arange(n), np.arange(n)])
    result = gpc.least_squares(labels, memory_limit=1)
    assert result.labels.tolist() == list(range(n))
    assert len(climbs) == 1


def test_weights_are_refused_before_they_take_the_memory(monkeypatch):
    monkeypatch.setattr(module, "_MOST_LABELS", 4 * 100)
    monkeypatch.setattr(
        module.np, "repeat", lambda *_, **__: pytest.fail("the labels were repeated")
    )
    with pytest.raises(ValueError, match="ratio of small whole numbers"):
        gpc.least_squares(np.zeros((4, 2), dtype=int), weights=[1, 99])


def test_the_bar_says_how_far_the_similarities_are(monkeypatch):
    notes = []

    @contextlib.contextmanager
    def bar(enabled, description, total):
        yield lambda steps=1, note="": notes.append(note)

    monkeypatch.setattr(module, "progress_bar", bar)
    monkeypatch.setattr(module, "_TILE", 30 * 12)
    gpc.least_squares(noisy(4, n=30, r=5)[0])
    said = [note for note in notes if "similarities" in note]
    assert said == [f"similarities of {n} objects" for n in (12, 24, 30)]


def test_the_bar_counts_climbs(capsys, told_at_once):
    labels, _ = noisy(4, n=30, r=5)
    gpc.least_squares(labels, progress=True)
    said = capsys.readouterr().err
    assert "least_squares" in said
    assert "0 objects left" in said
