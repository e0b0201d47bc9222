"""A person's own table: ids, text, decimal commas, pipes, and nothing overwritten."""

import csv
import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import gpu_consensus as gpc
from gpu_consensus.cli.main import main


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Sixty patients as a German spreadsheet saves them."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], 20)
    X = rng.normal(size=(60, 2)) + truth[:, None] * 8
    lines = ["Patient;Größe;Gewicht;Klinik"]
    for l, (a, b) in enumerate(X):
        lines.append(f"P{l:03d};{a:.3f};{b:.3f};Köln".replace(".", ","))
    path = tmp_path / "patienten.csv"
    path.write_bytes("\r\n".join(lines).encode("cp1252"))
    return path, np.round(X, 3), truth


def run(capsys, *words):
    code = main([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


FEW = ("--n-clusters", 3, "--n-partitions", 8, "--seed", 0)


def test_ids_go_into_the_output_and_the_report(capsys, table, tmp_path):
    path, X, truth = table
    words = ("--output", "labels.csv", "--report", "report.html")
    code, out, err = run(capsys, "cluster", path, *FEW, *words)
    assert code == 0
    assert err.splitlines() == [
        f"gpu-consensus: '{path}': recognised cells parted by semicolon, decimal "
        "commas, cp1252 text (otherwise name it with --separator, --decimal, "
        "--encoding).",
        f"gpu-consensus: '{path}': a column of text is left out: 'Klinik'.",
        f"gpu-consensus: '{path}': column 'Patient' names the objects (--no-id if it "
        "does not).",
    ]
    with (tmp_path / "labels.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["Patient"] for row in rows] == [f"P{l:03d}" for l in range(60)]
    expected = gpc.cluster(X, 3, n_partitions=8, random_state=0)
    assert [int(row["label"]) for row in rows] == expected.labels.tolist()
    sure = [float(row["confidence"]) for row in rows]
    assert np.allclose(sure, expected.confidence, atol=1e-6)
    assert "P000" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert out.endswith("labels written to labels.csv\nreport written to report.html\n")
    shuffled = np.random.default_rng(1).permutation(60)
    lines = [f"P{l:03d},{'xyz'[truth[l]]}" for l in shuffled]
    (tmp_path / "truth.csv").write_text("id,kind\n" + "\n".join(lines) + "\n")
    call = ("evaluate", "labels.csv", "--truth", "truth.csv", "--json")
    assert json.loads(run(capsys, *call)[1])["adjusted_rand"] == 1
    assert (
        json.loads(run(capsys, *call, "--no-id", "--truth-column", "kind")[1])[
            "adjusted_rand"
        ]
        != 1
    )
    (tmp_path / "truth.csv").write_text("\n".join(["id,kind", *lines[:-1], "Q,x"]))
    assert "that truth does not have" in run(capsys, *call)[2]
    (tmp_path / "truth.csv").write_text("\n".join(["id,kind", *lines[:-1]]))
    assert "labels has 60 objects but truth has 59" in run(capsys, *call)[2]


def test_pipes_and_json(capsys, table, tmp_path, monkeypatch):
    path, _, _ = table
    assert run(capsys, "cluster", path, *FEW, "--output", "labels.csv")[0] == 0
    written = (tmp_path / "labels.csv").read_text(encoding="utf-8")

    class Standard:
        buffer = io.BytesIO(path.read_bytes())

    monkeypatch.setattr("sys.stdin", Standard)
    code, out, err = run(capsys, "cluster", "-", *FEW, "--output", "-")
    assert (code, out) == (0, written)
    assert "3 clusters of 60 objects" in err
    code, out, err = run(capsys, "cluster", path, *FEW, "--json", "--quiet")
    found = json.loads(out)
    assert (code, err, found["sizes"]) == (0, "", [20, 20, 20])
    assert (found["n_samples"], found["n_partitions"]) == (60, 8)
    code, _, err = run(capsys, "cluster", path, *FEW, "--json", "--output", "-")
    assert (code, "both print to standard output" in err) == (2, True)


def test_categorical_columns_are_an_ensemble(capsys, tmp_path):
    path = tmp_path / "survey.csv"
    rows = [f"p{l},{'ab'[l % 2]},{'xy'[l % 2]},{l % 2},{l / 7}" for l in range(30)]
    path.write_text("id,colour,shape,size,weight\n" + "\n".join(rows) + "\n")
    call = ("consensus", path, "--n-clusters", 2, "--seed", 0)
    code, _, err = run(capsys, *call)
    assert (code, "decimals are no labels: cluster features" in err) == (2, True)
    output = tmp_path / "out.tsv"
    words = ("--columns", "colour,shape,size", "--output", output)
    code, out, _ = run(capsys, *call, *words)
    assert (code, "3 partitions of 30 objects" in out) == (0, True)
    lines = output.read_text().splitlines()
    assert lines[0] == "id\tlabel\tconfidence"
    assert [line.split("\t")[0] for line in lines[1:]] == [f"p{l}" for l in range(30)]
    assert len({line.split("\t")[1] for line in lines[1::2]}) == 1


def test_no_input_is_overwritten(capsys, table, tmp_path):
    path, _, _ = table
    before = path.read_bytes()
    (tmp_path / "link.csv").symlink_to(path)
    (tmp_path / "hard.csv").hardlink_to(path)
    for output in (
        path,
        "link.csv",
        "hard.csv",
        "../" + tmp_path.name + "/" + path.name,
    ):
        code, _, err = run(capsys, "cluster", path, *FEW, "--output", output)
        assert (code, "would overwrite the input" in err) == (2, True)
    np.save("labels.npy", np.array([[0, 1], [1, 0]]))
    for words in (
        ("consensus", "labels.npy", "--n-clusters", 2, "--output", "labels.npy"),
        ("consensus", "labels.npy", "--method", "ivc", "--checkpoint", "labels.npy"),
        ("select-k", path, "--output", path),
        ("generate", path, "--checkpoint", "e", "--output", "e"),
        ("report", "labels.npy", path, "--output", path),
        ("generate", path, "--output", "e.csv"),
        ("cluster", path, *FEW, "--output", ""),
    ):
        code, _, err = run(capsys, *words)
        assert (code, err.count("\n")) == (2, 1), words
    assert path.read_bytes() == before
    names = sorted(one.name for one in tmp_path.iterdir())
    assert names == ["hard.csv", "labels.npy", "link.csv", path.name]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,x\n1,2\n1,3\n", "are not unique: '1' is that of objects 0 and 1"),
        ("x,y\n" + "5,5\n" * 30, "1 distinct"),
        ("x,y\n" + "1,2\n2,1\n" * 20, ""),
        ("x\n" + "".join(f"{l % 3 * 9 + l / 50}\n" for l in range(40)), ""),
        ("x,c\n" + "".join(f"{l % 3 * 9 + l / 50},7\n" for l in range(40)), ""),
    ],
)
def test_odd_tables_end_in_labels_or_a_sentence(capsys, tmp_path, text, message):
    path = tmp_path / "odd.csv"
    path.write_text(text)
    code, out, err = run(
        capsys, "cluster", path, "--n-clusters", 2, "--n-partitions", 5, "--seed", 0
    )
    if message:
        assert code == 2
        assert message in err
        assert err.splitlines()[-1].startswith("gpu-consensus: ")
    else:
        assert (code, ": 2 clusters of" in out) == (0, True)


def test_without_arguments_examples_are_shown(capsys):
    code, out, err = run(capsys)
    assert (code, err) == (0, "")
    assert "gpu-consensus cluster --example iris --seed 0" in out
    assert max(map(len, out.splitlines())) < 80


def test_help_fits_a_terminal():
    for command in (
        "cluster",
        "generate",
        "consensus",
        "select-k",
        "evaluate",
        "report",
    ):
        done = subprocess.run(
            [sys.executable, "-m", "gpu_consensus.cli.main", command, "--help"],
            capture_output=True,
            text=True,
            env={**os.environ, "COLUMNS": "80"},
            check=True,
        )
        lines = done.stdout.splitlines()
        assert lines[0].startswith(f"usage: gpu-consensus {command} ")
        assert lines[0].endswith("[options]")
        assert max(map(len, lines)) <= 80
        assert "examples:" in done.stdout
