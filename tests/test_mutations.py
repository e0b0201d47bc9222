"""Bugs put into the real kernels, one at a time: the suite must notice each.

Twelve are tried in every run, all of them with ``-m slow``.
"""

from typing import NamedTuple

import kernel_matrix
import numpy as np
import pytest
from conftest import emulated
from cudaemu import DeviceSpec, adopt, configured, recording
from test_cupy_backend import BIG, SMALL, inner_loop, one_assign

from gpu_consensus.backends import choose_backend, cuda_compile
from gpu_consensus.backends.cuda_source import source
from gpu_consensus.backends.numpy_backend import NumpyBackend


class Mutant(NamedTuple):
    """A bug: in which file, what text, replaced by what; ``nth`` from 0."""

    name: str
    file: str
    old: str
    new: str
    nth: int = 0


BARRIER = "__syncthreads();"
MUTANTS = [
    Mutant("stage before all have read", "assign", BARRIER, "", 0),
    Mutant("read before all is staged", "assign", BARRIER, "", 1),
    Mutant(
        "rows beyond the last are read", "assign", "l < n_rows ? l : n_rows - 1", "l"
    ),
    Mutant(
        "rows beyond the last are written", "assign", "if (l < n_rows)", "if (true)"
    ),
    Mutant("ties go to any cluster", "assign", "k < low.cluster", "false"),
    Mutant("ties go to the last cluster", "assign", "k < low.cluster", "true"),
    Mutant("second best forgotten", "assign", "fminf(low.second, score)", "low.second"),
    Mutant("chunks read unswizzled", "assign", "(at ^ (s * 16))", "(at + s * 16)"),
    Mutant("one copy serves all lanes", "assign", "copy * CHUNKS + turn", "turn"),
    Mutant(
        "labels of other pieces", "assign", "if (line >= piece.n_lines) continue;", ""
    ),
    Mutant(
        "32-bit index", "assign", "(i64)i * a.stride", "(int)((u32)i * (u32)a.stride)"
    ),
    Mutant("tiles do not go on", "assign", "begin > q * n_clusters", "begin < 0"),
    Mutant(
        "weight of another type",
        "assign",
        "const float* row_weight",
        "const double* row_weight",
    ),
    Mutant(
        "fused multiply-add",
        "assign",
        "__fadd_rn(score[j][t], __fmul_rn(weight, sum))",
        "fmaf(weight, sum, score[j][t])",
    ),
    Mutant(
        "partitions in reverse",
        "assign",
        "int i = piece.begin; i < piece.end; ++i",
        "int i = piece.end - 1; i >= piece.begin; --i",
    ),
    Mutant("factor without its weight", "assign", "__fmul_rn(weight, sum)", "sum"),
    Mutant("last column forgotten", "assign", "column < end)", "column < end - 1)"),
    Mutant(
        "shared update not atomic", "count", "atomicAdd(bin + is, 1)", "bin[is] += 1"
    ),
    Mutant("histogram not zeroed", "count", "histogram[b] = 0", "(void)0"),
    Mutant("off-by-one bin", "count", "+ b % n_clusters", "+ (b + 1) % n_clusters"),
    Mutant("flush before all have counted", "count", BARRIER, "", 1),
    Mutant(
        "uncounted rows are counted",
        "count",
        "if (is < n_clusters) atomicAdd",
        "if (is <= n_clusters) atomicAdd",
    ),
    Mutant(
        "leaving adds one",
        "count",
        "atomicAdd(bin + was, -1)",
        "atomicAdd(bin + was, 1)",
    ),
    Mutant("one row too many", "count", "l < n_rows;", "l <= n_rows;"),
    Mutant("restarts mixed up", "count", "q * cluster_stride", "0 * cluster_stride"),
    Mutant(
        "missing labels have scores", "table", "row != first_row[i + 1] - 1", "true"
    ),
    Mutant(
        "empty clusters keep no marginal",
        "table",
        "empty[at] ? marginals[row] : counts[t]",
        "counts[t]",
    ),
    Mutant("another floor", "table", ": 2.220446049250313e-16", ": 1e-16"),
    Mutant(
        "majority ties to the last label",
        "table",
        "found > sums.most",
        "found >= sums.most",
    ),
    Mutant("power too high", "table", "p - 1", "p"),
    Mutant("missing labels are counted", "table", "row < missing", "row <= missing"),
    Mutant(
        "exponent forgotten", "table", "(double)exponent + s * series", "s * series"
    ),
    Mutant("tile overwritten too early", "coassociation", BARRIER, "", 1),
    Mutant("two missing labels agree", "coassociation", "a >= 0 && a == b", "a == b"),
    Mutant(
        "edge guard swapped",
        "coassociation",
        "row < n_rows && column < n_columns",
        "row < n_columns && column < n_rows",
    ),
    Mutant(
        "sum in single precision", "scores", "double score = 0.0", "float score = 0.0f"
    ),
    Mutant(
        "shares cut off",
        "soft_count",
        "rint(share * 4294967296.0)",
        "(share * 4294967296.0)",
    ),
    Mutant("sums not zeroed", "soft_count", "sums[b] = 0", "(void)0"),
    Mutant("flipped before all agree", "add_rem_add", BARRIER, "", 2),
    Mutant("labels staged too early", "add_rem_add", BARRIER, "", 0),
    Mutant("labels read too early", "add_rem_add", BARRIER, "", 1),
    Mutant("set seen by one thread", "add_rem_add", BARRIER, "", 3),
    Mutant("ties to the last object", "add_rem_add", "(u32)~object", "(u32)object"),
    Mutant("leaving wins ties", "add_rem_add", "&& leaver < object", ""),
    Mutant("leaving loses ties", "add_rem_add", "(b == highest && sign", "(false"),
    Mutant(
        "b in single precision",
        "add_rem_add",
        "(double)(q * total",
        "(float)(q * total",
    ),
    Mutant("missing labels agree", "add_rem_add", "? -1 : label", "? label : label"),
    Mutant("nobody leaves", "add_rem_add", "if (size > 1)", "if (size < 0)"),
    Mutant("states not zeroed", "add_rem_add", "state[l] = 0", "(void)0"),
    Mutant(
        "membership kept", "add_rem_add", "state[object] ^= 1", "state[object] |= 1"
    ),
    Mutant(
        "visitor without flips", "add_rem_add", "(position, flips)", "(position, 0)"
    ),
    Mutant("marks pile up", "add_rem_add", "mark ^= marks", "mark = marks"),
    Mutant(
        "slots not claimed",
        "add_rem_add",
        "atomicCAS(keys + at, (u64)0, key)",
        "keys[at]",
    ),
    Mutant(
        "one object too many", "add_rem_add", "l < n_samples;", "l <= n_samples;", 2
    ),
]
EVERY_RUN = {
    "read before all is staged",
    "rows beyond the last are written",
    "ties go to any cluster",
    "one copy serves all lanes",
    "32-bit index",
    "shared update not atomic",
    "off-by-one bin",
    "weight of another type",
    "labels staged too early",
    "leaving loses ties",
    "marks pile up",
    "missing labels agree",
}
CASES = [
    {"n": n, "n_labels": k_i, "n_clusters": k, "n_restarts": r, "missing": gaps}
    | {"row_table": row_table, "rule": rule, "repeat": 1 if k > 3 else 10}
    for n, k_i, k, r, gaps, row_table, rule in (
        (257, 33, 3, 2, 0.4, 0, "c"),
        (33, 300, 33, 1, 0.0, 2, "h"),
        (255, 8, 9, 3, 0.4, 1, "l3"),
        (256, 2, 16, 1, 0.0, 0, "cos"),
        (31, 7, 97, 1, 0.4, 0, "h"),
        (64, 5, 4, 2, 0.2, 0, "ivc"),
        (65, 5, 4, 2, 0.3, 0, "sec"),
    )
]


def mutate(mutant):
    """Return a ``source`` with the bug in it."""
    text = source(mutant.file)
    at = -1
    for _ in range(mutant.nth + 1):
        at = text.index(mutant.old, at + 1)
    broken = text[:at] + mutant.new + text[at + len(mutant.old) :]
    return lambda name: broken if name == mutant.file else source(name)


def wrong_by_matrix(mode):
    """Compare with numpy on few cases, in all thread orders."""
    for device in (BIG, SMALL):
        with emulated(device), configured(mode=mode, timeout=10):
            backend = choose_backend("cupy", None)
            for number, case in enumerate(CASES):
                order = ("forward", "reverse", "random")[number % 3]
                with configured(order=order):
                    kernel_matrix.check_case(backend, case)


def wrong_by_climbs(mode):
    """Compare climbs with numpy, in all thread orders."""
    with emulated(BIG), configured(mode=mode, timeout=3):
        backend = choose_backend("cupy", None)
        for number in range(len(kernel_matrix.CLIMBS)):
            order = ("forward", "reverse", "random")[number % 3]
            with configured(order=order):
                kernel_matrix.check_climbs(backend, number)


def wrong_by_conflicts():
    with emulated(), configured(mode="check"), recording() as reports:
        one_assign(33, 16)
    traffic = inner_loop(reports[0])
    assert traffic["wavefronts"] <= 1.1 * traffic["phases"]


def wrong_beyond_31_bits(tmp_path):
    n, tail = (1 << 30) + 64, 40
    codes = np.memmap(tmp_path / "codes", dtype=np.uint8, mode="w+", shape=(3, n))
    codes[:, -tail:] = np.arange(tail) % 5
    offsets = np.array([0, 6, 12, 18])
    table = np.random.default_rng(0).random((18, 1, 3), dtype=np.float32)
    last = np.asarray(codes[:, -tail:])
    expected = NumpyBackend().assign(last, offsets, table).assignment
    with emulated(DeviceSpec(multiprocessors=1)) as cupy:
        backend = choose_backend("cupy", None)
        view = adopt(cupy, codes)[:, -tail:]
        found = backend.assign(view, offsets, backend.to_device(table)).assignment
    assert np.array_equal(found.get(), expected)


def caught(tmp_path, file=None):
    """Run the checks of a file from the cheapest on; return what noticed the bug."""
    climbs = {
        "a wrong climb": lambda: wrong_by_climbs("fast"),
        "climbs in check mode": lambda: wrong_by_climbs("check"),
    }
    checks = {
        "a wrong result": lambda: wrong_by_matrix("fast"),
        "check mode": lambda: wrong_by_matrix("check"),
        "bank conflicts": wrong_by_conflicts,
        "an index beyond 31 bits": lambda: wrong_beyond_31_bits(tmp_path),
    }
    if file is None:
        checks |= climbs
    elif file == "add_rem_add":
        checks = climbs
    for name, check in checks.items():
        try:
            check()
        except Exception as error:
            return f"{name}: {error}"
    return ""


def test_without_a_bug_nothing_is_noticed(tmp_path):
    assert caught(tmp_path) == ""


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(
            mutant,
            id=mutant.name,
            marks=[] if mutant.name in EVERY_RUN else [pytest.mark.slow],
        )
        for mutant in MUTANTS
    ],
)
def test_every_bug_is_noticed(mutant, monkeypatch, tmp_path):
    monkeypatch.setattr(cuda_compile, "source", mutate(mutant))
    assert caught(tmp_path, mutant.file)
