#include "traffic.h"
#include "scheduler.h"
#include <algorithm>
#include <cstdio>
#include <unordered_map>
#include <vector>

namespace emu {
namespace {

struct Site {
    const void* pc;
    Space space;
    Operation operation;
    unsigned width;  // bytes per lane
    Word requests, accesses, sectors, phases, wavefronts;
};

struct Request {
    unsigned lanes = 0;
    uintptr_t address[32];
};

// The open requests of one warp at one site.
struct Open {
    unsigned seen[32] = {};  // by lane, since the warp converged
    std::vector<Request> requests;
};

std::vector<Site> sites;
std::unordered_map<Word, unsigned> site_ids;
std::vector<std::vector<Open>> open;  // by warp, then by site

unsigned site_id(const void* pc, Space space, Operation operation, unsigned width) {
    // addresses of code need less than 56 bits
    const Word key = (Word)(uintptr_t)pc << 8 | width << 3 | operation << 1 | space;
    const auto [place, is_new] = site_ids.try_emplace(key, sites.size());
    if (is_new) sites.push_back({pc, space, operation, width, 0, 0, 0, 0, 0});
    return place->second;
}

size_t count_distinct(std::vector<uintptr_t>& items) {
    std::sort(items.begin(), items.end());
    items.erase(std::unique(items.begin(), items.end()), items.end());
    return items.size();
}

// Appends the aligned pieces of `unit` bytes that the access touches.
void append_pieces(std::vector<uintptr_t>& pieces, uintptr_t address, unsigned width,
                   unsigned unit) {
    for (uintptr_t p = address / unit; p <= (address + width - 1) / unit; ++p)
        pieces.push_back(p);
}

// Global memory moves in sectors of 32 bytes.
void count_sectors(Site& site, const Request& request) {
    std::vector<uintptr_t> sectors;
    for (unsigned lane = 0; lane < 32; ++lane)
        if (request.lanes >> lane & 1)
            append_pieces(sectors, request.address[lane], site.width, 32);
    site.sectors += count_distinct(sectors);
}

// Shared memory has 32 banks of 4-byte words. A warp is served in phases that ask for
// at most 128 bytes: 8 lanes at 16 bytes, 16 lanes at 8, all 32 at 4 or less. A phase
// takes one wavefront for every different word that its busiest bank must give; lanes
// that read the same word share it. So do atomics here, though a device may serialise
// them.
void count_wavefronts(Site& site, const Request& request) {
    const unsigned lanes_per_phase = site.width > 8 ? 8 : site.width > 4 ? 16 : 32;
    for (unsigned first = 0; first < 32; first += lanes_per_phase) {
        std::vector<uintptr_t> words;
        for (unsigned lane = first; lane < first + lanes_per_phase; ++lane)
            if (request.lanes >> lane & 1)
                append_pieces(words, request.address[lane], site.width, 4);
        if (words.empty()) continue;
        count_distinct(words);
        unsigned in_bank[32] = {};
        for (uintptr_t word : words) ++in_bank[word % 32];
        ++site.phases;
        site.wavefronts += *std::max_element(in_bank, in_bank + 32);
    }
}

}  // namespace

void traffic_launch_begin() {
    sites.clear();
    site_ids.clear();
    open.clear();
}

void traffic_block_begin(unsigned n_warps) { open.resize(n_warps); }

void traffic_record(unsigned warp, unsigned lane, const void* pc, Space space,
                    Operation operation, unsigned width, uintptr_t address) {
    const unsigned id = site_id(pc, space, operation, width);
    auto& of_warp = open[warp];
    if (of_warp.size() <= id) of_warp.resize(id + 1);
    Open& here = of_warp[id];
    const unsigned turn = here.seen[lane]++;
    if (here.requests.size() <= turn) here.requests.resize(turn + 1);
    here.requests[turn].lanes |= 1u << lane;
    here.requests[turn].address[lane] = address;
}

void traffic_converge(unsigned warp) {
    for (size_t id = 0; id < open[warp].size(); ++id) {
        Open& here = open[warp][id];
        Site& site = sites[id];
        for (const Request& request : here.requests) {
            ++site.requests;
            site.accesses += __builtin_popcount(request.lanes);
            if (site.space == GLOBAL)
                count_sectors(site, request);
            else
                count_wavefronts(site, request);
        }
        here.requests.clear();
        std::fill(here.seen, here.seen + 32, 0);
    }
}

void traffic_converge_all() {
    for (unsigned warp = 0; warp < open.size(); ++warp) traffic_converge(warp);
}

std::string traffic_report() {
    std::string report;
    for (const Site& s : sites) {
        const char* operations[] = {"load", "store", "atomic"};
        char line[300];
        snprintf(line, sizeof line, "site <pc %p> %s %s %u %llu %llu %llu %llu %llu\n",
                 s.pc, s.space == SHARED ? "shared" : "global", operations[s.operation],
                 s.width, s.requests, s.accesses, s.sectors, s.phases, s.wavefronts);
        report += line;
    }
    return report;
}

}  // namespace emu
