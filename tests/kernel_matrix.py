"""Sizes at which kernels go wrong, sampled pair by pair, compared with numpy.

``python kernel_matrix.py few`` or ``all`` runs them on a device whose shared memory
holds small tables alone: how asan mode, which needs a process of its own, is fed.
"""

import contextlib
import itertools
import sys
from unittest import mock

import cudaemu
import numpy as np
import oracles
from fresh_counts import fresh_counts

import gpu_consensus as gpc
from gpu_consensus.backends import choose_backend
from gpu_consensus.backends.cupy import launcher as cuda_launcher
from gpu_consensus.backends.cupy.launch_plan import plan_assign
from gpu_consensus.backends.cupy.source import (
    all_kernels,
    count_kernel,
    own_scores_kernel,
    table_kernel,
    tiles_kernel,
)
from gpu_consensus.backends.host_loops import compiled_loops
from gpu_consensus.backends.numpy import NumpyBackend
from gpu_consensus.doctor.primitives import MOST_CLUSTERS, Case
from gpu_consensus.doctor.self_test import compare
from gpu_consensus.methods.climbs import climb_all

FACTORS = {
    "code": ("u8", "u16"),
    "n": (1, 31, 32, 33, 255, 256, 257, 1100),
    "n_labels": (1, 2, 7, 8, 32, 33, 255, 256, 300),
    "n_clusters": (1, 2, 3, 7, 8, 9, 16, 31, 32, 33, 64, 65, 96, 97, 130),
    "n_restarts": (1, 2, 3),
    "missing": (0.0, 0.4),
    "row_table": (0, 1, 2),
    "rule": ("c", "h", "h_smooth", "cos", "l3", "l8", "ivc", "ipvc", "sec"),
    "repeat": (1, 9),
    "order": ("forward", "reverse", "random"),
}
# clusters whose numbers take two bytes and four, with both types of codes
WIDE = [
    {"code": code, "n": 257, "n_labels": 2, "n_clusters": k, "n_restarts": 2}
    | {"missing": 0.4, "row_table": 0, "rule": "c", "repeat": 1, "order": "random"}
    for code, k in itertools.product(FACTORS["code"], (256, 300, 65_536))
]
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


def possible(case):
    """Whether a byte can hold the labels, if a byte is asked for."""
    return case.get("code") != "u8" or case.get("n_labels", 0) <= 255


def pairwise_cases(seed=0):
    """Cases in which every two values of two factors meet, greedily few."""
    rng = np.random.default_rng(seed)
    names = list(FACTORS)
    missing = {
        (a, b, x, y)
        for a, b in itertools.combinations(names, 2)
        for x in FACTORS[a]
        for y in FACTORS[b]
        if possible({a: x, b: y})
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
            if not possible(case):
                continue
            pairs = {
                (p, q, case[p], case[q]) for p, q in itertools.combinations(names, 2)
            } & missing
            if len(pairs) > len(gained):
                best, gained = case, pairs
        cases.append(best)
        missing -= gained
    return cases


def sizes_of(case):
    """Labels of each partition; their number is odd."""
    return (case["n_labels"], 3, case["n_labels"], 1) * case["repeat"] + (2,)


def forms_of(case, shared_limit):
    """Forms of kernels that a case is there for, on a device with such a limit."""
    code, k = case["code"], case["n_clusters"]
    cluster = f"u{8 * np.min_scalar_type(k).itemsize}"
    forms = {count_kernel(code, cluster)}
    if k <= MOST_CLUSTERS:
        forms.add(tiles_kernel())
    if not case["row_table"]:
        forms.add(own_scores_kernel(code, cluster))
    if k > MOST_CLUSTERS:
        return forms
    sizes = sizes_of(case)
    for own in (False,) if case["row_table"] else (False, True):
        plan = plan_assign(
            np.cumsum([0, *(size + 1 for size in sizes)]),
            case["n_restarts"],
            k,
            shared_limit=shared_limit,
            row_table=case["row_table"],
            code=code,
            own=own,
        )
        forms.add(plan.kernel)
    utility = "LP" if case["rule"] in ("l3", "l8") else case["rule"].upper()
    if utility == "SEC":
        forms.add(table_kernel("table_norm", "SEC"))
        if case["missing"]:
            forms.add(table_kernel("table", "SEC_ROW"))
    return forms | {table_kernel("table", utility)}


def few_cases(cases, shared_limit):
    """Cases enough for every form that all of them execute, cheap ones first."""
    sizes = ("n", "n_clusters", "n_restarts", "repeat")

    def cost(case):
        # a single warp would have few to race with
        return case["n"] <= 32, np.prod([case[name] for name in sizes])

    seen, chosen = set(), []
    for case in sorted(cases, key=cost):
        forms = forms_of(case, shared_limit)
        if not forms <= seen:
            seen |= forms
            chosen.append(case)
    return chosen


@contextlib.contextmanager
def noting_forms():
    """Collect the forms of kernels that the backend launches."""
    forms, compiled = set(), cuda_launcher.compiled

    def note(kernel, device):
        forms.add(kernel)
        return compiled(kernel, device)

    with mock.patch.object(cuda_launcher, "compiled", note):
        yield forms


def draw(case, seed=0):
    """An ensemble and assignments of a case's size."""
    rng = np.random.default_rng(seed)
    sizes = sizes_of(case)
    codes, _ = oracles.random_codes(rng, case["n"], sizes, case["missing"])
    ens = gpc.Ensemble.from_codes(codes, sizes)
    k, shape = case["n_clusters"], (case["n_restarts"], case["n"])
    kind = np.min_scalar_type(k)
    before, after = (rng.integers(k + 1, size=shape).astype(kind) for _ in range(2))
    return rng, ens, before, after


def same(backend, name, found, expected):
    """Compare an array of the backend with one of numpy; equal means every bit."""
    found = backend.to_host(found)
    assert found.dtype == expected.dtype, name
    assert np.array_equal(found, expected), name


def check_case(backend, case):
    """Compare every primitive with numpy; no tables of very many columns."""
    kinds = {"u8": np.uint8, "u16": np.uint16, None: None}
    rule = case["rule"]
    if rule == "sec" and not case["missing"]:
        rule = "sec, complete"
    sizes = Case(
        case["n"],
        sizes_of(case),
        case["n_restarts"],
        case["n_clusters"],
        case["missing"],
        (rule,),
        (case["row_table"],),
        kinds[case.get("code")],
    )
    wrong = compare(backend, sizes)
    assert not wrong, wrong


def check_moves(backend):
    """Recount objects of which none to all move, so many that queues fill.

    One block has all of them and one has a range; labels are aligned and are not.
    """
    rng = np.random.default_rng(0)
    sizes, k = (3, 60, 2, 7, 1), 3
    offsets = np.cumsum([0, *(size + 1 for size in sizes)])
    for n, shares, first in (
        (9001, [0, 0.02, 0.2, 0.6, 1] * 4, 0),
        (5000, [0.6], 0),
        (5001, [0.6], 1),
    ):
        codes = np.array([rng.integers(size + 1, size=n) for size in sizes], "u1")
        before = rng.integers(k + 1, size=(len(shares), n - first)).astype("u1")
        moved = rng.random(before.shape) < np.array(shares)[:, None]
        after = np.where(moved, (before + 1) % (k + 1), before).astype("u1")
        held = backend.resident(codes)[:, first:]
        numpy, given = NumpyBackend(1), codes[:, first:]
        found = fresh_counts(backend, held, offsets, backend.to_device(before), k)
        right = fresh_counts(numpy, given, offsets, before, k)
        same(backend, "count", found, right)
        moves = (backend.to_device(x) for x in (before, after))
        backend.count(held, offsets, *moves, found)
        numpy.count(given, offsets, before, after, right)
        same(backend, "count of the moved", found, right)


def check_many_clusters(backend):
    """Assign objects to clusters whose numbers take two bytes and four."""
    rng, numpy, offsets = np.random.default_rng(0), NumpyBackend(1), np.array([0, 3])
    codes = rng.integers(3, size=(1, 5), dtype=np.uint8)
    for n_clusters in (300, 65_536):
        table = rng.random((3, 1, n_clusters), dtype=np.float32)
        found = backend.assign(
            backend.resident(codes), offsets, backend.to_device(table), best=True
        )
        right = numpy.assign(codes, offsets, table, best=True)
        same(backend, "assign", found.assignment, right.assignment)
        same(backend, "best", found.best, right.best)


def draw_climbs(number):
    """Codes, numbers of labels, starts and threshold of a case of CLIMBS."""
    n, sizes, missing, threshold, n_starts, seed = CLIMBS[number]
    rng = np.random.default_rng(seed)
    codes, _ = oracles.random_codes(rng, n, sizes, missing)
    return codes, np.array(sizes), rng.permutation(n)[:n_starts], threshold


def ways_to_climb(backend, codes, matrix):
    """Codes and similarities: counted, kept, and kept with the codes on the host."""
    matrix = backend.to_device(matrix)
    yield backend.resident(codes), None
    yield backend.resident(codes), matrix
    yield codes, matrix


def check_climbs(backend, number, n_threads=1):
    """Climb in every way; equal to numpy in every bit."""
    numpy = NumpyBackend(1)
    codes, n_labels, starts, threshold = draw_climbs(number)
    everyone = np.arange(codes.shape[1])
    same = numpy.pairs(codes, n_labels, everyone, everyone).same
    matrix = same.astype(np.uint8 if len(codes) <= 255 else np.uint16)
    with compiled_loops(False):
        expected = climb_all(codes, n_labels, starts, threshold)
    for held, similarity in ways_to_climb(backend, codes, matrix):
        found = climb_all(
            held, n_labels, starts, threshold, similarity, n_threads=n_threads
        )
        for field, right in expected._asdict().items():
            got = getattr(found, field)
            assert got.dtype == right.dtype, (field, number)
            assert np.array_equal(got, right), (field, number)


def check_all(backend, cases):
    """Check cases, each in its order of threads, moves of many, and all climbs."""
    check_moves(backend)
    check_many_clusters(backend)
    for number, case in enumerate(cases):
        with cudaemu.configured(order=case["order"], seed=number):
            check_case(backend, case)
    for number in range(len(CLIMBS)):
        check_climbs(backend, number)


if __name__ == "__main__":
    small = cudaemu.DeviceSpec(multiprocessors=2, shared_memory_optin=20 << 10)
    chosen = pairwise_cases() + WIDE
    if sys.argv[1] == "few":
        chosen = few_cases(chosen, small.shared_memory_optin)
    with cudaemu.installed(cudaemu.make_cupy((small,))), noting_forms() as launched:
        check_all(choose_backend("cupy", None), chosen)
    sys.stdout.write(f"{len(chosen)} cases and {len(CLIMBS)} climbs, all equal; ")
    sys.stdout.write(f"{len(launched)} of {len(all_kernels())} forms\n")
