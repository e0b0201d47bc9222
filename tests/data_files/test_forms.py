"""Separator, decimals, encoding: recognised and told, or named; what is refused."""

import gzip
import io

import numpy as np
import pytest

from gpu_consensus import data_files
from gpu_consensus.data_files import Form

NAMES = ["größe", "x"]
ROWS = [[1.5, -2.0], [0.25, 3e-5], [7.0, 12.125]]


def write(path, text, encoding="utf-8"):
    data = text.encode(encoding)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def read(path, **form):
    return data_files.read_features(path, form=Form(**form))


def as_text(separator, decimal="."):
    lines = [NAMES, *([repr(x).replace(".", decimal) for x in row] for row in ROWS)]
    return "".join(separator.join(line) + "\n" for line in lines)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt", "a.CSV.gz"])
@pytest.mark.parametrize(
    ("separator", "decimal"),
    [
        *((mark, ".") for mark in (",", ";", "\t", "|", "  ")),
        *((mark, ",") for mark in (";", "\t", "|", " ")),
    ],
)
def test_every_form_in_every_file(tmp_path, name, separator, decimal):
    path = write(tmp_path / name, as_text(separator, decimal))
    table = read(path)
    assert table.names == NAMES
    assert table.values.tolist() == ROWS
    usual = {".csv": [","], ".tsv": ["\t", ","], ".txt": [" ", "  ", ","]}
    plain = separator in usual[name.lower().removesuffix(".gz")[1:]] and decimal == "."
    assert bool(table.notes) != plain
    assert ("decimal commas" in "".join(table.notes)) == (decimal == ",")


@pytest.mark.parametrize(
    ("encoding", "told"),
    [
        ("utf-8", ""),
        ("utf-8-sig", ""),
        ("utf-16", "utf-16 text"),
        ("utf-16-le", "utf-16-le text"),
        ("utf-16-be", "utf-16-be text"),
        ("latin-1", "cp1252 text"),
        ("cp1252", "cp1252 text"),
    ],
)
def test_encodings(tmp_path, encoding, told):
    path = write(tmp_path / "a.csv", as_text(","), encoding)
    table = read(path)
    assert (table.names, table.values.tolist()) == (NAMES, ROWS)
    assert (told in "".join(table.notes)) if told else table.notes == []
    named = read(path, encoding=encoding)
    assert named.names[-1] == "x"
    assert named.notes == []


def test_an_umlaut_after_a_million_letters_is_found(tmp_path):
    text = "x,y\n" + "12345,2\n" * 150_000 + "3,ö\n"
    path = write(tmp_path / "a.csv", text, "latin-1")
    with pytest.raises(ValueError, match=r"line 150002 of .* has 'ö' in column 'y'"):
        read(path)
    with pytest.raises(ValueError, match=r"is not utf-8 text .* --encoding"):
        read(path, encoding="utf-8")


def test_what_is_no_text_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(bytes(range(256)) * 20)
    with pytest.raises(ValueError, match="it is not text but holds zero bytes"):
        read(path)
    path = tmp_path / "a.csv.gz"
    path.write_bytes(b"1,2\n3,4\n")
    with pytest.raises(ValueError, match="is not packed by gzip, or damaged"):
        read(path)
    path.write_bytes(gzip.compress(b"1,2\n" * 1000)[:-20])
    with pytest.raises(ValueError, match="is not packed by gzip, or damaged"):
        read(path)
    with pytest.raises(ValueError, match=r"--encoding 'utf-9' is unknown; name one"):
        read(path, encoding="utf-9")
    with pytest.raises(
        ValueError, match=r"--separator 'x' is unknown; choose one of c"
    ):
        read(write(tmp_path / "b.csv", "1,2\n"), separator="x")


@pytest.mark.parametrize(
    ("text", "form", "message"),
    [
        ('x,y\n"1,234",2\n"5,678",3\n', {}, "may part thousands or be a decimal comma"),
        ('x,y\n"1,234",2\n', {"decimal": "comma"}, [[1.234, 2]]),
        ('x,y\n"1,5",2\n"2,25",3\n', {}, [[1.5, 2], [2.25, 3]]),
        ("x;y\n1,234;2\n", {}, [[1.234, 2]]),
        ('x,y\n"1,234,567",2\n', {}, "'1,234,567' in column 'x': thousands separators"),
        ('x,y\n"1,234.5",2\n', {}, "thousands separators are not read"),
        ("x;y\n1.234,5;2\n", {}, "thousands separators are not read"),
        ("x;y\n1 234;2\n", {}, "thousands separators are not read"),
        ("x;y\n1'234;2\n", {}, "thousands separators are not read"),
        ("x;y\n1,5;2.5\n", {}, "'2.5' in column 'y' and '1,5' in column 'x'; write"),
        ("x;y\n1,5;2\n" * 1 + "2,5;1.234\n", {}, "'1.234' in column 'y' and '1,5'"),
        ("x\n1,5\n2,5\n", {}, [[1.5], [2.5]]),
        ("x;y\n1,5;2\n", {"decimal": "."}, "'1,5' in column 'x', which is not"),
        ("x;y\n1,5;2\n", {"separator": "comma"}, "line 2 of"),
        ("a b\n1.5 2\n", {"separator": "blanks"}, [[1.5, 2]]),
        ("a\tb\n1.5\t2\n", {"separator": "\\t"}, [[1.5, 2]]),
        ("x,y,\n1,2,\n3,4,\n", {}, [[1, 2], [3, 4]]),
        ("1,2,\n3,4,\n", {}, [[1, 2], [3, 4]]),
        ("\n\nx,y\n\n1,2\n  \n3,4\n\n", {}, [[1, 2], [3, 4]]),
        ("x,y\n1,1_000\n", {}, "thousands separators are not read"),
        ("x,y\n1,0x10\n2,3\n", {}, "holds numbers and '0x10'"),
        ("x,y\n1,inf\n", {}, "'inf' in column 'y', which is not a finite number"),
        ("x,y\n1,NA\n2,3\n", {}, r"line 2 .* no number in column 'y' \('NA'\); fill"),
        ("x,y\n1,\n2,3\n", {}, r"line 2 .* no number in column 'y' \(''\)"),
        ("x,y,z\n1,,NA\n2,,\n", {}, [[1], [2]]),
    ],
)
def test_numbers(tmp_path, text, form, message):
    path = write(tmp_path / "a.csv", text)
    if isinstance(message, list):
        assert read(path, **form).values.tolist() == message
    else:
        with pytest.raises(ValueError, match=message):
            read(path, **form)


def test_a_point_far_below_decimal_commas_is_not_believed(tmp_path):
    text = "x;y\n" + "1,5;2,5\n" * 5000 + "1.234;5,0\n"
    with pytest.raises(ValueError, match=r"line 5002 .*'1\.234'.* decimal comma"):
        read(write(tmp_path / "a.csv", text))


def test_quotes_over_lines_and_blocks(tmp_path, monkeypatch):
    from gpu_consensus.data_files import source

    rows = [(f'a "{l}"\nb;,', l / 7, -l) for l in range(2000)]
    text = "name,x,y\n" + "".join(
        f'"{name.replace(chr(34), chr(34) * 2)}",{x!r},"{y}"\n' for name, x, y in rows
    )
    path = write(tmp_path / "a.csv", text)
    for size in (1 << 23, 97):
        monkeypatch.setattr(source.Source.blocks, "__defaults__", (size, None))
        table = data_files.read_features(path)
        assert table.values.tolist() == [[x, y] for _, x, y in rows]
        assert [name.replace("\r", "") for name in table.ids] == [r[0] for r in rows]


def test_numbers_are_those_that_python_reads(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 3)) * 10.0 ** rng.integers(-300, 300, size=(5000, 3))
    text = "".join(",".join(map(repr, row)) + "\r\n" for row in X.tolist())
    table = read(write(tmp_path / "a.csv", text))
    assert np.array_equal(table.values, X)
    commas = text.replace(",", ";").replace(".", ",")
    assert np.array_equal(read(write(tmp_path / "b.csv", commas)).values, X)


def test_standard_input(tmp_path, monkeypatch):
    class Standard:
        buffer = io.BytesIO(b"id;x\nu;1,5\nv;2,5\n")

    monkeypatch.setattr("sys.stdin", Standard)
    table = data_files.read_features(data_files.STANDARD)
    assert (table.values.tolist(), table.ids) == ([[1.5], [2.5]], ["u", "v"])
    assert table.notes[0].startswith("standard input: recognised cells parted by semi")


def test_against_pandas_on_random_tables(tmp_path):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(1)
    for trial in range(30):
        n, d = rng.integers(2, 40), rng.integers(2, 6)
        separator = ",;\t|"[trial % 4]
        decimal = "." if separator == "," else ".,"[trial % 2]
        frame = pandas.DataFrame(rng.normal(size=(n, d)), columns=list("abcdef"[:d]))
        frame.insert(1, "word", [f'w "{l % 3}" {separator}' for l in range(n)])
        path = tmp_path / "a.csv"
        frame.to_csv(path, sep=separator, decimal=decimal, index=bool(trial % 3))
        table = data_files.read_features(path)
        assert np.array_equal(table.values, frame.drop(columns="word").to_numpy())
        if trial % 3 and n > 2:
            assert table.ids == [str(l) for l in range(n)]
        assert "left out: 'word'" in table.notes[-1 - bool(trial % 3 and n > 2)]
