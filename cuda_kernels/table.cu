// table: from counts n_kj to the table w_i f(e_j, m_k), bit for bit that of the host.
//
// Only IEEE operations that round alike everywhere: + - * / sqrt in float64, integer
// sums, and the logarithm of the prelude. Tiny values become zero, since kernels are
// compiled with -ftz.
//
// A cluster without any member in a partition takes the partition's marginal counts.
//
// Compiled with UTILITY_C, UTILITY_H, UTILITY_COS or UTILITY_LP.

// Sums over the labels of each partition. A thread owns one (partition, column).
extern "C" __global__ void __launch_bounds__(256, 4)
    table_sums(const i64* counts, const i64* marginals, const int* first_row,
               int n_partitions, int n_columns, i64* size, i64* square, u8* empty) {
    const i64 n = (i64)n_partitions * n_columns;
    for (i64 t = (i64)blockIdx.x * blockDim.x + threadIdx.x; t < n;
         t += (i64)gridDim.x * blockDim.x) {
        const int i = t / n_columns, column = t % n_columns;
        const int begin = first_row[i], missing = first_row[i + 1] - 1;
        i64 sum = 0, squares = 0;
        for (int row = begin; row < missing; ++row) {
            const i64 found = counts[(i64)row * n_columns + column];
            sum += found;
            squares += found * found;
        }
        empty[t] = sum == 0;
        if (sum == 0) {
            for (int row = begin; row < missing; ++row) {
                sum += marginals[row];
                squares += marginals[row] * marginals[row];
            }
        }
        size[t] = sum;
        square[t] = squares;
    }
}

__device__ __forceinline__ double power(double x, int exponent) {
    double result = x;
    for (int bit = 30 - __clz(exponent); bit >= 0; --bit) {
        result = result * result;
        if ((exponent >> bit) & 1) result = result * x;
    }
    return result;
}

// f(e_j, m_k) by the name of the utility; only one is compiled.
__device__ __forceinline__ double divergence(double n, double size, double square,
                                             double norm, int p) {
#if defined(UTILITY_C)
    const double share = n / size;
    return (1.0 - 2.0 * share) + square / (size * size);
#elif defined(UTILITY_H)
    const double share = n / size;
    return -gpc_log2(share > 2.220446049250313e-16 ? share : 2.220446049250313e-16);
#elif defined(UTILITY_COS)
    return 1.0 - n / sqrt(square);
#else
    return 1.0 - power(n / norm, p - 1);
#endif
}

// A thread owns one column of one table row. `norm` is only read for lP.
extern "C" __global__ void __launch_bounds__(256, 4)
    table(const i64* counts, const i64* marginals, const int* first_row,
          const int* partition_of, int n_rows, int n_columns, const i64* size,
          const i64* square, const u8* empty, const double* weight, const double* norm,
          int p, float* out) {
    const i64 n = (i64)n_rows * n_columns;
    for (i64 t = (i64)blockIdx.x * blockDim.x + threadIdx.x; t < n;
         t += (i64)gridDim.x * blockDim.x) {
        const int row = t / n_columns, column = t % n_columns, i = partition_of[row];
        float entry = 0.0f;
        if (row != first_row[i + 1] - 1) {
            const i64 at = (i64)i * n_columns + column;
            const i64 found = empty[at] ? marginals[row] : counts[t];
            // a partition in which nothing is present says nothing
            if (size[at] == 0) {
                out[t] = 0.0f;
                continue;
            }
            const double value =
                weight[i] * divergence((double)found, (double)size[at],
                                       (double)square[at], norm ? norm[at] : 0.0, p);
            entry = (float)value;
            if (fabsf(entry) < 1.17549435e-38f) entry = 0.0f;
        }
        out[t] = entry;
    }
}
