/* What entering a cluster and staying in one's own cost: the tables of the exact step,
   gpu_consensus/loop/exact_step.py, the same bits. */
#include "native.h"

enum { UTILITY_C, UTILITY_H, UTILITY_COS };

/* What the entries of a column share for h: the rise of x log2 x at its size, for one
   object more and for one less. */
typedef struct {
    double enter, stay;
} column_terms;

/* The change of n_k mu(m_k) by one object more (step 1) or less (-1): the operations of
   Formula.change in their order. */
GPC_INLINE double change_of(const int64_t utility, const int64_t step, int64_t n,
                            int64_t size, int64_t square, const column_terms* terms,
                            const double* rises) {
    const double sign = (double)step;
    if (utility == UTILITY_H)
        return step > 0 ? rises[n] - terms->enter
                        : terms->stay - rises[gpc_max(n - 1, 0)];
    if (utility == UTILITY_COS) {
        const int64_t change = 2 * step * n + 1;
        const int64_t after = gpc_max(square + change, 0);
        const double root =
            __builtin_sqrt((double)after) + __builtin_sqrt((double)square);
        return root != 0 ? (double)change / root : 0.0;
    }
    if (size + step <= (step > 0 ? 1 : 0)) return sign;
    const int64_t below = size * (size + step);
    const int64_t above = size * (2 * step * n + 1) - step * square;
    return below != 0 ? (double)above / (double)below : 0.0;
}

GPC_INLINE float rounded(double value) {
    const float entry = (float)value;
    return __builtin_fabsf(entry) < 0x1p-100f ? 0.0f : entry;
}

GPC_INLINE void write_rows(const int64_t utility, const int64_t* restrict counts,
                           const int64_t* offsets, double weight, double unit,
                           const double* restrict rises, int64_t n_restarts,
                           int64_t n_clusters, int64_t i, float* restrict enter,
                           float* restrict stay, int64_t width,
                           const int64_t* restrict size, const int64_t* restrict square,
                           const column_terms* restrict terms) {
    const int64_t n_columns = n_restarts * n_clusters;
    for (int64_t row = offsets[i]; row < offsets[i + 1] - 1; ++row) {
        const int64_t* n = counts + row * n_columns;
        float *in_row = enter + row * width, *stay_row = stay + row * width;
        for (int64_t q = 0; q < n_restarts; ++q)
            for (int64_t k = 0; k < n_clusters; ++k) {
                const int64_t c = q * n_clusters + k, at = k * n_restarts + q;
                const double in =
                    change_of(utility, 1, n[c], size[c], square[c], terms + c, rises);
                const double out =
                    change_of(utility, -1, n[c], size[c], square[c], terms + c, rises);
                in_row[at] = rounded(weight * (unit - in));
                stay_row[at] = rounded(weight * (unit + out));
            }
    }
}

/* Bytes of scratch that gpc_prices needs. */
GPC_API int64_t gpc_prices_scratch(int64_t n_columns) { return 32 * n_columns; }

/* Write the rows of partitions first .. last - 1 of both tables (S, width).

   counts (S, R K), of which column q K + k is column k R + q of a table; unit: mu(e_j),
   the same for every label; rises: the rise of x log2 x at every count, for utility h.
 */
GPC_API void gpc_prices(int64_t utility, const int64_t* counts, const int64_t* offsets,
                        const double* weights, double unit, const double* rises,
                        int64_t n_restarts, int64_t n_clusters, int64_t first,
                        int64_t last, float* enter, float* stay, int64_t width,
                        void* scratch) {
    const int64_t n_columns = n_restarts * n_clusters;
    int64_t *size = scratch, *square = size + n_columns;
    column_terms* terms = (column_terms*)(void*)(square + n_columns);
    for (int64_t i = first; i < last; ++i) {
        memset(size, 0, (size_t)n_columns * 16);
        for (int64_t row = offsets[i]; row < offsets[i + 1] - 1; ++row) {
            const int64_t* n = counts + row * n_columns;
            for (int64_t c = 0; c < n_columns; ++c) {
                size[c] += n[c];
                square[c] += n[c] * n[c];
            }
        }
        for (int64_t c = 0; c < n_columns && utility == UTILITY_H; ++c) {
            terms[c].enter = rises[size[c]];
            terms[c].stay = rises[gpc_max(size[c] - 1, 0)];
        }
#define WRITE(name)                                                                    \
    write_rows(name, counts, offsets, weights[i], unit, rises, n_restarts, n_clusters, \
               i, enter, stay, width, size, square, terms)
        if (utility == UTILITY_H)
            WRITE(UTILITY_H);
        else if (utility == UTILITY_COS)
            WRITE(UTILITY_COS);
        else
            WRITE(UTILITY_C);
#undef WRITE
    }
}
