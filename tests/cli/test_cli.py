"""The command line as a person uses it: files in, files out, exit codes."""

import inspect
import json
import os
import subprocess
import sys
from unittest.mock import ANY

import numpy as np
import pytest

import gpu_consensus as gpc
from gpu_consensus import examples
from gpu_consensus.cli.main import main
from gpu_consensus.methods import FINDERS

LINUX = sys.platform == "linux"


def only_linux(path):
    return pytest.mark.skipif(not LINUX, reason=f"{path} is of Linux alone")


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


@pytest.mark.every_backend
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


@pytest.mark.every_backend
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
            *("--n-clusters", 3, "--method", "kcc", "--seed", 0),
            *("--utility", "nh", "--n-init", 3, "--output", output),
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


@pytest.mark.every_backend
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


def test_doctor_without_tests(capsys):
    code, out, _ = run(capsys, "doctor", "--quick")
    assert code == 0
    assert "numpy     can run (not tested)" in out
    assert f"package   numpy {np.__version__}" in out
    code, out, _ = run(capsys, "doctor", "--quick", "--json")
    assert json.loads(out)["self_test"] == {}


@pytest.mark.parametrize("name", ["ensemble", "ensemble.npz"])
def test_an_ensemble_takes_the_place_of_an_older_one(capsys, tmp_path, name):
    call = ("generate", "--example", "iris", "--output", tmp_path / name, "--seed", 0)
    assert run(capsys, *call, "--n-partitions", 2)[0] == 0
    assert run(capsys, *call, "--n-partitions", 3)[0] == 0
    assert gpc.Ensemble.load(tmp_path / name).n_partitions == 3
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_version_and_help(capsys):
    assert run(capsys, "--version")[1].strip() == gpc.__version__
    for command in ("cluster", "generate", "consensus", "evaluate", "doctor"):
        code, out, _ = run(capsys, command, "--help")
        assert code == 0
        assert "--traceback" in out


def test_wrong_calls_exit_with_2_and_one_line(capsys, tmp_path, blobs):
    path, _, _ = blobs
    assert "invalid choice" in fails(capsys, "clutser")
    assert "--n-clusters is missing" in fails(capsys, "consensus", "ensemble")
    assert "either a file" in fails(capsys, "cluster", "--n-clusters", 3)
    assert "'irsi' is unknown; choose one of 'iris'" in fails(
        capsys, "cluster", "--example", "irsi"
    )
    assert "--n-clusters is missing" in fails(capsys, "cluster", path, "--drop", "kind")
    assert "column 'kind' of" in fails(
        capsys, "cluster", path, "--n-clusters", 3, "--columns", "width,kind"
    )
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
    assert "should end in .csv, .tsv, .npy or .parquet" in fails(
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
    assert "name one with --truth-column" in fails(
        capsys, "evaluate", path, "--column", "kind", "--truth", path
    )
    assert "argument --seed: '-1' should be an integer >= 0" in fails(
        capsys, "cluster", "--example", "iris", "--seed", -1
    )
    assert "--example iris has no column '4'; it has 0..3" in fails(
        capsys, "cluster", "--example", "iris", "--drop", 4
    )


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("gap.csv", "a,b\n1,2\n3,\n4,5\n", "line 3 of"),
        ("nan.csv", "1,2\n3,nan\n4,5\n6,7\n", "no number in column '1'"),
        ("word.csv", "a,b\n1,2\n3,x\n", "holds numbers and 'x'"),
        ("ragged.csv", "1,2\n3\n", "line 2 of"),
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

    monkeypatch.setattr(
        sys.modules["gpu_consensus.cluster"], "generate_partitions", broken
    )
    code, _, err = run(capsys, "cluster", "--example", "iris")
    assert code == 1
    assert err == "gpu-consensus: MemoryError: no memory left\n"
    code, _, err = run(capsys, "cluster", "--example", "iris", "--traceback")
    assert "Traceback" in err


def test_an_unavailable_backend_says_what_to_do(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("GPU_CONSENSUS_NATIVE", "0")
    path = tmp_path / "labels.csv"
    path.write_text("1,2\n1,2\n2,1\n")
    arguments = ("consensus", path, "--n-clusters", 2, "--backend", "native")
    assert "backend='native' cannot run" in fails(capsys, *arguments)


def test_columns_of_an_example_and_of_a_sparse_matrix_are_left_out(capsys, tmp_path):
    import scipy.sparse
    from sklearn.datasets import load_iris

    X = load_iris().data
    np.save(tmp_path / "two.npy", X[:, [1, 3]])
    scipy.sparse.save_npz(tmp_path / "two.npz", scipy.sparse.csr_array(X[:, [1, 3]]))
    scipy.sparse.save_npz(tmp_path / "four.npz", scipy.sparse.csr_array(X))
    drop = ("--drop", 0, "--drop", 2)
    texts = []
    for source in (
        ["--example", "iris", *drop],
        [tmp_path / "two.npy"],
        [tmp_path / "four.npz", *drop],
        [tmp_path / "two.npz"],
    ):
        output = tmp_path / "labels.CSV"
        common = ["--n-clusters", 3, "--n-partitions", 4, "--seed", 0]
        code, _, _ = run(capsys, "cluster", *source, *common, "--output", output)
        assert code == 0
        texts.append(output.read_text())
    assert texts[0] == texts[1]
    assert texts[2] == texts[3]


def test_consensus_takes_all_columns_and_evaluate_the_labels(capsys, tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("a,b,label\n0,0,1\n0,0,1\n1,1,0\n1,1,1\n")
    code, out, _ = run(capsys, "consensus", path, "--n-clusters", 2, "--seed", 0)
    assert code == 0
    assert "3 partitions of 4 objects" in out
    truth = tmp_path / "truth.tsv"
    truth.write_text("\ufeffx\nx\ny\nx\n", encoding="utf-8")
    code, out, _ = run(capsys, "evaluate", path, "--truth", truth, "--json")
    assert code == 0
    assert json.loads(out)["accuracy"] == 1


def test_headers_are_guessed_or_told(capsys, tmp_path):
    one, other = tmp_path / "one.csv", tmp_path / "other.csv"
    one.write_text("a\nb\nb\n")  # is a the name of the column, or a label?
    other.write_text("0\n1\n1\n")
    message = fails(capsys, "evaluate", one, "--truth", other)
    assert "labels has 2 objects but truth has 3" in message
    assert "--no-header" in message
    call = ("evaluate", one, "--truth", other, "--json")
    code, out, _ = run(capsys, *call, "--no-header")
    assert code == 0
    assert json.loads(out)["nmi"] == 1
    assert run(capsys, *call, "--header")[0] == 0
    assert run(capsys, *call, "--header", "--no-truth-header")[0] == 2
    code, out, _ = run(capsys, "consensus", other, "--n-clusters", 2, "--seed", 0)
    assert "1 partition of 3 objects" in out
    data = tmp_path / "data.csv"
    data.write_text("2019,2020\n" + "".join(f"{l},{l % 7}\n" for l in range(20)))
    common = ("cluster", data, "--n-clusters", 2, "--n-partitions", 3, "--seed", 0)
    assert "partitions of 21 objects" in run(capsys, *common)[1]
    assert "partitions of 20 objects" in run(capsys, *common, "--header")[1]


def test_evaluate_names_what_is_wrong(capsys, tmp_path):
    good = tmp_path / "good.csv"
    good.write_text("0\n1\n")
    only, array = tmp_path / "only.csv", tmp_path / "array.npy"
    only.write_text("label\n")
    assert "no objects" in fails(capsys, "evaluate", only, "--truth", good)
    np.save(array, 3)
    assert "truth" in fails(capsys, "evaluate", good, "--truth", array)
    np.savez(tmp_path / "a.npz", a=1)
    assert "should end in one of .csv, .h5ad" in fails(
        capsys, "evaluate", tmp_path / "a.npz", "--truth", good
    )
    np.save(array, np.array([1j, 2]))
    assert "gpu-consensus: labels " in fails(capsys, "evaluate", array, "--truth", good)
    np.save(array, np.array([-1, -1]))
    assert "in both labels and truth" in fails(
        capsys, "evaluate", array, "--truth", good
    )
    np.save(array, np.array([[7], [8]]))
    _, out, _ = run(capsys, "evaluate", array, "--truth", good, "--json")
    assert json.loads(out)["adjusted_rand"] == 1


@pytest.mark.parametrize("array", [np.array(1.0), np.arange(5)])
def test_arrays_that_are_no_table(capsys, tmp_path, array):
    path = tmp_path / "array.npy"
    np.save(path, array)
    for command in ("cluster", "consensus"):
        message = fails(capsys, command, path, "--n-clusters", 2)
        assert f"has shape {array.shape} but" in message


@pytest.mark.every_backend
@pytest.mark.parametrize("seed", [[], ["--seed", 4]])
def test_every_command_goes_on_from_its_checkpoint(capsys, tmp_path, seed):
    small = ("--example", "iris", "--n-partitions", 6, *seed)
    ensemble, labels = tmp_path / "ensemble.npz", tmp_path / "labels.csv"
    calls = {
        labels: ("cluster", *small, "--checkpoint", tmp_path / "cluster"),
        ensemble: ("generate", *small, "--checkpoint", tmp_path / "generate"),
    }
    for output, call in calls.items():
        written = []
        for _ in range(2):
            assert run(capsys, *call, "--output", output) == (0, ANY, "")
            written.append(output.read_bytes())
        assert written[0] == written[1]
        folder = call[call.index("--checkpoint") + 1]
        before = {p.name: p.stat().st_mtime_ns for p in folder.glob("0*.npy")}
        assert len(before) == 6
        (folder / "000003.npy").unlink()
        assert run(capsys, *call, "--output", output)[0] == 0
        assert output.read_bytes() == written[0]
        after = {p.name: p.stat().st_mtime_ns for p in folder.glob("0*.npy")}
        assert {name for name in after if after[name] != before[name]} == {"000003.npy"}
    state, written = tmp_path / "state", set()
    for _ in range(2):
        call = ("consensus", ensemble, "--n-clusters", 3, "--method", "kcc", *seed)
        call += ("--checkpoint", state)
        assert run(capsys, *call, "--output", labels)[0] == 0
        written.add(labels.read_bytes())
    assert len(written) == 1
    assert state.is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "kc"], "--method='kc' is unknown; choose one of 'kcc'"),
        (["--method", "kcc", "--utility", "x"], "utility='x' is unknown"),
        (["--method", "kcc", "--n-init", 0], "--n-init=0 should be >= 1"),
        (["--utility", "h"], "--utility is no option of auto; leave it out, or add"),
        (["--n-clusters", 0], "--n-clusters=0 should be >= 1"),
        (["--n-clusters", 151], "n_samples=150 should be >= n_clusters=151"),
        (["--backend", "gpu"], "backend='gpu' is unknown"),
        (["--backend", "native"], "backend='native' cannot run"),
        (["--n-jobs", 0], "n_jobs=0 should be >= 1"),
        (["--option", "weight=3"], "auto: option='weight' is unknown; choose one of"),
        (["--option", "n_init=3"], "n_init has a flag of its own; give it as --n-init"),
        (["--option", "random_state=3"], "give it as --seed"),
        (["--option", "refine"], "'refine' should be a name=value"),
        (["--generate-option", "share=1"], "choose one of 'sample_share'"),
        (["--generate-option", "metric=cosine"], "give it as --metric"),
        (
            ["--option", "refine=true", "--option", "refine=false"],
            "--option refine is given twice",
        ),
        (["--output", "."], "should end in .csv, .tsv, .npy or .parquet"),
        (["--output", "folder.csv"], "is a folder; choose the name of a file"),
        (["--output", "no/a.csv"], "the folder 'no' does not exist; make it first"),
        pytest.param(
            ["--output", "/proc/a.csv"],
            "cannot be written",
            marks=only_linux("/proc"),
        ),
    ],
)
def test_what_is_wrong_is_found_before_the_work(
    capsys, tmp_path, monkeypatch, arguments, message
):
    def work(*_, **__):
        raise AssertionError("work began")

    (tmp_path / "folder.csv").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        sys.modules["gpu_consensus.cluster"], "generate_partitions", work
    )
    if "native" in arguments:
        monkeypatch.setenv("GPU_CONSENSUS_NATIVE", "0")
    assert message in fails(capsys, "cluster", "--example", "iris", *arguments)
    assert list(tmp_path.iterdir()) == [tmp_path / "folder.csv"]


@pytest.mark.every_backend
@pytest.mark.parametrize("method", gpc.METHODS)
def test_every_method_by_name(capsys, tmp_path, method):
    truth = np.arange(30) % 3
    labels = np.repeat(truth[:, None], 5, axis=1)
    labels[np.arange(5), np.arange(5)] = 3  # one stray per partition
    np.save(tmp_path / "labels.npy", labels)
    output = tmp_path / "found.npy"
    call = ["consensus", tmp_path / "labels.npy", "--method", method, "--seed", 0]
    if method in ("best", "fusion_transfer"):
        wrong = fails(capsys, *call, "--n-clusters", 3)
        assert f"--n-clusters is no option of {method}, which finds" in wrong
    else:
        call += ["--n-clusters", 3]
    for option, value in (("--utility", "h"), ("--n-init", 2)):
        name = option[2:].replace("-", "_")
        if name not in inspect.signature(gpc.METHODS[method]).parameters:
            wrong = fails(capsys, *call, option, value)
            assert f"{option} is no option of {method}; leave it out" in wrong
    assert f"Consensus({method}" in run(capsys, *call, "--output", output)[1]
    if method != "best":
        assert gpc.metrics.adjusted_rand(truth, np.load(output)) == 1


def test_weights_by_a_word(capsys, tmp_path):
    labels = np.random.default_rng(0).integers(3, size=(40, 6))
    np.save(tmp_path / "labels.npy", labels)
    output = tmp_path / "found.npy"
    call = ["consensus", tmp_path / "labels.npy", "--n-clusters", 3, "--seed", 0]
    call += ["--method", "lwgp", "--output", output]
    assert run(capsys, *call, "--option", "weights=eci")[0] == 0
    expected = gpc.lwgp(labels, 3, weights="eci", random_state=0).labels
    assert np.array_equal(np.load(output), expected)
    wrong = fails(capsys, *call, "--option", "weights=best")
    assert "weights='best' is unknown; choose one of" in wrong


@pytest.mark.parametrize("method", ["kcc", *sorted(FINDERS)])
def test_cluster_does_what_the_estimator_does(capsys, tmp_path, method):
    X = examples.load_example("iris").X
    model = gpc.ConsensusClustering(3, method, n_partitions=8, random_state=0).fit(X)
    call = ["cluster", "--example", "iris", "--method", method, "--n-clusters", 3]
    call += ["--n-partitions", 8, "--seed", 0, "--output", tmp_path / "labels.npy"]
    assert run(capsys, *call)[0] == 0
    assert np.array_equal(np.load(tmp_path / "labels.npy"), model.labels_)


@pytest.mark.every_backend
@pytest.mark.parametrize("method", ["vote", "borda", "cvote", "furthest"])
def test_an_example_has_as_many_clusters_as_classes(capsys, method):
    call = ["cluster", "--example", "iris", "--method", method, "--seed", 0]
    assert ": 3 clusters of 150" in run(capsys, *call, "--n-partitions", 10)[1]


@pytest.mark.every_backend
def test_every_option_of_a_method_and_of_generation_is_within_reach(capsys, tmp_path):
    X = examples.load_example("iris").X
    making = {"sample_share": 0.5, "complete": True, "max_iter": 3}
    finding = {"init": "random", "refine": False, "weights": [1, 1, 1, 1, 1, 0.5]}
    expected = gpc.cluster(
        X,
        3,
        method="kcc",
        n_partitions=6,
        generate_options=making,
        method_options=finding,
        random_state=4,
    )
    ensemble, labels = tmp_path / "ensemble.npz", tmp_path / "labels.npy"
    small = ["--example", "iris", "--n-partitions", 6, "--n-clusters", 3, "--seed"]
    of_making = ["sample_share=0.5", "complete=true", "max_iter=3"]
    of_finding = ["init=random", "refine=false", "weights=[1, 1, 1, 1, 1, 0.5]"]
    of_making = [part for one in of_making for part in ("--generate-option", one)]
    of_finding = [part for one in of_finding for part in ("--option", one)]
    call = ["cluster", *small, 4, "--method", "kcc", *of_making, *of_finding]
    call += ["--output", labels]
    assert run(capsys, *call)[0] == 0
    assert np.array_equal(np.load(labels), expected.labels)

    assert run(capsys, "generate", *small, 0, *of_making, "--output", ensemble)[0] == 0
    made = gpc.Ensemble.load(ensemble)
    direct = gpc.generate_partitions(X, 6, n_clusters=3, random_state=0, **making)
    assert np.array_equal(made.codes, direct.codes)
    call = ["consensus", ensemble, "--n-clusters", 3, "--method", "kcc", "--seed", 1]
    call += of_finding
    assert run(capsys, *call, "--output", labels)[0] == 0
    found = gpc.kcc(direct, 3, random_state=1, **finding)
    assert np.array_equal(np.load(labels), found.labels)


def test_an_option_that_a_method_lacks(capsys, monkeypatch):
    monkeypatch.setitem(gpc.METHODS, "plain", lambda ensemble, n_clusters: None)
    call = ("cluster", "--example", "iris", "--method", "plain", "--n-init", 3)
    assert "--n-init is no option of plain; leave it out" in fails(capsys, *call)


def test_where_an_ensemble_cannot_be_written(capsys, tmp_path, monkeypatch):
    def work(*_, **__):
        raise AssertionError("work began")

    monkeypatch.setattr(gpc, "generate_partitions", work)
    (tmp_path / "a.npz").mkdir()
    (tmp_path / "full").mkdir()
    for name in ("full/notes.txt", "file"):
        (tmp_path / name).write_text("mine")
    for path, message in (
        (tmp_path / "a.npz", "is a folder"),
        (tmp_path / "full", "exists and is not an ensemble"),
        (tmp_path / "file", "exists and is not an ensemble"),
        (tmp_path / "no" / "ensemble", "does not exist; make it first"),
        *([("/proc/ensemble", "cannot be written")] if LINUX else []),
    ):
        call = ("generate", "--example", "iris", "--output", path)
        assert message in fails(capsys, *call)
    path = tmp_path / "labels.csv"
    path.write_text("0,1\n1,0\n")
    call = ("consensus", path, "--n-clusters", 2, "--checkpoint", tmp_path / "no" / "c")
    assert "--checkpoint" in fails(capsys, *call)


@only_linux("/dev/full")
def test_the_reader_may_go_away(tmp_path):
    output = tmp_path / "labels.csv"
    command = (
        f"{sys.executable} -m gpu_consensus.cli.main cluster --example iris "
        f"--n-partitions 3 --seed 0 --output {output}"
    )

    def shell(line, **settings):
        output.unlink(missing_ok=True)
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            capture_output=True,
            text=True,
            env={**os.environ, **settings},
            check=False,
        )
        return done.returncode, done.stderr

    assert shell(f"{command} | head -c 1", PYTHONUNBUFFERED="1") == (0, "")
    assert len(output.read_text().splitlines()) == 151
    # a pipe that nobody reads: everything fails at the first letter
    assert shell(f"{command} | true") == (0, "")
    assert len(output.read_text().splitlines()) == 151
    code, err = shell(f"{command} > /dev/full")
    assert code == 1
    assert err == (
        "gpu-consensus: standard output cannot be written: No space left on device.\n"
    )
    assert len(output.read_text().splitlines()) == 151


@pytest.mark.filterwarnings("default")
def test_warnings_are_one_line(capsys, tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("0,1\n0,2\n0,1\n0,2\n")
    call = ("consensus", path, "--n-clusters", 2, "--method", "kcc", "--seed", 0)
    code, _, err = run(capsys, *call, "--utility", "nh")
    assert code == 0
    assert err.startswith("gpu-consensus: warning: mu is 0 for 1 partitions")
    assert err.count("\n") == 1


def test_doctor_reports_wrong_settings(capsys, monkeypatch):
    monkeypatch.setenv("GPU_CONSENSUS_NUM_THREADS", "abc")
    monkeypatch.setenv("GPU_CONSENSUS_BACKEND", "cupy")
    code, out, _ = run(capsys, "doctor", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["n_threads"].startswith("GPU_CONSENSUS_NUM_THREADS='abc' should be")
    assert "cupy" in found["auto"]
    assert found["backends"]["cupy"] in found["auto"]
    assert found["self_test"]["numpy"] == ""
    monkeypatch.setenv("GPU_CONSENSUS_BACKEND", "nonsense")
    text = str(gpc.doctor())
    assert "GPU_CONSENSUS_NUM_THREADS='abc'" in text
    assert "'nonsense' is unknown" in text


def test_doctor_reports_a_broken_backend(capsys, monkeypatch):
    def broken(_):
        raise ImportError("libcudart.so is missing")

    monkeypatch.setattr(sys.modules["gpu_consensus.doctor"], "self_test", broken)
    code, out, err = run(capsys, "doctor")
    assert code == 1
    assert "FAILED, do not use it: ImportError: libcudart.so is missing" in out
    assert "a backend fails, or gives wrong results" in err
