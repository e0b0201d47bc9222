/* Sums of counts over the labels of each partition. */
#include "log2.h"

/* Sum counts (S, columns) over the labels of partitions first .. last - 1.

   size, square, heavy, most and, unless NULL, entropy: (r, columns); they are written.
   "Missing" does not count. */
GPC_API void gpc_label_sums(const int64_t* counts, int64_t columns,
                            const int64_t* offsets, const int64_t* marginals,
                            int64_t first, int64_t last, int64_t* restrict size,
                            int64_t* restrict square, int64_t* restrict heavy,
                            int64_t* restrict most, double* restrict entropy) {
    for (int64_t i = first; i < last; ++i) {
        int64_t* restrict sizes = size + i * columns;
        int64_t* restrict squares = square + i * columns;
        int64_t* restrict heavies = heavy + i * columns;
        int64_t* restrict peaks = most + i * columns;
        const size_t bytes = (size_t)columns * 8;
        memset(sizes, 0, bytes);
        memset(squares, 0, bytes);
        memset(heavies, 0, bytes);
        memset(peaks, 0, bytes);
        if (entropy) memset(entropy + i * columns, 0, bytes);
        for (int64_t row = offsets[i]; row < offsets[i + 1] - 1; ++row) {
            const int64_t marginal = marginals[row];
            const int64_t* restrict n = counts + row * columns;
            for (int64_t c = 0; c < columns; ++c) {
                sizes[c] += n[c];
                squares[c] += n[c] * n[c];
                heavies[c] += n[c] * marginal;
                peaks[c] = gpc_max(peaks[c], n[c]);
            }
            if (!entropy) continue;
            double* restrict bits = entropy + i * columns;
            for (int64_t c = 0; c < columns; ++c)
                bits[c] += gpc_whole(n[c]) * gpc_log2(gpc_whole(gpc_max(n[c], 1)));
        }
    }
}
