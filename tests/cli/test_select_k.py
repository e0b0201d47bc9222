"""gpu-consensus select-k, and --n-clusters auto."""

import csv
import json

import numpy as np
import pytest

import gpu_consensus as gpc
from gpu_consensus.cli.main import main


@pytest.fixture
def blobs(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) + np.repeat([0, 1, 2], 20)[:, None] * 9
    path = tmp_path / "data.csv"
    np.savetxt(path, X, delimiter=",", header="width,height", comments="")
    return path, X


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_table_to_the_number_of_clusters(capsys, tmp_path, blobs):
    path = blobs[0]
    output = tmp_path / "k.csv"
    asked = ["select-k", path, "--candidates", "2:5", "--seed", 3]
    code, out, err = run(capsys, *asked, "--output", output)
    assert (code, err) == (0, "")
    assert out.startswith("3 clusters: 3 clusters repeat")
    assert out.count("  chosen") == 1
    assert f"table written to {output}" in out
    expected = gpc.select_n_clusters(
        np.loadtxt(path, delimiter=",", skiprows=1), range(2, 6), random_state=3
    )
    with output.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row, own in zip(rows, expected.table, strict=True):
        assert {name: float(value) for name, value in row.items()} == own
    code, out, _ = run(capsys, *asked, "--json", "--output", tmp_path / "k.json")
    assert json.loads(out) == expected.as_dict()
    assert json.loads((tmp_path / "k.json").read_text()) == expected.as_dict()


def test_labels_to_the_number_of_clusters(capsys, tmp_path, blobs):
    ens = gpc.generate_partitions(blobs[1], 8, k_range=(3, 5), random_state=0)
    table = tmp_path / "labels.csv"
    np.savetxt(table, ens.labels, fmt="%d", delimiter=",")
    ens.save(tmp_path / "ens")
    ens.save(tmp_path / "ens.npz")
    asked = ["--candidates", "2,3", "--seed", 0, "--n-null", 19, "--json"]
    told = []
    for words in ([table, "--labels"], [tmp_path / "ens"], [tmp_path / "ens.npz"]):
        more = ["--labels"] if str(words[0]).endswith("npz") else []
        code, out, _ = run(capsys, "select-k", *words, *more, *asked)
        assert code == 0
        told.append(json.loads(out))
    assert told[0] == told[1] == told[2]
    assert (told[0]["n_clusters"], told[0]["claim"]) == (3, "agreement")


def test_auto_is_a_number_of_clusters(capsys, tmp_path, blobs):
    path, X = blobs
    few = ["--n-clusters", "auto", "--method", "kcc", "--seed", 0]
    output = tmp_path / "labels.csv"
    asked = ["cluster", path, *few, "--n-partitions", 5, "--output", output]
    code, out, _ = run(capsys, *asked)
    assert code == 0
    assert "3 clusters of 60 objects" in out
    assert "Selection(3: 3 clusters repeat" in out
    ens = gpc.generate_partitions(X, 6, k_range=(3, 4), random_state=0)
    ens.save(tmp_path / "ens")
    code, out, _ = run(capsys, "consensus", tmp_path / "ens", *few)
    assert code == 0
    assert "Selection(3: the partitions agree" in out
    assert "3 clusters of 60 objects" in out


WRONG = [
    (["--candidates", "1:4"], "candidates has 1 and should hold numbers >= 2"),
    (["--candidates", "5:2"], "candidates is empty"),
    (["--candidates", "2-9"], "should be two numbers like 2:10, or a list"),
    (["--candidates", "100:110"], "are all above the 60 distinct rows"),
    (["--output", "k.txt"], "should end in .csv or .json"),
    (["--output", "DATA"], "would overwrite the input"),
    (["--output", "none/k.csv"], "none"),
    (["--example", "iris"], "give either a file or --example NAME"),
    (["--labels", "--drop", "width"], "decimals are no labels: cluster"),
    (["--alpha", "0.001"], "n_null=39 cannot show structure"),
    (["--metric", "l1"], "metric='l1' is unknown"),
]


@pytest.mark.parametrize(("words", "message"), WRONG)
def test_wrong_calls_are_one_line(capsys, blobs, words, message):
    path = blobs[0]
    words = [path if word == "DATA" else word for word in words]
    code, _, err = run(capsys, "select-k", path, *words)
    assert code == 2
    assert message in err
    assert err.startswith("gpu-consensus: ")
    assert err.count("\n") == 1
    assert path.exists()


def test_auto_is_spelled_so(capsys, blobs):
    code, _, err = run(capsys, "cluster", blobs[0], "--n-clusters", "aut")
    assert code == 2
    assert "'aut' should be a number, or auto" in err
