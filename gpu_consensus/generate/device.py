"""Basic partitions made on a CUDA device by cuML's k-means; X never leaves it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends import (
    BackendError,
    require_device,
    why_no_device,
    why_not_imported,
)
from gpu_consensus.backends.cupy.streamed_codes import upload
from gpu_consensus.backends.device_errors import cuda_errors
from gpu_consensus.backends.profiling import stage
from gpu_consensus.generate import clusterers as bases
from gpu_consensus.generate import views
from gpu_consensus.generate.store import digest
from gpu_consensus.util.arrays import on_device, to_host
from gpu_consensus.util.sparse import is_sparse
from gpu_consensus.util.tables import check_features
from gpu_consensus.util.warn import warn

# powers of two whose squares, and sums of them, are still floats of 64 and 32 bits
_SQUARES, _SMALL_SQUARES = 400, 40


def why_not_on_device(X: Any, base: Any) -> str:
    """Return why partitions of ``X`` cannot be made on a device, or an empty string."""
    reason = why_no_device()
    if reason:
        return reason
    if is_sparse(X):
        return "cuML clusters dense features only; generate with backend='numpy'."
    if not isinstance(base, str):
        return (
            "only base='kmeans' is made on the device; generate with backend='numpy'."
        )
    if importlib.util.find_spec("cuml") is None:
        return (
            "cuML is not installed; run pip install 'gpu-consensus[cuml12]' (or "
            "cuml13), or generate with backend='numpy'."
        )
    with _keeping_allocator():
        broken = why_not_imported("cuml.cluster")
    return broken and f"{broken}, or generate with backend='numpy'."


@contextmanager
def _keeping_allocator() -> Iterator[None]:
    """Put CuPy's allocator back: cuML's import gives the whole process that of RMM.

    Otherwise free memory, and limits set by the user, would be those of a pool that is
    no longer used.
    """
    cuda = require_device().cuda
    allocator = cuda.get_allocator()
    try:
        yield
    finally:
        # inside its `using_allocator` CuPy does not allow it, and nothing changes there
        if cuda.get_allocator() != allocator:
            cuda.set_allocator(allocator)


@contextmanager
def _needing_cublas() -> Iterator[None]:
    """Say what is missing where a matrix product finds no cuBLAS."""
    try:
        yield
    except ImportError as error:  # how CuPy words it
        if "cublas" not in str(error).lower():
            raise
        raise BackendError(
            "matrix products on a CUDA device need cuBLAS, which is not installed; run "
            "pip install 'gpu-consensus[cuml12]' (or cuml13), or generate with "
            "backend='numpy'."
        ) from error


def cuml_kmeans(X: Any, n_clusters: int, seed: int, max_iter: int = 100) -> Any:
    """Return cuML's k-means fitted to features on the device."""
    with _keeping_allocator():
        from cuml.cluster import KMeans

    # n_init: "auto" would mean ten; tol: 0 is refused; seed: cuML takes 31 bits
    return KMeans(
        n_clusters=n_clusters,
        n_init=1,
        max_iter=max_iter,
        tol=1e-4,
        random_state=seed % 2**31,
        output_type="cupy",
    ).fit(X)


def check_form(X: Any) -> Any:
    """Return features on the device, or raise if they are no table of numbers."""
    if X.ndim != 2 or X.dtype.kind not in "biuf" or 0 in X.shape:
        raise ValueError(
            f"X has shape {X.shape} and type {X.dtype}; it should be a table of "
            "numbers, (n_samples, n_features)."
        )
    return X


def load_features(X: Any, metric: str) -> Any:
    """Copy checked features to the device once; rows of unit length for "cosine"."""
    xp = require_device()
    if not on_device(X):
        with stage("upload"):
            X = upload(xp, np.ascontiguousarray(check_features(X)))
    elif check_form(X).dtype.kind != "f" or X.dtype.itemsize < 4:
        X = X.astype(np.float32)
    bad = ~xp.isfinite(X).all(axis=1)
    if bool(bad.any()):
        raise ValueError(
            f"X has NaN or infinity in row {int(bad.argmax())}; fill the gaps or drop "
            "the rows."
        )
    if metric == "cosine":
        length = xp.sqrt((X * X).sum(axis=1, keepdims=True))
        X = X / xp.where(length == 0, 1, length).astype(X.dtype)
    return X


def column_scale(X: Any, strategy: str) -> npt.NDArray[np.float64] | None:
    """As :func:`views.column_scale`, for features on the device."""
    if strategy != "zipf":
        return None
    largest = to_host(abs(X).max(axis=0)).astype(np.float64)
    units = np.frexp(largest)[1].astype(np.int64)
    units[abs(units) <= (_SQUARES if X.dtype.itemsize == 8 else _SMALL_SQUARES)] = 0
    if units.any():  # their squares are no floats: as if in other units
        X = X * require_device().asarray(np.ldexp(1.0, -units).astype(X.dtype))
    deviation = np.ldexp(to_host(X.std(axis=0)).astype(np.float64), units)
    # rounding errors are all the spread that a constant column may show
    constant = to_host(X.max(axis=0) == X.min(axis=0)) | (deviation == 0)
    return 1 / np.where(constant, 1, deviation)


@dataclass(frozen=True)
class DeviceMaker:
    """Everything a partition needs but its seed, with ``X`` on the device.

    Labels come from cuML, whose float atomics make them differ from run to run even
    with the same seed; store the partitions to have them again.
    """

    X: Any
    recipe: views.Recipe
    metric: str
    complete: bool
    scale: npt.NDArray[np.float64] | None
    max_iter: int

    def to_device(self, array: Any) -> Any:
        """Copy an array to the device."""
        return require_device().asarray(array)

    def empty(self, shape: tuple[int, ...]) -> Any:
        """Return room for codes on the device."""
        return require_device().empty(shape, np.uint8)

    def describe(self) -> dict[str, Any]:
        """Describe the call, for a checkpoint."""
        return {
            "shape of X": list(self.X.shape),
            "type of X": str(self.X.dtype),
            "hash of X": digest(to_host(self.X)),
            "base": f"{bases.describe('kmeans')} of cuML",
            "metric": self.metric,
            "complete": self.complete,
            "max_iter": self.max_iter,
            **asdict(self.recipe),
        }

    def make(self, i: int, seed: np.random.SeedSequence) -> tuple[int, Any, int]:
        """Make partition ``i``: its number, its codes on the device and K_i."""
        with stage("generation"), cuda_errors(), _needing_cublas():
            return self._make(i, seed)

    def _make(self, i: int, seed: np.random.SeedSequence) -> tuple[int, Any, int]:
        xp = require_device()
        rng = np.random.default_rng(seed)
        n = self.X.shape[0]
        view = views.draw_view(
            self.X, self.recipe, self.scale, rng, to_device=xp.asarray
        )
        rows = views.draw_rows(n, self.recipe, rng)
        sample = view if rows is None else view[xp.asarray(rows)]
        k_range = self.recipe.range_of(i)
        assert k_range is not None
        k = views.draw_k(sample, k_range, rng)
        model = cuml_kmeans(sample, k, int(rng.integers(2**31)), self.max_iter)
        # empty clusters keep their centroid in cuML, so labels may skip values
        used, numbers = xp.unique(model.labels_, return_inverse=True)
        n_labels = len(used)
        codes = xp.full(n, n_labels, np.uint8 if n_labels <= 255 else np.uint16)
        if rows is None:
            codes[:] = numbers
            return i, codes, n_labels
        codes[xp.asarray(rows)] = numbers
        if self.complete:
            others = np.setdiff1d(np.arange(n), rows, assume_unique=True)
            place = xp.asarray(others)
            codes[place] = _nearest_used(model, used, view[place])
        return i, codes, n_labels


def _nearest_used(model: Any, used: Any, X: Any) -> Any:
    """Return which of the ``used`` centroids is the nearest to each row.

    A centroid that lost its rows may still be nearest of all; its rows go to the next.
    """
    xp = require_device()
    predicted = model.predict(X)
    near = xp.minimum(xp.searchsorted(used, predicted), len(used) - 1)
    lost = xp.flatnonzero(used[near] != predicted)
    if lost.size:
        centroids = xp.asarray(model.cluster_centers_)[used]
        bias = (centroids * centroids).sum(axis=1) / 2
        near[lost] = (X[lost] @ centroids.T - bias).argmax(axis=1)
    return near


def wants_device(backend: str, X: Any, base: Any) -> bool:
    """Whether to generate on the device; an explicit "cupy" runs or raises.

    With "auto", features on a device stay there, or a warning says why not.
    """
    if backend == "cupy":
        reason = why_not_on_device(X, base)
        if reason:
            raise BackendError(f"backend='cupy' cannot generate partitions: {reason}")
        return True
    if backend != "auto" or not on_device(X):
        return False
    reason = why_not_on_device(X, base)
    if reason:
        warn(f"X is on a CUDA device but is copied to the host for this: {reason}")
    return not reason
