"""The benchmark command: what it writes, what it says, how it fails."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
import oracles
import pytest

import gpu_consensus as gpc
from bench import (
    cli,
    formulas,
    methods,
    methods_plot,
    nguyen_caruana,
    speed_limit,
    speed_phases,
    speed_savings,
)
from bench.kcc_paper import N_REFERENCE, RN_PAPER, UTILITIES
from bench.mcla_peer import mcla_table
from bench.nguyen_caruana import MEASURES
from bench.render import to_markdown
from bench.suite import Context
from bench.synthetic import make_ensemble

ROOT = Path(__file__).resolve().parents[2]

STORED = {
    "format": "gpu_consensus.bench",
    "version": 1,
    "suite": "papers",
    "quick": True,
    "complete": True,
    "command": "python -m bench papers --quick",
    "date": "2026-01-01T00:00:00+00:00",
    "seconds": 1.25,
    "seeds": [0, 1],
    "machine": {
        "cpu": "Some CPU",
        "cores": 4,
        "usable_cores": 2,
        "memory_gb": 8.0,
        "others_busy_before": 0.25,
    },
    "os": "Linux",
    "python": "3.11.7",
    "versions": {"gpu_consensus": "0.1.0", "scipy": None},
    "commit": {"sha": "0123456789abcdef", "dirty": True},
    "tables": [
        {
            "name": "t",
            "title": "A table",
            "columns": [
                {"key": "a", "title": "a|b", "form": ""},
                {"key": "f", "title": "F", "form": ".2f"},
            ],
            "rows": [{"a": "x", "f": 1.239}, {"a": True, "f": None}],
            "claims": [
                {"claim": "good", "measured": "1", "passed": True},
                {"claim": "bad", "measured": "2", "passed": False},
                {"claim": "open", "measured": "3", "passed": None},
            ],
            "skipped": [{"name": "mm", "reason": "no file"}],
            "notes": ["a note"],
        }
    ],
}


measures_memory = pytest.mark.skipif(
    os.name == "nt", reason="peak memory is read on Linux and macOS only"
)


def bench(*arguments, **options):
    command = [sys.executable, "-m", "bench", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, **options)


def test_render_shows_what_the_json_holds(tmp_path, capsys):
    path = tmp_path / "stored.json"
    path.write_text(json.dumps(STORED))
    assert cli.main(["render", str(path)]) == 0
    page = capsys.readouterr().out
    assert page == to_markdown(STORED)
    for line in (
        "| a\\|b | F |",
        "| x | 1.24 |",
        "| yes | - |",
        "| good | 1 | pass |",
        "| bad | 2 | **FAIL** |",
        "| open | 3 | not decided |",
        "- mm: no file",
        "- a note",
        "- commit: 0123456789ab, with changes",
    ):
        assert line in page.splitlines()


def test_render_says_that_a_run_was_stopped():
    assert "not complete" in to_markdown({**STORED, "complete": False})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["paper"], "suite='paper' is unknown; choose one of 'papers'"),
        ([], "suite"),
        (["papers", "--seeds", "0"], "--seeds 0 should be >= 1"),
        (["papers", "--seeds", "x"], "--seeds"),
        (["papers", "--fast"], "--fast"),
        (["papers", "--only", "sex"], "--only='sex' is unknown; choose one of 'sec'"),
        (["speed", "--only", "sec"], "--only belongs to the suite papers"),
        (["papers", "--data-dir", "no/such/folder"], "is not a folder"),
        (["papers", "--output", "no/such/folder/x.json"], "folder that exists"),
        (["papers", "--markdown", "."], "should be a file"),
        (["render"], "render takes one file"),
        (["render", "no_such.json"], "cannot render 'no_such.json'"),
    ],
)
def test_wrong_call_is_one_line_and_exit_2(arguments, words, capsys):
    assert cli.main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert words in said.err


@pytest.mark.parametrize("text", ["{}", "[1]", "no json", '{"format": "other"}'])
def test_render_refuses_other_files(text, tmp_path, capsys):
    path = tmp_path / "other.json"
    path.write_text(text)
    assert cli.main(["render", str(path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_papers_runs_on_bundled_data(tmp_path):
    output, page = tmp_path / "x.json", tmp_path / "x.md"
    done = bench(
        "papers", "--quick", "--seeds", 1, "--output", output, "--markdown", page
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(output.read_text())
    assert page.read_text(encoding="utf-8") == to_markdown(result)
    assert result["complete"] is True
    assert result["seeds"] == [0]
    assert result["machine"]["cpu"]
    assert result["machine"]["usable_cores"] >= 1
    assert result["versions"]["gpu_consensus"] == gpc.__version__
    assert result["versions"]["numpy"] == np.__version__
    assert result["commit"] is None or len(result["commit"]["sha"]) >= 40
    assert str(tmp_path) not in output.read_text()
    tables = {table["name"]: table for table in result["tables"]}
    assert {row["data"] for row in tables["objective"]["rows"]} == {"iris"}
    assert {row["utility"] for row in tables["missing"]["rows"]} == set(UTILITIES)
    # without the authors' ensembles nothing may be said about their numbers
    open_claims = [c for c in tables["objective"]["claims"] if "authors" in c["claim"]]
    assert open_claims
    assert all(claim["passed"] is None for claim in open_claims)
    assert any("--data-dir" in e["reason"] for e in tables["objective"]["skipped"])
    assert "--data-dir" in done.stderr


def test_some_tables_of_the_papers_run_alone(tmp_path):
    output = tmp_path / "x.json"
    words = ["--quick", "--seeds", "1", "--output", str(output)]
    assert cli.main(["papers", "--only", "sec", *words]) == 0
    tables = json.loads(output.read_text())["tables"]
    assert [table["name"] for table in tables] == ["sec"]
    assert all(claim["passed"] for claim in tables[0]["claims"])


def test_missing_and_damaged_data_are_named(tmp_path):
    (tmp_path / "bp_iris.npz").write_bytes(b"no archive")
    output = tmp_path / "x.json"
    done = bench("papers", "--quick", "--data-dir", tmp_path, "--output", output)
    assert done.returncode == 0, done.stderr
    tables = json.loads(output.read_text())["tables"]
    reasons = {entry["name"]: entry["reason"] for entry in tables[0]["skipped"]}
    assert "bp_iris.npz cannot be used" in reasons["iris"]
    assert "bp_breast_w.npz is not in the data folder" in reasons["breast_w"]
    assert all("github.com" in reasons[name] for name in ("iris", "breast_w"))
    assert all(c["passed"] is None for table in tables for c in table["claims"])


def test_failing_write_leaves_the_old_file_and_nothing_else(tmp_path):
    resource = pytest.importorskip("resource", reason="Windows has no such limit")

    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))

    (tmp_path / "data").mkdir()
    output = tmp_path / "x.json"
    output.write_text("old")
    done = bench(
        "papers",
        "--quick",
        "--data-dir",
        tmp_path / "data",
        "--output",
        output,
        preexec_fn=small_files,
        env={"PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 1
    assert "cannot write" in done.stderr
    assert json.loads(done.stdout)["tables"]  # not lost
    assert output.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "x.json"]


def test_value_that_json_cannot_hold_writes_nothing(tmp_path):
    output = tmp_path / "x.json"
    with pytest.raises(ValueError, match="JSON"):
        cli.write({**STORED, "seconds": float("nan")}, output, None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("utility", UTILITIES)
def test_formula_agrees_with_the_definition(utility):
    rng = np.random.default_rng(3)
    labels = np.stack([rng.integers(k, size=40) for k in (2, 5, 9)], axis=1)
    labels[rng.random(labels.shape) < 0.3] = -1
    ensemble = gpc.Ensemble(labels)
    consensus = rng.permutation(np.arange(40) % 3)
    expected, _ = oracles.kcc_objective_and_value(
        ensemble.labels, consensus, ensemble.weights, utility
    )
    assert formulas.objective(ensemble, consensus, utility) == pytest.approx(
        expected, rel=1e-12
    )


def test_paper_has_a_number_for_every_utility():
    assert N_REFERENCE == 20
    assert all(set(cells) == set(UTILITIES) for cells in RN_PAPER.values())


def test_wins_are_counted_as_in_table_2():
    lower = dict.fromkeys(list(MEASURES)[:3], 0.2)
    base = {**lower, "nmi": 0.5, "accuracy": 0.5, "compactness": 1.0, "generator": "g"}
    rows = [
        {**base, "data": "a", "method": "IVC"},
        {**base, "data": "a", "method": "HAC", "nmi": 0.7, "compactness": 2.0},
        {**base, "data": "b", "method": "IVC", "van_dongen": 0.1},
        {**base, "data": "b", "method": "HAC"},
    ]
    first, second = nguyen_caruana._wins(rows, ["IVC", "HAC"]).rows
    assert first["nmi"] == "1/2"  # a tie counts for both
    assert second["nmi"] == "2/2"
    assert first["van_dongen"] == "2/2"
    assert second["van_dongen"] == "1/2"
    assert second["compactness"] == "1/2"
    assert first["total"] == "11/12"


@measures_memory
def test_cost_of_methods_is_measured(monkeypatch):
    monkeypatch.setattr(gpc, "METHODS", {"vote": gpc.vote, "hac": gpc.hac})
    tables = list(methods.run(Context(quick=True)))
    assert [table.name for table in tables] == ["time", "processor", "memory"]
    assert [row["method"] for row in tables[0].rows] == ["vote", "hac"]
    for row in tables[0].rows:
        assert 0 < row["s_1000"] < 60
        assert row["mb_1000"] >= 0
        assert row["cpu_1000"] > 0
        assert row["agreement"] > 0.8
    # four times n, sixteen times the time: the next size is not worth trying
    slow = {"cpu_1000": 2.0, "cpu_4000": 32.0}
    assert methods._expected(slow, [1000, 4000, 8000], 8000) == pytest.approx(128)


def test_costs_are_drawn(tmp_path):
    pytest.importorskip("matplotlib", reason="an extra of its own, not of the tests")
    rows = [{"method": "vote", "s_300": 0.1, "s_1000": 0.2, "cpu_300": 0.1}]
    table = methods._time_table(rows, [300, 1000], [])
    stored = {**STORED, "tables": [asdict(table)]}
    methods_plot.draw(stored, tmp_path / "x.svg")
    assert "svg" in (tmp_path / "x.svg").read_text(encoding="utf-8")


@measures_memory
def test_a_refusal_for_want_of_memory_is_a_reason(monkeypatch):
    def refuse(*args, **options):
        if args[0].n_samples > 100:
            raise MemoryError("hac needs more")

    monkeypatch.setattr(gpc, "METHODS", {"hac": refuse})
    assert methods.measure("hac", {}, 300) == {"error": "hac needs more"}


def test_mcla_is_timed_beside_its_peer_or_says_why_not():
    table = mcla_table(Context(quick=True))
    if importlib.util.find_spec("ensembleclustering") is None:
        assert not table.rows
        assert "pip install" in table.skipped[0].reason
        return
    for row in table.rows:
        assert row["ours_anmi"] > row["peer_anmi"] - 0.05
    assert table.claims[0].passed is None  # seconds decide nothing here


def test_plot_says_what_it_lacks(tmp_path, capsys):
    path = tmp_path / "stored.json"
    path.write_text(json.dumps(STORED))
    assert cli.main(["plot", str(path), str(tmp_path / "x.png")]) == 2
    assert "has no throughput table" in capsys.readouterr().err
    assert cli.main(["plot", str(path)]) == 2
    assert "plot takes two files" in capsys.readouterr().err


def test_plot_needs_matplotlib_and_draws_with_it(tmp_path, capsys):
    path, picture = tmp_path / "stored.json", tmp_path / "x.svg"
    rows = [
        {"columns": c, "labels": 10, "native": c / 2, "numpy": 1.0, "memory": 9.0}
        for c in (10, 96)
    ]
    stored = {**STORED, "tables": [{"name": "throughput", "rows": rows}]}
    path.write_text(json.dumps(stored))
    code = cli.main(["plot", str(path), str(picture)])
    if importlib.util.find_spec("matplotlib") is None:
        assert code == 2
        assert "matplotlib is not installed" in capsys.readouterr().err
    else:
        assert code == 0
        assert "<svg" in picture.read_text(encoding="utf-8")


@pytest.mark.parametrize("labels", [7, 300])
def test_the_c_loop_and_the_backends_assign_alike(labels):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("the loop in C needs a compiler")
    with tempfile.TemporaryDirectory() as folder:
        code = speed_limit._code_type(labels)
        loop = speed_limit._compile(Path(folder), compiler, code, 3, 5)
        row = speed_limit._measure(500, labels, 3, 5, loop, 1e9)
    assert row["equal"]
    assert row["columns"] == 15
    assert row["ratio"] > 0


def test_every_saving_is_timed_and_changes_nothing():
    ensemble = speed_savings._planted(10_000, 8, 0.1)
    rows = speed_savings._measure("sure", ensemble)
    assert [row["without"] for row in rows] == list(speed_savings._SAVINGS.values())
    assert all(row["equal"] and row["ratio"] > 0 for row in rows)


def test_stages_add_up_to_less_than_the_whole():
    ensemble, _ = make_ensemble(500, 10, 3, 0)
    with speed_phases.stage_seconds() as seconds:
        whole, result = speed_phases.quiet(
            lambda: gpc.kcc(ensemble, 3, backend="native", random_state=0)
        )
    assert result.backend == "native"
    assert set(seconds) == {"assign", "count", "table", "objective"}
    assert seconds["assign"] > 0
    assert sum(seconds.values()) < whole
