"""Features to labels in one call, and a method from outside the package."""

import inspect

import numpy as np
import pytest
from sklearn.datasets import load_iris

import gpu_consensus as gpc
from gpu_consensus.backends.recipe import make_tables
from gpu_consensus.backends.segments import as_table
from gpu_consensus.loop.fit import LoopOptions
from gpu_consensus.methods.call import Shared, open_task
from gpu_consensus.methods.voting import IpvcRule

pytestmark = pytest.mark.every_backend

X = load_iris().data


@pytest.mark.parametrize(
    "method", ["auto", "kcc", "hac", "vote", "best", "least_squares"]
)
def test_it_is_generation_followed_by_consensus(method):
    result = gpc.cluster(
        X, 3, method=method, n_partitions=6, strategy="rfs", random_state=5
    )
    seeds = np.random.SeedSequence(5).spawn(2)
    ens = gpc.generate_partitions(X, 6, "rfs", 3, random_state=seeds[0])
    k = None if method in ("best", "least_squares") else 3
    expected = gpc.consensus(ens, k, method, random_state=seeds[1])
    assert np.array_equal(result.details["ensemble"].codes, ens.codes)
    assert np.array_equal(result.labels, expected.labels)
    assert result.objective == expected.objective
    assert expected.details.keys() <= result.details.keys()
    assert all(seconds > 0 for seconds in result.details["seconds"])


def test_methods_that_find_the_number_do_without_it():
    result = gpc.cluster(X, method="vote", n_partitions=5, random_state=0)
    expected = gpc.vote(result.details["ensemble"])
    assert np.array_equal(result.labels, expected.labels)
    assert result.n_clusters == len(set(expected.labels.tolist())) > 1


def test_it_goes_on_from_its_checkpoint(tmp_path):
    for method in ("kcc", "auto", "lwgp"):  # some keep a state of their own
        folder = tmp_path / method
        first, again = (
            gpc.cluster(X, 3, method=method, n_partitions=5, checkpoint=folder)
            for _ in range(2)
        )
        assert (folder / "consensus.npz").is_file() == (method == "kcc")
        assert np.array_equal(first.labels, again.labels)
        assert first.objective == again.objective
    gpc.cluster(X, 3, method="hac", n_partitions=5, checkpoint=tmp_path / "b")
    assert not (tmp_path / "b" / "consensus.npz").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_clusters": None}, "method 'auto' does not find the number of clusters"),
        ({"n_clusters": 151}, "n_samples=150 should be >= n_clusters=151"),
        ({"method": "kc"}, "method='kc' is unknown; choose one of 'kcc'"),
        ({"method_options": {"n_clusters": 4}}, "n_clusters=4; give it as n_clusters"),
        ({"method_options": {"weight": 1}}, "auto: option='weight' is unknown; choose"),
        ({"generate_options": {"share": 1}}, "choose one of 'sample_share'"),
        ({"generate_options": {"strategy": "rfs"}}, "give it as strategy of the call"),
        ({"checkpoint": 3}, "checkpoint=3 should be a path"),
        (
            {"method": "lambda_consensus", "checkpoint": "a"},
            "checkpoint='a' is of no use to lambda_consensus",
        ),
    ],
)
def test_what_is_wrong_is_said_before_the_work(change, message):
    def base(X, n_clusters, seed):
        raise AssertionError("partitions were made")

    with pytest.raises((TypeError, ValueError), match=message):
        gpc.cluster(X, **{"n_clusters": 3, "base": base} | change)


class SteepRule(IpvcRule):
    def table(self, counts, absent=None):
        plain, _ = make_tables(self.plain, counts, absent)  # as IPVC makes it
        return as_table(plain * plain), None


def steep(
    ensemble,
    n_clusters,
    *,
    weights=None,
    init="partition",
    max_iter=100,
    backend="auto",
    n_jobs=None,
    checkpoint=None,
    random_state=None,
    progress=False,
):
    shared = Shared(weights, "raise", backend, n_jobs, None, random_state, progress)
    loop = LoopOptions(init, 10, max_iter, checkpoint)
    task = open_task("steep", ensemble, n_clusters, shared, loop=loop)
    rule = SteepRule(task.given, task.given_weights)
    rule.plain, rule.recipe = rule.recipe, None  # its own table, made on the host
    return task.fit(rule)


def test_a_loop_method_from_outside_the_package(monkeypatch, tmp_path):
    lines = (len(inspect.getsourcelines(one)[0]) for one in (SteepRule, steep))
    assert sum(lines) < 25
    monkeypatch.setitem(gpc.METHODS, "steep", steep)
    ens = gpc.generate_partitions(X, 8, n_clusters=3, random_state=0)
    path = tmp_path / "state.npz"
    result = gpc.consensus(
        ens, 3, "steep", init="random", max_iter=50, checkpoint=path, random_state=0
    )
    assert path.is_file()
    host = steep(ens, 3, init="random", max_iter=50, backend="numpy", random_state=0)
    assert np.array_equal(result.labels, host.labels)
    assert result.method == "steep"
    with pytest.raises(TypeError, match="steep: option='inits' is unknown; choose one"):
        gpc.consensus(ens, 3, "steep", inits=3)
    model = gpc.ConsensusClustering(
        3, "steep", 8, method_options={"max_iter": 50}, random_state=0
    ).fit(X)
    called = gpc.cluster(
        X,
        3,
        method="steep",
        n_partitions=8,
        checkpoint=tmp_path / "both",
        random_state=0,
    )
    assert (tmp_path / "both" / "consensus.npz").is_file()
    assert np.array_equal(model.labels_, called.labels)
