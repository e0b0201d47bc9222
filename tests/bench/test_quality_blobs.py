"""The blobs of the benchmark of quality, and what is claimed of labels and regret."""

import numpy as np
import pytest

import gpu_consensus as gpc
from bench import cli
from bench.quality_blobs import BLOBS, Blobs, K, blob_tables, run_blobs
from bench.quality_ensembles import ENSEMBLES
from bench.quality_label_tables import label_tables, regret_tables
from bench.quality_records import Records


def record(name, method, ari, seed=0, **more):
    key = {"part": "blobs", "set": name, "method": method, "seed": seed}
    n = next(item.n for item in BLOBS if item.name == name)
    memory = {"features": 160.0, "memory": 80.0}
    found = {"partitions": 0, "n": n, "ari": ari, "seconds": 2.0, **memory}
    if method != "KMeans":
        found |= {"method_name": "auto:kcc", "made": 0.5, "consensus": 1.0}
    if method == "default":
        found["candidates"] = {"cvote": 0.25, "kcc": 0.5}
    return {**key, **found, **more}


@pytest.mark.parametrize("ratio", [1, 20, 50])
def test_blobs_have_the_sizes_that_they_say(ratio):
    X, y = Blobs(5000, ratio).make(3)
    sizes = np.bincount(y)
    assert X.shape == (5000, 20)
    assert len(sizes) == K
    assert sizes.max() / sizes.min() == pytest.approx(ratio, rel=0.1)
    again, _ = Blobs(5000, ratio).make(3)
    assert (again == X).all()


def test_a_method_is_measured_on_its_own():
    found = run_blobs("blobs-1000", "kcc", 0)
    X, y = BLOBS[0].make(0)
    labels = gpc.cluster(X, K, method="kcc", random_state=0).labels
    assert found["ari"] == gpc.metrics.adjusted_rand(y, labels)
    assert found["features"] == X.nbytes / 1e6
    assert found["made"] + found["consensus"] <= found["seconds"]


def test_every_seed_has_to_keep_up_with_kmeans():
    name = "blobs-1000000"
    runs = [record(name, "KMeans", 0.99, s) for s in (0, 1)]
    good = [record(name, "default", 0.989, s) for s in (0, 1)]
    table, candidates = blob_tables(runs + good)
    assert [claim.passed for claim in table.claims] == [True, True, True]
    assert "1.50 times" in table.claims[2].measured
    row = next(row for row in table.rows if row["method"] == "default")
    assert row["behind"] == pytest.approx(0.001)
    assert candidates.rows[0]["cvote"] == 0.25
    assert candidates.rows[0]["won"] == "kcc 2"
    bad = [good[0], record(name, "default", 0.98, 1, seconds=31.0, memory=170.0)]
    table, _ = blob_tables(runs + bad)
    assert [claim.passed for claim in table.claims] == [False, False, False]
    late = [{**good[0], "reason": "took more than 60 s"}]
    table, _ = blob_tables(runs + late)
    assert table.claims[0].passed is None
    assert table.skipped[0].reason == "took more than 60 s"


def test_blobs_run_from_the_command_line(tmp_path, capsys):
    output = tmp_path / "q.jsonl"
    call = ["quality", "--parts", "blobs", "--sets", "blobs-1000", "--seeds", "1"]
    assert cli.main([*call, "--output", str(output)]) == 0
    page = capsys.readouterr().out
    assert "| blobs-1000 | default | 1 |" in page
    methods = [one["method"] for one in Records(output).of("blobs")]
    assert methods == ["default", "kcc", "KMeans"]


def test_the_default_has_to_beat_cvote_on_the_pools():
    def found(method, ari, partitions):
        return [
            {"part": "labels", "set": e.name, "method": method, "seed": 0}
            | {"partitions": partitions, "n": 9, "ari": ari, "seconds": 0.1}
            for e in ENSEMBLES
            if e.name.startswith("pool_")
        ]

    for partitions, ari in ((10, 0.52), (0, 0.5)):
        for less, passed in ((0.0, True), (0.01, False)):
            records = found("default", ari - less, partitions)
            records += found("cvote", 0.5, partitions)
            table, _ = label_tables(records)
            assert [claim.passed for claim in table.claims] == [passed]
    table, _ = label_tables(found("default", 0.5, 10))
    assert table.claims[0].passed is None


def test_regret_has_bounds():
    best = {"bp_iris/10/sec": {"objective": 100.0, "digest": "d", "seconds": 1}}
    key = {"part": "regret", "set": "bp_iris", "partitions": 10, "method": "sec"}
    for worst, passed in ((100.9, True), (101.1, False)):
        values = [100.0] * 39 + [worst]
        runs = [
            {**key, "seed": s, "objective": f, "digest": "d", "seconds": 0.1}
            for s, f in enumerate(values)
        ]
        together, _ = regret_tables(runs, best)
        assert [claim.passed for claim in together.claims] == [passed]
