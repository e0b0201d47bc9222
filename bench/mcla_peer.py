"""MCLA beside that of the PyPI package ensembleclustering, on the same ensemble."""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import gpu_consensus as gpc
from gpu_consensus.methods.call import open_task
from gpu_consensus.methods.supra import average_nmi

from .environment import others_busy
from .suite import Claim, Column, Context, Skipped, Table

_PEER = "ensembleclustering.ClusterEnsembles"
_INSTALL = "pip install --no-deps ensembleclustering kahypar pymetis"
_FASTER = 10
_SIZE = (4000, 20, 10)
_QUICK = (400, 8, 5)
_NOISE = 0.4

_COLUMNS = [
    Column("n", "n", ","),
    Column("r", "r"),
    Column("k", "K"),
    Column("partitioner", "partitioner"),
    Column("ours_s", "mcla, s", ".3f"),
    Column("peer_s", "ensembleclustering, s", ".2f"),
    Column("ratio", "ensembleclustering / mcla", ".1f"),
    Column("ours_anmi", "mcla ANMI", ".4f"),
    Column("peer_anmi", "ensembleclustering ANMI", ".4f"),
    Column("ours_rn", "mcla R_n", ".4f"),
    Column("peer_rn", "ensembleclustering R_n", ".4f"),
    Column("others_busy", "other processes, share of cores", ".0%"),
]


def mcla_table(context: Context) -> Table:
    """Run both on one ensemble, ours by every partitioner that is installed."""
    table = Table("mcla", "mcla and ensembleclustering's MCLA", _COLUMNS)
    try:
        peer = importlib.import_module(_PEER)
    except ImportError as error:
        reason = f"{error}; {_INSTALL}"
        table.skipped.append(Skipped("MCLA of ensembleclustering", reason))
        return table
    n, r, k = _QUICK if context.quick else _SIZE
    labels, planted = _noisy_labels(n, r, k)
    ensemble = gpc.Ensemble(labels)
    task = open_task("mcla", ensemble, k)
    busy = others_busy()
    begin = time.perf_counter()
    with _on_new_scipy(peer):
        theirs = peer.cluster_ensembles(
            labels.T.astype(float), nclass=k, solver="mcla", random_state=0
        )
    peer_s = time.perf_counter() - begin
    theirs = np.unique(theirs, return_inverse=True)[1]
    for partitioner in ("metis", "spectral"):
        gpc.mcla(labels[:200], k, partitioner=partitioner)  # imports, once
        begin = time.perf_counter()
        ours = gpc.mcla(ensemble, k, partitioner=partitioner, random_state=0)
        seconds = time.perf_counter() - begin
        table.rows.append(
            {
                "n": n,
                "r": r,
                "k": k,
                "partitioner": partitioner,
                "ours_s": seconds,
                "peer_s": peer_s,
                "ratio": peer_s / seconds,
                "ours_anmi": average_nmi(task, ours.labels.astype(np.intp)),
                "peer_anmi": average_nmi(task, theirs),
                "ours_rn": gpc.metrics.adjusted_rand(planted, ours.labels),
                "peer_rn": gpc.metrics.adjusted_rand(planted, theirs),
                "others_busy": busy,
            }
        )
    table.claims.append(_claim(table.rows, context.quick))
    table.notes.append(
        f"{k} planted clusters, {_NOISE:.0%} of the labels at random. The peer sums "
        "where MCLA takes means, and does not weigh clusters by size, so labels may "
        "differ; ANMI says which agrees better with the partitions."
    )
    return table


def _claim(rows: list[dict[str, Any]], quick: bool) -> Claim:
    slowest = min(row["ratio"] for row in rows)
    as_good = all(row["ours_anmi"] >= row["peer_anmi"] - 1e-3 for row in rows)
    return Claim(
        f"mcla at least {_FASTER} times faster than ensembleclustering at n=4000, "
        "r=20, K=10, with no lower ANMI",
        f"{slowest:.0f} times with the slower partitioner, ANMI "
        + ("no lower" if as_good else "lower"),
        None if quick else slowest >= _FASTER and as_good,
    )


def _noisy_labels(n: int, r: int, k: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    planted = rng.integers(k, size=n)
    stray = rng.random((n, r)) < _NOISE
    labels = np.where(stray, rng.integers(k, size=(n, r)), planted[:, None])
    return labels, planted


@contextmanager
def _on_new_scipy(peer: Any) -> Iterator[None]:
    """Let the peer run on a scipy that changed what its sparse helper relies on.

    Its adjacency lists are read from CSR instead, which is quicker than its own way, so
    the comparison favours the peer; its other warnings are its own matter.
    """
    own = peer.to_pymetis_format

    def lists(matrix: Any) -> tuple[list[int], list[int], list[int]]:
        csr = matrix.tocsr()
        return csr.indptr.tolist(), csr.indices.tolist(), csr.data.tolist()

    peer.to_pymetis_format = lists
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        peer.to_pymetis_format = own
