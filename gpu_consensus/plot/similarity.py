"""How alike the partitions of an ensemble are."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpu_consensus.ensemble.contingency import EncodedClustering
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.metrics import adjusted_rand, nmi
from gpu_consensus.plot.given import ensemble_of, labels_of
from gpu_consensus.plot.picture import close_axes, open_axes
from gpu_consensus.plot.style import MAP, count
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.checks import FloatArray, IntArray, check_int, seed_sequence

MAX_PARTITIONS = 100
MAX_OBJECTS = 5_000


class Alike(NamedTuple):
    """How alike partitions are.

    Attributes
    ----------
    partitions : ndarray of shape (m,)
        Those compared.
    n_objects : int
        Objects they were compared on.
    rand : ndarray of shape (m, m)
        Adjusted Rand indices; NaN where two have no object in common.
    with_result : ndarray of shape (m,) or None
        NMI with the consensus.
    n_labels, n_missing : ndarray of shape (m,)
    """

    partitions: IntArray
    n_objects: int
    rand: FloatArray
    with_result: FloatArray | None
    n_labels: IntArray
    n_missing: IntArray

    @property
    def mean_rand(self) -> FloatArray:
        """(m,): the mean with all other partitions; 1 if there is no other."""
        others = self.rand.copy()
        np.fill_diagonal(others, np.nan)
        known = ~np.isnan(others)
        total = np.where(known, others, 0.0).sum(axis=1)
        n = known.sum(axis=1)
        mean: FloatArray = np.divide(total, n, out=np.ones(len(n)), where=n > 0)
        return mean


def similarity(
    ensemble: Any,
    ax: Any = None,
    *,
    max_partitions: int = MAX_PARTITIONS,
    max_objects: int = MAX_OBJECTS,
    random_state: Any = 0,
) -> Any:
    """Draw how alike any two partitions are, by the adjusted Rand index.

    Partitions are ordered so that those alike lie side by side.

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
    ax : Axes, optional
        Where to draw; a new figure by default.
    max_partitions, max_objects : int, default 100 and 5,000
        Of more, some are drawn and compared.
    random_state : int, Generator, RandomState, SeedSequence, default 0

    Returns
    -------
    Axes

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> from matplotlib.figure import Figure
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [1, 1, 0, 0], [0, 1, 0, 1]])
    >>> ax = gpc.plot.similarity(ens, Figure().subplots())
    >>> gpc.plot.table_of(ax)[1][0]
    (0, 2, 0, 0.25)
    """
    ens = ensemble_of(ensemble)
    alike = compare(ens, None, max_partitions, max_objects, random_state)
    return draw_similarity(ens, alike, ax)


def draw_similarity(ens: Ensemble, alike: Alike, ax: Any) -> Any:
    """Draw partitions that were compared already."""
    ax = open_axes(ax)
    order = _order(alike.rand)
    shown = np.clip(np.nan_to_num(alike.rand), 0, 1)[np.ix_(order, order)]
    image = ax.imshow(shown, cmap=MAP, vmin=0, vmax=1, interpolation="nearest")
    size = len(order)
    at = np.unique(np.linspace(0, size - 1, min(size, 9)).astype(int))
    names = [str(alike.partitions[order[a]]) for a in at]
    ax.set_xticks(at, names, fontsize="small")
    ax.set_yticks(at, names, fontsize="small")
    ax.set(xlabel="partition", ylabel="partition")
    ax.spines[:].set_visible(False)
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.8, pad=0.03)
    bar.set_label("adjusted Rand index")
    bar.outline.set_visible(False)
    off = alike.rand[~np.eye(size, dtype=bool)]
    off = off[~np.isnan(off)]
    some = "" if size == ens.n_partitions else f" of {ens.n_partitions:,}"
    spread = (
        f"On average it is {off.mean():.2f}, from {off.min():.2f} to {off.max():.2f}."
        if off.size
        else "There is one partition."
    )
    text = (
        f"Heat map of {count(size, 'partition')}{some}: adjusted Rand index of any "
        f"two, on {count(alike.n_objects, 'object')}. {spread} Light blocks are "
        "partitions that say the same; an ensemble that is all light adds nothing, one "
        "that is all dark has nothing to agree on."
    )
    return close_axes(
        ax,
        "How alike the partitions are",
        text,
        ("partition", "labels", "missing", "mean adjusted Rand index with others"),
        [
            (int(i), int(k), int(m), round(float(mean), 3))
            for i, k, m, mean in zip(
                alike.partitions,
                alike.n_labels,
                alike.n_missing,
                alike.mean_rand,
                strict=True,
            )
        ],
        framed=True,
    )


def compare(
    ens: Ensemble,
    result: Any,
    max_partitions: int = MAX_PARTITIONS,
    max_objects: int = MAX_OBJECTS,
    random_state: Any = 0,
) -> Alike:
    """Compare partitions with each other and, if it is given, with a consensus."""
    max_partitions = check_int("max_partitions", max_partitions, 1)
    max_objects = check_int("max_objects", max_objects, 1)
    rng = np.random.default_rng(seed_sequence(random_state))
    labels = None if result is None else labels_of(result, ens.n_samples)
    kept = np.arange(ens.n_partitions)
    if len(kept) > max_partitions:
        kept = np.sort(rng.choice(kept, max_partitions, replace=False))
    rows: Any = slice(None)
    n_objects = min(ens.n_samples, max_objects)
    if ens.n_samples > max_objects:
        rows = np.sort(rng.choice(ens.n_samples, max_objects, replace=False))
    partitions = [
        EncodedClustering(
            to_host(ens.codes[i])[rows], int(ens.n_labels[i]), f"partition {i}"
        )
        for i in kept
    ]
    rand = np.eye(len(kept))
    for i, one in enumerate(partitions):
        for j in range(i):
            rand[i, j] = rand[j, i] = _measure(adjusted_rand, one, partitions[j])
    with_result = None
    if labels is not None:
        some = labels[rows]
        k = int(labels.max()) + 1
        given = EncodedClustering(np.where(some < 0, k, some), k, "result")
        with_result = np.array([_measure(nmi, p, given) for p in partitions])
    return Alike(
        kept, n_objects, rand, with_result, ens.n_labels[kept], ens.n_missing[kept]
    )


def _measure(measure: Any, a: EncodedClustering, b: EncodedClustering) -> float:
    """Return a measure of two clusterings, NaN if they have no object in common."""
    both = (a.codes != a.n_labels) & (b.codes != b.n_labels)
    return float(measure(a, b)) if both.any() else float("nan")


def _order(rand: FloatArray) -> IntArray:
    """Return an order in which partitions that are alike lie side by side."""
    if len(rand) < 3:
        return np.arange(len(rand))
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    far = 1 - np.nan_to_num(rand)
    np.fill_diagonal(far, 0)
    tree = linkage(squareform(far, checks=False), "average", optimal_ordering=True)
    leaves: IntArray = leaves_list(tree).astype(np.int64)
    return leaves
