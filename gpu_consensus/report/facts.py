"""The tables of a report."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus import metrics
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.plot.similarity import Alike
from gpu_consensus.plot.style import clean
from gpu_consensus.result import Consensus
from gpu_consensus.util.arrays import size_text, to_host
from gpu_consensus.util.checks import FloatArray
from gpu_consensus.util.weights import are_equal

LEAST_CERTAIN = 20
_MOST_CLUSTERS = 100
_SCORES = (
    ("adjusted Rand index", "adjusted_rand", "1 equal, about 0 by chance"),
    ("normalised mutual information", "nmi", "0 to 1"),
    ("accuracy", "accuracy", "best matching of clusters and labels, 0 to 1"),
    ("purity", "purity", "0 to 1; grows with the number of clusters"),
    ("variation of information", "variation_of_information", "bits, 0 equal"),
)
Known = tuple[npt.NDArray[np.int64], npt.NDArray[Any]]


class Table(NamedTuple):
    """A table with a caption."""

    caption: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    more: str = ""


def about_ensemble(ens: Ensemble, alike: Alike) -> Table:
    """Describe the ensemble: sizes, diversity, what is missing."""
    size = ens.n_partitions * ens.n_samples
    missing = int(ens.n_missing.sum())
    low, high = int(ens.n_labels.min()), int(ens.n_labels.max())
    rand = np.nan_to_num(alike.rand)
    diversity = 1 - float(np.sqrt((rand * rand).sum())) / len(rand)
    on = (
        ""
        if alike.n_objects == ens.n_samples and len(rand) == ens.n_partitions
        else f" ({len(rand):,} partitions on {alike.n_objects:,} objects)"
    )
    rows = [
        ("objects", f"{ens.n_samples:,}"),
        ("partitions", f"{ens.n_partitions:,}"),
        (
            "labels of a partition",
            f"{low} to {high}, median {np.median(ens.n_labels):g}",
        ),
        ("missing labels", f"{missing:,} of {size:,} ({missing / size:.1%})"),
        (
            "partitions with missing labels",
            f"{int((ens.n_missing > 0).sum()):,}",
        ),
        ("weights of the partitions", "equal" if are_equal(ens.weights) else "given"),
        ("mean adjusted Rand index of two", f"{_mean_rand(alike):.3f}{on}"),
        ("diversity", f"{diversity:.3f}{on}"),
        ("memory", size_text(ens.codes.nbytes)),
    ]
    return Table("The ensemble", ("what", "value"), rows)


def _mean_rand(alike: Alike) -> float:
    return float(alike.mean_rand.mean())


def about_clusters(
    res: Consensus,
    names: npt.NDArray[Any] | None,
    known: Known | None,
    selection: Any,
) -> Table:
    """Describe each cluster: size, confidence and, if known, stability and class."""
    labels = to_host(res.labels)
    sizes = np.bincount(labels[labels >= 0])
    stability = stability_of(selection, len(labels))
    columns = ["cluster", "objects", "share", "mean confidence", "lowest 5% below"]
    columns += [] if names is None else ["your label"]
    columns += [] if stability is None else ["stability"]
    columns += [] if known is None else ["commonest known label"]
    order = np.flatnonzero(sizes)
    if len(order) > _MOST_CLUSTERS:
        order = np.sort(
            order[np.argsort(-sizes[order], kind="stable")[:_MOST_CLUSTERS]]
        )
    rows = []
    for k in order:
        own = labels == k
        sure = res.confidence[own]
        row: list[Any] = [
            int(k),
            f"{sizes[k]:,}",
            f"{sizes[k] / len(labels):.1%}",
            f"{sure.mean():.3f}",
            f"{np.quantile(sure, 0.05):.3f}",
        ]
        if names is not None:
            row.append(clean(names[k]))
        if stability is not None:
            here = stability[own & ~np.isnan(stability)]
            row.append(f"{here.mean():.3f}" if len(here) else "not known")
        if known is not None:
            row.append(_commonest(known, own))
        rows.append(tuple(row))
    more = len(np.flatnonzero(sizes)) - len(rows)
    return Table(
        "The clusters",
        tuple(columns),
        rows,
        f"and {more:,} smaller clusters" if more else "",
    )


def stability_of(selection: Any, n_samples: int) -> FloatArray | None:
    """Return the stability of each object, NaN where unknown; None without any."""
    values = getattr(selection, "stability", None)
    if values is None:
        return None
    array: FloatArray = np.asarray(to_host(values), dtype=np.float64)
    known = array.shape == (n_samples,) and np.isfinite(array).any()
    return array if known else None


def _commonest(known: Known, own: npt.NDArray[np.bool_]) -> str:
    codes = known[0][own]
    codes = codes[codes >= 0]
    if not len(codes):
        return "none known"
    counts = np.bincount(codes)
    best = int(counts.argmax())
    return f"{clean(known[1][best], 30)} ({counts[best] / len(codes):.0%})"


def rank_doubt(res: Consensus, names: Any, known: Known | None) -> Table:
    """List the least certain objects, with the cluster that they might belong to."""
    labels = to_host(res.labels)
    present = np.flatnonzero(labels >= 0)
    sure = res.confidence
    order = present[np.lexsort((present, sure[present]))][:LEAST_CERTAIN]
    assert res.centroids is not None
    shares = res.centroids.shares(order)
    shares[np.arange(len(order)), labels[order]] = -1.0
    second = shares.argmax(axis=1)
    columns = ["object", "cluster", "confidence", "next cluster", "its share"]
    columns += [] if known is None else ["known label"]
    rows = []
    for at, l in enumerate(order):
        share = shares[at, second[at]]
        row: list[Any] = [
            clean(names[l]),
            int(labels[l]),
            f"{sure[l]:.3f}",
            int(second[at]) if share > 0 else "none",
            f"{max(share, 0.0):.3f}",
        ]
        if known is not None:
            code = known[0][l]
            row.append(clean(known[1][code], 30) if code >= 0 else "")
        rows.append(tuple(row))
    more = len(present) - len(rows)
    return Table(
        "The least certain objects",
        tuple(columns),
        rows,
        f"and {more:,} more certain objects" if more else "",
    )


def scores(res: Consensus, codes: npt.NDArray[np.int64]) -> Table:
    """Compare clusters with known labels."""
    labels = to_host(res.labels)
    rows = [
        (name, f"{getattr(metrics, measure)(codes, labels):.3f}", scale)
        for name, measure, scale in _SCORES
    ]
    both = int(((codes >= 0) & (labels >= 0)).sum())
    return Table(
        "Agreement with the known labels",
        ("measure", "value", "scale"),
        rows,
        f"on {both:,} objects that have both",
    )
