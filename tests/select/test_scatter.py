"""The scatter within clusters, and the test of it."""

import numpy as np
import pytest
from sklearn.cluster import KMeans

from gpu_consensus.select import scatter
from gpu_consensus.select.kept import Kept
from gpu_consensus.select.runner import Runner


def test_scatter_is_that_of_k_means():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4, 3))[np.arange(80) % 4] * 20 + rng.normal(size=(80, 3))
    X = 1e3 * X + 1e5
    found = scatter.scatter_of(X, (2, 4)).of(X, np.random.SeedSequence(0))
    for k, value in zip((2, 4), found, strict=True):
        best = KMeans(k, n_init=20, random_state=0).fit(X).inertia_
        assert value == pytest.approx(np.log(best), abs=1e-4)


def test_points_have_a_least_scatter():
    X = np.repeat(np.array([[0.0], [1.0]]), 5, axis=0)
    found = scatter.scatter_of(X, (2,)).of(X, np.random.SeedSequence(0))
    assert found == [pytest.approx(np.log(2.5e-12))]


def literal_z(values):
    """Row by row, by the mean and deviation of the others."""
    found = []
    for i, row in enumerate(values):
        others = np.delete(values, i, axis=0)
        deviation = np.sqrt(np.maximum(others.var(axis=0, ddof=1), 1e-12))
        found.append(((row - others.mean(axis=0)) / deviation).max())
    return np.array(found)


def test_largest_z_leaves_each_row_out():
    values = np.random.default_rng(0).normal(100, 1, size=(8, 5))
    values[:, 2] = 7  # no variance: floored
    assert np.allclose(scatter.largest_z(values), literal_z(values))


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("separated", [False, True])
def test_draws_end_as_one_by_one(separated, n_threads):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(50, 2))
    X[::2] += 12 if separated else 0.5
    measure = scatter.scatter_of(X, (2, 3))
    real = np.array(measure.of(X, np.random.SeedSequence(1)))
    runner = Runner(Kept(None, {}, 7), n_threads, progress=False)
    name = "unimodal columns"
    found = scatter.compare_with_null(X, real, measure, name, 19, 0.1, runner)
    draw = scatter.NULLS[name](X)
    rows = [-real]
    for b in range(19):
        first, second = runner.seed_of("null", 1, b).spawn(2)
        rows.append(-np.array(measure.of(draw(np.random.default_rng(first)), second)))
        if b + 1 < 10:
            continue
        z = literal_z(np.array(rows))
        above = int((z[1:] >= z[0]).sum())
        if above >= 2:
            break
    assert np.array_equal(-found.drawn, rows[1:])
    assert found.p_value == (1 + above) / len(rows)
    assert (len(rows) == 20) == separated
    below = [(1 + (np.array(rows)[1:, k] >= rows[0][k]).sum()) for k in range(2)]
    assert found.p_by_k.tolist() == [number / len(rows) for number in below]
