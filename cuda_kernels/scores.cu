// scores: the sums of a float64 table for every row and column, in partition order.
//
// A thread owns one column (restart, cluster) of one row; neighbouring threads own
// neighbouring columns, so table lines are read whole. A block is (32 columns, 8 rows).
// Compiled for CODE u8, u16.

extern "C" __global__ void __launch_bounds__(256, 4)
    scores(const CODE* codes, i64 stride, i64 n_rows, const int* first_row,
           int n_partitions, const double* table, int n_columns, double* out) {
    for (i64 l = (i64)blockIdx.x * blockDim.y + threadIdx.y; l < n_rows;
         l += (i64)gridDim.x * blockDim.y) {
        for (int column = threadIdx.x; column < n_columns; column += blockDim.x) {
            double score = 0.0;
            for (int i = 0; i < n_partitions; ++i) {
                const i64 line = first_row[i] + (i64)codes[(i64)i * stride + l];
                score += __ldg(table + line * n_columns + column);
            }
            out[l * n_columns + column] = score;
        }
    }
}
