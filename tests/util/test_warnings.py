"""A warning points at the line of the user, whatever lies between."""

import inspect
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from random_ensembles import noisy

import gpu_consensus as gpc
from gpu_consensus.methods import FINDERS

LABELS = noisy(0, n=60, r=6, missing=0.1)[0]
SEARCHED = ("kcc", "sec", "ivc", "qmi", "lce")
ITERATED = ("kcc", "sec", "ivc", "ipvc", "ipc", "qmi", "em", "lce")
TOLD = [
    name
    for name, method in gpc.METHODS.items()
    if "n_clusters" in inspect.signature(method).parameters and name not in FINDERS
]


def by_function(method, **options):
    return gpc.METHODS[method](LABELS, **options)


def by_name(method, **options):
    return gpc.consensus(LABELS, method=method, **options)


def by_estimator(method, n_clusters, **options):
    X = np.arange(120.0).reshape(60, 2)
    model = gpc.ConsensusClustering(
        n_clusters, method, 5, method_options=options, random_state=0
    )
    return model.fit_predict(X)


def sources(call, *arguments, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*arguments, **options)
    return [warning.filename for warning in caught]


@pytest.mark.parametrize("call", [by_function, by_name, by_estimator])
@pytest.mark.parametrize("method", TOLD)
def test_one_cluster(call, method):
    found = sources(call, method, n_clusters=1)
    assert set(found) == {__file__}


@pytest.mark.parametrize("call", [by_function, by_name])
@pytest.mark.parametrize("method", ITERATED)
def test_no_convergence(call, method):
    options = {"max_iter": 1, "n_init": 1, "random_state": 0}
    if method in SEARCHED:  # a search ends near an optimum
        options["init"] = "partition"
    found = sources(call, method, n_clusters=4, **options)
    assert set(found) == {__file__}


def test_an_end_of_a_few_rounds():
    found = sources(gpc.lambda_consensus, [np.zeros((9, 2))] * 2, 3, random_state=0)
    assert set(found) == {__file__}


def test_a_normalised_utility_of_a_constant_partition():
    labels = np.column_stack([LABELS, np.zeros(60, dtype=int)])
    found = sources(gpc.kcc, labels, 3, "nh", random_state=0)
    assert set(found) == {__file__}


def test_objects_without_a_label():
    X = np.random.default_rng(0).normal(size=(200, 2))
    options = {"n_clusters": 3, "sample_share": 0.1, "random_state": 0}
    assert sources(gpc.generate_partitions, X, 2, "rows", **options) == [__file__]


def test_the_package_warns_in_one_way():
    package = Path(gpc.__file__).parent
    direct = [
        path.name
        for path in package.rglob("*.py")
        if re.search(
            r"^\s+warnings\.warn\(", path.read_text(encoding="utf-8"), re.MULTILINE
        )
    ]
    assert direct == ["warn.py"]
