"""Random ensembles that many tests share."""

import numpy as np


def noisy(seed, n=60, r=12, k=3, missing=0.0):
    """An ensemble around a true partition, with different numbers of labels."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(k, size=n)
    labels = np.empty((n, r), dtype=int)
    for i in range(r):
        fine = truth * 2 + rng.integers(2, size=n) if i % 2 else truth
        labels[:, i] = np.where(rng.random(n) < 0.3, rng.integers(2 * k, size=n), fine)
    gone = rng.random((n, r)) < missing
    gone[np.arange(n), rng.integers(r, size=n)] = False
    labels[gone] = -1
    return labels, truth
