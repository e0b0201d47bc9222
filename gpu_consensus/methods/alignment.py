"""Which cluster of one clustering stands for which of another."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.util.checks import FloatArray

Columns = npt.NDArray[np.intp]


def match(overlap: npt.NDArray[Any]) -> Columns:
    """Match every row with a column of its own so that the overlaps add up most.

    Parameters
    ----------
    overlap : ndarray of shape (K_i, k)

    Returns
    -------
    columns : ndarray of shape (K_i,)
        From k on where there are more rows than columns: no column is left.

    Notes
    -----
    The assignment problem, solved by scipy. Of several best matchings the one that its
    solver finds is taken, which depends on the order of rows and columns.

    Examples
    --------
    >>> match(np.array([[1, 5], [4, 7], [0, 1]])).tolist()
    [1, 0, 2]
    """
    from scipy.optimize import linear_sum_assignment

    n_rows, n_columns = overlap.shape
    padded = np.zeros((n_rows, max(n_rows, n_columns)))
    padded[:, :n_columns] = overlap
    _, columns = linear_sum_assignment(padded, maximize=True)
    return np.asarray(columns, dtype=np.intp)


def overlaps(
    codes: npt.NDArray[Any], n_labels: int, votes: npt.NDArray[Any]
) -> FloatArray:
    """Add up the rows of ``votes`` (n, k) by label: (n_labels, k).

    Examples
    --------
    >>> overlaps(np.array([0, 1, 0, 2]), 2, np.array([[1, 0], [0, 1], [1, 0], [1, 0]]))
    array([[2., 0.],
           [0., 1.]])
    """
    return np.column_stack(
        [
            np.bincount(codes, weights=column, minlength=n_labels + 1)[:n_labels]
            for column in votes.T
        ]
    )
