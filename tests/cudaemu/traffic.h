// Memory traffic by source line (check mode): what the memory system of a GPU would be
// asked for. Accesses of the lanes of a warp at the same instruction form one request
// when each lane makes them as its k-th since the warp last converged.
#pragma once
#include <cstdint>
#include <string>

namespace emu {

enum Space { GLOBAL, SHARED };
enum Operation { LOAD, STORE, ATOMIC };

void traffic_launch_begin();
void traffic_block_begin(unsigned n_warps);
void traffic_record(unsigned warp, unsigned lane, const void* pc, Space space,
                    Operation operation, unsigned width, uintptr_t address);
// The lanes of a warp meet again: their open requests are complete.
void traffic_converge(unsigned warp);
void traffic_converge_all();
// "site <pc> <space> <operation> <width> <requests> <accesses> <sectors> <phases>
// <wavefronts>" by line; pc as an offset into its file.
std::string traffic_report();

}  // namespace emu
