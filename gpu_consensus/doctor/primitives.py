"""How to call every primitive of a backend, and the methods that use them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.cupy.streamed_codes import StreamedCodes
from gpu_consensus.backends.host_loops import fastest
from gpu_consensus.backends.numpy import NumpyBackend
from gpu_consensus.backends.protocol import Backend, Codes
from gpu_consensus.backends.segments import Segments
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.feedback.tilo import tilo
from gpu_consensus.loop.count_by_cluster import count_by_cluster
from gpu_consensus.loop.exact_step import price_tables
from gpu_consensus.loop.rule import Refinement, Rule
from gpu_consensus.loop.utilities import parse_utility
from gpu_consensus.methods.climbs import climb_all
from gpu_consensus.methods.em import em
from gpu_consensus.methods.ipc import Shares, count_members, sweep_objects
from gpu_consensus.methods.kcc import KccRule, kcc
from gpu_consensus.methods.sec import SecRule, sec
from gpu_consensus.methods.voting import IpvcRule, IvcRule
from gpu_consensus.result import Consensus
from gpu_consensus.util.arrays import on_device, to_host

_FEW = 50  # objects for what takes long in NumPy


MOST_CLUSTERS = 65_535
"""With more clusters than this, only their counts and their type are compared."""
RULES = ("c", "h", "h_smooth", "cos", "l5", "ivc", "ipvc", "sec", "sec, complete")
"""A rule for every kind of table."""


class Case(NamedTuple):
    """Sizes of one comparison.

    Attributes
    ----------
    n_samples : int
    n_labels : tuple of int
        Labels of each partition.
    n_restarts, n_clusters : int
    missing : float
        Share of the labels that are missing.
    rules : tuple of str
        Rules whose tables are made: utilities of ``kcc``, or others of ``RULES``.
    row_tables : tuple of int
        What ``assign`` is given: 0 for no row table, 1 for sums, 2 for a whole one.
    code : dtype, optional
        Of the codes; the smallest by default.
    seed : int
        What the data are drawn by.
    """

    n_samples: int
    n_labels: tuple[int, ...]
    n_restarts: int
    n_clusters: int
    missing: float
    rules: tuple[str, ...] = RULES
    row_tables: tuple[int, ...] = (0, 1, 2)
    code: npt.DTypeLike | None = None
    seed: int = 0


class Data(NamedTuple):
    """What primitives are called with; shapes as in the Protocol.

    Those from ``codes`` on are where the backend computes.
    """

    case: Case
    ensemble: Ensemble
    rows: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]
    few: npt.NDArray[np.int64]
    host_codes: Codes
    codes: Any
    few_codes: Any
    similarity: Any
    before: Any
    after: Any
    nearly: Any
    counts: Any
    absent: Any
    ties: Any
    table: Any
    row_table: Any
    weight: Any
    whole: Any
    wide: Any
    share: Any
    near: Any

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """First row of every partition in a table."""
        return self.ensemble.offsets

    @property
    def n_labels(self) -> npt.NDArray[np.int64]:
        """Labels of every partition."""
        return self.ensemble.n_labels

    def on(self, backend: Backend) -> Data:
        """Return a copy where a backend computes."""
        codes = backend.resident(self.codes)
        names = self._fields[self._fields.index("codes") + 1 :]
        moved = {name: backend.to_device(getattr(self, name)) for name in names}
        return self._replace(codes=codes, **moved)


def make_data(case: Case) -> Data:
    """Draw random data of a case, on the host."""
    rng = np.random.default_rng(case.seed)
    numpy, k, n = NumpyBackend(1), case.n_clusters, case.n_samples
    kind = np.min_scalar_type(max(case.n_labels))
    codes = np.empty((len(case.n_labels), n), dtype=kind)
    for i, k_i in enumerate(case.n_labels):
        codes[i] = rng.integers(k_i, size=n)
        codes[i, rng.random(n) < case.missing] = k_i
    ens = Ensemble.from_codes(codes, case.n_labels)
    before, after, nearly = rng.integers(k + 1, size=(3, case.n_restarts, n)).astype(
        np.min_scalar_type(k)
    )
    nearly = np.where(np.arange(n) % 20, before, nearly)
    shape = (case.n_restarts, k)
    counts = np.zeros((int(ens.offsets[-1]), *shape), dtype=np.int64)
    absent = np.zeros((len(codes), *shape), dtype=np.int64)
    weight = SecRule(ens).object_weight
    numpy.count(ens.codes, ens.offsets, None, before, counts, weight, absent)
    table, row_table = rng.normal(size=(2, *counts.shape)).astype(np.float32)
    codes = ens.codes if case.code is None else ens.codes.astype(case.code)
    few = ens.codes[:, :_FEW].copy()
    everyone = np.arange(few.shape[1])
    pairs = numpy.pairs(few, ens.n_labels, everyone, everyone)
    return Data(
        case,
        ens,
        rng.integers(n, size=40),
        rng.integers(n, size=33),
        everyone,
        codes,
        codes,
        few,
        pairs.same.astype(codes.dtype),
        before,
        after,
        nearly,
        counts,
        absent,
        rng.integers(-2, 3, size=counts.shape).astype(np.float32),
        table,
        row_table,
        rng.integers(1, 1000, size=n).astype(np.float32),
        rng.integers(1, 2**40, size=n),
        rng.normal(size=counts.shape),
        rng.random((n, case.n_restarts, k)),
        _near(rng, len(codes), counts[:, :, _columns(case)].shape),
    )


PRIMITIVES: dict[str, Callable[[Any, Data], Any]] = {
    "to_device, to_host": lambda b, d: {
        "one": b.to_host(d.before),
        "several": [x for x in b.to_host(d.counts, None, d.absent) if x is not None],
    },
    "resident, blocks": lambda b, d: [
        _blocks(b, codes, limit)
        for codes in (d.codes, _streamed(b, d.host_codes))
        for limit in (None, 32 * 100)
    ],
    "count": lambda b, d: {
        name: _change(
            lambda *sums, before=before, after=after: b.count(
                d.codes, d.offsets, before, after, sums[0], d.whole, sums[1]
            ),
            d.counts,
            d.absent,
        )
        for name, before, after in (
            ("all", None, d.before),
            ("many moves", d.before, d.after),
            ("few moves", d.before, d.nearly),
        )
    },
    "table": lambda b, d: {
        name: b.table(rule.recipe, d.counts, absent)
        for name, rule in _rules(d).items()
        for absent in [None if rule.absent_weight is None else d.absent]
    },
    "assign": lambda b, d: _assign(b, d) | _assign_own(b, d),
    "scores": lambda b, d: b.scores(d.codes, d.offsets, d.wide),
    "soft_count": lambda b, d: b.soft_count(d.codes, d.offsets, d.share),
    "pairs": lambda b, d: [
        b.pairs(codes, d.n_labels, d.rows, d.columns)
        for codes in (d.codes, _streamed(b, d.host_codes))
    ],
    "label_sums": lambda b, d: b.label_sums(
        d.offsets, b.to_host(d.counts), d.ensemble.marginals.copy(), True
    ),
}
"""How each primitive of the Protocol is called, by its name."""

LOOPS: dict[str, Callable[[Any, Data], Any]] = {
    "climbs": lambda b, d: {
        "counted": climb_all(d.few_codes, d.n_labels, d.few[::5], (len(d.n_labels), 5)),
        "kept": climb_all(
            d.few_codes, d.n_labels, d.few[::5], (len(d.n_labels), 5), d.similarity
        ),
        "ties": list(_climbs(b, len(d.ensemble.codes))),
    },
    "prices": lambda _, d: {name: _prices(d, name) for name in ("c", "h", "cos", "l5")},
    "ipc": lambda _, d: _ipc(d),
    "tilo": lambda _, d: tilo(to_host(d.similarity), order=np.arange(len(d.few))),
}
"""Loops that have a compiled form, or one for the device, but are no primitive.

Only the climbs are computed where the backend does.
"""

FITS: dict[str, Callable[[Ensemble, dict[str, Any]], Consensus]] = {
    "kcc with c": lambda ens, options: kcc(ens, 4, "c", refine=True, **options),
    "kcc with h": lambda ens, options: kcc(ens, 4, "h", refine=True, **options),
    "sec": lambda ens, options: sec(ens, 4, **options),
    "em": lambda ens, options: em(ens, 4, **options),
}
"""Methods that together use all of a backend."""


def _climbs(backend: Backend, seed: int) -> Iterator[Any]:
    """Climb on few labels, where changes are equal or differ by very little."""
    rng = np.random.default_rng(seed)
    sizes = ((12, 2, (1, 2)), (12, 2, (5, 3)), (40, 3, (8_000_003, 3_000_001)))
    for n, k_i, threshold in sizes * 4:
        n_partitions = int(rng.integers(3, 9))
        codes = rng.integers(k_i, size=(n_partitions, n))
        codes[rng.random(codes.shape) < 0.4] = k_i
        resident = backend.resident(codes.astype(np.uint8))
        n_labels = np.full(n_partitions, k_i)
        yield climb_all(resident, n_labels, np.arange(n), threshold)


def fit_all(backend: Backend) -> Iterator[tuple[str, Any]]:
    """Yield labels and objective of each fit by a backend."""
    rng = np.random.default_rng(0)
    truth = rng.integers(4, size=(400, 1))
    labels = np.where(
        rng.random((400, 20)) < 0.3, rng.integers(4, size=(400, 20)), truth
    )
    labels[rng.random(labels.shape) < 0.1] = -1
    options = {"backend": backend, "n_jobs": -1, "random_state": 0, "n_init": 4}
    for name, fit in FITS.items():
        result = fit(Ensemble(labels), options)
        # em's are close only
        objective = np.float32(result.objective) if name == "em" else result.objective
        yield name, {"labels": result.labels, "objective": objective}


def _change(call: Callable[..., Any], *arrays: Any) -> Any:
    """Return what a call made of copies of arrays, and what it returned."""
    copies = [array.copy() for array in arrays]
    return call(*copies), copies


def _assign(backend: Backend, data: Data) -> dict[str, Any]:
    """Assign with and without ties and row tables."""
    if data.case.n_clusters > MOST_CLUSTERS:
        return {}
    return {
        f"{name}, row table {which}": backend.assign(
            data.codes,
            data.offsets,
            table,
            row_weight=data.weight,
            row_table=(None, data.row_table[0], data.row_table)[which],
            best=True,
            gap=True,
        )
        for which in data.case.row_tables
        for name, table in (("ties", data.ties), ("no ties", data.table))
    }


def _assign_own(backend: Backend, data: Data) -> dict[str, Any]:
    """Assign objects that are in a cluster, or in none, with what staying costs."""
    if 0 not in data.case.row_tables:
        return {}
    few = _columns(data.case)
    own = data.before % (few.stop + 1) if few.stop else data.before
    return {
        f"own, {name}": backend.assign(
            data.codes,
            data.offsets,
            table[:, :, few],
            best=best,
            gap=best,
            own=own,
            stay=stay[:, :, few],
        )
        for name, table, stay, best in (
            ("ties", data.ties, -data.ties, False),
            ("no ties", data.table, data.row_table, True),
            ("near the least gain", data.near, data.near, False),
        )
    }


def _columns(case: Case) -> slice:
    """Return which clusters are compared; very many would take too long."""
    return slice(5 if case.n_clusters > MOST_CLUSTERS else None)


def _near(
    rng: np.random.Generator, n_partitions: int, shape: tuple[int, ...]
) -> npt.NDArray[np.float32]:
    """Return a table of clusters whose scores differ by about the least gain."""
    share = 2 * rng.random(shape[1:]) * n_partitions * 2.0**-23
    share = rng.choice((-1, 1), size=(shape[1], 1)) * (1 + share)
    return ((1 + rng.random((shape[0], 1, 1))) * share).astype(np.float32)


def _streamed(backend: Backend, codes: Codes) -> Any:
    """Return codes that are streamed range by range, if the backend can do that."""
    return StreamedCodes(backend.xp, codes) if on_device(backend.xp.empty(0)) else codes


def _blocks(backend: Backend, codes: Any, memory_limit: int | None) -> Any:
    """Return all ranges one after another; a buffer may serve for several."""
    cut = [
        (np.arange(codes.shape[1])[rows], backend.to_host(part).copy())
        for rows, part in backend.blocks(codes, 1, memory_limit)
    ]
    rows, parts = zip(*cut, strict=True)
    return np.concatenate(rows), np.concatenate(parts, axis=1)


def _rules(data: Data) -> dict[str, Rule]:
    """Return the rules of a case by name."""
    ens = data.ensemble
    known: dict[str, Callable[[], Rule]] = {
        "ivc": lambda: IvcRule(ens, ens.weights),
        "ipvc": lambda: IpvcRule(ens, ens.weights),
        "sec": lambda: SecRule(ens),
        "sec, complete": lambda: SecRule(_complete(ens)),
        "h_smooth": lambda: _smoothed(make("h")),
    }

    def make(name: str) -> Rule:
        if name in known:
            return known[name]()
        return KccRule(ens, parse_utility(name)[1], ens.weights)

    return {name: make(name) for name in data.case.rules}


def _smoothed(rule: Rule) -> Rule:
    """Let a rule make its smoothed table instead of its own."""
    rule.recipe = rule.smoothed
    return rule


def _complete(ensemble: Ensemble) -> Ensemble:
    """Return an ensemble with the first label where one is missing."""
    missing = ensemble.codes == ensemble.n_labels[:, None]
    return Ensemble.from_codes(np.where(missing, 0, ensemble.codes), ensemble.n_labels)


def _prices(data: Data, utility: str) -> Any:
    """Price every move of a few clusters, one of which holds a single object."""
    ens = data.ensemble
    segments, formula = Segments(ens.offsets), parse_utility(utility)[1]
    counts = to_host(data.counts)
    sizes = counts[: ens.offsets[1]].sum(axis=0)
    sizes[0, 0] = 1
    return price_tables(Refinement(formula, segments, ens.weights), counts, sizes)


def _ipc(data: Data) -> Any:
    """Sweep twice over a few objects, one after another."""
    ens, codes = data.ensemble, to_host(data.few_codes)
    assignment = to_host(data.before)[:1, data.few]
    counts = count_by_cluster(
        NumpyBackend(1), codes, ens.offsets, assignment[0], data.case.n_clusters
    )
    shares = Shares.of(IpvcRule(ens, ens.weights), ens.n_samples)
    sweep = fastest("ipc_sweep", sweep_objects)

    def sweeps(assignment: Any, counts: Any) -> list[int]:
        members = count_members(shares, counts)
        return [sweep(codes, *shares, assignment, counts, *members) for _ in range(2)]

    return _change(sweeps, assignment[0], counts)
