"""A quick comparison of a backend with the reference: it must find a wrong kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.host_loops import compiled_loops
from gpu_consensus.backends.numpy import NumpyBackend
from gpu_consensus.backends.protocol import Backend
from gpu_consensus.doctor.primitives import (
    LOOPS,
    MOST_CLUSTERS,
    PRIMITIVES,
    Case,
    Data,
    fit_all,
    make_data,
)
from gpu_consensus.util.arrays import on_device

# one and two bytes; 16 columns, 32, several tiles, restarts across tiles; a table that
# fits the shared memory of any device, one that does not, a partition that does not;
# clusters of one byte, two and four: on any device, every form of every kernel
CASES = (
    Case(1, (3,), 1, 2, 0.0),
    Case(1000, (7,) * 20, 2, 5, 0.3),
    Case(3001, (10,) * 30, 10, 10, 0.0),
    Case(2000, (50,) * 60, 1, 33, 0.2),
    Case(700, (50,) * 60, 1, 10, 0.2),
    Case(600, (7,) * 5, 1, 300, 0.3),
    Case(1500, (300, 2, 1, 40), 3, 17, 0.5),
    Case(700, (300, 2, 1, 40), 1, 10, 0.5),
    Case(700, (3000, 5), 1, 10, 0.1),
    Case(4000, (3000, 5), 1, 300, 0.1),
    Case(100, (2, 3), 1, 65_536, 0.3),
    Case(100, (256, 3), 1, 65_536, 0.3),
)
_ON_CPU = 4


def self_test(backend: Backend) -> str:
    """Compare every primitive, and then whole fits, with numpy on small random data.

    Returns
    -------
    str
        Empty if all is equal, else what differs, and where.
    """
    numpy = NumpyBackend(1)
    is_device = on_device(backend.xp.empty(0))
    # the forms of kernels depend on sizes on a device only
    for case in CASES[: None if is_device else _ON_CPU]:
        wrong = compare(backend, case, PRIMITIVES | LOOPS)
        if wrong:
            return wrong
    with compiled_loops(not is_device):
        fits = list(fit_all(backend))
    with compiled_loops(False):
        expected = list(fit_all(numpy))
    for (name, computed), (_, right) in zip(fits, expected, strict=True):
        wrong = _differ(backend, name, computed, right)
        if wrong:
            return wrong
    return ""


def compare(
    backend: Backend,
    case: Case,
    calls: dict[str, Callable[[Any, Data], Any]] = PRIMITIVES,
    reference: Backend | None = None,
) -> str:
    """Compare a backend with numpy, or another reference, on the data of one case.

    Returns
    -------
    str
        Empty if all is equal, else what differs, and where.
    """
    reference = NumpyBackend(1) if reference is None else reference
    data = make_data(case)
    here, there = data.on(reference), data.on(backend)
    for name, call in calls.items():
        if case.n_clusters > MOST_CLUSTERS and name not in ("count", "assign"):
            continue
        with compiled_loops(not on_device(backend.xp.empty(0))):
            computed = call(backend, there)
        with compiled_loops(False):
            right = call(reference, here)
        wrong = _differ(backend, name, computed, right)
        if wrong:
            return f"{wrong} for {_describe(case)}"
    return ""


def _describe(case: Case) -> str:
    """Write what a case sets.

    Examples
    --------
    >>> _describe(Case(9, (3, 4), 1, 2, 0.0, seed=5))
    'n_samples=9, n_labels=(3, 4), n_restarts=1, n_clusters=2, missing=0.0, seed=5'
    """
    usual = Case._field_defaults
    return ", ".join(
        f"{name}={value!r}"
        for name, value in case._asdict().items()
        if name not in usual or value != usual[name]
    )


def _differ(backend: Backend, name: str, computed: Any, right: Any) -> str:
    """Say what differs between two results, or nothing."""
    both = zip(
        _arrays(backend, name, computed), _arrays(backend, name, right), strict=True
    )
    for (part, a), (_, b) in both:
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{part} gives {a.dtype} {a.shape}, not {b.dtype} {b.shape},"
        wrong = int(np.count_nonzero(a != b))
        if wrong:
            return f"{part} differs in {wrong} of {a.size} numbers"
    return ""


def _arrays(
    backend: Backend, name: str, value: Any
) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Yield all arrays of a result on the host, each with a name."""
    if hasattr(value, "_asdict"):
        for field, part in value._asdict().items():
            yield from _arrays(backend, f"{field} of {name}", part)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _arrays(backend, f"{name} ({key})", part)
    elif isinstance(value, (tuple, list)):
        for number, part in enumerate(value):
            yield from _arrays(backend, f"{name}[{number}]", part)
    else:
        there = hasattr(value, "dtype") and not isinstance(value, np.ndarray)
        yield name, np.asarray(backend.to_host(value) if there else value)
