"""First assignments of the restarts. All random draws are integers made on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.numpy import smallest_unsigned
from gpu_consensus.backends.protocol import Assignment, Backend, Offsets
from gpu_consensus.ensemble.encoding import encode
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.loop.rows import Rows, Seeds
from gpu_consensus.loop.rule import Rule, tables_of
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.checks import unknown_name


class Everyone:
    """All of ``n`` objects but some, ascending: none of them is in memory.

    Examples
    --------
    >>> Everyone(6, np.array([0, 3]))[np.array([0, 1, 2, 3])].tolist()
    [1, 2, 4, 5]
    """

    def __init__(self, n: int, skip: npt.NDArray[np.intp]) -> None:
        self._size = n - len(skip)
        self._before = skip - np.arange(len(skip))

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, places: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        skipped = np.searchsorted(self._before, places, side="right")
        found: npt.NDArray[np.intp] = places + skipped
        return found


Labelled = Everyone | npt.NDArray[np.intp]

NAMES = ("auto", "merge", "partition", "random", "careful")


def seed_starts(
    init: str,
    ensemble: Ensemble,
    rows: Rows,
    backend: Backend,
    rule: Rule,
    useful: npt.NDArray[np.intp],
    labelled: Labelled,
    n_clusters: int,
    seeds: Sequence[np.random.SeedSequence],
) -> list[Seeds]:
    """Return how every restart begins.

    Parameters
    ----------
    init : {"partition", "random", "careful"}
    ensemble : Ensemble
    rows, backend, rule
        What "careful" needs: the rows of the ensemble, and the rule's table.
    useful : ndarray of int
        Partitions to draw from.
    labelled : Everyone or ndarray of int
        Objects with a label.
    n_clusters : int
    seeds : sequence of SeedSequence
        One per restart, so that a restart does not depend on how many there are.
    """
    starts, offsets = [], ensemble.offsets
    for child in seeds:
        rng = np.random.default_rng(child)
        if init == "partition":
            starts.append(_from_partition(ensemble, useful, labelled, n_clusters, rng))
        elif init == "random":
            objects = _draw(labelled, n_clusters, rng)
            starts.append(Seeds(objects, np.arange(n_clusters)))
        else:
            starts.append(_careful(rows, backend, rule, n_clusters, offsets, rng))
    return starts


def _draw(
    labelled: Labelled, number: int, rng: np.random.Generator
) -> npt.NDArray[np.intp]:
    """Draw different objects."""
    return np.asarray(labelled[rng.choice(len(labelled), number, replace=False)])


def _from_partition(
    ensemble: Ensemble,
    useful: npt.NDArray[np.intp],
    labelled: Labelled,
    n_clusters: int,
    rng: np.random.Generator,
) -> Seeds:
    """K clusters of a random basic partition, drawn by size.

    A partition with fewer than K clusters gives all of them, and random single objects
    for the rest.
    """
    i = int(useful[rng.integers(useful.size)])
    k_i = int(ensemble.n_labels[i])
    sizes = ensemble.marginals[ensemble.offsets[i] : ensemble.offsets[i] + k_i].copy()
    cluster_of = np.full(k_i + 1, n_clusters)
    drawn = min(k_i, n_clusters)
    for k in range(drawn):
        ends = np.cumsum(sizes)
        j = int(np.searchsorted(ends, rng.integers(ends[-1]), side="right"))
        cluster_of[j] = k
        sizes[j] = 0
    alone = np.empty(0, dtype=np.intp)
    if drawn < n_clusters:
        alone = _draw(labelled, n_clusters - drawn, rng)
    return Seeds(alone, np.arange(drawn, n_clusters), i, cluster_of)


def _careful(
    rows: Rows,
    backend: Backend,
    rule: Rule,
    n_clusters: int,
    offsets: Offsets,
    rng: np.random.Generator,
) -> Seeds:
    """Each next seed with probability proportional to its divergence from the nearest.

    Divergences are those of the rule, from a cluster of the one seed.
    """
    table, objects = None, []
    for k in range(n_clusters):
        l, codes = rows.draw(rng, table)
        objects.append(l)
        if k < n_clusters - 1:
            counts = np.zeros((int(offsets[-1]), 1, 1), dtype=np.int64)
            counts[offsets[:-1] + codes] = 1
            table, _ = tables_of(backend, rule, counts, backend.to_device(counts))
    return Seeds(np.array(objects), np.arange(n_clusters))


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
