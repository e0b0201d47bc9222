"""The default answer: its candidates, how one wins, and what it finds."""

import inspect

import numpy as np
import pytest
from random_ensembles import noisy
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.metrics import mutual_info_score

import gpu_consensus as gpc
from gpu_consensus.backends import choose_backend
from gpu_consensus.cli import main
from gpu_consensus.loop import search
from gpu_consensus.methods import portfolio
from gpu_consensus.methods.label_weights import word_weights
from gpu_consensus.methods.portfolio import PORTFOLIO, Candidate

pytestmark = pytest.mark.every_backend(emulated=False)

NAMES = [candidate.name for candidate in PORTFOLIO]
auto_module = inspect.getmodule(gpc.auto)
rand = gpc.metrics.adjusted_rand


def told(result):
    return {one["name"]: one for one in result.details["candidates"]}


def without_seconds(result):
    return [
        {key: value for key, value in one.items() if key != "seconds"}
        for one in result.details["candidates"]
    ]


def test_the_winner_is_what_three_methods_agree_on_or_far_better():
    labels, _ = noisy(2, n=120, r=12, missing=0.1)
    ens = gpc.Ensemble(labels, weights=np.arange(1.0, 13))
    result = gpc.auto(ens, 4, random_state=0)
    candidates = told(result)
    assert list(candidates) == NAMES
    run = {name: one for name, one in candidates.items() if "criterion" in one}
    assert all(one["n_clusters"] <= 4 and one["seconds"] > 0 for one in run.values())
    best = max(run, key=lambda name: run[name]["criterion"])
    left = {name: 1 - one["criterion"] for name, one in run.items()}
    assert left[best] >= 0.5 * left["agreed"]
    winner = "agreed"
    assert result.method == "auto:agreed"
    assert result.value == run[winner]["criterion"]
    assert result.objective == 1 - result.value
    backend = choose_backend("auto", None)
    weights, n_objects = word_weights("eci", ens, backend, np.random.SeedSequence(0))
    assert result.details["eci_weights"] == pytest.approx(weights)
    assert result.details["eci_objects"] == n_objects == 120
    assert result.details["eci_left_out"] == ""


def test_candidates_are_the_methods_themselves():
    labels, _ = noisy(2, n=120, r=12)
    result = gpc.auto(labels, 4, random_state=0)
    candidates, weights = told(result), result.details["eci_weights"]
    voted = gpc.cvote(labels, 4, weights=weights)
    assert candidates["cvote"]["objective"] == pytest.approx(voted.objective)
    moved = gpc.kcc(labels, 4, weights=weights, init=voted.labels, search=False)
    assert candidates["cvote+kcc"]["objective"] == pytest.approx(moved.objective)


def fixed(name, labels):
    """A candidate that finds the same whatever it is given."""
    return Candidate(
        name, lambda trial: trial.open(name).result(labels, objective=0, value=0),
        lambda trial: "",
    )  # fmt: skip


@pytest.mark.parametrize("warned", [False, True])
def test_order_ties_and_lost_clusters(monkeypatch, warned):
    truth = np.arange(60) % 3
    labels = np.repeat(truth[:, None], 4, axis=1)
    labels[0] = [1, 2, 0, 1]
    two, poor = np.minimum(truth, 1), np.roll(truth, 1)
    poor[:30] = truth[:30]
    table = [fixed("two", two)]
    if not warned:
        table += [
            fixed("poor", poor),
            fixed("renamed", 2 - truth),
            fixed("same", truth),
        ]
    monkeypatch.setattr(auto_module, "PORTFOLIO", tuple(table))
    if warned:  # all have fewer
        with pytest.warns(UserWarning, match="auto:two found 2 clusters although"):
            assert gpc.auto(labels, 3).n_clusters == 2
        return
    result = gpc.auto(labels, 3)  # and no warning of a candidate that lost
    assert result.method == "auto:renamed"
    assert told(result)["two"]["n_clusters"] == 2
    assert told(result)["poor"]["criterion"] < result.value
    table[2:] = table[:1:-1]
    monkeypatch.setattr(auto_module, "PORTFOLIO", tuple(table))
    assert gpc.auto(labels, 3).method == "auto:same"


def test_a_few_outliers_are_no_cluster(monkeypatch):
    """They are known for sure, so that the criterion alone would take them."""
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], 300)
    labels = 5 * truth[:, None] + rng.integers(5, size=(600, 8))
    labels = np.where(rng.random(labels.shape) < 0.1, 9 - labels, labels)
    labels[:3] = 10
    outliers = np.zeros(600, int)
    outliers[:3] = 1
    table = (fixed("outliers", outliers), fixed("halves", truth))
    monkeypatch.setattr(auto_module, "PORTFOLIO", table)
    result = gpc.auto(labels, 2)
    assert result.method == "auto:halves"
    assert told(result)["outliers"]["smallest"] == 3
    share = 3 / 600  # explained whole, but all of evenness is lost
    bits = -share * np.log2(share) - (1 - share) * np.log2(1 - share)
    assert told(result)["outliers"]["criterion"] == pytest.approx(1 - (1 - bits) / 30)
    outliers[:12] = 1  # 300 / 50 are enough
    labels[:12] = 10
    assert gpc.auto(labels, 2).method == "auto:outliers"


def coarse_and_fine(n_coarse, n_fine, n=200):
    """Halves with a tenth of the labels wrong; fine partitions cut them in three."""
    rng = np.random.default_rng(1)
    truth = np.repeat([0, 1], n // 2)
    labels = truth[:, None] ^ (rng.random((n, n_coarse + n_fine)) < 0.1)
    labels[:, n_coarse:] += 2 * rng.integers(3, size=(n, n_fine))
    return labels, truth


@pytest.mark.parametrize("plain", ["usenc", "kcc"])
@pytest.mark.parametrize(
    ("n_coarse", "n_fine", "winner"),
    [(5, 35, "plain"), (5, 34, "better"), (4, 40, "better"), (0, 40, "better")],
)
def test_plain_borders_win_where_a_few_partitions_are_coarse(
    monkeypatch, plain, n_coarse, n_fine, winner
):
    labels, truth = coarse_and_fine(n_coarse, n_fine)
    near, far = truth.copy(), truth.copy()
    near[0], far[:40] = 1, 1
    for own, expected in ((near, winner), (far, "better")):
        table = (fixed("better", truth), fixed(plain, own))
        monkeypatch.setattr(auto_module, "PORTFOLIO", table)
        result = gpc.auto(labels, 2)
        candidates = told(result)
        assert candidates["better"]["criterion"] > candidates[plain]["criterion"]
        name = plain if expected == "plain" else "better"
        assert result.method == f"auto:{name}"
        assert result.value == candidates[name]["criterion"]


def test_the_better_of_the_plain_ones_wins(monkeypatch):
    labels, truth = coarse_and_fine(5, 35)
    near = truth.copy()
    near[0] = 1
    for names in (("usenc", "kcc"), ("kcc", "usenc")):
        table = (fixed(names[0], near), fixed(names[1], truth))
        monkeypatch.setattr(auto_module, "PORTFOLIO", table)
        assert gpc.auto(labels, 2).method == f"auto:{names[1]}"


def test_fine_partitions_alone_judge_where_a_few_are_coarse(monkeypatch):
    labels, truth = coarse_and_fine(5, 35)
    for change in (lambda x: x, lambda x: np.roll(x, 60)):
        labels[:, :5] = change(labels[:, :5])
        monkeypatch.setattr(auto_module, "PORTFOLIO", (fixed("kcc", truth),))
        result = gpc.auto(labels, 2)
        assert (result.details["eci_weights"][:5] == 0).all()
        assert result.details["eci_weights"].sum() == pytest.approx(1)
        bits = [mutual_info_score(truth, one) / np.log(2) for one in labels.T]
        share = result.details["eci_weights"] @ bits  # the entropy of halves is 1
        assert result.value == pytest.approx(share)


@pytest.mark.parametrize(
    ("lost", "clean", "lacking", "winner"),
    [
        (1, False, False, "agreed"),
        (1, False, True, "agreed"),
        (40, False, False, "better"),
        (40, False, True, "agreed"),
        (40, True, True, "better"),
    ],
)
def test_what_was_agreed_wins_elsewhere(monkeypatch, lost, clean, lacking, winner):
    """Unless another is far better, or better where no partition lacks labels."""
    labels, truth = coarse_and_fine(0, 12)
    if clean:
        labels[:, :9] = 2 * (labels[:, :9] // 2) + truth[:, None]  # no label is wrong
    if lacking:
        labels[:, -1] = 0
        labels[0, -1] = -1
    agreed = truth.copy()
    agreed[:lost] = 1
    table = (fixed("better", truth), fixed("agreed", agreed))
    monkeypatch.setattr(auto_module, "PORTFOLIO", table)
    result = gpc.auto(labels, 2)
    left = {name: 1 - one["criterion"] for name, one in told(result).items()}
    share = 0.5 if lacking else 0.8
    assert (left["better"] < share * left["agreed"]) == (winner == "better")
    assert result.method == f"auto:{winner}"


def test_what_is_agreed_is_a_consensus_of_three_answers():
    labels, _ = noisy(2, n=120, r=12)
    result = gpc.auto(labels, 4, random_state=0)
    one = told(result)["agreed"]
    ens = gpc.Ensemble(labels)
    eci = result.details["eci_weights"]
    voted = gpc.cvote(ens, 4, weights=eci)
    answers = [
        gpc.kcc(ens, 4, weights=eci, init=voted.labels, search=False).labels,
        gpc.lwgp(ens, 4, random_state=0).labels,
        gpc.kcc(ens, 4, weights=eci, random_state=0).labels,
    ]
    best = gpc.kcc(gpc.Ensemble.from_partitions(answers), 4, random_state=1)
    assert one["objective"] == pytest.approx(best.objective, abs=1e-6)
    assert len(result.labels) == 120


def test_pairs_are_looked_at_up_to_2000_objects_and_beside_coarse_partitions(
    monkeypatch,
):
    labels, _ = coarse_and_fine(5, 35)
    kinds = {}
    for most in (200, 199):
        monkeypatch.setattr(portfolio, "_PAIRED", most)
        found = told(gpc.auto(labels, 2, random_state=0))
        kinds[most] = found["lwea"]
    assert kinds[200]["n_clusters"] == 2
    assert "of 200 objects they are too many" in kinds[199]["left_out"]
    found = told(gpc.auto(labels[:, 5:], 2, random_state=0))
    assert "beside a few coarse ones" in found["lwea"]["left_out"]
    assert "criterion" in found["agreed"]


def test_plain_borders_are_tried_where_no_partition_has_too_few_labels():
    labels, _ = coarse_and_fine(5, 35)
    fine = labels[:, 5:]
    assert "criterion" in told(gpc.auto(fine, 2, random_state=0))["usenc"]
    fine[:, 0] = 0
    found = told(gpc.auto(fine, 2, random_state=0))
    assert "fewer labels" in found["usenc"]["left_out"]


def test_labels_of_many_objects_are_compared_by_some(monkeypatch):
    labels, truth = noisy(1, n=200, r=8)
    monkeypatch.setattr(auto_module, "_LABEL_OBJECTS", 120)
    first, again = (gpc.auto(labels, len(set(truth)), random_state=2) for _ in "ab")
    assert first.details["eci_objects"] == 120
    assert told(first)["lwgp"]["objects"] == 120
    assert told(first)["kcc"]["objects"] == 200
    assert np.array_equal(first.labels, again.labels)
    assert rand(truth, first.labels) > 0.8


def test_kcc_takes_few_steps_where_objects_are_very_many(monkeypatch):
    labels, _ = noisy(1, n=200, r=8)
    monkeypatch.setattr(search, "MOST_OBJECTS", 150)
    found = told(gpc.auto(labels, 4, random_state=0))["kcc"]["objective"]
    refined = told(gpc.auto(labels[:150], 4, random_state=0))["kcc"]
    assert refined["objects"] == 150
    monkeypatch.setattr(portfolio, "_FEW_STEPS", 1)
    assert told(gpc.auto(labels, 4, random_state=0))["kcc"]["objective"] >= found


def test_a_candidate_that_is_left_out_changes_no_other(monkeypatch):
    labels, _ = noisy(5, n=90, r=9)
    every = told(gpc.auto(labels, 4, random_state=3))
    kept = [one for one in PORTFOLIO if one.name not in ("lwgp", "kcc")]
    monkeypatch.setattr(auto_module, "PORTFOLIO", tuple(kept))
    for name, one in told(gpc.auto(labels, 4, random_state=3)).items():
        if "criterion" in one:
            assert one["criterion"] == every[name]["criterion"]
            assert one["objective"] == every[name]["objective"]


def test_what_does_not_fit_memory_is_left_out_and_named(monkeypatch):
    labels, truth = noisy(1, n=80, r=20)
    result = gpc.auto(labels, 4, random_state=0, memory_limit=2000)
    candidates = told(result)
    assert "needs" in candidates["lwgp"]["left_out"]
    assert "needs" in result.details["eci_left_out"]
    assert result.details["eci_objects"] is None
    assert result.details["eci_weights"] == pytest.approx(np.full(20, 1 / 20))
    assert rand(truth, result.labels) > 0.8

    def full(trial):
        raise MemoryError("no room")

    table = [Candidate("full", full, lambda trial: "")]
    monkeypatch.setattr(auto_module, "PORTFOLIO", (*table, fixed("one", truth)))
    result = gpc.auto(labels, len(set(truth)))
    assert told(result)["full"] == {"name": "full", "left_out": "no room"}
    assert result.method == "auto:one"
    monkeypatch.setattr(auto_module, "PORTFOLIO", tuple(table))
    with pytest.raises(MemoryError, match=r"no candidate that fits .*full: no room"):
        gpc.auto(labels, 4)


def test_other_errors_are_not_hidden(monkeypatch):
    def wrong(trial):
        raise ZeroDivisionError("a bug")

    table = (Candidate("wrong", wrong, lambda trial: ""), *PORTFOLIO)
    monkeypatch.setattr(auto_module, "PORTFOLIO", table)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        gpc.auto(noisy(1, n=30, r=4)[0], 3)


def test_partitions_with_few_labels_leave_the_votes_out():
    rng = np.random.default_rng(0)
    truth = np.arange(80) % 4
    bits = np.column_stack([truth % 2, truth // 2] * 5)
    labels = np.where(rng.random(bits.shape) < 0.05, 1 - bits, bits)
    result = gpc.auto(labels, 4, random_state=0)
    candidates = told(result)
    assert "no partition has n_clusters=4 labels" in candidates["cvote"]["left_out"]
    assert "starts from the labels of cvote" in candidates["cvote+kcc"]["left_out"]
    assert rand(truth, result.labels) > 0.8


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_backends_and_threads_change_nothing(missing):
    labels, _ = noisy(7, n=150, r=10, missing=missing)
    found = [
        gpc.auto(labels, 4, random_state=1, n_jobs=n_jobs, **options)
        for n_jobs in (1, 2)
        for options in ({}, {"backend": "numpy"})
    ]
    for other in found[1:]:
        assert np.array_equal(found[0].labels, other.labels)
        assert found[0].value == other.value
        assert without_seconds(found[0]) == without_seconds(other)


def test_it_is_the_default_everywhere(tmp_path, capsys):
    X, _ = make_blobs(60, centers=3, random_state=0)
    ens = gpc.generate_partitions(X, 8, n_clusters=3, random_state=0)
    results = [
        gpc.consensus(ens, 3, random_state=0),
        gpc.cluster(X, 3, n_partitions=8, random_state=0),
        gpc.ConsensusClustering(3, n_partitions=8, random_state=0).fit(X).consensus_,
    ]
    assert all(one.method.startswith("auto:") for one in results)
    np.save(tmp_path / "labels.npy", ens.labels)
    call = ["consensus", str(tmp_path / "labels.npy"), "--n-clusters", "3"]
    assert main.main([*call, "--seed", "0"]) == 0
    assert "Consensus(auto:" in capsys.readouterr().out


def test_new_objects_and_confidence():
    labels, truth = noisy(4, n=100, r=10)
    result = gpc.auto(labels, len(set(truth)), random_state=0)
    assert rand(result.predict(labels), result.labels) > 0.9
    assert ((result.confidence > 0) & (result.confidence <= 1)).all()


@pytest.mark.parametrize("n_clusters", [1, 3])
@pytest.mark.filterwarnings("ignore:n_clusters=1 puts")
def test_one_partition_and_one_cluster(n_clusters):
    truth = np.arange(30) % 3
    result = gpc.auto(truth[:, None], n_clusters, random_state=0)
    assert result.n_clusters == n_clusters
    assert result.value == (1 if n_clusters == 3 else 0)


@pytest.mark.parametrize("seed", [0])
def test_blobs_of_one_size_and_of_many(seed):
    X, y = make_blobs(2000, 20, centers=12, cluster_std=4, random_state=seed)
    assert rand(y, gpc.cluster(X, 12, random_state=seed).labels) >= 0.99
    X, y = make_blobs([1000, 1000, 50, 50], 5, cluster_std=1.5, random_state=seed)
    assert rand(y, gpc.cluster(X, 4, random_state=seed).labels) >= 0.95


@pytest.mark.parametrize("seed", [0, 1])
def test_shapes(seed):
    for make, options in ((make_moons, {}), (make_circles, {"factor": 0.5})):
        X, y = make(500, noise=0.05, random_state=seed, **options)
        assert rand(y, gpc.cluster(X, 2, random_state=seed).labels) >= 0.95
