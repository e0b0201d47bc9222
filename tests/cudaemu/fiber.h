// Fibers: a stack of its own for every CUDA thread of a block, and switches between it
// and the scheduler.
#pragma once
#include <cstddef>

namespace emu {

constexpr size_t STACK_BYTES = 256 * 1024;

struct Fiber {
    char* stack = nullptr;  // lowest address
    void* saved = nullptr;  // where to resume
    void* fake_stack = nullptr;
    bool finished = true;
};

// Gives the fiber a stack if it has none, and lets it start at `entry` when resumed.
void prepare(Fiber& fiber, void (*entry)());
// From the scheduler into the fiber; returns when the fiber yields.
void resume(Fiber& fiber);
// From the fiber back to the scheduler; a finished fiber never returns.
void yield(Fiber& fiber, bool finished);
// First thing that `entry` must do.
void started();

}  // namespace emu
