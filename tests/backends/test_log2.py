"""The logarithm that host and device share."""

import math
import subprocess

import numpy as np
from cudaemu import require_compiler

from gpu_consensus.backends.cupy.source import kernel_folder
from gpu_consensus.backends.log2 import log2

# the few CUDA names of the prelude, for the host's compiler
HOST = """
#include <cstring>
#define __device__
#define __forceinline__ inline
static long long __double_as_longlong(double x) {
    long long bits; memcpy(&bits, &x, 8); return bits; }
static double __longlong_as_double(long long bits) {
    double x; memcpy(&x, &bits, 8); return x; }
static void atomicAdd(unsigned long long* p, unsigned long long v) { *p += v; }
"""
PRELUDE = kernel_folder() / "prelude.cuh"


def sample():
    rng = np.random.default_rng(0)
    powers = 2.0 ** np.arange(-60.0, 61.0)
    near_one = 1.0 + np.arange(-50, 51) * 2.0**-52
    ratios = (rng.integers(1, 10**6, 20_000)) / (rng.integers(1, 10**6, 20_000))
    return np.concatenate([powers, near_one, ratios, rng.random(20_000) + 1e-9])


def test_it_is_the_logarithm():
    x = sample()
    expected = np.array([math.log2(v) for v in x])
    error = np.abs(log2(x) - expected)
    assert (error <= 4 * np.spacing(np.abs(expected))).all()
    assert log2(2.0 ** np.arange(-52.0, 10.0)).tolist() == list(range(-52, 10))


def test_the_cuda_text_gives_the_same_bits(tmp_path):
    require_compiler()
    source = tmp_path / "log2.cpp"
    source.write_text(
        HOST
        + PRELUDE.read_text(encoding="utf-8")
        + 'extern "C" void run(const double* x, double* y, long n) {'
        + "for (long t = 0; t < n; ++t) y[t] = gpc_log2(x[t]); }"
    )
    library = tmp_path / "log2.so"
    subprocess.run(
        ["g++", "-O2", "-ffp-contract=off", "-shared", "-fPIC", source, "-o", library],
        check=True,
    )
    import ctypes

    x = sample()
    y = np.empty_like(x)
    pointer = ctypes.POINTER(ctypes.c_double)
    ctypes.CDLL(str(library)).run(
        x.ctypes.data_as(pointer), y.ctypes.data_as(pointer), ctypes.c_long(x.size)
    )
    assert np.array_equal(y.view(np.int64), log2(x).view(np.int64))
