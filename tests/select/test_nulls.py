"""Data of one mode: the nearest distribution function, and what draws keep."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import pdist
from scipy.stats import rankdata

from gpu_consensus.select import nulls


def line(x, y, i, j, k):
    return y[k] if i == j else y[i] + (y[j] - y[i]) * (x[k] - x[i]) / (x[j] - x[i])


def by_all_lines(x, y, mode):
    """The lowest line through two points left of the mode, the highest one right."""
    n = len(x)
    left = [
        min(line(x, y, i, j, k) for i in range(k + 1) for j in range(k, mode + 1))
        for k in range(mode + 1)
    ]
    right = [
        max(line(x, y, i, j, k) for i in range(mode, k + 1) for j in range(k, n))
        for k in range(mode, n)
    ]
    return np.array(left + right[1:])


@given(
    st.lists(st.integers(-20, 20), min_size=3, max_size=14).filter(
        lambda values: len(set(values)) >= 3
    ),
    st.integers(2, 9),
)
def test_nearest_distribution_function_of_one_mode(values, n_modes):
    found = nulls.nearest_unimodal(np.array(values, dtype=float), n_modes)
    points = sorted(set(values))
    x = np.array([2 * points[0] - points[1], *points], dtype=float)
    y = np.array([np.mean(np.array(values) <= at) for at in x])
    modes = {round(at) for at in np.linspace(0, len(x) - 1, n_modes)}
    apart = {mode: np.abs(by_all_lines(x, y, mode) - y).max() for mode in modes}
    ours = np.interp(x, found.x, found.share)
    assert np.abs(ours - y).max() == pytest.approx(min(apart.values()))
    assert any(
        np.allclose(ours, by_all_lines(x, y, mode))
        for mode in modes
        if apart[mode] <= min(apart.values()) + 1e-9
    )
    slopes = np.diff(found.share) / np.diff(found.x)
    top = slopes.argmax()
    assert (np.diff(slopes[: top + 1]) >= -1e-9).all()
    assert (np.diff(slopes[top:]) <= 1e-9).all()


def test_few_values_are_spread_evenly():
    found = nulls.nearest_unimodal(np.array([1.0, 3.0, 3.0]))
    assert found.quantiles(np.array([0.0, 0.5, 1.0])).tolist() == [1, 2, 3]
    assert nulls.nearest_unimodal(np.ones(4)).quantiles(np.array([0.3])) == [1]


@pytest.mark.parametrize("shape", [(60, 4), (12, 40)])
def test_draws_keep_variances(shape):
    rng = np.random.default_rng(0)
    X = np.exp(rng.normal(size=shape)) @ rng.normal(size=(shape[1], shape[1]))
    scores, deviation = nulls.principal_scores(X)
    assert np.allclose(pdist(scores), pdist(X))
    assert np.allclose(pdist(nulls.compact(X)), pdist(X))
    assert np.allclose(scores.std(axis=0, ddof=1), deviation)
    components = nulls.unimodal_components(X)(rng)
    assert np.allclose(components.std(axis=0, ddof=1), deviation)
    columns = nulls.unimodal_columns(X)(rng)
    assert columns.shape == X.shape
    assert np.allclose(columns.std(axis=0), X.std(axis=0))
    assert nulls.gaussian(X)(rng).shape == scores.shape


def test_columns_are_tied_and_components_are_not():
    rng = np.random.default_rng(1)
    a = rng.normal(size=2000)
    X = np.column_stack([a, np.exp(0.9 * a + 0.3 * rng.normal(size=2000)), -(a**3)])
    drawn = nulls.unimodal_columns(X)(rng)
    ranks = [np.corrcoef(rankdata(Y, axis=0).T) for Y in (X, drawn)]
    assert np.allclose(*ranks, atol=0.06)
    drawn = nulls.unimodal_components(X)(rng)
    assert np.allclose(np.corrcoef(drawn.T), np.eye(3), atol=0.08)


def test_a_turned_box_shows_its_sides():
    """Along them its scores are even; along principal components they are not."""
    rng = np.random.default_rng(3)
    turn, _ = np.linalg.qr(rng.normal(size=(5, 5)))
    X = rng.random((600, 3)) @ turn[:3] + 0.02 * rng.normal(size=(600, 5))
    scores, deviation = nulls.principal_scores(X)
    even = scores[:, :3] / deviation[:3]
    axes = nulls.flattest_axes(even)
    assert np.allclose(axes @ axes.T, np.eye(3))
    kurtosis = ((even @ axes) ** 4).mean(axis=0)
    assert (np.abs(kurtosis - 1.8) < 0.15).all()
    assert kurtosis.sum() < (even**4).sum(axis=1).mean() - 0.3
    # no turn of a pair makes them flatter
    for i, j in ((0, 1), (0, 2), (1, 2)):
        a, b = (even @ axes)[:, [i, j]].T
        for t in np.linspace(0, np.pi / 2, 50):
            turned = np.cos(t) * a + np.sin(t) * b, np.cos(t) * b - np.sin(t) * a
            assert (np.array(turned) ** 4).sum() >= (a**4 + b**4).sum() - 1e-3
    drawn = nulls.unimodal_axes(X)(rng)
    assert np.allclose(np.cov(drawn.T), np.diag(deviation**2), atol=0.02)


def test_two_modes_become_one():
    rng = np.random.default_rng(2)
    X = np.concatenate([rng.normal(-5, 1, 300), rng.normal(5, 1, 300)])[:, None]
    for make in (
        nulls.unimodal_components,
        nulls.unimodal_columns,
        nulls.unimodal_axes,
    ):
        drawn = make(X)(rng)[:, 0]
        middle = (np.abs(drawn) < 2).mean()
        assert middle > 0.1 > (np.abs(X) < 2).mean() + 0.09
