// Check mode: the kernel is compiled with -fsanitize=thread, whose hooks are ours, so
// we see every access. Out of bounds and misaligned accesses end the launch; data races
// and reads of shared memory that nobody wrote are collected.
#include "scheduler.h"
#include "traffic.h"
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace emu {
namespace {

// One access, as the next ones remember it.
struct Access {
    unsigned block = 0;  // counted from 1 in the order of execution; 0: none
    unsigned thread = 0;
    unsigned epoch = 0;  // barriers of the block before it
    unsigned clock = 0;  // of the thread, advanced by __syncwarp
    Word time = 0;
    const void* pc = nullptr;
    Operation operation = LOAD;
};

// What a race needs to know of a piece of memory: the last write and two reads that
// nothing orders. Two suffice: reads of different warps conflict with any later write
// in the same epoch.
struct Cell {
    Access write, read[2];
};

// Shadow of 4 KiB. Cells cover 4 bytes until a narrower access splits them, because
// neighbouring threads may well own neighbouring bytes.
struct Page {
    unsigned bytes_per_cell = 4;
    std::vector<Cell> cells = std::vector<Cell>(PAGE_BYTES / 4);
    static constexpr unsigned PAGE_BYTES = 4096;

    void split() {
        std::vector<Cell> bytes;
        bytes.reserve(PAGE_BYTES);
        for (const Cell& cell : cells) bytes.insert(bytes.end(), 4, cell);
        cells.swap(bytes);
        bytes_per_cell = 1;
    }
};

struct Fence {
    unsigned thread, epoch;
    Word time;
};

// A block that fenced its writes and then made an atomic access publishes them; another
// block whose atomic access finds the same word afterwards may read them.
struct Release {
    unsigned block, thread, epoch;
    Word time;
};
struct Acquire {
    Release release;
    unsigned thread, epoch;
};

using RaceKey = std::tuple<const void*, const void*, int, int, int>;
struct Race {
    unsigned count = 0;
    Access first, second;
};

std::unordered_map<uintptr_t, std::unique_ptr<Page>> shadow;
std::vector<Range> allocations;
std::vector<Range> shared_objects;
Range constants;
std::map<RaceKey, Race> races;
std::map<const void*, unsigned> unwritten;  // reads of shared memory, by pc
unsigned block, epoch;
Word now;
std::vector<unsigned> clocks;  // [warp][lane][lane]: what a lane knows of the others
std::unordered_map<unsigned, std::vector<Fence>> fences;       // by block
std::unordered_map<uintptr_t, std::vector<Release>> releases;  // by word
std::vector<Acquire> acquired;                                 // by this block
std::string report;

unsigned& clock_of(unsigned warp, unsigned lane, unsigned other) {
    return clocks[(warp * 32 + lane) * 32 + other];
}

bool published(const Access& access, const Release& release) {
    if (access.thread != release.thread && access.epoch >= release.epoch) return false;
    for (const Fence& fence : fences[access.block]) {
        if (fence.time > release.time) continue;
        if (fence.thread == access.thread && fence.time > access.time) return true;
        if (fence.thread == release.thread && fence.epoch > access.epoch) return true;
    }
    return false;
}

bool happens_before(const Access& before, const Access& after, Space space) {
    if (before.block == 0) return true;
    if (before.block != after.block) {
        if (space == SHARED) return true;  // another block's memory, long gone
        for (const Acquire& a : acquired)
            if (a.release.block == before.block &&
                (after.thread == a.thread || after.epoch > a.epoch) &&
                published(before, a.release))
                return true;
        return false;
    }
    if (before.thread == after.thread || before.epoch < after.epoch) return true;
    const unsigned warp = after.thread / 32;
    if (before.thread / 32 != warp) return false;
    return before.clock <= clock_of(warp, after.thread % 32, before.thread % 32);
}

void compare(const Access& before, const Access& after, Space space) {
    if (before.operation == ATOMIC && after.operation == ATOMIC) return;
    if (happens_before(before, after, space)) return;
    Race& race = races[{before.pc, after.pc, before.operation, after.operation, space}];
    if (race.count++ == 0) race.first = before, race.second = after;
}

bool same_warp(const Access& a, const Access& b) {
    return a.block == b.block && a.thread / 32 == b.thread / 32;
}

void remember_read(Cell& cell, const Access& me, Space space) {
    // an earlier read that is ordered before this one can race with nothing that this
    // one does not race with
    for (Access& slot : cell.read)
        if (happens_before(slot, me, space)) {
            slot = me;
            return;
        }
    if (same_warp(cell.read[0], cell.read[1])) cell.read[1] = me;
}

void visit(Cell& cell, const Access& me, Space space) {
    const bool reads = me.operation != STORE, writes = me.operation != LOAD;
    if (reads && space == SHARED && cell.write.block != me.block) ++unwritten[me.pc];
    compare(cell.write, me, space);
    if (writes) {
        compare(cell.read[0], me, space);
        compare(cell.read[1], me, space);
        cell.write = me;
    } else {
        remember_read(cell, me, space);
    }
}

void update_shadow(uintptr_t address, unsigned width, const Access& me, Space space) {
    const uintptr_t end = address + width;
    while (address < end) {
        auto& page = shadow[address / Page::PAGE_BYTES];
        if (!page) page = std::make_unique<Page>();
        if (page->bytes_per_cell == 4 && (address % 4 || end - address < 4))
            page->split();
        visit(page->cells[address % Page::PAGE_BYTES / page->bytes_per_cell], me,
              space);
        address += page->bytes_per_cell;
    }
}

// Says how far the address is from the nearest memory that it may have meant.
[[noreturn]] void fail_bounds(uintptr_t address, unsigned width, Operation operation,
                              const void* pc) {
    const char* operations[] = {"read", "write", "atomic access"};
    const Range* nearest = nullptr;
    const char* name = "allocation";
    Word distance = ~0ull;
    const auto look = [&](const std::vector<Range>& ranges, const char* kind) {
        for (const Range& r : ranges) {
            const Word d = address < r.begin ? r.begin - address : address - r.begin;
            if (d < distance) distance = d, nearest = &r, name = kind;
        }
    };
    look(allocations, "allocation");
    look(shared_objects, "shared object");
    emu_fail("bounds", "%s of %u bytes at <pc %p> at offset %lld of %s of %zu bytes",
             operations[operation], width, pc,
             nearest ? (long long)(address - nearest->begin) : 0, name,
             nearest ? (size_t)(nearest->end - nearest->begin) : 0);
}

bool within(const std::vector<Range>& ranges, uintptr_t address, unsigned width) {
    for (const Range& range : ranges)
        if (range.contains(address)) return range.end - address >= width;
    return false;
}

void access(const void* pointer, unsigned width, Operation operation, const void* pc) {
    const Thread* me = current;
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    if (!me) return;
    if (address - reinterpret_cast<uintptr_t>(me->stack) < STACK_BYTES)
        return;  // local
    Space space = SHARED;
    if (!within(shared_objects, address, width)) {
        space = GLOBAL;
        if (!within(allocations, address, width)) {
            if (operation == LOAD && constants.contains(address)) return;
            if (address - reinterpret_cast<uintptr_t>(&emu_here) < sizeof(Here)) return;
            fail_bounds(address, width, operation, pc);
        }
    }
    if (address % width)
        emu_fail("misaligned", "access of %u bytes at <pc %p> is not aligned", width,
                 pc);
    const unsigned clock = clock_of(me->warp, me->lane, me->lane);
    update_shadow(address, width,
                  {block, me->linear, epoch, clock, ++now, pc, operation}, space);
    traffic_record(me->warp, me->lane, pc, space, operation, width, address);
}

// A large copy becomes the widest vector accesses that its alignment allows.
void access_range(const void* pointer, size_t bytes, Operation operation,
                  const void* pc) {
    auto address = reinterpret_cast<uintptr_t>(pointer);
    while (bytes) {
        unsigned width = 16;
        while (address % width || width > bytes) width /= 2;
        access(reinterpret_cast<const void*>(address), width, operation, pc);
        address += width;
        bytes -= width;
    }
}

}  // namespace

void check_launch_begin(const Launch& launch) {
    constants =
        module_range(reinterpret_cast<const void*>(launch.kernel->invoke), true);
    allocations.clear();
    for (Word i = 0; i < launch.n_allocations; ++i) {
        const uintptr_t begin = launch.allocations[2 * i];
        allocations.push_back({begin, begin + launch.allocations[2 * i + 1]});
    }
    shadow.clear();
    races.clear();
    unwritten.clear();
    fences.clear();
    releases.clear();
    report.clear();
    block = 0;
    traffic_launch_begin();
}

void check_block_begin(unsigned n_threads) {
    ++block;
    epoch = 1;
    acquired.clear();
    shared_objects.clear();
    const unsigned n_warps = (n_threads + 31) / 32;
    clocks.assign(n_warps * 1024, 0);
    for (unsigned warp = 0; warp < n_warps; ++warp)
        for (unsigned lane = 0; lane < 32; ++lane) clock_of(warp, lane, lane) = 1;
    traffic_block_begin(n_warps);
}

void check_block_end() { traffic_converge_all(); }

void check_barrier() {
    ++epoch;
    traffic_converge_all();
}

void check_warp(unsigned warp, unsigned mask, bool whole_warp, bool orders_memory) {
    if (whole_warp) traffic_converge(warp);
    if (!orders_memory) return;  // shuffles and votes promise nothing about memory
    unsigned joined[32] = {};
    for (unsigned lane = 0; lane < 32; ++lane)
        if (mask >> lane & 1)
            for (unsigned other = 0; other < 32; ++other)
                joined[other] = std::max(joined[other], clock_of(warp, lane, other));
    for (unsigned lane = 0; lane < 32; ++lane)
        if (mask >> lane & 1) {
            std::copy(joined, joined + 32, &clock_of(warp, lane, 0));
            ++clock_of(warp, lane, lane);
        }
}

void check_shared(void* object, size_t bytes) {
    const auto begin = reinterpret_cast<uintptr_t>(object);
    shared_objects.push_back({begin, begin + bytes});
}

void check_atomic(const void* address, size_t bytes, const void* pc) {
    access(address, static_cast<unsigned>(bytes), ATOMIC, pc);
    const unsigned me = current->linear;
    const bool releasing = fences.count(block);
    const auto found = releases.find(reinterpret_cast<uintptr_t>(address));
    if (found == releases.end() && !releasing) return;
    auto& of_word = releases[reinterpret_cast<uintptr_t>(address)];
    for (const Release& release : of_word)
        if (release.block != block) acquired.push_back({release, me, epoch});
    if (releasing) of_word.push_back({block, me, epoch, now});
}

void check_fence() { fences[block].push_back({current->linear, epoch, ++now}); }

void check_launch_end() {
    char line[400];
    const char* operations[] = {"load", "store", "atomic"};
    for (const auto& [key, race] : races) {
        snprintf(line, sizeof line, "race %s %s <pc %p> %u %u %s <pc %p> %u %u %u\n",
                 std::get<4>(key) == SHARED ? "shared" : "global",
                 operations[race.first.operation], race.first.pc, race.first.block,
                 race.first.thread, operations[race.second.operation], race.second.pc,
                 race.second.block, race.second.thread, race.count);
        report += line;
    }
    for (const auto& [pc, count] : unwritten) {
        snprintf(line, sizeof line, "unwritten <pc %p> %u\n", pc, count);
        report += line;
    }
    report += traffic_report();
}

}  // namespace emu

using namespace emu;

const char* emu_report() { return report.c_str(); }

void emu_vector_copy(void* to, const void* from, size_t bytes, const void* pc) {
    access(from, static_cast<unsigned>(bytes), LOAD, pc);
    access(to, static_cast<unsigned>(bytes), STORE, pc);
    memcpy(to, from, bytes);
}

// The compiler's hooks.
#define EMU_HOOK(width)                                       \
    EMU_API void __tsan_read##width(void* p) {                \
        access(p, width, LOAD, __builtin_return_address(0));  \
    }                                                         \
    EMU_API void __tsan_write##width(void* p) {               \
        access(p, width, STORE, __builtin_return_address(0)); \
    }
#define EMU_UNALIGNED_HOOK(width)                                   \
    EMU_API void __tsan_unaligned_read##width(void* p) {            \
        access_range(p, width, LOAD, __builtin_return_address(0));  \
    }                                                               \
    EMU_API void __tsan_unaligned_write##width(void* p) {           \
        access_range(p, width, STORE, __builtin_return_address(0)); \
    }
EMU_HOOK(1)
EMU_HOOK(2)
EMU_HOOK(4)
EMU_HOOK(8)
EMU_HOOK(16)
EMU_UNALIGNED_HOOK(2)
EMU_UNALIGNED_HOOK(4)
EMU_UNALIGNED_HOOK(8)
EMU_UNALIGNED_HOOK(16)
EMU_API void __tsan_read_range(void* p, unsigned long bytes) {
    access_range(p, bytes, LOAD, __builtin_return_address(0));
}
EMU_API void __tsan_write_range(void* p, unsigned long bytes) {
    access_range(p, bytes, STORE, __builtin_return_address(0));
}
EMU_API void __tsan_init() {}
EMU_API void __tsan_func_entry(void*) {}
EMU_API void __tsan_func_exit() {}
EMU_API void __tsan_vptr_update(void**, void*) {}
EMU_API void __tsan_vptr_read(void**) {}
