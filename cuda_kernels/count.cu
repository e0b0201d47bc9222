// count and recount: objects by label and cluster, as exact integers.
//
// A block owns one group of partitions in one restart (blockIdx.x) and a range of rows
// (blockIdx.y), so that blocks which run together read the same labels, from the cache.
// It counts into a histogram in shared memory and adds that to the counts once, at the
// end. A partition whose histogram does not fit is counted straight into global memory.
//
// A thread takes four rows that lie side by side, with one load for their clusters and
// one for their labels in each of up to four partitions, all of them before the first
// atomic operation.
//
// With `before`, only rows whose cluster changed count: -1 for the old cluster, +1 for
// the new one. They may be few, so they are queued in shared memory first, and whole
// warps work through the queue. Without it, every row is new. A cluster number of
// n_clusters or more means "not counted".
//
// Compiled for CODE (u8, u16) and CLUSTER (u8, u16, u32).

#define THREADS 256
#define TOGETHER 4  // partitions whose labels are loaded together
#define PACKS (sizeof(CLUSTER) == 4 ? 1 : 2)  // of four rows, compared at once
#define QUEUE (12 * 256)  // rows: those of a scan, and some that wait

// Four values that lie side by side.
template <typename T>
struct alignas(4 * sizeof(T)) Pack {
    u32 words[sizeof(T)];
};

template <typename T>
__device__ __forceinline__ u32 value(const Pack<T>& pack, int j) {
    const u32 word = pack.words[j * sizeof(T) / 4] >> (8 * (j * sizeof(T) % 4));
    return sizeof(T) == 4 ? word : word & ((1u << (8 * sizeof(T) % 32)) - 1);
}

// One load where the address allows it. Behind the last of `n_left` values, that one is
// repeated.
template <typename T>
__device__ __forceinline__ Pack<T> load_four(const T* from, i64 n_left) {
    if (n_left >= 4 && (u64)from % sizeof(Pack<T>) == 0) return *(const Pack<T>*)from;
    Pack<T> pack = {};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const u32 x = from[j < n_left ? j : n_left - 1];
        pack.words[j * sizeof(T) / 4] |= x << (8 * (j * sizeof(T) % 4));
    }
    return pack;
}

// What a block works on.
struct Work {
    const CODE* codes;  // row l of partition i is codes[i * stride + l]
    i64 stride;
    const int* first_row;
    int begin, end;  // partitions
    const CLUSTER *before, *after;
    i64 row_begin, row_end;
    int n_clusters;
};

__device__ __forceinline__ void count_new(const Work& w, int* histogram) {
    for (i64 l = w.row_begin + 4 * threadIdx.x; l < w.row_end; l += 4 * THREADS) {
        const i64 n_left = w.row_end - l;
        const Pack<CLUSTER> is = load_four(w.after + l, n_left);
        for (int i = w.begin; i < w.end; i += TOGETHER) {
            int line[TOGETHER];
            Pack<CODE> labels[TOGETHER];
#pragma unroll
            for (int t = 0; t < TOGETHER; ++t) {
                if (i + t >= w.end) break;
                line[t] = w.first_row[i + t] - w.first_row[w.begin];
                labels[t] = load_four(w.codes + (i64)(i + t) * w.stride + l, n_left);
            }
#pragma unroll
            for (int t = 0; t < TOGETHER; ++t) {
                if (i + t >= w.end) break;
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const u32 k = value(is, j), label = value(labels[t], j);
                    if (j < n_left && k < w.n_clusters)
                        atomicAdd(histogram + (line[t] + label) * w.n_clusters + k, 1);
                }
            }
        }
    }
}

__device__ __forceinline__ void count_moved(const Work& w, int* histogram, i64 l) {
    const u32 is = w.after[l], was = w.before[l];
    for (int i = w.begin; i < w.end; i += TOGETHER) {
        int line[TOGETHER];
        u32 labels[TOGETHER];
#pragma unroll
        for (int t = 0; t < TOGETHER; ++t) {
            if (i + t >= w.end) break;
            line[t] = w.first_row[i + t] - w.first_row[w.begin];
            labels[t] = w.codes[(i64)(i + t) * w.stride + l];
        }
#pragma unroll
        for (int t = 0; t < TOGETHER; ++t) {
            if (i + t >= w.end) break;
            int* bin = histogram + (line[t] + labels[t]) * w.n_clusters;
            if (is < w.n_clusters) atomicAdd(bin + is, 1);
            if (was < w.n_clusters) atomicAdd(bin + was, -1);
        }
    }
}

// `queue` has room for QUEUE rows, and `fill` for how many there are.
__device__ __forceinline__ void count_all_moved(const Work& w, int* histogram,
                                                u32* queue, int* fill) {
    const int scan = 4 * PACKS * THREADS;
    if (threadIdx.x == 0) *fill = 0;
    for (i64 first = w.row_begin; first < w.row_end; first += scan) {
        Pack<CLUSTER> is[PACKS], was[PACKS];
#pragma unroll
        for (int t = 0; t < PACKS; ++t) {
            const i64 l = first + 4 * (t * THREADS + threadIdx.x);
            if (l >= w.row_end) continue;
            is[t] = load_four(w.after + l, w.row_end - l);
            was[t] = load_four(w.before + l, w.row_end - l);
        }
        __syncthreads();  // the queue is empty, or has been read
#pragma unroll
        for (int t = 0; t < PACKS; ++t) {
            const i64 l = first + 4 * (t * THREADS + threadIdx.x);
#pragma unroll
            for (int j = 0; j < 4; ++j)
                if (l + j < w.row_end && value(is[t], j) != value(was[t], j))
                    queue[atomicAdd(fill, 1)] = (u32)(l + j - w.row_begin);
        }
        __syncthreads();
        const int queued = *fill;
        if (queued <= QUEUE - scan && first + scan < w.row_end) continue;
        for (int e = threadIdx.x; e < queued; e += THREADS)
            count_moved(w, histogram, w.row_begin + queue[e]);
        __syncthreads();
        if (threadIdx.x == 0) *fill = 0;
    }
}

// Straight into global memory.
__device__ __forceinline__ void count_globally(const Work& w, int n_restarts, int q,
                                               i64* counts) {
    for (i64 l = w.row_begin + threadIdx.x; l < w.row_end; l += THREADS) {
        const u32 is = w.after[l], was = w.before ? w.before[l] : w.n_clusters;
        if (is == was) continue;
        for (int i = w.begin; i < w.end; ++i) {
            const i64 line = w.first_row[i] + (i64)w.codes[(i64)i * w.stride + l];
            i64* bin = counts + (line * n_restarts + q) * w.n_clusters;
            if (is < w.n_clusters) gpc_add(bin + is, 1);
            if (was < w.n_clusters) gpc_add(bin + was, -1);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 4)
    count(const CODE* codes, i64 stride, i64 n_rows, const int* first_row,
          const int* groups, int shared_bins, i64 rows_of_block, const CLUSTER* before,
          const CLUSTER* after, int n_restarts, int n_clusters, i64* counts) {
    extern __shared__ int histogram[];
    const int g = blockIdx.x / n_restarts, q = blockIdx.x % n_restarts;
    const i64 row_begin = blockIdx.y * rows_of_block;
    const i64 row_end = min(row_begin + rows_of_block, n_rows);
    const Work w = {codes,
                    stride,
                    first_row,
                    groups[g],
                    groups[g + 1],
                    before ? before + q * n_rows : before,
                    after + q * n_rows,
                    row_begin,
                    row_end,
                    n_clusters};
    const int first = first_row[w.begin];
    const i64 bins = (i64)(first_row[w.end] - first) * n_clusters;
    if (bins > shared_bins) {
        count_globally(w, n_restarts, q, counts);
        return;
    }
    for (int b = threadIdx.x; b < bins; b += THREADS) histogram[b] = 0;
    __syncthreads();
    if (before)
        count_all_moved(w, histogram, (u32*)histogram + shared_bins + 1,
                        histogram + shared_bins);
    else
        count_new(w, histogram);
    __syncthreads();
    for (int b = threadIdx.x; b < bins; b += THREADS) {
        const i64 line = first + b / n_clusters;
        const int found = histogram[b];
        if (found)
            gpc_add(counts + (line * n_restarts + q) * n_clusters + b % n_clusters,
                    found);
    }
}
