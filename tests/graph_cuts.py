"""The partitioners that are installed, and all cuts of small graphs."""

import itertools

import numpy as np
import pytest

from gpu_consensus.graphs.external import MODULES, installed

PARTITIONERS = [
    "spectral",
    *(
        pytest.param(
            name,
            marks=pytest.mark.skipif(
                not installed(name), reason=f"{MODULES[name]} is not installed"
            ),
        )
        for name in MODULES
    ),
]


def cut_of(dense, parts):
    m = len(dense)
    return sum(
        dense[u, v]
        for u, v in itertools.combinations(range(m), 2)
        if parts[u] != parts[v]
    )


def all_cuts(m, k, weights, cap):
    """Every way to cut m vertices into k parts within the bound, once."""
    for tail in itertools.product(range(k), repeat=m - 1):
        parts = np.array((0, *tail))
        load = np.bincount(parts, weights=weights, minlength=k)
        if load.max() <= cap and (np.bincount(parts, minlength=k) > 0).all():
            yield parts
