"""An ensemble whose codes are on workers: its numbers are here, its objects there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.numpy import smallest_unsigned
from gpu_consensus.backends.protocol import Backend, Codes, Counts
from gpu_consensus.distributed.communicator import WorkerError
from gpu_consensus.distributed.crew import Crew
from gpu_consensus.distributed.shard import Range
from gpu_consensus.distributed.shared_rows import SharedRows
from gpu_consensus.ensemble.distinct import unique_rows
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.loop.rule import Rule
from gpu_consensus.util.checks import FloatArray, IntArray


class CodesElsewhere:
    """The shape and the kind of codes that are not here."""

    ndim = 2

    def __init__(self, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
        self.shape, self.dtype = shape, dtype
        self.size = shape[0] * shape[1]
        self.nbytes = self.size * dtype.itemsize

    def _refuse(self, *given: Any, **options: Any) -> NoReturn:
        raise WorkerError(
            "the codes are on the workers, and this would need them here; use a method "
            "of gpu_consensus.distributed, and load the ensemble for anything else."
        )

    __getitem__ = __iter__ = __array__ = _refuse


class Workers:
    """What answers for objects on workers; the ``elsewhere`` of an ensemble."""

    def __init__(self, crew: Crew, n_samples: int, offsets: IntArray) -> None:
        self._crew, self._n_samples, self._offsets = crew, n_samples, offsets

    def unlabelled(self, useful: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Return the objects that no useful partition labels."""
        parts = self._crew.gather([("unlabelled", [useful])])
        return np.concatenate([part[0] for part in parts]).astype(np.intp)

    def n_distinct(
        self, useful: npt.NDArray[np.intp], skip: npt.NDArray[np.intp], number: int
    ) -> int:
        """Return how many rows of labels differ; counts to about ``number``."""
        parts = self._crew.gather([("distinct", [useful, skip, number])])
        return len(unique_rows(np.concatenate([part[0] for part in parts])))

    def codes(self, objects: npt.NDArray[np.intp]) -> Codes:
        """Return the codes of some objects, (r, m)."""
        once, place = np.unique(objects, return_inverse=True)
        parts = self._crew.gather([("codes", [once])])
        return np.concatenate([part[0] for part in parts], axis=1)[:, place]

    def nearest(self, table: Any, centres: Any) -> npt.NDArray[np.intp]:
        """Return the centre that each object lies nearest to."""
        parts = self._crew.gather([("nearest", [table, centres])])
        return np.concatenate([part[0] for part in parts]).astype(np.intp)

    def winners(self, table: Any) -> tuple[npt.NDArray[np.intp], FloatArray]:
        """Return the cluster of most votes of each object, and its share."""
        parts = self._crew.gather([("winners", [table])])
        labels, shares = (
            np.concatenate([part[place] for part in parts]) for place in range(2)
        )
        return labels.astype(np.intp), shares

    def equal(self, useful: npt.NDArray[np.intp], row: Codes) -> npt.NDArray[np.intp]:
        """Return the objects with some codes in useful partitions."""
        parts = self._crew.gather([("equal", [useful, row])])
        return np.concatenate([part[0] for part in parts]).astype(np.intp)

    def equal_to(self, l: int) -> npt.NDArray[np.intp]:
        """Return the objects that have the labels of one."""
        row = self.codes(np.array([l]))[:, 0]
        return self.equal(np.arange(len(row)), row)

    def count(self, labels: npt.NDArray[Any], n_clusters: int) -> Counts:
        """Count the labels of each cluster of a labelling; -1 means not counted."""
        assignment = labels.astype(smallest_unsigned(n_clusters))
        assignment[labels < 0] = n_clusters
        counts: Counts = self._crew.sum([("count", [assignment, n_clusters])])[0]
        return counts

    def digest(self) -> str:
        """Return a digest of all codes."""
        (total,) = self._crew.sum([("digest", [])])
        return f"{int(total[0]) & (2**64 - 1):016x}"

    def weigh_objects(self, label_weights: IntArray) -> tuple[IntArray, IntArray]:
        """Return what SEC sums over all objects."""
        present, ratios = self._crew.sum([("weigh_objects", [label_weights])])
        return present, ratios

    def rows(
        self,
        backend: Backend,
        rule: Rule,
        n_clusters: int,
        skip: npt.NDArray[np.intp],
    ) -> SharedRows:
        """Return the rows of the loop."""
        return SharedRows(
            self._crew, backend, rule, self._offsets, self._n_samples, n_clusters, skip
        )


class SharedEnsemble(Ensemble):
    """An ensemble on workers.

    Parameters
    ----------
    crew : Crew
        With its shards open.
    ranges : sequence of Range
        One per shard, in order.
    like : Ensemble
        Whose labels, weights and kind of codes are those of all shards.
    """

    def __init__(self, crew: Crew, ranges: Sequence[Range], like: Ensemble) -> None:
        described = crew.gather([("describe", [])])
        n_labels = like.n_labels
        for where, (found, *_) in zip(ranges, described, strict=True):
            if not np.array_equal(found, n_labels):
                raise ValueError(
                    f"the shard of objects {where.first} to {where.last - 1} has "
                    f"{_few(found)} labels per partition but the first has "
                    f"{_few(n_labels)}; encode all shards together."
                )
        shape = (len(n_labels), ranges[-1].last)
        self._codes = CodesElsewhere(shape, like.codes.dtype)  # type: ignore[assignment]
        self._n_labels, self._offsets = n_labels, like.offsets
        self._categories, self._weights = like.categories, like.weights
        counted = [marginals for _, marginals, *_ in described]
        self._marginals = np.sum(counted, axis=0, dtype=np.int64)
        self.elsewhere: Any = Workers(crew, shape[1], self._offsets)

    def subset(self, *, rows: Any = None, partitions: Any = None) -> Ensemble:
        """Return the ensemble of the labelled objects and some partitions.

        As methods ask for it: the other objects have no label in these partitions.
        """
        kept = np.arange(self.n_partitions) if partitions is None else partitions
        objects = np.arange(self.n_samples) if rows is None else rows
        gone = self.n_samples - len(objects)
        new = object.__new__(SharedEnsemble)
        sizes, counts, categories, used = [], [], [], []
        for i in kept:
            own = self._marginals[self._offsets[i] : self._offsets[i + 1]]
            in_use = own[:-1] > 0
            used.append(in_use)
            sizes.append(int(in_use.sum()))
            counts.append(np.append(own[:-1][in_use], own[-1] - gone))
            categories.append(self._categories[i][in_use])
        narrow = max(sizes) <= np.iinfo(np.uint8).max
        dtype = np.dtype(np.uint8) if narrow else self._codes.dtype
        shape = (len(sizes), len(objects))
        new._codes = CodesElsewhere(shape, dtype)  # type: ignore[assignment]
        new._n_labels = np.array(sizes, dtype=np.int64)
        ends = np.cumsum(new._n_labels + 1)
        new._offsets = np.concatenate([[0], ends]).astype(np.int64)
        new._categories, new._marginals = tuple(categories), np.concatenate(counts)
        new._weights = self._weights[kept] / self._weights[kept].sum()
        new.elsewhere = _Some(self, np.asarray(objects), np.asarray(kept), used, dtype)
        return new

    def leave(self) -> None:
        """Know the workers no more."""
        self.elsewhere = None

    def __repr__(self) -> str:
        r, n = self._codes.shape
        return f"SharedEnsemble({r} partitions of {n} objects, on workers)"


class _Some:
    """What answers for some partitions of some objects on workers."""

    def __init__(
        self,
        whole: SharedEnsemble,
        objects: npt.NDArray[np.intp],
        partitions: npt.NDArray[np.intp],
        used: list[npt.NDArray[np.bool_]],
        dtype: np.dtype[Any],
    ) -> None:
        self._whole, self._objects, self._partitions = whole, objects, partitions
        self._used, self._dtype = used, dtype

    def codes(self, objects: npt.NDArray[np.intp]) -> Codes:
        """Return the codes of some of these objects."""
        given = self._whole.codes_of(self._objects[objects])[self._partitions]
        some = np.empty(given.shape, dtype=self._dtype)
        for row, old, used in zip(some, given, self._used, strict=True):
            row[:] = np.append(np.cumsum(used) - 1, used.sum())[old]
        return some

    @property
    def _rows(self) -> npt.NDArray[np.intp]:
        """The rows of all labels in use, "missing" too, in a table of the whole."""
        begins = self._whole.offsets[self._partitions]
        return np.concatenate(
            [
                begin + np.append(np.flatnonzero(used), len(used))
                for begin, used in zip(begins.tolist(), self._used, strict=True)
            ]
        )

    def _whole_table(self, table: Any) -> Any:
        whole = np.zeros((int(self._whole.offsets[-1]), *table.shape[1:]))
        whole[self._rows] = table
        return whole

    def nearest(self, table: Any, centres: Any) -> npt.NDArray[np.intp]:
        """Return the centre that each of these objects lies nearest to."""
        found: npt.NDArray[np.intp] = self._whole.elsewhere.nearest(
            self._whole_table(table), centres
        )
        return found[self._objects]

    def winners(self, table: Any) -> tuple[npt.NDArray[np.intp], FloatArray]:
        """Return the cluster of most votes of each of these objects, and its share."""
        labels, shares = self._whole.elsewhere.winners(self._whole_table(table))
        return labels[self._objects], shares[self._objects]

    def equal_to(self, l: int) -> npt.NDArray[np.intp]:
        """Return which of these objects have the labels of one of them."""
        row = self._whole.codes_of(self._objects[[l]])[self._partitions, 0]
        equal = self._whole.elsewhere.equal(self._partitions, row)
        place: npt.NDArray[np.intp] = np.searchsorted(self._objects, equal)
        return place

    def count(self, labels: npt.NDArray[Any], n_clusters: int) -> Counts:
        """Count the labels of each cluster of a labelling of these objects."""
        whole = np.full(self._whole.n_samples, -1)
        whole[self._objects] = labels
        counts: Counts = self._whole.elsewhere.count(whole, n_clusters)
        return counts[self._rows]


def _few(numbers: IntArray) -> str:
    text = ", ".join(map(str, numbers[:5].tolist()))
    return f"[{text}{', ...' if len(numbers) > 5 else ''}]"
