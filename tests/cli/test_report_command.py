"""``gpu-consensus report`` and ``--report``: a file to look at, named in the end."""

import hashlib
import sys

import numpy as np
import pytest

from gpu_consensus.cli.main import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], 20)
    X = rng.normal(size=(60, 3)) + truth[:, None] * 8
    np.savetxt("data.csv", X, delimiter=",", header="a,b,c", comments="")
    lines = [f"{'xyz'[t]},sample-{l}" for l, t in enumerate(truth)]
    (tmp_path / "truth.csv").write_text("kind,id\n" + "\n".join(lines) + "\n")
    return tmp_path


def run(capsys, *words):
    code = main([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def fails(capsys, *words):
    code, _, err = run(capsys, *words)
    assert code == 2
    assert err.count("\n") == 1
    return err


def test_cluster_writes_a_report_and_names_it(capsys, folder):
    code, out, err = run(
        capsys,
        *("cluster", "data.csv", "--n-clusters", 3, "--n-partitions", 8, "--seed", 0),
        *("--report", "my report.html", "--truth", "truth.csv"),
        *("--truth-column", "kind"),
    )
    assert (code, err) == (0, "")
    assert out.endswith("\nreport written to my report.html\n")
    page = (folder / "my report.html").read_text(encoding="utf-8")
    assert "Consensus clustering of data.csv" in page
    assert "--seed 0 --report &#39;my report.html&#39; --truth truth.csv" in page
    assert hashlib.sha256((folder / "data.csv").read_bytes()).hexdigest() in page
    assert "The same command gives the same labels." in page
    assert "commonest known label" in page


def test_an_example_is_compared_with_its_classes(capsys, folder):
    code, _, _ = run(
        capsys,
        "cluster",
        "--example",
        "iris",
        "--n-partitions",
        5,
        "--report",
        "r.html",
    )
    assert code == 0
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert "versicolor" in page
    assert "No seed was given" in page


def test_in_steps_the_report_comes_last(capsys, folder):
    few = ("--n-partitions", 8, "--n-clusters", 3, "--seed", 0)
    assert run(capsys, "generate", "data.csv", *few, "--output", "ens")[0] == 0
    code, out, _ = run(
        capsys,
        *("consensus", "ens", "--n-clusters", 3, "--method", "kcc", "--seed", 0),
        *("--output", "labels.csv", "--report", "one.html"),
    )
    assert code == 0
    assert "report written to one.html" in out
    code, out, _ = run(
        capsys,
        *("report", "ens", "labels.csv", "--data", "data.csv"),
        *("--truth", "truth.csv", "--truth-column", "kind", "--title", "Ours"),
    )
    assert code == 0
    assert out.endswith("report written to report.html\n")
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "<title>Ours</title>" in page
    assert "3 clusters of 60 objects" in page
    whole = hashlib.sha256((folder / "labels.csv").read_bytes()).hexdigest()
    assert whole in page


def test_a_table_of_labels_with_names_of_objects(capsys, folder):
    code, _, _ = run(
        capsys,
        *("report", "truth.csv", "truth.csv", "--column", "kind", "--id", "id"),
        *("--output", "r.html"),
    )
    assert code == 0
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert "sample-" in page
    assert "your label" in page


def test_what_cannot_be_is_said_before_the_work(capsys, folder, monkeypatch):
    common = ("cluster", "data.csv", "--n-clusters", 3)
    assert "should end in .html" in fails(capsys, *common, "--report", "r.pdf")
    assert "does not exist" in fails(capsys, *common, "--report", "no/r.html")
    (folder / "d.html").mkdir()
    assert "is a folder" in fails(capsys, *common, "--report", "d.html")
    assert "is for a report" in fails(capsys, *common, "--truth", "truth.csv")
    words = ("--report", "r.html", "--truth", "data.csv")
    assert "name one with --truth-column" in fails(capsys, *common, *words)
    assert "is not a file" in fails(capsys, "report", "truth.csv", "no.csv")
    short = folder / "short.csv"
    short.write_text("label\n0\n1\n")
    err = fails(capsys, "report", "truth.csv", "short.csv")
    assert "result has 2 labels but the ensemble has n_samples=60" in err
    monkeypatch.setitem(sys.modules, "jinja2", None)
    err = fails(capsys, *common, "--report", "r.html")
    assert "a report needs jinja2" in err
    assert not (folder / "r.html").exists()
