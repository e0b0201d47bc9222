"""The data of ``bench select-k``, and a table of it."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from bench import select_k, select_k_data
from bench.suite import Context


@pytest.mark.parametrize("layout", select_k_data.LAYOUTS)
@pytest.mark.parametrize(("k", "d"), [(2, 2), (8, 2), (5, 20)])
def test_nearest_centres_are_so_far_apart(k, d, layout):
    rng = np.random.default_rng(0)
    found = select_k_data.centres(rng, k, d, 7.0, layout)
    nearest = cdist(found, found)[~np.eye(k, dtype=bool)].reshape(k, k - 1).min(axis=1)
    assert found.shape == (k, d)
    assert nearest.min() == pytest.approx(7)
    if layout == "near":
        assert nearest == pytest.approx(np.full(k, 7.0))


def test_sizes_fall_to_a_share():
    X, y = select_k_data.blobs(np.random.default_rng(0), 3, 2, 7.0, "near", 20.0)
    sizes = np.bincount(y)
    assert len(X) == sizes.sum() == select_k_data.N
    assert 18 < sizes[0] / sizes[2] < 22
    for k in range(3):  # of unit deviation around their own centres
        assert X[y == k].std(axis=0) == pytest.approx(np.ones(2), abs=0.4)


def test_data_of_one_mode_has_its_shape():
    makers = select_k_data.ONE_MODE | select_k_data.UNIFORM
    for make in makers.values():
        for d in select_k_data.DIMENSIONS:
            X = make(np.random.default_rng(0), d)
            assert X.shape == (select_k_data.N, d)
            assert np.isfinite(X).all()


def test_known_sets_are_a_table_with_claims():
    table = select_k._real(Context(quick=True))
    assert [row["set"] for row in table.rows] == ["iris", "wine"]
    assert [claim.passed for claim in table.claims] == [True, True, None]
    assert table.skipped[0].name == "breast_w"
