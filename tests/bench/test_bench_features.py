"""Data for the benchmark that comes from files."""

import numpy as np
import pytest
import scipy.sparse

from bench.features import load_features
from bench.suite import Context


def test_features_are_read_dense_sparse_or_not_at_all(tmp_path):
    X, y = np.arange(12).reshape(4, 3) % 5, np.array([[1], [2], [2], [3]])
    np.savez(tmp_path / "dense.npz", X=X.astype(np.uint8), y=y)
    sparse = scipy.sparse.csr_matrix(X)
    parts = {name: getattr(sparse, name) for name in ("data", "indices", "indptr")}
    np.savez(tmp_path / "text.npz", y=y, shape=sparse.shape, **parts)
    np.savez(tmp_path / "short.npz", X=X, y=y[:3])
    context = Context(data_dir=tmp_path)
    dense, text = (load_features(context, name) for name in ("dense", "text"))
    assert not dense.is_text
    assert text.is_text
    assert np.array_equal(dense.X, X)
    assert np.array_equal(text.X.toarray(), X)
    assert dense.n_clusters == text.n_clusters == 3
    with pytest.raises(ValueError, match=r"short.npz cannot be used \(X is \(4, 3\)"):
        load_features(context, "short")
    with pytest.raises(ValueError, match=r"other.npz is not in the data folder"):
        load_features(context, "other")
    with pytest.raises(ValueError, match=r"needs --data-dir with mm.npz"):
        load_features(Context(), "mm")
    assert load_features(Context(), "wine").X[:, -1].max() < 20
