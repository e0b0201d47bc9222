"""What a consensus method returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.numpy import NumpyBackend
from gpu_consensus.backends.protocol import Counts, Table
from gpu_consensus.backends.segments import present_marginals
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.checks import FloatArray
from gpu_consensus.util.html import html_table

_SHOWN = 20  # clusters in a notebook, at most
_QUICK = 1_000_000  # objects whose confidence is computed for a glance


class ConvergenceWarning(UserWarning):
    """A method stopped at ``max_iter`` before it had converged."""


@dataclass(frozen=True)
class Centroids:
    """The counts n_kj behind a consensus, and the table that assigns new objects.

    ``useful`` are the partitions that have a weight and labels.
    """

    ensemble: Ensemble
    counts: Counts
    table: Table
    row_table: Table | None
    useful: npt.NDArray[np.intp]

    def confidence(self, labels: npt.NDArray[np.int32]) -> FloatArray:
        """Return a_own / sum_k a_k, a_k the mean of m_{k, label} over partitions."""
        ens, backend = self.ensemble, NumpyBackend()
        table = self._share_table()
        confidence = np.zeros(len(labels))
        step = max(1, (1 << 20) // table.shape[2])
        for begin in range(0, len(labels), step):
            rows = slice(begin, begin + step)
            codes = to_host(ens.codes[:, rows])
            share = backend.scores(codes, ens.offsets, table)[:, 0]
            own = np.take_along_axis(share, np.maximum(labels[rows], 0)[:, None], 1)
            total = share.sum(axis=1)
            known = (labels[rows] >= 0) & (total > 0)
            confidence[rows][known] = own[known, 0] / total[known]
        return confidence

    def shares(self, objects: npt.NDArray[np.intp]) -> FloatArray:
        """Return a_k / sum_k a_k of some objects, (m, K); 0 without any label."""
        codes = np.ascontiguousarray(to_host(self.ensemble.codes[:, objects]))
        table = self._share_table()
        share = NumpyBackend().scores(codes, self.ensemble.offsets, table)[:, 0]
        total = share.sum(axis=1, keepdims=True)
        shares: FloatArray = np.zeros(share.shape)
        np.divide(share, total, out=shares, where=total > 0)
        return shares

    def _share_table(self) -> FloatArray:
        """Return m_{k, label}, (S, 1, K): the share of cluster k with each label."""
        ens = self.ensemble
        counts = self.counts.astype(np.float64)
        missing = ens.offsets[1:] - 1
        counts[missing] = 0.0
        weightless = np.isin(np.arange(ens.n_partitions), self.useful, invert=True)
        counts[np.repeat(weightless, np.diff(ens.offsets))] = 0.0
        size = np.add.reduceat(counts, ens.offsets[:-1], axis=0)
        size = np.repeat(np.maximum(size, 1.0), np.diff(ens.offsets), axis=0)
        table: FloatArray = (counts / size)[:, None]
        return table

    def predict(self, labels: Any) -> npt.NDArray[np.int32]:
        """Assign new objects, -1 where no label is known."""
        ens = self.ensemble
        codes = ens.encode(labels)
        weight = None
        if self.row_table is not None:
            marginals = present_marginals(ens.offsets, ens.marginals).marginals
            row = codes.astype(np.intp) + ens.offsets[:-1, None]
            weight = marginals[row].sum(axis=0).astype(np.float32)
        assigned = NumpyBackend().assign(
            codes,
            ens.offsets,
            self.table,
            row_weight=weight,
            row_table=self.row_table,
        )
        nearest = assigned.assignment[0]
        result: npt.NDArray[np.int32] = nearest.astype(np.int32)
        absent = codes[self.useful] == ens.n_labels[self.useful, None]
        result[absent.all(axis=0)] = -1
        return result


@dataclass(frozen=True, eq=False, repr=False)
class Consensus:
    """A consensus partition and how it was found.

    Attributes
    ----------
    labels : ndarray of shape (n_samples,), int32
        Consecutive from 0; -1 only for objects without any label that were kept.
    n_clusters : int
        How many clusters came out.
    objective : float
        Always minimised.
    value : float
        Always larger is better (KCC: Gamma of Eq. 1).
    history : ndarray
        Objective after each iteration of the winning start, refinement included.
    n_iter : int
        Iterations of the winning start.
    converged : bool
        False if it was stopped by ``max_iter``, or by the number of rounds.
    backend, method : str
        What ran.
    proba : ndarray of shape (n_samples, n_clusters) or None
        Probability of each cluster, from methods that have one (EM).
    details : mapping
        Further results, as the docstring of the method says.
    """

    labels: npt.NDArray[np.int32]
    n_clusters: int
    objective: float
    value: float
    history: FloatArray
    converged: bool
    backend: str
    method: str
    centroids: Centroids | None = field(default=None)
    proba: FloatArray | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n_iter(self) -> int:
        """Iterations of the winning start."""
        return len(self.history)

    @cached_property
    def confidence(self) -> FloatArray:
        """(n_samples,) in [0, 1]: how clearly each object belongs to its cluster.

        a_own / sum_k a_k, where a_k is the mean, over the partitions of positive weight
        in which the object is present, of the share of cluster k that carries the
        object's label.
        """
        return self._need_centroids("confidence").confidence(to_host(self.labels))

    def predict(self, labels: Any) -> npt.NDArray[np.int32]:
        """Assign new objects that the same partitions have labelled.

        Parameters
        ----------
        labels : array or DataFrame of shape (n_new, n_partitions)
            Labels as given to the ensemble; unknown ones count as missing.

        Returns
        -------
        labels : ndarray of shape (n_new,), int32
            -1 where no partition knows the object.

        Notes
        -----
        Methods of the k-means family put an object where their own score is lowest. The
        others put it where its labels have the largest mean share, the a_k of
        ``confidence``.
        """
        return self._need_centroids("predict").predict(labels)

    def _need_centroids(self, what: str) -> Centroids:
        if self.centroids is None:
            raise AttributeError(
                f"method {self.method!r} has no centroids, so there is no {what}; use "
                "kcc for it."
            )
        return self.centroids

    def _repr_html_(self) -> str:
        """Describe the consensus in a notebook: its clusters, the largest first."""
        labels = to_host(self.labels)
        sizes = np.bincount(labels[labels >= 0], minlength=self.n_clusters)
        known = "confidence" in self.__dict__ or len(labels) <= _QUICK
        sure = self.confidence if known and self.centroids is not None else None
        rows: list[tuple[str, ...]] = []
        for k in np.argsort(-sizes, kind="stable")[:_SHOWN]:
            mean = "" if sure is None else f"{sure[labels == k].mean():.3f}"
            rows.append(
                (str(k), f"{sizes[k]:,}", f"{sizes[k] / len(labels):.1%}", mean)
            )
        if len(sizes) > _SHOWN:
            rows.append((f"and {len(sizes) - _SHOWN:,} more", "", "", ""))
        columns = ["cluster", "objects", "share", "mean confidence"]
        return html_table(repr(self), columns, rows)

    def __repr__(self) -> str:
        state = "converged" if self.converged else "not converged"
        return (
            f"Consensus({self.method}: {self.n_clusters} clusters of "
            f"{len(self.labels)} objects, value {self.value:.6g}, objective "
            f"{self.objective:.6g}, {state} after {self.n_iter} iterations on "
            f"{self.backend})"
        )
