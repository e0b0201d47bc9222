"""How often objects share a label: pairs.c."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.native.layout import (
    address,
    dense,
    lines,
)
from gpu_consensus.backends.native.threads import over
from gpu_consensus.backends.protocol import (
    PairCounts,
)


def pairs(
    call: Any,
    n_threads: int,
    resident: Any,
    n_labels: npt.NDArray[np.int64],
    rows: Any,
    columns: Any,
) -> PairCounts:
    """See the Protocol."""
    known = lines("codes", resident, "12", (None, None))
    left = np.ascontiguousarray(known.array[:, rows])
    right = np.ascontiguousarray(known.array[:, columns])
    missing = dense("n_labels", n_labels, np.int64, (len(left),))
    shape = (left.shape[1], right.shape[1])
    same = np.zeros(shape, dtype=np.int32)
    both = np.zeros(shape, dtype=np.int32)
    absent = missing[:, None].astype(left.dtype)
    complete = not (right == absent).any()

    def some(begin: int, end: int) -> None:
        call.pairs(
            address(left),
            shape[0],
            address(right),
            shape[1],
            left.itemsize,
            address(missing),
            len(left),
            complete,
            begin,
            end,
            address(same),
            address(both),
        )

    over(some, shape[0], same.size * len(left) // 16, n_threads)
    if complete:
        both += (left != absent).sum(axis=0, dtype=np.int32)[:, None]
    return PairCounts(same, both)
