// Text that is put in front of every kernel: names and small functions that all share.
// Plain CUDA C++ without headers. Compile with --fmad=false: sums and tables must give
// the bits that the host gives.
#ifndef GPC_PRELUDE
#define GPC_PRELUDE

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

// Add to a 64-bit counter: two's complement makes the unsigned atomic serve signed
// sums.
__device__ __forceinline__ void gpc_add(i64* counter, i64 amount) {
    atomicAdd((u64*)counter, (u64)amount);
}

// The base-2 logarithm of gpu_consensus/backends/log2.py, operation for operation: x
// positive and normal.
__device__ __forceinline__ double gpc_log2(double x) {
    const double coefficients[12] = {
        2.8853900817779268,  0.9617966939259756,  0.5770780163555853,
        0.4121985831111324,  0.3205988979753252,  0.2623081892525388,
        0.22195308321368667, 0.19235933878519512, 0.16972882833987804,
        0.15186263588304877, 0.1373995277037108,  0.12545174268599682,
    };
    const i64 bits = __double_as_longlong(x);
    i64 exponent = (bits >> 52) - 1023;
    double mantissa =
        __longlong_as_double((bits & 0x000FFFFFFFFFFFFFLL) | 0x3FF0000000000000LL);
    if (mantissa > 1.4142135623730951) {
        mantissa = mantissa * 0.5;
        exponent = exponent + 1;
    }
    const double s = (mantissa - 1.0) / (mantissa + 1.0);
    const double z = s * s;
    double series = coefficients[11];
#pragma unroll
    for (int t = 10; t >= 0; --t) {
        series = series * z;
        series = series + coefficients[t];
    }
    return (double)exponent + s * series;
}

#endif
