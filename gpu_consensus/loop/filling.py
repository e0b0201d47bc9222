"""Which objects fill clusters that have become empty."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpu_consensus.util.checks import IntArray


def n_candidates(n_clusters: int) -> int:
    """Return how many of the worst-fitting objects are enough to choose from.

    At most one object of each cluster has to stay behind, and one more of each cluster
    that gave one away.
    """
    return 3 * n_clusters


def choose_fillers(
    candidates: npt.NDArray[np.intp],
    owners: npt.NDArray[np.intp],
    sizes: IntArray,
    empty: npt.NDArray[np.intp],
) -> npt.NDArray[np.intp]:
    """Return one object for each empty cluster, from a cluster of several.

    Parameters
    ----------
    candidates : ndarray of shape (m,)
        Objects, the worst-fitting first.
    owners : ndarray of shape (m,)
        Their clusters.
    sizes : ndarray of shape (K,)
    empty : ndarray of int

    Examples
    --------
    >>> choose_fillers(np.array([7, 3, 5]), np.array([0, 0, 1]), np.array([2, 3, 0, 0]),
    ...                np.array([2, 3])).tolist()
    [7, 5]
    """
    sizes, owner = sizes.copy(), owners.tolist()
    chosen = []
    for k in empty.tolist():
        a = next(a for a in range(len(owner)) if sizes[owner[a]] > 1)
        sizes[owner[a]] -= 1
        sizes[k] += 1
        owner[a] = k
        chosen.append(int(candidates[a]))
    return np.array(chosen, dtype=np.intp)
