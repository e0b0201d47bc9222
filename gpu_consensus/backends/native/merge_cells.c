/* Merge cells until so many clusters are left, each time the pair that costs least: the
   merges of gpu_consensus/loop/merging.py for entropies, the same bits.

   counts (M, S): members of a cell with each label; a merge of cells a and b costs in
   partition i g(n_a + n_b) - g(n_a) - g(n_b) less the same over the labels, where n are
   the members present in it and g = x log2 x, in whole numbers (a table). Only labels
   that both have add something, so that every cell keeps a list of those it has. Sums
   within a partition are those of whole numbers, and partitions are added in order. */
#include "native.h"

typedef struct {
    int32_t* counts; /* (M, S) */
    int64_t* sizes;  /* (M, r) */
    int32_t* lists;  /* (M, S): labels that a cell has, in any order */
    int64_t* lengths;
    int64_t* shared; /* (r) */
    const int64_t* whole;
    const int32_t* partition_of;
    const double* weights;
    int64_t n_labels, n_partitions;
} cells;

static double growth(const cells* all, int64_t a, int64_t b) {
    if (all->lengths[b] < all->lengths[a]) {
        const int64_t swapped = a;
        a = b;
        b = swapped;
    }
    const int64_t* g = all->whole;
    const int32_t *own = all->counts + a * all->n_labels,
                  *other = all->counts + b * all->n_labels;
    const int32_t* list = all->lists + a * all->n_labels;
    memset(all->shared, 0, (size_t)all->n_partitions * 8);
    for (int64_t t = 0; t < all->lengths[a]; ++t) {
        const int32_t s = list[t];
        const int64_t x = own[s], y = other[s];
        if (y) all->shared[all->partition_of[s]] += g[x + y] - g[x] - g[y];
    }
    double total = 0;
    for (int64_t i = 0; i < all->n_partitions; ++i) {
        const int64_t x = all->sizes[a * all->n_partitions + i];
        const int64_t y = all->sizes[b * all->n_partitions + i];
        total += all->weights[i] * (double)(g[x + y] - g[x] - g[y] - all->shared[i]);
    }
    return total;
}

/* put cell y into cell x */
static void join(const cells* all, int64_t x, int64_t y) {
    int32_t *into = all->counts + x * all->n_labels,
            *from = all->counts + y * all->n_labels;
    int32_t *list = all->lists + x * all->n_labels,
            *other = all->lists + y * all->n_labels;
    for (int64_t t = 0; t < all->lengths[y]; ++t) {
        const int32_t s = other[t];
        if (!into[s]) list[all->lengths[x]++] = s;
        into[s] += from[s];
    }
    for (int64_t i = 0; i < all->n_partitions; ++i)
        all->sizes[x * all->n_partitions + i] += all->sizes[y * all->n_partitions + i];
}

/* Bytes of scratch that gpc_merge_cells needs. */
GPC_API int64_t gpc_merge_cells_scratch(int64_t n_cells, int64_t n_labels,
                                  int64_t n_partitions) {
    return 8 * n_cells * n_cells + 8 * (n_cells + 1) * n_partitions + 8 * n_cells +
           8 * n_cells * n_labels;
}

/* Merge the cells of counts (S, M) to n_clusters.

   whole: g at every number of members, in whole numbers; partition_of (S): -1 for rows
   of "missing", which do not count. name (M): the cell that each has gone into, the
   lowest of them. */
GPC_API void gpc_merge_cells(const int64_t* counts, int64_t n_cells, int64_t n_labels,
                       const int32_t* partition_of, int64_t n_partitions,
                       const double* weights, const int64_t* whole, int64_t n_clusters,
                       int64_t* name, void* scratch) {
    double* costs = scratch; /* (M, M), of a < b */
    cells all = {.whole = whole,
                 .partition_of = partition_of,
                 .weights = weights,
                 .n_labels = n_labels,
                 .n_partitions = n_partitions};
    all.sizes = (int64_t*)(void*)(costs + n_cells * n_cells);
    all.shared = all.sizes + n_cells * n_partitions;
    all.lengths = all.shared + n_partitions;
    all.counts = (int32_t*)(void*)(all.lengths + n_cells);
    all.lists = all.counts + n_cells * n_labels;
    memset(all.sizes, 0, (size_t)(n_cells * n_partitions) * 8);
    memset(all.lengths, 0, (size_t)n_cells * 8);
    for (int64_t s = 0; s < n_labels; ++s)
        for (int64_t a = 0; a < n_cells; ++a) {
            const int64_t n = partition_of[s] < 0 ? 0 : counts[s * n_cells + a];
            all.counts[a * n_labels + s] = (int32_t)n;
            if (!n) continue;
            all.sizes[a * n_partitions + partition_of[s]] += n;
            all.lists[a * n_labels + all.lengths[a]++] = (int32_t)s;
        }
    for (int64_t a = 0; a < n_cells; ++a) {
        name[a] = a;
        for (int64_t b = a + 1; b < n_cells; ++b)
            costs[a * n_cells + b] = growth(&all, a, b);
    }
    for (int64_t left = n_cells; left > n_clusters; --left) {
        int64_t x = -1, y = -1;
        for (int64_t a = 0; a < n_cells; ++a) {
            if (name[a] != a) continue;
            for (int64_t b = a + 1; b < n_cells; ++b)
                if (name[b] == b &&
                    (x < 0 || costs[a * n_cells + b] < costs[x * n_cells + y])) {
                    x = a;
                    y = b;
                }
        }
        join(&all, x, y);
        for (int64_t b = 0; b < n_cells; ++b)
            if (name[b] == y) name[b] = x;
        for (int64_t b = 0; b < n_cells; ++b) {
            if (name[b] != b || b == x) continue;
            costs[b < x ? b * n_cells + x : x * n_cells + b] = growth(&all, x, b);
        }
    }
}
