"""The emulator itself: right results, every kind of bug found, traffic as computed."""

import ast
import concurrent.futures
import gc
import importlib
import importlib.util
import math
import shutil
import sys
from pathlib import Path

import cudaemu
import numpy as np
import pytest
from cudaemu import DeviceSpec, KernelFault, configured, installed, make_cupy
from cudaemu.array import METHODS, Flags
from cudaemu.demo_runs import BUGS, DEMOS, find, read
from cudaemu.device import DeviceHandle
from cudaemu.errors import CompileException, CUDADriverError, OutOfMemoryError
from cudaemu.fakecupy import MemoryPool
from cudaemu.raw import Function, RawModule

import gpu_consensus


@pytest.fixture(autouse=True, scope="module")
def _compiler():
    cudaemu.require_compiler()


@pytest.fixture
def cupy():
    return make_cupy()


def compiled(cupy, code, name="k", options=()):
    return cupy.RawModule(code=code, options=options).get_function(name)


def line_of(code, text):
    lines = [i for i, line in enumerate(code.splitlines(), 1) if text in line]
    assert len(lines) == 1
    return lines[0]


def address(array):
    return array.__cuda_array_interface__["data"][0]


# Kernels that are right, and kernels that are not


@pytest.fixture(scope="module")
def asan_runs():
    """Start all runs in asan mode at once, beside the other tests."""
    names = ["", *(bug.name for bug in BUGS if "asan" in bug.found)]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        yield {
            name: pool.submit(cudaemu.run_asan, "-m", "cudaemu.demo_runs", "asan", name)
            for name in names
        }


@pytest.mark.usefixtures("asan_runs")
@pytest.mark.parametrize("mode", ["fast", "check"])
@pytest.mark.parametrize("demo", DEMOS)
def test_right_kernels_give_right_results_and_no_report(demo, mode):
    assert find(demo, read(demo), mode) == set()


@pytest.mark.parametrize("mode", ["fast", "check"])
@pytest.mark.parametrize("demo", ["histogram", "compact", "last_block"])
def test_threads_may_give_way_at_atomics(demo, mode):
    for seed in range(3):
        with configured(preempt=50, seed=seed, poison=0x7B):
            assert find(demo, read(demo), mode) == set()


@pytest.mark.parametrize(
    ("bug", "mode"),
    [(bug, mode) for bug in BUGS for mode in bug.found if mode != "asan"],
    ids=lambda value: getattr(value, "name", value),
)
def test_bug_is_found(bug, mode):
    assert bug.found[mode] in find(bug.demo, bug.code(), mode)


def test_fault_names_the_lines(cupy):
    code = BUGS[0].code()
    with configured(mode="check"), pytest.raises(KernelFault) as caught:
        DEMOS["reduce"](cupy, code)
    store = line_of(code, "partial[threadIdx.x / 32] = mine")
    load = line_of(code, "? partial[threadIdx.x]")
    message = str(caught.value)
    assert message.startswith("race: reduce_float: ")
    assert f"store at kernel.cu:{store} " in message
    assert f"load at kernel.cu:{load} " in message


def test_bytes_of_neighbours_do_not_race_but_shared_bytes_do(cupy):
    code = """extern "C" __global__ void k(unsigned char* bytes, unsigned char* sums) {
        __shared__ unsigned char mine[32];
        mine[threadIdx.x] = bytes[threadIdx.x];
        SYNC
        sums[threadIdx.x] = mine[threadIdx.x] + mine[(threadIdx.x + 1) % 32];
    }"""

    def run(sync):
        kernel = compiled(cupy, code.replace("SYNC", sync))
        host = np.arange(32, dtype=np.uint8)
        kernel((1,), (32,), (cupy.asarray(host), cupy.empty(32, np.uint8)))

    with configured(mode="check"):
        run("__syncwarp();")
        with pytest.raises(KernelFault, match="race: k: "):
            run("")


def test_writes_of_two_blocks_to_one_place_race(cupy):
    code = 'extern "C" __global__ void k(int* out) { out[threadIdx.x] = 1; }'
    kernel = compiled(cupy, code)
    out = cupy.zeros(32, np.int32)
    kernel((2,), (32,), (out,))
    with configured(mode="check"), pytest.raises(KernelFault, match="race"):
        kernel((2,), (32,), (out,))


def test_shared_memory_of_one_block_does_not_reach_the_next(cupy):
    code = """extern "C" __global__ void k(unsigned* out) {
        __shared__ unsigned once;
        if (blockIdx.x == 0 && threadIdx.x == 0) once = 7;
        __syncthreads();
        out[blockIdx.x * 32 + threadIdx.x] = once;
    }"""
    kernel, out = compiled(cupy, code), cupy.empty(64, np.uint32)
    with configured(poison=0x11):
        kernel((2,), (32,), (out,))
    assert set(out.get()[:32]) == {7}
    assert set(out.get()[32:]) == {0x11111111}


def test_assert_trap_and_division_by_zero_end_the_launch(cupy):
    code = """extern "C" __global__ void k(int* out, int n) {
        assert(n != 1);
        if (n == 2) __trap();
        out[0] = 6 / n;
    }"""
    kernel, out = compiled(cupy, code), cupy.zeros(1, np.int32)
    for n, kind in ((1, "assert"), (2, "trap"), (0, "fault")):
        with pytest.raises(KernelFault) as caught:
            kernel((1,), (1,), (out, np.int32(n)))
        assert caught.value.kind == kind
    kernel((1,), (1,), (out, np.int32(3)))
    assert out.get()[0] == 2


def test_collectives_of_a_warp(cupy):
    code = """extern "C" __global__ void k(int* out) {
        const unsigned full = 0xffffffffu;
        const int lane = threadIdx.x;
        out[lane] = __shfl_xor_sync(full, lane, 5);
        out[32 + lane] = __shfl_up_sync(full, lane, 3, 8);
        out[64 + lane] = __shfl_sync(full, lane, 2, 4);
        out[96 + lane] = __match_any_sync(full, lane % 4);
        out[128 + lane] = __reduce_add_sync(full, lane);
        out[160 + lane] = __any_sync(full, lane == 9) + 2 * __all_sync(full, lane < 32);
        out[192 + lane] = __syncthreads_count(lane % 3 == 0);
        if (lane < 8) out[224 + lane] = __ballot_sync(0xffu, lane & 1);
    }"""
    out = cupy.zeros(256, np.int32)
    compiled(cupy, code)((1,), (32,), (out,))
    lane = np.arange(32)
    rows = out.get().reshape(8, 32)
    assert (rows[0] == lane ^ 5).all()
    assert (rows[1] == np.where(lane % 8 < 3, lane, lane - 3)).all()
    assert (rows[2] == lane // 4 * 4 + 2).all()
    assert (rows[3].view(np.uint32) == 0x11111111 << lane % 4).all()
    assert (rows[4] == lane.sum()).all()
    assert (rows[5] == 3).all()
    assert (rows[6] == 11).all()
    assert (rows[7, :8] == 0b10101010).all()


# asan mode


def test_right_kernels_are_clean_under_asan(asan_runs):
    done = asan_runs[""].result()
    assert done.returncode == 0, done.stdout
    # where fibers need ucontext, AddressSanitizer greets with a warning
    lines = [line for line in done.stdout.splitlines() if not line.startswith("==")]
    assert lines == [f"{demo}: clean" for demo in DEMOS]


@pytest.mark.parametrize(
    "bug", [b for b in BUGS if "asan" in b.found], ids=lambda b: b.name
)
def test_asan_finds(bug, asan_runs):
    done = asan_runs[bug.name].result()
    assert done.returncode != 0
    assert bug.found["asan"] in done.stdout
    assert "kernel.cu" in done.stdout


def test_asan_needs_its_own_process(cupy):
    code = 'extern "C" __global__ void k() {}'
    with configured(mode="asan"), pytest.raises(RuntimeError, match="run_asan"):
        compiled(cupy, code)


# Memory traffic, against arithmetic


def strided(cupy, type_name, dtype, stride, offset=0):
    """Run demos/strided.cu with one warp; return global and shared loads."""
    code = read("strided")
    kernel = compiled(cupy, code, f"strided_{type_name}")
    words = {"float2": 2, "float4": 4}.get(type_name, 1)
    values = cupy.zeros(words * (offset + 32 * stride), dtype)
    out = cupy.empty(words * 32, dtype)
    size = words * values.itemsize
    args = (values, out, np.int32(stride), np.int32(offset))
    with configured(mode="check"):
        kernel((1,), (32,), args, shared_mem=32 * max(stride, 1) * size)
    copy = line_of(code, "= in[offset")
    back = line_of(code, "out[lane] =")
    (from_global,) = kernel.report.select(line=copy, space="global")
    (from_shared,) = kernel.report.select(line=back, space="shared")
    assert from_global.width == from_shared.width == size
    assert from_shared.bytes == 32 * size
    return from_global, from_shared


@pytest.mark.parametrize("stride", [1, 2, 3, 4, 8, 32, 33])
@pytest.mark.parametrize(
    ("type_name", "words"), [("float", 1), ("float2", 2), ("float4", 4)]
)
def test_bank_conflicts(cupy, type_name, words, stride):
    # 32 / words lanes to a phase; lane j asks for the banks from j * stride * words on
    _, loads = strided(cupy, type_name, np.float32, stride)
    assert loads.phases == words
    assert loads.wavefronts_per_phase == math.gcd(stride, 32 // words)


def test_bank_conflicts_of_double_and_byte(cupy):
    assert strided(cupy, "double", np.float64, 1)[1].wavefronts_per_phase == 1
    assert strided(cupy, "double", np.float64, 4)[1].wavefronts_per_phase == 4
    _, loads = strided(cupy, "byte", np.uint8, 1)
    assert (loads.phases, loads.wavefronts) == (1, 1)


@pytest.mark.parametrize(
    ("type_name", "dtype", "stride", "offset", "sectors"),
    [
        ("byte", np.uint8, 1, 0, 1),
        ("float", np.float32, 1, 0, 4),
        ("float", np.float32, 1, 1, 5),
        ("float", np.float32, 2, 0, 8),
        ("float", np.float32, 8, 0, 32),
        ("double", np.float64, 1, 0, 8),
        ("float4", np.float32, 1, 0, 16),
    ],
)
def test_sectors(cupy, type_name, dtype, stride, offset, sectors):
    loads, _ = strided(cupy, type_name, dtype, stride, offset)
    assert (loads.requests, loads.sectors_per_request) == (1, sectors)


def test_swizzle_removes_bank_conflicts(cupy):
    n, n_partitions, code = 64, 5, read("gather")
    # all labels of a quarter warp differ: the unswizzled rows meet in the same banks
    host = (np.arange(n) + 3 * np.arange(n_partitions)[:, None]) % 32
    labels = cupy.asarray(host.astype(np.uint8))
    table = cupy.zeros((n_partitions, 32, 32), np.float32)
    sizes = (np.int32(32), np.int32(n_partitions), np.int32(n), np.int64(n))
    inner = line_of(code, "const float4 v = rows")
    for name, wavefronts in (("gather_swizzled", 1.0), ("gather_plain", 8.0)):
        kernel = compiled(cupy, code, name)
        args = (labels, table, cupy.empty((n, 32), np.float32), *sizes)
        with configured(mode="check"):
            kernel((1,), (n,), args, shared_mem=32 * 128)
        (loads,) = kernel.report.select(line=inner)
        assert (loads.space, loads.operation, loads.width) == ("shared", "load", 16)
        assert loads.wavefronts_per_phase == wavefronts
        # 4 bytes per (row, partition, cluster), 1 byte of label per (row, partition)
        assert loads.bytes == 4 * n * n_partitions * 32
        read_labels = kernel.report.total(space="global", operation="load", width=1)
        assert read_labels["bytes"] == n * n_partitions
        stores = kernel.report.total(space="shared", operation="store")
        assert stores["wavefronts"] == stores["phases"]


def test_recording_collects_every_launch(cupy):
    with cudaemu.recording() as reports, configured(mode="check"):
        DEMOS["reduce"](cupy, read("reduce"))
    assert [r.kernel for r in reports] == ["reduce_float", "reduce_double"]
    assert reports[0].grid == (3, 1, 1)
    assert reports[0].bugs == []
    total = reports[0].total(space="global", operation="load")
    assert total["accesses"] == 1003
    assert total["bytes"] == 4012


def test_sites_follow_the_line_directives_of_joined_texts(cupy):
    code = """__device__ const int PRIMES[3] = {2, 3, 5};
#line 100 "body.cu"
extern "C" __global__ void k(int* out) {
    out[threadIdx.x] = PRIMES[threadIdx.x % 3];
}"""
    kernel, out = compiled(cupy, code), cupy.empty(32, np.int32)
    with configured(mode="check"):
        kernel((1,), (32,), (out,))
    (site,) = kernel.report.sites
    assert (site.file, site.line, site.operation) == ("body.cu", 101, "store")
    assert out.get()[:4].tolist() == [2, 3, 5, 2]


# What compiles


@pytest.mark.parametrize(
    "body",
    [
        "uint8_t b = 0;",
        "float x = INFINITY;",
        "std::max(1, 2);",
        "long long n = 0; atomicAdd(&n, 1ll);",
        "int n = undefined_name;",
    ],
)
def test_what_nvrtc_lacks_does_not_compile(cupy, body):
    code = f'\nextern "C" __global__ void broken() {{ {body} }}'
    with pytest.raises(CompileException, match=r"kernel\.cu:2"):
        cupy.RawModule(code=code).get_function("broken")


def test_kernels_from_macros_comments_and_templates(cupy):
    code = r"""
    // a comment on __shared__ memory; and extern "C" __global__ void none() {}
    /* __shared__ int x */
    #ifdef __CUDACC__
    #define K(NAME, VALUE)                                                       \
        extern "C" __global__ void __launch_bounds__(2 * VALUE, 1) NAME(int* o) { \
            const char* s = "__shared__ float"; o[0] = VALUE + (s[0] == '_'); }
    #endif
    K(first, 32) K(second, 64)
    template <int A, int B> __device__ void either(int* o) {
        __shared__ __align__(16) int a[2], b;
        __shared__ union { int i; float f; } u;
        extern __shared__ __align__(16) unsigned char raw[];
        reinterpret_cast<int*>(raw)[0] = B;
        a[1] = A, b = 0, u.i = 1;
        if constexpr (A > 0) o[0] = a[1] + b + u.i + reinterpret_cast<int*>(raw)[0];
    }
    extern "C" __global__ void instance(int* o) { either<5, 20>(o); }
    #if __CUDA_ARCH__ >= 900
    K(new_only, 1)
    #endif
    """
    out = cupy.zeros(1, np.int32)
    module = cupy.RawModule(code=code)
    for mode in ("fast", "check"):
        with configured(mode=mode):
            kernel = module.get_function("first")
            kernel((1,), (1,), (out,))
            assert out.get()[0] == 33
            module.get_function("instance")((1,), (1,), (out,), shared_mem=16)
            assert out.get()[0] == 26
    with pytest.raises(CUDADriverError, match="INVALID_VALUE"):
        kernel((1,), (65,), (out,))
    for missing in ("none", "either", "new_only"):
        with pytest.raises(CUDADriverError, match="NOT_FOUND"):
            module.get_function(missing)
    hopper = make_cupy((DeviceSpec(compute_capability=(9, 0)),))
    hopper.RawModule(code=code).get_function("new_only")


def test_options(cupy):
    code = 'extern "C" __global__ void k(int* o) { o[0] = VALUE; }'
    out = cupy.zeros(1, np.int32)
    options = ("-DVALUE=3", "-std=c++17", "--fmad=false", "-lineinfo")
    compiled(cupy, code, options=options)((1,), (1,), (out,))
    assert out.get()[0] == 3
    with pytest.raises(CompileException, match="unrecognized option"):
        compiled(cupy, code, options=("--use_fast_math",))
    with pytest.raises(TypeError, match="tuple"):
        compiled(cupy, code, options=["-DVALUE=3"])


def test_arithmetic_is_the_hosts(cupy):
    code = """extern "C" __global__ void k(const float* x, double* d, float* out) {
        const float a = x[0], b = x[1], c = x[2];
        out[0] = a * b + c;
        out[1] = __fadd_rn(__fmul_rn(a, b), c);
        out[2] = __double2float_rn(__ddiv_rn(1.0, __dsqrt_rn(d[0])));
        out[3] = __uint_as_float(__float_as_uint(a) ^ 0x80000000u);
        out[4] = __fmaf_rn(a, b, c);
        out[5] = a * 1e-38f;
        d[0] = __dadd_rn(__dmul_rn(d[0], d[0]), 0.1);
    }"""
    x = np.float32([1 + 2**-12, 1 + 2**-12, -1 - 2**-11])
    d = cupy.asarray(np.float64([3.0]))
    out = cupy.empty(6, np.float32)
    kernel = compiled(cupy, code)
    kernel((1,), (1,), (cupy.asarray(x), d, out))
    twice = x[0] * x[1] + x[2]  # two roundings
    fused = np.float32(np.float64(x[0]) * x[1] + x[2])
    root = np.float32(1 / np.sqrt(3.0))
    assert twice != fused
    assert out.get().tolist() == [twice, twice, root, -x[0], fused, 0.0]
    assert d.get()[0] == 3.0 * 3.0 + 0.1
    with configured(flush_denormals=False):
        kernel((1,), (1,), (cupy.asarray(x), d, out))
    assert out.get()[5] == x[0] * np.float32(1e-38) != 0


def test_same_template_in_two_files_has_its_own_shared_memory(cupy):
    # with GNU unique symbols the smaller array would stand for both
    code = """template <int N> __device__ void fill(int* out) {
        __shared__ int values[SIZE];
        for (int i = threadIdx.x; i < SIZE; i += 32) values[i] = i;
        __syncthreads();
        for (int i = threadIdx.x; i < SIZE; i += 32) out[i] = values[i];
    }
    extern "C" __global__ void k(int* out) { fill<1>(out); }"""
    for size in (4, 4000):
        out = cupy.empty(size, np.int32)
        with configured(mode="check"):
            compiled(cupy, code, options=(f"-DSIZE={size}",))((1,), (32,), (out,))
        assert (out.get() == np.arange(size)).all()


# Launch arguments

SIGNATURE = """extern "C" __global__ void __launch_bounds__(64)
k(const float* x, const float4* v, void* p, int n, long long m, float f, double d) {
    if (x && n == -1) ((float*)p)[0] = x[0] + v[0].w + m + f + d;
}"""


def test_arguments_must_match_the_kernel(cupy):
    kernel = compiled(cupy, SIGNATURE)
    x = cupy.zeros(4, np.float32)
    right = (x, x, x, np.int32(1), np.int64(2), np.float32(3), np.float64(4))
    kernel((1,), (32,), right)
    kernel((1,), (32,), (*right[:4], 2, *right[5:]))  # CuPy passes 8 bytes
    kernel((1,), (32,), (0, np.intp(0), x, *right[3:]))
    wrong = [
        (0, cupy.zeros(4, np.float64), "float64 array"),
        (1, cupy.zeros(4, np.int32), "int32 array"),
        (0, np.float32(1), "pointer"),
        (0, address(x), "pass the array"),
        (0, None, "pointer"),
        (0, np.zeros(4, np.float32), "Unsupported type"),
        (3, np.int64(1), "int64 scalar"),
        (3, np.uint32(1), "uint32 scalar"),
        (3, 1, "Python int"),
        (4, np.int32(1), "int32 scalar"),
        (5, 1.0, "Python float"),
        (5, np.float64(1), "float64 scalar"),
        (6, 1.0, "Python float"),
        (6, x, "array"),
        (6, "4", "Unsupported type"),
    ]
    for position, value, message in wrong:
        args = (*right[:position], value, *right[position + 1 :])
        with pytest.raises(TypeError, match=message):
            kernel((1,), (32,), args)
    with pytest.raises(TypeError, match="takes 7 arguments"):
        kernel((1,), (32,), right[:6])
    with pytest.raises(TypeError, match="grid should be a tuple"):
        kernel(1, (32,), right)


def test_launch_shapes(cupy):
    code = """extern "C" __global__ void __launch_bounds__(64) k(int* out) {
        const int row = blockIdx.y + gridDim.y * blockIdx.z;
        const int block = blockIdx.x + gridDim.x * row;
        out[block * 24 + threadIdx.x + 2 * (threadIdx.y + 3 * threadIdx.z)] = block;
    }"""
    kernel, out = compiled(cupy, code), cupy.empty((2 * 3 * 2, 24), np.int32)
    kernel((2, 3, 2), (2, 3, 4), (out,))
    assert (out.get() == np.arange(12)[:, None]).all()
    kernel((0,), (1,), (out,))  # CuPy launches one block
    for grid, block in (((1,), (128,)), ((1,), (1, 1, 128)), ((1, 65536), (1,))):
        with pytest.raises(CUDADriverError, match="INVALID_VALUE"):
            kernel(grid, block, (out,))


def test_shared_memory_limits(cupy):
    code = """extern "C" __global__ void k(float* out, int n) {
        extern __shared__ float values[];
        values[n - 1] = 5.f;
        out[0] = values[n - 1];
    }"""
    module = cupy.RawModule(code=code)
    kernel, out = module.get_function("k"), cupy.zeros(1, np.float32)
    big = 100 * 1024
    args = (out, np.int32(big // 4))
    with pytest.raises(CUDADriverError, match="max_dynamic_shared_size_bytes"):
        kernel((1,), (1,), args, shared_mem=big)
    with pytest.raises(CUDADriverError, match="at most 166912"):
        kernel.max_dynamic_shared_size_bytes = 166912 + 1
    kernel.max_dynamic_shared_size_bytes = big
    # the driver keeps it with the function
    module.get_function("k")((1,), (1,), args, shared_mem=big)
    assert out.get()[0] == 5


def test_rows_beyond_2_to_the_31():
    code = """extern "C" __global__ void k(unsigned char* x, INDEX begin, INDEX n) {
        const INDEX l = begin + threadIdx.x;
        if (l < n) x[l] = threadIdx.x;
    }"""
    cupy = make_cupy((DeviceSpec(memory=1 << 32),))
    n = 2**31 + 20
    x = cupy.zeros(n, np.uint8)
    for mode in ("fast", "check"):
        with configured(mode=mode):
            kernel = compiled(cupy, code, options=("-DINDEX=long long",))
            kernel((1,), (32,), (x, np.int64(n - 5), np.int64(n)))
        assert x[-6:].get().tolist() == [0, 0, 1, 2, 3, 4]


def test_an_adopted_memmap_is_device_memory(cupy, tmp_path):
    code = 'extern "C" __global__ void k(unsigned char* x) { x[threadIdx.x] += 1; }'
    host = np.memmap(tmp_path / "x", np.uint8, "w+", shape=(2, 3000))
    kernel = compiled(cupy, code)
    with configured(mode="check"):
        kernel((1,), (32,), (cudaemu.adopt(cupy, host[1:, 100:]),))
        with pytest.raises(KernelFault, match="bounds"):
            kernel((1,), (32,), (cudaemu.adopt(cupy, host)[1, -31:],))
    assert host.sum() == 32 + 31
    assert host[1, 100:132].all()


# The stand-in for CuPy


def test_arrays_live_on_the_device(cupy):
    host = np.arange(12, dtype=np.float32).reshape(3, 4)
    array = cupy.asarray(host)
    assert isinstance(array, cupy.ndarray)
    assert not isinstance(array, np.ndarray)
    assert array.device.id == 0
    assert address(array) % 512 == 0
    assert cupy.asarray(array) is array
    assert cupy.asarray(array, np.float64).dtype == np.float64
    with pytest.raises(TypeError, match="Implicit conversion"):
        np.asarray(array)
    for mix in (
        lambda: array + host,
        lambda: host + array,
        lambda: np.add(host, array),
        lambda: cupy.minimum(host, host),
        lambda: cupy.where(array > 0, array, host),
        lambda: array.__setitem__(slice(None), host),
    ):
        with pytest.raises(TypeError, match="Unsupported type"):
            mix()
    array += 1
    assert (array.get() == host + 1).all()
    view = array[:, 1:3]
    assert not view.flags.c_contiguous
    assert address(view) == address(array) + 4
    view[...] = cupy.zeros((3, 2), np.float32)
    assert array.get()[:, 1:3].sum() == 0
    assert cupy.ascontiguousarray(view).flags.c_contiguous
    assert array[1, 0].ndim == 0
    assert float(array[1, 0]) == 5
    assert isinstance(array.sum(), cupy.ndarray)
    assert int(array.sum()) == array.get().sum()
    assert cupy.flatnonzero(array).shape == (6,)
    assert cupy.arange(3, dtype=np.int32).get().tolist() == [0, 1, 2]
    assert cupy.minimum(array, 2).get().max() == 2
    assert array.T.shape == (4, 3)
    assert array.astype(np.int64).dtype == np.int64
    assert (cupy.full(3, 7, np.uint8) == 7).all()
    assert cupy.asnumpy(array).shape == (3, 4)
    assert [float(row[0]) for row in array] == [1, 5, 9]
    with pytest.raises(ValueError, match="Unsupported dtype"):
        cupy.asarray(["a"])


def test_transfers(cupy):
    array = cupy.empty((4, 6), np.uint16)
    assert (array.get() == 0xFFFF).all()
    with configured(poison=0x7B):
        assert (cupy.empty(3, np.uint8).get() == 0x7B).all()
    host = np.arange(24, dtype=np.uint16).reshape(4, 6)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        assert cupy.cuda.get_current_stream() is stream
        array.set(host, stream=stream)
    stream.synchronize()
    assert cupy.cuda.get_current_stream() is not stream
    assert np.array_equal(array.get(), host)
    with pytest.raises(TypeError):
        array.set(host.astype(np.int32))
    with pytest.raises(ValueError):
        array.set(host[:2])
    with pytest.raises(RuntimeError):
        array[:, 1:3].set(host[:, 1:3])
    there = np.empty_like(host)
    assert array.get(out=there) is there
    assert np.array_equal(there, host)
    with pytest.raises(RuntimeError):
        array.get(out=np.empty((6, 4), np.uint16).T)


def test_work_waits_in_its_stream(cupy):
    """Late: a copy is done when somebody waits for it, and not before."""
    side = cupy.cuda.Stream(non_blocking=True)
    pinned = cupy._modules["cupyx"].empty_pinned(4, np.uint8)
    with configured(streams="late"):
        array = cupy.zeros(4, np.uint8)
        cupy.cuda.get_current_stream().synchronize()
        pinned[:] = 1
        array.set(pinned, stream=side)
        arrived = cupy.cuda.Event()
        arrived.record(side)
        pinned[:] = 2  # too early: the copy has not been done
        assert not arrived.done
        assert array.get().tolist() == [0] * 4  # the default stream waits for nobody
        cupy.cuda.get_current_stream().wait_event(arrived)
        assert array.get().tolist() == [2] * 4
        assert arrived.done
        host = np.full(6, 3, np.uint8)
        array.set(host[2:], stream=side)
        host[:] = 4  # too early as well: not pinned, but the copy has only an address
        side.synchronize()
        assert array.get().tolist() == [4] * 4
        array.set(host[:4], stream=side)
        del host
        side.synchronize()
        assert array.get().tolist() == [0xFF] * 4
        unrecorded = cupy.cuda.Event()
        side.wait_event(unrecorded)
        unrecorded.synchronize()
        assert unrecorded.done


@pytest.mark.parametrize("schedule", cudaemu.STREAMS)
def test_events_tell_the_time_between_them(cupy, schedule):
    elapsed, error = cupy.cuda.get_elapsed_time, cupy.cuda.runtime.CUDARuntimeError
    begin, end, mute = (
        cupy.cuda.Event(disable_timing=mute) for mute in (False, False, True)
    )
    with configured(streams=schedule):
        with pytest.raises(error, match="InvalidResourceHandle"):
            elapsed(begin, end)
        array = cupy.zeros(1 << 20, np.uint8)
        begin.record()
        array += 1
        end.record()
        mute.record()
        if schedule == "late":
            with pytest.raises(error, match="NotReady"):
                elapsed(begin, end)
        end.synchronize()
        assert elapsed(begin, end) > 0
        with pytest.raises(error, match="InvalidResourceHandle"):
            elapsed(begin, mute)


def test_blocking_streams_and_the_default_one_wait_for_each_other(cupy):
    with configured(streams="late"):
        array = cupy.zeros(4, np.uint8)
        side = cupy.cuda.Stream()
        host = np.full(4, 3, np.uint8)
        array.set(host, stream=side)
        doubled = array + array
        with side:
            again = doubled + array
            assert again.get().tolist() == [9] * 4


def test_queued_computations_give_what_they_give_at_once(cupy):
    def compute():
        host = np.arange(12, dtype=np.int32).reshape(3, 4)
        array = cupy.asarray(host)
        array[1] = 7
        array[[0, 2], 1:3] = cupy.asarray(np.array([[1, 2], [3, 4]], np.int32))
        picked = array[[2, 0]][:, cupy.asarray(np.array([3, 0]))]
        array += array
        mask = array[array > 6]
        cupy.subtract(array, 1, out=array)
        other = picked.T.astype(np.int64)
        return [a.get() for a in (array, picked, mask, other, array.sum(axis=1))]

    expected = compute()
    for schedule in cudaemu.STREAMS[1:]:
        with configured(streams=schedule):
            found = compute()
        for a, b in zip(found, expected, strict=True):
            assert a.dtype == b.dtype
            assert np.array_equal(a, b)


def test_freed_memory_is_handed_out_again_in_the_order_of_its_stream(cupy):
    with configured(streams="late"):
        array = cupy.asarray(np.ones(100, np.uint8))
        copy = array.copy()
        place = address(array)
        del array
        other = cupy.zeros(100, np.uint8)
        assert address(other) == place  # though the copy is still in the queue
        with cupy.cuda.Stream(non_blocking=True):
            assert address(cupy.empty(100, np.uint8)) != place
        assert copy.get().tolist() == [1] * 100
        pool = cupy.get_default_memory_pool()
        assert pool.free_bytes() == 512
        pool.free_all_blocks()
        assert pool.free_bytes() == 0
    pinned = cupy._modules["cupyx"].empty_pinned(100, np.uint8)
    place = pinned.ctypes.data
    pinned[:] = 1
    del pinned
    pinned = cupy._modules["cupyx"].empty_pinned(100, np.uint8)
    assert pinned.ctypes.data == place
    assert (pinned == 0xFF).all()


def test_a_bug_in_a_queued_kernel_shows_when_it_is_waited_for(cupy):
    code = 'extern "C" __global__ void k(int* out) { out[-9000] = 1; }'
    array = cupy.zeros(3, np.int32)
    with configured(streams="late", mode="check"):
        compiled(cupy, code)((1,), (1,), (array,))
        with pytest.raises(KernelFault):
            array.get()


def test_out_of_memory_and_accounts():
    cupy = make_cupy((DeviceSpec(memory=1 << 20),))
    pool = cupy.get_default_memory_pool()
    first = cupy.empty(1 << 19, np.uint8)
    view = first[10:]
    assert cupy.cuda.Device().mem_info == (1 << 19, 1 << 20)
    with pytest.raises(OutOfMemoryError, match="allocating 524,800"):
        cupy.zeros((1 << 19) + 1, np.uint8)
    del first
    assert pool.used_bytes() == 1 << 19
    del view
    gc.collect()
    pool.free_all_blocks()
    assert pool.used_bytes() == 0
    pool.set_limit(size=1000)
    assert pool.get_limit() == 1000
    with pytest.raises(MemoryError):
        cupy.zeros(1001, np.uint8) + 1


def test_several_devices():
    cupy = make_cupy((DeviceSpec(), DeviceSpec(name="second", multiprocessors=7)))
    assert cupy.cuda.runtime.getDeviceCount() == 2
    with cupy.cuda.Device(1) as device:
        there = cupy.zeros(3, np.int32)
        assert device.attributes["MultiProcessorCount"] == 7
    assert there.device == device
    assert cupy.cuda.runtime.getDeviceProperties(1)["name"] == b"second"
    assert cupy.cuda.Device().id == 0
    code = 'extern "C" __global__ void k(int* out) { out[0] = 1; }'
    with pytest.raises(ValueError, match="array device = 1 while current = 0"):
        compiled(cupy, code)((1,), (1,), (there,))
    with there.device:
        compiled(cupy, code)((1,), (1,), (there,))
    assert there.get()[0] == 1
    here = cupy.asarray(there)
    assert (here.device.id, here.get().tolist()) == (0, [1, 0, 0])
    assert cupy.asarray(here) is here
    assert cupy.ascontiguousarray(there) is there  # asks for the order alone
    apart = cupy.ascontiguousarray(there[::2])
    assert (apart.device.id, apart.get().tolist()) == (0, [1, 0])
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="invalid device"):
        cupy.cuda.Device(2)


def test_three_situations():
    with installed(None):
        assert importlib.util.find_spec("cupy") is None
        with pytest.raises(ImportError):
            importlib.import_module("cupy")
        with pytest.raises(ImportError):
            importlib.import_module("cupyx")
    with installed(make_cupy(())):
        cupy = importlib.import_module("cupy")
        assert importlib.util.find_spec("cupy") is not None
        assert not cupy.cuda.is_available()
        module = cupy.RawModule(code="", options=())  # lazy
        runtime = importlib.import_module("cupy.cuda.runtime")
        assert runtime.driverGetVersion() == 0
        for use in (
            lambda: cupy.zeros(1),
            lambda: module.get_function("k"),
            runtime.getDeviceCount,
            cupy.cuda.Device,
        ):
            with pytest.raises(runtime.CUDARuntimeError, match="cudaErrorNoDevice"):
                use()
    old = DeviceSpec(compute_capability=(6, 1), shared_memory_optin=49152)
    with installed(make_cupy((old,))) as made:
        cupy = importlib.import_module("cupy")
        assert cupy is made
        assert cupy.cuda.is_available()
        assert cupy.cuda.Device(0).compute_capability == "61"
        attributes = cupy.cuda.Device().attributes
        assert attributes["MaxSharedMemoryPerBlockOptin"] == 49152
        assert importlib.import_module("cupyx").empty_pinned(2, np.int8).shape == (2,)
        with pytest.raises(ImportError):
            importlib.import_module("cupyx.scipy")


@pytest.mark.parametrize(
    ("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)]
)
def test_without_a_compiler_tests_skip_and_ci_fails(monkeypatch, ci, outcome):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="not found"):
        cudaemu.require_compiler()


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_elsewhere_than_on_linux_tests_skip_in_ci_too(monkeypatch, system):
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setenv("CI", "true")
    for call in (cudaemu.require_compiler, make_cupy):
        with pytest.raises(pytest.skip.Exception, match=f"this is {system}"):
            call()


def test_settings_are_checked_and_restored():
    with pytest.raises(TypeError, match="unknown settings"), configured(speed=1):
        pass
    with pytest.raises(ValueError, match="mode='slow'"), configured(mode="slow"):
        pass
    with configured(order="reverse"):
        assert cudaemu.config.order == "reverse"
    assert cudaemu.config.order == "forward"


def test_copies_between_host_and_device_are_counted(cupy):
    copies = cupy.machine.copies
    x = cupy.asarray(np.arange(6))
    cupy.zeros(3).set(np.zeros(3))
    assert copies == [("up", 48), ("up", 24)]
    copies.clear()
    for work in (x.get, lambda: cupy.asnumpy(x), lambda: int(x[0])):
        work()
    assert copies == [("down", 48)] * 2 + [("down", 8)]
    copies.clear()
    x[[0, 2]], x[x > 3], x[1:3], x + 1, x.sum()
    # a list goes up, and a mask is counted
    assert copies == [("up", 16), ("down", 4)]


def test_what_cupy_does_not_take_is_refused(cupy):
    x = cupy.zeros((3, 1))
    with pytest.raises(TypeError, match="Argument 'a' has incorrect type"):
        cupy.ascontiguousarray(np.zeros(3))
    with pytest.raises(TypeError, match="takes no"):
        x.sum(initial=1)
    with pytest.raises(AttributeError, match="writeable"):
        x.flags.writeable = False
    with pytest.raises(AttributeError, match="writeable"):
        assert x.flags.writeable


def used_by_the_package():
    """Return (owner, name) of every attribute: ("xp", "zeros"), ("cuda", "Event")."""
    found = set()
    for path in Path(gpu_consensus.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                owner = node.value
                owner = owner.func if isinstance(owner, ast.Call) else owner
                name = getattr(owner, "attr", getattr(owner, "id", ""))
                found.add((name, node.attr))
    return found


def public(thing):
    return {name for name in vars(thing) if not name.startswith("_")}


def test_the_stand_in_has_only_what_the_package_uses(cupy):
    """Whatever else it had, a test could pass with what CuPy has not."""
    used = used_by_the_package()
    for name, module in cupy._modules.items():
        owner = name.rpartition(".")[2]
        owners = {owner, "xp", "require_device"} if owner == "cupy" else {owner}
        called = {attribute for its, attribute in used if its in owners}
        # by which tests know where an array is, and what was done
        assert public(module) - {"ndarray", "machine"} <= called, name
    called = {attribute for _, attribute in used}
    assert called >= METHODS
    kinds = (cupy.ndarray, Flags, MemoryPool, RawModule, Function, DeviceHandle)
    for kind in (*kinds, cupy.cuda.Event, cupy.cuda.Stream):
        # the emulator's own
        assert public(kind) - {"place", "machine", "report", "done"} <= called, kind


@pytest.mark.parametrize(
    "name",
    ["cupy.insert", "cupy.cuda.alloc", "cupy.cuda.runtime.memcpy", "cupyx.rsqrt"],
)
def test_what_the_package_does_not_use_says_so(cupy, name):
    module, _, attribute = name.rpartition(".")
    with pytest.raises(AttributeError, match=f"the stand-in has no {name}: the pack"):
        getattr(cupy._modules[module], attribute)
    with pytest.raises(AttributeError, match=r"no cupy.ndarray.cumsum: the pack"):
        cupy.zeros(3).cumsum()
    with pytest.raises(TypeError, match=r"no numpy.insert of arrays on a device: the"):
        np.insert(cupy.zeros(3), 0, 1)


def test_a_single_column_comes_in_the_order_that_cupy_gives_it(cupy):
    """Contiguous either way; the stride of an axis of length 1 tells nothing."""
    column = cupy.asarray(np.zeros((5, 1), np.uint8))
    assert column.strides == (1, 5)
    assert column.flags.c_contiguous
    assert cupy.ascontiguousarray(column) is column
