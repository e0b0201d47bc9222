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
    const uint64_t one_to_two = (bits & 0x000FFFFFFFFFFFFFu) | 0x3FF0000000000000u;
    /* above the root of 2 it is halved: by its bits, for a branch keeps compilers from
       vectors */
    const uint64_t high = (0x3FF6A09E667F3BCDu - one_to_two) >> 63;
    const double mantissa = gpc_from_bits(one_to_two - (high << 52));
    /* an exponent of at most 2^11, less 1023: exact */
    const double exponent =
        gpc_from_bits(((bits >> 52) + high) | 0x4330000000000000u) - (0x1p52 + 1023);
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
