"""A quick comparison of a backend with the reference: it must find a wrong kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.numpy_backend import NumpyBackend
from gpu_consensus.backends.protocol import Backend
from gpu_consensus.ensemble import Ensemble
from gpu_consensus.loop.lloyd import Problem
from gpu_consensus.loop.utilities import parse_utility
from gpu_consensus.methods.kcc import KccRule, device_recipe
from gpu_consensus.methods.sec import SecRule
from gpu_consensus.methods.voting import IpvcRule, IvcRule


class Case(NamedTuple):
    """Sizes of one comparison."""

    n_samples: int
    n_labels: tuple[int, ...]
    n_restarts: int
    n_clusters: int
    missing: float


# one and two bytes; 16 columns, 32, several tiles, restarts across tiles; a table that
# fits the shared memory of any device, one that does not, and a partition that does not
CASES = (
    Case(1, (3,), 1, 2, 0.0),
    Case(1000, (7,) * 20, 2, 5, 0.3),
    Case(3001, (10,) * 30, 10, 10, 0.0),
    Case(2000, (50,) * 60, 1, 33, 0.2),
    Case(1500, (300, 2, 1, 40), 3, 17, 0.5),
    Case(4000, (3000, 5), 1, 300, 0.1),
)


def self_test(backend: Backend) -> str:
    """Compare every primitive with numpy on small random data.

    Returns
    -------
    str
        Empty if all is equal, else what differs, and where.
    """
    for case in CASES:
        for name, found, expected in _compare(backend, case):
            if found.shape != expected.shape or found.dtype != expected.dtype:
                return (
                    f"{name} gives {found.dtype} {found.shape}, not {expected.dtype} "
                    f"{expected.shape}, for {case}"
                )
            wrong = int(np.count_nonzero(found != expected))
            if wrong:
                return f"{name} differs in {wrong} of {found.size} numbers for {case}"
    return ""


Comparison = tuple[str, npt.NDArray[Any], npt.NDArray[Any]]


def _compare(backend: Backend, case: Case) -> Iterator[Comparison]:
    """Yield name, the backend's result and the reference's, for every primitive."""
    rng = np.random.default_rng(0)
    numpy, up, down = NumpyBackend(1), backend.to_device, backend.to_host
    ens = _ensemble(rng, case)
    k, offsets = case.n_clusters, ens.offsets
    host, codes = ens.codes, backend.hold(ens.codes)
    shape = (case.n_restarts, case.n_samples)
    before, after = (
        rng.integers(k + 1, size=shape).astype(np.min_scalar_type(k)) for _ in range(2)
    )
    counts = numpy.count(host, offsets, before, k)
    found = backend.count(codes, offsets, up(before), k)
    yield "count", down(found), counts
    backend.recount(codes, offsets, up(before), up(after), found)
    yield "recount", down(found), numpy.count(host, offsets, after, k)
    for utility in ("c", "h", "cos", "l5"):
        rule = KccRule(ens, parse_utility(utility)[1], ens.weights)
        rule.recipe = device_recipe(rule, utility)
        table, _ = rule.table(counts)
        made, _ = backend.table(rule, up(counts), [])
        yield f"table of {utility}", down(made), table
    for voting in (IvcRule(ens, ens.weights), IpvcRule(ens, ens.weights)):
        name = type(voting).__name__
        made, _ = backend.table(voting, up(counts), [])
        yield f"table of {name}", down(made), voting.table(counts)[0]
    sec = SecRule(ens)
    nobody = np.empty(0, dtype=np.intp)
    sec.bind(Problem(numpy, host, offsets, k, nobody))
    expected_tables = sec.table(counts, list(before))
    sec.bind(Problem(backend, host, offsets, k, nobody))
    made_tables = backend.table(sec, up(counts), list(up(before)))
    for name, of_backend, right in zip(
        ("table", "row table"), made_tables, expected_tables, strict=True
    ):
        assert right is not None
        yield f"{name} of SEC", down(of_backend), right
    whole = rng.integers(1, 2**40, size=case.n_samples)
    yield (
        "weigh",
        down(backend.weigh(codes, offsets, up(before), up(whole), k)),
        numpy.weigh(host, offsets, before, whole, k),
    )
    weight = rng.integers(1, 1000, size=case.n_samples).astype(np.float32)
    full = rng.normal(size=counts.shape).astype(np.float32)
    for row_table in (None, full[0], full):
        named = "" if row_table is None else f" with a {row_table.ndim}-D row table"
        expected = numpy.assign(
            host,
            offsets,
            table,
            row_weight=weight,
            row_table=row_table,
            best=True,
            gap=True,
        )
        got = backend.assign(
            codes,
            offsets,
            up(table),
            row_weight=up(weight),
            row_table=None if row_table is None else up(row_table),
            best=True,
            gap=True,
        )
        for field in ("assignment", "best", "gap"):
            yield (
                f"{field} of assign{named}",
                down(getattr(got, field)),
                getattr(expected, field),
            )
    units = np.round(full, 3).astype(np.float64)
    yield (
        "scores",
        np.round(down(backend.scores(codes, offsets, up(units))), 6),
        np.round(numpy.scores(host, offsets, units), 6),
    )
    share = rng.random((case.n_samples, case.n_restarts, k))
    yield (
        "soft_count",
        down(backend.soft_count(codes, offsets, up(share))),
        numpy.soft_count(host, offsets, share),
    )
    rows, columns = rng.integers(case.n_samples, size=(2, 40))
    pairs = backend.coassociation(codes, ens.n_labels, rows, columns)
    expected_pairs = numpy.coassociation(host, ens.n_labels, rows, columns)
    yield "same of coassociation", down(pairs.same), expected_pairs.same
    yield "both of coassociation", down(pairs.both), expected_pairs.both
    few = np.ascontiguousarray(host[:, :50])
    everyone = np.arange(few.shape[1])
    starts, threshold = everyone[::5], (len(few), 5)
    expected_climbs = numpy.add_rem_add(few, ens.n_labels, starts, threshold)
    counted = numpy.coassociation(few, ens.n_labels, everyone, everyone).same
    for matrix in (None, up(counted.astype(np.uint8))):
        named = "" if matrix is None else " with a matrix"
        climbs = backend.add_rem_add(up(few), ens.n_labels, starts, threshold, matrix)
        for field, right in expected_climbs._asdict().items():
            yield f"{field} of add_rem_add{named}", getattr(climbs, field), right


def _ensemble(rng: np.random.Generator, case: Case) -> Ensemble:
    dtype = np.uint8 if max(case.n_labels) <= 255 else np.uint16
    codes = np.empty((len(case.n_labels), case.n_samples), dtype=dtype)
    for i, k_i in enumerate(case.n_labels):
        codes[i] = rng.integers(k_i, size=case.n_samples)
        codes[i, rng.random(case.n_samples) < case.missing] = k_i
    return Ensemble.from_codes(codes, case.n_labels)
