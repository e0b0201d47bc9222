"""The loop itself: stopping, undoing, repairing, going on from a checkpoint."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import oracles
import pytest
from random_ensembles import noisy

import gpu_consensus as gpc
from gpu_consensus.backends import choose_backend
from gpu_consensus.backends.segments import Segments
from gpu_consensus.loop import checkpoint
from gpu_consensus.loop.code_blocks import CodeBlocks
from gpu_consensus.loop.hashing import hash_assignments
from gpu_consensus.loop.lloyd import lloyd
from gpu_consensus.loop.local_rows import LocalRows
from gpu_consensus.loop.rule import Rule
from gpu_consensus.loop.starts import Starts
from gpu_consensus.loop.utilities import parse_utility
from gpu_consensus.methods.kcc import KccRule
from gpu_consensus.methods.voting import IpvcRule

pytestmark = pytest.mark.every_backend

NONE = np.empty(0, dtype=np.intp)


class Setting(NamedTuple):
    """What the loop works on."""

    ensemble: gpc.Ensemble
    blocks: CodeBlocks
    n_clusters: int
    rule: Rule


class Ended(NamedTuple):
    """The state that the loop ended with."""

    assignment: npt.NDArray
    starts: Starts


def kcc_setting(labels, n_clusters, utility="c"):
    ens = gpc.Ensemble(labels)
    rule = KccRule(ens, parse_utility(utility)[1], ens.weights)
    blocks = CodeBlocks(choose_backend("auto", None), ens.codes, ens.offsets)
    return Setting(ens, blocks, n_clusters, rule)


def run(setting, seeds, max_iter=100, objective=np.inf, **options):
    """Run the loop from these seeds; the counts it ends with must be true."""
    rule, ens, k = setting.rule, setting.ensemble, setting.n_clusters
    rows = LocalRows(setting.blocks, k, NONE, hashed=not rule.monotone)
    rows.start(np.array(seeds, dtype=np.uint8))
    starts = Starts.fresh(len(seeds))
    starts.objective[:] = objective
    lloyd(rows, setting.blocks.backend, rule, starts, max_iter=max_iter, **options)
    assignment = np.stack([rows.labels(q) for q in range(len(seeds))])
    counts = oracles.count(ens.codes, ens.offsets, assignment, k)
    for q in range(len(seeds)):
        assert np.array_equal(rows.counts(q), counts[:, q])
        tally = rows.take([q])
        assert np.array_equal(tally.counts[:, 0], counts[:, q])
        assert tally.sizes.sum() == (assignment[q] < k).sum()
    return Ended(assignment, starts)


class Rises(Rule):
    """A rule that claims a rise at one iteration, as rounding could."""

    def __init__(self, rule, at):
        self.rule, self.at, self.calls = rule, at, 0

    def table(self, counts, absent=None):
        return self.rule.table(counts, absent)

    def objective(self, counts, absent):
        self.calls += 1
        return self.rule.objective(counts, absent) + 1e9 * (self.calls >= self.at)


@pytest.mark.parametrize("at", [2, 3])
def test_a_step_that_does_not_lower_the_objective_is_undone(at):
    setting = kcc_setting(noisy(0, n=300, r=6)[0], 5)
    seeds = np.random.default_rng(0).integers(6, size=(1, 300))
    stopped = run(setting._replace(rule=Rises(setting.rule, at)), seeds)
    before = run(setting, seeds, max_iter=at - 1)
    assert not before.starts.converged[0]
    assert stopped.starts.converged[0]
    assert np.array_equal(stopped.assignment, before.assignment)
    assert stopped.starts.objective[0] == before.starts.objective[0]


def test_undoing_gives_a_complete_first_assignment_back():
    setting = kcc_setting(noisy(0, n=300, r=6)[0], 5)
    seeds = (np.arange(300) % 5)[None]
    counts = oracles.count(setting.ensemble.codes, setting.ensemble.offsets, seeds, 5)
    objective = setting.rule.objective(counts, None)
    rising = setting._replace(rule=Rises(setting.rule, 1))
    found = run(rising, seeds, max_iter=10, objective=objective)
    assert np.array_equal(found.assignment, seeds)


def test_hashes_are_those_of_repaired_assignments(monkeypatch):
    """IPVC stops when an assignment comes back, so what it has seen must be true."""
    rng = np.random.default_rng(6)
    labels = rng.integers(3, size=(9, 3))
    labels[:2] = labels[2]  # two seeds alike empty a cluster at once
    ens = gpc.Ensemble(labels)
    blocks = CodeBlocks(choose_backend("auto", None), ens.codes, ens.offsets)
    rows = LocalRows(blocks, 3, NONE, hashed=True)
    filled, fill, seen = [], LocalRows.fill, []

    def noted(self, restart, *arguments):
        filled.append(restart)
        return fill(self, restart, *arguments)

    def look(state):
        for q in range(3):
            (word,) = hash_assignments(np, [rows.labels(q)], 3)
            seen.append(int(word) in state.seen[q])

    monkeypatch.setattr(LocalRows, "fill", noted)
    seeds = np.full((3, 9), 3, dtype=np.uint8)
    seeds[:, [0, 1]] = [0, 1]
    seeds[range(3), [4, 6, 8]] = 2
    rows.start(seeds)
    rule, starts = IpvcRule(ens, ens.weights), Starts.fresh(3)
    lloyd(rows, blocks.backend, rule, starts, max_iter=50, after_iteration=look)
    assert filled
    assert seen
    assert all(seen)


def test_undoing_repeats_the_repairs():
    """All objects of three kinds; two seeds alike empty a cluster at once."""
    labels = np.repeat([[0, 0, 0], [1, 1, 0], [2, 2, 2]], 20, axis=0)
    setting = kcc_setting(labels, 3)
    seeds = np.full((1, 60), 3)
    seeds[0, [0, 1, 59]] = [0, 1, 2]  # objects 0 and 1 are the same
    once = run(setting, seeds, max_iter=1)
    stopped = run(setting._replace(rule=Rises(setting.rule, 2)), seeds)
    assert np.array_equal(stopped.assignment, once.assignment)


@pytest.mark.parametrize("utility", ["c", "h", "cos", "l5"])
def test_empty_clusters_take_the_worst_fitting_object(utility):
    labels, _ = noisy(1, n=50, r=8)
    labels[[10, 20, 30, 40]] = labels[10]
    setting = kcc_setting(labels, 4, utility)
    codes, offsets = setting.ensemble.codes, setting.ensemble.offsets
    seeds = np.full((1, 50), 4)
    seeds[0, [10, 20, 30, 40]] = [0, 1, 2, 3]  # four seeds alike: three clusters empty
    first = run(setting, seeds, max_iter=1)
    sizes = np.bincount(first.assignment[0], minlength=4)
    assert (sizes > 0).all()
    # the table of equal seeds is one column: the worst three of it, first of equals
    table, _ = setting.rule.table(oracles.count(codes, offsets, seeds, 4))
    _, best, _ = oracles.assign(codes, offsets, table)
    worst = np.argsort(-best[0], kind="stable")[:3]
    assert first.assignment[0, worst].tolist() == [1, 2, 3]


class ProbabilisticVoting(Rule):
    """T = 1 - m: not monotone, so the loop must notice repeats (IPVC)."""

    monotone = False

    def __init__(self, offsets):
        self.segments = Segments(offsets)

    def table(self, counts, absent=None):
        size = np.maximum(self.segments.sum(counts), 1)
        return (1 - counts / self.segments.to_labels(size)).astype(np.float32), None

    def objective(self, counts, absent):
        table, _ = self.table(counts, absent)
        return (counts * table).sum(axis=(0, 2)).astype(float)


def test_rules_that_are_not_monotone_stop_at_a_fixed_point_or_a_repeat():
    labels, _ = noisy(2, n=120, r=7)
    setting = kcc_setting(labels, 4)
    rule = ProbabilisticVoting(setting.ensemble.offsets)
    setting = setting._replace(rule=rule)
    seeds = np.random.default_rng(1).integers(4, size=(20, 120))
    assignment, starts = run(setting, seeds, max_iter=200)
    assert starts.converged.all()
    for q in range(20):
        again = run(setting, assignment[q : q + 1], max_iter=1)
        settled = np.array_equal(again.assignment[0], assignment[q])
        assert settled or len(starts.seen[q]) < len(starts.history[q])


class Alternates(Rule):
    """A rule that swaps two clusters for ever: only the hash can stop it."""

    monotone = False

    def table(self, counts, absent=None):
        table = np.zeros(counts.shape, dtype=np.float32)
        cluster = int(counts[0, 0, 1] > 0)  # where the objects of the first label are
        table[:, 0, int(cluster == 1)] = -1
        table[:, 0, int(cluster == 0)] = 1
        table[0, 0] = -table[0, 0]
        return -table, None

    def objective(self, counts, absent):
        return np.zeros(1)


def test_a_cycle_ends_the_loop():
    setting = kcc_setting(np.array([[0], [0], [1], [1]]), 2)
    alternates = setting._replace(rule=Alternates())
    _, starts = run(alternates, [[0, 0, 1, 1]], max_iter=1000)
    assert starts.converged[0]
    assert len(starts.history[0]) <= 4


def interrupt_after(monkeypatch, iterations):
    """Stop the run by force after so many saved iterations."""
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN_SAVES", 0.0)
    save = checkpoint.Checkpoint.save
    left = [iterations]

    def save_then_stop(self, starts, rows, *, force=False):
        save(self, starts, rows, force=force)
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint.Checkpoint, "save", save_then_stop)


@pytest.mark.parametrize("iterations", [1, 2, 4, 8])
def test_an_interrupted_run_goes_on_to_the_same_answer(
    monkeypatch, tmp_path, iterations
):
    labels, _ = noisy(3, n=400, r=10, k=4)
    path = tmp_path / "run.npz"
    whole = gpc.kcc(labels, 6, n_init=3, random_state=7)
    with monkeypatch.context() as patch:
        interrupt_after(patch, iterations)
        with pytest.raises(KeyboardInterrupt):
            gpc.kcc(labels, 6, n_init=3, random_state=7, checkpoint=path)
    resumed = gpc.kcc(labels, 6, n_init=3, random_state=7, checkpoint=path)
    assert np.array_equal(whole.labels, resumed.labels)
    assert np.array_equal(whole.history, resumed.history)
    assert [p.name for p in tmp_path.iterdir()] == ["run.npz"]


def test_without_a_seed_the_checkpoint_keeps_the_one_it_drew(tmp_path):
    labels, _ = noisy(4, n=200, r=5)
    path = tmp_path / "run.npz"
    first = gpc.kcc(labels, 6, n_init=1, checkpoint=path)
    again = gpc.kcc(labels, 6, n_init=1, checkpoint=path)
    assert np.array_equal(first.labels, again.labels)


def test_a_checkpoint_of_another_call_is_refused(tmp_path):
    labels, _ = noisy(5)
    path = tmp_path / "run.npz"
    gpc.kcc(labels, 3, random_state=0, checkpoint=path)
    with pytest.raises(ValueError, match=r"another call \(its n_clusters differs"):
        gpc.kcc(labels, 4, random_state=0, checkpoint=path)
    with pytest.raises(ValueError, match=r"another call \(its random_state differs"):
        gpc.kcc(labels, 3, random_state=1, checkpoint=path)
    labels[0, 0] += 1
    with pytest.raises(ValueError, match=r"another call \(its ensemble differs"):
        gpc.kcc(labels, 3, random_state=0, checkpoint=path)
    path.write_bytes(b"no checkpoint")
    with pytest.raises(ValueError, match="not a readable checkpoint"):
        gpc.kcc(labels, 3, random_state=0, checkpoint=path)
    with pytest.raises(OSError, match="cannot write"):
        gpc.kcc(labels, 3, random_state=0, checkpoint=tmp_path / "no" / "run.npz")


def test_a_folder_is_no_checkpoint_and_nobody_is_told_to_delete_it(tmp_path):
    with pytest.raises(ValueError, match=r"is a folder; give the path of a file"):
        gpc.kcc(noisy(5)[0], 3, checkpoint=tmp_path, random_state=0)


def test_a_checkpoint_knows_children_of_a_seed_and_utilities_apart(tmp_path):
    labels, _ = noisy(6, n=100, r=6)
    path = tmp_path / "run.npz"
    children = np.random.SeedSequence(0).spawn(2)
    gpc.kcc(labels, 6, n_init=1, random_state=children[0], checkpoint=path)
    with pytest.raises(ValueError, match=r"\(its random_state differs\)"):
        gpc.kcc(labels, 6, n_init=1, random_state=children[1], checkpoint=path)
    path.unlink()
    square = gpc.Utility(lambda m: (m**2).sum(-1), lambda m: 2 * m)
    quartic = gpc.Utility(lambda m: (m**4).sum(-1), lambda m: 4 * m**3)
    gpc.kcc(labels, 3, square, random_state=0, checkpoint=path)
    with pytest.raises(ValueError, match=r"\(its utility differs\)"):
        gpc.kcc(labels, 3, quartic, random_state=0, checkpoint=path)


def test_a_checkpoint_of_given_labels(tmp_path):
    labels, _ = noisy(7, n=60)
    init = np.where(np.arange(60) == 5, np.nan, np.arange(60) % 3)
    results = [
        gpc.kcc(labels, 3, init=init, checkpoint=tmp_path / "run.npz") for _ in range(2)
    ]
    assert np.array_equal(results[0].labels, results[1].labels)
    with pytest.raises(ValueError, match=r"\(its init differs\)"):
        gpc.kcc(labels, 3, init=init[::-1], checkpoint=tmp_path / "run.npz")
