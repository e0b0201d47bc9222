/* All scores of a float64 table, added in partition order. */
#include "native.h"

#define SUM_NAME double_u8
#define SUM_NUMBER double
#define SUM_VECTOR gpc_doubles
#define SUM_CODE uint8_t
#include "sum_rows.h"

#define SUM_NAME double_u16
#define SUM_NUMBER double
#define SUM_VECTOR gpc_doubles
#define SUM_CODE uint16_t
#include "sum_rows.h"

static int64_t tile_of(int64_t width, int64_t n_rows) {
    return gpc_tile(width * 8, n_rows * width * 8);
}

/* Bytes of scratch that gpc_scores needs. */
GPC_API int64_t gpc_scores_scratch(int64_t width, int64_t n_rows) {
    return 8 * tile_of(width, n_rows) * width;
}

void gpc_sum_doubles(const gpc_labels* labels, const double* table, int64_t width,
                     int64_t size, double* sums) {
    if (labels->code_size == 1)
        double_u8_tile(labels->codes, labels->stride, labels->offsets,
                       labels->n_partitions, table, width, size, sums);
    else
        double_u16_tile(labels->codes, labels->stride, labels->offsets,
                        labels->n_partitions, table, width, size, sums);
}

/* Write the scores (n, columns) of objects begin .. end - 1. Columns are q K + k. */
GPC_API void gpc_scores(const void* codes, int64_t code_size, int64_t stride,
                        const int64_t* offsets, int64_t n_partitions,
                        const double* table, int64_t width, int64_t columns,
                        int64_t begin, int64_t end, double* scores, double* scratch) {
    const int64_t tile = tile_of(width, offsets[n_partitions]);
    for (int64_t first = begin; first < end; first += tile) {
        const int64_t size = gpc_min(tile, end - first);
        const gpc_labels labels = {gpc_codes_at(codes, code_size, first), code_size,
                                   stride, offsets, n_partitions};
        gpc_sum_doubles(&labels, table, width, size, scratch);
        for (int64_t t = 0; t < size; ++t)
            memcpy(scores + (first + t) * columns, scratch + t * width,
                   (size_t)columns * 8);
    }
}
