"""Ensembles on disk: whole or not at all, and never unpickled."""

from __future__ import annotations

import datetime as dt
import errno
import itertools
import json
import math
import os
import pickle
import re
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from encoding_oracle import assert_same, tables
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_consensus import Ensemble
from gpu_consensus.ensemble import storage


@pytest.fixture(params=["ensemble", "ensemble.npz"])
def path(request, tmp_path):
    return tmp_path / request.param


def example_ensemble(seed=0):
    rng = np.random.default_rng(seed)
    return Ensemble(rng.integers(-1, 5, (40, 3)), weights=rng.random(3))


OLD_CODE = int(example_ensemble(0).codes[0, 0])
assert example_ensemble(1).codes[0, 0] != OLD_CODE


def names(folder):
    """Return all names below a folder, those of codes without their number."""
    found = (entry.name for entry in folder.rglob("*"))
    return sorted(re.sub(r"^codes-[0-9a-f]{16}", "codes-*", name) for name in found)


def codes_file(folder):
    (file,) = folder.glob("codes-*.npy")
    return file


@given(
    partitions=tables(
        st.one_of(st.none(), st.integers(0, 2**70), st.text(), st.booleans())
    ),
    data=st.data(),
)
@settings(max_examples=50)
def test_round_trip(partitions, data, tmp_path_factory):
    n = len(partitions)
    weights = data.draw(st.lists(st.floats(1e-3, 1e3), min_size=n, max_size=n))
    ens = Ensemble.from_partitions(partitions, weights=weights)
    folder = tmp_path_factory.mktemp("round_trip")
    for name in ("ensemble", "ensemble.npz"):
        ens.save(folder / name)
        assert_same(Ensemble.load(str(folder / name)), ens)
    shutil.rmtree(folder)


def test_round_trip_of_wide_codes(path):
    ens = Ensemble.from_partitions([np.arange(300), np.arange(300) % 2])
    ens.save(path)
    assert_same(Ensemble.load(path), ens)


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("verify", [True, False])
def test_load_maps_a_folder(tmp_path, mmap, verify):
    ens = example_ensemble()
    ens.save(tmp_path / "ensemble")
    loaded = Ensemble.load(tmp_path / "ensemble", mmap=mmap, verify=verify)
    assert_same(loaded, ens)
    assert ("mapped from disk" in repr(loaded)) == mmap
    assert not loaded.codes.flags.writeable
    assert_same(loaded.subset(rows=[1, 2]), ens.subset(rows=[1, 2]))
    assert loaded.encode(ens).tolist() == ens.codes.tolist()


def test_save_leaves_only_the_ensemble(path):
    example_ensemble().save(path)
    extra = ["codes-*.npy", "meta.json"] if path.suffix == "" else []
    assert names(path.parent) == sorted([path.name, *extra])
    reference = path.parent / "reference"
    reference.touch()
    file = path / "meta.json" if path.is_dir() else path
    assert file.stat().st_mode == reference.stat().st_mode  # the umask counts


def test_save_replaces_an_ensemble(path):
    example_ensemble(0).save(path)
    before = names(path.parent)
    mapped = Ensemble.load(path)
    example_ensemble(1).save(path)
    assert_same(Ensemble.load(path), example_ensemble(1))
    assert_same(mapped, example_ensemble(0))
    Ensemble.load(path).save(path)  # onto the file it is mapped from
    assert_same(Ensemble.load(path), example_ensemble(1))
    assert names(path.parent) == before


def test_save_replaces_a_damaged_ensemble_and_an_empty_folder(tmp_path):
    (tmp_path / "empty").mkdir()
    example_ensemble().save(tmp_path / "empty")
    meta = tmp_path / "empty" / "meta.json"
    meta.write_bytes(meta.read_bytes()[:-10])
    example_ensemble(1).save(tmp_path / "empty")
    assert_same(Ensemble.load(tmp_path / "empty"), example_ensemble(1))


@pytest.mark.skipif(os.name == "nt", reason="a link needs a privilege on Windows")
def test_save_follows_a_link(path):
    target = path.with_name("target" + path.suffix)
    example_ensemble(0).save(target)
    path.symlink_to(target)
    example_ensemble(1).save(path)
    assert path.is_symlink()
    assert_same(Ensemble.load(target), example_ensemble(1))


@pytest.mark.parametrize(
    "content",
    [
        {"thesis.tex": "mine"},
        {"meta.json": "{}"},
        {"meta.json": "{}", "codes-0123456789abcdef.npy": ""},
        {"meta.json": "gpu_consensus.Ensemble", "notes": "mine"},
        {"codes.npy": "mine"},
        {"codes-0123456789abcdef.npy": "", "codes-mine.npy": "mine"},
    ],
)
def test_save_refuses_a_foreign_folder(tmp_path, content):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, text in content.items():
        (folder / name).write_text(text)
    with pytest.raises(FileExistsError, match="exists and is not an ensemble"):
        example_ensemble().save(folder)
    assert {p.name: p.read_text() for p in folder.iterdir()} == content
    assert len(names(tmp_path)) == 1 + len(content)


def test_save_refuses_a_file_where_a_folder_goes(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="exists and is not an ensemble"):
        example_ensemble().save(tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("old", [True, False])
@pytest.mark.parametrize(
    ("error", "match"),
    [
        (
            OSError(errno.ENOSPC, "No space left"),
            "^cannot write '[^']*': No space left; ",
        ),
        (KeyboardInterrupt("stop"), "stop"),
    ],
)
def test_a_write_that_fails_leaves_the_old_ensemble(
    path, monkeypatch, error, match, old
):
    if old:
        example_ensemble(0).save(path)
    before = names(path.parent)

    def half(file, *args, **kwargs):
        file.write(b"half")
        raise error

    monkeypatch.setattr(storage, "_write_codes", half)
    monkeypatch.setattr(np, "savez", half)
    with pytest.raises(type(error), match=match):
        example_ensemble(1).save(path)
    assert names(path.parent) == before
    if old:
        assert_same(Ensemble.load(path), example_ensemble(0))


def test_a_rename_that_fails_leaves_the_old_ensemble(path, monkeypatch):
    example_ensemble(0).save(path)
    before = names(path.parent)

    def broken(self, target):
        raise OSError(errno.EIO, "broken disk")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", broken)
        with pytest.raises(OSError, match=r"^cannot write '[^']*': broken disk; c"):
            example_ensemble(1).save(path)
    assert_same(Ensemble.load(path), example_ensemble(0))
    assert names(path.parent) == before


@pytest.mark.parametrize("old", [True, False])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "broken"), KeyboardInterrupt()])
@pytest.mark.parametrize("done", [True, False])
def test_a_save_that_stops_at_any_step(tmp_path, monkeypatch, old, error, done):
    """The k-th step raises, after it is ``done`` or before, for every k."""
    steps = [(Path, "mkdir"), (Path, "open"), (os, "fsync")]
    steps += [(storage, "_write_codes")]
    steps += [(Path, "replace"), (Path, "unlink"), (Path, "iterdir")]
    path = tmp_path / "ensemble"
    n_steps = stop_at = 0

    def breaking(call):
        def step(*args, **options):
            nonlocal n_steps
            n_steps += 1
            stop = n_steps == stop_at
            if stop and not done:
                raise error
            result = call(*args, **options)
            if stop:
                raise error
            return result

        return step

    while stop_at <= n_steps:
        if old:
            example_ensemble(0).save(path)
        stop_at, n_steps = stop_at + 1, 0
        with monkeypatch.context() as patch, suppress(OSError, KeyboardInterrupt):
            for owner, name in steps:
                patch.setattr(owner, name, breaking(getattr(owner, name)))
            example_ensemble(1).save(path)
        if old or (path / "meta.json").exists():
            found = Ensemble.load(path)
            assert_same(found, example_ensemble(int(found.codes[0, 0] != OLD_CODE)))
        example_ensemble(2).save(path)
        assert_same(Ensemble.load(path), example_ensemble(2))
        assert names(tmp_path) == ["codes-*.npy", "ensemble", "meta.json"]
        shutil.rmtree(path)
    assert stop_at > 6


@pytest.mark.skipif(
    not hasattr(os, "fork"), reason="the child is a fork, which Windows has not"
)
def test_a_save_that_is_killed_at_any_step(tmp_path):
    """Nothing is cleaned up then: the child leaves at its k-th call of the system."""
    program = """
import itertools, os, sys
import numpy as np
from gpu_consensus import Ensemble

def ensemble(label):
    return Ensemble.from_codes(np.full((1, 9), label, np.uint8), [3])

def kill(event, args):
    global left
    left -= event == "open" or event.startswith(("os.", "fcntl."))
    if left < 0:
        os._exit(1)

path = sys.argv[1]
for k, old in itertools.product(range(99), (True, False)):
    if old:
        ensemble(0).save(path)
    child = os.fork()
    if not child:
        left = k
        sys.addaudithook(kill)
        ensemble(1).save(path)
        os._exit(0)
    killed = os.waitpid(child, 0)[1]
    if old or os.path.exists(path + "/meta.json"):
        found = Ensemble.load(path).codes
        assert (found == found[0, 0]).all() and found[0, 0] in (0, 1), found
        assert killed or found[0, 0] == 1
    ensemble(2).save(path)
    assert (Ensemble.load(path).codes == 2).all()
    assert len(os.listdir(path)) == 2, os.listdir(path)
    for name in os.listdir(path):
        os.remove(os.path.join(path, name))
    os.rmdir(path)
    if not killed and old:
        break
print("steps", k)
"""
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, tmp_path / "ensemble"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert 6 < int(result.stdout.split()[1]) < 98


@pytest.mark.parametrize("locks", [True, False])
@pytest.mark.parametrize("n_savers", [1, 2])
def test_load_beside_savers(tmp_path, monkeypatch, n_savers, locks):
    if not locks:
        monkeypatch.setattr(storage, "_is_alone", lambda handle: False)
    path = tmp_path / "ensemble"
    ensembles = [
        Ensemble.from_codes(np.full((1, 999), label, np.uint8), [3]) for label in (0, 1)
    ]
    ensembles[0].save(path)
    stop = threading.Event()

    def save():
        for label in itertools.cycle((1, 0)):
            if stop.is_set():
                return
            ensembles[label].save(path)

    with ThreadPoolExecutor(n_savers) as pool:
        savers = [pool.submit(save) for _ in range(n_savers)]
        try:
            seen, end = set(), time.monotonic() + 0.3
            while time.monotonic() < end or seen != {0, 1}:
                found = Ensemble.load(path).codes
                assert (found == found[0, 0]).all()
                seen.add(int(found[0, 0]))
        finally:
            stop.set()
        for saver in savers:
            saver.result()
    assert Ensemble.load(path).codes[0, 0] in (0, 1)
    if locks:
        ensembles[0].save(path)
    if locks or n_savers == 1:
        assert names(path) == ["codes-*.npy", "meta.json"]


def test_codes_have_no_other_name(tmp_path):
    np.save(tmp_path / "codes-0123456789abcdef.npy", example_ensemble().codes)
    path = tmp_path / "ensemble"
    for name in ("../codes-0123456789abcdef.npy", "codes.npy", 7, None):
        example_ensemble().save(path)
        rewrite(path, codes=name)
        with pytest.raises(ValueError, match=f"its description names {name!r} as"):
            Ensemble.load(path)


@pytest.mark.parametrize("name", ["ensemble", "ensemble.npz"])
def test_unwritable_paths(tmp_path, name):
    (tmp_path / "file").write_text("mine")
    for parent in (tmp_path / "file", tmp_path / "absent"):
        with pytest.raises(
            OSError, match=r"^cannot write .*; choose a path in a folder"
        ):
            example_ensemble().save(parent / name)
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize(
    "labels",
    [
        [(0, 1), (1, 0), (0, 1)],
        [b"x", b"y", b"x"],
        [dt.date(2020, 1, 1), dt.date(2020, 1, 2), dt.date(2020, 1, 1)],
        np.array([0, 1, 0], dtype="M8[ns]"),
    ],
)
def test_labels_that_cannot_be_saved_warn(path, labels):
    ens = Ensemble.from_partitions([[4, 5, 4], labels])
    with pytest.warns(UserWarning, match="labels of partition 1 are neither") as caught:
        ens.save(path)
    assert caught[0].filename == __file__
    loaded = Ensemble.load(path)
    assert loaded.labels.tolist() == ens.labels.tolist()
    assert loaded.categories[0].tolist() == [4, 5]
    assert loaded.categories[1].tolist() == [0, 1]


def test_whole_floats_and_numpy_numbers_can_be_saved(path):
    ens = Ensemble.from_partitions([[0, None, 2.0], [np.int64(3), np.str_("a"), True]])
    ens.save(path)
    assert_same(Ensemble.load(path), ens)


def test_load_of_nothing(path):
    for absent in (path, path / "below"):
        with pytest.raises(FileNotFoundError, match="does not exist; check the path"):
            Ensemble.load(absent)
    path.write_text("a file")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        Ensemble.load(path / "below")


class Bomb:
    """Says so if it is unpickled."""

    def __reduce__(self):
        return pytest.fail, ("a pickle was opened",)


def rewrite(path, **changes):
    """Write the description anew, in either form; None removes an entry."""
    if path.is_dir():
        meta = json.loads((path / "meta.json").read_text())
    else:
        with np.load(path) as archive:
            codes, meta = archive["codes"], json.loads(str(archive["meta"][()]))
    meta.update(changes)
    text = json.dumps({key: value for key, value in meta.items() if value is not None})
    if path.is_dir():
        (path / "meta.json").write_text(text)
    else:
        np.savez(path, codes=codes, meta=np.str_(text))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"format": "other"}, "written by another program"),
        ({"format": None}, "written by another program"),
        ({"version": 99}, "its version is 99, this release reads 1"),
        ({"version": None}, "its version is None, this release reads 1"),
        ({"shape": None}, "lacks 'shape'"),
        ({"dtype": None}, "lacks 'dtype'"),
        ({"n_labels": None}, "lacks 'n_labels'"),
        ({"weights": None}, "lacks 'weights'"),
        ({"marginals": None}, "lacks 'marginals'"),
        ({"categories": None}, "lacks 'categories'"),
        ({"shape": [3, 41]}, "codes are .3, 40. uint8, not .3, 41. uint8 as saved"),
        ({"dtype": "uint16"}, "not .3, 40. uint16 as saved"),
        ({"n_labels": [5, 5]}, ""),
        ({"n_labels": [5, 5, 5, 5]}, ""),
        ({"n_labels": [5, 5, -1]}, ""),
        ({"n_labels": "abc"}, ""),
        ({"n_labels": {"a": 1}}, ""),
        ({"weights": [1.0]}, "weights has shape"),
        ({"weights": [math.nan, 1.0, 1.0]}, "weights.0.=nan"),
        ({"weights": "abc"}, ""),
        ({"marginals": [1, 2]}, "labels of partition 0 are not those saved"),
        ({"categories": [[0], [0], [0]]}, "categories do not fit"),
        ({"categories": [[[0]] * 5] * 3}, "neither numbers nor strings"),
        ({"categories": 7}, ""),
    ],
)
def test_damaged_description(path, changes, reason):
    example_ensemble().save(path)
    rewrite(path, **changes)
    match = rf"is not a readable ensemble \(.*{reason}.*\); make it again with"
    with pytest.raises(ValueError, match=match):
        Ensemble.load(path)


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "\ufeff{}", "[" * 100_000])
def test_description_that_is_no_object(path, text):
    example_ensemble().save(path)
    if path.is_dir():
        (path / "meta.json").write_text(text, encoding="utf-8")
    else:
        np.savez(path, codes=np.zeros((1, 1), np.uint8), meta=np.str_(text))
    with pytest.raises(ValueError, match="is not a readable ensemble"):
        Ensemble.load(path)


@pytest.mark.parametrize("keep", [0, 1, 5, 60, 128, 130, 247])
@pytest.mark.parametrize("mmap", [True, False])
def test_truncated_codes(tmp_path, keep, mmap):
    example_ensemble().save(tmp_path / "ensemble")
    file = codes_file(tmp_path / "ensemble")
    assert file.stat().st_size == 248
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(ValueError, match="is not a readable ensemble"):
        Ensemble.load(tmp_path / "ensemble", mmap=mmap)


def test_missing_half_of_a_folder(tmp_path):
    path = tmp_path / "ensemble"
    for pattern in ("codes-*.npy", "meta.json"):
        example_ensemble().save(path)
        (file,) = path.glob(pattern)
        file.unlink()
        with pytest.raises(ValueError, match=rf"\(it lacks {file.name}\)"):
            Ensemble.load(path)


def test_truncated_archive(tmp_path):
    path = tmp_path / "ensemble.npz"
    example_ensemble().save(path)
    whole = path.read_bytes()
    for keep in range(0, len(whole), 97):
        path.write_bytes(whole[:keep])
        with pytest.raises(ValueError, match="is not a readable ensemble"):
            Ensemble.load(path)


@pytest.mark.parametrize("name", ["codes-*.npy", "meta.json", ""])
def test_any_flipped_bit_is_an_error_or_harmless(tmp_path, name):
    ens = Ensemble.from_partitions(
        [["a", "b", "a", None], [0, 1, 2, 2]], weights=[1, 2]
    )
    path = tmp_path / ("ensemble" if name else "ensemble.npz")
    ens.save(path)
    (file,) = path.glob(name) if name else [path]
    whole = file.read_bytes()
    rng = np.random.default_rng(0)
    n_refused = 0
    for position in range(len(whole)):
        flipped = whole[position] ^ (1 << int(rng.integers(8)))
        file.write_bytes(whole[:position] + bytes([flipped]) + whole[position + 1 :])
        try:
            loaded = Ensemble.load(path, mmap=False)
        except ValueError:
            n_refused += 1
        else:
            np.testing.assert_array_equal(loaded.codes, ens.codes)
    assert n_refused > len(whole) / 8


def test_a_flipped_bit_in_the_codes_is_found(tmp_path):
    ens = example_ensemble()
    ens.save(tmp_path / "ensemble")
    file = codes_file(tmp_path / "ensemble")
    damaged = bytearray(file.read_bytes())
    damaged[-1] ^= 1
    file.write_bytes(damaged)
    with pytest.raises(ValueError, match="labels of partition 2 are not those saved"):
        Ensemble.load(tmp_path / "ensemble")
    Ensemble.load(tmp_path / "ensemble", verify=False)


def test_foreign_files(tmp_path):
    np.savez(tmp_path / "other.npz", x=np.arange(3))
    np.save(tmp_path / "array.npy", np.arange(3))
    (tmp_path / "text.npz").write_text("label,1\n")
    (tmp_path / "pickle.npz").write_bytes(pickle.dumps(Bomb()))
    (tmp_path / "folder").mkdir()
    for name, reason in {
        "other.npz": "it holds .'x'., not codes and meta",
        "array.npy": "it is neither a folder nor a .npz file",
        "text.npz": "it is neither a folder nor a .npz file",
        "pickle.npz": "it is neither a folder nor a .npz file",
        "folder": "it lacks meta.json",
    }.items():
        with pytest.raises(ValueError, match=rf"not a readable ensemble \({reason}\)"):
            Ensemble.load(tmp_path / name)


def test_pickles_are_never_opened(path):
    example_ensemble().save(path)
    bombs = np.array([[Bomb()]], dtype=object)
    for codes, meta in ((bombs, np.str_("{}")), (np.zeros((1, 1)), bombs)):
        if path.is_dir():
            np.save(codes_file(path), bombs, allow_pickle=True)
        else:
            np.savez(path, codes=codes, meta=meta)
        with pytest.raises(
            ValueError, match=r"not a readable .*(another program|Python objects)"
        ):
            Ensemble.load(path)
