"""Ensembles to measure on: the authors' own from a folder, else generated ones."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import gpu_consensus as gpc
from gpu_consensus.examples import load_example

from .suite import Context, Skipped

AUTHORS = ("iris", "wine", "breast_w", "mm", "la12")
BUNDLED = ("iris", "wine", "breast_cancer", "digits")

_WHERE = (
    "the authors' ensembles are in the git history of github.com/linhaobuaa/KCC, "
    "commits f69ab5a..97644c3, folders ablation_KCC; store idx0 (objects x partitions, "
    "binIDX minus the cumulative sum of sumKi) and the classes y with numpy.savez"
)


@dataclass(frozen=True)
class DataSet:
    """An ensemble with known classes.

    Attributes
    ----------
    name : str
    ensemble : Ensemble
    y : ndarray of shape (n_samples,)
    source : str
        Where the ensemble comes from.
    is_authors : bool
        Whether the authors' F can be compared with.
    """

    name: str
    ensemble: gpc.Ensemble
    y: npt.NDArray[Any]
    source: str
    is_authors: bool

    @property
    def n_clusters(self) -> int:
        """Number of classes."""
        return len(np.unique(self.y))


def load_all(
    context: Context, names: Sequence[str] | None = None
) -> tuple[list[DataSet], list[Skipped]]:
    """Return the data sets that can be had, and why the others cannot.

    Parameters
    ----------
    context : Context
        Its ``data_dir`` decides between the authors' ensembles and generated ones.
    names : sequence of str, optional
        Only these.
    """
    folder = context.data_dir
    known = BUNDLED if folder is None else AUTHORS
    found, skipped = [], []
    if folder is None:
        reason = f"needs --data-dir with bp_NAME.npz files; {_WHERE}."
        skipped.append(Skipped(f"authors' ensembles {', '.join(AUTHORS)}", reason))
    for name in known:
        if names is not None and name not in names:
            skipped.append(Skipped(name, "not in this run (--quick)"))
        elif folder is None:
            found.append(_generate(name))
        else:
            try:
                found.append(_read(folder, name))
            except ValueError as error:
                skipped.append(Skipped(name, str(error)))
    return found, skipped


def _read(folder: Path, name: str) -> DataSet:
    path = folder / f"bp_{name}.npz"
    if not path.is_file():
        raise ValueError(f"{path.name} is not in the data folder; {_WHERE}.")
    try:
        with np.load(path, allow_pickle=False) as archive:
            labels, y = archive["idx0"], archive["y"].ravel()
        if labels.ndim != 2 or len(labels) != len(y):
            raise ValueError(f"idx0 is {labels.shape} but y has {len(y)} classes")
        ensemble = gpc.Ensemble(labels)
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path.name} cannot be used ({error}); {_WHERE}.") from error
    return DataSet(name, ensemble, y, "authors' ensemble idx0", True)


def _generate(name: str) -> DataSet:
    example = load_example(name)
    X = example.X
    if name == "wine":  # as in Table 5 of the paper
        X = X.copy()
        X[:, -1] /= 100
    n_clusters, root = len(np.unique(example.y)), math.ceil(math.sqrt(len(X)))
    ensemble = gpc.generate_partitions(
        X, 100, "rps", k_range=(n_clusters, max(n_clusters, root)), random_state=0
    )
    return DataSet(name, ensemble, example.y, "generated: rps, r = 100, seed 0", False)
