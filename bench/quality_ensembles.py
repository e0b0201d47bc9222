"""Ensembles of ``bench quality``: the KCC authors' own, and pools of clusterings."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .suite import Context


@dataclass(frozen=True)
class QualityEnsemble:
    """An ensemble of 100 partitions with known classes.

    Attributes
    ----------
    name : str
        Of the file, without its ending.
    key : str
        Of the labels in it, one column per partition.
    use : {"decide", "hold"}
        As that of the features, where ``quality_sets`` has them.
    in_regret : bool
        Whether F is compared with the best that is known.
    """

    name: str
    key: str
    use: str
    in_regret: bool = True


ENSEMBLES = (
    QualityEnsemble("bp_iris", "idx0", "decide"),
    QualityEnsemble("bp_breast_w", "idx0", "decide"),
    QualityEnsemble("bp_mm", "idx0", "decide"),
    QualityEnsemble("pool_mf", "idx", "decide"),
    QualityEnsemble("pool_is", "idx", "decide"),
    QualityEnsemble("bp_wine", "idx0", "hold"),
    QualityEnsemble("bp_la12", "idx0", "hold", in_regret=False),
    QualityEnsemble("pool_semeion", "idx", "hold"),
    QualityEnsemble("pool_ls", "idx", "hold"),
    QualityEnsemble("pool_mnist", "idx", "hold"),
)
"""The use was written before anything was measured."""

PROBLEMS = ("kcc:h", "kcc:c", "sec")
"""What is minimised in the part "regret"."""

FIRST = (10, 100)
"""How many partitions, from the first on."""

_WHERE = (
    "bp_NAME.npz holds idx0 of an ensemble of the KCC authors, pool_NAME.npz idx of a "
    "pool of github.com/huangdonghere/LWEA_LWGP (objects x partitions), and both y"
)


def load_ensemble(
    item: QualityEnsemble, context: Context
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return labels (n, r) and classes, or raise a ValueError that says why not."""
    if context.data_dir is None:
        raise ValueError(f"needs --data-dir with {item.name}.npz; {_WHERE}.")
    path = context.data_dir / f"{item.name}.npz"
    if not path.is_file():
        raise ValueError(f"{path.name} is not in the data folder; {_WHERE}.")
    try:
        with np.load(path, allow_pickle=False) as archive:
            labels, y = archive[item.key], archive["y"].ravel()
        if labels.ndim != 2 or len(labels) != len(y):
            raise ValueError(f"labels are {labels.shape} but y has {len(y)} classes")
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path.name} cannot be used ({error}); {_WHERE}.") from error
    return labels, y


def digest(labels: npt.NDArray[Any], n_clusters: int) -> str:
    """Return a short word for an ensemble and K, by which kept values know theirs."""
    hashed = hashlib.blake2b(digest_size=8)
    hashed.update(repr((labels.shape, n_clusters)).encode())
    hashed.update(np.ascontiguousarray(labels, dtype=np.int64).tobytes())
    return hashed.hexdigest()
