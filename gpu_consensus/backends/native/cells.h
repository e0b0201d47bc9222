/* What merging and settling of cells share: gpc_merge_cells and gpc_settle_cells. */
#include "native.h"

enum { ENTROPY, SQUARE, ROOT };

GPC_INLINE double total_of(const int64_t kind, double square, double below) {
    if (kind == ROOT) return __builtin_sqrt(square);
    const double share = square / (below > 0 ? below : 1);
    return below > 0 ? share : 0;
}

enum {
    MOST_PRODUCTS = 1 << 23, /* that are kept: 64 MB */
    SOME_LABELS = 64,
    LABELS_AHEAD = 8, /* rows of counts lie far from each other */
    BLOCK_STEP = 16 /* columns of a block: whole vectors, two by two */
};

/* members whose sums of products a double holds */
#define MOST_EXACT ((int64_t)1 << 26)

/* How many products of two cells are kept: none of entropies, which do not need them,
   and none where they are too many. */
GPC_INLINE int64_t n_products(int64_t kind, int64_t n_cells, int64_t n_partitions) {
    const int64_t number = n_cells * n_cells * n_partitions;
    return kind != ENTROPY && number <= MOST_PRODUCTS ? number : 0;
}

GPC_INLINE int64_t block_width(int64_t n_cells) {
    return (n_cells + BLOCK_STEP - 1) / BLOCK_STEP * BLOCK_STEP;
}

/* Bytes of the block that multiply_cells needs. */
GPC_INLINE int64_t block_room(int64_t n_cells) {
    return 8 * SOME_LABELS * block_width(n_cells);
}

/* Add the products of every two cells a <= b over the labels of a block (n_labels,
   block_width), whole numbers, to sums (M, M), `stride` from one row to the next. */
GPC_INLINE void add_block(const double* restrict block, int64_t n_labels,
                          int64_t n_cells, const int exact, int64_t stride,
                          int64_t* restrict sums) {
    enum { LANES = GPC_VECTOR / 8, CELLS = 4 };
    const int64_t wide = block_width(n_cells);
    for (int64_t s = 0; s < n_labels && !exact; ++s) {
        const double* row = block + s * wide;
        for (int64_t a = 0; a < n_cells; ++a)
            for (int64_t b = a; b < n_cells; ++b)
                sums[a * stride + b] += (int64_t)row[a] * (int64_t)row[b];
    }
    for (int64_t a = 0; a < n_cells && exact; a += CELLS) {
        for (int64_t b = a / (2 * LANES) * (2 * LANES); b < n_cells; b += 2 * LANES) {
            gpc_doubles sum[CELLS][2] = {{{0}}};
            for (int64_t s = 0; s < n_labels; ++s) {
                const double* row = block + s * wide;
                const gpc_doubles low = *(const gpc_doubles*)(row + b);
                const gpc_doubles high = *(const gpc_doubles*)(row + b + LANES);
                for (int t = 0; t < CELLS; ++t) {
                    sum[t][0] += row[a + t] * low;
                    sum[t][1] += row[a + t] * high;
                }
            }
            for (int64_t t = 0; t < CELLS && a + t < n_cells; ++t)
                for (int64_t l = 0; l < 2 * LANES && b + l < n_cells; ++l)
                    sums[(a + t) * stride + b + l] +=
                        (int64_t)sum[t][l / LANES][l % LANES];
        }
    }
}

/* Return the members of the cells with a label, and ask early for the labels after it;
   -1 if a count is negative or above `most`. */
GPC_INLINE int64_t members_of(const int64_t* restrict row, int64_t line,
                              int64_t n_cells, int64_t most) {
    uint64_t sum = 0, outside = 0;
    for (int64_t a = 0; a < n_cells; a += GPC_STEP)
        __builtin_prefetch(row + LABELS_AHEAD * line + a);
    for (int64_t a = 0; a < n_cells; ++a) {
        const uint64_t n = (uint64_t)row[a];
        sum += n;
        outside |= n | ((uint64_t)most - n);
    }
    return outside >> 63 ? -1 : (int64_t)sum;
}

/* Write the sums of the products of the counts (S, M) of every two cells, by partition:
   products (M, r, M). Missing labels do not count. Returns 0 if a count is negative or
   those of a partition are more than `most`. */
GPC_INLINE int multiply_cells(const int64_t* counts, int64_t line, int64_t n_cells,
                              const int64_t* offsets, int64_t n_partitions,
                              int64_t most, double* block, int64_t* products) {
    const int64_t wide = block_width(n_cells), stride = n_partitions * n_cells;
    memset(products, 0, (size_t)(n_cells * stride) * 8);
    memset(block, 0, (size_t)block_room(n_cells));
    for (int64_t i = 0; i < n_partitions; ++i) {
        const int64_t last = offsets[i + 1];
        int64_t members = 0;
        for (int64_t begin = offsets[i]; begin < last; begin += SOME_LABELS) {
            const int64_t end = gpc_min(last, begin + SOME_LABELS);
            for (int64_t s = begin; s < end; ++s) {
                double* restrict row = block + (s - begin) * wide;
                const int64_t* given = counts + s * line;
                const int64_t number = members_of(given, line, n_cells, most);
                if (number < 0 || (members += number) > most) return 0;
                for (int64_t a = 0; a < n_cells; ++a)
                    row[a] = s == last - 1 ? 0 : (double)given[a];
            }
            add_block(block, end - begin, n_cells, members <= MOST_EXACT, stride,
                      products + i * n_cells);
        }
    }
    for (int64_t a = 0; a < n_cells; ++a)
        for (int64_t i = 0; i < n_partitions; ++i)
            for (int64_t b = a + 1; b < n_cells; ++b)
                products[b * stride + i * n_cells + a] =
                    products[a * stride + i * n_cells + b];
    return 1;
}
