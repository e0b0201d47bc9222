"""Work that the loop saves changes nothing: each saving alone, both, and none."""

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_ensembles import noisy

import gpu_consensus as gpc
from gpu_consensus.backends import choose_backend
from gpu_consensus.backends.native.backend import NativeBackend
from gpu_consensus.loop.code_blocks import CodeBlocks
from gpu_consensus.loop.lloyd import lloyd
from gpu_consensus.loop.local_rows import LocalRows
from gpu_consensus.loop.starts import Starts
from gpu_consensus.loop.utilities import parse_utility
from gpu_consensus.methods.kcc import KccRule
from gpu_consensus.methods.sec import SecRule
from gpu_consensus.methods.voting import IpvcRule, IvcRule

N_RESTARTS = 3
SAVINGS = {
    "restarts share a table, and leave it": {"together": N_RESTARTS},
    "only moved objects are counted": {"moved_only": True},
}
ALL = {name: value for saving in SAVINGS.values() for name, value in saving.items()}


class CountsAll(NativeBackend):
    """Counts every object anew, whether it moved or not."""

    def count(self, codes, offsets, before, after, out, weight=None, absent=None):
        out[...] = 0
        if absent is not None:
            absent[...] = 0
        super().count(codes, offsets, None, after, out, weight, absent)


def make_rule(name, ensemble, backend):
    sums = backend.label_sums
    if name == "sec":
        return SecRule(ensemble, sums)
    if name in ("ivc", "ipvc"):
        kind = {"ivc": IvcRule, "ipvc": IpvcRule}[name]
        return kind(ensemble, ensemble.weights, sums)
    formula = parse_utility(name)[1]
    return KccRule(ensemble, formula, ensemble.weights, label_sums=sums)


def run(name, ensemble, seeds, n_clusters, skip, max_iter, savings):
    """Run all starts with some savings on and the others off."""
    moved_only = savings.get("moved_only", False)
    backend = choose_backend("native", None) if moved_only else CountsAll()
    rule = make_rule(name, ensemble, backend)
    rows = LocalRows(
        CodeBlocks(backend, ensemble.codes, ensemble.offsets),
        n_clusters,
        skip,
        row_weight=rule.row_weight,
        absent_weight=rule.absent_weight,
        hashed=not rule.monotone,
    )
    rows.start(seeds.copy())
    starts = Starts.fresh(len(seeds))
    together = savings.get("together", 1)
    lloyd(rows, backend, rule, starts, max_iter=max_iter, together=together)
    return rows, starts


@pytest.mark.parametrize("name", ["c", "h", "ncos", "l3", "sec", "ivc", "ipvc"])
@given(
    seed=st.integers(0, 10**6),
    n_rows=st.integers(6, 60),
    n_clusters=st.integers(1, 6),
    missing=st.sampled_from([0.0, 0.3, 0.8]),
    max_iter=st.sampled_from([1, 2, 3, 40]),
    complete=st.booleans(),
    unlabelled=st.booleans(),
)
@settings(max_examples=25)
def test_each_saving_alone_and_all_of_them_equal_the_plain_loop(
    name, seed, n_rows, n_clusters, missing, max_iter, complete, unlabelled
):
    rng = np.random.default_rng(seed)
    labels, _ = noisy(seed, n=n_rows, r=4, k=3, missing=missing)
    labels = labels[rng.integers(n_rows, size=80)]
    labels[rng.random(80) < 0.05 * unlabelled] = -1
    ensemble = gpc.Ensemble(labels)
    skip = np.flatnonzero((ensemble.labels < 0).all(axis=1))
    labelled = np.unique(np.delete(labels, skip, axis=0), axis=0)
    n_clusters = min(n_clusters, len(labelled))
    seeds = rng.integers(n_clusters + (not complete), size=(N_RESTARTS, 80))
    seeds = seeds.astype(np.uint8)
    seeds[:, skip] = n_clusters
    rule = make_rule(name, ensemble, choose_backend("numpy", None))
    plain = [
        oracles.lloyd(
            ensemble.codes, ensemble.offsets, rule, row, n_clusters, skip, max_iter
        )
        for row in seeds
    ]
    for savings in ({}, *SAVINGS.values(), ALL):
        rows, starts = run(name, ensemble, seeds, n_clusters, skip, max_iter, savings)
        for q, (assignment, history, ended) in enumerate(plain):
            assert np.array_equal(rows.labels(q), assignment), savings
            assert starts.history[q] == history, savings
            assert starts.converged[q] == ended, savings
