// What a kernel sees: CUDA C++ for g++, one fiber per CUDA thread. build.py puts it in
// front of the kernel's text, whose __shared__ declarations it has rewritten.
//
// Deliberately absent, because NVRTC lacks them too: fixed-width integers, INFINITY,
// namespace std. exp, log and their kin are the host's, not bit-equal to a GPU's.
#pragma once
#include "runtime.h"

#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__

// Code that check mode must not see: its accesses are noted by hand. Not inlined, so
// that the return address is the kernel's own line.
#define EMU_UNSEEN __attribute__((noinline, no_sanitize("thread")))

// Vector types. In check mode a copy is one access of its full width: the compiler
// would break it into scalars, and a 16-byte request has other bank conflicts than four
// of 4.
#ifdef EMU_CHECK
#define EMU_COPIES(NAME)                                                         \
    NAME() = default;                                                            \
    EMU_UNSEEN NAME(const NAME& from) {                                          \
        emu_vector_copy(this, &from, sizeof(NAME), __builtin_return_address(0)); \
    }                                                                            \
    EMU_UNSEEN NAME& operator=(const NAME& from) {                               \
        emu_vector_copy(this, &from, sizeof(NAME), __builtin_return_address(0)); \
        return *this;                                                            \
    }
#define EMU_COPIES2(T, NAME) \
    EMU_COPIES(NAME)         \
    constexpr NAME(T x, T y) : x(x), y(y) {}
#define EMU_COPIES4(T, NAME) \
    EMU_COPIES(NAME)         \
    constexpr NAME(T x, T y, T z, T w) : x(x), y(y), z(z), w(w) {}
#else
#define EMU_COPIES2(T, NAME)
#define EMU_COPIES4(T, NAME)
#endif

#define EMU_VECTOR2(T, NAME)             \
    struct alignas(2 * sizeof(T)) NAME { \
        T x, y;                          \
        EMU_COPIES2(T, NAME)             \
    };                                   \
    static inline NAME make_##NAME(T x, T y) { return NAME{x, y}; }
#define EMU_VECTOR3(T, NAME) \
    struct NAME {            \
        T x, y, z;           \
    };                       \
    static inline NAME make_##NAME(T x, T y, T z) { return NAME{x, y, z}; }
#define EMU_VECTOR4(T, NAME)             \
    struct alignas(4 * sizeof(T)) NAME { \
        T x, y, z, w;                    \
        EMU_COPIES4(T, NAME)             \
    };                                   \
    static inline NAME make_##NAME(T x, T y, T z, T w) { return NAME{x, y, z, w}; }
EMU_VECTOR2(signed char, char2)
EMU_VECTOR2(unsigned char, uchar2)
EMU_VECTOR2(short, short2)
EMU_VECTOR2(unsigned short, ushort2)
EMU_VECTOR2(int, int2)
EMU_VECTOR2(unsigned, uint2)
EMU_VECTOR2(float, float2)
EMU_VECTOR2(long long, longlong2)
EMU_VECTOR2(unsigned long long, ulonglong2)
EMU_VECTOR2(double, double2)
EMU_VECTOR3(int, int3)
EMU_VECTOR3(float, float3)
EMU_VECTOR4(signed char, char4)
EMU_VECTOR4(unsigned char, uchar4)
EMU_VECTOR4(short, short4)
EMU_VECTOR4(unsigned short, ushort4)
EMU_VECTOR4(int, int4)
EMU_VECTOR4(unsigned, uint4)
EMU_VECTOR4(float, float4)

#define threadIdx (emu_here.thread)
#define blockIdx (emu_here.block)
#define blockDim (emu_here.block_size)
#define gridDim (emu_here.grid_size)
#define warpSize 32

// A declaration of static shared memory; the runtime poisons it once per block.
#define EMU_SHARED(name) emu_static_shared((void*)&name, sizeof(name), #name)

#include "cuda_warp.h"
#include "cuda_math.h"
#include "cuda_entry.h"
