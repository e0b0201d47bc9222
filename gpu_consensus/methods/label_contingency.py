"""How many objects any two labels of an ensemble have in common: integers, exact."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.log2 import x_log2_x
from gpu_consensus.backends.numpy import smallest_unsigned
from gpu_consensus.backends.protocol import Backend, Codes
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.loop.code_blocks import CodeBlocks
from gpu_consensus.util.checks import FloatArray, IntArray
from gpu_consensus.util.memory import check_memory

LABEL_OBJECTS = 100_000
"""Objects that labels are compared by, unless the caller says otherwise."""

_STREAM = 0x1ABE1  # parts the draw of these objects from all others of a seed
_PAIR_BYTES = 40  # of two labels: the counts, and two matrices made of them
_ROW_ARRAYS = 4  # as large as the counts of one partition, while entropies are taken


@dataclass(frozen=True)
class LabelContingency:
    """All labels of an ensemble against each other; counted when asked for.

    Attributes
    ----------
    what : str
        What needs the counts, for the error if memory is too small.
    ensemble : Ensemble
    backend : Backend
    objects : ndarray of int or None
        The objects that are counted; None for all.
    memory_limit : int or None
        As in :func:`kcc`.
    """

    what: str
    ensemble: Ensemble
    backend: Backend
    objects: npt.NDArray[np.intp] | None = None
    memory_limit: int | None = None

    @property
    def n_labels(self) -> IntArray:
        """How many labels each partition has, (r,)."""
        return self.ensemble.n_labels

    @property
    def n_all(self) -> int:
        """How many labels there are, S = sum of K_i; "missing" is no label."""
        return int(self.n_labels.sum())

    @property
    def n_objects(self) -> int:
        """How many objects are counted."""
        return self.ensemble.n_samples if self.objects is None else len(self.objects)

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
        return np.arange(self.n_all) + self.partition

    def by_partition(self, values: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """Cut values (S, ...) into those of each partition."""
        return np.split(values, self.begins[1:-1])

    @cached_property
    def codes(self) -> Codes:
        """Codes of the objects that are counted, (r, m), where they are."""
        if self.objects is None:
            return self.ensemble.all_codes()
        return self.ensemble.codes_of(self.objects)

    @cached_property
    def sizes(self) -> IntArray:
        """Objects that carry each label, (S,)."""
        if self.objects is None:
            return self.ensemble.marginals[self.table_rows]
        both = zip(self.codes, self.n_labels.tolist(), strict=True)
        parts = [np.bincount(own, minlength=k_i + 1)[:k_i] for own, k_i in both]
        return np.concatenate(parts).astype(np.int64)

    def count_behind(self) -> Iterator[tuple[int, IntArray]]:
        """Count one partition after another against itself and those behind it.

        Every partition is an assignment for ``count``: its missing labels are objects
        that are not counted.

        Yields
        ------
        i : int
        common : ndarray of shape (S - begins[i], K_i)
            Objects that carry both labels, on the host.
        """
        backend, offsets = self.backend, self.ensemble.offsets
        blocks = CodeBlocks(backend, self.codes, offsets, self.memory_limit)
        is_label = np.ones(int(offsets[-1]), dtype=bool)
        is_label[offsets[1:] - 1] = False
        for i, k_i in enumerate(self.n_labels.tolist()):
            if not k_i:
                continue
            there = offsets[i:] - offsets[i]
            counts = backend.xp.zeros((int(there[-1]), 1, k_i), dtype=np.int64)
            for _, some in blocks.blocks(1):
                own = some[i : i + 1].astype(smallest_unsigned(k_i), copy=False)
                backend.count(some[i:], there, None, own, counts)
            yield i, backend.to_host(counts)[is_label[offsets[i] :], 0]

    @cached_property
    def common(self) -> IntArray:
        """Objects that carry both labels, for all pairs of labels, (S, S)."""
        n_all, begins = self.n_all, self.begins
        self.check_pairs()
        common = np.zeros((n_all, n_all), dtype=np.int64)
        for i, behind in self.count_behind():
            own = slice(begins[i], begins[i + 1])
            common[begins[i] :, own] = behind
            common[own, begins[i] :] = behind.T
        return common

    @cached_property
    def entropies(self) -> FloatArray:
        """The entropy in bits of each label's objects in each partition, (S, r).

        Over the objects that the partition labels; 0 where there are none.
        """
        n_partitions, begins = len(self.n_labels), self.begins
        most = int(self.n_labels.max(initial=0))
        self.check_memory(8 * self.n_all * (n_partitions + _ROW_ARRAYS * most))
        entropy = np.zeros((self.n_all, n_partitions))
        used = np.flatnonzero(self.n_labels)
        for i, behind in self.count_behind():
            terms = x_log2_x(behind)
            rows = _entropy(behind.sum(axis=1), terms.sum(axis=1))
            entropy[begins[i] :, i] = rows
            later = used[used >= i]
            starts = begins[later] - begins[i]
            columns = _entropy(
                np.add.reduceat(behind, starts, axis=0),
                np.add.reduceat(terms, starts, axis=0),
            )
            entropy[begins[i] : begins[i + 1], later] = columns.T
        return entropy

    def check_pairs(self) -> None:
        """Raise an error if matrices of all pairs of labels do not fit memory."""
        self.check_memory(_PAIR_BYTES * self.n_all * self.n_all)

    def check_memory(self, n_bytes: int) -> None:
        """Raise an error if so many bytes are not free."""
        check_memory(
            f"{self.what} of {self.n_all} labels",
            n_bytes,
            self.memory_limit,
            "use kcc, which compares no labels with each other",
        )


def _entropy(size: IntArray, terms: FloatArray) -> FloatArray:
    """Return the entropy of ``size`` objects whose n log2 n add up to ``terms``.

    Where one label has them all, both logarithms are of one number: exactly 0.
    """
    bits = np.maximum(x_log2_x(size) - terms, 0.0)
    return np.asarray(bits / np.maximum(size, 1))


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
