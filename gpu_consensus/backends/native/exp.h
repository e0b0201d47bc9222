/* An exponential of numbers <= 0 that every backend computes alike: see
   gpu_consensus/backends/exp.py. A vector at a time, by its bits. */
#ifndef GPC_EXP_H
#define GPC_EXP_H

#include "native.h"

typedef GPC_VECTOR_OF(uint64_t, GPC_VECTOR) gpc_bits;

GPC_INLINE gpc_doubles gpc_exp(gpc_doubles x) {
    const double shift = 0x1.8p52; /* a sum with it ends in the nearest whole number */
    const gpc_doubles shifted = x * 0x1.71547652b82fep0 + shift;
    const gpc_doubles whole = shifted - shift;
    const gpc_doubles r = (x - whole * 0x1.62e42feep-1) - whole * 0x1.a39ef35793c76p-33;
    gpc_doubles series = r * 0x1.6124613a86d09p-33 + 0x1.1eed8eff8d898p-29;
    series = series * r + 0x1.ae64567f544e4p-26;
    series = series * r + 0x1.27e4fb7789f5cp-22;
    series = series * r + 0x1.71de3a556c734p-19;
    series = series * r + 0x1.a01a01a01a01ap-16;
    series = series * r + 0x1.a01a01a01a01ap-13;
    series = series * r + 0x1.6c16c16c16c17p-10;
    series = series * r + 0x1.1111111111111p-7;
    series = series * r + 0x1.5555555555555p-5;
    series = series * r + 0x1.5555555555555p-3;
    series = series * r + 0.5;
    series = series * r + 1.0;
    series = series * r + 1.0;
    /* the whole number is added to the exponent */
    return (gpc_doubles)(((gpc_bits)series + ((gpc_bits)shifted << 52)) &
                         (gpc_bits)(x > -700.0));
}

#endif
