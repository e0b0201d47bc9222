"""An index that is out of range is found before compiled code believes it."""

import numpy as np
import pytest
from scipy import sparse

import gpu_consensus as gpc
from gpu_consensus.util.sparse import check_sparse
from gpu_consensus.util.tables import check_features

FORMATS = ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"]


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("form", FORMATS)
def test_good_ones_of_every_format(form, kind):
    dense = np.random.default_rng(0).integers(3, size=(6, 4)).astype(float)
    X = kind(dense).asformat(form)
    assert (check_sparse("X", X).toarray() == dense).all()
    assert (check_features(X).toarray() == dense).all()


def damaged(form, index):
    """Return a 6 x 3 matrix with one index that points elsewhere."""
    X = sparse.csr_array(np.eye(6, 3)).asformat(form)
    if form == "coo":
        X.coords[1][0] = index
    elif form == "lil":
        X.rows[0][0] = index
    elif form == "dok":
        X._dict[(0, index)] = 1.0
    else:
        X.indices[0] = index
    return X


@pytest.mark.parametrize("index", [10**6, 6, -1])
@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr"])
def test_an_index_out_of_range(form, index):
    X = damaged(form, index)
    calls = [
        lambda: gpc.generate_partitions(X, 2, "projection", n_clusters=2),
        lambda: gpc.metrics.compactness(X, [0] * 6),
        lambda: gpc.ConsensusClustering(2, n_partitions=2).fit(X),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"^X is damaged: a \w+ index is .* anew"):
            call()


@pytest.mark.parametrize(
    "starts", [[0, 9, 2, 3], [1, 1, 2, 3], [0, 1, 2, 10**6], [0, 2, 1, 3], [0, 1]]
)
def test_rows_that_begin_nowhere(starts):
    X = sparse.csr_array(np.eye(3))
    X.indptr = np.array(starts, dtype=np.int32)
    with pytest.raises(ValueError, match=r"^X is damaged: it"):
        check_features(X)


def test_what_was_sorted_once_is_not_believed():
    X = sparse.csr_array(np.array([[1.0, 2.0, 3.0]]))
    assert X.has_canonical_format
    X.indices[:] = [2, 0, 0]
    assert check_features(X).toarray().tolist() == [[5.0, 0.0, 1.0]]


def test_diagonals_that_are_there_twice():
    X = sparse.dia_array((np.ones((2, 3)), [0, 1]), shape=(3, 3))
    X.offsets = np.array([0, 0])
    with pytest.raises(ValueError, match="a diagonal is there twice"):
        check_features(X)


def test_one_dimension():
    with pytest.raises(ValueError, match="X has 1 dimensions but a table has 2"):
        check_features(sparse.coo_array(np.ones(3)))
