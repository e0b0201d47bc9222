/* A base-2 logarithm that every backend computes alike: see gpu_consensus/loop/log2.py.
   Whole numbers become doubles by their bits, which vectors of every level can do. */
#ifndef GPC_LOG2_H
#define GPC_LOG2_H

#include "native.h"

GPC_INLINE double gpc_from_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, 8);
    return x;
}

GPC_INLINE uint64_t gpc_to_bits(double x) {
    uint64_t bits;
    memcpy(&bits, &x, 8);
    return bits;
}

/* n as a double, for 0 <= n < 2^52: exact */
GPC_INLINE double gpc_whole(int64_t n) {
    return gpc_from_bits((uint64_t)n | 0x4330000000000000u) - 0x1p52;
}

/* log2 of a positive normal number */
GPC_INLINE double gpc_log2(double x) {
    const uint64_t bits = gpc_to_bits(x);
    /* an exponent below 2^11, less 1023: exact */
    double exponent = gpc_from_bits(bits >> 52 | 0x4330000000000000u) - (0x1p52 + 1023);
    double mantissa = gpc_from_bits((bits & 0x000FFFFFFFFFFFFFu) | 0x3FF0000000000000u);
    const int high = mantissa > 1.4142135623730951;
    mantissa = high ? mantissa * 0.5 : mantissa;
    exponent = high ? exponent + 1.0 : exponent;
    const double s = (mantissa - 1.0) / (mantissa + 1.0);
    const double z = s * s;
    double series = 0.12545174268599682;
    series = series * z + 0.1373995277037108;
    series = series * z + 0.15186263588304877;
    series = series * z + 0.16972882833987804;
    series = series * z + 0.19235933878519512;
    series = series * z + 0.22195308321368667;
    series = series * z + 0.2623081892525388;
    series = series * z + 0.3205988979753252;
    series = series * z + 0.4121985831111324;
    series = series * z + 0.5770780163555853;
    series = series * z + 0.9617966939259756;
    series = series * z + 2.8853900817779268;
    return exponent + s * series;
}

#endif
