"""Features mapped from a file give the partitions of features in memory."""

import errno
import os

import numpy as np
import pytest

import gpu_consensus as gpc
from gpu_consensus.generate import rows as rows_module
from gpu_consensus.util.arrays import is_mapped


def mapped(tmp_path, kind=np.float32, n=1500):
    X = np.random.default_rng(0).normal(size=(n, 6)).astype(kind)
    np.save(tmp_path / "X.npy", X)
    return X, np.load(tmp_path / "X.npy", mmap_mode="r")


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("rps", {}),
        ("rps", {"metric": "cosine"}),
        ("rows", {"sample_share": 0.8}),
        ("rows", {"sample_share": 0.2, "complete": True}),
        ("rfs", {}),
        ("projection", {}),
        ("zipf", {}),
        ("restarts", {}),
    ],
)
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int16])
def test_partitions_are_those_in_memory(tmp_path, monkeypatch, strategy, options, kind):
    X, there = mapped(tmp_path, kind)
    monkeypatch.setattr(rows_module, "MAPPED_BYTES", 0)
    call = {"strategy": strategy, "n_clusters": 5, "random_state": 1, **options}
    in_memory = gpc.generate_partitions(X, 6, **call)
    from_file = gpc.generate_partitions(there, 6, **call, output=tmp_path / "ens")
    np.testing.assert_array_equal(in_memory.codes, from_file.codes)


def test_rows_of_mapped_features_are_mapped(tmp_path, monkeypatch):
    X, there = mapped(tmp_path)
    monkeypatch.setattr(rows_module, "MAPPED_BYTES", 0)
    for metric in ("euclidean", "cosine"):
        assert is_mapped(rows_module.prepare(there, metric).X)
        assert not is_mapped(rows_module.prepare(X, metric).X)
    monkeypatch.undo()
    assert not is_mapped(rows_module.prepare(there, "euclidean").X)


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="asked of POSIX alone")
def test_a_disk_that_is_too_small_is_one_sentence(tmp_path, monkeypatch):
    _, there = mapped(tmp_path)

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(rows_module, "MAPPED_BYTES", 0)
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(
        OSError, match=r"X take 36\.0 kB in .* \(No space left on device"
    ):
        gpc.generate_partitions(there, 3, n_clusters=2)
