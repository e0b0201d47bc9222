"""The ensemble: many clusterings of the same objects, stored as small integers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.ensemble import storage
from gpu_consensus.ensemble.encoding import (
    count_codes,
    encode_known,
    translate,
)
from gpu_consensus.ensemble.growing import write_all
from gpu_consensus.ensemble.intake import (
    Parts,
    check_marginals,
    check_parts,
    check_some,
    count_all,
    encode_all,
    is_frame,
    split_columns,
)
from gpu_consensus.util.arrays import (
    is_mapped,
    on_device,
    read_only,
    size_text,
    to_host,
)
from gpu_consensus.util.checks import FloatArray, IntArray, check_choice, check_weights
from gpu_consensus.util.html import html_table
from gpu_consensus.util.numbers import check_mask, shown
from gpu_consensus.util.warn import warn
from gpu_consensus.util.weights import are_equal

Codes = npt.NDArray[Any]


class Ensemble:
    """Basic partitions of the same objects; immutable.

    Parameters
    ----------
    labels : array or DataFrame of shape (n_samples, n_partitions)
        One column per partition: NumPy, pandas, CuPy, cuDF. Labels may be any
        hashable; -1, NaN, None and masked entries mean missing. For a list of label
        vectors use :meth:`from_partitions`.
    weights : array_like of shape (n_partitions,), optional
        Weight of each partition, >= 0; scaled to sum 1. Equal by default.

    Attributes
    ----------
    n_samples, n_partitions : int
    n_labels : ndarray of shape (n_partitions,)
        K_i, the number of labels in use in each partition.
    labels : ndarray of shape (n_samples, n_partitions), int32
        0-based, -1 missing. Made anew at each access.
    codes : ndarray of shape (n_partitions, n_samples), uint8 or uint16
        The internal form; a missing label of partition i is the code K_i.
    weights : ndarray of shape (n_partitions,)
        Non-negative, sum 1.
    categories : tuple of ndarray
        For each partition the user's label behind each code.

    Examples
    --------
    >>> import numpy as np
    >>> ens = Ensemble(np.array([["a", "x"], ["a", "y"], ["b", "y"]]))
    >>> ens
    Ensemble(2 partitions of 3 objects, 2 labels each, none missing, uint8, 6 B)
    >>> ens.labels.tolist()
    [[0, 0], [0, 1], [1, 1]]
    """

    elsewhere: Any = None
    """What answers for the objects of an ensemble whose codes are on other machines."""

    def __init__(self, labels: Any, weights: Any = None) -> None:
        if isinstance(labels, Ensemble):
            raise TypeError("labels is an Ensemble already; pass it on as it is.")
        self._fill(*encode_all(split_columns(labels)), weights)

    @classmethod
    def from_partitions(
        cls,
        partitions: Iterable[Any],
        weights: Any = None,
        *,
        output: str | os.PathLike[str] | None = None,
    ) -> Ensemble:
        """Make an ensemble from one label vector per partition.

        Parameters
        ----------
        partitions : iterable of array_like of shape (n_samples,)
            Read one after another and encoded at once, so a generator will do.
        weights : array_like of shape (n_partitions,), optional
            Weight of each partition.
        output : path, optional
            A folder. Every partition is written there as it is read, and the ensemble
            is mapped from it: it never is in memory as a whole.

        Examples
        --------
        >>> Ensemble.from_partitions([[0, 0, 1], [1, 0, -1]]).n_labels.tolist()
        [2, 2]
        """
        partitions = to_host(partitions)
        if is_frame(partitions):
            raise TypeError(
                "partitions is a DataFrame; its columns are partitions for "
                "Ensemble(partitions)."
            )
        if isinstance(partitions, (str, bytes)) or not hasattr(partitions, "__iter__"):
            raise TypeError(
                f"partitions={shown(partitions)} should be a sequence of label vectors."
            )
        if output is not None:
            write_all(map(to_host, partitions), output, to_host(weights))
            return cls.load(output, verify=False)
        new = object.__new__(cls)
        new._fill(*encode_all(to_host(vector) for vector in partitions), weights)
        return new

    @classmethod
    def from_codes(
        cls,
        codes: Codes,
        n_labels: Sequence[int] | IntArray,
        weights: Any = None,
        *,
        categories: Sequence[Any] | None = None,
        marginals: IntArray | None = None,
    ) -> Ensemble:
        """Wrap codes that are already in the internal form, without a copy.

        Parameters
        ----------
        codes : ndarray of shape (n_partitions, n_samples), uint8 or uint16
            Codes of partition i are 0..K_i-1, and K_i where the label is missing.
        n_labels : sequence of int
            K_i of each partition.
        weights : array_like of shape (n_partitions,), optional
            Weight of each partition.
        categories : sequence of ndarray or list, optional
            The label behind each code; the codes themselves by default.
        marginals : ndarray of shape (sum K_i + n_partitions,), optional
            How many objects carry each code; compared with what is counted.
        """
        parts = check_parts(codes, n_labels, categories)
        counted = count_all(parts.codes, parts.n_labels)
        if marginals is not None and not np.array_equal(to_host(marginals), counted):
            raise ValueError(
                f"marginals={shown(marginals)} are not the numbers of objects that "
                f"carry each code; leave them out, they are {shown(counted.tolist())}."
            )
        return cls._from_parts(parts, counted, weights)

    @classmethod
    def _from_parts(cls, parts: Parts, marginals: IntArray, weights: Any) -> Ensemble:
        """Make an ensemble of checked parts, whose codes have been counted."""
        new = object.__new__(cls)
        new._fill(parts.codes, parts.n_labels, parts.categories, marginals, weights)
        return new

    def _fill(
        self,
        codes: Codes,
        n_labels: IntArray,
        categories: tuple[npt.NDArray[Any], ...],
        marginals: IntArray,
        weights: Any,
    ) -> None:
        check_some(codes.shape)
        self._codes: Codes = codes if codes.flags.c_contiguous else codes.copy()
        self._n_labels = n_labels
        starts = np.concatenate([[0], np.cumsum(n_labels + 1)])
        self._offsets: IntArray = starts.astype(np.int64)
        self._categories = categories
        self._marginals: IntArray = marginals
        self._weights = check_weights(to_host(weights), codes.shape[0])
        self._freeze()

    def _freeze(self) -> None:
        self._codes = read_only(self._codes)
        self._offsets = read_only(self._offsets)
        self._categories = tuple(read_only(labels) for labels in self._categories)
        self._marginals = read_only(self._marginals)

    def __getstate__(self) -> dict[str, Any]:
        # A pickled map would come back as one, but of no file.
        codes = np.asarray(self._codes) if is_mapped(self._codes) else self._codes
        return {**self.__dict__, "_codes": codes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._freeze()  # pickle and deepcopy make arrays that can be written

    @property
    def n_samples(self) -> int:
        """Number of objects."""
        return int(self._codes.shape[1])

    @property
    def n_partitions(self) -> int:
        """Number of basic partitions."""
        return int(self._codes.shape[0])

    @property
    def n_labels(self) -> IntArray:
        """K_i: labels in use in each partition."""
        return self._n_labels.copy()

    @property
    def codes(self) -> Codes:
        """The internal form, (n_partitions, n_samples); read only."""
        return self._codes

    def codes_of(self, objects: npt.NDArray[np.intp]) -> Codes:
        """Return the codes of some objects, (n_partitions, m), on the host."""
        if self.elsewhere is not None:
            found: Codes = self.elsewhere.codes(objects)
            return found
        some = np.empty((self.n_partitions, len(objects)), dtype=self._codes.dtype)
        for row, codes in zip(some, self._codes, strict=True):
            row[:] = to_host(codes)[objects]
        return some

    def all_codes(self) -> Codes:
        """Return ``codes``, fetched if they are on other machines: for few objects."""
        if self.elsewhere is None:
            return self._codes
        return self.codes_of(np.arange(self.n_samples))

    @property
    def weights(self) -> FloatArray:
        """Weight of each partition; they sum to 1."""
        return self._weights.copy()

    @property
    def categories(self) -> tuple[npt.NDArray[Any], ...]:
        """For each partition, the user's label behind each code."""
        return self._categories

    @property
    def offsets(self) -> IntArray:
        """(n_partitions + 1,): where the K_i + 1 rows of each partition begin."""
        return self._offsets

    @property
    def marginals(self) -> IntArray:
        """(offsets[-1],): how many objects carry each code, missing included."""
        return self._marginals

    @property
    def n_missing(self) -> IntArray:
        """Missing labels in each partition."""
        return self._marginals[self._offsets[1:] - 1]

    @property
    def labels(self) -> npt.NDArray[np.int32]:
        """(n_samples, n_partitions): 0-based labels, -1 where missing."""
        codes = to_host(self._codes).T
        labels: npt.NDArray[np.int32] = codes.astype(np.int32)
        labels[codes == self._n_labels] = -1
        return labels

    def subset(self, *, rows: Any = None, partitions: Any = None) -> Ensemble:
        """Return the ensemble of some objects, some partitions, or both.

        Parameters
        ----------
        rows, partitions : slice, boolean mask or integer indices, optional
            What to keep, in that order; all by default. Labels that no kept object
            carries are dropped, weights are scaled to sum 1 again.

        Examples
        --------
        >>> ens = Ensemble.from_partitions([[0, 0, 1], [2, 1, 0]])
        >>> ens.subset(rows=[0, 1], partitions=[1]).labels.tolist()
        [[1], [0]]
        """
        kept = _index("partitions", partitions, self.n_partitions)
        objects = _index("rows", rows, self.n_samples)
        codes = np.empty((len(kept), len(objects)), dtype=self._codes.dtype)
        sizes, categories = [], []
        for row, i in enumerate(kept):
            old = to_host(self._codes[i])[objects]
            used = count_codes(old, int(self._n_labels[i]))[:-1] > 0
            new_code = np.append(np.cumsum(used) - 1, used.sum())
            codes[row] = new_code[old]
            sizes.append(int(used.sum()))
            categories.append(self._categories[i][used])
        if max(sizes) <= np.iinfo(np.uint8).max:
            codes = codes.astype(np.uint8, copy=False)
        return Ensemble.from_codes(
            codes, sizes, self._weights[kept], categories=categories
        )

    def encode(self, labels: Any) -> Codes:
        """Encode labels that the same partitions give to new objects.

        Parameters
        ----------
        labels : array, DataFrame or Ensemble of shape (n_new, n_partitions)
            A label that a partition has not shown before counts as missing, with a
            warning.

        Returns
        -------
        codes : ndarray of shape (n_partitions, n_new)
        """
        other = labels if isinstance(labels, Ensemble) else None
        given = other.codes.T if other else labels
        columns = split_columns(given, self.n_partitions)
        codes = np.empty((len(columns), len(columns[0])), dtype=self._codes.dtype)
        n_unknown = 0
        for i, column in enumerate(columns):
            known = self._categories[i]
            if other:
                codes[i], unknown = translate(column, other.categories[i], known)
            else:
                codes[i], unknown = encode_known(column, known, f"partition {i}")
            n_unknown += unknown
        if n_unknown:
            warn(
                f"{n_unknown} labels were never seen in their partition; they count "
                "as missing."
            )
        return codes

    def to(self, backend: str) -> Ensemble:
        """Return the ensemble with its codes where ``backend`` keeps arrays.

        Parameters
        ----------
        backend : {"numpy", "native", "cupy"}
            "cupy" copies the codes to the current CUDA device, all at once; methods
            stream codes that are on the host and do not fit.
        """
        check_choice("backend", backend, ["numpy", "native", "cupy"])
        if backend == "cupy":
            from gpu_consensus.backends import choose_backend
            from gpu_consensus.backends.device_memory import memory_for

            device = choose_backend("cupy", None)
            cure = "leave the codes on the host, from where methods stream them"
            with memory_for("the codes", cure):
                codes = device.to_device(self._codes)
        else:
            codes = to_host(self._codes)
        if codes is self._codes:
            return self
        parts = Parts(codes, self._n_labels, self._categories)
        return Ensemble._from_parts(parts, self._marginals, self._weights)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the ensemble to a folder, or to one file if ``path`` ends in .npz.

        The write is atomic: what was there before stays until the new one is whole.
        """
        storage.save(
            path,
            to_host(self._codes),
            self._n_labels,
            self._weights,
            self._marginals,
            self._categories,
        )

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, mmap: bool = True, verify: bool = True
    ) -> Ensemble:
        """Read an ensemble that :meth:`save` wrote.

        Parameters
        ----------
        path : path
            A folder or a .npz file.
        mmap : bool, default True
            Map the codes of a folder instead of reading them into memory.
        verify : bool, default True
            Count all labels once and compare with what was saved; ``False`` opens
            files larger than memory at once.
        """
        with storage.reading(path):
            stored = storage.load(path, mmap=mmap)
            if verify:
                storage.verify(stored)
            parts = check_parts(stored.codes, stored.n_labels, stored.categories)
            check_marginals(stored.marginals, parts)
            return cls._from_parts(parts, stored.marginals, stored.weights)

    def __repr__(self) -> str:
        low, high = int(self._n_labels.min()), int(self._n_labels.max())
        labels = _count(high, "label") if low == high else f"{low} to {high} labels"
        share = self.n_missing.sum() / (self.n_partitions * self.n_samples)
        missing = f"{share:.1%} missing" if share else "none missing"
        weighted = "" if are_equal(self._weights) else ", weighted"
        where = " mapped from disk" if is_mapped(self._codes) else ""
        return (
            f"Ensemble({_count(self.n_partitions, 'partition')} of "
            f"{_count(self.n_samples, 'object')}, {labels} each, "
            f"{missing}{weighted}, {self._codes.dtype}, "
            f"{size_text(self._codes.nbytes)}{where})"
        )

    def _repr_html_(self) -> str:
        """Describe the ensemble in a notebook."""
        size = self.n_partitions * self.n_samples
        rows = [
            ("objects", f"{self.n_samples:,}"),
            ("partitions", f"{self.n_partitions:,}"),
            (
                "labels of a partition",
                f"{self._n_labels.min()} to {self._n_labels.max()}, median "
                f"{np.median(self._n_labels):g}",
            ),
            ("missing labels", f"{self.n_missing.sum() / size:.2%}"),
            ("weights", "equal" if are_equal(self._weights) else "given"),
            ("memory", size_text(self._codes.nbytes)),
        ]
        return html_table("Ensemble", ["what", "value"], rows)


def as_ensemble(ensemble: Any, weights: Any = None) -> tuple[Ensemble, FloatArray]:
    """Return an ensemble from what a method was given, and the weights to use.

    Labels on a device are encoded on the host, and go back there as codes.
    """
    ens = ensemble if isinstance(ensemble, Ensemble) else Ensemble(ensemble)
    if on_device(ensemble):
        ens = ens.to("cupy")
    if weights is None:
        return ens, ens.weights
    return ens, check_weights(to_host(weights), ens.n_partitions)


def _index(name: str, index: Any, size: int) -> npt.NDArray[np.intp]:
    """Turn a slice, a mask or indices into indices; empty is an error."""
    everything = np.arange(size)
    if index is None:
        return everything
    try:
        if isinstance(index, slice):
            kept = everything[index]
        else:
            wanted = np.asarray(check_mask(name, to_host(index)))
            wanted = np.atleast_1d(wanted)
            if wanted.ndim != 1 or (wanted.size and wanted.dtype.kind not in "biu"):
                raise TypeError
            kept = everything[wanted if wanted.size else []]
    except TypeError:
        raise TypeError(
            f"{name}={shown(index)} should be a slice, a mask or a flat list of "
            f"integers in 0..{size - 1}."
        ) from None
    except IndexError:
        raise IndexError(
            f"{name}={shown(index)} should be integers in 0..{size - 1}, or a mask of "
            f"length {size}."
        ) from None
    if kept.size == 0:
        raise ValueError(f"{name} selects nothing; keep at least one.")
    return kept


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
