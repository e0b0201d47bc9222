"""What each saving of the loop is worth, and the work outside the loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import gpu_consensus as gpc
from gpu_consensus.backends import choose_backend, why_unavailable
from gpu_consensus.backends.protocol import Backend
from gpu_consensus.loop.code_blocks import CodeBlocks
from gpu_consensus.loop.lloyd import lloyd
from gpu_consensus.loop.local_rows import LocalRows
from gpu_consensus.loop.starts import Starts
from gpu_consensus.loop.utilities import parse_utility
from gpu_consensus.methods.kcc import KccRule
from gpu_consensus.methods.sec import SecRule

from .suite import Claim, Column, Context, Skipped, Table
from .synthetic import make_ensemble

_N_CLUSTERS = 10
_N_RESTARTS = 10
_MAX_ITER = 50
_REPEATS = 3
_PAYS = 1.3  # times faster, on two of the ensembles, or it is not worth its code
_SAVINGS = {
    "together": "starts share a table, and leave it when they end",
    "moved_only": "only objects that moved are counted again",
}


def savings_table(context: Context) -> Table:
    """Time the loop with every saving, and without each of them in turn."""
    table = Table(
        "savings",
        "What each saving of the loop is worth",
        [
            Column("method", "method"),
            Column("ensemble", "ensemble"),
            Column("n", "n", ","),
            Column("r", "r"),
            Column("distinct", "distinct rows", ".0%"),
            Column("without", "without"),
            Column("equal", "same result"),
            Column("seconds", "s", ".3f"),
            Column("all_s", "with all, s", ".3f"),
            Column("ratio", "times slower without", ".2f"),
        ],
    )
    reason = why_unavailable("native")
    if reason:
        table.skipped = [Skipped("savings", reason)]
        return table
    scale = 20 if context.quick else 1
    cases = {
        "10 to 300 labels, half random": make_ensemble(100_000 // scale, 100, 10, 0)[0],
        "few labels, seven in ten random": _planted(100_000 // scale, 50, 0.7),
        "few labels, one in ten random": _planted(1_000_000 // scale, 10, 0.1),
        "half of the labels missing": gpc.drop_labels(
            _planted(100_000 // scale, 50, 0.7), 0.5, random_state=0
        ),
    }
    for name, ensemble in cases.items():
        table.rows += _measure(name, ensemble)
    claims = []
    for without in _SAVINGS.values():
        ratios = [row["ratio"] for row in table.rows if row["without"] == without]
        claims.append(
            Claim(
                f"it pays that {without}",
                " and ".join(f"{ratio:.2f}" for ratio in ratios) + " times faster",
                None if context.quick else sorted(ratios)[-2] >= _PAYS,
            )
        )
    good = all(row["equal"] for row in table.rows)
    claims.append(Claim("no saving changes a bit of a result", str(good), good))
    table.claims = claims
    table.notes = [
        "The loop alone, of kcc with utility c, or of sec where labels are missing (it "
        "sums the weights of absent objects too: of those that moved, or of all), "
        f"K={_N_CLUSTERS}, {_N_RESTARTS} starts from random objects, at most "
        f"{_MAX_ITER} iterations; the least of {_REPEATS} runs in turn. A saving stays "
        f"where it is at least {_PAYS} times faster on two ensembles."
    ]
    return table


def _planted(n_samples: int, n_partitions: int, random: float) -> gpc.Ensemble:
    """Partitions into the planted clusters, with some labels drawn at random."""
    rng = np.random.default_rng(0)
    planted = rng.integers(_N_CLUSTERS, size=n_samples)
    shape = (n_partitions, n_samples)
    stray = rng.random(shape) < random
    codes = np.where(stray, rng.integers(_N_CLUSTERS, size=shape), planted)
    n_labels = np.full(n_partitions, _N_CLUSTERS)
    return gpc.Ensemble.from_codes(codes.astype(np.uint8), n_labels)


def _measure(name: str, ensemble: gpc.Ensemble) -> list[dict[str, Any]]:
    seeds = _random_seeds(ensemble.n_samples)
    choices = {"": {}, **{key: {key: False} for key in _SAVINGS}}
    seconds: dict[str, float] = dict.fromkeys(choices, np.inf)
    results: dict[str, tuple[Any, Starts]] = {}
    for repeat in range(1 + _REPEATS):  # the first compiles
        for key, off in choices.items():
            begin = time.perf_counter()
            results[key] = run_loop(ensemble, seeds, **off)
            if repeat:
                spent = time.perf_counter() - begin
                seconds[key] = min(seconds[key], spent)
    rows = np.ascontiguousarray(ensemble.codes.T)
    whole = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))
    labels, every = results[""]
    return [
        {
            "method": "sec" if ensemble.n_missing.any() else "kcc",
            "ensemble": name,
            "n": ensemble.n_samples,
            "r": ensemble.n_partitions,
            "distinct": len(np.unique(whole)) / ensemble.n_samples,
            "without": without,
            "equal": bool(
                np.array_equal(labels, results[key][0])
                and every.history == results[key][1].history
            ),
            "seconds": seconds[key],
            "all_s": seconds[""],
            "ratio": seconds[key] / seconds[""],
        }
        for key, without in _SAVINGS.items()
    ]


def _random_seeds(n_samples: int) -> npt.NDArray[np.uint8]:
    rng = np.random.default_rng(0)
    seeds = np.full((_N_RESTARTS, n_samples), _N_CLUSTERS, dtype=np.uint8)
    for row in seeds:
        row[rng.choice(n_samples, _N_CLUSTERS, replace=False)] = np.arange(_N_CLUSTERS)
    return seeds


def counts_all() -> Backend:
    """Return a native backend that counts all objects again, moved or not."""
    from gpu_consensus.backends.native.backend import NativeBackend

    class CountsAll(NativeBackend):
        def count(
            self,
            codes: Any,
            offsets: Any,
            before: Any,
            after: Any,
            out: Any,
            weight: Any = None,
            absent: Any = None,
        ) -> None:
            if before is not None:
                out[:] = 0
                if absent is not None:
                    absent[:] = 0
            super().count(codes, offsets, None, after, out, weight, absent)

    return CountsAll()


def run_loop(
    ensemble: gpc.Ensemble,
    seeds: npt.NDArray[np.uint8],
    *,
    together: bool = True,
    moved_only: bool = True,
) -> tuple[Any, Starts]:
    """Run the loop on all threads, with these savings; return labels and starts."""
    backend = choose_backend("native", None) if moved_only else counts_all()
    _, rule = _rule(ensemble, backend)
    # in one block, or counting all objects of a block would forget the others
    limit = 64 * ensemble.codes.nbytes
    rows = LocalRows(
        CodeBlocks(backend, ensemble.codes, ensemble.offsets, limit),
        _N_CLUSTERS,
        np.empty(0, dtype=np.intp),
        row_weight=rule.row_weight,
        absent_weight=rule.absent_weight,
    )
    rows.start(seeds.copy())
    starts = Starts.fresh(len(seeds))
    lloyd(
        rows,
        backend,
        rule,
        starts,
        max_iter=_MAX_ITER,
        together=None if together else 1,
    )
    return np.stack([rows.labels(q) for q in range(len(seeds))]), starts


def _rule(ensemble: gpc.Ensemble, backend: Backend) -> tuple[str, Any]:
    """Return the name and the rule of the method that is timed, as users get it."""
    sums = backend.label_sums
    if ensemble.n_missing.any():
        return "sec", SecRule(ensemble, sums)
    formula = parse_utility("c")[1]
    return "kcc", KccRule(ensemble, formula, ensemble.weights, label_sums=sums)


def outside_table(context: Context) -> Table:
    """Time pairs, the methods that need them, and the metrics, compiled or not."""
    table = Table(
        "outside",
        "Pairs of objects, and metrics",
        [
            Column("what", "what"),
            Column("n", "n", ","),
            Column("equal", "same result"),
            Column("ours_s", "ours, s", ".3f"),
            Column("other", "beside"),
            Column("other_s", "s", ".3f"),
            Column("ratio", "times faster", ".2f"),
        ],
    )
    n = 500 if context.quick else 3000
    ensemble, _ = make_ensemble(n, 50, 10, 0)
    if why_unavailable("native"):
        table.skipped = [Skipped("pairs", why_unavailable("native"))]
    else:
        table.rows += [
            _beside("coassociation", n, partial(_pairs, ensemble)),
            _beside("least_squares", n, partial(_labels, "least_squares", ensemble)),
            _beside("hac", n, partial(_labels, "hac", ensemble, 10)),
        ]
    table.rows += _metrics(10_000 if context.quick else 1_000_000)
    good = all(row["equal"] for row in table.rows)
    table.claims = [Claim("equal results outside the loop", str(good), good)]
    table.notes = [
        "Pairs: r=50, backend='native' beside 'numpy', on all threads. Metrics: "
        "two labellings with 50 clusters, beside scikit-learn; they are one "
        "contingency table each, in NumPy. The least of the repeats."
    ]
    return table


def _pairs(ensemble: gpc.Ensemble, backend: str) -> Any:
    everybody = np.arange(ensemble.n_samples)
    chosen = choose_backend(backend, None)
    n_labels = np.asarray(ensemble.n_labels)
    return chosen.pairs(ensemble.codes, n_labels, everybody, everybody).same


def _labels(
    method: str, ensemble: gpc.Ensemble, n_clusters: int | None = None, *, backend: str
) -> Any:
    asked = [] if n_clusters is None else [n_clusters]
    return gpc.METHODS[method](ensemble, *asked, backend=backend, random_state=0).labels


def _beside(what: str, n: int, call: Callable[..., Any]) -> dict[str, Any]:
    return _row(
        what,
        n,
        partial(call, backend="native"),
        "numpy",
        partial(call, backend="numpy"),
        np.array_equal,
    )


def _metrics(n: int) -> list[dict[str, Any]]:
    from sklearn import metrics as peer

    rng = np.random.default_rng(0)
    a = rng.integers(50, size=n)
    b = np.where(rng.random(n) < 0.3, rng.integers(50, size=n), a)
    pairs = (
        ("ari", gpc.metrics.adjusted_rand, peer.adjusted_rand_score),
        (
            "nmi",
            gpc.metrics.nmi,
            partial(peer.normalized_mutual_info_score, average_method="geometric"),
        ),
    )
    return [
        _row(name, n, partial(ours, a, b), "scikit-learn", partial(theirs, a, b), close)
        for name, ours, theirs in pairs
    ]


def close(a: Any, b: Any) -> bool:
    """Whether two numbers differ by rounding at most."""
    return bool(abs(a - b) < 1e-9)


def _row(
    what: str,
    n: int,
    ours: Callable[[], Any],
    other: str,
    theirs: Callable[[], Any],
    equal: Callable[[Any, Any], bool],
) -> dict[str, Any]:
    found, seconds = {}, {"ours": np.inf, "other": np.inf}
    for _ in range(1 + _REPEATS):
        for key, call in (("ours", ours), ("other", theirs)):
            begin = time.perf_counter()
            found[key] = call()
            seconds[key] = min(seconds[key], time.perf_counter() - begin)
    return {
        "what": what,
        "n": n,
        "equal": equal(found["ours"], found["other"]),
        "ours_s": seconds["ours"],
        "other": other,
        "other_s": seconds["other"],
        "ratio": seconds["other"] / seconds["ours"],
    }
