// Barriers, warp collectives, fences and atomics, as a kernel calls them.
#pragma once
#include "runtime.h"

#define EMU_MEETING (emu::Meeting{__COUNTER__, __LINE__})

#define __syncthreads() ((void)emu_barrier(emu::BARRIER, 0, EMU_MEETING))
#define __syncthreads_and(p) emu_barrier(emu::BARRIER_AND, (p) != 0, EMU_MEETING)
#define __syncthreads_or(p) emu_barrier(emu::BARRIER_OR, (p) != 0, EMU_MEETING)
#define __syncthreads_count(p) emu_barrier(emu::BARRIER_COUNT, (p) != 0, EMU_MEETING)

namespace emu {

// Lanes exchange values as 64-bit words.
template <class T>
EMU_UNSEEN Word to_word(T value) {
    static_assert(sizeof(T) <= sizeof(Word), "at most 8 bytes per lane");
    Word word = 0;
    __builtin_memcpy(&word, &value, sizeof value);
    return word;
}

template <class T>
EMU_UNSEEN T from_word(Word word) {
    T value;
    __builtin_memcpy(&value, &word, sizeof value);
    return value;
}

// A lane whose source lies outside its segment keeps its own value, as on the device.
template <class T>
EMU_UNSEEN T shuffle(unsigned mask, T value, int source, bool inside, Meeting at) {
    const Word* gathered = emu_exchange(SHUFFLE, mask, to_word(value), at);
    if (!inside) return value;
    if (!(((mask & emu_here.lanes) >> source) & 1))
        emu_fail("mask", "shuffle at line %d reads lane %d, which is not in mask %08x",
                 at.line, source, mask & emu_here.lanes);
    return from_word<T>(gathered[source]);
}

inline int segment(int width) { return (int)emu_here.lane & ~(width - 1); }

template <class T>
T shuffle_index(unsigned mask, T value, int source, int width, Meeting at) {
    return shuffle(mask, value, segment(width) | (source & (width - 1)), true, at);
}

template <class T>
T shuffle_up(unsigned mask, T value, unsigned delta, int width, Meeting at) {
    const int source = (int)emu_here.lane - (int)delta;
    return shuffle(mask, value, source, source >= segment(width), at);
}

template <class T>
T shuffle_down(unsigned mask, T value, unsigned delta, int width, Meeting at) {
    const int source = (int)emu_here.lane + (int)delta;
    return shuffle(mask, value, source, source < segment(width) + width, at);
}

template <class T>
T shuffle_xor(unsigned mask, T value, int bits, int width, Meeting at) {
    const int source = (int)emu_here.lane ^ bits;
    return shuffle(mask, value, source, source < segment(width) + width, at);
}

EMU_UNSEEN inline unsigned ballot(unsigned mask, bool predicate, Meeting at) {
    const Word* gathered = emu_exchange(VOTE, mask, predicate, at);
    unsigned votes = 0;
    for (int lane = 0; lane < 32; ++lane)
        if ((mask >> lane) & 1) votes |= (unsigned)gathered[lane] << lane;
    return votes;
}

template <class T>
EMU_UNSEEN unsigned match_any(unsigned mask, T value, Meeting at) {
    const Word mine = to_word(value);
    const Word* gathered = emu_exchange(MATCH, mask, mine, at);
    unsigned equal = 0;
    for (int lane = 0; lane < 32; ++lane)
        if ((mask >> lane) & 1) equal |= (unsigned)(gathered[lane] == mine) << lane;
    return equal;
}

template <class T, class Combine>
EMU_UNSEEN T reduce(unsigned mask, T value, Combine combine, Meeting at) {
    const Word* gathered = emu_exchange(REDUCE, mask, to_word(value), at);
    const int first = __builtin_ctz(mask);
    T result = from_word<T>(gathered[first]);
    for (int lane = first + 1; lane < 32; ++lane)
        if ((mask >> lane) & 1) result = combine(result, from_word<T>(gathered[lane]));
    return result;
}

}  // namespace emu

// The optional last argument (the mask, the width) is what the caller left out.
#define EMU_SYNC_WARP(mask, ...) \
    ((void)emu_exchange(emu::SYNC_WARP, mask, 0, EMU_MEETING))
#define __syncwarp(...) EMU_SYNC_WARP(__VA_ARGS__ __VA_OPT__(, ) 0xffffffffu, 0)
#define EMU_SHUFFLE(function, mask, value, lane, width, ...) \
    emu::function((mask), (value), (lane), (width), EMU_MEETING)
#define __shfl_sync(...) EMU_SHUFFLE(shuffle_index, __VA_ARGS__, 32, 0)
#define __shfl_up_sync(...) EMU_SHUFFLE(shuffle_up, __VA_ARGS__, 32, 0)
#define __shfl_down_sync(...) EMU_SHUFFLE(shuffle_down, __VA_ARGS__, 32, 0)
#define __shfl_xor_sync(...) EMU_SHUFFLE(shuffle_xor, __VA_ARGS__, 32, 0)
#define __ballot_sync(mask, p) emu::ballot((mask), (p) != 0, EMU_MEETING)
#define __any_sync(mask, p) (emu::ballot((mask), (p) != 0, EMU_MEETING) != 0)
#define __all_sync(mask, p) (emu::ballot((mask), (p) == 0, EMU_MEETING) == 0)
#define __match_any_sync(mask, value) emu::match_any((mask), (value), EMU_MEETING)
#define EMU_REDUCE(mask, value, expression) \
    emu::reduce((mask), (value),            \
                [](auto a, auto b) -> decltype(a) { return expression; }, EMU_MEETING)
#define __reduce_add_sync(mask, value) EMU_REDUCE(mask, value, a + b)
#define __reduce_min_sync(mask, value) EMU_REDUCE(mask, value, a < b ? a : b)
#define __reduce_max_sync(mask, value) EMU_REDUCE(mask, value, a > b ? a : b)
#define __reduce_and_sync(mask, value) EMU_REDUCE(mask, value, a& b)
#define __reduce_or_sync(mask, value) EMU_REDUCE(mask, value, a | b)
#define __activemask() emu_active_mask()

#define __threadfence() emu_fence()
#define __threadfence_block() ((void)0)
#define __trap() emu_fail("trap", "__trap() at line %d", __LINE__)
#define assert(condition)  \
    ((condition) ? (void)0 \
                 : emu_fail("assert", "assert(%s) at line %d", #condition, __LINE__))

// Exactly the types CUDA has: there is no atomicAdd for long long, for one.
#define EMU_ATOMIC(NAME, T, expression)                                     \
    EMU_UNSEEN inline T NAME(T* address, T value) {                         \
        emu_before_atomic(address, sizeof(T), __builtin_return_address(0)); \
        const T old = *address;                                             \
        *address = expression;                                              \
        return old;                                                         \
    }
#define EMU_CAS(T)                                                          \
    EMU_UNSEEN inline T atomicCAS(T* address, T compare, T value) {         \
        emu_before_atomic(address, sizeof(T), __builtin_return_address(0)); \
        const T old = *address;                                             \
        if (old == compare) *address = value;                               \
        return old;                                                         \
    }
#define EMU_ATOMIC3(NAME, expression)      \
    EMU_ATOMIC(NAME, int, expression)      \
    EMU_ATOMIC(NAME, unsigned, expression) \
    EMU_ATOMIC(NAME, unsigned long long, expression)
EMU_ATOMIC3(atomicAdd, old + value)
EMU_ATOMIC(atomicAdd, float, old + value)
EMU_ATOMIC(atomicAdd, double, old + value)
EMU_ATOMIC(atomicSub, int, old - value)
EMU_ATOMIC(atomicSub, unsigned, old - value)
EMU_ATOMIC3(atomicMin, old < value ? old : value)
EMU_ATOMIC(atomicMin, long long, old < value ? old : value)
EMU_ATOMIC3(atomicMax, old > value ? old : value)
EMU_ATOMIC(atomicMax, long long, old > value ? old : value)
EMU_ATOMIC3(atomicExch, value)
EMU_ATOMIC(atomicExch, float, value)
EMU_ATOMIC3(atomicAnd, old& value)
EMU_ATOMIC3(atomicOr, old | value)
EMU_ATOMIC3(atomicXor, old ^ value)
EMU_ATOMIC(atomicInc, unsigned, old >= value ? 0 : old + 1)
EMU_ATOMIC(atomicDec, unsigned, old == 0 || old > value ? value : old - 1)
EMU_CAS(int)
EMU_CAS(unsigned)
EMU_CAS(unsigned long long)
EMU_CAS(unsigned short)
