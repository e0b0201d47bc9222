"""What one partition sees: the strategies, each a draw from a random generator."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.ensemble.encoding import MAX_LABELS
from gpu_consensus.generate.features import column_deviation, count_distinct_rows
from gpu_consensus.util.checks import (
    check_choice,
    check_count,
    check_int,
    check_n_clusters,
    check_not_negative,
    check_share,
)
from gpu_consensus.util.numbers import shown
from gpu_consensus.util.sparse import is_sparse

STRATEGIES = ("rps", "rfs", "rows", "projection", "zipf", "restarts")
ZIPF_READINGS = ("drawn", "ranked")
ZIPF_ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
ZIPF_MAX = 100  # weights are drawn from 1..ZIPF_MAX before they are scaled
FINE = (5, 10)  # labels per cluster in mind, from and to
FLOOR = (30, 60)  # labels that bent clusters need, however few clusters there are
ROWS_PER_LABEL = 10  # of the finest partitions, where labels are few
MANY_LABELS = 200  # beyond these a label should have more rows: sqrt(n) bounds them
COARSE = (1, 2)  # labels per cluster in mind of every tenth partition
EVERY = 10
MANY_FEATURES = 100  # with more columns, two features are too few


@dataclass(frozen=True)
class Recipe:
    """How every partition of one call is made, defaults filled in.

    Attributes
    ----------
    strategy : str
        One of ``STRATEGIES``.
    k_range : tuple of int or None
        Inclusive; None where the base clusterer finds the number itself.
    coarse : tuple of int or None
        The same for every tenth partition, where that has a range of its own.
    n_sampled : int or None
        Rows that are clustered; None for all.
    n_features, n_components : int or None
        Columns drawn ("rfs"), dimensions projected to ("projection").
    zipf_alpha : float or None
        Exponent; None draws one per partition from ``ZIPF_ALPHAS``.
    zipf_weights : str or None
        One of ``ZIPF_READINGS``.
    """

    strategy: str
    k_range: tuple[int, int] | None
    coarse: tuple[int, int] | None = None
    n_sampled: int | None = None
    n_features: int | None = None
    n_components: int | None = None
    zipf_alpha: float | None = None
    zipf_weights: str | None = None

    @property
    def changes_columns(self) -> bool:
        """Whether a partition sees other features than those given."""
        return self.strategy in ("rfs", "projection", "zipf")

    def range_of(self, i: int) -> tuple[int, int] | None:
        """Return the range from which the number of labels of partition i is drawn."""
        if self.coarse is not None and i % EVERY == EVERY - 1:
            return self.coarse
        return self.k_range


def make_recipe(
    shape: tuple[int, int],
    strategy: Any,
    n_clusters: Any,
    k_range: Any,
    needs_k: bool,
    *,
    is_text: bool,
    sample_share: Any,
    n_features: Any,
    n_components: Any,
    zipf_alpha: Any,
    zipf_weights: Any,
) -> Recipe:
    """Check the options of ``generate_partitions`` and fill in the defaults.

    ``is_text`` says that rows are sparse or directions, as those of text are.
    """
    strategy = check_choice("strategy", strategy, STRATEGIES)
    for name, value, user in (
        ("n_features", n_features, "rfs"),
        ("n_components", n_components, "projection"),
        ("zipf_alpha", zipf_alpha, "zipf"),
        ("zipf_weights", zipf_weights, "zipf"),
    ):
        if value is not None and strategy != user:
            raise ValueError(
                f"{name}={shown(value)} is only for strategy={user!r}, not "
                f"{strategy!r}; leave it out or change the strategy."
            )
    n, d = shape
    options: dict[str, Any] = {}
    if strategy == "rfs":
        options["n_features"] = _n_features(n_features, d)
    elif strategy == "projection":
        default = min(3, d) if n_components is None else n_components
        options["n_components"] = check_count("n_components", default)
    elif strategy == "zipf":
        options["zipf_alpha"] = None if zipf_alpha is None else _alpha(zipf_alpha)
        reading = "drawn" if zipf_weights is None else zipf_weights
        options["zipf_weights"] = check_choice("zipf_weights", reading, ZIPF_READINGS)
    if sample_share is None:
        sample_share = 0.5 if strategy == "rows" else 1
    share = check_share("sample_share", sample_share, open_low=True, open_high=False)
    n_sampled = max(1, round(share * n))
    if n_clusters is not None:
        n_clusters = check_n_clusters(n_clusters, n)
    own = k_range is None and strategy == "rps" and needs_k and n_clusters is not None
    k_range = _k_range(n, strategy, n_clusters, k_range, needs_k, is_text)
    if own and not is_text:
        low, high = (labels * n_clusters for labels in COARSE)
        options["coarse"] = low, min(high, n)
    if k_range is not None and k_range[1] > MAX_LABELS:
        raise ValueError(
            f"k_range={k_range} should end at {MAX_LABELS} at most, as many labels as "
            "a partition can have; ask for fewer clusters."
        )
    return Recipe(
        strategy,
        k_range,
        n_sampled=n_sampled if n_sampled < n else None,
        **options,
    )


def _k_range(
    n: int,
    strategy: str,
    n_clusters: int | None,
    k_range: Any,
    needs_k: bool,
    is_text: bool,
) -> tuple[int, int] | None:
    if k_range is not None:
        return _explicit_range(k_range, n)
    if not needs_k:
        return None
    if strategy != "rps":
        if n_clusters is None:
            raise ValueError(
                f"strategy={strategy!r} needs n_clusters, the number of clusters of "
                "each partition, or k_range=(low, high) to draw it from."
            )
        return n_clusters, n_clusters
    root = math.isqrt(n - 1) + 1  # ceil(sqrt n)
    if n_clusters is None:
        return 2, max(2, min(root, 50))
    return fine_range(n, n_clusters, is_text)


def fine_range(n: int, n_clusters: int, is_text: bool = False) -> tuple[int, int]:
    """Return how many labels partitions get for a consensus of ``n_clusters``.

    Several for each cluster, and 30 to 60 at least, so that its size and shape matter
    little, as far as there are rows for them: ten for a label while labels are few, and
    about sqrt(n) labels of many. Rows of text lie far apart, and small groups of them
    are chance: labels stay below sqrt(n) there, and few where n is small.

    Examples
    --------
    >>> [fine_range(n, 10) for n in (200, 1000, 5000, 100_000)]
    [(10, 20), (50, 100), (50, 100), (50, 100)]
    >>> [fine_range(n, 3) for n in (200, 1000, 5000)]
    [(10, 20), (30, 60), (30, 60)]
    >>> [fine_range(n, 10, is_text=True) for n in (1000, 5000)]
    [(10, 32), (36, 71)]
    """
    root = math.sqrt(n)
    low, high = float(n_clusters), root
    if not is_text:
        most = max(root, min(n / ROWS_PER_LABEL, MANY_LABELS))
        low = min(max(FINE[0] * n_clusters, FLOOR[0]), most / 2)
        high = min(max(FINE[1] * n_clusters, FLOOR[1]), most)
    elif root >= FINE[0] * n_clusters:
        low = min(FINE[0] * n_clusters, root / 2)
        high = min(FINE[1] * n_clusters, root)
    least = max(math.ceil(low), n_clusters)
    return least, min(max(math.ceil(high), 2 * n_clusters, least), n)


def _explicit_range(k_range: Any, n: int) -> tuple[int, int]:
    try:
        low, high = k_range
    except (TypeError, ValueError):
        raise ValueError(
            f"k_range={shown(k_range)} should be two integers (low, high), both "
            "included."
        ) from None
    low = check_int("k_range[0]", low, 1)
    high = check_int("k_range[1]", high, low)
    if high > n:
        raise ValueError(
            f"n_samples={n} should be >= k_range[1]={high}; lower the range."
        )
    return low, high


def _n_features(n_features: Any, d: int) -> int:
    if n_features is None:
        return min(2, d) if d <= MANY_FEATURES else -(-d // 10)
    if isinstance(n_features, (float, np.floating)):
        share = check_share("n_features", n_features, open_low=True, open_high=False)
        return max(1, round(share * d))
    cure = "or a share of them as a float in (0, 1]"
    return check_int("n_features", n_features, 1, d, cure=cure)


def _alpha(alpha: Any) -> float:
    return check_not_negative("zipf_alpha", alpha)


def column_scale(X: Any, strategy: str) -> npt.NDArray[np.float64] | None:
    """Return what "zipf" multiplies columns by first, so that its weights matter.

    Dense columns come to unit standard deviation. In sparse data, text as a rule,
    the spread of a column has a meaning of its own and stays.
    """
    if strategy != "zipf":
        return None
    return np.ones(X.shape[1]) if is_sparse(X) else 1 / column_deviation(X)


def draw_view(
    X: Any,
    recipe: Recipe,
    scale: npt.NDArray[np.float64] | None,
    rng: np.random.Generator,
    to_device: Callable[[Any], Any] = np.asarray,
) -> Any:
    """Return the features that one partition sees, of all rows.

    ``to_device`` copies what was drawn to the device that has ``X``.
    """
    if recipe.n_features is not None:
        columns = rng.choice(
            X.shape[1], recipe.n_features, replace=False, shuffle=False
        )
        return X[:, to_device(np.sort(columns))]
    if recipe.n_components is not None:
        return _project(X, recipe.n_components, rng, to_device)
    if recipe.zipf_weights is not None and scale is not None:
        alpha = recipe.zipf_alpha
        if alpha is None:
            alpha = ZIPF_ALPHAS[rng.integers(len(ZIPF_ALPHAS))]
        weights = draw_zipf_weights(X.shape[1], alpha, recipe.zipf_weights, rng)
        return _scale_columns(X, to_device((weights * scale).astype(X.dtype)))
    return X


def draw_rows(
    n: int, recipe: Recipe, rng: np.random.Generator
) -> npt.NDArray[np.intp] | None:
    """Return the rows that one partition clusters, sorted; None for all of them."""
    if recipe.n_sampled is None:
        return None
    return np.sort(rng.choice(n, recipe.n_sampled, replace=False, shuffle=False))


def draw_k(X: Any, k_range: tuple[int, int], rng: np.random.Generator) -> int:
    """Draw a number of clusters, uniform in the range that ``X`` has rows for."""
    distinct = count_distinct_rows(X, k_range[1])
    low, high = (min(bound, distinct) for bound in k_range)
    return int(rng.integers(low, high + 1))


def draw_zipf_weights(
    n_features: int, alpha: float, reading: str, rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    """Draw feature weights in (0, 1].

    Parameters
    ----------
    n_features : int
        Number of weights.
    alpha : float
        Exponent; 0 is uniform ("drawn") or no weighting ("ranked").
    reading : {"drawn", "ranked"}
        "drawn": each weight is i in 1..100 with probability in proportion to
        i^-alpha, then all are divided by the largest. "ranked": 1 / rank^alpha under a
        random ranking of the features.
    rng : numpy.random.Generator
        Source of randomness.

    References
    ----------
    Caruana, Elhawary, Nguyen and Smith, Meta clustering, ICDM 2006; Nguyen and
    Caruana, Consensus clusterings, ICDM 2007.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> sorted(draw_zipf_weights(4, 1.0, "ranked", rng).tolist(), reverse=True)
    [1.0, 0.5, 0.3333333333333333, 0.25]
    """
    if reading == "ranked":
        return np.asarray((1.0 + rng.permutation(n_features)) ** -alpha)
    values = np.arange(1, ZIPF_MAX + 1)
    odds = values**-alpha
    weights = rng.choice(values, size=n_features, p=odds / odds.sum())
    return np.asarray(weights / weights.max(), dtype=np.float64)


def _project(
    X: Any, n_components: int, rng: np.random.Generator, to_device: Callable[[Any], Any]
) -> Any:
    axes = rng.standard_normal((X.shape[1], n_components)) / math.sqrt(n_components)
    return X @ to_device(axes.astype(X.dtype))


def _scale_columns(X: Any, weights: npt.NDArray[Any]) -> Any:
    if not is_sparse(X):
        return X * weights
    return type(X)((X.data * weights[X.indices], X.indices, X.indptr), shape=X.shape)
