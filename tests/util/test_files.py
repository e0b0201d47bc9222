"""No file is believed: type, size and shape are checked before it is read."""

import io
import os
import struct
import zipfile

import numpy as np
import pytest

from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.util.files import FileError, read_npy, read_npz


def header(shape, descr="<f8", order=False):
    file = io.BytesIO()
    words = {"descr": descr, "fortran_order": order, "shape": shape}
    np.lib.format.write_array_header_1_0(file, words)
    return file.getvalue()


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6, dtype=np.int8).reshape(2, 3)),
        np.array("text"),
        np.array(["ä", "bc"]),
        np.empty((0, 3)),
        np.array(["2020-01-01"], "M8[D]"),
        np.arange(3, dtype=">i4"),
    ],
    ids=lambda array: str(array.dtype),
)
def test_arrays_come_back(tmp_path, array, mmap):
    np.save(tmp_path / "a.npy", array)
    np.savez_compressed(tmp_path / "a.npz", a=array)
    for found in (
        read_npy(tmp_path / "a.npy", mmap=mmap),
        read_npz(tmp_path / "a.npz", ["a", "b"])["a"],
    ):
        assert found.dtype == array.dtype
        assert found.shape == array.shape
        assert found.tolist() == array.tolist()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (header((10**9, 10**6)) + bytes(80), "has only 80 B of them"),
        (header((2**62, 2**62)), "has only 0 B of them"),
        (header((3, 4))[:30], "damaged"),
        (header((3,)) + bytes(23), "has only 23 B"),
        (header((10**18,), "<U0"), "entries of type"),
        (header((1,), "|O") + b"cos\nsystem\n", "Python objects"),
        (header((1,), [("a", "<f8")]) + bytes(8), "entries of type"),
        (b"\x93NUMPY\x01\x00" + struct.pack("<H", 10) + b"{'a':(((\n ", "damaged"),
        (b"\x93NUMPY\x09\x00" + bytes(99), "damaged|version"),
        (b"", "damaged"),
        (b"hello", "damaged"),
        (b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31), "damaged"),
    ],
)
def test_headers_that_promise_too_much(tmp_path, content, reason):
    path = tmp_path / "a.npy"
    path.write_bytes(content)
    for mmap in (False, True):
        with pytest.raises(FileError, match=reason) as caught:
            read_npy(path, mmap=mmap)
        assert "\n" not in str(caught.value)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", content)
    with pytest.raises(FileError, match=reason):
        read_npz(tmp_path / "a.npz", ["a"])


def patched(path, offsets, value):
    """Change a byte of every header in a zip file."""
    content = bytearray(path.read_bytes())
    for mark, offset in offsets:
        at = content.find(mark)
        while at >= 0:
            content[at + offset] = value
            at = content.find(mark, at + 4)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("offsets", "value", "reason"),
    [
        ([(b"PK\x01\x02", 8), (b"PK\x03\x04", 6)], 1, "is encrypted"),
        ([(b"PK\x01\x02", 10), (b"PK\x03\x04", 8)], 99, "is packed by other means"),
    ],
)
def test_archives_that_cannot_be_opened(tmp_path, offsets, value, reason):
    path = tmp_path / "a.npz"
    np.savez(path, a=np.arange(3))
    patched(path, offsets, value)
    with pytest.raises(FileError, match=reason):
        read_npz(path, ["a"])


def test_a_damaged_part_of_an_archive(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, a=np.random.default_rng(0).normal(size=999))
    content = bytearray(path.read_bytes())
    for place in range(60, len(content) - 80, 97):
        damaged = content.copy()
        damaged[place] ^= 0xFF
        path.write_bytes(damaged)
        with pytest.raises(FileError):
            read_npz(path, ["a"])


def test_an_archive_that_explodes(tmp_path):
    path = tmp_path / "bomb.npz"
    size = 1 << 29
    zeros = bytes(1 << 20)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("codes.npy", "w") as file:
            file.write(header((1, size), "|u1"))
            for _ in range(size >> 20):
                file.write(zeros)
        archive.writestr("meta.npy", b"")
    with pytest.raises(ValueError, match=r"would unpack from .* to 536.9 MB, as no"):
        Ensemble.load(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_devices_and_pipes_are_not_waited_for(tmp_path):
    pipe = tmp_path / "pipe.npz"
    os.mkfifo(pipe)
    for path in (pipe, "/dev/zero", "/dev/stdin"):
        with pytest.raises(ValueError, match="it is a device or a pipe, not a file"):
            Ensemble.load(path)
    with pytest.raises(FileError, match="a folder"):
        read_npy(tmp_path)


def test_links_out_of_the_folder_of_an_ensemble(tmp_path):
    Ensemble.from_partitions([[0, 1, 1]]).save(tmp_path / "a")
    (codes,) = (tmp_path / "a").glob("codes-*.npy")
    elsewhere = codes.rename(tmp_path / codes.name)
    codes.symlink_to(elsewhere)
    with pytest.raises(ValueError, match="is a link, and the folder of an ensemble"):
        Ensemble.load(tmp_path / "a")
