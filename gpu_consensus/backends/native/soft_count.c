/* Sums of responsibilities by label, in units of 2^-32: integers, in any order. */
#include "native.h"

enum {
    TILE = 256,
    SOFT_SIDE = 4,
    SOFT_VECTORS = 4,
    SOFT_LANES = GPC_VECTOR / 8,
};

#define SOFT_NAME soft_u8
#define SOFT_CODE uint8_t
#include "soft_rows.h"

#define SOFT_NAME soft_u16
#define SOFT_CODE uint16_t
#include "soft_rows.h"

void gpc_add_units(const gpc_labels* labels, int64_t first, int64_t last, int64_t size,
                   const int64_t* units, int64_t width, int64_t* counts) {
    if (labels->code_size == 1)
        soft_u8_tile(labels->codes, labels->stride, labels->offsets, first, last, size,
                     units, width, counts);
    else
        soft_u16_tile(labels->codes, labels->stride, labels->offsets, first, last, size,
                      units, width, counts);
}

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
        const gpc_labels labels = {gpc_codes_at(codes, code_size, begin), code_size,
                                   stride, offsets, last};
        gpc_add_units(&labels, first, last, size, units, width, counts);
    }
}
