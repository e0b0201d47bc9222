/* Tables from counts, by the operations of the rules' own formulas in their order. */
#include "log2.h"

enum {
    UTILITY_C,
    UTILITY_H,
    UTILITY_COS,
    UTILITY_LP,
    UTILITY_IVC,
    UTILITY_IPVC,
    UTILITY_SEC,
    UTILITY_SEC_ROW,
    UTILITY_H_SMOOTH
};

static const double FLOOR = 0x1p-52, SMOOTHING = 0.4;
static const float TINY = 0x1p-100f; /* entries below it are 0 */

/* Columns go by eight, of which none is left over: what lies behind the last column is
   computed too and thrown away, which costs less than a tail of single numbers. */
#define EACH(c, wide)                                 \
    for (int64_t eight = 0; eight < wide; eight += 8) \
        for (int64_t c = eight; c < eight + 8; ++c)

GPC_INLINE int64_t by_eight(int64_t columns) { return (columns + 7) / 8 * 8; }

/* Bytes of scratch that gpc_table needs. */
GPC_API int64_t gpc_table_scratch(int64_t columns) {
    return 8 * 10 * by_eight(columns);
}

static void values_of(int64_t utility, int64_t power, int64_t row,
                      const int64_t* leader, const double* restrict n,
                      const double* restrict below, const double* restrict aside,
                      int64_t wide, double* restrict value) {
    switch (utility) {
        case UTILITY_C:
            EACH(c, wide)
            value[c] = 1.0 - 2.0 * (n[c] / below[c]) + aside[c];
            break;
        case UTILITY_H:
            EACH(c, wide) {
                const double share = n[c] / below[c];
                value[c] = -gpc_log2(share > FLOOR ? share : FLOOR);
            }
            break;
        case UTILITY_H_SMOOTH:
            EACH(c, wide)
            value[c] = -gpc_log2((n[c] + SMOOTHING) / (below[c] + SMOOTHING));
            break;
        case UTILITY_COS:
        case UTILITY_IPVC:
            EACH(c, wide) value[c] = 1.0 - n[c] / below[c];
            break;
        case UTILITY_LP: {
            /* an integer power by multiplications only, from the highest bit down */
            const int64_t exponent = power - 1;
            int bit = 0;
            while (exponent >> (bit + 1)) ++bit;
            EACH(c, wide) {
                const double x = n[c] / below[c];
                double result = x;
                for (int b = bit - 1; b >= 0; --b) {
                    result = result * result;
                    if (exponent >> b & 1) result = result * x;
                }
                value[c] = 1.0 - result;
            }
            break;
        }
        case UTILITY_IVC:
            EACH(c, wide) value[c] = row != leader[c];
            break;
        case UTILITY_SEC:
            EACH(c, wide) value[c] = -(2.0 * (n[c] / below[c]));
            break;
        default:
            memcpy(value, aside, (size_t)wide * 8);
    }
}

/* Write the rows of partitions first .. last - 1 of a table (S, width).

   utility: as the list above; counts (S, R K), column q K + k, the table has column
   k R + q; norm (r, R K): read for LP and SEC; power: P of lP. */
GPC_API void gpc_table(int64_t utility, const int64_t* counts, const int64_t* offsets,
                       const int64_t* marginals, const double* weights,
                       const double* norm, int64_t power, int64_t n_restarts,
                       int64_t n_clusters, int64_t first, int64_t last, float* table,
                       int64_t width, void* scratch) {
    const int64_t columns = n_restarts * n_clusters;
    const int64_t wide = by_eight(columns);
    int64_t* restrict size = scratch, * restrict square = size + wide;
    int64_t* restrict most = square + wide, * restrict leader = most + wide;
    int64_t* restrict absent = leader + wide;
    double* restrict below = (double*)(absent + wide);
    double* restrict aside = below + wide, * restrict n = aside + wide;
    double* restrict value = n + wide;
    float* restrict line = (float*)(value + wide);
    for (int64_t c = 0; c < wide; ++c) {
        below[c] = n[c] = 1.0;
        aside[c] = 0.0;
        leader[c] = 0;
    }
    for (int64_t i = first; i < last; ++i) {
        const int64_t begin = offsets[i], missing = offsets[i + 1] - 1;
        memset(table + begin * width, 0, (size_t)((missing + 1 - begin) * width) * 4);
        int64_t present = 0, present_square = 0;
        for (int64_t row = begin; row < missing; ++row) {
            present += marginals[row];
            present_square += marginals[row] * marginals[row];
        }
        if (present == 0) continue;
        memset(size, 0, (size_t)columns * 8);
        memset(square, 0, (size_t)columns * 8);
        for (int64_t row = begin; row < missing; ++row) {
            const int64_t* restrict found = counts + row * columns;
            for (int64_t c = 0; c < columns; ++c) {
                size[c] += found[c];
                square[c] += found[c] * found[c];
            }
        }
        for (int64_t c = 0; c < columns; ++c) {
            /* a cluster without a member here takes the marginal counts */
            absent[c] = size[c] == 0 ? -1 : 0;
            if (absent[c]) {
                size[c] = present;
                square[c] = present_square;
            }
        }
        if (utility == UTILITY_IVC) {
            for (int64_t c = 0; c < columns; ++c) most[c] = -1;
            for (int64_t row = begin; row < missing; ++row)
                for (int64_t c = 0; c < columns; ++c) {
                    const int64_t found =
                        absent[c] ? marginals[row] : counts[row * columns + c];
                    if (found > most[c]) { /* ties to the lowest label */
                        most[c] = found;
                        leader[c] = row;
                    }
                }
        }
        for (int64_t c = 0; c < columns; ++c) {
            below[c] = (double)size[c];
            if (utility == UTILITY_C)
                aside[c] = (double)square[c] / (double)(size[c] * size[c]);
            else if (utility == UTILITY_COS)
                below[c] = __builtin_sqrt((double)square[c]);
            else if (utility == UTILITY_LP || utility == UTILITY_SEC)
                below[c] = norm[i * columns + c];
            else if (utility == UTILITY_SEC_ROW)
                aside[c] =
                    (double)square[c] / norm[i * columns + c] / norm[i * columns + c];
        }
        const double weight = weights[i];
        for (int64_t row = begin; row < missing; ++row) {
            const int64_t marginal = marginals[row];
            const int64_t* restrict found = counts + row * columns;
            for (int64_t c = 0; c < columns; ++c)
                n[c] = gpc_whole((absent[c] & marginal) | (~absent[c] & found[c]));
            values_of(utility, power, row, leader, n, below, aside, wide, value);
            EACH(c, wide) {
                const float entry = (float)(weight * value[c]);
                line[c] = __builtin_fabsf(entry) >= TINY ? entry : 0.0f;
            }
            float* restrict target = table + row * width;
            for (int64_t q = 0; q < n_restarts; ++q)
                for (int64_t k = 0; k < n_clusters; ++k)
                    target[k * n_restarts + q] = line[q * n_clusters + k];
        }
    }
}
