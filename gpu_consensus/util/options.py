"""What options a function takes, read from its signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gpu_consensus.util.checks import unknown_name
from gpu_consensus.util.numbers import shown


def option_names(function: Callable[..., Any]) -> list[str]:
    """Return the names of a function's arguments after the first, the data.

    Examples
    --------
    >>> def method(ensemble, n_clusters, *, linkage="average"): ...
    >>> option_names(method)
    ['n_clusters', 'linkage']
    """
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return [one.name for one in parameters if one.kind is not one.VAR_KEYWORD]


def as_options(name: str, options: Any) -> dict[str, Any]:
    """Return options by name; None stands for none.

    Examples
    --------
    >>> as_options("method_options", 5)
    Traceback (most recent call last):
    ...
    TypeError: method_options=5 should be a dict of options by name, or None.
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise TypeError(
            f"{name}={shown(options)} should be a dict of options by name, or None."
        )
    return dict(options)


def check_options(
    name: str, function: Callable[..., Any], options: Iterable[str]
) -> None:
    """Raise an error for an option that a function does not know.

    Parameters
    ----------
    name : str
        The name of the function in the message.
    function : callable
        If it takes any name (``**options``), it checks them itself.
    options : iterable of str
        Names of options.

    Examples
    --------
    >>> def method(ensemble, n_clusters, *, linkage="average"): ...
    >>> check_options("method", method, ["linkages"])
    Traceback (most recent call last):
    ...
    TypeError: method: option='linkages' is unknown; choose one of 'linkage', \
'n_clusters'.
    """
    parameters = inspect.signature(function).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return
    known = sorted(option_names(function))
    for option in options:
        if option not in known:
            raise TypeError(f"{name}: {unknown_name('option', option, known)}")


def finds_n_clusters(function: Callable[..., Any]) -> bool:
    """Whether a method does not need the number of clusters.

    Examples
    --------
    >>> def method(ensemble, n_clusters=None): ...
    >>> finds_n_clusters(method)
    True
    """
    asked = inspect.signature(function).parameters.get("n_clusters")
    return asked is None or asked.default is None
