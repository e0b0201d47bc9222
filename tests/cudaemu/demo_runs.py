"""Demonstration kernels against NumPy, and bugs put into them.

The emulator's own test set; ``python -m cudaemu.demo_runs asan [bug]`` runs it in a
mode, which is how the tests reach asan mode.
"""

import dataclasses
import sys
import types
from pathlib import Path

import numpy as np

from cudaemu.config import ORDERS, configured
from cudaemu.errors import KernelFault
from cudaemu.fakecupy import make_cupy

FOLDER = Path(__file__).parent / "demos"
RNG = np.random.default_rng(0)
# lengths that no block size divides
VALUES = RNG.random(1003, dtype=np.float32)
LABELS = RNG.integers(77, size=3001, dtype=np.uint8)
CODES = RNG.integers(4, size=(21, 37), dtype=np.uint8)


def read(name: str) -> str:
    return (FOLDER / f"{name}.cu").read_text()


def run_reduce(cupy: types.ModuleType, code: str) -> bool:
    module = cupy.RawModule(code=code, options=("-std=c++17",))
    right = True
    for name, dtype, threads in (("float", "f4", 256), ("double", "f8", 64)):
        values = VALUES.astype(dtype)
        total = cupy.zeros(1, dtype)
        kernel = module.get_function(f"reduce_{name}")
        args = (cupy.asarray(values), total, np.int32(len(values)))
        kernel((3,), (threads,), args)
        right &= bool(np.isclose(total.get()[0], VALUES.sum(dtype="f8"), rtol=1e-5))
    return right


def run_histogram(cupy: types.ModuleType, code: str) -> bool:
    counts = cupy.zeros(77, np.uint32)
    kernel = cupy.RawModule(code=code).get_function("histogram")
    args = (cupy.asarray(LABELS), counts, np.int32(77), np.int64(len(LABELS)))
    kernel((3,), (128,), args, shared_mem=77 * 4)
    return np.array_equal(counts.get(), np.bincount(LABELS, minlength=77))


def run_coassociation(cupy: types.ModuleType, code: str) -> bool:
    n_partitions, n = CODES.shape
    same = cupy.empty((n, n), np.int32)
    kernel = cupy.RawModule(code=code).get_function("coassociation")
    args = (cupy.asarray(CODES), same, np.int32(n_partitions), np.int32(n))
    kernel((-(-n // 16), -(-n // 16)), (16, 16), args)
    return np.array_equal(same.get(), (CODES[:, :, None] == CODES[:, None]).sum(0))


def run_compact(cupy: types.ModuleType, code: str) -> bool:
    n = len(VALUES)
    kept, n_kept = cupy.empty(n, np.int32), cupy.zeros(1, np.int32)
    threshold, expected = np.float32(0.9), np.flatnonzero(VALUES > 0.9)
    kernel = cupy.RawModule(code=code).get_function("compact")
    args = (cupy.asarray(VALUES), threshold, kept, n_kept, np.int32(n))
    kernel((-(-n // 256),), (256,), args)
    found = np.sort(kept.get()[: n_kept.get()[0]])
    return np.array_equal(found, expected)


def run_last_block(cupy: types.ModuleType, code: str) -> bool:
    total = cupy.empty(1, np.float32)
    partial, n_done = cupy.empty(5, np.float32), cupy.zeros(1, np.uint32)
    kernel = cupy.RawModule(code=code).get_function("last_block")
    args = (cupy.asarray(VALUES), partial, n_done, total, np.int32(len(VALUES)))
    kernel((5,), (128,), args)
    return bool(np.isclose(total.get()[0], VALUES.sum(), rtol=1e-5))


def run_warp_tree(cupy: types.ModuleType, code: str) -> bool:
    sums = cupy.empty(8, np.float32)
    kernel = cupy.RawModule(code=code).get_function("warp_tree")
    kernel((4,), (64,), (cupy.asarray(VALUES[:256]), sums))
    return np.allclose(sums.get(), VALUES[:256].reshape(8, 32).sum(1))


def run_gather(cupy: types.ModuleType, code: str) -> bool:
    n_partitions, n, n_labels = 3, 70, 32
    table = RNG.random((n_partitions, n_labels, 32), dtype=np.float32)
    # a view of a wider array, as the backend passes a range of objects
    wide = cupy.asarray(
        RNG.integers(n_labels, size=(n_partitions, 100), dtype=np.uint8)
    )
    labels = wide[:, 20 : 20 + n]
    expected = np.zeros((n, 32), np.float32)
    for i, row in enumerate(labels.get()):
        expected += table[i, row]
    right = True
    for name in ("gather_swizzled", "gather_plain"):
        kernel = cupy.RawModule(code=code).get_function(name)
        scores = cupy.empty((n, 32), np.float32)
        sizes = np.int32(n_labels), np.int32(n_partitions), np.int32(n)
        args = (labels, cupy.asarray(table), scores, *sizes, np.int64(100))
        kernel((2,), (64,), args, shared_mem=n_labels * 128)
        right &= np.array_equal(scores.get(), expected)
    return right


DEMOS = {
    "reduce": run_reduce,
    "histogram": run_histogram,
    "coassociation": run_coassociation,
    "compact": run_compact,
    "last_block": run_last_block,
    "warp_tree": run_warp_tree,
    "gather": run_gather,
}


@dataclasses.dataclass(frozen=True)
class Bug:
    """A change to a demonstration kernel, and what each mode must say of it.

    ``found`` gives, by mode, the kind of the fault, "wrong" for a wrong result, or for
    asan mode a part of the sanitizer's message.
    """

    name: str
    demo: str
    old: str
    new: str
    found: dict[str, str]
    nth: int = 0  # which occurrence of ``old`` changes

    def code(self) -> str:
        parts = read(self.demo).split(self.old)
        assert len(parts) > self.nth + 1, f"{self.name}: {self.old!r} is not there"
        head, tail = parts[: self.nth + 1], parts[self.nth + 1 :]
        return self.old.join(head) + self.new + self.old.join(tail)


SYNC = "__syncthreads();"
OVERFLOW = "AddressSanitizer: heap-buffer-overflow"
BUGS = [
    Bug("missing barrier", "reduce", SYNC, "", {"check": "race"}),
    Bug("missing second barrier", "coassociation", SYNC, "", {"check": "race"}, nth=1),
    Bug(
        "tail guard", "reduce", "i < n;", "i <= n;",
        {"check": "bounds", "asan": OVERFLOW},
    ),
    Bug(
        "tail guard of a store", "coassociation", "row < n && column < n", "row < n",
        {"check": "bounds", "asan": OVERFLOW},
    ),
    Bug(
        "static shared too small", "reduce", "partial[THREADS / 32];",
        "partial[THREADS / 32 - 1];", {"asan": "index 7 out of bounds"},
    ),
    Bug(
        "dynamic shared overrun", "histogram", "j < n_labels", "j <= n_labels",
        {"check": "bounds", "asan": OVERFLOW},
    ),
    Bug(
        "early return", "coassociation", "int count = 0;",
        "int count = 0; if (column >= n) return;",
        {"fast": "barrier", "check": "barrier"},
    ),
    Bug(
        "divergent barriers", "reduce", SYNC,
        "if (threadIdx.x < 32) __syncthreads(); else __syncthreads();",
        {"fast": "barrier"},
    ),
    Bug(
        "mask names lanes that returned", "compact", "const bool keep = l < n &&",
        "if (l >= n) return; const bool keep =", {"fast": "mask"},
    ),
    Bug(
        "full mask in a branch", "reduce", "threadIdx.x < 32)",
        "threadIdx.x < THREADS / 32)", {"fast": "deadlock"},
    ),
    Bug(
        "shuffle from outside the mask", "compact",
        "__shfl_sync(0xffffffffu, first, 0)",
        "lane < 16 ? __shfl_sync(0x0000ffffu, first, 0)"
        " : __shfl_sync(0xffff0000u, first, 0)", {"fast": "mask"},
    ),
    Bug(
        "non-atomic shared update", "histogram", "atomicAdd(&mine[labels[l]], 1u)",
        "mine[labels[l]] += 1u", {"check": "race"},
    ),
    Bug(
        "non-atomic global update", "reduce", "atomicAdd(total, sum)", "*total += sum",
        {"check": "race"},
    ),
    Bug(
        "shared memory not cleared", "histogram", "mine[j] = 0;", ";",
        {"fast": "wrong", "check": "unwritten"},
    ),
    Bug(
        "uninitialised local", "reduce", "T mine = T(0);", "T mine;", {"fast": "wrong"}
    ),
    Bug("missing syncwarp", "warp_tree", "__syncwarp();", "", {"check": "race"}, nth=1),
    Bug(
        "no fence", "last_block", "__threadfence();", "", {"check": "race"},
    ),
    Bug(
        "fence after the atomic", "last_block",
        "__threadfence();\n        last = atomicAdd(n_done, 1u) == gridDim.x - 1;",
        "last = atomicAdd(n_done, 1u) == gridDim.x - 1; __threadfence();",
        {"check": "race"},
    ),
    Bug(
        "misaligned vector load", "gather", "table + (long long)i * n_labels * 8 + q",
        "(const float4*)((const float*)table + 1) + q",
        {"check": "misaligned", "asan": "misaligned address"},
    ),
    Bug(
        "signed overflow", "gather", "labels[i * row_stride + l]",
        "labels[(int)(i * row_stride + l) * 65536 * 65536]",
        {"asan": "signed integer overflow"},
    ),
    Bug("lost index", "gather", "sums[s].w, v.w", "sums[s].w, v.z", {"fast": "wrong"}),
    Bug(
        "endless loop", "reduce", "i += gridDim.x * THREADS", "i += 0",
        {"fast": "timeout"},
    ),
    Bug(
        "wild pointer", "compact", "values[l]", "values[l + (1ll << 40)]",
        {"fast": "fault", "check": "bounds", "asan": "AddressSanitizer: SEGV"},
    ),
    Bug(
        "too much static shared memory", "last_block", "float sums[128]",
        "float sums[16384]", {"fast": "shared"},
    ),
]  # fmt: skip  # what is replaced stands beside what replaces it


def find(demo: str, code: str, mode: str) -> set[str]:
    """Run a demonstration in every order; return the kinds of faults that showed."""
    cupy = make_cupy()
    found = set()
    for order in ORDERS:
        try:
            with configured(mode=mode, order=order, timeout=0.5):
                if not DEMOS[demo](cupy, code):
                    found.add("wrong")
        except KernelFault as fault:
            found.add(fault.kind)
    return found


def main(mode: str, name: str = "") -> None:
    """Run one bug, or all kernels as they are."""
    cases = [(bug.demo, bug.code()) for bug in BUGS if bug.name == name]
    for demo, code in cases or [(demo, read(demo)) for demo in DEMOS]:
        kinds = find(demo, code, mode)
        sys.stdout.write(f"{demo}: {sorted(kinds) or 'clean'}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
