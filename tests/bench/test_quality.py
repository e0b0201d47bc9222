"""The benchmark of quality: its list, its records, its ranks, its claims."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.sparse import issparse

import gpu_consensus as gpc
from bench import cli, environment, quality, quality_best
from bench.quality_ensembles import ENSEMBLES, digest
from bench.quality_label_tables import label_tables, regret_tables
from bench.quality_makers import mixture, moons, rings, sizes_of, spirals
from bench.quality_methods import Bench, Worker, method_names, too_large
from bench.quality_plot import draw_quality
from bench.quality_ranks import critical_difference, mean_ranks
from bench.quality_records import Records
from bench.quality_sets import KINDS, SETS, USES, load_set
from bench.quality_summary import claims, feature_tables, lost_to
from bench.suite import Context


def record(name, method, ari, seed=0, part="features", partitions=0, **more):
    of = {"ari": ari, "nmi": ari, "clusters": 2, "seconds": 0.1}
    key = {"part": part, "set": name, "method": method, "seed": seed}
    return {**key, "partitions": partitions, "n": 100, **of, **more}


def test_the_list_is_fair():
    names = [item.name for item in SETS]
    assert len(set(names)) == len(names)
    assert {item.use for item in SETS} == set(USES)
    halves = {
        use: {
            (item.maker, item.options.get("of", item.name))
            if item.maker == "file"
            else (item.maker, item.seed)
            for item in SETS
            if item.use == use
        }
        for use in USES
    }
    assert not halves["decide"] & (halves["hold"] | halves["fresh"])
    # enough without any folder, of every kind
    for list_ in ("hold", "fresh"):
        free = [s for s in SETS if s.use == list_ and not s.needs_folder]
        assert len(free) >= 40
        assert {item.kind for item in free} >= set(KINDS) - {"text"}
    held = [item for item in SETS if item.use == "hold"]
    assert {item.kind for item in held} == set(KINDS)
    assert min(s.n for s in held) <= 150
    assert max(s.n for s in held) == 20_000
    assert max(s.options.get("ratio", 1) for s in held) == 50
    # an ensemble of features that are in the list has their use
    use = {item.name: item.use for item in SETS}
    for item in ENSEMBLES:
        assert use.get(item.name.partition("_")[2], item.use) == item.use


@pytest.mark.parametrize("item", [s for s in SETS if not s.needs_folder and s.n < 1000])
def test_sets_are_what_the_list_says(item):
    data = load_set(item, Context(), 3)
    assert data.X.shape[0] == len(data.y) == item.n
    assert len(np.unique(data.y)) == item.k
    again, other = load_set(item, Context(), 3), load_set(item, Context(), 4)
    assert data.is_text == issparse(data.X)
    X, same, turned = (
        x.X.toarray() if x.is_text else x.X for x in (data, again, other)
    )
    assert np.isfinite(X).all()
    assert np.array_equal(X, same)
    assert not np.array_equal(X, turned)  # another order
    assert np.array_equal(np.sort(X, axis=0), np.sort(turned, axis=0))


def test_sizes_have_the_ratio():
    sizes = sizes_of(5000, 6, 50)
    assert sizes.sum() == 5000
    assert sizes[0] / sizes[-1] == pytest.approx(50, rel=0.05)
    assert (sizes_of(60, 6, 50) >= 5).all()


def test_separation_is_measured_in_deviations():
    X, y = mixture(0, 40_000, 2, 3, separation=2.0, covariance="full", density=4.0)
    a, b = X[y == 0], X[y == 1]
    line = a.mean(axis=0) - b.mean(axis=0)
    line /= np.linalg.norm(line)
    apart = (a @ line).mean() - (b @ line).mean()
    assert apart / ((a @ line).std() + (b @ line).std()) == pytest.approx(2, rel=0.03)


def test_noise_features_tell_nothing():
    X, y = mixture(1, 20_000, 4, 2, noise=3)
    means = np.stack([X[y == k].mean(axis=0) for k in range(4)])
    assert X.shape == (20_000, 5)
    assert means[:, 2:].std(axis=0).max() < 0.05 < means[:, :2].std(axis=0).min()


def test_shapes_without_noise_lie_on_their_curves():
    X, y = rings(0, 300, (1.0, 2.5), 0.0, d=3)
    assert np.allclose(np.linalg.norm(X, axis=1), np.where(y == 0, 1.0, 2.5))
    X, y = moons(0, 300, 0.0, ratio=3)
    X[y == 1] = [1.0, 0.5] - X[y == 1]
    assert np.allclose(np.linalg.norm(X, axis=1), 1.0)
    assert (X[:, 1] >= 0).all()
    assert np.bincount(y).tolist() == [225, 75]
    X, y = spirals(0, 300, 3, 0.0)
    turn = np.arctan2(X[:, 1], X[:, 0]) / (2 * np.pi) - np.linalg.norm(X, axis=1)
    off = (turn - y / 3) % 1.0
    assert np.allclose(np.minimum(off, 1 - off), 0.0)


@pytest.mark.parametrize(
    ("k", "q"), [(2, 1.960), (3, 2.343), (5, 2.728), (8, 3.031), (10, 3.164)]
)
def test_critical_difference_is_that_of_the_tables(k, q):
    """Table 5(a) of Demsar, "Statistical comparisons of classifiers", JMLR 7, 2006."""
    expected = q * np.sqrt(k * (k + 1) / (6 * 30))
    assert critical_difference(k, 30) == pytest.approx(expected, rel=5e-4)


def test_ranks_and_friedman_agree_with_scipy():
    rng = np.random.default_rng(0)
    shift = np.array([0.0, 0.1, 0.2, 0.2])
    table = np.round(rng.random((20, 4)) + shift, 1)  # with ties
    sets = [f"s{i}" for i in range(20)]
    scores = {
        m: dict(zip(sets, table[:, j], strict=True)) for j, m in enumerate("abcd")
    }
    scores["seldom"] = {"s0": 1.0}
    found = mean_ranks(scores, sets)
    expected = stats.rankdata(-table, axis=1).mean(axis=0)
    assert found.mean == pytest.approx(dict(zip("abcd", expected, strict=True)))
    assert list(found.mean.values()) == sorted(found.mean.values())
    chi = stats.friedmanchisquare(*table.T).statistic
    assert found.p == pytest.approx(stats.f.sf(19 * chi / (60 - chi), 3, 57))
    assert mean_ranks({"a": {"s0": 1.0}}, ["s0"]) is None


def test_a_label_method_gives_the_labels_of_cluster():
    item = next(s for s in SETS if s.name == "n150-k3-d4-sep2.0")
    data = load_set(item, Context(), 5)
    bench = Bench(None)
    for method in ("kcc", "hbgf"):
        labels = gpc.cluster(data.X, 3, method=method, random_state=5).labels
        found = bench.features(item.name, method, 5)
        assert found["ari"] == gpc.metrics.adjusted_rand(data.y, labels)
        assert found["nmi"] == gpc.metrics.nmi(data.y, labels)


@pytest.mark.parametrize("method", method_names())
def test_every_method_runs(method):
    found = Bench(None).features("n150-k3-d4-sep2.0", method, 0)
    assert -0.5 <= found["ari"] <= 1
    assert found["clusters"] >= 1


def test_a_call_that_takes_too_long_is_a_reason_and_the_next_one_runs(monkeypatch):
    monkeypatch.setattr("bench.quality_methods._WARM_UP", 0.0)
    with Worker(None, 1e-3) as worker:
        found = worker.call("features", "iris", "KMeans", 0)
        assert found == {"reason": "took more than 0.001 s"}
        worker.limit = 120.0
        assert worker.call("features", "iris", "KMeans", 0)["ari"] > 0.6
        assert "ValueError" in worker.call("labels", "bp_iris", "vote", 0, 0)["reason"]
    assert too_large("Ward", 10_000) is None
    assert too_large("Ward", 10_001) == "not tried with n > 10,000"


def test_quick_run_goes_on_where_it_was_stopped(tmp_path, capsys):
    output, page = tmp_path / "q.jsonl", tmp_path / "q.md"
    call = ["quality", "--quick", "--output", str(output), "--markdown", str(page)]
    assert cli.main(call) == 0
    lines = output.read_text().splitlines()
    assert len(lines) == 1 + len(quality.QUICK_SETS) * len(quality.QUICK_METHODS)
    first = page.read_text(encoding="utf-8")
    assert "# Benchmark quality (quick)" in first
    assert "not complete" not in first
    assert "| KMeans | 3 |" in first
    assert str(tmp_path) not in output.read_text()
    # the last line was cut short, one before it never came
    output.write_text("\n".join(lines[:-2]) + "\n" + lines[-1][:40])
    assert cli.main(call) == 0
    again = [json.loads(line) for line in output.read_text().splitlines()]
    assert [line["part"] for line in again].count("session") == 2
    kept = [line for line in again if line["part"] != "session"]
    assert kept[:-2] == [json.loads(line) for line in lines[1:-2]]
    for old, new in zip(map(json.loads, lines[-2:]), kept[-2:], strict=True):
        assert {**old, "seconds": 0, "wall": 0} == {**new, "seconds": 0, "wall": 0}
    # nothing is left to do: no new session
    assert cli.main(call) == 0
    assert len(output.read_text().splitlines()) == len(again)
    capsys.readouterr()


def test_records_refuse_another_file(tmp_path):
    path = tmp_path / "other.jsonl"
    path.write_text('{"a": 1}\n')
    with pytest.raises(ValueError, match="line 1"):
        Records(path)
    assert path.read_text() == '{"a": 1}\n'


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--use", "both"], "--use='both' is unknown"),
        (["--sets", "iris,no"], "--sets='no' is unknown"),
        (["--methods", "kcc,none"], "--methods='none' is unknown"),
        (["--parts", "x"], "--parts='x' is unknown"),
        (["--seeds", "0"], "--seeds 0 should be >= 1"),
        (["--limit", "0"], "--limit 0 should be > 0"),
        (["--search-best", "1"], "needs --data-dir"),
        (["--data-dir", "no/such"], "is not a folder"),
        (["--picture", "no/such/x.svg"], "folder that exists"),
        (["--counts"], "--counts"),
    ],
)
def test_wrong_call_is_one_line_and_exit_2(arguments, words, capsys):
    assert cli.main(["quality", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert words in said.err


def made_up(n_sets=45, default=0.9, kmeans=0.5):
    held = [item for item in SETS if item.use == "hold"][:n_sets]
    records = []
    for i, item in enumerate(held):
        records.append(record(item.name, "default", default + 0.02 * (i % 3)))
        records.append(record(item.name, "KMeans", kmeans if i else 0.99))
        records.append(record(item.name, "Ward", 0.4 if i % 2 else 0.6))
        if i:
            records.append(record(item.name, "GaussianMixture", 0.8))
        else:
            records.append(
                {**record(item.name, "GaussianMixture", 0.0), "reason": "took long"}
            )
    return held, records


def test_claims_are_counted_on_sets_held_back_only():
    _, records = made_up()
    wrong = [record(s.name, "default", 0.0) for s in SETS if s.use == "decide"]
    kinds, ranks, values = feature_tables([*records, *wrong], "hold")
    assert len(values.rows) == 45
    passed = {claim.claim: claim.passed for claim in kinds.claims}
    assert [passed[c] for c in passed if "KMeans" in c] == [True, True]
    assert [passed[c] for c in passed if "Spectral" in c] == [None]
    assert [entry.reason for entry in kinds.skipped] == ["took long"]
    row = {row["method"]: row for row in kinds.rows}
    assert row["GaussianMixture"]["sets"] == 44
    assert row["default"]["lost"] == "1 of 45"
    assert row["default"]["all"] == pytest.approx(0.92)
    assert "44 sets" in ranks.notes[0]  # those that all have
    assert ranks.rows[0]["method"] == "default"


def test_a_default_that_loses_is_said_to_lose():
    _, records = made_up(default=0.45)
    kinds = feature_tables(records, "hold")[0]
    assert [c.passed for c in kinds.claims[:3]] == [False, False, False]
    few = feature_tables(made_up(n_sets=10)[1], "hold")[0]
    assert {claim.passed for claim in few.claims} == {None}
    scores = {"default": {"a": 0.5, "b": 0.5}, "KMeans": {"a": 0.505, "b": 0.52}}
    assert lost_to(scores, "default", "KMeans") == ["b"]
    assert claims({}, [], "held back") != []


def test_ranks_are_drawn(tmp_path):
    pytest.importorskip("matplotlib", reason="an extra of its own, not of the tests")
    tables = feature_tables(made_up()[1], "hold")
    stored = {"tables": [vars(table) for table in tables]}
    draw_quality(stored, tmp_path / "x.svg")
    assert "<svg" in (tmp_path / "x.svg").read_text(encoding="utf-8")


def test_page_shows_the_picture(tmp_path):
    page = "# Title\n\n- head\n\n## A\n\n## B\n"
    (tmp_path / "p").mkdir()
    shown = cli._show_picture(page, tmp_path / "x.md", tmp_path / "p" / "x.svg")
    head, _, rest = shown.partition("![Mean ranks and mean ARI of all methods]")
    assert head == "# Title\n\n- head\n\n"
    assert rest == "(p/x.svg)\n\n## A\n\n## B\n"


def test_picture_needs_matplotlib(tmp_path, capsys):
    if importlib.util.find_spec("matplotlib") is not None:
        pytest.skip("matplotlib is here")
    picture = str(tmp_path / "x.svg")
    assert cli.main(["quality", "--quick", "--picture", picture]) == 2
    assert "pip install matplotlib" in capsys.readouterr().err


@pytest.fixture
def folder(tmp_path):
    """Small stand-ins for some of the ensembles."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 20)
    for item in ENSEMBLES[:2]:
        labels = np.stack([y] * 100, axis=1)
        stray = rng.random(labels.shape) < 0.3
        labels[stray] = rng.integers(4, size=int(stray.sum()))
        np.savez(tmp_path / f"{item.name}.npz", **{item.key: labels}, y=y)
    return tmp_path


def test_labels_and_regret_are_measured(folder, monkeypatch, capsys):
    best = folder / "best.json"
    monkeypatch.setattr(quality, "read_best", lambda: quality_best.read_best(best))
    monkeypatch.setattr(
        quality_best, "ENSEMBLES", [e for e in ENSEMBLES[:2] if e.in_regret]
    )
    context = Context(data_dir=folder)
    fallen = list(quality_best.search_best(context, 1 / 60, best))
    assert fallen[0][2] is None
    kept = quality_best.read_best(best)
    assert all(entry["runs"] >= 1 for entry in kept.values())
    call = ["quality", "--data-dir", str(folder), "--parts", "labels,regret"]
    sets = ",".join(item.name for item in ENSEMBLES[:3])
    output = folder / "q.jsonl"
    call += ["--sets", sets, "--methods", "default,vote,KMeans", "--seeds", "2"]
    assert cli.main([*call, "--output", str(output)]) == 0
    page = capsys.readouterr().out
    assert "bp_mm: bp_mm.npz is not in the data folder" in page
    assert "| vote | 1.000 | 1.000 |" in page  # all 100 partitions
    records = list(Records(output).of("regret"))
    assert len(records) == 2 * 2 * 2 * 3
    together, each = regret_tables(records, kept)
    known = {(row["problem"], row["partitions"]) for row in together.rows}
    assert ("kcc:h", 10) in known
    assert all(0 <= row["median"] <= row["worst"] < 0.2 for row in each.rows)
    drawn, _, whole, _ = label_tables(list(Records(output).of("labels")))
    assert [row["method"] for row in drawn.rows] == ["default", "vote"]
    assert whole.rows[0]["decide"] == 1.0


def test_best_values_only_fall_and_know_their_ensemble(folder, monkeypatch):
    best = folder / "best.json"
    monkeypatch.setattr(quality_best, "ENSEMBLES", ENSEMBLES[:1])
    context = Context(data_dir=folder)
    list(quality_best.search_best(context, 1e-9 + 0.2 / 60, best))
    before = quality_best.read_best(best)
    list(quality_best.search_best(context, 0.2 / 60, best))
    after = quality_best.read_best(best)
    assert all(after[name]["objective"] <= before[name]["objective"] for name in before)
    assert sum(e["runs"] for e in after.values()) > sum(
        e["runs"] for e in before.values()
    )
    with np.load(folder / "bp_iris.npz") as archive:
        labels, y = archive["idx0"].copy(), archive["y"]
    labels[0] += 1
    np.savez(folder / "bp_iris.npz", idx0=labels, y=y)
    with pytest.raises(ValueError, match="is not the ensemble"):
        list(quality_best.search_best(context, 0.2 / 60, best))


def test_regret_is_zero_at_the_best_and_counts_what_beats_it():
    word = digest(np.zeros((3, 2)), 2)
    kept = {"bp_iris/10/sec": {"objective": 10.0, "digest": word, "seconds": 1.0}}
    found = [
        record("bp_iris", "sec", 0, seed, "regret", 10, objective=f, digest=word)
        for seed, f in enumerate([10.0, 11.0, 10.5])
    ]
    together, each = regret_tables(found, kept)
    assert each.rows[0]["median"] == pytest.approx(0.05)
    assert each.rows[0]["worst"] == pytest.approx(0.1)
    assert "in 0 of 1" in together.notes[1]
    found.append({**found[0], "seed": 3, "objective": 8.0})
    together, each = regret_tables(found, kept)
    assert each.rows[0]["best"] == 8.0
    assert "in 1 of 1" in together.notes[1]
    other = [{**found[0], "digest": "other"}]
    together, _ = regret_tables(other, kept)
    assert "--search-best" in together.skipped[0].reason


def test_the_kept_list_is_whole():
    kept = quality_best.read_best()
    expected = {
        quality_best.case_name(item.name, first, problem)
        for item in ENSEMBLES
        if item.in_regret
        for first in quality_best.FIRST
        for problem in quality_best.PROBLEMS
    }
    assert kept.keys() == expected
    how = json.loads(Path(quality_best.PATH).read_text(encoding="utf-8"))
    spent = sum(entry["seconds"] for entry in kept.values())
    assert how["seconds"] == pytest.approx(spent, abs=1)


def test_a_page_is_made_of_several_files(tmp_path, capsys):
    session = {"part": "session", "command": "c", "date": "d", "commit": None}
    held, records = made_up()
    files = []
    for name, own in (("a", records), ("b", [record(held[0].name, "default", 0.25)])):
        files.append(tmp_path / f"{name}.jsonl")
        lines = [json.dumps(line) for line in [session | environment.describe(), *own]]
        files[-1].write_text("\n".join(lines) + "\n", encoding="utf-8")
    given = ",".join(map(str, files))
    assert cli.main(["quality", "--gather", given]) == 0
    page = capsys.readouterr().out
    assert "0.250" in page  # the last counts
    assert "2 sessions" in page or "looked at once" in page
    before = [path.read_bytes() for path in files]
    assert cli.main(["quality", "--gather", f"{given},{tmp_path / 'c'}"]) == 2
    assert "is no file" in capsys.readouterr().err
    output = str(tmp_path / "x.jsonl")
    assert cli.main(["quality", "--gather", given, "--output", output]) == 2
    assert "leave out --output" in capsys.readouterr().err
    assert [path.read_bytes() for path in files] == before
