"""The launches of the package's own backend, recorded and not run.

The backend runs on the emulator's stand-in for CuPy, on a device with the limits of an
architecture, and gets a note-taker in place of each compiled kernel. So shapes are
those that a user's device would see, however the backend finds them.
"""

import functools
import math
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from cudaemu import DeviceSpec, installed, make_cupy

from gpu_consensus.backends.cupy import backend as cupy_backend
from gpu_consensus.backends.cupy import launcher as cuda_launcher
from gpu_consensus.backends.cupy.source import Kernel
from gpu_consensus.backends.numpy import smallest_unsigned
from gpu_consensus.backends.recipe import TableRecipe
from gpu_consensus.methods import climbs
from nvrtc.architectures import Architecture


class Problem(NamedTuple):
    """Sizes that decide how kernels are launched."""

    n_labels: int  # of every partition, K_i
    n_restarts: int = 10
    n_clusters: int = 10
    n_partitions: int = 100

    @property
    def n_columns(self) -> int:
        return self.n_restarts * self.n_clusters


# What the README shows, and what the gate adds: one label, one cluster, every type of
# codes and clusters, histograms and partitions that fit nowhere.
TYPICAL = tuple(
    Problem(labels, restarts) for labels in (10, 100) for restarts in (10, 1)
)
EXTREME = (
    Problem(1, 1, 1, 1),
    Problem(2, 1, 16, 7),
    Problem(8, 1, 17, 7),
    Problem(8, 1, 300, 3),
    Problem(32, 3, 33),
    Problem(255, 2, 130, 5),
    Problem(300, 1, 300, 5),
    Problem(2, 1, 70_000, 2),
    Problem(60_000, 1, 3, 2),
)


class Launch(NamedTuple):
    """One launch: the form of the kernel, its grid, and the size of a block."""

    kernel: Kernel
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int  # dynamic, bytes
    allowed: int  # what the kernel was set to allow; 48 KiB by default

    @property
    def threads(self) -> int:
        return math.prod(self.block)


class _NoteTaker:
    """Stands for a compiled kernel."""

    def __init__(self, kernel: Kernel, launches: list[Launch]) -> None:
        self.kernel = kernel
        self.launches = launches
        self.max_dynamic_shared_size_bytes = 48 << 10

    def __call__(
        self, grid: tuple[int, ...], block: tuple[int, ...], args: Any, shared_mem: int
    ) -> None:
        allowed = int(self.max_dynamic_shared_size_bytes)
        self.launches.append(
            Launch(self.kernel, tuple(grid), tuple(block), int(shared_mem), allowed)
        )


@functools.cache
def record(
    architecture: Architecture,
    problem: Problem,
    code: type,
    n_samples: int = 32,  # no size of a block depends on it
    multiprocessors: int = 108,
) -> tuple[Launch, ...]:
    """Return the distinct launches of every primitive, in the backend's order."""
    device = DeviceSpec(
        name=architecture.device,
        compute_capability=divmod(architecture.number, 10),
        multiprocessors=multiprocessors,
        shared_memory_optin=architecture.shared_limit,
        shared_memory_per_multiprocessor=architecture.shared,
    )
    launches: list[Launch] = []
    with (
        installed(make_cupy((device,))) as cupy,
        mock.patch.object(
            cuda_launcher, "compiled", lambda kernel, _: _NoteTaker(kernel, launches)
        ),
    ):
        _every_primitive(cupy_backend.CupyBackend(), cupy, problem, code, n_samples)
    return tuple(dict.fromkeys(launches))


def _every_primitive(
    backend: Any, cupy: Any, problem: Problem, code: type, n_samples: int
) -> None:
    labels, restarts, clusters, partitions = problem
    offsets = np.arange(partitions + 1) * (labels + 1)
    codes = cupy.zeros((partitions, n_samples), code)
    assignment = cupy.zeros((restarts, n_samples), smallest_unsigned(clusters))
    counts = cupy.zeros((int(offsets[-1]), restarts, clusters), np.int64)
    absent = cupy.zeros((partitions, restarts, clusters), np.int64)
    weight = cupy.zeros(n_samples, np.int64)
    for before in (None, assignment):
        backend.count(codes, offsets, before, assignment, counts, weight, absent)
    for utility in ("C", "H", "H_SMOOTH", "COS", "LP", "IVC", "IPVC", "SEC"):
        recipe = TableRecipe(
            utility,
            offsets,
            np.ones(offsets[-1], np.int64),
            np.ones(partitions),
            power=5 if utility == "LP" else 0,
            present_weight=np.ones(partitions, np.int64) if utility == "SEC" else None,
            row="labels" if utility == "SEC" else None,
        )
        backend.table(recipe, counts)
    table = cupy.zeros(counts.shape, np.float32)
    weight = cupy.full(n_samples, 1, np.float32)
    backend.assign(codes, offsets, table)
    backend.assign(codes, offsets, table, own=assignment, stay=table)
    for row_table in (table[0], table):
        backend.assign(codes, offsets, table, row_weight=weight, row_table=row_table)
    backend.scores(codes, offsets, table.astype(np.float64))
    shares = cupy.full((n_samples, restarts, clusters), 1.0)
    backend.soft_count(codes, offsets, shares)
    objects = np.arange(n_samples)
    k_i = np.full(partitions, labels)
    backend.pairs(codes, k_i, objects, objects)
    for similarity in (None, cupy.zeros((n_samples, n_samples), code)):
        # no kernel runs, so that nothing says who joined whom
        with mock.patch.object(climbs, "resolve"):
            climbs.climb_all(codes, k_i, objects, (0, 1), similarity)
