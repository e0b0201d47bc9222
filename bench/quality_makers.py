"""Made data sets with known clusters: Gaussian mixtures and shapes in the plane."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Made = tuple[FloatArray, IntArray]


def sizes_of(n: int, n_clusters: int, ratio: float) -> IntArray:
    """Return sizes that fall geometrically, the largest ``ratio`` times the smallest.

    Every cluster has at least five objects.

    Examples
    --------
    >>> sizes_of(100, 3, 4.0).tolist()
    [58, 28, 14]
    """
    share = ratio ** -np.linspace(0.0, 1.0, n_clusters)
    sizes: IntArray = np.maximum(5, (n * share / share.sum()).astype(np.int64))
    sizes[0] += n - sizes.sum()
    return sizes


def mixture(
    seed: int,
    n: int,
    k: int,
    d: int,
    ratio: float = 1.0,
    covariance: str = "spherical",
    separation: float = 2.0,
    density: float = 1.0,
    noise: int = 0,
) -> Made:
    """Draw a mixture of Gaussians.

    Parameters
    ----------
    seed : int
    n, k, d : int
        Objects, clusters and features that tell them apart.
    ratio : float, default 1
        Largest cluster to smallest.
    covariance : {"spherical", "diagonal", "full"}, default "spherical"
        Deviations of a cluster along its axes differ by up to five times in the last
        two, whose axes are those of the features and random ones.
    separation : float, default 2
        Distance of a centre from its nearest, in sums of the two deviations along the
        line between them, in the mean over clusters: about 1 is hard, 3 easy.
    density : float, default 1
        Widest cluster to narrowest.
    noise : int, default 0
        Features of the same deviation that tell nothing.
    """
    rng = np.random.default_rng([seed, 1871])
    roots = _roots(rng, k, d, covariance, density)
    centres = _spread(rng, k, d)
    centres *= separation / _nearest(centres, roots)
    y = np.repeat(np.arange(k), sizes_of(n, k, ratio))
    X = rng.normal(size=(n, d))
    for label in range(k):
        of = y == label
        X[of] = centres[label] + X[of] @ roots[label].T
    width = np.sqrt((roots**2).sum(axis=2).mean())
    return np.hstack([X, width * rng.normal(size=(n, noise))]), y


def _roots(
    rng: np.random.Generator, k: int, d: int, covariance: str, density: float
) -> FloatArray:
    """Return a square root of the covariance of every cluster, (k, d, d)."""
    width = density ** rng.permutation(np.linspace(-0.5, 0.5, k))
    axes = np.ones((k, d))
    if covariance != "spherical":
        axes = 5.0 ** rng.uniform(-0.5, 0.5, size=(k, d))
    turns = np.broadcast_to(np.eye(d), (k, d, d))
    if covariance == "full":
        turns = np.linalg.qr(rng.normal(size=(k, d, d)))[0]
    return np.asarray(turns * (width[:, None] * axes)[:, None, :])


def _spread(rng: np.random.Generator, k: int, d: int) -> FloatArray:
    """Return centres; each is the farthest from those before of ten drawn ones."""
    centres = rng.normal(size=(1, d))
    for _ in range(1, k):
        drawn = rng.normal(size=(10, d))
        far = np.linalg.norm(drawn[:, None] - centres, axis=2).min(axis=1)
        centres = np.vstack([centres, drawn[far.argmax()]])
    return centres


def _nearest(centres: FloatArray, roots: FloatArray) -> float:
    """Return the mean distance to the nearest centre, in deviations along the line."""
    line = centres[:, None] - centres
    length = np.linalg.norm(line, axis=2)
    np.fill_diagonal(length, 1.0)
    line /= length[:, :, None]
    # [i, j]: deviation of cluster i along the line from j to i
    along = np.linalg.norm(np.einsum("ijd,ide->ije", line, roots), axis=2)
    np.fill_diagonal(along, 1.0)
    apart = length / (along + along.T)
    np.fill_diagonal(apart, np.inf)
    return float(apart.min(axis=1).mean())


def moons(seed: int, n: int, noise: float, ratio: float = 1.0) -> Made:
    """Draw two half circles, each reaching into the other."""
    rng = np.random.default_rng([seed, 1872])
    y = np.repeat([0, 1], sizes_of(n, 2, ratio))
    angle = rng.uniform(0.0, np.pi, size=n)
    X = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    X[y == 1] = [1.0, 0.5] - X[y == 1]
    return X + noise * rng.normal(size=X.shape), y


def rings(
    seed: int, n: int, radii: tuple[float, ...], noise: float, d: int = 2
) -> Made:
    """Draw circles, or spheres, around one another, objects as many as radius says."""
    rng = np.random.default_rng([seed, 1873])
    counts = (n * np.asarray(radii) / sum(radii)).astype(np.int64)
    counts[-1] += n - counts.sum()
    y = np.repeat(np.arange(len(radii)), counts)
    X = rng.normal(size=(n, d))
    X *= (np.asarray(radii)[y] / np.linalg.norm(X, axis=1))[:, None]
    return X + noise * rng.normal(size=X.shape), y


def spirals(seed: int, n: int, arms: int, noise: float, turns: float = 1.0) -> Made:
    """Draw arms that wind around the origin, evenly dense along their length."""
    rng = np.random.default_rng([seed, 1874])
    y = np.arange(n) % arms
    way = np.sqrt(rng.uniform(0.05, 1.0, size=n))
    angle = 2 * np.pi * (turns * way + y / arms)
    X = way[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return X + noise * rng.normal(size=X.shape), y


def blobs_in_a_ring(seed: int, n: int, blobs: int, noise: float) -> Made:
    """Draw round clusters, and a ring of half of all objects around them."""
    rng = np.random.default_rng([seed, 1875])
    y = np.minimum(np.arange(n) * 2 * blobs // n, blobs)
    angle = np.where(y < blobs, 2 * np.pi * y / blobs, rng.uniform(0, 2 * np.pi, n))
    radius = np.where(y < blobs, 0.0 if blobs == 1 else 1.2, 3.0)
    X = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    width = np.where(y < blobs, 2 * noise, noise)
    return X + width[:, None] * rng.normal(size=X.shape), y


MAKERS: dict[str, Any] = {
    "mixture": mixture,
    "moons": moons,
    "rings": rings,
    "spirals": spirals,
    "blobs_in_a_ring": blobs_in_a_ring,
}
"""By the name that the list of sets gives."""
