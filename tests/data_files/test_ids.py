"""Which columns are features or labels, which names the objects, and what is told."""

import numpy as np
import pytest

from gpu_consensus import data_files
from gpu_consensus.data_files import Choice, Form


@pytest.fixture
def write(tmp_path):
    def write(text, name="table.csv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize(
    ("text", "ids", "values"),
    [
        ("id,x,y\n7,1,2\n9,3,4\n", ["7", "9"], [[1, 2], [3, 4]]),
        ("id,x\n007,1\n009,3\n", ["007", "009"], [[1], [3]]),
        ("sample,x\nu,1\nv,2\n", ["u", "v"], [[1], [2]]),
        (",x\n0,1\n1,2\n", ["0", "1"], [[1], [2]]),
        ("x,Sample_ID\n1,u\n2,v\n", ["u", "v"], [[1], [2]]),
        ("x,y\nr1,1,2\nr2,3,4\n", ["r1", "r2"], [[1, 2], [3, 4]]),  # as R writes
        ("x,y\n1,1,2\n2,3,4\n3,3,4\n", ["1", "2", "3"], [[1, 2], [3, 4], [3, 4]]),
        ("1,5,6\n2,7,8\n3,9,9\n", ["1", "2", "3"], [[5, 6], [7, 8], [9, 9]]),
        ("year,x\n1990,1\n1991,2\n", None, [[1990, 1], [1991, 2]]),
        ("x,y\n1,5\n2,7\n3,9\n", None, [[1, 5], [2, 7], [3, 9]]),
        ("kind,x\nu,1\nu,2\n", None, [[1], [2]]),
        ("bmi_index,x\n20,1\n21,2\n", None, [[20, 1], [21, 2]]),
        ("name,x\nBo,1\nBo,2\n", None, [[1], [2]]),
    ],
)
def test_ids_of_features(write, text, ids, values):
    path = write(text)
    table = data_files.read_features(path)
    assert (table.ids, table.values.tolist()) == (ids, values)
    assert (ids is None) == ("names the objects" not in " ".join(table.notes))
    whole = data_files.read_features(path, Choice(no_id=True))
    assert whole.ids is None


def test_ids_twice(write):
    path = write("id,x\n7,1\n9,3\n7,4\n")
    with pytest.raises(ValueError, match=r"not unique: '7' is that of objects 0 and 2"):
        data_files.read_features(path)
    table = data_files.read_features(path, Choice(drop=["id"], no_id=True))
    assert table.values.tolist() == [[1], [3], [4]]
    path = write("who,x\nu,1\nv,3\nu,4\n")
    with pytest.raises(ValueError, match=r"ids in column 'who' .* not unique: 'u'"):
        data_files.read_features(path, Choice(id="who"))
    far = "name,x\n" + "".join(f"n{l},{l}\n" for l in range(5000)) + "n7,1\n"
    table = data_files.read_features(write(far))
    assert table.ids is None
    assert "'name' holds 'n7' twice, so it names no objects" in table.notes[-1]


def test_columns_of_features(write):
    path = write("id,x_1,x_2,kind,y\nu,1,2,a,3\nv,4,5,a,6\n")

    def read(*columns, **more):
        table = data_files.read_features(path, Choice(columns, **more))
        return table.names, table.values.tolist(), table.ids

    ids = ["u", "v"]
    assert read("x_*") == (["x_1", "x_2"], [[1, 2], [4, 5]], ids)
    assert read("y,x_1") == (["y", "x_1"], [[3, 1], [6, 4]], ids)
    assert read("1", "4") == (["x_1", "y"], [[1, 3], [4, 6]], ids)
    assert read("x_*", drop=["x_1"]) == (["x_2"], [[2], [5]], ids)
    assert read(no_id=True)[1:] == ([[1, 2, 3], [4, 5, 6]], None)
    assert read("y", id="x_1") == (["y"], [[3], [6]], ["1", "4"])
    assert "left out: 'kind'" in data_files.read_features(path).notes[0]
    with pytest.raises(ValueError, match=r"column 'kind' .* holds 'a', which is not a"):
        read("kind")
    with pytest.raises(ValueError, match=r"has no column 'z'; it has id, x_1, x_2"):
        read("y,z")
    with pytest.raises(ValueError, match="has no column of numbers"):
        data_files.read_features(write("a,b\nu,v\nu,w\n", "t.csv"))


@pytest.mark.parametrize(
    ("text", "ids", "values"),
    [
        ("id,a,b\nu,1,2\nv,1,2\n", ["u", "v"], [["1", "2"]] * 2),
        ("who,a\nu,x\nv,x\n", ["u", "v"], [["x"], ["x"]]),
        ("0,5\n1,5\n2,5\n", ["0", "1", "2"], [["5"]] * 3),
        ("0,1\n1,0\n", None, [["0", "1"], ["1", "0"]]),
        (
            "a,b\n1.0,x\n-1.0,<NA>\n2.,N/A\n",
            None,
            [["1", "x"], [None] * 2, ["2", None]],
        ),
        ("a,b\nx,1\n1.0,2\nx,1\n", None, [["x", "1"], ["1.0", "2"], ["x", "1"]]),
    ],
)
def test_tables_of_labels(write, text, ids, values):
    table = data_files.read_partitions(write(text))
    assert (table.ids, table.values.tolist()) == (ids, values)


def test_decimals_and_negatives_are_no_labels(write):
    for text in ("x,y\n1.5,2\n2.5,3\n", "0.5\n0.5\n", "a,x\nu,1e-3\nu,2\n"):
        with pytest.raises(ValueError, match=r"decimals are no labels: cluster feat"):
            data_files.read_partitions(write(text))
    with pytest.raises(ValueError, match="holds '-2'; only -1 may be negative"):
        data_files.read_partitions(write("a\n-2\n-2\n1\n"))
    text = "id,label,confidence\nu,0,0.91\nv,0,1.0\n"
    with pytest.raises(ValueError, match="column 'confidence' of"):
        data_files.read_partitions(write(text))
    chosen = data_files.read_partitions(write(text), Choice(["label"]))
    assert (chosen.values.tolist(), chosen.ids) == ([["0"], ["0"]], ["u", "v"])


def test_labels_of_our_own_and_of_others(write):
    text = "id,label,confidence\nu,0,0.91\nv,1,1.0\nw,1,1.0\n"
    read = data_files.read_labels
    found = read(write(text))
    assert (found.values.tolist(), found.ids) == (["0", "1", "1"], ["u", "v", "w"])
    assert read(write(text), "2").values.tolist() == ["0.91", "1", "1"]
    text = "id,kind\nu,x\nv,y\nw,y\n"
    assert read(write(text)).values.tolist() == ["x", "y", "y"]
    assert read(write(text), "kind").ids == ["u", "v", "w"]
    assert read(write(text), "id").values.tolist() == ["u", "v", "w"]
    assert read(write("kind,confidence\nx,.5\ny,.5\ny,1\n")).values[2] == "y"
    with pytest.raises(ValueError, match="2 columns; name one with --column"):
        read(write("a,b\n1,2\n1,2\n"))
    array = write("", "a.npy")
    np.save(array, [[7, 3], [8, 3]])
    assert read(array, "1", id_column="0").ids == ["7", "8"]
    assert read(write("0\n1\n"), form=Form(header=True)).values.tolist() == ["1"]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".npy"])
@pytest.mark.parametrize("ids", [None, ['a "1", 2', "=b", "ü\n"]])
def test_labels_come_back(tmp_path, suffix, ids):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"labels{suffix}"
    labels = np.array([1, 0, 1], dtype=np.int32)
    sure = np.array([0.5, 1.0, 0.25])
    data_files.write_labels(path, labels, sure, ids, "who")
    found = data_files.read_labels(path, id_column=None)
    assert [int(label) for label in found.values] == [1, 0, 1]
    if suffix != ".npy":
        expected = None if ids is None else [name.strip() for name in ids]
        assert (found.ids and [name.strip() for name in found.ids]) == expected


def test_tables_of_arrow(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    columns = {
        "id": ["u", "v", "w"],
        "x": [1.5, 2.5, None],
        "n": [1, 2, 3],
        "kind": pa.array(["a", "b", "a"]).dictionary_encode(),
    }
    parquet.write_table(pa.table(columns), path)
    table = data_files.read_features(path, Choice(["n"]))
    assert (table.values.tolist(), table.ids) == ([[1], [2], [3]], ["u", "v", "w"])
    table = data_files.read_features(path)
    assert table.names == ["x", "n"]
    assert np.isnan(table.values[2, 0])
    assert "left out: 'kind'" in table.notes[-1]
    table = data_files.read_partitions(path, Choice(["kind", "n"]))
    assert table.values.tolist() == [["a", 1], ["b", 2], ["a", 3]]
    with pytest.raises(ValueError, match=r"column 'x' .* decimals are no labels"):
        data_files.read_partitions(path)
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(ValueError, match="does not hold a table"):
        data_files.read_features(path)


@pytest.mark.parametrize(
    ("name", "cure"),
    [("t.parquet", "gpu-consensus[parquet]"), ("t.h5ad", "gpu-consensus[anndata]")],
)
def test_without_a_reader_one_sentence_says_how_to_have_it(
    tmp_path, monkeypatch, name, cure
):
    import sys

    for module in ("pyarrow", "pyarrow.parquet", "anndata"):
        monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(
        ValueError, match="which is not installed: pip install"
    ) as error:
        data_files.read_features(tmp_path / name)
    assert cure in str(error.value)
