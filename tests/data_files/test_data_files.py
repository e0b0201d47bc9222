"""Files as people have them: headers, quotes, marks, blank lines, encodings."""

import numpy as np
import pytest

from gpu_consensus import data_files
from gpu_consensus.data_files import Choice, Form


@pytest.fixture
def write(tmp_path):
    def write(text, name="table.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return path

    return write


def labels(path, **options):
    return data_files.read_partitions(path, form=Form(**options)).values.tolist()


def features(path, *drop, **options):
    choice, form = Choice(drop=drop), Form(**options)
    return data_files.read_features(path, choice, form).values.tolist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,1\nb,2\na,1\nb,2\n", 4),  # words that come again are labels
        ("species\nsetosa\nsetosa\nvirg\n", 3),
        ("label,confidence\n0,1\n1,1\n", 2),
        ("id1,setosa\nid2,setosa\nid3,virg\n", 3),  # one word comes again
        ("id,0,1\nx,0,1\ny,0,1\n", 2),  # names may be numbers if one is a word
        ("1,2\n3,4\n", 2),
        ("NA,\n1,2\n", 2),
        ("-1\n0\n", 2),
    ],
)
def test_whether_labels_begin_with_names(write, text, expected):
    path = write(text)
    assert len(labels(path)) == expected
    n_lines = text.count("\n")
    assert len(labels(path, header=True)) == n_lines - 1
    assert len(labels(path, header=False)) == n_lines


def test_whether_features_begin_with_names(write):
    assert features(write("a,b\n1,2\n3,4\n")) == [[1, 2], [3, 4]]
    assert features(write("1,2\n3,4\n")) == [[1, 2], [3, 4]]
    assert features(write("2019,2020\n1,2\n"), header=True) == [[1, 2]]
    assert features(write("x,2020\n1,2\n")) == [[1, 2]]
    path = write("x,1\ny,2\n")
    assert features(path, "0") == [[1], [2]]
    assert features(path, "0", header=True) == [[2]]
    assert features(write("x,1\n7,2\n"), "0", header=False) == [[1], [2]]
    with pytest.raises(ValueError, match=r"column '1' .* numbers and 'b'.* --drop 1\."):
        features(write("a,b\n1,2\n"), header=False)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize(
    ("name", "between"),
    [
        ("a.csv", ","),
        ("a.CSV", ","),
        ("a.csv", ";"),
        ("a.tsv", "\t"),
        ("a.TXT", "  "),
        ("a.txt", "\t"),
        ("a.txt", ","),
    ],
)
def test_marks_line_ends_delimiters_and_blank_lines(write, end, mark, name, between):
    rows = ["", " ", "x|y", "1|2", "3|4", "", ""]
    text = mark + end.join(rows).replace("|", between)
    assert features(write(text, name)) == [[1, 2], [3, 4]]
    assert features(write(text, name), "x") == [[2], [4]]
    assert labels(write(text, name)) == [["1", "2"], ["3", "4"]]
    assert data_files.read_labels(write(text, name), "y").values.tolist() == ["2", "4"]
    bare = mark + end.join(["1|2", "3|4"]).replace("|", between)
    assert features(write(bare, name)) == [[1, 2], [3, 4]]
    assert labels(write(bare, name)) == [["1", "2"], ["3", "4"]]


def test_quotes(write):
    assert features(write('"a","b"\n"1","2"\n3,4\n')) == [[1, 2], [3, 4]]
    path = write('"name, first",x\n"Bo, A",1\n"say ""hi""",2\n')
    assert features(path, "name, first") == [[1], [2]]
    assert labels(path) == [["Bo, A", "1"], ['say "hi"', "2"]]
    assert features(write('"a b" 1\nc "2"\n', "a.txt"), "0") == [[1], [2]]
    assert labels(write('"a b" 1\nc 2\n', "a.txt"), header=False)[0] == ["a b", "1"]
    assert features(write('"a,b";c\n1;2\n')) == [[1, 2]]
    with pytest.raises(ValueError, match=r"numbers and 'Bo', .* --drop 'the name'\."):
        features(write("the name,x\nBo,1\n7,2\n7,2\n"))


def test_missing_labels(write):
    path = write('a,b,c\n-1,NA,x\n,None,y\nnan,null,""\n')
    none = [None, None]
    assert labels(path) == [[*none, "x"], [*none, "y"], [*none, None]]
    assert labels(write('label\nx\n""\nx\n')) == [["x"], [None], ["x"]]
    assert labels(write("a,b\n1,2\n\n3,4\n")) == [["1", "2"], ["3", "4"]]
    with pytest.raises(ValueError, match=r"line 3 .* is blank; write NA"):
        labels(write("label\nx\n\ny\n"))


@pytest.mark.parametrize("read", [data_files.read_features, data_files.read_partitions])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("a,b\n", "taken for column names, and no objects; .* --no-header"),
        ("\n\na,b\n\n", "no objects"),
        ("a,b\n1,2,3\n", "line 2 .* has 3 cells but the first has 2"),
    ],
)
def test_files_without_a_table(write, read, text, message):
    with pytest.raises(ValueError, match=message):
        read(write(text))


def test_lines_of_unequal_length(write):
    for text in ("1,2\n3,4,5\n", "1,2\n3\n"):
        with pytest.raises(ValueError, match=r"line 2 .* cells but the first has 2"):
            features(write(text))
        with pytest.raises(ValueError, match=r"line 2 .* cells but the first has 2"):
            features(write(text), "0")
        with pytest.raises(ValueError, match=r"line 2 .* cells but the first has 2"):
            labels(write(text))


def test_columns_by_name_and_number(write):
    path = write("a,a,b\n1,2,3\n")
    assert features(path, "0", "b") == [[2]]
    with pytest.raises(ValueError, match="several columns 'a'; give the number"):
        features(path, "a")
    with pytest.raises(ValueError, match="has no column 'c'; it has a, a, b"):
        features(path, "c")
    with pytest.raises(ValueError, match=r"no column of .* is left; drop fewer"):
        features(path, "0", "1", "2")
    with pytest.raises(ValueError, match=r"truth .* has 3 columns; name one with --of"):
        data_files.read_labels(path, role="truth", option="--of")
    assert data_files.read_labels(path, "b").values.tolist() == ["3"]
    path = write("a,label\n1,x\n1,y\n")
    assert data_files.read_labels(path).values.tolist() == ["x", "y"]
    assert labels(path) == [["1", "x"], ["1", "y"]]


def test_arrays(tmp_path):
    path = tmp_path / "a.NPY"

    def save(array, **options):
        with path.open("wb") as file:
            np.save(file, array, **options)

    save(np.arange(6).reshape(2, 3))
    assert features(path, "1") == [[0, 2], [3, 5]]
    assert data_files.read_labels(path, "2").values.tolist() == [2, 5]
    assert labels(path) == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(ValueError, match=r"has no column 'x'; it has 0\.\.2"):
        features(path, "x")
    save(np.arange(3)[:, None])
    assert data_files.read_labels(path).values.tolist() == [0, 1, 2]
    for array in (np.array(5), np.arange(3), np.zeros((2, 2, 2))):
        save(array)
        with pytest.raises(ValueError, match="features should be"):
            features(path)
        with pytest.raises(ValueError, match="partitions should be"):
            labels(path)
    for array in (np.array(5), np.zeros(0), np.zeros((2, 2, 2))):
        save(array)
        with pytest.raises(ValueError, match=r"truth .* one label per object"):
            data_files.read_labels(path, role="truth")
    save(np.array([None, "x"], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="does not hold an array") as error:
        data_files.read_labels(path)
    assert "allow_pickle" not in str(error.value)
    with path.open("wb") as file:
        np.savez(file, np.zeros((2, 2)), np.zeros(2))
    with pytest.raises(ValueError, match="does not hold an array"):
        features(path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match="does not hold an array"):
        features(path)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia"])
def test_sparse_matrices_lose_columns_too(tmp_path, form):
    import scipy.sparse

    X = scipy.sparse.random(6, 5, density=0.5, random_state=0)
    path = tmp_path / "X.npz"
    scipy.sparse.save_npz(path, X.asformat(form))
    found = data_files.read_features(path, Choice(drop=["1", "4"])).values
    assert np.array_equal(found.toarray(), X.toarray()[:, [0, 2, 3]])
    with pytest.raises(ValueError, match=r"has no column '5'; it has 0\.\.4"):
        data_files.read_features(path, Choice(drop=["5"]))
    with pytest.raises(ValueError, match="should end in one of"):
        data_files.read_labels(path)
