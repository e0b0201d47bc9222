"""The hypergraph of an ensemble: which objects carry which labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.ensemble.distinct import Distinct
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.graphs.colours import refine_colours
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.checks import FloatArray, IntArray
from gpu_consensus.util.weights import vote_weights


@dataclass(frozen=True)
class Incidence:
    """Objects against clusters, one row for all objects with the same labels.

    Rows and, within a partition, columns are in an order that depends on neither the
    order of the objects nor the names of the labels. Objects with the same labels are
    one row: no method here can tell them apart, so none may part them.

    Attributes
    ----------
    matrix : scipy CSR of shape (m, S)
        1 where a row carries the label; a missing label is no entry.
    copies : ndarray of shape (m,)
        Objects of each row.
    sizes : ndarray of shape (S,)
        Objects of each cluster.
    partition : ndarray of shape (S,)
        The partition of each cluster.
    place : ndarray of shape (S,)
        Where each cluster stands when counted by partition and label.
    cluster_copies : ndarray of shape (S,)
        r w_i, the weight of its partition: 1 if all are equal. A weight of 2 says that
        the partition counts twice.
    row : ndarray of shape (n_samples,)
        The row of each object.
    """

    matrix: Any
    copies: IntArray
    sizes: IntArray
    partition: npt.NDArray[np.intp]
    place: npt.NDArray[np.intp]
    cluster_copies: FloatArray
    row: npt.NDArray[np.intp]


def make_incidence(
    ensemble: Ensemble, weights: FloatArray, distinct: Distinct
) -> Incidence:
    """Return the hypergraph of an ensemble in which every object has a label.

    Parameters
    ----------
    ensemble : Ensemble
    weights : ndarray of shape (r,)
        Of its partitions.
    distinct : Distinct
        Its objects with equal labels.

    Examples
    --------
    >>> ens = Ensemble(np.array([[0, 5], [0, 5], [1, -1]]))
    >>> from gpu_consensus.ensemble.distinct import find_distinct
    >>> graph = make_incidence(ens, ens.weights, find_distinct(ens.codes))
    >>> graph.sizes.tolist(), sorted(graph.copies.tolist())
    ([1, 2, 2], [1, 2])
    """
    from scipy.sparse import csr_array

    n_labels, offsets = ensemble.n_labels, ensemble.offsets
    n_partitions = len(n_labels)
    codes = to_host(ensemble.codes)[:, distinct.first]
    objects, clusters = refine_colours(codes, offsets, distinct.size)
    order = np.argsort(objects, kind="stable")
    codes, copies = codes[:, order], distinct.size[order]

    owner = np.repeat(np.arange(n_partitions), n_labels + 1)
    sizes = np.zeros(int(offsets[-1]), dtype=np.int64)
    for i in range(n_partitions):
        np.add.at(sizes, offsets[i] + codes[i].astype(np.intp), copies)
    in_use = sizes > 0
    in_use[offsets[1:] - 1] = False  # the code of a missing label
    by_colour = np.lexsort((clusters, owner))
    kept = by_colour[in_use[by_colour]]
    column = np.full(len(sizes), -1, dtype=np.intp)
    column[kept] = np.arange(len(kept))

    where = column[codes.T.astype(np.intp) + offsets[:-1]]
    present = where >= 0
    pointers = np.concatenate([[0], np.cumsum(present.sum(axis=1))])
    whole = np.int32 if pointers[-1] < 2**31 else np.int64
    pointers, indices = pointers.astype(whole), where[present].astype(whole)
    shape = (len(copies), len(kept))
    matrix = csr_array((np.ones(len(indices)), indices, pointers), shape=shape)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return Incidence(
        matrix,
        copies,
        sizes[kept],
        owner[kept],
        np.argsort(np.argsort(kept)),
        vote_weights(weights)[owner[kept]],
        rank[distinct.group],
    )
