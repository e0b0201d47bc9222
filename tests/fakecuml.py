"""A stand-in for the one cuML class we use, with the traps of the real one.

Clustering is scikit-learn's, on the host; labels come back as CuPy arrays.
"""

import contextlib
import sys
import types
from importlib.machinery import ModuleSpec

import numpy as np
import sklearn.cluster
from scipy.spatial.distance import cdist

STRAY = 4.5  # where the emptied clusters left their centroids, in every coordinate


def make_kmeans(cupy, kind):
    """Return the class, with labels of a type: int32, or int64 as for large n * d."""

    class KMeans:
        def __init__(self, *, n_init, tol, random_state, output_type, **options):
            assert n_init == 1, "'auto' and ten restarts waste time"
            assert tol > 0, "cuML refuses tol=0"
            assert 0 <= random_state < 2**31
            assert output_type == "cupy"
            self._model = sklearn.cluster.KMeans(
                n_init=1, tol=tol, random_state=random_state, **options
            )

        def fit(self, X):
            assert isinstance(X, cupy.ndarray), "X should be on the device"
            assert X.dtype.kind == "f"
            labels = self._model.fit(X.get()).labels_
            # every other label is skipped, as if those clusters had emptied
            self.labels_ = cupy.asarray(2 * labels.astype(kind))
            centers = np.repeat(self._model.cluster_centers_, 2, axis=0)
            centers[1::2] = STRAY
            self.cluster_centers_ = cupy.asarray(centers)
            return self

        def predict(self, X):
            apart = cdist(X.get(), self.cluster_centers_.get())
            return cupy.asarray(apart.argmin(axis=1).astype(kind))

    return KMeans


@contextlib.contextmanager
def installed(cupy, kind=np.int32):
    """Make ``import cuml`` find the stand-in."""
    cuml, cluster = types.ModuleType("cuml"), types.ModuleType("cuml.cluster")
    cuml.__spec__ = ModuleSpec("cuml", loader=None, is_package=True)
    cluster.__spec__ = ModuleSpec("cuml.cluster", loader=None)
    cuml.__path__ = []
    cuml.cluster = cluster

    def load(name):
        """Do on first use what the real one does when it is imported."""
        if name != "KMeans":
            raise AttributeError(name)
        cupy.cuda.set_allocator("RMM's")
        cluster.KMeans = make_kmeans(cupy, kind)
        return cluster.KMeans

    cluster.__getattr__ = load
    before = {name: sys.modules.get(name) for name in ("cuml", "cuml.cluster")}
    sys.modules.update({"cuml": cuml, "cuml.cluster": cluster})
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
