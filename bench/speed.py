"""KCC beside scikit-learn's KMeans, a C loop and the limits of the machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .mcla_peer import mcla_table
from .memory import memory_table
from .speed_counts import counts_table
from .speed_generation import generation_table
from .speed_limit import limit_table
from .speed_peer import MAX_ITER, N_INIT, SAME_ITER, Peer
from .speed_phases import first_call_table, growth_table, refine_table, share_table
from .speed_same import million_table, same_table
from .speed_savings import outside_table, savings_table
from .speed_screening import screening_table
from .suite import Claim, Column, Context, Table, warning_notes

NAME = "speed"

_N_CLUSTERS = 10
_QUIET = 0.1  # share of the cores that other processes may use
_FASTER = 8  # times KMeans per iteration, at the largest size
_FASTER_SMALL = 1.5  # in total, where there are so few objects:
_SMALL = 1000

_EQUALITY_COLUMNS = [
    Column("n", "n", ","),
    Column("same_labels", "labels equal for all chunks and threads"),
    Column("difference", "F check", ".1e"),
    Column("peer_difference", "KMeans inertia / r against F of its labels", ".1e"),
    Column("same_start", "F from the same start, kcc / KMeans - 1", ".1e"),
    Column("equal", "equal"),
]

_TIME_COLUMNS = [
    Column("n", "n", ","),
    Column("r", "r"),
    Column("backend", "backend"),
    Column("kcc_s", "kcc, s", ".3f"),
    Column("kmeans_s", "KMeans, s", ".3f"),
    Column("kcc_threads", "kcc threads"),
    Column("kmeans_threads", "KMeans threads"),
    Column("others_busy", "other processes, share of cores", ".0%"),
    Column("ratio_total", "KMeans / kcc", ".2f"),
    Column("auto_backend", "backend='auto' takes"),
    Column("auto_s", "auto, s", ".3f"),
    Column("ratio_auto", "KMeans / auto", ".2f"),
    Column("kcc_iterations", "kcc iterations"),
    Column("kmeans_iterations", "KMeans iterations"),
    Column("kcc_ms", "kcc, ms per iteration", ".3f"),
    Column("kmeans_ms", "KMeans, ms per iteration", ".3f"),
    Column("ratio_iteration", "KMeans / kcc per iteration", ".2f"),
    Column("ratio_same", f"KMeans / kcc, stopped after {SAME_ITER}", ".2f"),
    Column("kcc_lookups", "kcc, lookups/s", ".2e"),
    Column("kmeans_lookups", "KMeans, lookups/s", ".2e"),
    Column("kcc_f", "kcc F", ".2f"),
    Column("kmeans_f", "KMeans F", ".2f"),
    Column("default_s", "kcc default init, s", ".3f"),
    Column("default_f", "F", ".2f"),
]


def run(context: Context) -> Iterator[Table]:
    """Yield one table after another, equality first."""
    if context.counts:
        yield counts_table(context)
        return
    sizes = [150, 1000, 10_000] + ([] if context.quick else [100_000])
    n_partitions = 20 if context.quick else 100
    equality = Table("equality", "Same answers", _EQUALITY_COLUMNS)
    times = Table("time", "kcc and scikit-learn's KMeans", _TIME_COLUMNS)
    messages: dict[str, int] = {}
    with context.progress("speed", 2 * len(sizes)) as advance:
        for n in sizes:
            peer = Peer(n, n_partitions, _N_CLUSTERS, messages)
            equality.rows.append(peer.check())
            advance(1, f"n={n}: checked")
            if equality.rows[-1]["equal"]:
                times.rows.append(peer.time(repeats=max(1, 30_000 // n)))
            else:
                times.notes.append(f"n={n:,} was not timed: the answers differ.")
            advance(1, f"n={n}: timed")
    good = sum(row["equal"] for row in equality.rows)
    equality.claims = [
        Claim(
            "kcc: same labels for all chunks and threads, F as recomputed and as "
            "KMeans counts it",
            f"{good} of {len(sizes)} sizes",
            good == len(sizes),
        )
    ]
    times.notes += _time_notes(times.rows) + warning_notes(messages)
    times.claims = _time_claims(times.rows)
    yield equality
    yield times
    yield same_table(context)
    yield limit_table(context)
    yield screening_table(context)
    yield share_table(context)
    yield savings_table(context)
    yield growth_table(context)
    yield refine_table(context)
    yield first_call_table(context)
    yield memory_table(context)
    yield million_table(context)
    yield outside_table(context)
    yield mcla_table(context)
    yield generation_table(context)
    if not context.quick:
        yield counts_table(context)


def _time_claims(rows: list[dict[str, Any]]) -> list[Claim]:
    claims = []
    for row in rows:
        if row["n"] == 100_000:
            ratio = row["ratio_iteration"]
            claims.append(
                Claim(
                    f"kcc at n={row['n']:,}, r={row['r']}: at least {_FASTER} times "
                    "faster than KMeans, iteration by iteration",
                    "iterations unknown" if ratio is None else f"{ratio:.1f} times",
                    None if ratio is None else ratio >= _FASTER,
                )
            )
    few = [row for row in rows if row["n"] <= _SMALL]
    if few:
        lowest = min(few, key=lambda row: row["ratio_total"])
        claims.append(
            Claim(
                f"kcc at n <= {_SMALL:,}: at least {_FASTER_SMALL} times faster than "
                "KMeans in total",
                " and ".join(f"{row['ratio_total']:.2f}" for row in few) + " times",
                lowest["ratio_total"] >= _FASTER_SMALL,
            )
        )
    for key, what in (("ratio_total", "compiled"), ("ratio_auto", "backend='auto'")):
        worst = min(rows, key=lambda row: row[key], default=None)
        if worst is not None:
            claims.append(
                Claim(
                    f"kcc ({what}) is no slower than KMeans at any size, compile time "
                    "apart",
                    f"{worst[key]:.2f} times as fast at n={worst['n']:,}",
                    worst[key] >= 1,
                )
            )
    return claims


def _time_notes(rows: list[dict[str, Any]]) -> list[str]:
    notes = [
        f"kcc(utility='c', init='random', n_init={N_INIT}, refine=False, max_iter="
        f"{MAX_ITER}) and KMeans(init='random', n_init={N_INIT}, algorithm='lloyd', "
        f"tol=0, max_iter={MAX_ITER}), each on one thread and on all cores and shown "
        f"at its better one, K={_N_CLUSTERS}, planted clusters "
        "with half of the labels at random; seconds are the least of the repeats. "
        "Iterations are summed over the starts; a lookup is one object, partition and "
        f"cluster. With max_iter={SAME_ITER} both make the same number of iterations "
        "where no start ends before. Compare ratios within this run only.",
    ]
    noisy = [f"{row['n']:,}" for row in rows if (row["others_busy"] or 0) > _QUIET]
    if noisy:
        notes.append(
            f"**Not reliable** at n = {', '.join(noisy)}: other processes used more "
            f"than {_QUIET:.0%} of the cores. Repeat on a quiet machine before any "
            "ratio is quoted."
        )
    for key, what in (
        ("ratio_total", "in total"),
        ("ratio_auto", "in total with backend='auto'"),
        ("ratio_iteration", "per iteration"),
    ):
        lost = [f"{row['n']:,}" for row in rows if row[key] and row[key] < 1]
        if lost:
            notes.append(f"kcc is slower {what} at n = {', '.join(lost)}.")
    return notes
