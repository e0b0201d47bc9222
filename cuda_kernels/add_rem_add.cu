// add_rem_add: climbs from many starts, each to a set that no single flip betters.
//
// A block owns one start; a thread owns every THREADS-th object, as candidate for the
// next flip. b(S) = (q total - p |S|^2) / |S| with an exact integer above the line, so
// the climb is the host's bit for bit. All threads of a block take the same decisions.
//
// states: (blocks, n) ints, 2 a(l, S) + [l in S]; the members of the last set are read
// from there. A set that some block has seen before, by its mark in `keys`, ends the
// climb; `slots` then says where `visitors` (position of the start, flips it had made)
// holds who that was. They are read when all blocks are done, so only keys are atomic.
//
// add_range: one flip of many climbs, for codes that come by range after range. The
// host decides on the next flips when all ranges were there.
//
// Compiled for CODE u8, u16: labels (r, n) if MATRIX is 0, else similarities (n, n).

#define THREADS 256
#define WARPS (THREADS / 32)

struct Found {
    i64 enter, leave;
};

// The larger change first, then the lower object.
__device__ __forceinline__ i64 pack(int change, int object) {
    return (i64)change * 4294967296LL + (u32)~object;
}

__device__ __forceinline__ int change_of(i64 packed) { return (int)(packed >> 32); }

__device__ __forceinline__ int object_of(i64 packed) { return (int)~(u32)packed; }

__device__ __forceinline__ double score(i64 total, i64 size, i64 p, i64 q) {
    return (double)(q * total - p * size * size) / (double)size;
}

// Return the slot of a set that was seen before, or -1; note one that is new.
__device__ __forceinline__ int visit(u64 mark, u64* keys, int n_slots, int n_probes,
                                     int2* visitors, int position, int flips) {
    const u64 key = mark ? mark : 1;  // 0 is an empty slot
    int at = (int)(key & (u64)(n_slots - 1));
    for (int probe = 0; probe < n_probes; ++probe) {
        const u64 there = atomicCAS(keys + at, (u64)0, key);
        if (there == key) return at;
        if (there == 0) {
            visitors[at] = make_int2(position, flips);
            return -1;
        }
        at = (at + 1) & (n_slots - 1);
    }
    return -1;
}

#if MATRIX
// Add the similarities of one object to a(l, S), or take them away.
__device__ __forceinline__ void add_row(const CODE* row, int n_samples, int sign,
                                        int* state) {
    for (int l = threadIdx.x; l < n_samples; l += THREADS)
        state[l] += sign * 2 * row[l];
}
#else
// Likewise; the object's own labels are `row`, `row_stride` apart.
__device__ __forceinline__ void add_row(const CODE* codes, i64 stride, const CODE* row,
                                        i64 row_stride, const int* n_labels,
                                        int n_partitions, int n_samples, int sign,
                                        int* labels, int* state) {
    for (int first = 0; first < n_partitions; first += THREADS) {
        const int here = min(THREADS, n_partitions - first);
        const CODE* rows = codes + first * stride;
        __syncthreads();
        if (threadIdx.x < here) {
            const int i = first + threadIdx.x;
            const int label = row[i * row_stride];
            labels[threadIdx.x] = label == n_labels[i] ? -1 : label;
        }
        __syncthreads();
        for (int l = threadIdx.x; l < n_samples; l += THREADS) {
            int same = 0;
            for (int i = 0; i < here; ++i) same += rows[i * stride + l] == labels[i];
            state[l] += sign * 2 * same;
        }
    }
}
#endif

// Return the best object to enter and to leave among those from `first` on.
__device__ __forceinline__ Found best_flips(const int* state, const int* own, int first,
                                            int n_samples, i64 (*best)[WARPS]) {
    const i64 none = -9223372036854775807LL - 1;
    Found found = {none, none};
    for (int l = threadIdx.x; l < n_samples; l += THREADS) {
        const int twice = state[l] & ~1;
        if (state[l] & 1)
            found.leave = max(found.leave, pack(own[l] - twice, first + l));
        else
            found.enter = max(found.enter, pack(own[l] + twice, first + l));
    }
    for (int step = 16; step > 0; step /= 2) {
        found.enter = max(found.enter, __shfl_xor_sync(0xffffffffu, found.enter, step));
        found.leave = max(found.leave, __shfl_xor_sync(0xffffffffu, found.leave, step));
    }
    if (threadIdx.x % 32 == 0) {
        best[0][threadIdx.x / 32] = found.enter;
        best[1][threadIdx.x / 32] = found.leave;
    }
    __syncthreads();
    for (int warp = 0; warp < WARPS; ++warp) {
        found.enter = max(found.enter, best[0][warp]);
        found.leave = max(found.leave, best[1][warp]);
    }
    return found;
}

extern "C" __global__ void __launch_bounds__(THREADS, 4)
    add_rem_add(const CODE* codes, i64 stride, const int* n_labels, int n_partitions,
                int n_samples, const int* own, const u64* marks, const int* starts,
                int first_start, i64 p, i64 q, u64* keys, int n_slots, int n_probes,
                int2* visitors, int* states, i64* totals, int* n_flips, int* slots) {
    __shared__ i64 best[2][WARPS];
    __shared__ int seen;
#if !MATRIX
    __shared__ int labels[THREADS];
#endif
    const int position = first_start + blockIdx.x;
    int* state = states + (i64)blockIdx.x * n_samples;
    for (int l = threadIdx.x; l < n_samples; l += THREADS) state[l] = 0;
    int object = starts[position], sign = 1, size = 0, flips = 0, slot = -1;
    i64 total = 0, change = own[object];
    u64 mark = 0;
    for (;;) {
        total += change;
        size += sign;
        mark ^= marks[object];
        if (threadIdx.x == 0)
            seen = visit(mark, keys, n_slots, n_probes, visitors, position, flips);
        __syncthreads();
        slot = seen;
        if (slot >= 0) break;
#if MATRIX
        add_row(codes + object * stride, n_samples, sign, state);
#else
        add_row(codes, stride, codes + object, stride, n_labels, n_partitions,
                n_samples, sign, labels, state);
#endif
        if (threadIdx.x == object % THREADS) state[object] ^= 1;
        const Found found = best_flips(state, own, 0, n_samples, best);
        double highest = score(total, size, p, q);
        sign = 0;
        if (size < n_samples) {
            const double b = score(total + change_of(found.enter), size + 1, p, q);
            if (b > highest) {
                highest = b;
                sign = 1;
                object = object_of(found.enter);
                change = change_of(found.enter);
            }
        }
        if (size > 1) {
            const double b = score(total + change_of(found.leave), size - 1, p, q);
            const int leaver = object_of(found.leave);
            if (b > highest || (b == highest && sign && leaver < object)) {
                sign = -1;
                object = leaver;
                change = change_of(found.leave);
            }
        }
        if (sign == 0) break;
        ++flips;
    }
    if (threadIdx.x == 0) {
        totals[blockIdx.x] = total;
        n_flips[blockIdx.x] = flips;
        slots[blockIdx.x] = slot;
    }
}

#if !MATRIX
// A block owns one climb: it adds the object flipped last over the `n_here` objects
// from `first` on, whose codes and labels of their own (`own`) these are, and keeps the
// best to enter and to leave of all ranges so far in best, (climbs, 2).
// flips: (3, climbs), the row of `states`, the object and the sign.
// flipped: (r, climbs), its labels.
extern "C" __global__ void __launch_bounds__(THREADS, 4)
    add_range(const CODE* codes, i64 stride, const int* n_labels, int n_partitions,
              int first, int n_here, int n_samples, const int* own, const int* flips,
              const CODE* flipped, int* states, i64* best) {
    __shared__ i64 of_warps[2][WARPS];
    __shared__ int labels[THREADS];
    const int climb = blockIdx.x, n_climbs = gridDim.x;
    const int object = flips[n_climbs + climb] - first;
    const int sign = flips[2 * n_climbs + climb];
    int* state = states + (i64)flips[climb] * n_samples + first;
    add_row(codes, stride, flipped + climb, n_climbs, n_labels, n_partitions, n_here,
            sign, labels, state);
    if (object >= 0 && object < n_here && threadIdx.x == object % THREADS)
        state[object] ^= 1;
    const Found found = best_flips(state, own, first, n_here, of_warps);
    if (threadIdx.x == 0) {
        best += 2 * climb;
        best[0] = first > 0 ? max(best[0], found.enter) : found.enter;
        best[1] = first > 0 ? max(best[1], found.leave) : found.leave;
    }
}
#endif
