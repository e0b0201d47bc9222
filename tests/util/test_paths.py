"""Names that no file can have, and outputs that would destroy an input."""

import os

import numpy as np
import pytest

import gpu_consensus as gpc
from gpu_consensus.util.paths import check_outputs, check_path

LABELS = np.array([[0, 0], [0, 1], [1, 1]])


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("", ValueError, "path='' is empty; give the name"),
        ("a\0b", ValueError, "holds a character that no path may have"),
        ("a" * 300, OSError, "cannot be used .* choose another path"),
        ("a/" * 5000, OSError, "cannot be used .* choose another path"),
        (b"a", TypeError, "should be a path"),
        (5, TypeError, "should be a path"),
        (None, TypeError, "should be a path"),
    ],
)
def test_names_that_no_file_has(path, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message) as caught:
        gpc.Ensemble(LABELS).save(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250
    with pytest.raises(error, match=message):
        gpc.Ensemble.load(path)
    if path is not None:
        words = message.replace("path='", "checkpoint='")
        with pytest.raises(error, match=words):
            gpc.kcc(LABELS, 2, checkpoint=path)
        with pytest.raises(error, match=words):
            gpc.generate_partitions(LABELS, 2, n_clusters=2, checkpoint=path)
    assert not list(tmp_path.iterdir())


def test_a_circle_of_links(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert check_path("path", tmp_path / "a")
    check_outputs([("--output", tmp_path / "a")], [("the input", tmp_path / "c")])


def test_outputs_that_would_destroy_an_input(tmp_path):
    source = tmp_path / "x.csv"
    source.write_text("1")
    (tmp_path / "link.csv").symlink_to(source)
    os.link(source, tmp_path / "twin.csv")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "part").write_text("1")
    inputs = [("the data", source), ("the ensemble", tmp_path / "folder")]
    names = ["x.csv", "link.csv", "twin.csv", "folder/../x.csv", "folder/part"]
    for name in names:
        with pytest.raises(ValueError, match=r"^--output .* would overwrite the"):
            check_outputs([("--output", tmp_path / name)], inputs)
    check_outputs([("--output", tmp_path / "y.csv"), ("--report", None)], inputs)
    with pytest.raises(ValueError, match=r"^--b and --a are both"):
        check_outputs([("--a", tmp_path / "o"), ("--b", tmp_path / "." / "o")], inputs)
