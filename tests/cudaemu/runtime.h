// The seam between a compiled kernel and the runtime library. It includes no standard
// header: NVRTC has none, and a kernel that needs one must fail here as it fails there.
#pragma once

typedef decltype(sizeof 0) size_t;

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

namespace emu {

using Word = unsigned long long;

// Where a thread stands: what threadIdx, blockIdx, blockDim and gridDim read.
struct Here {
    uint3 thread, block, block_size, grid_size;
    unsigned lane;
    unsigned lanes;  // mask of the lanes that this warp has
};

// A place in the source where threads meet. The id tells two barriers on one line
// apart.
struct Meeting {
    int id, line;
};

enum Collective {
    BARRIER,
    BARRIER_AND,
    BARRIER_OR,
    BARRIER_COUNT,
    SYNC_WARP,
    SHUFFLE,
    VOTE,
    MATCH,
    REDUCE
};

// One kernel of a compiled file. A parameter's type is a NumPy type code ("f4"), with a
// star for a pointer ("*f4") and a suffix for a CUDA vector ("*f4x4"); "struct" and
// "*void" stand for everything else.
struct Kernel {
    const char* name;
    void (*invoke)(void** arguments);
    int max_threads;
    int n_parameters;
    const char* const* types;
};

struct Launch {
    const Kernel* kernel;
    unsigned grid[3], block[3];
    Word dynamic_bytes;  // of shared memory
    Word shared_limit;   // static and dynamic bytes together
    void** arguments;
    int order;            // 0 forward, 1 reverse, 2 random
    int poison;           // the byte that fills shared memory
    int preempt;          // chance in percent to give way at an atomic
    int flush_denormals;  // as -ftz=true, which CuPy always passes
    Word seed;
    double timeout;           // seconds of processor time, 0 for none
    Word n_allocations;       // device memory that the arguments reach (check mode)
    const Word* allocations;  // pairs of address and bytes
};

}  // namespace emu

#define EMU_API extern "C" __attribute__((visibility("default")))

// A thread's own place never changes while it runs, so a kernel may see a constant.
#ifdef EMU_RUNTIME
EMU_API emu::Here emu_here;
#else
EMU_API const emu::Here emu_here;
#endif

EMU_API int emu_barrier(emu::Collective kind, int predicate, emu::Meeting at);
// Returns the 32 values that the lanes of `mask` brought.
EMU_API const emu::Word* emu_exchange(emu::Collective kind, unsigned mask,
                                      emu::Word value, emu::Meeting at);
EMU_API unsigned emu_active_mask();
EMU_API void* emu_dynamic_shared();
EMU_API void emu_static_shared(void* object, size_t bytes, const char* name);
EMU_API void emu_before_atomic(const void* address, size_t bytes, const void* pc);
EMU_API void emu_fence();
EMU_API void emu_vector_copy(void* to, const void* from, size_t bytes, const void* pc);
EMU_API void emu_fail(const char* kind, const char* format, ...)
    __attribute__((noreturn));

EMU_API int emu_launch(const emu::Launch* launch);  // 0, or 1 when it failed
EMU_API const char* emu_failure();                  // "kind: message"
EMU_API const char* emu_report();                   // lines, empty outside check mode
// Code addresses in both are return addresses, written <pc 0x...>.
EMU_API emu::Word emu_module_base(const void* code);
