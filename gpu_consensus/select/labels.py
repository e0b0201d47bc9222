"""Labels in: whether partitions agree, and on how many clusters most of all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.ensemble.contingency import EncodedClustering
from gpu_consensus.ensemble.distinct import find_distinct
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.metrics import adjusted_rand, consensus_criterion
from gpu_consensus.select import stability as measures
from gpu_consensus.select.result import Selection, listed, skipped_text
from gpu_consensus.select.runner import Runner
from gpu_consensus.util.checks import FloatArray, IntArray
from gpu_consensus.util.warn import own_warnings_off

N_HALVINGS = 10
MAX_PAIRS = 100
"""Pairs of partitions whose agreement is tested."""

NEARLY = 0.97
"""Of the best product: so good are alternatives."""

Fit = Callable[[Ensemble, int, np.random.SeedSequence], Any]
"""A consensus of an ensemble at K: its labels."""


@dataclass(frozen=True)
class LabelSettings:
    """The options of :func:`select_n_clusters` that count for labels."""

    candidates: tuple[int, ...]
    n_null: int
    alpha: float


def select_from_labels(
    ensemble: Ensemble,
    chosen: IntArray,
    n_samples: int,
    settings: LabelSettings,
    fit: Fit,
    runner: Runner,
) -> Selection:
    """Choose the number of clusters that sampled objects' partitions agree on.

    Parameters
    ----------
    ensemble : Ensemble
        Of the sample; every partition has labels and a weight.
    chosen : ndarray of shape (m,)
        Which of the ``n_samples`` objects these are.
    """
    agreement, p_value = _test(ensemble, settings, runner)
    n_distinct = _n_distinct(ensemble)
    possible = [k for k in settings.candidates if k <= n_distinct]
    values = _measure(ensemble, possible, fit, runner)
    known = np.flatnonzero(~np.isnan(values).any(axis=1))
    candidates = [possible[i] for i in known]
    if not candidates:
        raise ValueError(
            f"candidates={list(settings.candidates)} are all above the distinct rows "
            "of half of the partitions; ask for smaller numbers, or make more "
            "partitions."
        )
    values = values[known]
    product = values[:, 0] * values[:, 3]
    place = int(product.argmax())
    best, found = candidates[place], p_value <= settings.alpha
    near = np.flatnonzero(product >= NEARLY * product[place])
    others = tuple(candidates[i] for i in near if i != place) if found else ()
    labels, own = _own_stability(ensemble, best, fit, runner)
    all_own, all_labels = np.full(n_samples, np.nan), np.full(n_samples, -1, np.int32)
    all_own[chosen], all_labels[chosen] = own, labels
    skipped = [k for k in settings.candidates if k not in candidates]
    tail = skipped_text(skipped, n_distinct, "rows of labels")
    m = len(chosen)
    of = f"{m:,} objects" if m == n_samples else f"a sample of {m:,} of {n_samples:,}"
    text = (
        f"p = {p_value:.3g} with {settings.n_null} draws, mean adjusted Rand index "
        f"{agreement:.2f}, {ensemble.n_partitions} partitions of {of}"
    )
    if found:
        more = f", {listed(others)} nearly as much" if others else ""
        reason = (
            f"the partitions agree ({text}), and most of all on {best} clusters: "
            f"consensuses of random halves have a similarity of {values[place, 0]:.2f} "
            f"there, and the consensus a mean NMI of {values[place, 3]:.2f} with the "
            f"partitions{more}{tail}."
        )
    else:
        reason = f"the partitions agree no better than chance ({text}){tail}."
    return Selection(
        best if found else 1,
        reason,
        tuple(
            {
                "n_clusters": k,
                "stability": float(row[0]),
                "anmi": float(row[3]),
                "product": float(row[0] * row[3]),
                "entropy": float(row[1]),
                "pac": float(row[2]),
            }
            for k, row in zip(candidates, values, strict=True)
        ),
        p_value,
        others,
        best,
        all_own,
        measures.by_cluster(own, labels, best),
        all_labels,
        "agreement",
        {
            "n_objects": m,
            "skipped": skipped,
            "alpha": settings.alpha,
            "agreement": agreement,
        },
    )


def _test(
    ensemble: Ensemble, settings: LabelSettings, runner: Runner
) -> tuple[float, float]:
    """Return the mean agreement of partitions, and its p by permuted labels."""
    codes, sizes = ensemble.codes, ensemble.n_labels.tolist()
    rng = np.random.default_rng(runner.seed_of("null"))
    present = [codes[i] != k_i for i, k_i in enumerate(sizes)]
    pairs = [
        (i, j)
        for i, j in measures.pairs_of(len(sizes), MAX_PAIRS, rng).tolist()
        if (present[i] & present[j]).any()
    ]
    if not pairs:
        raise ValueError(
            "no two of the partitions have an object in common; they say nothing "
            "about agreement, so give partitions of the same objects."
        )

    def agreement(rows: list[npt.NDArray[Any]]) -> float:
        encoded = [
            EncodedClustering(row, k_i, f"partition {i}")
            for i, (row, k_i) in enumerate(zip(rows, sizes, strict=True))
        ]
        found = [adjusted_rand(encoded[i], encoded[j]) for i, j in pairs]
        return float(np.mean(found))

    def permuted(b: int) -> list[float]:
        rng = np.random.default_rng(runner.seed_of("null", b))
        rows = []
        for row, seen in zip(codes, present, strict=True):
            shuffled = row.copy()
            shuffled[seen] = rng.permutation(row[seen])
            rows.append(shuffled)
        return [agreement(rows)]

    real = agreement(list(codes))
    with runner.stage("permuted labels", settings.n_null) as stage:
        drawn = np.array(stage.run(range(settings.n_null), permuted))
    return real, (1 + int((drawn >= real).sum())) / (1 + settings.n_null)


def _measure(
    ensemble: Ensemble, candidates: list[int], fit: Fit, runner: Runner
) -> FloatArray:
    """Return similarity of halves, entropy, PAC and average NMI of each candidate."""
    rng = np.random.default_rng(runner.seed_of("halves"))
    objects = measures.pairs_of(ensemble.n_samples, measures.OBJECT_PAIRS, rng)

    def one(k: int) -> list[float]:
        with own_warnings_off():
            codes = _halves(ensemble, k, fit, runner)
            if codes is None:
                return [float("nan")] * 4
            labels = fit(ensemble, k, runner.seed_of("labels", k))
        pairs = zip(codes[::2], codes[1::2], strict=True)
        similar = [measures.corrected_similarity(a, b) for a, b in pairs]
        return [
            float(np.mean(similar)),
            *measures.ambiguity(codes, objects),
            consensus_criterion(ensemble, labels),
        ]

    with runner.stage("halves", len(candidates)) as stage:
        return np.array(stage.run(candidates[::-1], one)[::-1]).reshape(-1, 4)


def _halves(
    ensemble: Ensemble, k: int, fit: Fit, runner: Runner
) -> npt.NDArray[np.int32] | None:
    """Return the consensus of both halves of each halving: rows 0 and 1, 2 and 3, ...

    None if a half has fewer than ``k`` distinct rows.
    """
    r = ensemble.n_partitions
    found = []
    for s in range(N_HALVINGS):
        order = np.random.default_rng(runner.seed_of("halves", s)).permutation(r)
        for side, half in enumerate((order[: r // 2], order[r // 2 :])):
            part = ensemble.subset(partitions=np.sort(half))
            if _n_distinct(part) < k:
                return None
            found.append(fit(part, k, runner.seed_of("halves", s, side, k)))
    return np.array(found)


def _n_distinct(ensemble: Ensemble) -> int:
    """Count the distinct rows of objects that have a label."""
    first = ensemble.codes[:, find_distinct(ensemble.codes).first]
    return int((first != ensemble.n_labels[:, None]).any(axis=0).sum())


def _own_stability(
    ensemble: Ensemble, k: int, fit: Fit, runner: Runner
) -> tuple[npt.NDArray[np.int32], FloatArray]:
    """Return the consensus at ``k``, and how well halves agree on each object."""
    with own_warnings_off():
        codes = _halves(ensemble, k, fit, runner)
        labels = fit(ensemble, k, runner.seed_of("labels", k))
    assert codes is not None  # it was measured
    first = np.arange(0, len(codes), 2)
    return labels, measures.mean_similarity(codes, np.column_stack([first, first + 1]))
