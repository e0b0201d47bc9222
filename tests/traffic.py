"""Memory traffic of ``assign``, counted in check mode, beside the ideal.

From the root of a checkout, ``PYTHONPATH=tests python -m traffic`` prints the table,
and with ``--write`` puts it into ``cuda_kernels/README.md``. It needs g++ and no GPU.
"""

import argparse
import itertools
import sys
from typing import NamedTuple

import cudaemu
import numpy as np
from readme_tables import PATH, table, write

from gpu_consensus.backends import choose_backend
from gpu_consensus.backends.cupy.compile import compiled
from gpu_consensus.backends.cupy.launch_plan import plan_assign

COMMAND = "PYTHONPATH=tests python -m traffic --write"
SECTION = "traffic"
RESIDENT, TILED = 160 << 10, 20 << 10  # shared memory of a block
N_PARTITIONS = 10


class Shape(NamedTuple):
    """One launch shape of ``assign``."""

    code: str
    n_restarts: int
    n_clusters: int
    row_table: int
    shared_limit: int
    n_labels: int = 33
    filled: float = 1.0  # how much of a block's rows there is
    own: bool = False  # with what staying costs

    @property
    def offsets(self):
        return np.arange(N_PARTITIONS + 1) * (self.n_labels + 1)

    @property
    def n_columns(self):
        return self.n_restarts * self.n_clusters

    @property
    def plan(self):
        return plan_assign(
            self.offsets,
            self.n_restarts,
            self.n_clusters,
            shared_limit=self.shared_limit,
            row_table=self.row_table,
            code=self.code,
            own=self.own,
        )

    @property
    def resident(self):
        return len(self.plan.pieces) == 1

    @property
    def n_samples(self):
        return int(self.filled * self.plan.threads * self.plan.rows)


class Traffic(NamedTuple):
    """What a launch, or all launches of a shape, did."""

    shared_bytes: float  # read from the table, per (row, partition, cluster)
    shared_loads: float  # of 16 bytes, per (row, partition, cluster)
    label_bytes: float  # per (row, partition)
    wavefronts: float  # per phase; 1 without bank conflicts


def shapes(code):
    """Every launch shape: resident and tiled, a partition cut by its labels."""
    for place, row_table in itertools.product((RESIDENT, TILED), (0, 1, 2)):
        for size in ((1, 16), (1, 32), (1, 10), (10, 10)):
            yield Shape(code, *size, row_table, place)
        yield Shape(code, 1, 100, row_table, place)
    for row_table, n_clusters in itertools.product((0, 1, 2), (16, 32)):
        yield Shape(code, 1, n_clusters, row_table, TILED, n_labels=255)
    yield Shape(code, 1, 32, 0, TILED, filled=2 / 3)
    for place, size in itertools.product((RESIDENT, TILED), ((1, 16), (10, 10))):
        yield Shape(code, *size, 0, place, own=True)


def measure(shape):
    """Run ``assign`` in check mode and count."""
    rng = np.random.default_rng(0)
    n, lines = shape.n_samples, int(shape.offsets[-1])
    kind = np.uint8 if shape.code == "u8" else np.uint16
    codes = rng.integers(shape.n_labels, size=(N_PARTITIONS, n)).astype(kind)
    size = (lines, shape.n_restarts, shape.n_clusters)
    table = rng.random(size, dtype=np.float32)
    row_table = (None, table[0], table)[shape.row_table]
    device = cudaemu.DeviceSpec(
        multiprocessors=1,
        shared_memory_optin=shape.shared_limit,
        shared_memory_per_multiprocessor=shape.shared_limit + 1024,
    )
    compiled.cache_clear()
    with (
        cudaemu.installed(cudaemu.make_cupy((device,))),
        cudaemu.configured(mode="check"),
        cudaemu.recording() as reports,
    ):
        backend = choose_backend("cupy", None)
        there, own = backend.to_device(table), None
        if shape.own:
            own = backend.xp.zeros((shape.n_restarts, n), np.uint8)
        backend.assign(
            backend.resident(codes),
            shape.offsets,
            there,
            row_weight=backend.to_device(np.ones(n, np.float32)),
            row_table=None if row_table is None else backend.to_device(row_table),
            own=own,
            stay=there if shape.own else None,
        )
    compiled.cache_clear()
    return traffic_of([one for one in reports if one.kernel == "assign"], shape)


def inner_loop(report):
    """The float4 reads of the staged table."""
    return report.total(space="shared", operation="load", width=16)


def traffic_of(reports, shape):
    """Add up the launches of one call."""
    loads = [inner_loop(report) for report in reports]
    width = 1 if shape.code == "u8" else 2
    labels = sum(
        report.total(space="global", operation="load", width=width)["bytes"]
        for report in reports
    )
    pairs = shape.n_samples * N_PARTITIONS
    return Traffic(
        sum(load["bytes"] for load in loads) / (pairs * shape.n_columns),
        sum(load["accesses"] for load in loads) / (pairs * shape.n_columns),
        labels / pairs,
        max(load["wavefronts"] / load["phases"] for load in loads),
    )


def expected(shape):
    """What the kernel is meant to do, and why that is more than the ideal.

    Returns bytes of shared memory per (row, partition, cluster), bytes of labels per
    (row, partition), and the reasons.
    """
    plan, reasons = shape.plan, []
    columns = shape.n_columns
    widths = np.diff([*range(0, columns, plan.step), columns])
    width = int(np.where(widths > 16, 32, 16).sum())
    shared, labels = 4.0 * width / columns, 1 if shape.code == "u8" else 2
    if width > columns:
        reasons.append(f"{width} columns read for {columns}")
    if len(widths) > 1:
        labels *= len(widths)
        reasons.append(f"labels read for each of {len(widths)} tiles, from the cache")
    if shape.row_table == 2:
        shared *= 2
        reasons.append("two tables")
    visits = (plan.pieces[:, 1] - plan.pieces[:, 0]).sum() / N_PARTITIONS
    if visits > 1:
        shared, labels = shared * visits, labels * visits
        reasons.append(f"each of {visits:g} pieces of a partition read, or zeros")
    if shape.filled < 1:
        shared, labels = shared / shape.filled, labels / shape.filled
        reasons.append(f"a block {shape.filled:.0%} full repeats its last row")
    return shared, labels, "; ".join(reasons)


def measure_all():
    """Measure every shape, with both types of codes."""
    return {shape: measure(shape) for code in ("u8", "u16") for shape in shapes(code)}


def render(measured):
    """Return the generated text."""
    header = [
        "ROWS, ROW_TABLE, table",
        "columns",
        "shared bytes",
        "16-byte loads",
        "label bytes, u8",
        "label bytes, u16",
        "wavefronts per phase",
        "why not ideal",
    ]
    rows = [["*ideal*", "", "4", "0.25", "1", "2", "1", ""]]
    for shape in shapes("u8"):
        narrow, wide = measured[shape], measured[shape._replace(code="u16")]
        numbers = (*narrow[:3], wide[2], max(narrow[3], wide[3]))
        texts = [f"{number:.3g}" for number in numbers]
        rows.append([_name(shape), _columns(shape), *texts, expected(shape)[2]])
    return f"\n{table(header, rows)}\n\n"


def _name(shape):
    cut = shape.plan.pieces[0, 3] <= shape.n_labels
    where = "cut by labels" if cut else "resident" if shape.resident else "tiled"
    return f"{shape.plan.rows}, {shape.row_table}, {'own, ' * shape.own}{where}"


def _columns(shape):
    if shape.n_restarts == 1:
        return str(shape.n_columns)
    return f"{shape.n_restarts} restarts of {shape.n_clusters}"


def main():
    parser = argparse.ArgumentParser(prog="traffic", description=__doc__)
    parser.add_argument(
        "--write", action="store_true", help=f"put the table into {PATH.name}"
    )
    arguments = parser.parse_args()
    reason = cudaemu.why_no_compiler()
    if reason:
        sys.exit(f"cannot emulate CUDA kernels: {reason}.")
    body = render(measure_all())
    if arguments.write:
        write(SECTION, body)
    else:
        sys.stdout.write(body)


if __name__ == "__main__":
    main()
