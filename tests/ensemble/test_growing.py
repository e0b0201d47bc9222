"""Ensembles that are written partition by partition are those made in memory."""

import numpy as np
import pytest

import gpu_consensus as gpc
from gpu_consensus.ensemble import growing as growing_module
from gpu_consensus.ensemble.growing import grow


def same(a, b):
    np.testing.assert_array_equal(a.codes, b.codes)
    assert a.codes.dtype == b.codes.dtype
    for name in ("n_labels", "weights", "marginals"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for one, other in zip(a.categories, b.categories, strict=True):
        assert one.tolist() == other.tolist()


def files(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("part", [7, 1 << 24])
def test_partitions_of_any_kind_are_those_in_memory(tmp_path, monkeypatch, part):
    monkeypatch.setattr(growing_module, "_PART", part)
    many = np.arange(300)
    many[5] = -1
    partitions = [np.tile(["a", "b", None], 100), many % 4, many, many[::-1] % 299]
    weights = [1, 2, 3, 4]
    there = gpc.Ensemble.from_partitions(
        iter(partitions), weights, output=tmp_path / "e"
    )
    assert "mapped from disk" in repr(there)
    same(there, gpc.Ensemble.from_partitions(partitions, weights))
    same(there, gpc.Ensemble.load(tmp_path / "e", verify=True))


def test_generation_writes_what_it_would_return(tmp_path):
    X = np.random.default_rng(0).normal(size=(900, 3))
    options = {"k_range": (200, 300), "random_state": 0, "sample_share": 0.9}
    here = gpc.generate_partitions(X, 12, **options)
    for n_jobs in (1, 3):
        path = tmp_path / f"e{n_jobs}"
        there = gpc.generate_partitions(
            X, 12, **options, n_jobs=n_jobs, output=path, checkpoint=tmp_path / "kept"
        )
        same(here, there)
        assert len(files(path)) == 2


def test_what_was_there_stays_until_all_is_written(tmp_path):
    path = tmp_path / "e"
    gpc.Ensemble.from_partitions([[0, 1]], output=path)
    before = files(path)

    def stop():
        yield [0, 1, 2]
        assert len(files(path)) == 3
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gpc.Ensemble.from_partitions(stop(), output=path)
    assert files(path) == before
    assert gpc.Ensemble.load(path).labels.tolist() == [[0], [1]]
    gpc.Ensemble.from_partitions([[0, 1, 1]], output=path)
    assert len(files(path)) == 2
    assert gpc.Ensemble.load(path).n_samples == 3


def test_a_new_folder_goes_away_when_nothing_is_written(tmp_path):
    with (
        pytest.raises(ValueError, match="partition 1 has 1 labels"),
    ):
        gpc.Ensemble.from_partitions([[0, 1], [0]], output=tmp_path / "e")
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    ("partitions", "name", "error"),
    [
        ([], "e", "empty"),
        ([[]], "e", "empty"),
        ([[0, 1]], "e.npz", "should be a folder"),
        ([[0, 1]], "file", "is not an ensemble"),
        ([[0, 1]], "no/e", "cannot write"),
        ([[0, 1]], "", "is empty"),
    ],
)
def test_bad_input_is_one_sentence(tmp_path, monkeypatch, partitions, name, error):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    with pytest.raises((ValueError, OSError), match=error):
        gpc.Ensemble.from_partitions(partitions, output=name)
    assert files(tmp_path) == ["file"]


def test_more_partitions_than_memory_are_refused_before_the_work(tmp_path):
    X = np.zeros((4, 1))
    refused = pytest.raises(
        (MemoryError, ValueError), match="n_partitions=1000000000000"
    )
    with refused:
        gpc.generate_partitions(X, 10**12, n_clusters=2, output=tmp_path / "e")
    assert files(tmp_path) == []


def test_a_partition_that_is_lacking_is_a_mistake_of_ours(tmp_path):
    with pytest.raises(AssertionError), grow(tmp_path / "e", 2) as ensemble:
        ensemble.put(1, np.array([0, 1]), 2)
    assert files(tmp_path) == []
