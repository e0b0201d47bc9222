"""How many objects any two labels of an ensemble have in common: integers, exact."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.numpy import smallest_unsigned
from gpu_consensus.backends.protocol import Backend
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.loop.code_blocks import CodeBlocks
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.checks import IntArray
from gpu_consensus.util.memory import check_memory

LABEL_OBJECTS = 100_000
"""Objects that labels are compared by, unless the caller says otherwise."""

_STREAM = 0x1ABE1  # parts the draw of these objects from all others of a seed
_PAIR_BYTES = (
    40  # of two labels: the counts, and two matrices that methods make of them
)


class LabelContingency(NamedTuple):
    """All labels of an ensemble against each other.

    Attributes
    ----------
    common : ndarray of shape (S, S)
        Objects that carry both labels; S = sum of K_i, "missing" is no label.
    n_labels : ndarray of shape (r,)
    objects : ndarray of int or None
        The objects that were counted; None for all.
    n_objects : int
        How many they are.
    """

    common: IntArray
    n_labels: IntArray
    objects: npt.NDArray[np.intp] | None
    n_objects: int

    @property
    def sizes(self) -> IntArray:
        """Objects that carry each label, (S,)."""
        return np.diag(self.common).copy()

    @property
    def partition(self) -> npt.NDArray[np.intp]:
        """The partition of each label, (S,)."""
        return np.repeat(np.arange(len(self.n_labels)), self.n_labels)

    @property
    def begins(self) -> IntArray:
        """Where the labels of each partition begin, and the end, (r + 1,)."""
        return np.concatenate([[0], np.cumsum(self.n_labels)]).astype(np.int64)

    @property
    def table_rows(self) -> npt.NDArray[np.intp]:
        """The row of each label in a table with a row for "missing", (S,)."""
        return np.arange(len(self.common)) + self.partition

    def by_partition(self, values: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """Cut values (S, ...) into those of each partition."""
        return np.split(values, self.begins[1:-1])


def draw_objects(
    n_objects: int, limit: int, seeds: np.random.SeedSequence
) -> npt.NDArray[np.intp] | None:
    """Draw the objects that labels are compared by; None where all are few enough.

    Examples
    --------
    >>> draw_objects(5, 5, np.random.SeedSequence(0)) is None
    True
    >>> len(draw_objects(50, 5, np.random.SeedSequence(0)))
    5
    """
    if n_objects <= limit:
        return None
    own = np.random.SeedSequence(
        seeds.entropy, spawn_key=(*seeds.spawn_key, _STREAM), pool_size=seeds.pool_size
    )
    rng = np.random.default_rng(own)
    return np.sort(rng.choice(n_objects, limit, replace=False))


def label_contingency(
    what: str,
    ensemble: Ensemble,
    backend: Backend,
    objects: npt.NDArray[np.intp] | None = None,
    memory_limit: int | None = None,
) -> LabelContingency:
    """Count the objects that carry two labels, for all pairs of labels.

    Every partition is an assignment for ``count``, over itself and those behind it: its
    missing labels are objects that are not counted.

    Parameters
    ----------
    what : str
        What needs the counts, for the error if memory is too small.
    ensemble : Ensemble
    backend : Backend
    objects : ndarray of int, optional
        Count these only.
    memory_limit : int, optional
        As in :func:`kcc`.

    Examples
    --------
    >>> from gpu_consensus.backends import choose_backend
    >>> ens = Ensemble.from_partitions([[0, 0, 1], [0, 1, -1]])
    >>> label_contingency("this", ens, choose_backend("numpy", None)).common.tolist()
    [[2, 0, 1, 1], [0, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1]]
    """
    n_labels, offsets = ensemble.n_labels, ensemble.offsets
    n_all = int(n_labels.sum())
    check_memory(
        f"{what} of {n_all} labels",
        _PAIR_BYTES * n_all * n_all,
        memory_limit,
        "use kcc, which compares no labels with each other",
    )
    codes = ensemble.codes if objects is None else to_host(ensemble.codes)[:, objects]
    blocks = CodeBlocks(backend, codes, offsets, memory_limit)
    counts = [
        backend.xp.zeros((int(offsets[-1] - begin), 1, int(k_i)), dtype=np.int64)
        for begin, k_i in zip(offsets[:-1], n_labels, strict=True)
    ]
    for _, some in blocks.blocks(1):
        for i, k_i in enumerate(n_labels.tolist()):
            if k_i:
                own = some[i : i + 1].astype(smallest_unsigned(k_i), copy=False)
                there = offsets[i:] - offsets[i]
                backend.count(some[i:], there, None, own, counts[i])
    is_label = np.ones(int(offsets[-1]), dtype=bool)
    is_label[offsets[1:] - 1] = False
    common = np.zeros((n_all, n_all), dtype=np.int64)
    begin = 0
    for i, k_i in enumerate(n_labels.tolist()):
        behind = backend.to_host(counts[i])[is_label[offsets[i] :], 0]
        common[begin:, begin : begin + k_i] = behind
        common[begin : begin + k_i, begin:] = behind.T
        begin += k_i
    n_objects = ensemble.n_samples if objects is None else len(objects)
    return LabelContingency(common, n_labels, objects, n_objects)
