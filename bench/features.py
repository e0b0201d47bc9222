"""Features to make partitions from: of the papers' data sets, or those at hand."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.examples import load_example

from .suite import Context

_BUNDLED = ("iris", "wine")
_FORM = (
    "store X and classes y with numpy.savez, or of a sparse matrix its CSR parts data, "
    "indices, indptr and shape"
)


@dataclass(frozen=True)
class Features:
    """A data set with known classes.

    Attributes
    ----------
    name : str
    X : ndarray or CSR matrix of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
    is_text : bool
        Whether it was stored as a sparse matrix of term counts.
    """

    name: str
    X: Any
    y: npt.NDArray[Any]
    is_text: bool

    @property
    def n_clusters(self) -> int:
        """Number of classes."""
        return len(np.unique(self.y))


def load_features(context: Context, name: str) -> Features:
    """Return one data set, or raise a ValueError that says why it cannot be had."""
    folder = context.data_dir
    if folder is not None:
        return _read(folder / f"{name}.npz", name)
    if name not in _BUNDLED:
        raise ValueError(f"needs --data-dir with {name}.npz; {_FORM}.")
    example = load_example(name)
    X = example.X.copy()
    if name == "wine":  # as in Table 5 of the KCC paper
        X[:, -1] /= 100
    return Features(name, X, example.y, False)


def _read(path: Path, name: str) -> Features:
    if not path.is_file():
        raise ValueError(f"{path.name} is not in the data folder; {_FORM}.")
    try:
        with np.load(path, allow_pickle=False) as archive:
            y, is_text = archive["y"].ravel(), "indptr" in archive
            X = _sparse(archive) if is_text else archive["X"].astype(np.float64)
        if X.ndim != 2 or X.shape[0] != len(y):
            raise ValueError(f"X is {X.shape} but y has {len(y)} classes")
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path.name} cannot be used ({error}); {_FORM}.") from error
    return Features(name, X, y, is_text)


def _sparse(archive: Any) -> Any:
    import scipy.sparse

    parts = archive["data"].astype(np.float64), archive["indices"], archive["indptr"]
    return scipy.sparse.csr_matrix(parts, shape=tuple(archive["shape"]))
