"""The command line as a person uses it: files in, files out, exit codes."""

import json
import subprocess
import sys

import numpy as np
import pytest

import gpu_consensus as gpc
from gpu_consensus.cli import main


@pytest.fixture
def blobs(tmp_path):
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], 20)
    X = rng.normal(size=(60, 2)) + truth[:, None] * 8
    path = tmp_path / "data.csv"
    rows = "\n".join(f"{a},{b},{'xyz'[t]}" for (a, b), t in zip(X, truth, strict=True))
    path.write_text(f"width,height,kind\n{rows}\n")
    return path, X, truth


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def fails(capsys, *arguments):
    """Return the one line that a wrong call prints."""
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert err.startswith("gpu-consensus: ")
    assert err.count("\n") == 1
    return err


def test_from_a_table_to_labels_and_their_quality(capsys, tmp_path, blobs):
    path, _, truth = blobs
    output = tmp_path / "labels.csv"
    common = ["--n-clusters", 3, "--n-partitions", 10, "--seed", 1]
    code, out, _ = run(
        capsys, "cluster", path, "--drop", "kind", *common, "--output", output
    )
    assert code == 0
    assert "10 partitions of 60 objects" in out
    lines = output.read_text().splitlines()
    assert lines[0] == "label,confidence"
    labels = [int(line.split(",")[0]) for line in lines[1:]]
    assert gpc.metrics.adjusted_rand(truth, labels) == 1
    code, out, _ = run(
        capsys, "evaluate", output, "--truth", path, "--truth-column", "kind", "--json"
    )
    assert code == 0
    assert json.loads(out)["adjusted_rand"] == 1
    code, out, _ = run(
        capsys, "evaluate", output, "--truth", path, "--truth-column", "kind"
    )
    assert "nmi                        1.000000" in out


def test_in_two_steps_as_in_one(capsys, tmp_path, blobs):
    _, X, truth = blobs
    np.save(tmp_path / "data.npy", X.astype(np.float32))
    for name in ("ensemble", "ensemble.npz"):
        ensemble, output = tmp_path / name, tmp_path / "labels.npy"
        code, out, _ = run(
            capsys,
            "generate",
            tmp_path / "data.npy",
            *("--n-partitions", 12, "--n-clusters", 3, "--k-range", "3:5"),
            *("--seed", 0, "--output", ensemble),
        )
        assert code == 0
        assert gpc.Ensemble.load(ensemble).n_labels.max() <= 5
        code, out, _ = run(
            capsys,
            "consensus",
            ensemble,
            *("--n-clusters", 3, "--utility", "nh", "--n-init", 3, "--seed", 0),
            *("--output", output),
        )
        assert code == 0
        assert "kcc:nh: 3 clusters" in out
        assert gpc.metrics.adjusted_rand(truth, np.load(output)) == 1


def test_labels_of_others_from_a_table(capsys, tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("site_a,site_b,site_c\n1,x,NA\n1,x,7\n2,y,8\n2,,8\n")
    code, out, _ = run(capsys, "consensus", path, "--n-clusters", 2, "--seed", 0)
    assert code == 0
    assert "3 partitions of 4 objects, 2 labels each, 16.7% missing" in out


def test_example_shows_the_classes(capsys):
    code, out, _ = run(
        capsys, "cluster", "--example", "wine", "--n-partitions", 5, "--seed", 0
    )
    assert code == 0
    assert "class_0  class_1  class_2" in out
    assert "agreement with the known classes: R_n" in out


def test_same_seed_same_labels_and_checkpoints(capsys, tmp_path):
    outputs = []
    for name in ("a.csv", "b.csv", "c.csv"):
        outputs.append(tmp_path / name)
        code, _, _ = run(
            capsys,
            *("cluster", "--example", "iris", "--n-partitions", 5, "--seed", 3),
            *("--output", outputs[-1]),
            *([] if name == "a.csv" else ["--checkpoint", tmp_path / "state"]),
        )
        assert code == 0
    assert len({path.read_bytes() for path in outputs}) == 1


def test_sparse_features(capsys, tmp_path):
    import scipy.sparse

    X = scipy.sparse.random(50, 300, density=0.1, format="csr", random_state=0)
    scipy.sparse.save_npz(tmp_path / "text.npz", X)
    code, _, _ = run(
        capsys,
        *("cluster", tmp_path / "text.npz", "--metric", "cosine"),
        *("--n-clusters", 2, "--n-partitions", 4, "--seed", 0),
    )
    assert code == 0


def test_doctor(capsys):
    code, out, _ = run(capsys, "doctor")
    assert code == 0
    assert "numpy     works" in out
    code, out, _ = run(capsys, "doctor", "--json")
    found = json.loads(out)
    assert found["backends"]["numpy"] == ""
    assert found["auto"].split(",")[0] in found["backends"]
    assert found["self_test"]["numpy"] == ""
    module = subprocess.run(
        [sys.executable, "-W", "error", "-m", "gpu_consensus.doctor", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(module.stdout)["packages"]["numpy"] == np.__version__
    assert module.stderr == ""


def test_version_and_help(capsys):
    assert run(capsys, "--version")[1].strip() == gpc.__version__
    for command in ("cluster", "generate", "consensus", "evaluate", "doctor"):
        code, out, _ = run(capsys, command, "--help")
        assert code == 0
        assert "--traceback" in out


def test_wrong_calls_exit_with_2_and_one_line(capsys, tmp_path, blobs):
    path, _, _ = blobs
    assert "invalid choice" in fails(capsys, "clutser")
    assert "required" in fails(capsys, "consensus", "ensemble")
    assert "either a file" in fails(capsys, "cluster", "--n-clusters", 3)
    assert "'irsi' is unknown; choose one of 'iris'" in fails(
        capsys, "cluster", "--example", "irsi"
    )
    assert "--n-clusters is missing" in fails(capsys, "cluster", path, "--drop", "kind")
    assert "column 'kind'" in fails(capsys, "cluster", path, "--n-clusters", 3)
    assert "no column 'colour'" in fails(
        capsys, "cluster", path, "--n-clusters", 3, "--drop", "colour"
    )
    assert "is not a file" in fails(capsys, "cluster", "nowhere.csv", "--n-clusters", 3)
    assert "n_samples=60 should be >= n_clusters=99" in fails(
        capsys, "cluster", path, "--drop", "kind", "--n-clusters", 99
    )
    assert "should be two numbers" in fails(
        capsys, "cluster", path, "--n-clusters", 3, "--k-range", "5"
    )
    assert "should end in .csv or .npy" in fails(
        capsys, "cluster", path, "--n-clusters", 3, "--drop", "2", "--output", "a.txt"
    )
    assert "does not exist; make it first" in fails(
        capsys,
        *("cluster", path, "--n-clusters", 3, "--drop", "2"),
        *("--output", tmp_path / "no" / "labels.csv"),
    )
    assert "does not exist" in fails(
        capsys, "consensus", tmp_path / "none.npz", "--n-clusters", 3
    )
    bad = tmp_path / "bad.npz"
    bad.write_bytes(b"nothing")
    assert "not a readable ensemble" in fails(
        capsys, "consensus", bad, "--n-clusters", 3
    )
    assert "3 columns; name one with --truth-column" in fails(
        capsys, "evaluate", path, "--column", "kind", "--truth", path
    )


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("gap.csv", "a,b\n1,2\n3,\n4,5\n", "not a table of numbers"),
        ("nan.csv", "1,2\n3,nan\n4,5\n6,7\n", "NaN"),
        ("word.csv", "a,b\n1,2\n3,x\n", "not a table of numbers"),
        ("ragged.csv", "1,2\n3\n", "not a table of numbers"),
        ("empty.csv", "", "is empty"),
        ("data.xlsx", "1", "should end in one of"),
        ("data.npy", "no array", "does not hold an array"),
        ("data.npz", "no matrix", "does not hold a scipy sparse matrix"),
    ],
)
def test_damaged_features(capsys, tmp_path, name, text, message):
    path = tmp_path / name
    path.write_text(text)
    assert message in fails(capsys, "cluster", path, "--n-clusters", 2)


def test_semicolons_tabs_blanks_and_no_header(capsys, tmp_path, blobs):
    _, X, _ = blobs
    for name, mark in (("a.csv", ";"), ("b.tsv", "\t"), ("c.txt", " "), ("d.csv", ",")):
        path = tmp_path / name
        np.savetxt(path, X, delimiter=mark)
        code, out, _ = run(
            capsys, "cluster", path, "--n-clusters", 3, "--n-partitions", 3, "--seed", 0
        )
        assert code == 0
        assert "3 partitions of 60 objects" in out


def test_a_failing_run_exits_with_1(capsys, monkeypatch):
    def broken(*_, **__):
        raise MemoryError("no memory left")

    monkeypatch.setattr(gpc, "generate_partitions", broken)
    code, _, err = run(capsys, "cluster", "--example", "iris")
    assert code == 1
    assert err == "gpu-consensus: MemoryError: no memory left\n"
    code, _, err = run(capsys, "cluster", "--example", "iris", "--traceback")
    assert "Traceback" in err


def test_an_unavailable_backend_says_what_to_do(capsys, tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("1,2\n1,2\n2,1\n")
    arguments = ("consensus", path, "--n-clusters", 2, "--backend", "numba")
    assert "backend='numba' cannot run" in fails(capsys, *arguments)
