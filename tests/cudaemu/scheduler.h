// What the parts of the runtime library know of each other.
#pragma once
#define EMU_RUNTIME
#include "runtime.h"
#include "fiber.h"
#include <cstdint>

namespace emu {

enum State { READY, AT_BARRIER, IN_WARP, FINISHED };

// One CUDA thread of the block that runs.
struct Thread : Fiber {
    uint3 index;
    unsigned linear, lane, warp;
    State state;
    // what it waits for, when it waits
    Collective kind;
    Meeting at;
    unsigned mask;
    Word value;
    Word gathered[32];  // what the lanes of its last warp collective brought
};

extern Thread* current;  // null outside a kernel

struct Range {
    uintptr_t begin, end;
    bool contains(uintptr_t address) const { return address - begin < end - begin; }
};

// The memory of the loaded file that holds `code`; with `constant` only what cannot be
// written.
Range module_range(const void* code, bool constant);

// Turns a fault or an endless loop in kernel code into a failure of the launch.
void watch_begin(const void* code, double timeout);
void watch_end();

// The checker sees every access (check mode) and these events. Elsewhere it is empty.
#ifdef EMU_CHECK
void check_launch_begin(const Launch& launch);
void check_launch_end();
void check_block_begin(unsigned n_threads);
void check_block_end();
void check_barrier();
void check_warp(unsigned warp, unsigned mask, bool whole_warp, bool orders_memory);
void check_shared(void* object, size_t bytes);
void check_atomic(const void* address, size_t bytes, const void* pc);
void check_fence();
#else
inline void check_launch_begin(const Launch&) {}
inline void check_launch_end() {}
inline void check_block_begin(unsigned) {}
inline void check_block_end() {}
inline void check_barrier() {}
inline void check_warp(unsigned, unsigned, bool, bool) {}
inline void check_shared(void*, size_t) {}
inline void check_atomic(const void*, size_t, const void*) {}
inline void check_fence() {}
#endif

}  // namespace emu
