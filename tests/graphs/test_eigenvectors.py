"""Leading eigenvectors by iteration, beside those of the whole matrix."""

import numpy as np
import pytest
from scipy.linalg import block_diag

from gpu_consensus.graphs.eigenvectors import iterate_eigenvectors


def stochastic(rng, size):
    """A random matrix whose largest eigenvalue is 1."""
    ties = rng.random((size, size))
    ties += ties.T
    root = np.sqrt(ties.sum(axis=1))
    return ties / root / root[:, None]


@pytest.mark.parametrize("n_vectors", [1, 4, 7])
def test_equal_eigenvalues_are_all_found(n_vectors):
    rng = np.random.default_rng(0)
    matrix = block_diag(*(stochastic(rng, size) for size in (30, 7, 60, 12, 5)))
    start = rng.random(len(matrix)) + 0.5
    values, vectors = iterate_eigenvectors(
        matrix.__matmul__, len(matrix), n_vectors, start
    )
    expected = np.linalg.eigvalsh(matrix)[-n_vectors:]
    assert np.sort(values) == pytest.approx(expected)
    assert vectors.T @ vectors == pytest.approx(np.eye(n_vectors), abs=1e-8)
    assert matrix @ vectors == pytest.approx(vectors * values, abs=1e-8)


def test_a_matrix_of_low_rank():
    rng = np.random.default_rng(1)
    factor = rng.standard_normal((50, 3))
    matrix = factor @ factor.T
    values, _ = iterate_eigenvectors(matrix.__matmul__, 50, 3, rng.random(50))
    assert np.sort(values) == pytest.approx(np.linalg.eigvalsh(matrix)[-3:])
