"""Spectral ensemble clustering (SEC) as a weighted k-means over label codes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.protocol import Backend, Counts
from gpu_consensus.backends.recipe import TableRecipe, sec_weights
from gpu_consensus.backends.segments import (
    LabelSums,
    exact_sums,
    label_sums,
    present_marginals,
)
from gpu_consensus.ensemble.ensemble import Ensemble, as_ensemble
from gpu_consensus.loop.fit import LoopOptions
from gpu_consensus.loop.object_weights import (
    object_weights,
    ratio_sums,
    ratio_total,
)
from gpu_consensus.loop.rule import Merging, Rule
from gpu_consensus.methods.call import Shared, Task, open_task
from gpu_consensus.methods.label_contingency import LABEL_OBJECTS
from gpu_consensus.methods.label_graph import spectral_start
from gpu_consensus.methods.label_weights import check_word
from gpu_consensus.result import Consensus
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.checks import FloatArray, IntArray
from gpu_consensus.util.weights import are_equal

_RANGE = 1 << 18  # objects that are weighed together
_FEW_LABELS = 4000  # of all partitions, up to which a spectral start is cheap


def sec(
    ensemble: Any,
    n_clusters: int,
    *,
    weights: Any = None,
    init: Any = "auto",
    n_init: int = 10,
    search: bool | str | int = "auto",
    max_iter: int = 100,
    on_unlabelled: str = "raise",
    backend: str | Backend = "auto",
    n_jobs: int | None = None,
    memory_limit: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    random_state: Any = None,
    progress: bool = False,
) -> Consensus:
    """Spectral ensemble clustering.

    Spectral clustering of the co-association matrix, which never has to exist: it is a
    k-means over label codes in which object l weighs w_l, its row sum in that matrix
    (Theorem 1).

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
        The basic partitions; with missing labels, the sums run over those present
        (Theorem 5).
    n_clusters : int
        Clusters of the consensus.
    n_init : int, default 10
        Starts, run together.
    init : str or labels, default "auto"
        As in :func:`kcc`, but for "careful". "spectral" is a single start: k-means on
        the leading singular vectors of the labels, objects weighed as above, by their
        S x S products, S the labels of all partitions, from at most 100,000 objects
        drawn by ``random_state``. "auto" adds it to the merged starts where S <= 4,000,
        whatever ``memory_limit`` says.
    search : {"auto", False} or int, default "auto"
        As in :func:`kcc`.
    weights, max_iter, on_unlabelled, backend, n_jobs, memory_limit
        As in :func:`kcc`; partitions have no weights in this method,
        and those that differ are refused.
    checkpoint, random_state, progress
        As in :func:`kcc`.

    Returns
    -------
    Consensus
        ``value`` is the utility of Theorems 2 and 5; ``objective`` the weighted k-means
        objective, sum_l r_l / w_l - n value.

    References
    ----------
    H. Liu, T. Liu, J. Wu, D. Tao, Y. Fu, "Spectral ensemble clustering", KDD 2015.

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    >>> gpc.sec(ens, 2, random_state=0).n_clusters
    2

    Row segmentation, for data too large to be clustered whole: every partition clusters
    a random share of the rows, and the consensus is over what is present.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(90, 2))
    >>> X[:30] += 8
    >>> X[30:60] -= 8
    >>> parts = gpc.generate_partitions(
    ...     X, 30, "rows", n_clusters=3, sample_share=0.3, random_state=0
    ... )
    >>> round(float(parts.n_missing.sum() / parts.codes.size), 3)
    0.7
    >>> labels = gpc.sec(parts, 3, random_state=0).labels
    >>> [len(set(labels[begin : begin + 30].tolist())) for begin in (0, 30, 60)]
    [1, 1, 1]
    """
    if isinstance(weights, str):
        raise ValueError(
            f"weights={check_word(weights)!r} would differ between partitions, which "
            "sec does not know; leave them out, or use kcc."
        )
    ens, partition_weights = as_ensemble(ensemble, weights)
    if not are_equal(partition_weights):
        raise ValueError(
            "weights differ between partitions, which sec does not know; leave them "
            "out, or use kcc."
        )
    if isinstance(init, str) and init == "careful":
        raise ValueError(
            "init='careful' needs distances, which sec's scores are not; use "
            "'partition', 'random' or 'spectral'."
        )
    n, r = ens.n_samples, ens.n_partitions
    if n * n * r >= 2**63:  # raised before so many labels are read
        raise ValueError(
            f"n_samples={n} with n_partitions={r} is too large for sec, whose weights "
            "would pass 2^63; use kcc."
        )
    shared = Shared(
        weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
    )
    is_spectral = isinstance(init, str) and init == "spectral"
    loop = LoopOptions(
        "partition" if is_spectral else init,
        n_init,
        max_iter,
        checkpoint,
        search=search,
    )
    task = open_task("sec", ens, n_clusters, shared, loop=loop)
    if is_spectral:
        task = replace(task, loop=replace(loop, init=_spectral_labels(task)))
    elif len(task.given.marginals) <= _FEW_LABELS:
        free = replace(task, memory_limit=None)
        task = replace(task, loop=replace(loop, also=lambda: _spectral_labels(free)))
    return task.fit(SecRule(task.given, task.backend.label_sums))


def _spectral_labels(task: Task) -> npt.NDArray[np.intp]:
    """Return labels of the given objects, -1 for those without any label.

    A cluster that k-means left empty begins with an object drawn from the largest.
    """
    clusters = spectral_start(task, task.label_contingency(LABEL_OBJECTS))
    rng = task.rng()
    for k in range(task.k):
        sizes = np.bincount(clusters, minlength=task.k)
        if not sizes[k]:
            clusters[rng.choice(np.flatnonzero(clusters == sizes.argmax()))] = k
    labels = np.full(task.given.n_samples, -1)
    labels[task.labelled] = clusters
    return labels


class SecRule(Rule):
    """Counts to table and row table: T = -2 n_kj / W_k, and A_k / W_k^2 times w_l."""

    def __init__(
        self,
        ensemble: Ensemble,
        label_sums: Callable[..., LabelSums] = label_sums,
    ) -> None:
        r = ensemble.n_partitions
        self.segments, self.marginals, self.present = present_marginals(
            ensemble.offsets, ensemble.marginals
        )
        self.complete = not ensemble.n_missing.any()
        # the weight of an object is the sum over its labels
        self.label_weights = self.marginals
        self.weighs_absent = not self.complete
        # w_l summed over the objects present in each partition, and r_l / w_l
        if ensemble.elsewhere is None:
            self.present_weight, ratios = self._weigh(ensemble)
            self.row_weight = self.object_weight.astype(np.float32)
            self.absent_weight = None if self.complete else self.object_weight
        else:
            self.present_weight, ratios = ensemble.elsewhere.weigh_objects(
                self.label_weights
            )
        self.constant = ratio_total(ratios)
        self._sums = label_sums
        self.recipe: TableRecipe = TableRecipe(
            "SEC",
            self.segments.offsets,
            self.marginals,
            np.ones(r),
            present_weight=self.present_weight,
            row="sum" if self.complete else "labels",
        )

        self.merging = Merging("square", self.segments, np.ones(r), self._cell_weights)

    def _weigh(self, ensemble: Ensemble) -> tuple[IntArray, IntArray]:
        """Set the weights of the objects, a range of them at a time.

        Returns the weights present in each partition, and the sums of r_l / w_l.
        """
        self.object_weight = np.zeros(ensemble.n_samples, dtype=np.int64)
        present = np.zeros(ensemble.n_partitions, dtype=np.int64)
        ratios = ratio_sums(present[:0], present[:0])
        for begin in range(0, ensemble.n_samples, _RANGE):
            codes = to_host(ensemble.codes[:, begin : begin + _RANGE])
            weight, n_labels = object_weights(codes, ensemble.offsets, self.marginals)
            self.object_weight[begin : begin + _RANGE] = weight
            for i, (row, k_i) in enumerate(zip(codes, ensemble.n_labels, strict=True)):
                present[i] += weight[row != k_i].sum()
            ratios += ratio_sums(n_labels, weight)
        return present, ratios

    def _cell_weights(self, counts: Counts, absent: Counts | None) -> IntArray:
        """Return the weight of the members of each cell that are present, (r, M)."""
        sums = self._sums(self.segments.offsets, counts[:, None], self.marginals)
        whole = sums.marginal_weighted[:, 0].sum(axis=0)
        gone = np.zeros_like(sums.size[:, 0]) if absent is None else absent
        return np.asarray(whole - gone)

    @property
    def full_recipe(self) -> TableRecipe:
        """The recipe with a row for every label: new objects may have gaps."""
        return self.recipe._replace(row="labels")

    def objective(self, counts: Counts, absent: Counts | None) -> FloatArray:
        """Return sum_l r_l / w_l - sum_i sum_k A_k / W_k^(i), (R,)."""
        sums = self._sums(self.segments.offsets, counts, self.marginals)
        weight = sec_weights(self.recipe, sums, absent)
        gain = sums.square / np.maximum(weight, 1)
        gain[sums.size == 0] = 0.0
        return self.constant - exact_sums(gain)

    def value(self, objective: float, n_samples: int) -> float:
        """Return (1/n) sum_i sum_k A_k / W_k^(i)."""
        return (self.constant - objective) / n_samples
