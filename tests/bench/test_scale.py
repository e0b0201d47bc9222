"""Most labels missing, codes on disk: the shape of SEC's paper, smaller."""

import numpy as np
import pytest

import gpu_consensus as gpc
from bench import scale
from bench.suite import Context
from gpu_consensus.backends import why_unavailable

pytestmark = pytest.mark.skipif(
    bool(why_unavailable("native")), reason="no compiled library"
)


def test_the_ensemble_is_what_it_is_said_to_be(tmp_path, monkeypatch):
    monkeypatch.setattr(scale, "_BLOCK", 7000)
    scale.make(tmp_path / "e", 30_000, 5_000, lambda: None)
    ensemble = gpc.Ensemble.load(tmp_path / "e")
    assert ensemble.codes.shape == (100, 30_000)
    assert (ensemble.n_samples - ensemble.n_missing == 5_000).all()
    assert (ensemble.n_labels == 100).all()
    true = np.concatenate([clusters for _, clusters in scale.truth(30_000)])
    row = ensemble.labels[:, 3]
    joint = np.zeros((100, 100), dtype=int)
    np.add.at(joint, (true[row >= 0], row[row >= 0]), 1)
    kept = joint.max(axis=1).sum() / 5_000
    assert 1 - scale.STRAY < kept < 1 - scale.STRAY + 0.03
    assert len(set(joint.argmax(axis=1))) == 100
    for method in ("sec", "kcc"):
        row = scale.measure(str(tmp_path / "e"), method)
        assert row["present"] == 5_000
        assert row["rand"] > 0.9
        assert 0 < row["median"] < 60
        assert row["n_iter"] >= 2


def test_the_index_is_the_adjusted_rand_index(monkeypatch):
    monkeypatch.setattr(scale, "_BLOCK", 300)
    true = np.concatenate([clusters for _, clusters in scale.truth(1000)])
    labels = np.where(np.arange(1000) % 3 == 0, 5, true).astype(np.int32)
    expected = gpc.metrics.adjusted_rand(true, labels)
    assert scale.recovered(labels) == pytest.approx(expected, abs=1e-12)
    labels[:10] = -1
    expected = gpc.metrics.adjusted_rand(true[10:], labels[10:])
    assert scale.recovered(labels) == pytest.approx(expected, abs=1e-12)


def test_a_disk_that_is_too_small_is_told(tmp_path):
    table = scale.scale_table(Context(data_dir=tmp_path), 10**15, 10**14)
    assert "do not fit the disk" in table.skipped[0].reason
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_hundredth_of_it(tmp_path):
    table = next(scale.run(Context(quick=True, data_dir=tmp_path)))
    assert [row["method"] for row in table.rows] == ["sec", "kcc"]
    for row in table.rows:
        assert row["n"] == 612_129
        assert row["rand"] > 0.9
        assert row["anonymous_gb"] < 0.2
