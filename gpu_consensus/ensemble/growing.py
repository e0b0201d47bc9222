"""An ensemble that is written to its folder partition by partition.

It never is in memory as a whole. The folder is the new ensemble, or what it was before,
at any moment; see :mod:`gpu_consensus.ensemble.storage`.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from gpu_consensus.ensemble.encoding import count_codes
from gpu_consensus.ensemble.intake import check_some, encode_each
from gpu_consensus.ensemble.storage import (
    check_replaceable,
    describe,
    explain_failure,
    new_codes,
)
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.checks import check_weights
from gpu_consensus.util.paths import check_path

_PART = 1 << 24  # codes that are read or written at a time
_HEADER = 128  # bytes before the codes, whatever their number


class Growing:
    """The codes of partitions, in any order; from :func:`grow`.

    Attributes
    ----------
    weights : ndarray of shape (r,) or None
        Those of the partitions; None for equal ones.
    """

    def __init__(self, path: Path, file: BinaryIO, n_samples: int) -> None:
        self._path, self._file, self._n_samples = path, file, n_samples
        self._kind: np.dtype[Any] = np.dtype(np.uint8)
        self.weights: npt.NDArray[np.float64] | None = None
        self._parts: dict[int, tuple[int, npt.NDArray[np.int64], Any]] = {}

    def put(
        self,
        i: int,
        codes: npt.NDArray[Any],
        n_labels: int,
        categories: npt.NDArray[Any] | None = None,
    ) -> None:
        """Write partition ``i``: codes (n,), K_i where a label is missing."""
        codes = to_host(codes)
        with explain_failure(self._path):
            if n_labels > np.iinfo(self._kind).max:
                self._widen()
            for begin in range(0, self._n_samples, _PART):
                some = codes[begin : begin + _PART].astype(self._kind, copy=False)
                self._seek(i, begin)
                self._file.write(np.ascontiguousarray(some).data)
        names = np.arange(n_labels) if categories is None else categories
        self._parts[i] = n_labels, count_codes(codes, n_labels), names

    def _seek(self, i: int, begin: int) -> None:
        entry = i * self._n_samples + begin
        self._file.seek(_HEADER + entry * self._kind.itemsize)

    def _widen(self) -> None:
        """Give every code two bytes, from the last to the first."""
        wide = np.dtype(np.uint16)
        for i in sorted(self._parts, reverse=True):
            for begin in reversed(range(0, self._n_samples, _PART)):
                size = min(_PART, self._n_samples - begin)
                self._seek(i, begin)
                part = np.frombuffer(self._file.read(size), dtype=self._kind)
                narrow, self._kind = self._kind, wide
                self._seek(i, begin)
                self._file.write(part.astype(wide).data)
                self._kind = narrow
        self._kind = wide

    def finish(self) -> dict[str, Any]:
        """Write the rest of the file; return the description of the ensemble."""
        r = len(self._parts)
        assert sorted(self._parts) == list(range(r)), "all partitions are there"
        n_labels, marginals, categories = zip(
            *(self._parts[i] for i in range(r)), strict=True
        )
        shape = (r, self._n_samples)
        head = io.BytesIO()
        kind = np.lib.format.dtype_to_descr(self._kind)
        np.lib.format.write_array_header_1_0(
            head, {"descr": kind, "fortran_order": False, "shape": shape}
        )
        text = head.getvalue()
        assert len(text) == _HEADER, "two lines of 64 bytes hold any two sizes"
        with explain_failure(self._path):
            self._file.seek(0)
            self._file.write(text)
            self._file.flush()
            os.fsync(self._file.fileno())
        return describe(
            shape,
            self._kind,
            np.array(n_labels, dtype=np.int64),
            check_weights(None, r) if self.weights is None else self.weights,
            np.concatenate(marginals),
            categories,
        )


@contextmanager
def grow(path: str | os.PathLike[str], n_samples: int) -> Iterator[Growing]:
    """Write an ensemble to a folder; it is there when the context ends well.

    Examples
    --------
    >>> import tempfile
    >>> import gpu_consensus as gpc
    >>> folder = tempfile.TemporaryDirectory()
    >>> with grow(folder.name, 3) as ensemble:
    ...     ensemble.put(1, np.array([0, 1, 1]), 2)
    ...     ensemble.put(0, np.array([0, 0, 1]), 1)
    >>> gpc.Ensemble.load(folder.name, mmap=False).labels.tolist()
    [[0, 0], [0, 1], [-1, 1]]
    >>> folder.cleanup()
    """
    path = check_path("output", path).resolve()
    if path.suffix == ".npz":
        raise ValueError(
            f"output={str(path)!r} should be a folder, to which partitions can be "
            "added; leave .npz out."
        )
    check_replaceable("output=", path)
    with ExitStack() as stack:
        with explain_failure(path):
            name, commit = stack.enter_context(new_codes(path))
            file = stack.enter_context(name.open("xb+"))
        growing = Growing(path, file, n_samples)
        yield growing
        description = growing.finish()
        with explain_failure(path):
            commit(description)


def write_all(
    partitions: Iterable[Any], output: str | os.PathLike[str], weights: Any = None
) -> None:
    """Encode label vectors one after another, and write them to a folder."""
    encoded = encode_each(partitions)
    codes, labels = next(encoded)
    if not len(codes):
        check_some((1, 0))
    with grow(output, len(codes)) as growing:
        growing.put(0, codes, len(labels), labels)
        r = 1
        for codes, labels in encoded:
            growing.put(r, codes, len(labels), labels)
            r += 1
        growing.weights = check_weights(weights, r)
