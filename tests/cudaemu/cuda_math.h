// Arithmetic intrinsics. Compiled with -ffp-contract=off, so a*b+c rounds twice, as on
// a device with --fmad=false.
#pragma once
#include "runtime.h"

#define EMU_BINARY(NAME, T, expression) \
    static inline T NAME(T a, T b) { return expression; }
EMU_BINARY(__fadd_rn, float, a + b)
EMU_BINARY(__fsub_rn, float, a - b)
EMU_BINARY(__fmul_rn, float, a* b)
EMU_BINARY(__fdiv_rn, float, a / b)
EMU_BINARY(__dadd_rn, double, a + b)
EMU_BINARY(__dsub_rn, double, a - b)
EMU_BINARY(__dmul_rn, double, a* b)
EMU_BINARY(__ddiv_rn, double, a / b)
EMU_BINARY(__umulhi, unsigned, (unsigned)(((unsigned long long)a * b) >> 32))
EMU_BINARY(__umul64hi, unsigned long long,
           (unsigned long long)(((unsigned __int128)a * b) >> 64))
static inline float __fsqrt_rn(float a) { return __builtin_sqrtf(a); }
static inline double __dsqrt_rn(double a) { return __builtin_sqrt(a); }
static inline float __fmaf_rn(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
}
static inline double __fma_rn(double a, double b, double c) {
    return __builtin_fma(a, b, c);
}

#define EMU_CONVERT(NAME, FROM, TO, expression) \
    static inline TO NAME(FROM a) { return (TO)(expression); }
EMU_CONVERT(__double2float_rn, double, float, a)
EMU_CONVERT(__int2float_rn, int, float, a)
EMU_CONVERT(__uint2float_rn, unsigned, float, a)
EMU_CONVERT(__ll2float_rn, long long, float, a)
EMU_CONVERT(__ull2float_rn, unsigned long long, float, a)
EMU_CONVERT(__int2double_rn, int, double, a)
EMU_CONVERT(__uint2double_rn, unsigned, double, a)
EMU_CONVERT(__ll2double_rn, long long, double, a)
EMU_CONVERT(__ull2double_rn, unsigned long long, double, a)
EMU_CONVERT(__float2int_rz, float, int, a)
EMU_CONVERT(__float2int_rn, float, int, __builtin_rintf(a))
EMU_CONVERT(__float2int_rd, float, int, __builtin_floorf(a))
EMU_CONVERT(__double2int_rz, double, int, a)
EMU_CONVERT(__double2ll_rz, double, long long, a)
EMU_CONVERT(__double2ll_rn, double, long long, __builtin_rint(a))
EMU_CONVERT(__double2ull_rn, double, unsigned long long, __builtin_rint(a))

#define EMU_BITS(NAME, FROM, TO)            \
    static inline TO NAME(FROM a) {         \
        TO b;                               \
        __builtin_memcpy(&b, &a, sizeof b); \
        return b;                           \
    }
EMU_BITS(__float_as_int, float, int)
EMU_BITS(__float_as_uint, float, unsigned)
EMU_BITS(__int_as_float, int, float)
EMU_BITS(__uint_as_float, unsigned, float)
EMU_BITS(__double_as_longlong, double, long long)
EMU_BITS(__longlong_as_double, long long, double)

static inline int __popc(unsigned a) { return __builtin_popcount(a); }
static inline int __popcll(unsigned long long a) { return __builtin_popcountll(a); }
static inline int __ffs(int a) { return __builtin_ffs(a); }
static inline int __ffsll(long long a) { return __builtin_ffsll(a); }
static inline int __clz(int a) { return a ? __builtin_clz(a) : 32; }
static inline int __clzll(long long a) { return a ? __builtin_clzll(a) : 64; }
static inline unsigned __brev(unsigned a) {
    unsigned reversed = 0;
    for (int bit = 0; bit < 32; ++bit) reversed |= ((a >> bit) & 1u) << (31 - bit);
    return reversed;
}

// Mixed types meet as in CUDA: min(int, unsigned) is unsigned.
template <class A, class B>
constexpr auto min(A a, B b) {
    using C = decltype(a + b);
    return (C)a < (C)b ? (C)a : (C)b;
}
template <class A, class B>
constexpr auto max(A a, B b) {
    using C = decltype(a + b);
    return (C)a > (C)b ? (C)a : (C)b;
}
static inline int abs(int a) { return a < 0 ? -a : a; }
static inline long long abs(long long a) { return a < 0 ? -a : a; }
static inline float abs(float a) { return __builtin_fabsf(a); }
static inline double abs(double a) { return __builtin_fabs(a); }

#define EMU_FUNCTION(NAME)                                               \
    static inline double NAME(double a) { return __builtin_##NAME(a); }  \
    static inline float NAME(float a) { return __builtin_##NAME##f(a); } \
    static inline float NAME##f(float a) { return __builtin_##NAME##f(a); }
EMU_FUNCTION(sqrt)
EMU_FUNCTION(fabs)
EMU_FUNCTION(floor)
EMU_FUNCTION(ceil)
EMU_FUNCTION(rint)
EMU_FUNCTION(exp)
EMU_FUNCTION(log)
EMU_FUNCTION(log2)
static inline double fmin(double a, double b) { return __builtin_fmin(a, b); }
static inline double fmax(double a, double b) { return __builtin_fmax(a, b); }
static inline float fminf(float a, float b) { return __builtin_fminf(a, b); }
static inline float fmaxf(float a, float b) { return __builtin_fmaxf(a, b); }
static inline float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline double fma(double a, double b, double c) {
    return __builtin_fma(a, b, c);
}
static inline bool isnan(double a) { return __builtin_isnan(a); }
static inline bool isinf(double a) { return __builtin_isinf(a); }
static inline bool isfinite(double a) { return __builtin_isfinite(a); }

// Loads and stores with a cache hint are loads and stores. Always inlined: the line
// that check mode reports is then the kernel's.
template <class T>
__forceinline__ T __ldg(const T* address) {
    return *address;
}
template <class T>
__forceinline__ T __ldcs(const T* address) {
    return *address;
}
template <class T>
__forceinline__ void __stcs(T* address, T value) {
    *address = value;
}
