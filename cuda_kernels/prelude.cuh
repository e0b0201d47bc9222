// Text that is put in front of every kernel. Plain C++: it also compiles on the host.
#ifndef GPC_PRELUDE
#define GPC_PRELUDE

#ifndef __CUDACC__
#define __device__
#define __forceinline__ inline
#endif

// The base-2 logarithm of gpu_consensus/log2.py, operation for operation: x positive and
// normal. Compile with --fmad=false, or the last bit differs from the host's.
__device__ __forceinline__ double gpc_log2(double x) {
    const double coefficients[12] = {
        2.8853900817779268,  0.9617966939259756,  0.5770780163555853,
        0.4121985831111324,  0.3205988979753252,  0.2623081892525388,
        0.22195308321368667, 0.19235933878519512, 0.16972882833987804,
        0.15186263588304877, 0.1373995277037108,  0.12545174268599682,
    };
    union {
        double number;
        long long bits;
    } word;
    word.number = x;
    long long exponent = (word.bits >> 52) - 1023;
    word.bits = (word.bits & 0x000FFFFFFFFFFFFFLL) | 0x3FF0000000000000LL;
    double mantissa = word.number;
    if (mantissa > 1.4142135623730951) {
        mantissa = mantissa * 0.5;
        exponent = exponent + 1;
    }
    const double s = (mantissa - 1.0) / (mantissa + 1.0);
    const double z = s * s;
    double series = coefficients[11];
    for (int t = 10; t >= 0; --t) {
        series = series * z;
        series = series + coefficients[t];
    }
    return (double)exponent + s * series;
}

#endif
