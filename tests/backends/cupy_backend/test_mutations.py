"""Bugs put into the real kernels, one at a time: the suite must notice each.

Those of ``EVERY_RUN`` are tried in every run, all of them with ``-m slow``; the run
says how many were noticed.
"""

from pathlib import Path
from typing import NamedTuple

import far_rows
import kernel_matrix
import pytest
from conftest import emulated
from cudaemu import configured
from emulated_devices import BIG, SMALL
from traffic import RESIDENT, Shape, measure

from gpu_consensus.backends import choose_backend
from gpu_consensus.backends.cupy import compile as cuda_compile
from gpu_consensus.backends.cupy.source import source


class Mutant(NamedTuple):
    """A bug: in which file, what text, replaced by what; ``nth`` from 0.

    One that ``harms`` would overwrite memory of the test's own process, were it not
    for check mode.
    """

    name: str
    file: str
    old: str
    new: str
    nth: int = 0
    harms: bool = False


BARRIER = "__syncthreads();"
MUTANTS = [
    Mutant("stage before all have read", "assign", BARRIER, "", 0),
    Mutant("read before all is staged", "assign", BARRIER, "", 1),
    Mutant(
        "rows beyond the last are read",
        "assign",
        "l < a.n_rows ? l : a.n_rows - 1",
        "l",
    ),
    Mutant("rows beyond the last are written", "assign", "if (l < a.n_rows) ", ""),
    Mutant(
        "ties go to the last cluster", "assign", "score < low.best", "score <= low.best"
    ),
    Mutant("second best forgotten", "assign", "fminf(low.second, score)", "low.second"),
    Mutant(
        "chunks read unswizzled", "assign", "at[u][j] ^ (s * 16", "at[u][j] + (s * 16"
    ),
    Mutant("one copy serves all lanes", "assign", "copy * N + turn", "turn"),
    Mutant("no line of zeros", "assign", "piece.n_lines * TABLES * 8 + t", "t"),
    Mutant(
        "a label too many has a line",
        "assign",
        "labels[u][j], piece.n_lines)",
        "labels[u][j], piece.n_lines - 1)",
    ),
    Mutant(
        "labels of the next partitions too early",
        "assign",
        "load(a, piece, row, i + AHEAD, labels)",
        "load(a, piece, row, i, labels)",
    ),
    Mutant("labels loaded once", "assign", "if (i + AHEAD < piece.end)", "if (false)"),
    Mutant(
        "a partition too many is added",
        "assign",
        "if (i + u >= piece.end) break;",
        "if (i + u > piece.end) break;",
        1,
    ),
    Mutant("quads of the first piece", "assign", "piece.first_quad + ", ""),
    Mutant(
        "staging stops short",
        "assign",
        "first < n; first += FLIGHT",
        "first < n - 1; first += FLIGHT",
    ),
    Mutant(
        "staged lines shifted", "assign", "if (t >= n) break;", "if (t >= n - 1) break;"
    ),
    Mutant(
        "one load for all in flight",
        "assign",
        "min(first + f * blockDim.x, n - 1)",
        "min(first, n - 1)",
    ),
    Mutant("slots not in order", "assign", "order<N>(score[0][j]);", ""),
    Mutant("order of other lanes", "assign", "threadIdx.x & b", "threadIdx.x & 1"),
    Mutant(
        "what was found is not carried", "assign", "low = carried;", "low.cluster = 0;"
    ),
    Mutant("written before it ends", "assign", "if (last > end - begin) break;", ""),
    Mutant("tile staged for another", "assign", "&& last - first == 1", ""),
    Mutant(
        "tiles of other chains", "assign", "blockIdx.x % n_chains", "blockIdx.x % 1"
    ),
    Mutant(
        "rows left out",
        "assign",
        "gridDim.x / n_chains * rows_of_block",
        "gridDim.x * rows_of_block",
    ),
    Mutant("wide cluster numbers cut", "assign", "a.winner_bytes == 2", "true"),
    Mutant(
        "narrow cluster numbers widened",
        "assign",
        "a.winner_bytes == 1",
        "false",
        harms=True,
    ),
    Mutant(
        "gap of the worst",
        "assign",
        "__fsub_rn(low.second, low.best)",
        "__fsub_rn(low.best, low.second)",
    ),
    Mutant(
        "table in the place of the row table",
        "assign",
        "s * 16 + which * 128",
        "s * 16",
    ),
    Mutant("narrow tile read wide", "assign", "end - begin > 16", "true"),
    Mutant(
        "row table not beside", "tiles", "line % n_tables ? row_table : table", "table"
    ),
    Mutant("narrow tile laid out wide", "tiles", "end - begin > 16 ? 32 : 16", "32"),
    Mutant("a column beyond the last", "tiles", "column < end ?", "column <= end ?"),
    Mutant("lines of two tables mixed up", "tiles", "line / n_tables", "line"),
    Mutant(
        "chains of another type",
        "assign",
        "int n_chains,",
        "i64 n_chains,",
    ),
    Mutant(
        "fused multiply-add",
        "assign",
        "__fadd_rn(score[0][j][t], __fmul_rn(weight, score[1][j][t]))",
        "fmaf(weight, score[1][j][t], score[0][j][t])",
    ),
    Mutant("factor without its weight", "assign", "__fmul_rn(weight, sum)", "sum"),
    Mutant("last column forgotten", "assign", "t >= last ||", "t >= last - 1 ||"),
    Mutant(
        "own cluster keeps its score",
        "assign",
        "t == own_column ? own_score : score[t]",
        "score[t]",
    ),
    Mutant(
        "own column of the first tile",
        "assign",
        "* a.n_rows + l] - begin",
        "* a.n_rows + l]",
    ),
    Mutant("rounding is a gain", "assign", "gain > least", "gain > 0.0f"),
    Mutant("least gain has a sign", "assign", "fabsf(own_score)", "own_score"),
    Mutant(
        "restarts mixed up",
        "own_scores",
        "own[(q + t) * n_rows + l]",
        "own[q * n_rows + l]",
    ),
    Mutant(
        "one restart too many", "own_scores", "if (q + t >= n_restarts) continue;", ""
    ),
    Mutant("uncounted rows stay", "own_scores", "k < n_clusters", "k <= n_clusters"),
    Mutant("uncounted rows save", "own_scores", "__int_as_float(0xff800000)", "0.0f"),
    Mutant(
        "partitions in reverse",
        "own_scores",
        "int i = 0; i < n_partitions; ++i",
        "int i = n_partitions - 1; i >= 0; --i",
    ),
    Mutant(
        "shared update not atomic",
        "count",
        "atomicAdd(histogram + (line[t] + label) * w.n_clusters + k, 1)",
        "histogram[(line[t] + label) * w.n_clusters + k] += 1",
    ),
    Mutant("histogram not zeroed", "count", "histogram[b] = 0", "(void)0"),
    Mutant("counted before all is zeroed", "count", BARRIER, "", 3),
    Mutant("off-by-one bin", "count", "+ b % n_clusters", "+ (b + 1) % n_clusters"),
    Mutant("flush before all have counted", "count", BARRIER, "", 4),
    Mutant("uncounted rows are counted", "count", "k < w.n_clusters", "true"),
    Mutant(
        "moved to nowhere is counted",
        "count",
        "if (is < w.n_clusters) atomicAdd",
        "if (true) atomicAdd",
    ),
    Mutant(
        "moved from nowhere is counted",
        "count",
        "if (was < w.n_clusters) atomicAdd",
        "if (was <= w.n_clusters) atomicAdd",
    ),
    Mutant(
        "leaving adds one",
        "count",
        "atomicAdd(bin + was, -1)",
        "atomicAdd(bin + was, 1)",
    ),
    Mutant(
        "leaving adds one globally",
        "count",
        "gpc_add(bin + was, -1)",
        "gpc_add(bin + was, 1)",
    ),
    Mutant("one row too many", "count", "if (j < n_left && k", "if (j <= n_left && k"),
    Mutant("a moved row too many", "count", "l + j < w.row_end", "l + j <= w.row_end"),
    Mutant(
        "rows beyond the last are read", "count", "j < n_left ? j : n_left - 1", "j"
    ),
    Mutant("packs beyond the last", "count", "n_left >= 4 &&", ""),
    Mutant("packs anywhere", "count", "&& (u64)from % sizeof(Pack<T>) == 0", ""),
    Mutant(
        "labels in another order",
        "count",
        "value(labels[t], j)",
        "value(labels[t], 3 - j)",
    ),
    Mutant(
        "group cut short",
        "count",
        "for (int i = w.begin; i < w.end; i += TOGETHER)",
        "for (int i = w.begin; i < w.begin + 1; i += TOGETHER)",
        1,
    ),
    Mutant("queued before all have read", "count", BARRIER, "", 0),
    Mutant("read before all have queued", "count", BARRIER, "", 1),
    Mutant("emptied before all have read", "count", BARRIER, "", 2),
    Mutant("queue never empty", "count", "*fill = 0;", "(void)fill;", 1, True),
    Mutant(
        "queue without a bound", "count", "queued <= QUEUE - scan", "true", harms=True
    ),
    Mutant("rest of the queue forgotten", "count", "&& first + scan < w.row_end", ""),
    Mutant("queue not shared", "count", "atomicAdd(fill, 1)", "(*fill)++"),
    Mutant("rows of another block", "count", "w.row_begin + queue[e]", "queue[e]"),
    Mutant("restarts mixed up", "count", "after + q * n_rows", "after"),
    Mutant("restarts mixed up before", "count", "before + q * n_rows", "before"),
    Mutant(
        "range of another block", "count", "row_begin + rows_of_block", "rows_of_block"
    ),
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
    Mutant("labels smoothed alone", "table", "(size + 0.4)", "size"),
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
    Mutant("absent members weigh", "table", "weight - absent[at]", "weight"),
    Mutant(
        "empty clusters have no weight", "table", "if (empty[at]) here", "if (0) here"
    ),
    Mutant("labels weigh one", "table", "found * marginals[row]", "found"),
    Mutant("divided once", "table", "/ whole / whole", "/ whole"),
    Mutant("a column too many", "table", "column < n_columns;", "column <= n_columns;"),
    Mutant(
        "a column too few", "table", "column < n_columns;", "column < n_columns - 1;"
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
    Mutant("leaving adds", "weigh", "-row_weight[l]", "row_weight[l]"),
    Mutant(
        "uncounted rows leave",
        "weigh",
        "if (was < n_clusters)",
        "if (was <= n_clusters)",
    ),
    Mutant("restarts mixed up", "weigh", "after[q * n_rows + l]", "after[l]"),
    Mutant(
        "32-bit index",
        "count",
        "(i64)(i + t) * w.stride",
        "(u32)(i + t) * (u32)w.stride",
    ),
    Mutant(
        "32-bit index of the moved",
        "count",
        "(i64)(i + t) * w.stride",
        "(u32)(i + t) * (u32)w.stride",
        1,
    ),
    Mutant(
        "32-bit index, globally", "count", "(i64)i * w.stride", "(u32)i * (u32)w.stride"
    ),
    Mutant(
        "32-bit index",
        "assign",
        "(i64)(i + u) * a.stride",
        "(u32)(i + u) * (u32)a.stride",
    ),
    *(
        Mutant("32-bit index", file, "(i64)i * stride", "(u32)i * (u32)stride")
        for file in (
            "own_scores",
            "scores",
            "soft_count",
            "weigh",
            "coassociation",
        )
    ),
    Mutant(
        "32-bit index",
        "add_rem_add",
        "rows[i * stride + l]",
        "rows[(int)(i * stride) + l]",
    ),
    Mutant("31-bit object", "coassociation", "+ objects[at]]", "+ (int)objects[at]]"),
    Mutant(
        "32-bit index of the flipped",
        "add_rem_add",
        "rows[threadIdx.x * stride + object]",
        "rows[(int)(threadIdx.x * stride) + object]",
    ),
    Mutant(
        "32-bit first partition",
        "add_rem_add",
        "codes + first * stride",
        "codes + (u32)(first * stride)",
    ),
    Mutant(
        "32-bit row of the matrix",
        "add_rem_add",
        "object * stride",
        "(u32)(object * stride)",
    ),
]


def id_of(mutant):
    """Return a name; several files have the same bug."""
    return f"{mutant.name} in {mutant.file}"


EVERY_RUN = {
    "read before all is staged in assign",
    "rows beyond the last are written in assign",
    "ties go to the last cluster in assign",
    "one copy serves all lanes in assign",
    "32-bit index in count",
    "restarts mixed up in weigh",
    "own cluster keeps its score in assign",
    "uncounted rows save in own_scores",
    "shared update not atomic in count",
    "off-by-one bin in count",
    "chains of another type in assign",
    "absent members weigh in table",
    "labels staged too early in add_rem_add",
    "leaving loses ties in add_rem_add",
    "marks pile up in add_rem_add",
    "missing labels agree in add_rem_add",
}
CASES = [
    {"n": n, "n_labels": k_i, "n_clusters": k, "n_restarts": r, "missing": gaps}
    | {"row_table": row_table, "rule": rule, "repeat": 1 if k > 3 else 10}
    for n, k_i, k, r, gaps, row_table, rule in (
        (257, 33, 3, 2, 0.4, 0, "c"),
        (33, 300, 33, 1, 0.0, 2, "h"),
        (33, 7, 9, 2, 0.4, 0, "h_smooth"),
        (255, 8, 9, 3, 0.4, 1, "l3"),
        (256, 2, 16, 1, 0.0, 0, "cos"),
        (31, 7, 97, 1, 0.4, 0, "h"),
        (64, 5, 4, 2, 0.2, 0, "ivc"),
        (65, 5, 4, 2, 0.3, 0, "sec"),
        (31, 7, 97, 1, 0.4, 0, "sec"),
        (65, 5, 17, 2, 0.0, 0, "sec"),
        (1100, 3, 16, 3, 0.0, 0, "c"),
        (1100, 3, 40, 1, 0.0, 0, "c"),
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


def wrong_by_matrix(mode, file):
    """Compare with numpy on few cases, in all thread orders."""
    for device in (BIG, SMALL):
        with emulated(device), configured(mode=mode, timeout=10):
            backend = choose_backend("cupy", None)
            if file in (None, "count"):
                kernel_matrix.check_moves(backend)
            if file in (None, "assign"):
                kernel_matrix.check_many_clusters(backend)
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
    assert measure(Shape("u8", 1, 16, 0, RESIDENT)).wavefronts <= 1.1


def wrong_far_away(file, folder):
    """Look at the last rows of huge files, where 32-bit indices do not reach."""
    with emulated(BIG):
        backend = choose_backend("cupy", None)
        if file in (None, "coassociation"):
            far_rows.check_pairs(backend, folder, "u8")
        if file in (None, "add_rem_add"):
            far_rows.check_climbs(backend, folder, "u8")
        if file not in ("coassociation", "add_rem_add"):
            for n_clusters in (3, 150) if file == "count" else (3,):
                far_rows.check_rows(backend, folder, "u8", n_clusters, row_tables=(0,))


def noticed(folder, file=None, harms=False):
    """Run the checks of a file from the cheapest on; return what noticed the bug."""
    checks = {"check mode": lambda: wrong_by_matrix("check", file)}
    if not harms:
        checks = {
            "far away": lambda: wrong_far_away(file, folder),
            "a wrong result": lambda: wrong_by_matrix("fast", file),
            **checks,
            "bank conflicts": wrong_by_conflicts,
        }
    if file == "add_rem_add":
        checks = {"far away": checks["far away"]}
    if file in (None, "add_rem_add"):
        checks |= {
            "a wrong climb": lambda: wrong_by_climbs("fast"),
            "climbs in check mode": lambda: wrong_by_climbs("check"),
        }
    for name, check in checks.items():
        try:
            check()
        except Exception as error:
            return f"{name}: {error}"
    return ""


def test_without_a_bug_nothing_is_noticed(tmp_path):
    assert noticed(tmp_path) == ""


def check_noticed(mutant, monkeypatch, folder):
    monkeypatch.setattr(cuda_compile, "source", mutate(mutant))
    how = noticed(folder, mutant.file, mutant.harms)
    assert how
    assert "failed to compile" not in how  # which no test would be needed for


@pytest.mark.parametrize(
    "mutant", [bug for bug in MUTANTS if id_of(bug) in EVERY_RUN], ids=id_of
)
def test_some_bugs_are_noticed(mutant, monkeypatch, tmp_path):
    check_noticed(mutant, monkeypatch, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=id_of)
def test_every_bug_is_noticed(mutant, monkeypatch, tmp_path):
    check_noticed(mutant, monkeypatch, tmp_path)


def test_the_list_is_as_the_readme_says():
    names = [id_of(mutant) for mutant in MUTANTS]
    assert len(set(names)) == len(names)
    assert set(names) > EVERY_RUN
    text = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    readme = " ".join(text.split())
    assert f"finds each of {len(MUTANTS)} bugs put in on purpose" in readme
