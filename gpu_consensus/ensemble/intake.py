"""Labels as users give them, turned into codes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.ensemble.encoding import count_codes, encode
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.checks import IntArray

Codes = npt.NDArray[Any]


def split_columns(labels: Any) -> list[Any]:
    """Split a 2-D array or DataFrame into its columns, one per partition."""
    labels = to_host(labels)
    if is_frame(labels):
        return [labels.iloc[:, i] for i in range(labels.shape[1])]
    if isinstance(labels, (list, tuple)):
        raise TypeError(
            "labels is a plain list, which is ambiguous; use "
            "Ensemble(np.asarray(labels)) if its rows are objects, or "
            "Ensemble.from_partitions(labels) if its entries are partitions."
        )
    masked = isinstance(labels, np.ma.MaskedArray)
    array = labels if masked else np.asarray(labels)
    if array.ndim != 2:
        cure = (
            "for a single partition use Ensemble.from_partitions([labels])"
            if array.ndim == 1
            else "put one partition in each column"
        )
        raise ValueError(
            f"labels has {array.ndim} dimensions but should be (n_samples, "
            f"n_partitions); {cure}."
        )
    return list(array.T)


def encode_all(
    columns: Iterable[Any],
) -> tuple[Codes, IntArray, tuple[npt.NDArray[Any], ...], IntArray]:
    """Encode the partitions one by one into the smallest type that holds them."""
    rows: list[Codes] = []
    categories, marginals = [], []
    for i, column in enumerate(columns):
        encoded, labels = encode(column, f"partition {i}")
        if rows and len(encoded) != len(rows[0]):
            raise ValueError(
                f"partition {i} has {len(encoded)} labels but partition 0 has "
                f"{len(rows[0])}; give every partition one label per object, -1 "
                "where it is missing."
            )
        rows.append(encoded.astype(np.min_scalar_type(len(labels))))
        categories.append(labels)
        marginals.append(count_codes(rows[i], len(labels)))
    if not rows:
        raise ValueError("the ensemble is empty; at least one partition is needed.")
    sizes = np.array([len(labels) for labels in categories], dtype=np.int64)
    codes = np.empty((len(rows), len(rows[0])), dtype=np.min_scalar_type(sizes.max()))
    for i in range(len(rows)):
        codes[i] = rows[i]
        rows[i] = codes[i]  # frees the row itself
    return codes, sizes, tuple(categories), np.concatenate(marginals)


def is_frame(labels: Any) -> bool:
    """Whether this is a pandas DataFrame, or looks like one."""
    return hasattr(labels, "iloc") and hasattr(labels, "columns")
