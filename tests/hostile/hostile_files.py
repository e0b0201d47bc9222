"""Files that others wrote, or that were damaged."""

import io
import json
import os
import struct
import zipfile

import hostile_values as values
import numpy as np
import right
from hostile_calls import small_ensemble
from judge import Case

import gpu_consensus as gpc

NAMES = ("/tmp", "path", "file", "checkpoint", "good", "table", "features", "labels")


def npy(array):
    """Return the bytes of a .npy file."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def header(text, version=(1, 0)):
    """Return a .npy file with a header of any text."""
    body = text.encode("latin1", "replace").ljust(117) + b"\n"
    return (
        b"\x93NUMPY" + bytes(version) + struct.pack("<H", len(body)) + body + b"\0" * 64
    )


HEADERS = [
    "{'descr': '<i8', 'fortran_order': False, 'shape': (10**9, 10**9), }",
    "{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000,), }",
    "{'descr': '|O', 'fortran_order': False, 'shape': (3,), }",
    "{'descr': '<i8', 'fortran_order': False, 'shape': (-1,), }",
    "{'descr': '<i8', 'fortran_order': 5, 'shape': (3,), }",
    "{'descr': '|V0', 'fortran_order': False, 'shape': (3,), }",
    "{'descr': [('a', '<i8')], 'fortran_order': False, 'shape': (3,), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), 'x': 1}",
    "{'descr': 'nope', 'fortran_order': False, 'shape': (3,)}", "{", "", "(" * 90, "5",
    "__import__('os').system('touch hurt')", "{'shape': ()}", "[" * 60 + "]" * 60,
    "{'descr': '<M8[D]', 'fortran_order': False, 'shape': (4, 2)}",
    "{'descr': '<U0', 'fortran_order': False, 'shape': (4, 2)}",
    "{'descr': '<f8', 'fortran_order': True, 'shape': (4, 2)}",
]  # fmt: skip


def hurt_bytes(rng, data):
    """Return damaged bytes."""
    data = bytearray(data)
    how = int(rng.integers(6))
    if how == 0 or not data:
        return bytes(data[: int(rng.integers(len(data) + 1))])
    if how == 1:
        for _ in range(int(rng.integers(1, 4))):
            data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    elif how == 2:
        begin = int(rng.integers(len(data)))
        data[begin : begin + 16] = b"\0" * len(data[begin : begin + 16])
    elif how == 3:
        data += bytes(rng.integers(256, size=50, dtype=np.uint8))
    elif how == 4:
        begin = int(rng.integers(len(data)))
        data[begin:begin] = bytes(rng.integers(256, size=9, dtype=np.uint8))
    else:
        return header(values.pick(rng, HEADERS))
    return bytes(data)


def hurt_json(rng, text):
    """Return a description that promises something else."""
    try:
        found = json.loads(text)
    except ValueError:
        return text
    if not isinstance(found, dict) or not found:
        return text
    key = values.pick(rng, list(found))
    found[key] = values.pick(
        rng,
        [
            None, -1, 0, 10**30, "x", "../../etc/passwd", [], {}, [[]], 1.5, True,
            float("nan"), "\x00", [1, 2], ["a"] * 5, "/etc/passwd", [-1] * 5, [1e400],
            {"a": {}}, "codes-../x.npy", [3] * 5, [0.2] * 5, "a" * 5000,
        ],
    )  # fmt: skip
    if rng.random() < 0.2:
        del found[key]
    return json.dumps(found)


def special(rng, path):
    """Put something that is no plain file in its place; True if done."""
    how = int(rng.integers(8))
    if how > 4:
        return False
    if path.is_dir():
        return False
    path.unlink()
    if how == 0:
        os.mkfifo(path)
    elif how == 1:
        path.symlink_to("/dev/zero")
    elif how == 2:
        path.mkdir()
    elif how == 3:
        path.symlink_to(path)
    else:
        path.symlink_to("/nowhere/at/all")
    return True


def hurt_archive(rng, path):
    """Change one part of a .npz file, the others staying valid."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = values.pick(rng, list(parts))
    how = int(rng.integers(6))
    if how == 0:
        del parts[name]
    elif how == 1:
        parts[name] = header(values.pick(rng, HEADERS))
    elif how == 2:
        other = values.pick(rng, list(parts))
        parts[name], parts[other] = parts[other], parts[name]
    elif how == 3:
        try:
            array = np.load(io.BytesIO(parts[name]), allow_pickle=False)
            array = values.pick(
                rng,
                [
                    array * 0, array.ravel()[:-1], array[None], array.astype(float),
                    array.astype("U9"), -array.astype(float), array[..., ::-1],
                    np.full(array.shape, np.nan), array.astype(np.int64) - 50,
                ],
            )  # fmt: skip
            parts[name] = npy(array)
        except (TypeError, ValueError, np._core._exceptions.UFuncTypeError):
            parts[name] = b""
    elif how == 4:
        parts[name] = npy(np.array([{"a": 1}, lambda_free], dtype=object))
    else:
        parts[name] = hurt_bytes(rng, parts[name])
    with zipfile.ZipFile(path, "w") as archive:
        for part, data in parts.items():
            archive.writestr(part, data)


def lambda_free():
    """Be found by a pickle that must never be opened."""
    raise AssertionError("a pickle was opened")


def ensemble_file(rng, folder):
    """Load an ensemble that was damaged on disk."""
    table = small_ensemble(rng)
    ens = gpc.Ensemble(table, weights=values.pick(rng, [None, [1, 2, 3, 4, 5]]))
    packed = rng.random() < 0.5
    path = folder / ("good.npz" if packed else "good")
    ens.save(path)
    harmless = False
    if packed:
        if not special(rng, path):
            if rng.random() < 0.6:
                hurt_archive(rng, path)
            else:
                path.write_bytes(hurt_bytes(rng, path.read_bytes()))
    else:
        part = values.pick(rng, sorted(path.iterdir()))
        if not special(rng, part):
            if part.suffix == ".json" and rng.random() < 0.7:
                part.write_text(hurt_json(rng, part.read_text()))
            elif rng.random() < 0.1:
                part.chmod(0)
                harmless = True
            else:
                part.write_bytes(hurt_bytes(rng, part.read_bytes()))
    mmap = bool(rng.integers(2))

    def check(loaded):
        assert np.array_equal(loaded.labels, ens.labels), "other labels"
        assert np.allclose(loaded.weights, ens.weights) or not harmless

    text = f"Ensemble.load({path.name}, mmap={mmap}) of a damaged one"
    return Case(text, lambda: gpc.Ensemble.load(path, mmap=mmap), NAMES, check)


def checkpoint_file(rng, folder):
    """Go on from a checkpoint that was damaged."""
    table = small_ensemble(rng)
    X = np.round(rng.normal(size=(24, 3)), 2)
    path = folder / "checkpoint"
    kind = values.pick(rng, ["kcc", "sec", "ipc", "generate", "cluster", "select"])

    def run():
        if kind == "generate":
            return gpc.generate_partitions(X, 3, checkpoint=path, random_state=0)
        if kind == "cluster":
            return gpc.cluster(
                X, 2, n_partitions=3, method="kcc", checkpoint=path, random_state=0
            )
        if kind == "select":
            return gpc.select_n_clusters(
                X, [2, 3], n_null=19, n_init=1, n_partitions=2, checkpoint=path,
                random_state=0,
            )  # fmt: skip
        return gpc.METHODS[kind](table, 3, n_init=3, checkpoint=path, random_state=0)

    fresh = run()
    hurt = path
    if path.is_dir():
        every = sorted(p for p in path.rglob("*") if p.is_file())
        hurt = values.pick(rng, every) if every else None
    if hurt is not None and hurt.exists() and not special(rng, hurt):
        data = hurt.read_bytes()
        if data[:2] == b"PK" and rng.random() < 0.7:
            hurt_archive(rng, hurt)
        elif data[:1] == b"{":
            hurt.write_text(hurt_json(rng, data.decode()))
        else:
            hurt.write_bytes(hurt_bytes(rng, data))

    def check(again):
        if kind == "select":
            assert again.as_dict() == fresh.as_dict(), "another selection"
            return
        assert np.array_equal(again.labels, fresh.labels), "other labels"
        if kind != "generate":
            assert again.objective == fresh.objective, "another objective"

    text = f"{kind} from a damaged checkpoint ({hurt})"
    return Case(text, run, (*NAMES, "checkpoint"), check)


TEXTS = [
    "", "\n\n\n", "a,b\n", "a,b\n1\n", "1,2\n3,4\n", "1;2\n3;4\n", "1\t2\n3\t4\n",
    "1,5;2,5\n3,5;4,5\n", "a,a\n1,2\n3,4\n", "1,2\n3,x\n", "1,nan\n2,inf\n",
    "1,\n2,3\n",
    '"1,2\n3', "\ufeff1,2\n3,4\n", "1 2\n3 4\n", "1,2\r3,4\r", "1e999,2\n3,4\n",
    "1" * 5000 + ",2\n3,4\n", "id,x\na,1\nb,2\nc,3\n", "<NA>,N/A\n-1.0,1\n",
    "=1+1,2\n1,2\n",
    "0x10,1\n2,3\n", "1_000,2\n3,4\n", "\u0661,\u0662\n1,2\n", "1,2,3\n4,5\n6\n",
    "1,2\0\n3,4\n",
    "1+2j,3\n4,5\n", "True,False\n1,0\n", "," * 3000 + "\n", "x\n" * 3, "1\n2\n3\n",
]  # fmt: skip
SUFFIXES = (".csv", ".tsv", ".npy", ".npz", ".txt", "", ".CSV", ".csv.gz", ".parquet")


def table_file(rng, folder):
    """Hand a hostile table to the command line."""
    from hostile_words import run_command

    path = folder / ("table" + values.pick(rng, SUFFIXES))
    how = int(rng.integers(10))
    if how < 4:
        text = values.pick(rng, TEXTS)
        encoding = values.pick(rng, ["utf-8", "utf-8", "utf-16", "latin1", "utf-32"])
        path.write_bytes(text.encode(encoding, "replace"))
    elif how < 6:
        path.write_bytes(npy(values.pick(rng, ARRAYS)))
    elif how < 7:
        np.savez(path, a=np.ones((3, 2)), b=np.ones(2))
    elif how < 8:
        path.write_bytes(header(values.pick(rng, HEADERS)))
    else:
        path.write_bytes(hurt_bytes(rng, npy(np.round(rng.normal(size=(24, 3)), 2))))
    if rng.random() < 0.08:
        path.write_bytes(b"1,2\n3,4\n") if not path.exists() else None
        special(rng, path)
    out = folder / "labels.csv"
    command = values.pick(
        rng, ["cluster", "consensus", "generate", "evaluate", "select"]
    )
    words = {
        "cluster": ["cluster", path, "--n-clusters", "2", "--n-partitions", "3"],
        "consensus": ["consensus", path, "--n-clusters", "2", "--method", "kcc"],
        "generate": ["generate", path, "--n-partitions", "3"],
        "evaluate": ["evaluate", path, "--truth", path],
        "select": ["select-k", path, "--candidates", "2:3"],
    }[command]
    if command != "evaluate":
        words += ["--output", folder / "out" if command == "generate" else out]
        words += ["--seed", "0"]
    return run_command([str(word) for word in words], folder, (path.name, *NAMES))


ARRAYS = [
    np.ones((24, 3)), np.arange(12.0).reshape(6, 2), np.array([["a", "b"], ["c", "d"]]),
    np.ones(5), np.ones((2, 2, 2)), np.array(5), np.ones((0, 3)), np.ones((3, 0)),
    np.array([[1, np.nan], [2, 3]]), np.array([[1j, 2]]), np.array([["2020"]], "M8[D]"),
    np.array([[{}], [None]], dtype=object), np.ones((4, 2), bool), np.ones((4, 2),
    ">i2"),
    np.full((6, 2), 1e308), np.ones((4, 2), np.float16), np.arange(8).reshape(4, 2) - 3,
]  # fmt: skip
__all__ = ["checkpoint_file", "ensemble_file", "right", "table_file"]
