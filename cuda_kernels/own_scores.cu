// own_scores: what it costs every row to stay in the cluster that it is in.
//
// A thread owns one row and up to TOGETHER restarts of it, so that a label is read once
// for all of them; the entries of the table come from the cache. They are added in
// partition order, in float32: every bit is that of the host. The column of the cluster
// goes with the sum, so that `assign` need not know the type of cluster numbers. A
// cluster number of n_clusters or more means "not counted": the column is -1 and the
// sum minus infinity, below which no score falls.
//
// Compiled for CODE (u8, u16) and CLUSTER (u8, u16, u32).

#define TOGETHER 4

extern "C" __global__ void __launch_bounds__(256, 4)
    own_scores(const CODE* codes, i64 stride, i64 n_rows, const int* first_row,
               int n_partitions, const CLUSTER* own, const float* stay, int n_restarts,
               int n_clusters, int* own_column, float* own_score, i64 out_stride) {
    const i64 n_columns = (i64)n_restarts * n_clusters;
    const int first = blockIdx.y * TOGETHER;
    for (i64 l = (i64)blockIdx.x * blockDim.x + threadIdx.x; l < n_rows;
         l += (i64)gridDim.x * blockDim.x) {
        for (int q = first; q < n_restarts; q += gridDim.y * TOGETHER) {
            int column[TOGETHER];
            float score[TOGETHER];
#pragma unroll
            for (int t = 0; t < TOGETHER; ++t) {
                const u32 k =
                    q + t < n_restarts ? own[(q + t) * n_rows + l] : n_clusters;
                column[t] = k < n_clusters ? (q + t) * n_clusters + (int)k : -1;
                score[t] = 0.0f;
            }
            for (int i = 0; i < n_partitions; ++i) {
                const i64 line = first_row[i] + (i64)codes[(i64)i * stride + l];
                const float* entries = stay + line * n_columns;
#pragma unroll
                for (int t = 0; t < TOGETHER; ++t)
                    if (column[t] >= 0) score[t] += __ldg(entries + column[t]);
            }
#pragma unroll
            for (int t = 0; t < TOGETHER; ++t) {
                if (q + t >= n_restarts) continue;
                const i64 at = (q + t) * n_rows + l;
                own_column[at] = column[t];
                own_score[(q + t) * out_stride + l] =
                    column[t] < 0 ? __int_as_float(0xff800000) : score[t];
            }
        }
    }
}
