"""IVC and IPVC against the literal algorithms, object by object."""

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import vote_cost
from random_ensembles import noisy

import gpu_consensus as gpc

pytestmark = pytest.mark.every_backend

METHODS = {"ivc": gpc.ivc, "ipvc": gpc.ipvc}


def total(method, labels, consensus):
    return sum(
        vote_cost(method, labels, consensus, i, labels[l, i], consensus[l])
        for l in range(len(labels))
        for i in range(labels.shape[1])
        if labels[l, i] >= 0
    )


def literal(method, labels, consensus, n_clusters):
    """Run the textbook loop; None if rounding or an empty cluster decides anything."""
    seen = set()
    for _ in range(50):
        after = consensus.copy()
        for l in range(len(labels)):
            scores = [
                sum(
                    vote_cost(method, labels, consensus, i, labels[l, i], k)
                    for i in range(labels.shape[1])
                    if labels[l, i] >= 0
                )
                for k in range(n_clusters)
            ]
            # equal weights make ties of counts exact; ties of shares may round
            if method == "ipvc" and scores.count(min(scores)) > 1:
                return None
            after[l] = scores.index(min(scores))
        if len(set(after)) < n_clusters:
            return None
        still = np.array_equal(after, consensus)
        if method == "ivc" and not still:
            fall = total(method, labels, consensus) - total(method, labels, after)
            if fall == 0:  # whether it falls is then a matter of rounding
                return None
        if still or after.tobytes() in seen:
            return after
        seen.add(after.tobytes())
        consensus = after
    return None


@pytest.mark.parametrize("method", METHODS)
def test_the_loop_is_the_literal_algorithm(method):
    compared = 0
    for seed in range(30):
        labels, _ = noisy(seed, n=14, r=7, missing=0.2 * (seed % 2))
        init = np.random.default_rng(seed).permutation(np.arange(14) % 2)
        expected = literal(method, gpc.Ensemble(labels).labels, init, 2)
        if expected is None:
            continue
        compared += 1
        found = METHODS[method](labels, 2, init=init)
        assert np.array_equal(found.labels, expected)
        assert found.objective * 7 == pytest.approx(
            float(total(method, gpc.Ensemble(labels).labels, expected))
        )
    assert compared >= 10


@given(
    st.integers(0, 10**6), st.sampled_from(sorted(METHODS)), st.sampled_from([0.0, 0.5])
)
@settings(max_examples=30)
def test_objective_value_and_clusters(seed, method, missing):
    labels, _ = noisy(seed, n=40, r=6, missing=missing)
    ens = gpc.Ensemble(labels)
    result = METHODS[method](ens, 3, n_init=5, random_state=seed)
    assert sorted(set(result.labels.tolist())) == [0, 1, 2]
    exact = float(total(method, ens.labels, result.labels)) / 6
    assert result.objective == pytest.approx(exact)
    n_labels = (ens.labels >= 0).sum() / 6
    assert result.value == pytest.approx(1 - exact / n_labels)
    if method == "ivc":
        assert (np.diff(result.history) <= 1e-12).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("rows", "k", "expected"),
    [(oracles.E1, 2, "11112222"), (oracles.E2, 3, "111222333")],
)
def test_worked_examples(method, rows, k, expected):
    ens = gpc.Ensemble.from_partitions(oracles.worked(rows))
    result = METHODS[method](ens, k, random_state=0)
    assert oracles.canonical(result.labels) == oracles.canonical(expected)
    assert result.method == method


def test_weights_count_and_unknown_options_are_refused():
    labels, _ = noisy(2)
    only = gpc.ivc(labels, 3, weights=[1] + [0] * 11, n_init=20, random_state=0)
    pairs = {(a, b) for a, b in zip(labels[:, 0], only.labels, strict=True)}
    assert len(pairs) == len(set(labels[:, 0]))
    with pytest.raises(TypeError, match=r"ivc.*'refine'"):
        gpc.ivc(labels, 3, refine=True)
    by_name = gpc.consensus(labels, 3, "ipvc", random_state=0)
    assert np.array_equal(by_name.labels, gpc.ipvc(labels, 3, random_state=0).labels)
