// count and recount: objects by label and cluster, as exact integers.
//
// A block owns one group of partitions and one restart (blockIdx.y) and a share of the
// rows (blockIdx.x). It counts into a histogram in shared memory and adds that to the
// counts once, at the end. A partition whose histogram does not fit is counted straight
// into global memory.
//
// With `before`, only rows whose cluster changed are looked at: -1 for the old cluster,
// +1 for the new one. Without it, every row is new. A cluster number of n_clusters or
// more means "not counted".
//
// Compiled for CODE (u8, u16) and CLUSTER (u8, u16, u32).

extern "C" __global__ void __launch_bounds__(256, 4)
    count(const CODE* codes, i64 stride, i64 row_begin, i64 row_end,
          const int* first_row, const int* groups, int n_groups, int shared_bins,
          const CLUSTER* before, const CLUSTER* after, int n_restarts, int n_clusters,
          i64* counts) {
    extern __shared__ int histogram[];
    const i64 n_rows = row_end - row_begin;
    for (int work = blockIdx.y; work < n_groups * n_restarts; work += gridDim.y) {
        const int g = work / n_restarts, q = work % n_restarts;
        const int begin = groups[g], end = groups[g + 1], first = first_row[begin];
        const int n_lines = first_row[end] - first;
        const bool fits = (i64)n_lines * n_clusters <= shared_bins;
        const int bins = fits ? n_lines * n_clusters : 0;
        for (int b = threadIdx.x; b < bins; b += blockDim.x) histogram[b] = 0;
        __syncthreads();
        for (i64 l = (i64)blockIdx.x * blockDim.x + threadIdx.x; l < n_rows;
             l += (i64)gridDim.x * blockDim.x) {
            const u32 is = after[q * n_rows + l];
            const u32 was = before ? before[q * n_rows + l] : n_clusters;
            if (is == was) continue;
            for (int i = begin; i < end; ++i) {
                const int label = codes[(i64)i * stride + row_begin + l];
                const i64 line = first_row[i] - first + label;
                if (fits) {
                    int* bin = histogram + line * n_clusters;
                    if (is < n_clusters) atomicAdd(bin + is, 1);
                    if (was < n_clusters) atomicAdd(bin + was, -1);
                } else {
                    i64* bin = counts + ((first + line) * n_restarts + q) * n_clusters;
                    if (is < n_clusters) gpc_add(bin + is, 1);
                    if (was < n_clusters) gpc_add(bin + was, -1);
                }
            }
        }
        __syncthreads();
        for (int b = threadIdx.x; b < bins; b += blockDim.x) {
            const i64 line = first + b / n_clusters;
            const int found = histogram[b];
            if (found)
                gpc_add(counts + (line * n_restarts + q) * n_clusters + b % n_clusters,
                        found);
        }
        __syncthreads();
    }
}
