"""First assignments of the restarts. All random draws are integers made on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.arrays import to_host
from gpu_consensus.backends.numpy_backend import smallest_unsigned
from gpu_consensus.backends.protocol import Assignment
from gpu_consensus.checks import unknown_name
from gpu_consensus.encoding import encode
from gpu_consensus.ensemble import Ensemble
from gpu_consensus.loop.problem import Problem, Rule
from gpu_consensus.weights import useful_partitions

NAMES = ("partition", "random", "careful")


def seed_starts(
    init: str,
    ensemble: Ensemble,
    problem: Problem,
    rule: Rule,
    weights: npt.NDArray[np.float64],
    n_init: int,
    seeds: np.random.SeedSequence,
) -> Assignment:
    """Return the first assignment of every restart, (R, n).

    Restart q draws from the q-th child of ``seeds``, so it is the same however many
    restarts there are. Objects that are not seeds carry the value K: not counted.
    """
    n_clusters, n_samples = problem.n_clusters, ensemble.n_samples
    assignment = np.full(
        (n_init, n_samples), n_clusters, dtype=smallest_unsigned(n_clusters)
    )
    labelled = np.delete(np.arange(n_samples), problem.skip)
    useful = useful_partitions(ensemble.n_labels, weights)
    for row, child in zip(assignment, seeds.spawn(n_init), strict=True):
        rng = np.random.default_rng(child)
        if init == "partition":
            _from_partition(row, ensemble, useful, labelled, n_clusters, rng)
        elif init == "random":
            row[rng.choice(labelled, n_clusters, replace=False)] = np.arange(n_clusters)
        else:
            _careful(row, problem, rule, labelled, rng)
    return assignment


def _from_partition(
    row: Assignment,
    ensemble: Ensemble,
    useful: npt.NDArray[np.intp],
    labelled: npt.NDArray[np.intp],
    n_clusters: int,
    rng: np.random.Generator,
) -> None:
    """K clusters of a random basic partition, drawn by size.

    A partition with fewer than K clusters gives all of them, and random single objects
    for the rest.
    """
    i = int(useful[rng.integers(useful.size)])
    k_i = int(ensemble.n_labels[i])
    sizes = ensemble.marginals[ensemble.offsets[i] : ensemble.offsets[i] + k_i].copy()
    cluster_of = np.full(k_i + 1, n_clusters, dtype=row.dtype)
    drawn = min(k_i, n_clusters)
    for k in range(drawn):
        ends = np.cumsum(sizes)
        j = int(np.searchsorted(ends, rng.integers(ends[-1]), side="right"))
        cluster_of[j] = k
        sizes[j] = 0
    row[:] = cluster_of[to_host(ensemble.codes[i])]
    if drawn < n_clusters:
        alone = rng.choice(labelled, n_clusters - drawn, replace=False)
        row[alone] = np.arange(drawn, n_clusters)


def _careful(
    row: Assignment,
    problem: Problem,
    rule: Rule,
    labelled: npt.NDArray[np.intp],
    rng: np.random.Generator,
) -> None:
    """Each next seed with probability proportional to its divergence from the nearest.

    Divergences are scaled to integers, so that prefix sums are exact.
    """
    backend = problem.backend
    nearest = np.zeros(row.shape, dtype=np.float32)
    nearest[labelled] = np.inf
    l = int(labelled[rng.integers(labelled.size)])
    for k in range(problem.n_clusters):
        row[l] = k
        if k == problem.n_clusters - 1:
            return
        counts = backend.count(
            problem.codes_of(l),
            problem.offsets,
            backend.xp.zeros((1, 1), dtype=row.dtype),
            1,
        )
        table, _ = backend.table(rule, counts, None)
        for rows, codes in problem.blocks(1):
            score = backend.assign(codes, problem.offsets, table, best=True).best
            assert score is not None
            found = backend.to_host(score)[0]
            np.minimum(nearest[rows], found, out=nearest[rows])
        nearest[row < problem.n_clusters] = 0
        l = _draw(nearest, rng, labelled[row[labelled] == problem.n_clusters])


def _draw(
    weight: npt.NDArray[np.float32],
    rng: np.random.Generator,
    rest: npt.NDArray[np.intp],
) -> int:
    """Draw an index by weight; any of ``rest`` when all weights are zero."""
    largest = float(weight.max())
    if not largest > 0:
        return int(rest[rng.integers(rest.size)])
    ends = np.cumsum((weight * (2.0**31 / largest)).astype(np.int64))
    return int(np.searchsorted(ends, rng.integers(ends[-1]), side="right"))


def encode_init(init: Any, n_samples: int, n_clusters: int) -> Assignment:
    """Turn a label vector into a first assignment (1, n)."""
    if not hasattr(init, "__len__"):
        raise unknown_name("init", init, NAMES, also="or a vector of labels")
    codes, categories = encode(to_host(init), "init")
    if codes.shape != (n_samples,):
        raise ValueError(
            f"init has {codes.shape[0]} labels but the ensemble has "
            f"n_samples={n_samples} objects; give one label per object."
        )
    if len(categories) != n_clusters:
        raise ValueError(
            f"init has {len(categories)} different labels but n_clusters={n_clusters}; "
            "they should be equal."
        )
    return codes[None].astype(smallest_unsigned(n_clusters))
