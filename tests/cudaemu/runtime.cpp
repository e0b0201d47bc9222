// The block scheduler and the warp collectives. Blocks run one after the other; the
// threads of a block take turns, each until it waits or ends. That is one of the orders
// a device may choose, so a kernel that is right must be right in all of them.
#include "scheduler.h"
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

emu::Here emu_here;

namespace emu {

Thread* current;

namespace {

struct Warp {
    unsigned exist, exited;  // masks of lanes
    unsigned alive() const { return exist & ~exited; }
};

constexpr size_t STATIC_SHARED_LIMIT = 48 * 1024;
#if defined(__SANITIZE_ADDRESS__)
constexpr size_t SHARED_MARGIN = 0;
#else
constexpr size_t SHARED_MARGIN = 4096;
#endif

std::vector<Thread> threads;  // kept between launches, for their stacks
std::vector<Warp> warps;
unsigned n_threads;
Launch launch;
char* dynamic_shared;
std::vector<void*> static_shared;  // objects that this block has declared so far
size_t static_bytes;
int barrier_result;
bool failed;
std::string failure;
Word random_state;

unsigned random_below(size_t bound) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return static_cast<unsigned>((random_state >> 16) % bound);
}

void shuffle(std::vector<unsigned>& items) {
    for (size_t i = items.size(); i > 1; --i)
        std::swap(items[i - 1], items[random_below(i)]);
}

std::vector<unsigned> in_order(unsigned n) {
    std::vector<unsigned> items(n);
    for (unsigned i = 0; i < n; ++i) items[i] = launch.order == 1 ? n - 1 - i : i;
    if (launch.order == 2) shuffle(items);
    return items;
}

// Only the first failure counts: what follows it is usually its consequence.
void note_failure(const char* kind, const char* message) {
    if (failed) return;
    failed = true;
    char where[200] = "";
    const uint3& b = emu_here.block;
    if (current)
        snprintf(where, sizeof where, " [block (%u, %u, %u), thread (%u, %u, %u)]", b.x,
                 b.y, b.z, current->index.x, current->index.y, current->index.z);
    else
        snprintf(where, sizeof where, " [block (%u, %u, %u)]", b.x, b.y, b.z);
    failure = std::string(kind) + ": " + message + where;
}

void wait(State state) {
    current->state = state;
    yield(*current, false);
}

[[noreturn]] void leave() {
    current->state = FINISHED;
    warps[current->warp].exited |= 1u << current->lane;
    yield(*current, true);
    __builtin_trap();
}

void entry() {
    started();
    launch.kernel->invoke(launch.arguments);
    leave();
}

void run(Thread& thread) {
    current = &thread;
    emu_here.thread = thread.index;
    emu_here.lane = thread.lane;
    emu_here.lanes = warps[thread.warp].exist;
    resume(thread);
    current = nullptr;
}

void start_block(unsigned block) {
    const unsigned* grid = launch.grid;
    emu_here.block = {block % grid[0], block / grid[0] % grid[1],
                      block / grid[0] / grid[1]};
    static_shared.clear();
    static_bytes = 0;
    for (size_t w = 0; w < warps.size(); ++w) {
        const unsigned lanes = std::min(32u, n_threads - 32 * static_cast<unsigned>(w));
        warps[w] = {lanes == 32 ? ~0u : (1u << lanes) - 1, 0};
    }
    for (unsigned i = 0; i < n_threads; ++i) {
        Thread& t = threads[i];
        const unsigned* size = launch.block;
        t.index = {i % size[0], i / size[0] % size[1], i / size[0] / size[1]};
        t.linear = i;
        t.lane = i % 32;
        t.warp = i / 32;
        t.state = READY;
        prepare(t, entry);
    }
    check_block_begin(n_threads);
    if (dynamic_shared) {
        memset(dynamic_shared, launch.poison, launch.dynamic_bytes);
        check_shared(dynamic_shared, launch.dynamic_bytes);
    }
}

// Lets the threads at a barrier go on, or says why they cannot.
void release_barrier(unsigned n_waiting, unsigned n_finished) {
    char message[300];
    const Thread* first = nullptr;
    int n_true = 0;
    for (unsigned i = 0; i < n_threads; ++i) {
        Thread& t = threads[i];
        if (t.state != AT_BARRIER) continue;
        if (!first) first = &t;
        n_true += t.value != 0;
        if (t.at.id == first->at.id) continue;
        snprintf(message, sizeof message,
                 "threads of one block wait at different barriers, of line %d and of "
                 "line %d",
                 first->at.line, t.at.line);
        return note_failure("barrier", message);
    }
    if (n_finished) {
        snprintf(
            message, sizeof message,
            "%u threads wait at the barrier of line %d, but %u threads of the block "
            "have returned",
            n_waiting, first->at.line, n_finished);
        return note_failure("barrier", message);
    }
    barrier_result = first->kind == BARRIER_AND  ? n_true == static_cast<int>(n_waiting)
                     : first->kind == BARRIER_OR ? n_true > 0
                                                 : n_true;
    check_barrier();
    for (unsigned i = 0; i < n_threads; ++i) threads[i].state = READY;
}

void note_deadlock() {
    unsigned at_barrier = 0, in_warp = 0, finished = 0;
    const Thread *barrier = nullptr, *warp = nullptr;
    for (unsigned i = 0; i < n_threads; ++i) {
        const Thread& t = threads[i];
        if (t.state == AT_BARRIER) ++at_barrier, barrier = &t;
        if (t.state == IN_WARP) ++in_warp, warp = &t;
        finished += t.state == FINISHED;
    }
    char message[300];
    snprintf(message, sizeof message,
             "%u threads wait for lanes of mask %08x at line %d, %u at the barrier of "
             "line %d, %u have returned: nobody can go on",
             in_warp, warp->mask, warp->at.line, at_barrier,
             barrier ? barrier->at.line : 0, finished);
    note_failure("deadlock", message);
}

void run_block(std::vector<unsigned>& turns) {
    while (!failed) {
        if (launch.order == 2) shuffle(turns);
        for (unsigned i : turns)
            if (threads[i].state == READY && !failed) run(threads[i]);
        unsigned n_ready = 0, n_waiting = 0, n_finished = 0;
        for (unsigned i = 0; i < n_threads; ++i) {
            n_ready += threads[i].state == READY;
            n_waiting += threads[i].state == AT_BARRIER;
            n_finished += threads[i].state == FINISHED;
        }
        if (failed || n_finished == n_threads) return;
        if (n_ready) continue;
        if (n_waiting + n_finished == n_threads)
            release_barrier(n_waiting, n_finished);
        else
            note_deadlock();
    }
}

// While it lives, the host flushes denormal numbers as the device does. The host's
// switch covers float64 too, the device's only float32.
struct DenormalMode {
#if defined(__x86_64__)
    unsigned before = _mm_getcsr();
    explicit DenormalMode(bool flush) {
        if (flush) _mm_setcsr(before | 0x8040);
    }
    ~DenormalMode() { _mm_setcsr(before); }
#else
    explicit DenormalMode(bool) {}
#endif
};

}  // namespace
}  // namespace emu

using namespace emu;

void emu_fail(const char* kind, const char* format, ...) {
    char message[500];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    note_failure(kind, message);
    leave();
}

int emu_barrier(Collective kind, int predicate, Meeting at) {
    current->kind = kind;
    current->value = predicate;
    current->at = at;
    wait(AT_BARRIER);
    return barrier_result;
}

const Word* emu_exchange(Collective kind, unsigned mask, Word value, Meeting at) {
    Thread& me = *current;
    const Warp& warp = warps[me.warp];
    Thread* lanes = &threads[32 * me.warp];
    if (!((mask >> me.lane) & 1))
        emu_fail("mask", "line %d: lane %u calls with mask %08x, which it is not in",
                 at.line, me.lane, mask);
    // the full mask is right in a short last warp too; lanes that returned are not
    if (mask == ~0u) mask = warp.exist;
    if (mask & ~warp.alive())
        emu_fail("mask", "line %d: mask %08x names lanes %08x that %s", at.line, mask,
                 mask & ~warp.alive(),
                 mask & ~warp.exist ? "do not exist" : "have returned");
    me.kind = kind, me.at = at, me.mask = mask, me.value = value;
    me.state = IN_WARP;
    bool complete = true;
    for (unsigned lane = 0; lane < 32; ++lane) {
        if (!((mask >> lane) & 1)) continue;
        const Thread& other = lanes[lane];
        if (other.state != IN_WARP) {
            complete = false;
        } else if (other.mask != mask || other.at.id != at.id) {
            emu_fail("mask", "line %d with mask %08x meets line %d with mask %08x",
                     at.line, mask, other.at.line, other.mask);
        }
    }
    if (!complete) {
        wait(IN_WARP);
        return me.gathered;
    }
    Word values[32] = {};
    for (unsigned lane = 0; lane < 32; ++lane)
        if ((mask >> lane) & 1) values[lane] = lanes[lane].value;
    for (unsigned lane = 0; lane < 32; ++lane) {
        if (!((mask >> lane) & 1)) continue;
        memcpy(lanes[lane].gathered, values, sizeof values);
        lanes[lane].state = READY;
    }
    check_warp(me.warp, mask, mask == warp.alive(), kind == SYNC_WARP);
    return me.gathered;
}

unsigned emu_active_mask() { return warps[current->warp].alive(); }

void* emu_dynamic_shared() { return dynamic_shared; }

void emu_static_shared(void* object, size_t bytes, const char* name) {
    for (void* known : static_shared)
        if (known == object) return;
    static_shared.push_back(object);
    static_bytes += bytes;
    if (static_bytes > STATIC_SHARED_LIMIT)
        emu_fail("shared", "%s brings static shared memory to %zu bytes, above %zu",
                 name, static_bytes, STATIC_SHARED_LIMIT);
    if (static_bytes + launch.dynamic_bytes > launch.shared_limit)
        emu_fail("shared",
                 "%zu static and %llu dynamic bytes of shared memory exceed %llu",
                 static_bytes, launch.dynamic_bytes, launch.shared_limit);
    memset(object, launch.poison, bytes);
    check_shared(object, bytes);
}

void emu_before_atomic(const void* address, size_t bytes, const void* pc) {
    check_atomic(address, bytes, pc);
    if (launch.preempt && random_below(100) < static_cast<unsigned>(launch.preempt))
        wait(READY);
}

void emu_fence() { check_fence(); }

#ifndef EMU_CHECK
void emu_vector_copy(void* to, const void* from, size_t bytes, const void*) {
    memcpy(to, from, bytes);
}
const char* emu_report() { return ""; }
#endif

const char* emu_failure() { return failure.c_str(); }

int emu_launch(const Launch* request) {
    launch = *request;
    failed = false;
    failure.clear();
    random_state = launch.seed * 0x9E3779B97F4A7C15ull + 1;
    emu_here.grid_size = {launch.grid[0], launch.grid[1], launch.grid[2]};
    emu_here.block_size = {launch.block[0], launch.block[1], launch.block[2]};
    n_threads = launch.block[0] * launch.block[1] * launch.block[2];
    warps.resize((n_threads + 31) / 32);
    if (threads.size() < 32 * warps.size()) threads.resize(32 * warps.size());
    // AddressSanitizer's red zone starts behind the last byte; elsewhere some room
    // keeps a kernel that writes too far from the heap
    void* shared = nullptr;
    if (launch.dynamic_bytes &&
        posix_memalign(&shared, 256, launch.dynamic_bytes + SHARED_MARGIN))
        abort();
    dynamic_shared = static_cast<char*>(shared);

    check_launch_begin(launch);
    watch_begin(reinterpret_cast<const void*>(launch.kernel->invoke), launch.timeout);
    {
        DenormalMode mode(launch.flush_denormals);
        std::vector<unsigned> turns = in_order(n_threads);
        for (unsigned block :
             in_order(launch.grid[0] * launch.grid[1] * launch.grid[2])) {
            start_block(block);
            run_block(turns);
            check_block_end();
            if (failed) break;
        }
    }
    watch_end();
    check_launch_end();
    free(shared);
    dynamic_shared = nullptr;
    return failed;
}
