"""The clusterer behind each partition: ours, a scikit-learn one, or a function."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from gpu_consensus.generate.store import digest
from gpu_consensus.util.numbers import shown


def needs_n_clusters(base: Any) -> bool:
    """Whether ``base`` takes the number of clusters; raise if it is no clusterer."""
    if isinstance(base, str) and base == "kmeans":
        return True
    if isinstance(base, type):
        raise TypeError(
            f"base={base.__name__} is a class; pass an instance, {base.__name__}(...)."
        )
    if _is_clusterer(base):
        return bool(_number_parameters(base.get_params()))
    if callable(base):
        return True
    raise TypeError(
        f"base={shown(base)} should be 'kmeans', a scikit-learn clusterer, or a "
        "function (X, n_clusters, seed) -> labels."
    )


def cluster(base: Any, X: Any, n_clusters: int | None, seed: int) -> Any:
    """Label the rows of ``X`` by a base other than our own k-means."""
    labels = (
        _fit(base, X, n_clusters, seed)
        if _is_clusterer(base)
        else base(X, n_clusters, seed)
    )
    shape = np.shape(labels)
    if shape != (X.shape[0],):
        raise ValueError(
            f"base={describe(base)} returned labels of shape {shape} for "
            f"{X.shape[0]} rows; it should return one label per row."
        )
    return labels


def describe(base: Any) -> str:
    """Name a base so that two calls can be compared; parameters included."""
    return base if isinstance(base, str) else _plain(base)


def _plain(value: Any) -> str:
    """Describe a parameter by what it is, never by where in memory it is.

    Seeds are left out, because each partition sets its own.
    """
    if isinstance(value, dict):
        return f"{{{_listed(f'{key!r}: {_plain(v)}' for key, v in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{_listed(_plain(v) for v in value)}]"
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return f"{value.dtype} array {value.shape} {digest(np.atleast_1d(value))}"
    if hasattr(value, "get_params") and not isinstance(value, type):
        items = sorted(value.get_params(deep=False).items())
        chosen = (f"{k}={_plain(v)}" for k, v in items if k != "random_state")
        return f"{_name(type(value))}({_listed(chosen)})"
    if callable(value):
        return _name(value if hasattr(value, "__name__") else type(value))
    text = repr(value)
    return _name(type(value)) if " at 0x" in text else text


def _name(named: Any) -> str:
    module = getattr(named, "__module__", None)  # a ufunc may have none
    return f"{module}.{getattr(named, '__qualname__', named.__name__)}"


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(texts)


def _is_clusterer(base: Any) -> bool:
    return hasattr(base, "get_params") and hasattr(base, "fit")


def _number_parameters(parameters: dict[str, Any]) -> list[str]:
    """Parameters that hold the number of clusters; one that is None finds it itself.

    A mixture calls it ``n_components``; in a pipeline it belongs to a step.
    """
    names = _named(parameters, "n_clusters") or ["n_components"]
    return [name for name in names if parameters.get(name) is not None]


def _named(parameters: dict[str, Any], ending: str) -> list[str]:
    return [
        name for name in parameters if name == ending or name.endswith(f"__{ending}")
    ]


def _fit(base: Any, X: Any, n_clusters: int | None, seed: int) -> Any:
    from sklearn.base import clone

    model = clone(base)
    parameters = model.get_params()
    settings: dict[str, Any] = dict.fromkeys(_named(parameters, "random_state"), seed)
    if n_clusters is not None:
        settings.update(dict.fromkeys(_number_parameters(parameters), n_clusters))
    model.set_params(**settings)
    if hasattr(model, "fit_predict"):
        return model.fit_predict(X)
    model.fit(X)
    return model.labels_ if hasattr(model, "labels_") else model.predict(X)
