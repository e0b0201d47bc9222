"""Annotated data: partitions from ``obs``, results back into it, and through a file."""

import csv

import numpy as np
import pytest

import gpu_consensus as gpc
from gpu_consensus.cli.main import main

anndata = pytest.importorskip("anndata")


@pytest.fixture
def adata():
    import pandas as pd

    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], 25)
    X = (rng.normal(size=(75, 6)) + truth[:, None] * 9).astype(np.float32)
    obs = pd.DataFrame(index=[f"cell{l}" for l in range(75)])
    for c in range(8):
        labels = np.where(rng.random(75) < 0.1, rng.integers(3, size=75), truth)
        obs[f"leiden_{c}"] = pd.Categorical([f"t{label}" for label in labels])
    obs.loc["cell3", "leiden_2"] = None
    obs["batch"] = "one"
    made = anndata.AnnData(X=X, obs=obs)
    made.obsm["X_pca"] = X[:, :2]
    return made, truth


def test_results_are_in_obs_and_survive_a_file(adata, tmp_path):
    adata, truth = adata
    result = gpc.anndata.consensus(adata, random_state=0)
    assert result.n_clusters == 3
    assert gpc.metrics.adjusted_rand(truth, result.labels) > 0.95
    labels = adata.obs[[f"leiden_{c}" for c in range(8)]]
    same = gpc.consensus(gpc.Ensemble(labels), 3, random_state=0)
    assert np.array_equal(result.labels, same.labels)
    assert adata.obs["consensus"].astype(int).tolist() == result.labels.tolist()
    adata.write_h5ad(tmp_path / "a.h5ad")
    back = anndata.read_h5ad(tmp_path / "a.h5ad")
    assert back.obs["consensus"].tolist() == adata.obs["consensus"].tolist()
    assert np.array_equal(back.obs["consensus_confidence"], result.confidence)
    assert back.uns["consensus"]["n_clusters"] == 3
    assert "partitions" in back.uns["consensus"]["reason"]
    gpc.anndata.consensus(adata, "*e*n*", 2, key_added="consensus", random_state=0)
    assert adata.uns["consensus"]["keys"] == [f"leiden_{c}" for c in range(8)]


def test_wrong_keys(adata):
    adata, _ = adata
    with pytest.raises(ValueError, match=r"keys='louvain_\*' fits no column of adata"):
        gpc.anndata.consensus(adata, "louvain_*")
    with pytest.raises(ValueError, match="keys is empty; name columns"):
        gpc.anndata.consensus(adata, [])
    with pytest.raises(TypeError, match="should be names of columns"):
        gpc.anndata.consensus(adata, [3])
    with pytest.raises(ValueError, match="n_clusters='many' is unknown"):
        gpc.anndata.consensus(adata, n_clusters="many")


@pytest.mark.parametrize("more", [[], ["--columns", "X_pca"]])
def test_features_of_a_file_on_the_command_line(adata, tmp_path, more):
    adata, truth = adata
    adata.write_h5ad(tmp_path / "a.h5ad")
    call = ["cluster", tmp_path / "a.h5ad", "--n-clusters", 3, "--n-partitions", 8]
    call += ["--seed", 0, "--output", tmp_path / "out.csv", *more]
    assert main([str(word) for word in call]) == 0
    with (tmp_path / "out.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == list(adata.obs_names)
    assert gpc.metrics.adjusted_rand(truth, [row["label"] for row in rows]) == 1


def test_partitions_of_a_file_on_the_command_line(adata, tmp_path, capsys):
    adata, _ = adata
    adata.write_h5ad(tmp_path / "a.h5ad")
    call = ["consensus", tmp_path / "a.h5ad", "--n-clusters", 3, "--seed", 0]
    call += ["--output", tmp_path / "out.parquet"]
    words = [str(word) for word in call]
    assert main([*words, "--columns", "leiden_*"]) == 0
    assert "8 partitions of 75 objects" in capsys.readouterr().out
    result = gpc.anndata.consensus(adata, n_clusters=3, random_state=0)
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(tmp_path / "out.parquet")
    assert table["label"].to_pylist() == result.labels.tolist()
    assert table["id"].to_pylist() == list(adata.obs_names)
    assert main(words) == 2
    assert "name those that hold partitions with --columns" in capsys.readouterr().err
