// table: from counts n_kj to the table w_i f(e_j, m_k), bit for bit that of the host.
//
// Only IEEE operations that round alike everywhere: + - * / sqrt in float64, integer
// sums, and the logarithm of the prelude. Values below 2^-100 become zero, so that no
// sum of entries is subnormal: kernels are compiled with -ftz.
//
// A cluster without any member in a partition takes the partition's marginal counts.
//
// Compiled with UTILITY_C, _H, _H_SMOOTH, _COS, _LP, _IVC, _IPVC, _SEC or _SEC_ROW. For
// IVC, `square` holds the row of the majority label instead of a sum.

__device__ __forceinline__ float as_entry(double value) {
    const float entry = (float)value;
    return fabsf(entry) < 0x1p-100f ? 0.0f : entry;
}

struct Sums {
    i64 size, square, most, marginal_weighted;
};

__device__ __forceinline__ void add(Sums& sums, int row, i64 found) {
    sums.size += found;
#if defined(UTILITY_IVC)
    if (found > sums.most) {  // ties to the lowest label
        sums.most = found;
        sums.square = row;
    }
#else
    sums.square += found * found;
#endif
}

// Sums over the labels of each partition. A thread owns one (partition, column). For
// SEC, `marginal_weighted` is the weight that the members get from this partition.
extern "C" __global__ void __launch_bounds__(256, 4)
    table_sums(const i64* counts, const i64* marginals, const int* first_row,
               int n_partitions, int n_columns, i64* size, i64* square, u8* empty,
               i64* marginal_weighted) {
    const i64 n = (i64)n_partitions * n_columns;
    for (i64 t = (i64)blockIdx.x * blockDim.x + threadIdx.x; t < n;
         t += (i64)gridDim.x * blockDim.x) {
        const int i = t / n_columns, column = t % n_columns;
        const int begin = first_row[i], missing = first_row[i + 1] - 1;
        Sums sums = {0, 0, 0, 0};
        for (int row = begin; row < missing; ++row) {
            const i64 found = counts[(i64)row * n_columns + column];
            add(sums, row, found);
#if defined(UTILITY_SEC)
            sums.marginal_weighted += found * marginals[row];
#endif
        }
#if defined(UTILITY_SEC)
        marginal_weighted[t] = sums.marginal_weighted;
#endif
        empty[t] = sums.size == 0;
        if (sums.size == 0)
            for (int row = begin; row < missing; ++row) add(sums, row, marginals[row]);
        size[t] = sums.size;
        square[t] = sums.square;
    }
}

#if defined(UTILITY_SEC)
// Norms W_k^(i): the weight of the members that are present in each partition. A thread
// owns one column. `row_sum`, of complete data, is sum_i A_k / W_k^2. Where nothing is
// present a norm may be 0; the table says nothing there.
extern "C" __global__ void __launch_bounds__(32, 16)
    table_norm(const i64* square, const u8* empty, const i64* marginal_weighted,
               const i64* absent, const i64* present_weight, int n_partitions,
               int n_columns, double* norm, float* row_sum) {
    for (int column = blockIdx.x * blockDim.x + threadIdx.x; column < n_columns;
         column += gridDim.x * blockDim.x) {
        i64 weight = 0, squares = 0;
        for (int i = 0; i < n_partitions; ++i) {
            const i64 at = (i64)i * n_columns + column;
            weight += marginal_weighted[at];
            squares += square[at];
        }
        for (int i = 0; i < n_partitions; ++i) {
            const i64 at = (i64)i * n_columns + column;
            i64 here = absent ? weight - absent[at] : weight;
            if (empty[at]) here = present_weight[i];  // to go with the marginals
            norm[at] = (double)here;
        }
        if (row_sum) {
            const double whole = norm[column];  // of any partition
            row_sum[column] = as_entry((double)squares / whole / whole);
        }
    }
}
#endif

__device__ __forceinline__ double power(double x, int exponent) {
    double result = x;
    for (int bit = 30 - __clz(exponent); bit >= 0; --bit) {
        result = result * result;
        if ((exponent >> bit) & 1) result = result * x;
    }
    return result;
}

// f(e_j, m_k) by the name of the utility; only one is compiled.
__device__ __forceinline__ double divergence(int row, double n, double size,
                                             double square, double norm, int p) {
#if defined(UTILITY_IVC)
    return row != (int)square ? 1.0 : 0.0;
#elif defined(UTILITY_IPVC)
    return 1.0 - n / size;
#elif defined(UTILITY_SEC)
    return -(2.0 * (n / norm));
#elif defined(UTILITY_SEC_ROW)
    return square / norm / norm;
#elif defined(UTILITY_C)
    const double share = n / size;
    return (1.0 - 2.0 * share) + square / (size * size);
#elif defined(UTILITY_H)
    const double share = n / size;
    return -gpc_log2(share > 2.220446049250313e-16 ? share : 2.220446049250313e-16);
#elif defined(UTILITY_H_SMOOTH)
    return -gpc_log2((n + 0.4) / (size + 0.4));
#elif defined(UTILITY_COS)
    return 1.0 - n / sqrt(square);
#else
    return 1.0 - power(n / norm, p - 1);
#endif
}

// A thread owns one column of one table row. `norm` is only read for lP and SEC.
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
                weight[i] * divergence(row, (double)found, (double)size[at],
                                       (double)square[at], norm ? norm[at] : 0.0, p);
            entry = as_entry(value);
        }
        out[t] = entry;
    }
}
