"""The mixture of multinomials behind EM: its two steps, and what it predicts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.numpy import NumpyBackend, n_threads
from gpu_consensus.backends.protocol import Assignment, Counts
from gpu_consensus.backends.segments import Segments, present_marginals
from gpu_consensus.loop.code_blocks import CodeBlocks
from gpu_consensus.methods.call import Task
from gpu_consensus.methods.expectation import HIGH, LOW, expectation, memberships
from gpu_consensus.result import Centroids
from gpu_consensus.util.checks import FloatArray
from gpu_consensus.util.weights import vote_weights

_SEED_DOUBT = 0.2  # share of a seed's mass that is spread over all components


class Mixture(NamedTuple):
    """Parameters of R mixtures: ``alpha`` (R, K) and ``theta`` (S, R, K)."""

    alpha: FloatArray
    theta: FloatArray

    def take(self, starts: Any) -> Mixture:
        """Return some of the mixtures."""
        return Mixture(self.alpha[starts], np.ascontiguousarray(self.theta[:, starts]))


class Model:
    """P(labels of l) = sum_k alpha_k prod_i theta_ik(L_il)^v_i over present labels.

    Parameters
    ----------
    task : Task
    floor : float
        The least that any alpha or theta may be.
    """

    def __init__(self, task: Task, floor: float) -> None:
        ens = task.ensemble
        self.blocks = CodeBlocks(
            task.backend, ens.codes, ens.offsets, task.memory_limit
        )
        self.n_samples = ens.n_samples
        self.n_clusters = task.k
        self.floor = floor
        self.segments, self.marginals, _ = present_marginals(ens.offsets, ens.marginals)
        self.n_threads = n_threads(task.n_jobs)
        self.exponents = vote_weights(task.weights)  # equal ones: the plain model

    def from_labels(self, assignment: Assignment) -> Mixture:
        """Return the mixtures of softened seeds (R, n); K means not counted.

        The counted objects stand for all: their counts are scaled to the mass of all
        objects, of which a fifth is then spread evenly. With all objects counted that
        is an M step from responsibilities 0.8 + 0.2 / K and 0.2 / K.
        """
        counts = self.blocks.backend.to_host(
            self.blocks.count(assignment, self.n_clusters)
        )
        sizes = self._sizes(counts)
        counted = np.maximum(sizes.sum(axis=1, keepdims=True), 1)
        scale = (1.0 - _SEED_DOUBT) * self.n_samples / counted
        even = _SEED_DOUBT / self.n_clusters
        return self._fitted(
            scale * counts + even * self.marginals[:, None, None],
            scale * sizes + even * self.n_samples,
        )

    def from_responsibilities(self, responsibilities: FloatArray) -> Mixture:
        """Return the one mixture that follows from given responsibilities (n, K)."""
        backend = self.blocks.backend
        total: Any = 0
        for rows, codes in self.blocks.blocks(self.n_clusters):
            z = backend.to_device(np.ascontiguousarray(responsibilities[rows, None]))
            total = total + backend.soft_count(codes, self.blocks.offsets, z)
        return self.maximise(backend.to_host(total))

    def maximise(self, counts: Counts) -> Mixture:
        """M step: the mixtures of greatest likelihood for soft counts (S, R, K)."""
        sizes = self._sizes(counts)
        return self._fitted(counts.astype(np.float64), sizes.astype(np.float64))

    def _sizes(self, counts: Counts) -> Counts:
        """Return the mass of every component, (R, K): partition 0 has all of it."""
        sizes: Counts = counts[: self.blocks.offsets[1]].sum(axis=0)
        return sizes

    def _fitted(self, counts: FloatArray, sizes: FloatArray) -> Mixture:
        filled = self.segments.filled(counts, self.marginals)
        labels = np.ones(len(counts), dtype=bool)
        labels[self.segments.missing] = False
        theta = fit_shares(filled, self.segments, labels[:, None, None], self.floor)
        components = Segments(np.array([0, self.n_clusters]))
        everyone = np.ones((self.n_clusters, 1), dtype=bool)
        alpha = fit_shares(sizes.T, components, everyone, self.floor)
        return Mixture(np.ascontiguousarray(alpha.T), theta)

    def logarithms(self, mixture: Mixture) -> Mixture:
        """Return log alpha, and v log theta with 0 for missing labels."""
        with np.errstate(divide="ignore"):
            alpha, theta = np.log(mixture.alpha), np.log(mixture.theta)
        theta *= self.segments.to_labels(self.exponents)[:, None, None]
        theta[self.segments.missing] = 0.0
        return Mixture(alpha, theta)

    def expect(self, mixture: Mixture) -> tuple[Counts, FloatArray]:
        """E step: soft counts (S, R, K), and the log-likelihoods (R,).

        Responsibilities live for one block of objects. Both sums are of integers, so
        that no cut of the objects changes them.
        """
        counts: Any = 0
        likelihoods: Any = 0
        for _, given in self._blocks(mixture):
            soft, halves = expectation(*given)
            counts, likelihoods = counts + soft, likelihoods + halves
        # the one copy from a device
        soft, halves = self.blocks.backend.to_host(counts, likelihoods)
        totals = [(high << (LOW - HIGH)) + low for high, low in halves.T.tolist()]
        return soft, np.array([total / 2.0**LOW for total in totals])

    def responsibilities(
        self, mixture: Mixture
    ) -> tuple[npt.NDArray[np.intp], FloatArray]:
        """Return the likeliest component (n,) and responsibilities (n, K) of one."""
        labels = np.empty(self.n_samples, dtype=np.intp)
        proba = np.empty((self.n_samples, self.n_clusters))
        for rows, given in self._blocks(mixture):
            best, shares = memberships(*given)
            labels[rows], proba[rows] = best[:, 0], shares[:, 0]
        return labels, proba

    def _blocks(self, mixture: Mixture) -> Iterator[tuple[slice, tuple[Any, ...]]]:
        """Yield ranges of objects, and what the E step takes for each."""
        backend = self.blocks.backend
        logarithms = self.logarithms(mixture)
        both = np.concatenate([logarithms.theta, logarithms.alpha[None]])
        there = backend.to_device(both)
        theta, alpha = there[:-1], there[-1]
        for rows, codes in self.blocks.blocks(alpha.size):
            offsets = self.blocks.offsets
            yield rows, (backend, codes, offsets, theta, alpha, self.n_threads)


def fit_shares(n: Any, segments: Segments, usable: Any, floor: float) -> FloatArray:
    """Return the shares of greatest likelihood of which none is below ``floor``.

    Parameters
    ----------
    n : ndarray of shape (S, ...)
        Mass of every label, with some in each segment.
    segments : Segments
        Which rows make one distribution.
    usable : ndarray of bool that fits ``n``
        Rows that are labels; the others get 0.
    floor : float
        Less than 1 / (labels of any segment).

    Notes
    -----
    sum_j n_j log p_j under p_j >= floor is largest where the labels that would fall
    below get the floor and the others share the rest in proportion to n. Each round
    lowers the others a little, so rounds go on until none falls below.
    """
    n = np.where(usable, n, 0.0)
    low = np.zeros(n.shape, dtype=bool)
    while True:
        rest = 1.0 - floor * segments.sum(low.astype(np.float64))
        whole = segments.sum(np.where(low, 0.0, n)) / rest
        share = np.where(low, floor, n / segments.to_labels(whole))
        below = usable & ~low & (share < floor)
        if not below.any():
            return np.where(usable, share, 0.0)
        low |= below


@dataclass(frozen=True)
class MixtureCentroids(Centroids):
    """Centroids with log alpha (K,) and v log theta (S, 1, K), by which to predict."""

    log_alpha: FloatArray
    log_theta: FloatArray

    def predict(self, labels: Any) -> npt.NDArray[np.int32]:
        """Assign new objects to their likeliest component, -1 without any label."""
        ens = self.ensemble
        codes = ens.encode(labels)
        score = NumpyBackend().scores(codes, ens.offsets, self.log_theta)[:, 0]
        best = (score + self.log_alpha).argmax(axis=1)
        result: npt.NDArray[np.int32] = best.astype(np.int32)
        absent = codes[self.useful] == ens.n_labels[self.useful, None]
        result[absent.all(axis=0)] = -1
        return result
