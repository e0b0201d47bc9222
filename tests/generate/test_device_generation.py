"""Partitions made on the device: our code on stand-ins for CuPy and cuML."""

import importlib
import sys

import cudaemu
import fakecuml
import numpy as np
import pytest
import scipy.sparse

import gpu_consensus as gpc
from gpu_consensus.generate import device


@pytest.fixture(params=[np.int32, np.int64])
def cupy(emulated_cupy, request):
    """CuPy and a cuML whose labels have one of its two types."""
    with fakecuml.installed(emulated_cupy, request.param):
        yield emulated_cupy


def blobs(n=90, d=6):
    rng = np.random.default_rng(0)
    truth = np.arange(n) % 3
    return rng.normal(size=(n, d)) + 9 * truth[:, None] * (np.arange(d) < 3), truth


@pytest.mark.parametrize(
    "options",
    [
        {"strategy": "rps"},
        {"strategy": "rfs", "n_features": 4},
        {"strategy": "rows", "sample_share": 0.5},
        {"strategy": "rows", "sample_share": 0.5, "complete": True},
        {"strategy": "projection", "n_components": 3},
        {"strategy": "zipf"},
        {"strategy": "restarts"},
        {"strategy": "rps", "metric": "cosine"},
    ],
    ids=str,
)
def test_partitions_are_made_and_stay_on_the_device(cupy, options):
    X, truth = blobs()
    ens = gpc.generate_partitions(
        X, 20, n_clusters=3, backend="cupy", random_state=0, **options
    )
    assert isinstance(ens.codes, cupy.ndarray)
    # labels are compact although cuML's skip values
    for i, k_i in enumerate(ens.n_labels):
        used = np.unique(ens.codes[i].get())
        assert used[used < k_i].tolist() == list(range(k_i))
    share = ens.n_missing.sum() / (20 * 90)
    sampled = options["strategy"] == "rows" and not options.get("complete")
    assert share == (0.5 if sampled else 0)
    if options["strategy"] in ("restarts", "rows") and "metric" not in options:
        result = gpc.kcc(ens, 3, random_state=0)
        assert result.backend == "cupy"
        assert gpc.metrics.adjusted_rand(truth, result.labels) > 0.9


def test_the_same_views_are_drawn_as_on_the_host(cupy):
    """Only the clusterer differs: on clear clusters the partitions are the same."""
    X, _ = blobs()
    options = {"n_clusters": 3, "random_state": 4, "sample_share": 0.6}
    there = gpc.generate_partitions(X, 15, "restarts", backend="cupy", **options)
    here = gpc.generate_partitions(X, 15, "restarts", backend="numpy", **options)
    assert np.array_equal(there.n_missing, here.n_missing)
    for i in range(15):
        a, b = there.labels[:, i], here.labels[:, i]
        assert np.array_equal(a == -1, b == -1)
        assert gpc.metrics.adjusted_rand(a, b) == 1


def test_rows_near_an_emptied_centroid_go_to_the_next(cupy):
    X = np.array([[0.0], [9.0]] * 20 + [[fakecuml.STRAY + 0.3]])
    ens = gpc.generate_partitions(
        X, 30, "rows", n_clusters=2, complete=True, backend="cupy", random_state=0
    )
    for labels in ens.labels.T:
        assert labels[-1] in labels[:2]
        if labels[0] != labels[1]:
            assert labels[-1] == labels[1]


def test_zipf_leaves_a_constant_column_as_it_is(cupy):
    X = cupy.asarray(np.full((90, 1), 0.1, dtype=np.float32))
    assert float(X.get().std()) > 0  # rounding alone
    assert device.column_scale(X, "zipf").tolist() == [1]


def test_auto_follows_the_features(cupy):
    X, _ = blobs()
    options = {"n_clusters": 3, "random_state": 0}
    on_host = gpc.generate_partitions(X, 3, **options)
    assert isinstance(on_host.codes, np.ndarray)
    on_device = gpc.generate_partitions(cupy.asarray(X, dtype=np.float32), 3, **options)
    assert isinstance(on_device.codes, cupy.ndarray)
    whole = cupy.asarray(np.round(X).astype(np.int64))
    assert gpc.generate_partitions(whole, 3, **options).n_partitions == 3


def test_checkpoints_work_on_the_device_too(cupy, tmp_path):
    X, _ = blobs()
    options = {"n_clusters": 3, "backend": "cupy", "checkpoint": tmp_path / "parts"}
    first = gpc.generate_partitions(X, 4, random_state=0, **options)
    again = gpc.generate_partitions(X, 6, random_state=0, **options)
    assert np.array_equal(first.codes.get(), again.codes.get()[:4])


def test_the_estimator_runs_on_the_device(cupy):
    X, truth = blobs()
    options = {"n_partitions": 6, "strategy": "restarts", "random_state": 0}
    model = gpc.ConsensusClustering(3, backend="cupy", **options).fit(X)
    assert model.consensus_.backend == "cupy"
    assert gpc.metrics.adjusted_rand(truth, model.labels_) > 0.9
    model = gpc.ConsensusClustering(3, **options).fit(cupy.asarray(X))
    assert model.n_features_in_ == 6
    assert isinstance(model.ensemble_.codes, cupy.ndarray)
    assert gpc.metrics.adjusted_rand(truth, model.labels_) > 0.9
    model = gpc.ConsensusClustering(3, backend="numpy", **options)
    assert isinstance(model.fit(cupy.asarray(X)).labels_, np.ndarray)
    with pytest.raises(ValueError, match=r"X has shape \(90,\) and type float64; it"):
        model.fit(cupy.asarray(X)[:, 0])


def test_the_tag_says_whether_cuml_makes_the_partitions(cupy):
    X, _ = blobs()

    def is_loose(X=None, **options):
        model = gpc.ConsensusClustering(3, n_partitions=4, random_state=0, **options)
        if X is not None:
            model.fit(X)
        return model.__sklearn_tags__().non_deterministic

    on_host = {"generate_options": {"backend": "numpy"}}
    assert is_loose(backend="cupy")
    assert not is_loose(backend="cupy", **on_host)
    assert not is_loose(X, backend="cupy", **on_host)
    assert is_loose(backend="numpy", generate_options={"backend": "cupy"})
    assert not is_loose(backend="cupy", method="lambda_consensus")
    assert not is_loose()
    assert not is_loose(X)
    assert is_loose(cupy.asarray(X))
    assert not is_loose(cupy.asarray(X), **on_host)


def test_the_doctor_tries_the_kmeans_of_cuml(cupy, monkeypatch):
    module = importlib.import_module("gpu_consensus.doctor")
    monkeypatch.setattr(module, "self_test", lambda backend: "")
    assert gpc.doctor().self_test["cupy"] == ""
    right = device.cuml_kmeans

    def wrong(*arguments):
        model = right(*arguments)
        model.labels_[0] = model.labels_[1]
        return model

    monkeypatch.setattr(device, "cuml_kmeans", wrong)
    # object 0 is apart from its 19 fellows, and with 20 others
    assert gpc.doctor().self_test["cupy"] == (
        "device 0: WRONG RESULTS, do not use it: cuML's k-means is wrong about 39 of "
        "1770 pairs of objects whose clusters are far apart"
    )


def test_the_allocator_stays_what_it_was(cupy):
    """Importing cuML gives CuPy that of RMM, whose memory nobody accounts for."""
    X, _ = blobs()
    for allocator in ("CuPy's pool", "the user's own"):
        cupy.cuda.set_allocator(allocator)
        gpc.generate_partitions(X, 3, n_clusters=3, backend="cupy", random_state=0)
        assert cupy.cuda.get_allocator() == allocator


def test_an_allocator_for_a_while_is_left_alone(cupy, monkeypatch):
    X, _ = blobs()
    options = {"n_clusters": 3, "backend": "cupy", "random_state": 0}
    before = gpc.generate_partitions(X, 2, **options)

    def refuse(allocator):  # as CuPy does within `using_allocator`
        raise ValueError("Can't change the global allocator")

    monkeypatch.setattr(cupy.cuda, "set_allocator", refuse)
    within = gpc.generate_partitions(X, 2, **options)
    assert np.array_equal(within.labels, before.labels)


def test_a_product_without_cublas_says_what_to_install(cupy, monkeypatch):
    def missing(self, other):
        raise ImportError('Failure finding "libcublasLt.so.13 or libcublasLt.so.12"')

    monkeypatch.setattr(cupy.ndarray, "__matmul__", missing)
    X, _ = blobs()
    options = {"n_clusters": 3, "backend": "cupy", "random_state": 0}
    with pytest.raises(RuntimeError, match="need cuBLAS, which is not installed; run"):
        gpc.generate_partitions(X, 3, "projection", n_components=2, **options)
    gpc.generate_partitions(X, 3, "rfs", **options)  # which needs no product


def test_without_cuml_the_message_says_what_to_do(emulated_cupy, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "cuml" else find(name)
    )
    X, _ = blobs()
    with pytest.raises(RuntimeError, match=r"cuML is not installed; run pip install"):
        gpc.generate_partitions(X, 3, n_clusters=3, backend="cupy")
    ens = gpc.generate_partitions(X, 3, n_clusters=3, backend="numpy", random_state=0)
    assert gpc.kcc(ens, 3, backend="cupy", random_state=0).backend == "cupy"
    there = emulated_cupy.asarray(X)
    with pytest.warns(UserWarning, match=r"copied to the host for this: cuML is not"):
        gpc.generate_partitions(there, 3, n_clusters=3, random_state=0)
    with pytest.warns(UserWarning, match="only base='kmeans' is made on the device"):
        gpc.generate_partitions(  # cuML would not help
            there, 3, n_clusters=3, random_state=0, base=lambda X, k, seed: X[:, 0] > 0
        )
    gpc.generate_partitions(there, 3, n_clusters=3, random_state=0, backend="numpy")
    model = gpc.ConsensusClustering(
        3, n_partitions=4, backend="cupy", generate_options={"backend": "numpy"}
    )
    assert model.fit(X).consensus_.backend == "cupy"


def test_a_cuml_that_cannot_be_imported_is_said_to_be_broken(cupy, monkeypatch):
    monkeypatch.setitem(sys.modules, "cuml.cluster", None)
    X, _ = blobs()
    with pytest.raises(RuntimeError, match=r"cuml.cluster is installed but cannot be"):
        gpc.generate_partitions(X, 3, n_clusters=3, backend="cupy")
    module = importlib.import_module("gpu_consensus.doctor")
    monkeypatch.setattr(module, "self_test", lambda backend: "")
    assert gpc.doctor().self_test["cupy"] == ""


def test_without_cupy_or_a_device_the_message_says_so():
    X, _ = blobs()
    for module, words in (
        (None, "CuPy is not installed; run pip install"),
        (cudaemu.make_cupy(()), "there is no NVIDIA driver"),
    ):
        with cudaemu.installed(module), pytest.raises(RuntimeError, match=words):
            gpc.generate_partitions(X, 3, n_clusters=3, backend="cupy")


def test_what_the_device_cannot_cluster_is_refused(cupy):
    X, _ = blobs()
    options = {"n_clusters": 3, "backend": "cupy"}
    with pytest.raises(RuntimeError, match="dense features only"):
        gpc.generate_partitions(scipy.sparse.csr_array(X), 3, **options)
    with pytest.raises(RuntimeError, match="only base='kmeans' is made on the device"):
        gpc.generate_partitions(X, 3, base=lambda X, k, seed: X[:, 0] > 0, **options)
    gap = cupy.asarray(np.where(X > 20, np.nan, X))
    with pytest.raises(ValueError, match="NaN or infinity in row"):
        gpc.generate_partitions(gap, 3, **options)
    with pytest.raises(ValueError, match="should be a table of numbers"):
        gpc.generate_partitions(cupy.asarray(X[:, 0]), 3, **options)
