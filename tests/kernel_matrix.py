"""Sizes at which kernels go wrong, sampled pair by pair, compared with numpy.

``python kernel_matrix.py 5`` runs the first five cases: how asan mode, which needs a
process of its own, is fed.
"""

import itertools
import sys

import numpy as np
import oracles

import gpu_consensus as gpc
from gpu_consensus.backends.numpy_backend import NumpyBackend
from gpu_consensus.loop.lloyd import Problem
from gpu_consensus.loop.utilities import parse_utility
from gpu_consensus.methods.kcc import KccRule, device_recipe
from gpu_consensus.methods.sec import SecRule
from gpu_consensus.methods.voting import IpvcRule, IvcRule

NOBODY = np.empty(0, dtype=np.intp)
FACTORS = {
    "n": (1, 31, 32, 33, 255, 256, 257, 1000),
    "n_labels": (1, 2, 7, 8, 32, 33, 255, 256, 300),
    "n_clusters": (1, 2, 3, 7, 8, 9, 16, 31, 32, 33, 64, 65, 96, 97, 130),
    "n_restarts": (1, 2, 3),
    "missing": (0.0, 0.4),
    "row_table": (0, 1, 2),
    "rule": ("c", "h", "cos", "l3", "l8", "ivc", "ipvc", "sec"),
    "repeat": (1, 9),
    "order": ("forward", "reverse", "random"),
}
# objects, labels of each partition, missing, threshold (p, q), starts, seed: objects
# beyond a block's threads and partitions beyond its staged labels, codes and matrices
# of two bytes, climbs that let objects go again, ties of entering and leaving, sums
# that single precision cannot hold
CLIMBS = (
    (1, (3,), 0.0, (0, 1), 1, 0),
    (40, (3,) * 8, 0.4, (8, 3), 40, 1),
    (33, (2,) * 5, 0.4, (1, 1), 12, 2),
    (31, (2, 5, 1) * 2, 0.0, (0, 1), 6, 3),
    (300, (40,) * 6, 0.2, (3, 1), 30, 4),
    (257, (300, 30, 30), 0.0, (1, 1), 20, 5),
    (20, (3,) * 300, 0.1, (60, 1), 9, 6),
    (40, (2,) * 260, 0.4, (80, 1), 12, 7),
    (12, (2,) * 3, 0.5, (1, 2), 12, 65),
    (12, (2,) * 5, 0.5, (5, 3), 12, 27),
    (40, (3,) * 8, 0.4, (8_000_003, 3_000_001), 40, 2),
)


def pairwise_cases(seed=0):
    """Cases in which every two values of two factors meet, greedily few."""
    rng = np.random.default_rng(seed)
    names = list(FACTORS)
    missing = {
        (a, b, x, y)
        for a, b in itertools.combinations(names, 2)
        for x in FACTORS[a]
        for y in FACTORS[b]
    }
    cases = []
    while missing:
        a, b, x, y = sorted(missing, key=str)[0]
        best, gained = None, set()
        for _ in range(20):
            case = {
                name: values[rng.integers(len(values))]
                for name, values in FACTORS.items()
            }
            case |= {a: x, b: y}
            pairs = {
                (p, q, case[p], case[q]) for p, q in itertools.combinations(names, 2)
            } & missing
            if len(pairs) > len(gained):
                best, gained = case, pairs
        cases.append(best)
        missing -= gained
    return cases


def draw(case, seed=0):
    """An ensemble and assignments of a case's size."""
    rng = np.random.default_rng(seed)
    sizes = (case["n_labels"], 3, case["n_labels"], 1) * case["repeat"]
    codes, _ = oracles.random_codes(rng, case["n"], sizes, case["missing"])
    ens = gpc.Ensemble.from_codes(codes, sizes)
    k, shape = case["n_clusters"], (case["n_restarts"], case["n"])
    kind = np.min_scalar_type(k)
    before, after = (rng.integers(k + 1, size=shape).astype(kind) for _ in range(2))
    return rng, ens, before, after


def make_rule(ens, name):
    """Return a rule of the k-means family that has a kernel."""
    if name == "sec":
        return SecRule(ens)
    if name in ("ivc", "ipvc"):
        return {"ivc": IvcRule, "ipvc": IpvcRule}[name](ens, ens.weights)
    rule = KccRule(ens, parse_utility(name)[1], ens.weights)
    rule.recipe = device_recipe(rule, name)
    return rule


def check_case(backend, case):
    """Compare every primitive with numpy; equal means every bit."""
    numpy, up = NumpyBackend(1), backend.to_device

    def same(name, found, expected):
        found = backend.to_host(found)
        assert found.dtype == expected.dtype, (name, case)
        assert np.array_equal(found, expected), (name, case)

    rng, ens, before, after = draw(case)
    k, offsets, host = case["n_clusters"], ens.offsets, ens.codes
    codes = backend.hold(host)
    counts = numpy.count(host, offsets, before, k)
    found = backend.count(codes, offsets, up(before), k)
    same("count", found, counts)
    backend.recount(codes, offsets, up(before), up(after), found)
    same("recount", found, numpy.count(host, offsets, after, k))

    weight = rng.integers(1, 2**40, size=case["n"])
    same(
        "weigh",
        backend.weigh(codes, offsets, up(before), up(weight), k),
        numpy.weigh(host, offsets, before, weight, k),
    )
    rule = make_rule(ens, case["rule"])
    if case["rule"] == "sec":
        rule.bind(Problem(numpy, host, offsets, k, NOBODY))
    table, row_table = rule.table(counts, list(before))
    if case["rule"] == "sec":
        rule.bind(Problem(backend, host, offsets, k, NOBODY))
    made, row_made = backend.table(rule, up(counts), list(up(before)))
    same("table", made, table)
    if row_table is not None:
        same("row table", row_made, row_table)

    # coarse numbers make ties, fine ones show every rounding
    rough = np.round(rng.normal(size=table.shape)).astype(np.float32)
    full = rng.normal(size=table.shape).astype(np.float32)
    row_table = (None, full[0], full)[case["row_table"]]
    weight = rng.integers(1, 1000, size=case["n"]).astype(np.float32)
    options = {"best": True, "gap": True}
    for scores in (table, rough):
        expected = numpy.assign(
            host, offsets, scores, row_weight=weight, row_table=row_table, **options
        )
        got = backend.assign(
            codes,
            offsets,
            up(scores),
            row_weight=up(weight),
            row_table=None if row_table is None else up(row_table),
            **options,
        )
        for field in expected._fields:
            same(f"{field} of assign", getattr(got, field), getattr(expected, field))
    share = rng.dirichlet(np.ones(k), size=(case["n"], case["n_restarts"]))
    same(
        "scores",
        backend.scores(codes, offsets, up(full.astype(float))),
        numpy.scores(host, offsets, full.astype(float)),
    )
    same(
        "soft_count",
        backend.soft_count(codes, offsets, up(share)),
        numpy.soft_count(host, offsets, share),
    )
    rows, columns = rng.integers(case["n"], size=40), rng.integers(case["n"], size=33)
    pairs = backend.coassociation(codes, ens.n_labels, rows, columns)
    expected = numpy.coassociation(host, ens.n_labels, rows, columns)
    same("same", pairs.same, expected.same)
    same("both", pairs.both, expected.both)


def draw_climbs(number):
    """Codes, numbers of labels, starts and threshold of a case of CLIMBS."""
    n, sizes, missing, threshold, n_starts, seed = CLIMBS[number]
    rng = np.random.default_rng(seed)
    codes, _ = oracles.random_codes(rng, n, sizes, missing)
    return codes, np.array(sizes), rng.permutation(n)[:n_starts], threshold


def check_climbs(backend, number):
    """Climb on codes and on the matrix; equal to numpy in every bit."""
    numpy = NumpyBackend(1)
    codes, n_labels, starts, threshold = draw_climbs(number)
    everyone = np.arange(codes.shape[1])
    same = numpy.coassociation(codes, n_labels, everyone, everyone).same
    matrix = same.astype(np.uint8 if len(codes) <= 255 else np.uint16)
    expected = numpy.add_rem_add(codes, n_labels, starts, threshold)
    for similarity in (None, backend.to_device(matrix)):
        found = backend.add_rem_add(
            backend.hold(codes), n_labels, starts, threshold, similarity
        )
        for field, right in expected._asdict().items():
            got = getattr(found, field)
            assert got.dtype == right.dtype, (field, number)
            assert np.array_equal(got, right), (field, number)


if __name__ == "__main__":
    import cudaemu

    from gpu_consensus.backends import choose_backend

    small = cudaemu.DeviceSpec(multiprocessors=2, shared_memory_optin=20 * 1024)
    with cudaemu.installed(cudaemu.make_cupy((small,))):
        for number, case in enumerate(pairwise_cases()[: int(sys.argv[1])]):
            with cudaemu.configured(order=case["order"], seed=number):
                check_case(choose_backend("cupy", None), case)
        for number in range(len(CLIMBS)):
            check_climbs(choose_backend("cupy", None), number)
    sys.stdout.write("all equal\n")
