"""What lambda-consensus feeds back: columns to append, or a matrix to add."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

from gpu_consensus.backends.numpy import NumpyBackend
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.loop.pairs import Pairs
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.checks import FloatArray


class FeedbackState:
    """The feedback of all rounds so far, in the form that an update needs.

    Sites of one process share it, so that there is one n x n matrix for all.

    Parameters
    ----------
    lam, update
        As for :class:`~gpu_consensus.feedback.sites.LocalSite`.

    Attributes
    ----------
    data_weight : float
        What the data count for: lam^t after t rounds.
    block : ndarray or None
        Columns to append ("full", "truncated"), or a matrix to add ("distances",
        "similarities"); None before the first feedback.
    """

    def __init__(self, lam: float, update: str) -> None:
        self.lam = lam
        self.update = update
        self.data_weight = 1.0
        self.block: FloatArray | None = None
        self._n_rounds = 0
        self._lock = threading.Lock()

    def reset(self) -> None:
        """Drop all feedback, as before the first round."""
        with self._lock:
            self.data_weight, self.block, self._n_rounds = 1.0, None, 0

    def add(self, n_rounds: int, feedback: Any, n_samples: int) -> None:
        """Add the feedback of a round, unless another site has added it already."""
        with self._lock:
            if n_rounds <= self._n_rounds:
                return
            labels = np.asarray(to_host(feedback))
            ensemble = Ensemble(labels[:, None] if labels.ndim == 1 else labels)
            if ensemble.n_samples != n_samples:
                raise ValueError(
                    f"feedback has {ensemble.n_samples} labels but the site has "
                    f"n_samples={n_samples}; give one label per object."
                )
            self._n_rounds = n_rounds
            self.data_weight *= self.lam
            if self.update == "truncated":
                self.block = (1.0 - self.data_weight) * one_hot(ensemble)
                return
            if self.update == "full":
                news = (1.0 - self.lam) * one_hot(ensemble)
                old = [] if self.block is None else [self.lam * self.block]
                self.block = np.hstack([*old, news])
                return
            same = together(ensemble)
            if self.update == "distances":
                np.subtract(1.0, same, out=same)
            same *= 1.0 - self.lam
            if self.block is not None:
                same += self.lam * self.block
            self.block = same


def one_hot(ensemble: Ensemble) -> FloatArray:
    """Return X^b / sqrt(r): (n, sum K_i), a missing label is a row of zeros.

    So the squared distance of two objects is the mean over partitions of that in each,
    and many partitions weigh as much as one.

    Examples
    --------
    >>> one_hot(Ensemble.from_partitions([[0, 1, -1]])).tolist()
    [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    """
    n, sizes = ensemble.n_samples, ensemble.n_labels
    codes = to_host(ensemble.codes)
    matrix = np.zeros((n, int(sizes.sum())))
    starts = np.cumsum(sizes) - sizes
    for row, start, k_i in zip(codes, starts, sizes, strict=True):
        present = np.flatnonzero(row != k_i)
        matrix[present, start + row[present].astype(np.intp)] = 1.0
    return matrix / math.sqrt(len(sizes))


def together(ensemble: Ensemble) -> FloatArray:
    """Return the co-association matrix, with 1 on the diagonal."""
    pairs = Pairs(
        NumpyBackend(1), to_host(ensemble.codes), ensemble.n_labels, ensemble.weights
    )
    matrix: FloatArray = pairs.matrix()
    np.fill_diagonal(matrix, 1.0)
    return matrix
