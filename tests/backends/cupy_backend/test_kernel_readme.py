"""Numbers that ``cuda_kernels/README.md`` states by hand, against the launches."""

import re

import numpy as np
import pytest
from nvrtc import ARCHITECTURES, Problem, record
from nvrtc.readme import SECTION
from readme_tables import PATH, stored

from gpu_consensus.backends.cupy.launch_plan import plan_count

N, FEW, MANY = 5000, 2, 108  # objects, and multiprocessors of two devices
PROBLEM = Problem(10)
OFFSETS = np.arange(PROBLEM.n_partitions + 1) * (PROBLEM.n_labels + 1)
HEADING = "| kernel | a block owns |"
# shared bytes, block, grid: all numbers of these cells, in their order
NUMBERS = {
    "count": ([4, 48, 12_292], [256], [16_384, 8, 2048, 8, 65_535]),
    "tiles": ([0], [256], [256]),
    "assign": ([128, 32, 16], [512, 256, 32, 384, 32], [2]),
    "own_scores": ([0], [256], [256, 4, 65_535]),
    "scores": ([0], [32, 8], [8]),
    "soft_count": ([256, 48], [32, 8], [256, 32, 65_535]),
    "weigh": ([0], [256], [256]),
    "coassociation": ([8448, 32, 32, 32], [32, 32], []),
    "add_rem_add": ([132, 1156, 256], [256], [16]),
    "table_sums": ([0], [256], [256]),
    "table_norm": ([0], [32], [32]),
    "table": ([0], [256], [256]),
}


def rows():
    """The cells of the table of owners, by kernel."""
    _, _, body = PATH.read_text(encoding="utf-8").partition(HEADING)
    lines = body.partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {re.match(r"`(\w+)`", row[0])[1]: row for row in cells}


def launches(multiprocessors, problem=PROBLEM):
    """The launches of each kernel for N objects."""
    found = {}
    for launch in record(ARCHITECTURES[80], problem, np.uint8, N, multiprocessors):
        found.setdefault(launch.kernel.name, []).append(launch)
    return found


def blocks(work, per_block, multiprocessors):
    return min(-(-work // per_block), 32 * multiprocessors)


def test_every_number_of_the_table_is_checked():
    assert rows().keys() == NUMBERS.keys() == launches(MANY).keys()
    for name, row in rows().items():
        for cell, numbers in zip(row[3:], NUMBERS[name], strict=True):
            words = re.sub(r"[A-Z_]+=\d", "", cell)
            stated = [int(n.replace(",", "")) for n in re.findall(r"\d[\d,]*", words)]
            assert stated == numbers, (name, cell)
    assert "capped at 32 blocks per multiprocessor" in PATH.read_text(encoding="utf-8")


@pytest.mark.parametrize("multiprocessors", [FEW, MANY])
def test_blocks_and_grids_are_as_stated(multiprocessors):
    found, columns = launches(multiprocessors), PROBLEM.n_columns
    for name, (_, block, _) in NUMBERS.items():
        if name != "assign":
            assert {launch.block for launch in found[name]} == {tuple(block)}, name
    work = {
        "own_scores": (N, 256),
        "scores": (N, 8),
        "soft_count": (N, 256),
        "weigh": (N, 256),
        "table_sums": (PROBLEM.n_partitions * columns, 256),
        "table_norm": (columns, 32),
        "table": (OFFSETS[-1] * columns, 256),
    }
    high = {
        "own_scores": -(-PROBLEM.n_restarts // 4),
        "soft_count": PROBLEM.n_partitions * -(-columns // 32),
    }
    for name, sizes in work.items():
        expected = blocks(*sizes, multiprocessors)
        for launch in found[name]:
            assert launch.grid[0] == expected, name
            assert launch.grid[1:] == ((high[name],) if name in high else ()), name
    fresh, moved = (launch.grid for launch in found["count"])
    assert fresh == (25 * PROBLEM.n_restarts, 1 if multiprocessors == FEW else 3)
    assert moved == (7 * PROBLEM.n_restarts, 1 if multiprocessors == FEW else 3)
    # 100 columns in tiles of 32 and a last one of 16, without and with a row table
    floats = int(OFFSETS[-1]) * (3 * 32 + 16)
    grids = {launch.grid[0] for launch in found["tiles"]}
    assert grids == {blocks(k * floats, 256, multiprocessors) for k in (1, 2)}
    # one block for each tile, and a wave of starts
    assert {launch.grid for launch in found["coassociation"]} == {((-(-N // 32)) ** 2,)}
    waves = {launch.grid for launch in found["add_rem_add"]}
    assert max(waves) == (min(N, 16 * multiprocessors),)


def test_grids_of_many_partitions_end_at_what_cuda_allows():
    for launch in record(ARCHITECTURES[80], Problem(1, 115, 8, 2300), np.uint8):
        if launch.kernel.name == "soft_count":
            assert launch.grid[1] == 65_535


@pytest.mark.parametrize(
    ("n_labels", "n", "moved", "rows", "grid"),
    [
        (10, 10**7, False, 16_368, (250, 611)),
        (10, 10**7, True, 16_368, (70, 611)),
        (100, 10**7, False, 32_272, (250, 310)),  # 4 x 101 x 10 bins
        (10, 10**5, False, 14_288, (250, 7)),
        (10, 1000, False, 1008, (250, 1)),
        (10, 2 * 10**9, False, 30_528, (250, 65_514)),
    ],
)
def test_rows_of_a_block_of_count(n_labels, n, moved, rows, grid):
    offsets = np.arange(101) * (n_labels + 1)
    plan = plan_count(
        offsets, 10, 10, n, moved=moved, shared_free=48 << 10, n_processors=108
    )
    assert (plan.rows, plan.grid) == (rows, grid)
    assert plan.shared <= 48 << 10
    assert plan.rows * plan.grid[1] >= n


def test_shapes_of_assign_are_as_stated():
    (first, *_) = launches(FEW, Problem(1, 1, 10, 1))["assign"]
    assert first.grid == (min(-(-N // first.threads), 2 * FEW),)
    # four tiles of 30, 30, 30 and 10 columns
    grids = {launch.grid for launch in launches(MANY)["assign"] if launch.shared}
    assert grids == {(4 * min(-(-N // n), MANY // 4),) for n in (512, 256)}
    threads = set()
    for where in ARCHITECTURES.values():
        for problem in (Problem(10), Problem(10, 1), Problem(100), Problem(100, 1)):
            for launch in record(where, problem, np.uint8):
                if launch.kernel.name != "assign":
                    continue
                form = dict(launch.kernel.defines)
                columns = 4 * form["CHUNKS"]
                assert columns == (16 if problem.n_columns <= 16 else 32)
                assert launch.shared % 128 == 0
                assert launch.shared <= where.shared_limit
                two = form["ROWS"] == 2
                assert launch.threads == (
                    256
                    if form["ROW_TABLE"] == 2 and columns == 32
                    else 384
                    if two and columns == 32
                    else 512
                )
                threads.add(launch.threads)
    assert threads == {256, 384, 512}


def test_shared_bytes_are_as_stated():
    found, labels = launches(MANY), PROBLEM.n_labels + 1
    assert {x.shared for x in found["soft_count"]} == {256 * labels}
    fresh, moved = (launch.shared for launch in found["count"])
    assert fresh == 4 * 4 * labels * PROBLEM.n_clusters
    assert moved == 4 * 16 * labels * PROBLEM.n_clusters + 12_292
    large = launches(MANY, Problem(255, 1, 50, 2))
    for name in ("count", "soft_count"):
        assert max(launch.shared for launch in large[name]) <= 48 << 10
    for name in found.keys() - {"assign", "count", "soft_count"}:
        assert {launch.shared for launch in found[name]} == {0}, name
    # what is declared in the text, by the compiler's report
    static = {
        name: {int(n) for n in re.findall(rf"`{name}` .*? (\d+) B \|", stored(SECTION))}
        for name in NUMBERS
    }
    assert static.pop("coassociation") == {8448}
    assert static.pop("add_rem_add") == {132, 1156}
    assert set().union(*static.values()) == {0}
