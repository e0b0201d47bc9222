// soft_count: responsibilities by label, exact in units of 2^-32.
//
// Each responsibility is rounded to a multiple of 2^-32 first; the rest is integers, so
// no order matters. A block owns one partition and 32 columns (blockIdx.y) and a share
// of the rows (blockIdx.x); it sums into shared memory where the labels fit, and into
// global memory where they do not. A block is (32 columns, 8 rows). Compiled for CODE
// u8, u16.

extern "C" __global__ void __launch_bounds__(256, 4)
    soft_count(const CODE* codes, i64 stride, i64 n_rows, const int* first_row,
               int n_partitions, int shared_lines, const double* responsibilities,
               int n_columns, i64* counts) {
    extern __shared__ i64 sums[];
    const int thread = threadIdx.y * blockDim.x + threadIdx.x;
    const int n_threads = blockDim.x * blockDim.y;
    const int n_tiles = (n_columns + 31) / 32;
    for (int work = blockIdx.y; work < n_partitions * n_tiles; work += gridDim.y) {
        const int i = work / n_tiles, column = 32 * (work % n_tiles) + threadIdx.x;
        const int first = first_row[i], n_lines = first_row[i + 1] - first;
        const bool fits = n_lines <= shared_lines;
        const int bins = fits ? 32 * n_lines : 0;
        for (int b = thread; b < bins; b += n_threads) sums[b] = 0;
        __syncthreads();
        for (i64 l = (i64)blockIdx.x * blockDim.y + threadIdx.y; l < n_rows;
             l += (i64)gridDim.x * blockDim.y) {
            if (column >= n_columns) continue;
            const double share = responsibilities[l * n_columns + column];
            const i64 units = (i64)rint(share * 4294967296.0);
            const i64 label = codes[(i64)i * stride + l];
            if (fits)
                gpc_add(sums + 32 * label + threadIdx.x, units);
            else
                gpc_add(counts + (first + label) * n_columns + column, units);
        }
        __syncthreads();
        for (int b = thread; b < bins; b += n_threads) {
            const int at = 32 * (work % n_tiles) + b % 32;
            if (at < n_columns && sums[b])
                gpc_add(counts + (i64)(first + b / 32) * n_columns + at, sums[b]);
        }
        __syncthreads();
    }
}
