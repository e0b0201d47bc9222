"""The clusterer behind each partition: ours, a scikit-learn one, or a function."""

from __future__ import annotations

from typing import Any

import numpy as np


def needs_n_clusters(base: Any) -> bool:
    """Whether ``base`` is told the number of clusters; raise if it is no clusterer."""
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
        f"base={base!r} should be 'kmeans', a scikit-learn clusterer, or a function "
        "(X, n_clusters, seed) -> labels."
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
    if isinstance(base, str):
        return base
    named = base if hasattr(base, "__qualname__") else type(base)
    text = f"{named.__module__}.{named.__qualname__}"
    if not _is_clusterer(base):
        return text
    parameters = sorted(base.get_params().items())
    return f"{text}({', '.join(f'{name}={value!r}' for name, value in parameters)})"


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
