/* The E step of a mixture: scores, responsibilities and their sums by label, a tile of
   objects at a time, so that nothing of the size of all objects leaves the cache.

   Scores of a tile lie object by object. Responsibilities are made with objects side
   by side in a vector: a component at a time, in order, so that no sum depends on the
   width of a vector. */
#include "exp.h"
#include "log2.h"
#include "native.h"

enum { LANES = GPC_VECTOR / 8 };

/* what a number below 2^51 in size is rounded to, half to even, by its last bits */
#define SHIFT 0x1.8p52

GPC_INLINE gpc_doubles rounded(gpc_doubles x) { return (x + SHIFT) - SHIFT; }

GPC_INLINE gpc_longs whole(gpc_doubles x) {
    return (gpc_longs)(x + SHIFT) - (gpc_longs)((gpc_doubles){0} + SHIFT);
}

GPC_INLINE gpc_doubles chosen(gpc_longs where, gpc_doubles yes, gpc_doubles no) {
    return (gpc_doubles)(((gpc_longs)yes & where) | ((gpc_longs)no & ~where));
}

/* LANES objects of one restart: their sums become scores, then shares of K
   components; returns the logarithm of their likelihood */
static gpc_doubles soften(const double* const* sums, const double* alpha,
                          int64_t n_clusters, gpc_doubles* share, gpc_longs* best) {
    gpc_doubles top = (gpc_doubles){0} - __builtin_inf();
    gpc_longs likeliest = {0};
    for (int64_t k = 0; k < n_clusters; ++k) {
        gpc_doubles score = {0}; /* all of it is written below */
#pragma GCC unroll 8
        for (int u = 0; u < LANES; ++u) score[u] = sums[u][k];
        score += alpha[k];
        share[k] = score;
        const gpc_longs above = score > top;
        top = chosen(above, score, top);
        likeliest = (likeliest & ~above) | (((gpc_longs){0} + k) & above);
    }
    *best = likeliest;
    share[0] = gpc_exp(share[0] - top);
    gpc_doubles mass = share[0];
    for (int64_t k = 1; k < n_clusters; ++k) {
        share[k] = gpc_exp(share[k] - top);
        mass += share[k];
    }
    for (int64_t k = 0; k < n_clusters; ++k) share[k] /= mass;
    double logarithm[LANES];
    for (int u = 0; u < LANES; ++u) logarithm[u] = gpc_log2(mass[u]);
    return top + *(const gpc_doubles*)logarithm * 0x1.62e42fefa39efp-1;
}

/* objects whose sums and units stay in the cache together */
static int64_t tile_of(int64_t width, int64_t n_rows) {
    return gpc_min(256, gpc_tile(width * 8, n_rows * width * 8));
}

/* Bytes of scratch that gpc_expect needs. */
GPC_API int64_t gpc_expect_scratch(int64_t width, int64_t n_rows, int64_t n_clusters) {
    return 16 * tile_of(width, n_rows) * width + GPC_VECTOR * n_clusters;
}

/* Do the E step for objects begin .. end - 1.

   table (S, width) and alpha (columns) are logarithms, column q K + k; counts
   (S, width) grow by responsibilities in units of 2^-32, halves (2, R) by the
   logarithms of likelihoods: in units of 2^-10, and what is left in units of 2^-40.
   With counts NULL, shares (n, columns) and best (n, R), the likeliest component, are
   written instead. */
GPC_API void gpc_expect(const void* codes, int64_t code_size, int64_t stride,
                        const int64_t* offsets, int64_t n_partitions,
                        const double* table, int64_t width, const double* alpha,
                        int64_t n_restarts, int64_t n_clusters, int64_t begin,
                        int64_t end, int64_t* counts, int64_t* halves, double* shares,
                        int64_t* best, double* scratch) {
    const int64_t columns = n_restarts * n_clusters;
    const int64_t tile = tile_of(width, offsets[n_partitions]);
    int64_t* units = (int64_t*)(scratch + tile * width);
    gpc_doubles* share = (gpc_doubles*)(scratch + 2 * tile * width);
    memset(units, 0, (size_t)(tile * width) * 8);
    for (int64_t first = begin; first < end; first += tile) {
        const int64_t size = gpc_min(tile, end - first);
        const gpc_labels labels = {gpc_codes_at(codes, code_size, first), code_size,
                                   stride, offsets, n_partitions};
        gpc_sum_doubles(&labels, table, width, size, scratch);
        for (int64_t t = 0; t < size; t += LANES) {
            const int64_t some = gpc_min(LANES, size - t);
            for (int64_t q = 0; q < n_restarts; ++q) {
                const double* sums[LANES];
                for (int64_t u = 0; u < LANES; ++u) /* the last one fills the vector */
                    sums[u] =
                        scratch + (t + gpc_min(u, some - 1)) * width + q * n_clusters;
                gpc_longs likeliest;
                const gpc_doubles value =
                    soften(sums, alpha + q * n_clusters, n_clusters, share, &likeliest);
                if (!counts) {
                    for (int64_t u = 0; u < some; ++u) {
                        const int64_t l = first + t + u;
                        best[l * n_restarts + q] = likeliest[u];
                        for (int64_t k = 0; k < n_clusters; ++k)
                            shares[l * columns + q * n_clusters + k] = share[k][u];
                    }
                    continue;
                }
                const gpc_doubles high = rounded(value * 0x1p10);
                const gpc_longs upper = whole(high);
                const gpc_longs lower = whole((value - high * 0x1p-10) * 0x1p40);
                for (int64_t u = 0; u < some; ++u) {
                    halves[q] += upper[u];
                    halves[n_restarts + q] += lower[u];
                }
                int64_t* row = units + t * width + q * n_clusters;
                for (int64_t k = 0; k < n_clusters; ++k) {
                    const gpc_longs unit = whole(share[k] * 0x1p32);
                    for (int64_t u = 0; u < some; ++u) row[u * width + k] = unit[u];
                }
            }
        }
        if (counts) gpc_add_units(&labels, 0, n_partitions, size, units, width, counts);
    }
}
