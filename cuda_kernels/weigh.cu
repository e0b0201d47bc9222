// weigh and reweigh: the weights of the objects that are missing in each partition, by
// cluster.
//
// A thread owns one row. With `before`, only restarts in which its cluster changed are
// looked at: the weight leaves the old cluster and enters the new one. Without it,
// every row is new. A cluster number of n_clusters or more means "not counted". Sums
// are exact integers, so no order matters.
//
// Compiled for CODE (u8, u16) and CLUSTER (u8, u16, u32).

extern "C" __global__ void __launch_bounds__(256, 4)
    weigh(const CODE* codes, i64 stride, i64 row_begin, i64 row_end,
          const int* first_row, int n_partitions, const CLUSTER* before,
          const CLUSTER* after, const i64* row_weight, int n_restarts, int n_clusters,
          i64* out) {
    const i64 n_rows = row_end - row_begin;
    for (i64 l = (i64)blockIdx.x * blockDim.x + threadIdx.x; l < n_rows;
         l += (i64)gridDim.x * blockDim.x) {
        for (int q = 0; q < n_restarts; ++q) {
            const u32 is = after[q * n_rows + l];
            const u32 was = before ? before[q * n_rows + l] : n_clusters;
            if (is == was) continue;
            for (int i = 0; i < n_partitions; ++i) {
                const int label = codes[(i64)i * stride + row_begin + l];
                if (first_row[i] + label != first_row[i + 1] - 1) continue;
                i64* sums = out + ((i64)i * n_restarts + q) * n_clusters;
                if (is < n_clusters) gpc_add(sums + is, row_weight[l]);
                if (was < n_clusters) gpc_add(sums + was, -row_weight[l]);
            }
        }
    }
}
