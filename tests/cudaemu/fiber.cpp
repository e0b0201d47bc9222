#include "fiber.h"
#include <cstdint>
#include <cstring>
#include <sys/mman.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if !defined(__x86_64__) || defined(EMU_UCONTEXT)
#include <ucontext.h>
#endif

namespace emu {
namespace {

void* scheduler_saved;
void* scheduler_fake_stack;
const void* scheduler_stack;
size_t scheduler_stack_bytes;

char* new_stack() {
    constexpr size_t guard = 4096;  // a fiber that overflows stops here
    void* memory = mmap(nullptr, STACK_BYTES + guard, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) __builtin_trap();
    mprotect(memory, guard, PROT_NONE);
    return static_cast<char*>(memory) + guard;
}

// AddressSanitizer must know which stack is in use, or it reports the switch itself.
void announce_switch(void** fake_stack, const void* stack, size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(fake_stack, stack, bytes);
#else
    (void)fake_stack, (void)stack, (void)bytes;
#endif
}

void confirm_switch(void* fake_stack, const void** from, size_t* bytes) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_stack, from, bytes);
#else
    (void)fake_stack, (void)from, (void)bytes;
#endif
}

}  // namespace

#if defined(__x86_64__) && !defined(EMU_UCONTEXT)
// swapcontext makes a system call; this is a dozen instructions.
extern "C" void emu_switch(void** save, void* to);
asm(R"(
.text
.hidden emu_switch
.globl emu_switch
.type emu_switch, @function
emu_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size emu_switch, .-emu_switch
)");

static void switch_stack(void** save, void* to) { emu_switch(save, to); }

static void* first_frame(char* stack, void (*entry)()) {
    // Stacks begin at whole pages: their first frames, which are all in use at once,
    // would share a few lines of the processor's cache.
    const size_t shift = reinterpret_cast<uintptr_t>(stack) / 4096 * 320 % 4096;
    // what emu_switch pops: six registers, then the address to return to; one more word
    // keeps the stack aligned as at a function's entry
    void** top = reinterpret_cast<void**>(stack + STACK_BYTES - shift) - 8;
    memset(top, 0, 8 * sizeof(void*));
    top[6] = reinterpret_cast<void*>(entry);
    return top;
}
#else
static ucontext_t scheduler_context;

static void switch_stack(void** save, void* to) {
    if (save == &scheduler_saved) {
        *save = &scheduler_context;
        swapcontext(&scheduler_context, static_cast<ucontext_t*>(to));
    } else {
        swapcontext(static_cast<ucontext_t*>(*save), &scheduler_context);
    }
}

static void* first_frame(char* stack, void (*entry)()) {
    auto* context = reinterpret_cast<ucontext_t*>(stack);  // lives at the far end
    getcontext(context);
    context->uc_stack.ss_sp = stack + sizeof(ucontext_t);
    context->uc_stack.ss_size = STACK_BYTES - sizeof(ucontext_t);
    context->uc_link = nullptr;
    makecontext(context, entry, 0);
    return context;
}
#endif

void prepare(Fiber& fiber, void (*entry)()) {
    if (!fiber.stack) fiber.stack = new_stack();
#if defined(__SANITIZE_ADDRESS__)
    // a fiber that was abandoned while it waited left poisoned frames behind
    if (!fiber.finished) __asan_unpoison_memory_region(fiber.stack, STACK_BYTES);
#endif
    fiber.saved = first_frame(fiber.stack, entry);
    fiber.fake_stack = nullptr;
    fiber.finished = false;
}

void resume(Fiber& fiber) {
    announce_switch(&scheduler_fake_stack, fiber.stack, STACK_BYTES);
    switch_stack(&scheduler_saved, fiber.saved);
    confirm_switch(scheduler_fake_stack, nullptr, nullptr);
}

void yield(Fiber& fiber, bool finished) {
    fiber.finished = finished;
    announce_switch(finished ? nullptr : &fiber.fake_stack, scheduler_stack,
                    scheduler_stack_bytes);
    switch_stack(&fiber.saved, scheduler_saved);
    confirm_switch(fiber.fake_stack, nullptr, nullptr);
}

void started() { confirm_switch(nullptr, &scheduler_stack, &scheduler_stack_bytes); }

}  // namespace emu
