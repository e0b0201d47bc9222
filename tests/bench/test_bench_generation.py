"""The table of generation: what it measures, what it says where data are missing."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from bench.speed_generation import generation_table
from bench.suite import Context


def test_both_are_timed_and_compared_on_bundled_data():
    with threadpool_limits(1):  # threads that spin take long on a busy machine
        table = generation_table(Context(quick=True, seeds=(0,)))
    assert [row["metric"] for row in table.rows] == ["euclidean", "cosine"]
    for row in table.rows:
        assert row["ratio"] == pytest.approx(row["kmeans_s"] / row["ours_s"])
        assert row["ours_s"] > 0
        assert row["difference"] == pytest.approx(row["ours_rn"] - row["kmeans_rn"])
        assert min(row["ours_rn"], row["kmeans_rn"]) > 0.4  # of ten clear classes
    assert not table.claims  # nothing is promised for these
    assert "pendigits" in table.skipped[0].name


def test_missing_and_damaged_files_are_named(tmp_path):
    (tmp_path / "letter.npz").write_bytes(b"no archive")
    np.savez(tmp_path / "mnist.npz", X=np.zeros((3, 2)), y=np.zeros(2))
    table = generation_table(Context(data_dir=tmp_path))
    reasons = {entry.name: entry.reason for entry in table.skipped}
    assert "pendigits.npz is not in the data folder" in reasons["pendigits"]
    assert "letter.npz cannot be used" in reasons["letter"]
    assert "mnist.npz has 3 rows but 2 classes" in reasons["mnist"]
    assert not table.rows
