"""Basic partitions by generate_partitions beside a loop over scikit-learn's KMeans."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

import gpu_consensus as gpc
from gpu_consensus.examples import load_example

from .environment import others_busy, usable_cores
from .measure import timed
from .suite import (
    Claim,
    Column,
    Context,
    Skipped,
    Table,
    collect_warnings,
    warning_notes,
)

FASTER = 4.0
NOT_LOWER = 0.01
N_CONSENSUS = 3  # runs of kcc per ensemble, whose R_n are averaged
_QUIET = 0.1  # share of the cores that other processes may use

_COLUMNS = [
    Column("data", "data"),
    Column("n", "n", ","),
    Column("d", "d", ","),
    Column("metric", "metric"),
    Column("r", "r"),
    Column("k", "k"),
    Column("ours_s", "ours, s", ".2f"),
    Column("kmeans_s", "KMeans, s", ".2f"),
    Column("ratio", "KMeans / ours", ".1f"),
    Column("lowest", "lowest of the seeds", ".1f"),
    Column("one_thread_s", "KMeans on one thread, s", ".2f"),
    Column("float32_s", "KMeans on float32, s", ".2f"),
    Column("converged_s", "ours to convergence, s", ".2f"),
    Column("ours_rn", "R_n, ours", ".4f"),
    Column("kmeans_rn", "R_n, KMeans", ".4f"),
    Column("difference", "ours - KMeans", "+.4f"),
    Column("error", "standard error", ".4f"),
    Column("others_busy", "other processes, share of cores", ".0%"),
]


@dataclass(frozen=True)
class _Case:
    """A data set and how much to do with it.

    ``n_samples`` rows are drawn when the file holds more; ``claimed`` says whether
    ratio and R_n must reach their marks, ``with_variants`` whether to time both in
    other ways too.
    """

    name: str
    metric: str
    n_partitions: int
    n_seeds: int
    n_samples: int | None = None
    claimed: bool = False
    with_variants: bool = True


_FULL = [
    _Case("pendigits", "euclidean", 100, 10, claimed=True),
    _Case("letter", "euclidean", 50, 10, claimed=True),
    _Case("mnist", "euclidean", 15, 5, 10_000, claimed=True),
    _Case("la12", "cosine", 5, 2, with_variants=False),
    _Case("k1b", "cosine", 10, 3, with_variants=False),
    _Case("tr41", "cosine", 20, 3, with_variants=False),
]
_BUNDLED = [
    _Case("digits", "euclidean", 10, 2, with_variants=False),
    _Case("digits", "cosine", 10, 2, with_variants=False),
]


def generation_table(context: Context) -> Table:
    """Return the table: time and quality of both, on the same features and ks."""
    table = Table(
        "generation", "Basic partitions: ours and scikit-learn's KMeans", _COLUMNS
    )
    messages: dict[str, int] = {}
    use_files = context.data_dir is not None and not context.quick
    cases = _FULL if use_files else _BUNDLED
    if not use_files:
        names = ", ".join(case.name for case in _FULL)
        why = "not in this run (--quick)" if context.quick else "needs --data-dir"
        table.skipped.append(Skipped(names, f"{why}; digits stands in."))
    steps = sum(len(_seeds(case, context)) for case in cases)
    with context.progress("generation", steps) as advance:
        for case in cases:
            try:
                X, y = _load(case, context)
            except ValueError as error:
                table.skipped.append(Skipped(case.name, str(error)))
                continue
            row = _Comparison(case, X, y, messages).run(_seeds(case, context), advance)
            table.rows.append(row)
            if case.claimed:
                table.claims += _claims(row)
    table.notes += _notes(table.rows) + warning_notes(messages)
    return table


class _Comparison:
    """Both programs on one data set."""

    def __init__(
        self, case: _Case, X: Any, y: npt.NDArray[Any], messages: dict[str, int]
    ) -> None:
        self.case, self.X, self.y = case, X, y
        self.n_clusters = len(np.unique(y))
        self.messages = messages

    def ours(self, seed: int, **options: Any) -> gpc.Ensemble:
        return gpc.generate_partitions(
            self.X,
            self.case.n_partitions,
            n_clusters=self.n_clusters,
            metric=self.case.metric,
            random_state=seed,
            **options,
        )

    def kmeans(self, X: Any, seed: int, ks: npt.NDArray[Any]) -> gpc.Ensemble:
        """Fit KMeans with its defaults, one number of clusters after the other."""
        from sklearn.cluster import KMeans

        with collect_warnings(self.messages):
            labels = [
                KMeans(int(k), random_state=1000 * seed + i).fit(X).labels_
                for i, k in enumerate(ks)
            ]
        return gpc.Ensemble.from_partitions(labels)

    def quality(self, ensemble: gpc.Ensemble, seed: int) -> float:
        """Return the mean R_n of a few consensus clusterings."""
        found = []
        with collect_warnings(self.messages):
            for j in range(N_CONSENSUS):
                result = gpc.kcc(
                    ensemble,
                    self.n_clusters,
                    "h",
                    refine=False,
                    random_state=N_CONSENSUS * seed + j,
                )
                found.append(gpc.metrics.adjusted_rand(self.y, result.labels))
        return float(np.mean(found))

    def variants(self, X: Any, seed: int, ks: npt.NDArray[Any]) -> dict[str, float]:
        """Time both in other ways, to tell what the difference is made of."""
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1):
            one_thread, _ = timed(partial(self.kmeans, X, seed, ks))
        narrow = X.astype(np.float32)
        float32, _ = timed(partial(self.kmeans, narrow, seed, ks))
        converged, _ = timed(
            partial(self.ours, seed, max_iter=300, rows_per_cluster=None)
        )
        return {
            "one_thread_s": one_thread,
            "float32_s": float32,
            "converged_s": converged,
        }

    def run(
        self, seeds: tuple[int, ...], advance: Callable[[int, str], None]
    ) -> dict[str, Any]:
        """Time in turn, seed by seed, and compare what the ensembles are worth."""
        X = _unit_rows(self.X) if self.case.metric == "cosine" else self.X
        self.kmeans(X, 0, self.ours(seeds[0]).n_labels[:2])  # all is loaded now
        spent: dict[str, list[float]] = {"ours": [], "kmeans": []}
        r_n: dict[str, list[float]] = {"ours": [], "kmeans": []}
        busy = [others_busy()]
        for seed in seeds:
            seconds, ours = timed(partial(self.ours, seed))
            spent["ours"].append(seconds)
            ks = ours.n_labels
            seconds, peer = timed(partial(self.kmeans, X, seed, ks))
            spent["kmeans"].append(seconds)
            busy.append(others_busy())
            for name, ensemble in (("ours", ours), ("kmeans", peer)):
                r_n[name].append(self.quality(ensemble, seed))
            advance(1, self.case.name)
        others = self.variants(X, seeds[-1], ks) if self.case.with_variants else {}
        ratios = np.divide(spent["kmeans"], spent["ours"])
        gains = np.subtract(r_n["ours"], r_n["kmeans"])
        error = gains.std(ddof=1) / len(gains) ** 0.5 if len(gains) > 1 else None
        n, d = self.X.shape
        return {
            "data": self.case.name,
            "n": n,
            "d": d,
            "metric": self.case.metric,
            "r": self.case.n_partitions,
            "k": f"{ks.min()} to {ks.max()}",
            "seeds": list(seeds),
            "ours_s": median(spent["ours"]),
            "kmeans_s": median(spent["kmeans"]),
            "ratio": float(np.median(ratios)),
            "lowest": float(ratios.min()),
            **others,
            "one_thread_ratio": others
            and others["one_thread_s"] / float(spent["ours"][-1]),
            "ours_rn": float(np.mean(r_n["ours"])),
            "kmeans_rn": float(np.mean(r_n["kmeans"])),
            "difference": float(gains.mean()),
            "error": None if error is None else float(error),
            "others_busy": max((b for b in busy if b is not None), default=None),
            "seconds": spent,
            "r_n": r_n,
        }


def _seeds(case: _Case, context: Context) -> tuple[int, ...]:
    return context.seeds[: case.n_seeds]


def _load(case: _Case, context: Context) -> tuple[Any, npt.NDArray[Any]]:
    """Return float64 features and classes, or raise a ValueError that says why not."""
    from scipy.sparse import csr_array

    if case in _BUNDLED:
        example = load_example(case.name)
        sparse = case.metric == "cosine"
        return csr_array(example.X) if sparse else example.X, example.y
    assert context.data_dir is not None
    path = context.data_dir / f"{case.name}.npz"
    if not path.is_file():
        raise ValueError(
            f"{path.name} is not in the data folder; store X (or data, indices, indptr "
            "and shape of a CSR matrix) and the classes y with numpy.savez."
        )
    try:
        with np.load(path, allow_pickle=False) as archive:
            y = archive["y"].ravel()
            if "X" in archive:
                X: Any = archive["X"].astype(np.float64)
            else:
                parts = (archive["data"].astype(np.float64),)
                parts += tuple(
                    archive[name].astype(np.int32) for name in ("indices", "indptr")
                )
                X = csr_array(parts, shape=tuple(archive["shape"]))
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path.name} cannot be used ({error}).") from error
    if X.shape[0] != len(y):
        raise ValueError(f"{path.name} has {X.shape[0]} rows but {len(y)} classes.")
    if case.n_samples is not None and case.n_samples < len(y):
        rng = np.random.default_rng(0)
        rows = np.sort(rng.choice(len(y), case.n_samples, replace=False))
        X, y = X[rows], y[rows]
    return X, y


def _unit_rows(X: Any) -> Any:
    from sklearn.preprocessing import normalize

    return normalize(X)


def _claims(row: dict[str, Any]) -> list[Claim]:
    name, seeds = row["data"], len(row["seeds"])
    noisy = (row["others_busy"] or 0) > _QUIET
    ratio = f"{row['ratio']:.1f} times (lowest seed {row['lowest']:.1f})"
    least, one = row["ratio"], row["one_thread_ratio"]
    if one:
        ratio += f", {one:.1f} times beside KMeans on one thread"
        least = min(least, one)
    # who is compared on one thread too does not win by threads that were held up
    decided = not noisy or (one and least >= FASTER)
    if noisy:
        ratio += "; other processes were busy"
    return [
        Claim(
            f"{name}: generation at least {FASTER:g} times faster than the KMeans loop",
            ratio,
            least >= FASTER if decided else None,
        ),
        Claim(
            f"{name}: mean R_n of kcc over {seeds} seeds lower by at most {NOT_LOWER}",
            f"{row['difference']:+.4f}, standard error {row['error'] or 0:.4f}",
            row["difference"] >= -NOT_LOWER,
        ),
    ]


def _notes(rows: list[dict[str, Any]]) -> list[str]:
    notes = [
        "Ours: generate_partitions(strategy='rps') with its defaults, one worker per "
        f"core ({usable_cores()} here). KMeans: KMeans(k, random_state=s).fit(X), its "
        "own defaults and threads, one fit after another for the same k; for cosine on "
        "rows of unit length, sparse as they are. Both get float64; r is kept small "
        "where KMeans is slow. Timed in turn, seed by seed: seconds and ratio are "
        "medians; one thread, float32 and convergence (max_iter=300, "
        "rows_per_cluster=None) are the last seed alone. R_n: kcc(utility='h', "
        f"refine=False) with K classes, mean of {N_CONSENSUS} runs per ensemble and "
        "over the seeds; the standard error is that of the paired difference.",
    ]
    noisy = [row["data"] for row in rows if (row["others_busy"] or 0) > _QUIET]
    if noisy:
        notes.append(
            f"**Times not reliable** for {', '.join(noisy)}: other processes used more "
            f"than {_QUIET:.0%} of the cores, which hurts threads that wait by "
            "spinning, as those of KMeans do. Repeat on a quiet machine."
        )
    return notes
