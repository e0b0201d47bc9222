"""IPC against the matrix of pairs that its paper prints, in exact arithmetic."""

import importlib
from fractions import Fraction

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import vote_cost
from random_ensembles import noisy

import gpu_consensus as gpc
from gpu_consensus.backends.host_loops import compiled_loops, fastest
from gpu_consensus.loop import checkpoint
from gpu_consensus.methods.voting import IpvcRule

pytestmark = pytest.mark.every_backend

# the name is also the function's
ipc = importlib.import_module("gpu_consensus.methods.ipc")
UPDATES = ("batch", "sequential")
STOPPED = "ignore:ipc.* did not converge:gpu_consensus.ConvergenceWarning"


def random_ensemble(seed):
    """Complete labels, a start without empty clusters, and K; sizes vary."""
    rng = np.random.default_rng(seed)
    n, r, k = int(rng.integers(6, 25)), int(rng.integers(2, 9)), int(rng.integers(2, 5))
    labels, _ = noisy(seed, n=n, r=r)
    return labels, rng.permutation(np.arange(n) % k), k


def pairs(labels):
    """S of Eq. 1 times r: in how many partitions two objects share a label."""
    return (labels[:, None] == labels[None]).sum(axis=2)


def similarities(S, x, consensus, k, r):
    """S(x, P_k) of Eq. 3 for every cluster; exact, None for an empty cluster."""
    found = []
    for cluster in range(k):
        members = np.flatnonzero(consensus == cluster)
        share = Fraction(int(S[x, members].sum()), r * len(members) or 1)
        found.append(share if len(members) else None)
    return found


def batch_step(labels, consensus, k):
    """Algorithm 3, one repeat: the new labels and which of them are unique."""
    S = pairs(labels)
    after, unique = consensus.copy(), np.ones(len(labels), dtype=bool)
    for x in range(len(labels)):
        found = similarities(S, x, consensus, k, labels.shape[1])
        after[x] = found.index(max(found))
        unique[x] = found.count(max(found)) == 1
    return after, unique


def sweep(labels, consensus, k):
    """The same, but every move counts at once; an object that is alone stays."""
    S, consensus = pairs(labels), consensus.copy()
    for x in range(len(labels)):
        if (consensus == consensus[x]).sum() > 1:
            found = similarities(S, x, consensus, k, labels.shape[1])
            consensus[x] = found.index(max(found))
    return consensus


@pytest.mark.filterwarnings(STOPPED)
def test_a_batch_step_is_the_matrix_form():
    rows = 0
    for seed in range(200):
        labels, init, k = random_ensemble(seed)
        after, unique = batch_step(labels, init, k)
        found = gpc.ipc(labels, k, init=init, max_iter=1).labels
        # an emptied cluster takes one object, by our own rule
        emptied = k - len(set(after[unique]))
        assert (found != after)[unique].sum() <= emptied
        rows += int(unique.sum())
    assert rows >= 2500


def test_a_batch_run_is_the_matrix_form():
    compared = 0
    for seed in range(200):
        labels, consensus, k = random_ensemble(seed)
        init, seen, clear = consensus, set(), True
        while True:
            after, unique = batch_step(labels, consensus, k)
            clear &= bool(unique.all()) and len(set(after)) == k
            if not clear or np.array_equal(after, consensus) or after.tobytes() in seen:
                break
            seen.add(after.tobytes())
            consensus = after
        if clear:
            result = gpc.ipc(labels, k, init=init)
            assert np.array_equal(result.labels, after)
            S = pairs(labels)
            own = [
                similarities(S, x, after, k, labels.shape[1])[after[x]]
                for x in range(len(labels))
            ]
            assert result.value == pytest.approx(float(sum(own) / len(own)))
            assert result.converged
            compared += 1
    assert compared >= 60


def test_a_sequential_run_is_the_matrix_form_ties_included():
    for seed in range(200):
        labels, consensus, k = random_ensemble(seed)
        init, seen = consensus, set()
        while True:
            after = sweep(labels, consensus, k)
            if np.array_equal(after, consensus) or after.tobytes() in seen:
                break
            seen.add(after.tobytes())
            consensus = after
        result = gpc.ipc(labels, k, update="sequential", init=init)
        assert np.array_equal(result.labels, after)
        assert result.method == "ipc:sequential"


def test_the_two_updates_differ_where_a_move_matters_to_the_next():
    differ = 0
    for seed in range(40):
        labels, init, k = random_ensemble(seed)
        one, other = (gpc.ipc(labels, k, update=u, init=init).labels for u in UPDATES)
        differ += not np.array_equal(one, other)
    assert differ >= 10


def test_with_missing_labels_ipc_is_defined_as_ipvc():
    for seed in range(5):
        labels, _ = noisy(seed, n=80, r=8, missing=0.4)
        weights = np.arange(1, 9) if seed % 2 else None
        options = {"weights": weights, "n_init": 8, "random_state": seed}
        one, other = (f(labels, 3, **options) for f in (gpc.ipc, gpc.ipvc))
        assert np.array_equal(one.labels, other.labels)
        assert np.array_equal(one.history, other.history)


@pytest.mark.filterwarnings(STOPPED)
@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=25)
def test_a_sweep_with_gaps_and_weights_goes_by_the_members_present(seed, weighted):
    labels, _ = noisy(seed, n=15, r=5, missing=0.4)
    labels = gpc.Ensemble(labels).labels
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 5, size=5) if weighted else np.ones(5, dtype=int)
    init = rng.permutation(np.arange(15) % 3)
    consensus = init.copy()
    for x in range(15):
        if (consensus == consensus[x]).sum() == 1:
            continue
        found = [
            sum(
                int(weights[i])
                * vote_cost("ipvc", labels, consensus, i, labels[x, i], k)
                for i in np.flatnonzero(labels[x] >= 0)
            )
            for k in range(3)
        ]
        if found.count(min(found)) > 1:  # which of them is lower is then rounding
            return
        consensus[x] = found.index(min(found))
    result = gpc.ipc(
        labels, 3, update="sequential", init=init, weights=weights, max_iter=1
    )
    assert np.array_equal(result.labels, consensus)


@given(
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.5]),
    st.booleans(),
    st.sampled_from([2, 3, 7]),
)
@settings(max_examples=40)
def test_the_compiled_sweep_has_the_same_bits(seed, missing, weighted, k):
    labels, _ = noisy(seed, n=60, r=7, missing=missing)
    ens = gpc.Ensemble(labels)
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(7)) if weighted else np.full(7, 1 / 7)
    rule = IpvcRule(ens, weights)
    shares = ipc.Shares.of(rule, 60)
    assert shares.complete == (missing == 0)
    first = rng.integers(k + 1, size=60).astype(np.uint8)
    counts = oracles.count(ens.codes, ens.offsets, first[None], k)[:, 0]
    plain = ipc.sweep_objects
    with compiled_loops(True):
        fast = fastest("ipc_sweep", plain)
    assert plain is not fast
    ends = []
    for function in (plain, fast):
        state = first.copy(), counts.copy()
        members = ipc.count_members(shares, state[1])
        moved = [function(ens.codes, *shares, *state, *members) for _ in range(3)]
        for kept, right in zip(
            members, ipc.count_members(shares, state[1]), strict=True
        ):
            assert np.array_equal(kept, right)
        ends.append((*state, moved))
    assert np.array_equal(ends[0][0], ends[1][0])
    assert np.array_equal(ends[0][1], ends[1][1])
    assert ends[0][2] == ends[1][2]
    again = oracles.count(ens.codes, ens.offsets, ends[0][0][None], k)[:, 0]
    assert np.array_equal(again, ends[0][1])


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize(
    ("rows", "k", "expected"),
    [(oracles.E1, 2, "11112222"), (oracles.E2, 3, "111222333")],
)
def test_worked_examples(update, rows, k, expected):
    ens = gpc.Ensemble.from_partitions(oracles.worked(rows))
    result = gpc.ipc(ens, k, update=update, random_state=0)
    assert oracles.canonical(result.labels) == oracles.canonical(expected)


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_chunks_and_names_of_labels_change_nothing(update, missing):
    labels, _ = noisy(2, n=90, r=6, missing=missing)
    options = {"update": update, "n_init": 5, "random_state": 1}
    whole = gpc.ipc(labels, 4, **options)
    cut = gpc.ipc(labels, 4, memory_limit=500, **options)
    assert np.array_equal(whole.labels, cut.labels)
    init = np.arange(90) % 4
    renamed = np.where(labels < 0, -1, 9 - labels)
    one, other = (gpc.ipc(x, 4, update=update, init=init) for x in (labels, renamed))
    assert np.array_equal(one.labels, other.labels)
    assert np.array_equal(whole.predict(labels) < 0, (labels < 0).all(axis=1))


@pytest.mark.parametrize("update", UPDATES)
def test_small_and_plain_inputs(update):
    same = np.repeat([0, 1, 2], 5)
    for columns in (1, 4):  # one partition, and identical ones
        labels = np.tile(same[:, None], columns)
        result = gpc.ipc(labels, 3, update=update, n_init=5, random_state=0)
        assert oracles.canonical(result.labels) == same.tolist()
        assert result.value == 1.0
    with pytest.warns(UserWarning, match="n_clusters=1"):
        one = gpc.ipc(labels, 1, update=update)
    assert set(one.labels) == {0}
    with pytest.warns(UserWarning, match="n_clusters=1"):
        assert gpc.ipc(np.zeros((1, 3)), 1, update=update).labels.tolist() == [0]


def test_objects_without_any_label_stay_out_of_the_sweeps():
    labels, _ = noisy(3, n=40, r=5)
    labels[[0, 7]] = -1
    kept = gpc.ipc(labels, 3, update="sequential", on_unlabelled="keep", random_state=0)
    rest = np.delete(np.arange(40), [0, 7])
    alone = gpc.ipc(labels[rest], 3, update="sequential", init=kept.labels[rest])
    assert kept.labels[[0, 7]].tolist() == [-1, -1]
    assert np.array_equal(alone.labels, kept.labels[rest])


def test_an_interrupted_sequential_run_goes_on(tmp_path, monkeypatch):
    labels, _ = noisy(5, n=60, r=6)
    options = {"update": "sequential", "n_init": 6, "random_state": 2}
    whole = gpc.ipc(labels, 4, **options)
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN_SAVES", 0.0)
    calls, plain = [], fastest("ipc_sweep", ipc.sweep_objects)

    def stop_later(*arguments):
        calls.append(1)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return plain(*arguments)

    path = tmp_path / "state.npz"
    with monkeypatch.context() as patch:
        patch.setattr(ipc, "fastest", lambda *_: stop_later)
        with pytest.raises(KeyboardInterrupt):
            gpc.ipc(labels, 4, checkpoint=path, **options)
    again = gpc.ipc(labels, 4, checkpoint=path, **options)
    assert np.array_equal(again.labels, whole.labels)
    assert np.array_equal(again.history, whole.history)
    with pytest.raises(ValueError, match="its method differs"):
        gpc.ipc(labels, 4, checkpoint=path, **{**options, "update": "batch"})


def test_wrong_calls_are_refused():
    labels, _ = noisy(2)
    with pytest.raises(ValueError, match="update='serial' is unknown"):
        gpc.ipc(labels, 3, update="serial")
    with pytest.raises(TypeError, match=r"ipc.*'refine'"):
        gpc.ipc(labels, 3, refine=True)
    with pytest.warns(gpc.ConvergenceWarning, match="ipc:sequential did not converge"):
        gpc.ipc(labels, 3, update="sequential", n_init=2, max_iter=1, random_state=0)
    by_name = gpc.consensus(labels, 3, "ipc", random_state=0)
    assert np.array_equal(by_name.labels, gpc.ipc(labels, 3, random_state=0).labels)
