"""Built-in data sets, to try things on; scikit-learn ships them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.util.checks import check_choice

NAMES = ("iris", "wine", "breast_cancer", "digits")


class Example(NamedTuple):
    """Features, known classes and their names."""

    X: npt.NDArray[np.float64]
    y: npt.NDArray[np.int64]
    classes: list[str]


def load_example(name: str) -> Example:
    """Return one of the built-in data sets.

    Examples
    --------
    >>> load_example("iris").X.shape
    (150, 4)
    """
    check_choice("example", name, NAMES)
    import sklearn.datasets

    data: Any = getattr(sklearn.datasets, f"load_{name}")()
    return Example(data.data, data.target, [str(c) for c in data.target_names])
