"""Features in: test on scatter, choose on stability, the gap as judge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.generate.features import count_distinct_rows
from gpu_consensus.generate.kmeans import best_start, cluster_rows
from gpu_consensus.generate.rows import Rows, prepare
from gpu_consensus.select import nulls
from gpu_consensus.select import stability as measures
from gpu_consensus.select.result import Selection, listed, skipped_text
from gpu_consensus.select.runner import Runner
from gpu_consensus.select.scatter import (
    MAX_ITER,
    NULLS,
    NullTest,
    compare_with_null,
    scatter_of,
)
from gpu_consensus.util.checks import FloatArray, IntArray

TOLERANCE = 0.03
"""Numbers of clusters so much less stable than the best are stable too."""

GAP_DRAWS = 10
ROUNDS = 4
"""Choices at most: the first, and three without outliers."""

SMALLEST_SHARE, SMALLEST = 0.01, 3
"""A cluster of fewer of the objects, or fewer than three, is one of outliers."""

LABEL_ITER = 30
BAND = (2.5, 97.5)
_NULL_NAMES = ("independent components", "correlated columns", "flattest axes")


@dataclass(frozen=True)
class FeatureSettings:
    """The options of :func:`select_n_clusters` that count for features."""

    candidates: tuple[int, ...]
    n_partitions: int
    share: float
    n_init: int
    n_null: int
    alpha: float


@dataclass(frozen=True)
class Choice:
    """What the rows of one round say, before the test."""

    candidates: tuple[int, ...]
    scatter: FloatArray
    gap: FloatArray
    measured: FloatArray  # (n_candidates, 3): stability, entropy, PAC
    best: int
    alternatives: tuple[int, ...]
    made: dict[int, npt.NDArray[np.int32]]  # partitions of candidates, if just made


def select_from_rows(
    X: FloatArray,
    exponent: int,
    chosen: IntArray,
    n_samples: int,
    settings: FeatureSettings,
    runner: Runner,
) -> Selection:
    """Choose the number of clusters of sampled rows.

    Parameters
    ----------
    X : ndarray of shape (m, n_features)
        The sample, of two distinct rows at least, divided by a power of two.
    exponent : int
        Of that power.
    chosen : ndarray of shape (m,)
        Which of the ``n_samples`` objects these are.
    """
    X = X[:, X.max(axis=0) > X.min(axis=0)]
    m = len(X)
    smallest = max(SMALLEST, SMALLEST_SHARE * m)
    kept = np.arange(m)
    for round_ in range(ROUNDS):
        part = X[kept]
        n_distinct = count_distinct_rows(part, max(settings.candidates))
        choice = _choose(part, n_distinct, settings, round_, runner)
        seeds = runner.seed_of("labels", round_).generate_state(settings.n_init)
        rows = prepare(nulls.compact(part), "euclidean", np.float32)
        labels, _ = cluster_rows(rows, choice.best, seeds.tolist(), LABEL_ITER, None)
        sizes = np.bincount(labels)
        inside = sizes[labels] >= smallest
        left = kept[inside]
        few = len(left) < m / 2 or count_distinct_rows(X[left], 2) < 2
        if inside.all() or few or round_ == ROUNDS - 1:
            break
        kept = left
    codes = choice.made.get(choice.best)
    if codes is None:
        codes = _partitions(rows, choice.best, settings, round_, runner)
    pairs = _pairs(settings.n_partitions, runner)
    own = measures.mean_similarity(codes, pairs)
    tests = _test(X[kept], choice, settings, runner)
    p_value = max(test.p_value for test in tests.values())
    found = p_value <= settings.alpha
    where = chosen[kept]
    all_own, all_labels = np.full(n_samples, np.nan), np.full(n_samples, -1, np.int32)
    all_own[where], all_labels[where] = own, labels
    return Selection(
        choice.best if found else 1,
        _reason(choice, tests, settings, m, n_samples, m - len(kept), n_distinct),
        _table(choice, tests, 2 * exponent * np.log(2)),
        p_value,
        choice.alternatives if found else (),
        choice.best,
        all_own,
        measures.by_cluster(own, labels, choice.best),
        all_labels,
        "structure",
        {
            "n_objects": m,
            "skipped": _skipped(settings, choice),
            "alpha": settings.alpha,
            "p_by_null": {name: test.p_value for name, test in tests.items()},
            "null": {
                name: test.drawn + 2 * exponent * np.log(2)
                for name, test in tests.items()
            },
            "set_aside": np.setdiff1d(chosen, where),
        },
    )


def _choose(
    X: FloatArray,
    n_distinct: int,
    settings: FeatureSettings,
    round_: int,
    runner: Runner,
) -> Choice:
    """Return the stable number of clusters of largest gap."""
    candidates = tuple(k for k in settings.candidates if k <= n_distinct)
    scatter = scatter_of(X, candidates)
    rows = prepare(nulls.compact(X), "euclidean", np.float32)
    pairs = _pairs(settings.n_partitions, runner)
    rng = np.random.default_rng(runner.seed_of("stability", round_, 1))
    objects = measures.pairs_of(len(X), measures.OBJECT_PAIRS, rng)

    made: dict[int, npt.NDArray[np.int32]] = {}

    def stability(k: int) -> list[float]:
        made[k] = codes = _partitions(rows, k, settings, round_, runner)
        return [
            measures.mean_agreement(codes, pairs),
            *measures.ambiguity(codes, objects),
        ]

    draw = nulls.gaussian(X)

    def reference(b: int) -> list[float]:
        drawing, starting = runner.seed_of("gap", round_, b).spawn(2)
        return scatter.of(draw(np.random.default_rng(drawing)), starting)

    real = np.array(scatter.of(X, runner.seed_of("scatter", round_)))
    with runner.stage(_name("stability", round_), len(candidates)) as stage:
        # the longest first, so that threads end together
        measured = np.array(stage.run(candidates[::-1], stability)[::-1])
    with runner.stage(_name("gap", round_), GAP_DRAWS) as stage:
        gap = np.mean(stage.run(range(GAP_DRAWS), reference), axis=0) - real
    stable = np.flatnonzero(measured[:, 0] >= measured[:, 0].max() - TOLERANCE)
    best = stable[gap[stable].argmax()]
    others = tuple(candidates[i] for i in stable if i != best)
    return Choice(candidates, real, gap, measured, candidates[best], others, made)


def _name(what: str, round_: int) -> str:
    return f"{what}, again {round_}" if round_ else what


def _pairs(n_partitions: int, runner: Runner) -> IntArray:
    rng = np.random.default_rng(runner.seed_of("stability"))
    return measures.pairs_of(n_partitions, measures.MAX_PAIRS, rng)


def _partitions(
    rows: Rows, k: int, settings: FeatureSettings, round_: int, runner: Runner
) -> npt.NDArray[np.int32]:
    """Cluster shares of the rows: (n_partitions, n_rows), -1 for those not drawn."""
    n = rows.n_samples
    n_drawn = int(np.ceil(settings.share * n))
    codes = np.full((settings.n_partitions, n), -1, dtype=np.int32)
    for a in range(settings.n_partitions):
        seed = runner.seed_of("stability", round_, 2, k, a)
        rng = np.random.default_rng(seed)
        drawn = np.sort(rng.choice(n, n_drawn, replace=False, shuffle=False))
        seeds = rng.integers(2**63, size=settings.n_init).tolist()
        codes[a, drawn] = best_start(rows.take(drawn), k, seeds, MAX_ITER)[0]
    return codes


def _test(
    X: FloatArray, choice: Choice, settings: FeatureSettings, runner: Runner
) -> dict[str, NullTest]:
    """Compare with each null until one of them explains the data."""
    scatter = scatter_of(X, choice.candidates)
    tests: dict[str, NullTest] = {}
    for name in NULLS:
        tests[name] = compare_with_null(
            X,
            choice.scatter,
            scatter,
            name,
            settings.n_null,
            settings.alpha,
            runner,
        )
        if tests[name].p_value > settings.alpha:
            break
    return tests


def _table(
    choice: Choice, tests: dict[str, NullTest], shift: float
) -> tuple[dict[str, Any], ...]:
    """Return a row for each candidate, scatter in the units of the features."""
    p = np.max([test.p_by_k for test in tests.values()], axis=0)
    # the null that comes nearest to the data
    nearest = max(tests.values(), key=lambda test: test.p_value)
    low, high = np.percentile(nearest.drawn, BAND, axis=0) + shift
    return tuple(
        {
            "n_clusters": k,
            "scatter": float(choice.scatter[i] + shift),
            "scatter_low": float(low[i]),
            "scatter_high": float(high[i]),
            "gap": float(choice.gap[i]),
            "stability": float(choice.measured[i, 0]),
            "p": float(p[i]),
            "entropy": float(choice.measured[i, 1]),
            "pac": float(choice.measured[i, 2]),
        }
        for i, k in enumerate(choice.candidates)
    )


def _skipped(settings: FeatureSettings, choice: Choice) -> list[int]:
    return [k for k in settings.candidates if k not in choice.candidates]


def _reason(
    choice: Choice,
    tests: dict[str, NullTest],
    settings: FeatureSettings,
    m: int,
    n_samples: int,
    n_aside: int,
    n_distinct: int,
) -> str:
    """Say why, in one sentence."""
    of = f"{m:,} objects" if m == n_samples else f"a sample of {m:,} of {n_samples:,}"
    tail = f"on {of}"
    if n_aside:
        tail += f", {n_aside} of which were set aside as outliers"
    tail += skipped_text(_skipped(settings, choice), n_distinct, "rows")
    each = [
        f"p = {test.p_value:.3g} with {name} ({len(test.drawn)} draws)"
        for test, name in zip(tests.values(), _NULL_NAMES, strict=False)
    ]
    if max(test.p_value for test in tests.values()) > settings.alpha:
        return (
            f"no structure was found, for data of one mode is as tight: {each[-1]}, "
            f"above alpha = {settings.alpha:g}, {tail}."
        )
    stable = choice.measured[choice.candidates.index(choice.best), 0]
    others = "no other number is as stable"
    if choice.alternatives:
        verb = "are" if len(choice.alternatives) > 1 else "is"
        others = f"{listed(choice.alternatives)} {verb} as stable, with a smaller gap"
    return (
        f"{choice.best} clusters repeat with a stability of {stable:.2f} ({others}), "
        f"and data of one mode is not as tight: {listed(each)}, {tail}."
    )
