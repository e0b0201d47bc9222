"""SEC against the theorems of its paper and the weighted k-means they name."""

from fractions import Fraction

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_ensembles import noisy

import gpu_consensus as gpc
from gpu_consensus.backends import choose_backend
from gpu_consensus.loop.code_blocks import CodeBlocks
from gpu_consensus.loop.lloyd import lloyd
from gpu_consensus.loop.local_rows import LocalRows
from gpu_consensus.loop.starts import Starts
from gpu_consensus.methods.sec import SecRule

pytestmark = pytest.mark.every_backend


def coassociation(labels):
    return sum(
        (labels[:, i, None] == labels[None, :, i]) & (labels[:, i, None] >= 0)
        for i in range(labels.shape[1])
    ).astype(float)


@given(st.integers(0, 10**6), st.sampled_from([2, 3, 5]))
@settings(max_examples=30)
def test_theorem_1_trace_of_the_normalised_cut(seed, k):
    """tr(Z' D^-1/2 S D^-1/2 Z) = n value, Z = D^1/2 H (H' D H)^-1/2."""
    labels, _ = noisy(seed, n=30, r=5)
    result = gpc.sec(labels, k, random_state=seed)
    S = coassociation(labels)
    D = np.diag(S.sum(axis=1))
    H = np.eye(k)[result.labels]
    Z = np.sqrt(D) @ H @ np.diag(1 / np.sqrt(np.diag(H.T @ D @ H)))
    half = np.diag(1 / np.sqrt(np.diag(D)))
    trace = np.trace(Z.T @ half @ S @ half @ Z)
    assert trace == pytest.approx(30 * result.value, rel=1e-9)


def weighted_kmeans(labels, consensus):
    """sum_l w_l sum_i |e / w_l - m_k|^2 over the partitions where l is present."""
    weight = coassociation(labels).sum(axis=1)
    objective = 0.0
    for i in range(labels.shape[1]):
        present = labels[:, i] >= 0
        size = labels[:, i].max() + 1
        for k in np.unique(consensus[present]):
            members = np.flatnonzero(present & (consensus == k))
            onehot = np.eye(size)[labels[members, i]]
            centre = onehot.sum(axis=0) / weight[members].sum()
            points = onehot / weight[members, None]
            objective += (weight[members, None] * (points - centre) ** 2).sum()
    return objective


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.3, 0.8]))
@settings(max_examples=40)
def test_the_objective_is_the_weighted_kmeans_and_never_rises(seed, missing):
    labels, _ = noisy(seed, n=30, r=6, missing=missing)
    ens = gpc.Ensemble(labels)
    for init in ("partition", "random"):
        result = gpc.sec(ens, 3, init=init, n_init=3, random_state=seed)
        expected = weighted_kmeans(ens.labels, result.labels)
        assert result.objective == pytest.approx(expected, rel=1e-9, abs=1e-12)
        assert (np.diff(result.history) <= 1e-12).all()
        assert len(np.unique(result.labels)) == 3


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_no_object_is_better_off_elsewhere(missing):
    """At the end every object is in the cluster of lowest score, computed in full."""
    labels, _ = noisy(4, n=60, r=8, missing=missing)
    ens = gpc.Ensemble(labels)
    result = gpc.sec(ens, 3, random_state=0)
    assert np.array_equal(result.predict(labels), result.labels)


@pytest.mark.parametrize(
    ("rows", "k", "expected"),
    [(oracles.E1, 2, "11112222"), (oracles.E2, 3, "111222333")],
)
def test_worked_examples(rows, k, expected):
    ens = gpc.Ensemble.from_partitions(oracles.worked(rows))
    result = gpc.sec(ens, k, n_init=20, random_state=0)
    assert oracles.canonical(result.labels) == oracles.canonical(expected)


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_chunks_and_few_restarts_at_a_time_change_nothing(missing):
    labels, _ = noisy(2, n=90, r=6, missing=missing)
    whole = gpc.sec(labels, 4, n_init=4, random_state=1)
    cut = gpc.sec(labels, 4, n_init=4, random_state=1, memory_limit=500)
    assert np.array_equal(whole.labels, cut.labels)
    assert np.array_equal(whole.history, cut.history)


@pytest.mark.parametrize("together", [None, 2])
def test_weights_of_absent_members_belong_to_their_restart(together):
    """While others leave, take turns, and empty clusters are filled."""
    rng, n, k = np.random.default_rng(4), 40, 6
    labels, _ = noisy(4, n=n, r=5, k=4, missing=0.4)
    labels[:, 0] = np.arange(n) % 4  # so that every object has a label
    labels[:, 1:][rng.random((n, 4)) < 0.5] = 0
    ens, nobody = gpc.Ensemble(labels), np.empty(0, dtype=np.intp)
    rule, data = SecRule(ens), (ens.codes, ens.offsets)
    # the last cluster begins without a member
    seeds = rng.integers(k - 1, size=(4, n)).astype(np.uint8)
    seeds[0] = oracles.lloyd(*data, rule, seeds[0], k, nobody, 99)[0]  # leaves first
    right = [oracles.lloyd(*data, rule, row, k, nobody, 99) for row in seeds]
    lengths = [len(history) for _, history, _ in right]
    assert max(lengths) - lengths[0] > 2
    backend = choose_backend("auto", None)
    rows = LocalRows(
        CodeBlocks(backend, *data, memory_limit=2000),
        k,
        nobody,
        row_weight=rule.row_weight,
        absent_weight=rule.absent_weight,
    )
    rows.start(seeds.copy())
    starts = Starts.fresh(len(seeds))
    lloyd(rows, backend, rule, starts, max_iter=99, together=together)
    assert starts.history == [history for _, history, _ in right]
    for q, (assignment, _, ended) in enumerate(right):
        assert np.array_equal(rows.labels(q), assignment)
        assert starts.converged[q] == ended


def test_new_objects_with_gaps_are_scored_over_what_they_have():
    """Also when the fitted data had no gaps: the formula, partition by partition."""
    labels, _ = noisy(9, n=120, r=8)
    ens = gpc.Ensemble(labels)
    result = gpc.sec(ens, 3, random_state=0)
    rng = np.random.default_rng(0)
    gone = rng.random(labels.shape) < 0.5
    gone[np.arange(120), rng.integers(8, size=120)] = False
    new = np.where(gone, -1, labels)
    weight = coassociation(ens.labels).sum(axis=1)
    found = result.predict(new)
    for l in range(120):
        present = np.flatnonzero(new[l] >= 0)
        own = sum(np.sum(labels[:, i] == labels[l, i]) for i in present)
        scores = []
        for k in range(3):
            members = result.labels == k
            whole = weight[members].sum()
            score = 0.0
            for i in present:
                counts = np.bincount(labels[members, i])
                same = np.sum(labels[members, i] == labels[l, i])
                score += own * np.sum(counts**2) / whole**2 - 2 * same / whole
            scores.append(score)
        best = np.sort(scores)
        if best[1] - best[0] > 1e-5:
            assert found[l] == np.argmin(scores)


def test_kept_unlabelled_objects():
    labels, _ = noisy(3, n=40, r=5, missing=0.3)
    labels[7] = -1
    result = gpc.sec(labels, 3, on_unlabelled="keep", random_state=0)
    assert result.labels[7] == -1
    rest = np.delete(np.arange(40), 7)
    expected = weighted_kmeans(gpc.Ensemble(labels).labels[rest], result.labels[rest])
    assert result.objective == pytest.approx(expected, rel=1e-9)


def test_what_sec_does_not_know_is_refused():
    labels, _ = noisy(5)
    with pytest.raises(ValueError, match="weights differ between partitions"):
        gpc.sec(labels, 3, weights=np.arange(1, 13))
    assert gpc.sec(labels, 3, weights=[2] * 12, random_state=0).n_clusters == 3
    with pytest.raises(ValueError, match="init='careful' needs distances"):
        gpc.sec(labels, 3, init="careful")
    huge = gpc.Ensemble.from_codes(np.zeros((1, 3), np.uint8), [1])
    huge._codes = np.broadcast_to(np.zeros(1, np.uint8), (9, 2**31))
    with pytest.raises(ValueError, match="too large for sec"):
        gpc.sec(huge, 2)


def evenly_weighted(rng, missing):
    """Labels in which every object weighs the same, with or without gaps.

    All clusters of a partition have one size; with gaps, every object is missing in one
    of six partitions, in turn.
    """
    if not missing:
        sizes = (2, 3, 4, 6, 2, 3, 4)
        return np.column_stack([rng.permutation(np.arange(24) % k) for k in sizes])
    labels = np.full((24, 6), -1)
    for i in range(6):
        present = np.arange(24) % 6 != i
        labels[present, i] = rng.permutation(np.arange(20) % 4)
    return labels


def exact_best(labels, consensus, k):
    """The nearest centroid of KCC's utility c, and whether no other is as near."""
    best, unique = [], []
    for x in range(len(labels)):
        scores = [Fraction(0)] * k
        for i in np.flatnonzero(labels[x] >= 0):
            present = labels[:, i] >= 0
            for cluster in range(k):
                members = labels[present & (consensus == cluster), i]
                if not len(members):
                    members = labels[present, i]
                n = np.bincount(members, minlength=labels[x, i] + 1)
                m = [Fraction(int(c), len(members)) for c in n]
                scores[cluster] += 1 - 2 * m[labels[x, i]] + sum(p * p for p in m)
        best.append(scores.index(min(scores)))
        unique.append(scores.count(min(scores)) == 1)
    return np.array(best), np.array(unique)


@pytest.mark.filterwarnings("ignore:.* did not converge")
@pytest.mark.parametrize("missing", [False, True])
def test_with_unit_weights_sec_is_kcc_c(missing):
    """A weight that all objects share divides all scores alike, so it may be 1."""
    rows = runs = 0
    for seed in range(24):
        rng = np.random.default_rng(seed)
        labels, k = evenly_weighted(rng, missing), 2 + seed % 2
        assert np.ptp(coassociation(labels).sum(axis=1)) == 0
        init = rng.permutation(np.arange(24) % k)
        consensus, clear = init, True
        for _ in range(50):
            best, unique = exact_best(labels, consensus, k)
            for method in (gpc.sec, plain_kcc):
                step = method(labels, k, init=consensus, max_iter=1).labels
                # a step that does not lower the objective is taken back
                if len(set(best[unique])) == k and not np.array_equal(step, consensus):
                    assert np.array_equal(step[unique], best[unique])
                    rows += int(unique.sum())
            clear = unique.all() and len(set(best)) == k
            if not clear or np.array_equal(best, consensus):
                break
            consensus = best
        if clear:  # then nothing but the scores decides the whole run
            for method in (gpc.sec, plain_kcc):
                assert np.array_equal(method(labels, k, init=init).labels, consensus)
            runs += 1
    assert rows >= 1000
    assert runs >= 8


def plain_kcc(*arguments, **options):
    return gpc.kcc(*arguments, utility="c", refine=False, **options)


@pytest.mark.parametrize("share", [0.2, 0.6])
def test_row_segmentation_finds_the_clusters_of_data_never_clustered_whole(share):
    rng = np.random.default_rng(1)
    truth = rng.integers(4, size=400)
    X = rng.normal(size=(400, 3)) + 7 * np.eye(4, 3)[truth]
    ens = gpc.generate_partitions(
        X, 60, "rows", n_clusters=4, sample_share=share, random_state=0
    )
    assert ens.n_missing.sum() == pytest.approx((1 - share) * ens.codes.size)
    result = gpc.sec(ens, 4, random_state=0)
    assert gpc.metrics.adjusted_rand(truth, result.labels) > 0.95
    assert (np.diff(result.history) <= 1e-12).all()
