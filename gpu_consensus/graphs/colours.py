"""An order of objects and clusters that depends on neither row order nor label names.

Partitioners break ties by index and draw by index. Given their vertices in this order,
they answer alike for shuffled rows and renamed labels.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.protocol import Codes
from gpu_consensus.util.checks import IntArray
from gpu_consensus.util.splitmix import splitmix64

_ROUNDS = 8

Colours = npt.NDArray[np.uint64]


def refine_colours(
    codes: Codes, offsets: IntArray, copies: IntArray
) -> tuple[Colours, Colours]:
    """Colour objects and clusters by what surrounds them.

    Colour refinement (Weisfeiler and Leman, 1968) on the bipartite graph of objects and
    clusters: a cluster is coloured by its partition and the colours of its objects, an
    object by the colours of its clusters, until no new colour appears. Objects of equal
    colour are exchangeable for most purposes, never by their labels' names or places.

    Parameters
    ----------
    codes : ndarray of shape (r, m)
    offsets : ndarray of shape (r + 1,)
        Where the K_i + 1 rows of each partition begin.
    copies : ndarray of shape (m,)
        How many objects each column of ``codes`` stands for.

    Returns
    -------
    objects : ndarray of shape (m,), uint64
    clusters : ndarray of shape (offsets[-1],), uint64

    Examples
    --------
    >>> codes = np.array([[0, 0, 1], [1, 1, 0]], dtype=np.uint8)
    >>> objects, _ = refine_colours(codes, np.array([0, 3, 6]), np.ones(3, np.int64))
    >>> bool(objects[0] == objects[1] != objects[2])
    True
    """
    weight = copies.astype(np.uint64)
    objects = splitmix64(weight)
    n_colours = 0
    partition = np.repeat(np.arange(1, len(offsets)), np.diff(offsets))
    salt = splitmix64(partition.astype(np.uint64))
    clusters = salt
    for _ in range(_ROUNDS):
        n_refined = len(np.unique(objects))
        if n_refined == n_colours:
            break
        n_colours = n_refined
        clusters = salt.copy()
        for i, row in enumerate(codes):
            np.add.at(clusters, offsets[i] + row.astype(np.intp), weight * objects)
        clusters = splitmix64(clusters)
        around = objects.copy()
        for i, row in enumerate(codes):
            around += clusters[offsets[i] + row.astype(np.intp)]
        objects = splitmix64(around)
    return objects, clusters
