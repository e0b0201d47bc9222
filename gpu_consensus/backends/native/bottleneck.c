/* Cumulative voting: votes added and averaged by label, and the sums from which
   clusters are merged; gpu_consensus/methods/cumulative.py and bottleneck.py, the same
   bits.

   Terms are rounded to multiples of 2^-32 before they are added, so that sums over
   objects are sums of integers, in any order. */
#include "log2.h"

enum { TILE = 256 };  /* the votes of so many objects for 120 clusters: 240 KB */
#define TINY 0x1p-200 /* changes no vote but 0, and 0 log2 of it is 0 */

/* the nearest integer, ties to even, for |x| < 2^51 */
GPC_INLINE int64_t nearest(double x) {
    return (int64_t)(gpc_to_bits(x + 0x1.8p52) - 0x4338000000000000u);
}

/* Add the table's row of each object's label to its votes (n, n_clusters), then the
   mean votes, in units of 2^-32, to the row of its label in sums; objects begin ..
   end - 1. Either part is left out where its labels are NULL.

   weight (n): what the votes of an object are divided by; 0 if it has none yet. */
GPC_API void gpc_vote_round(double* votes, int64_t n_clusters, const double* weight,
                            const void* voters, int64_t voter_size, const double* table,
                            const void* labels, int64_t label_size, int64_t begin,
                            int64_t end, int64_t* sums) {
    for (int64_t l = begin; l < end; ++l) {
        double* restrict mine = votes + l * n_clusters;
        if (voters) {
            const double* restrict row =
                table + gpc_code(voters, voter_size, l) * n_clusters;
            for (int64_t c = 0; c < n_clusters; ++c) mine[c] += row[c];
        }
        if (!labels || !(weight[l] > 0)) continue;
        int64_t* restrict sum = sums + gpc_code(labels, label_size, l) * n_clusters;
        const double whole = weight[l];
        for (int64_t c = 0; c < n_clusters; ++c)
            sum[c] += nearest(mine[c] / whole * 0x1p32);
    }
}

/* Add x log2 x of objects begin .. end - 1 to sums (n_pairs), in units of 2^-32, where
   x is the two columns of a pair added. columns: each of `stride` numbers. */
GPC_API void gpc_pair_sums(const double* columns, int64_t stride, const int64_t* pairs,
                           int64_t n_pairs, int64_t begin, int64_t end, int64_t* sums) {
    for (int64_t first = begin; first < end; first += TILE) {
        const int64_t size = gpc_min(TILE, end - first);
        for (int64_t p = 0; p < n_pairs; ++p) {
            const double* a = columns + pairs[2 * p] * stride + first;
            const double* b = columns + pairs[2 * p + 1] * stride + first;
            int64_t sum = 0;
            for (int64_t t = 0; t < size; ++t) {
                const double x = a[t] + b[t];
                sum += nearest(x * gpc_log2(x + TINY) * 0x1p32);
            }
            sums[p] += sum;
        }
    }
}
