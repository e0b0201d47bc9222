/* Sums of responsibilities by label, in units of 2^-32: integers, in any order. */
#include "native.h"

enum { TILE = 256 };

/* Bytes of scratch that gpc_soft_count needs. */
GPC_API int64_t gpc_soft_count_scratch(int64_t width) { return 8 * TILE * width; }

/* Add responsibilities (n, columns) to counts (S, width) in partitions
   first .. last - 1; width is a multiple of 8. */
GPC_API void gpc_soft_count(const void* codes, int64_t code_size, int64_t stride,
                            const int64_t* offsets, int64_t first, int64_t last,
                            int64_t n_samples, const double* responsibilities,
                            int64_t columns, int64_t* counts, int64_t width,
                            int64_t* units) {
    memset(units, 0, (size_t)(TILE * width) * 8);
    for (int64_t begin = 0; begin < n_samples; begin += TILE) {
        const int64_t size = gpc_min(TILE, n_samples - begin);
        for (int64_t t = 0; t < size; ++t)
            for (int64_t c = 0; c < columns; ++c)
                units[t * width + c] = (int64_t)__builtin_rint(
                    responsibilities[(begin + t) * columns + c] * 0x1p32);
        for (int64_t i = first; i < last; ++i) {
            const void* line = gpc_codes_at(codes, code_size, i * stride + begin);
            int64_t* top = counts + offsets[i] * width;
            for (int64_t t = 0; t < size; ++t) {
                int64_t* row = top + gpc_code(line, code_size, t) * width;
                for (int64_t c = 0; c < width; c += GPC_VECTOR / 8)
                    *(gpc_longs*)(row + c) +=
                        *(const gpc_longs*)(units + t * width + c);
            }
        }
    }
}
