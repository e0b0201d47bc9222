/* What this library is, and which of its levels the processor can run. */
#include "native.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#ifndef GPC_BUILD
#define GPC_BUILD "unknown flags"
#endif

/* zig is clang, and says nothing of itself: the build hook does */
#ifndef GPC_COMPILER
#define GPC_COMPILER ""
#endif

#define TEXT(number) #number
#define DOTTED(a, b, c) TEXT(a) "." TEXT(b) "." TEXT(c)

#if defined(__clang__)
#define COMPILER "clang " DOTTED(__clang_major__, __clang_minor__, __clang_patchlevel__)
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "unknown compiler"
#endif

GPC_API int64_t gpc_abi(void) { return GPC_ABI; }

/* The compiler and its flags. */
GPC_API const char* gpc_build(void) { return COMPILER GPC_COMPILER ", " GPC_BUILD; }

/* The highest x86-64 level that this processor and its system have, 1 to 4; 0 on other
   machines. Compiled for the lowest level, so that it may be asked before any other. */
GPC_API int64_t gpc_cpu_level(void) {
#if defined(__x86_64__)
    /* asked of the processor itself: __builtin_cpu_supports needs a variable of the
       compiler's library that not every linker finds for a shared library */
    unsigned a, b, c, d, wide_b = 0, far_c = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return 1;
    const unsigned first = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) wide_b = b;
    if (__get_cpuid(0x80000001, &a, &b, &c, &d)) far_c = c;
    /* sse3, ssse3, cx16, sse4.1, sse4.2, popcnt; lahf */
    const unsigned second =
        1u << 0 | 1u << 9 | 1u << 13 | 1u << 19 | 1u << 20 | 1u << 23;
    if ((first & second) != second || !(far_c & 1)) return 1;
    /* fma, movbe, osxsave, avx, f16c; bmi1, avx2, bmi2; lzcnt */
    const unsigned third = 1u << 12 | 1u << 22 | 1u << 27 | 1u << 28 | 1u << 29;
    const unsigned third_wide = 1u << 3 | 1u << 5 | 1u << 8;
    if ((first & third) != third || (wide_b & third_wide) != third_wide) return 2;
    unsigned low, high; /* which registers the system keeps */
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if (!(far_c & 1u << 5) || (low & 0x06) != 0x06) return 2;
    /* avx512 f, dq, cd, bw, vl */
    const unsigned fourth = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;
    return (wide_b & fourth) == fourth && (low & 0xe6) == 0xe6 ? 4 : 3;
#else
    return 0;
#endif
}
