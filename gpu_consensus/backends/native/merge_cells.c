/* Merge cells until so many clusters are left, each time the pair that costs least: the
   merges of gpu_consensus/loop/merging.py, the same bits.

   A merge of cells a and b costs in partition i
   - of entropies: g(n_a + n_b) - g(n_a) - g(n_b) less the same over the labels, where n
     are the members present in it and g = x log2 x in whole numbers (a table);
   - of squares: A_a / z_a + A_b / z_b - (A_a + A_b + 2 P_ab) / (z_a + z_b), where A are
     the sums of the squared counts and P those of their products;
   - of roots: sqrt(A_a) + sqrt(A_b) - sqrt(A_a + A_b + 2 P_ab).
   Only labels that both have add something to the sums of two cells, and few cells have
   a label: every label keeps a list of them, and every cell one of its labels. Sums
   within a partition are those of whole numbers, and partitions are added in order. */
#include "native.h"

enum { ENTROPY, SQUARE, ROOT };

typedef struct {
    int64_t kind;
    int32_t* counts; /* (S, M): members with each label */
    int32_t* owners; /* (S, M): the cells that have a label, in any order */
    int32_t* n_owners;
    int32_t* labels;   /* (M, S): the labels of a cell, ascending */
    int64_t* n_labels; /* (M) */
    int64_t* sizes;    /* (M, r): members, or sums of squares */
    double* below;     /* (M, r), for squares */
    int64_t* shared;   /* (M) */
    const int64_t* whole;
    const int64_t* offsets;
    const double* weights;
    int64_t n_cells, n_rows, n_partitions;
} cells;

GPC_INLINE int64_t growth(const int64_t* g, int64_t x, int64_t y) {
    return g[x + y] - g[x] - g[y];
}

GPC_INLINE double total_of(const int64_t kind, double square, double below) {
    if (kind == ROOT) return __builtin_sqrt(square);
    return below > 0 ? square / below : 0;
}

/* what the labels of partition i, from *label on, add to the sums with every cell */
GPC_INLINE const int32_t* share(const cells* restrict all, const int64_t kind,
                                int64_t x, int64_t i, const int32_t* label,
                                const int32_t* last) {
    const int64_t n_cells = all->n_cells, end = all->offsets[i + 1];
    const int64_t* restrict g = all->whole;
    int64_t* restrict shared = all->shared;
    memset(shared, 0, (size_t)n_cells * 8);
    for (; label < last && *label < end; ++label) {
        const int32_t* restrict row = all->counts + *label * n_cells;
        const int32_t* restrict owner = all->owners + *label * n_cells;
        const int32_t own = row[x], number = all->n_owners[*label];
        const int64_t* restrict raised = kind == ENTROPY ? g + own : g;
        const int64_t g_own = kind == ENTROPY ? g[own] : 0;
        if (2 * number > n_cells) { /* in order, for vectors; 0 adds nothing */
            for (int64_t b = 0; b < n_cells; ++b)
                shared[b] += kind == ENTROPY ? raised[row[b]] - g_own - g[row[b]]
                                             : (int64_t)own * row[b];
            continue;
        }
        for (int32_t t = 0; t < number; ++t) {
            const int32_t b = owner[t];
            shared[b] += kind == ENTROPY ? raised[row[b]] - g_own - g[row[b]]
                                         : (int64_t)own * row[b];
        }
    }
    return label;
}

GPC_INLINE void price_as(const cells* all, const int64_t kind, int64_t x,
                         double* cost) {
    const int64_t n_cells = all->n_cells, r = all->n_partitions;
    const int32_t* label = all->labels + x * all->n_rows;
    const int32_t* last = label + all->n_labels[x];
    for (int64_t b = 0; b < n_cells; ++b) cost[b] = 0;
    for (int64_t i = 0; i < r; ++i) {
        label = share(all, kind, x, i, label, last);
        const int64_t size = all->sizes[x * r + i];
        for (int64_t b = 0; b < n_cells; ++b) {
            const int64_t other = all->sizes[b * r + i];
            double more;
            if (kind == ENTROPY) {
                more = (double)(growth(all->whole, size, other) - all->shared[b]);
            } else {
                const double z = all->below[x * r + i], y = all->below[b * r + i];
                const double both = (double)(size + other + 2 * all->shared[b]);
                more = total_of(kind, (double)size, z) +
                       total_of(kind, (double)other, y) - total_of(kind, both, z + y);
            }
            cost[b] += all->weights[i] * more;
        }
    }
}

/* Write what merging cell x with every other one costs. */
static void price(const cells* all, int64_t x, double* cost) {
    if (all->kind == ENTROPY)
        price_as(all, ENTROPY, x, cost);
    else if (all->kind == SQUARE)
        price_as(all, SQUARE, x, cost);
    else
        price_as(all, ROOT, x, cost);
}

/* Put cell y into cell x; spare: room for the labels of both. */
static void join(const cells* all, int64_t x, int64_t y, int32_t* spare) {
    const int64_t n_cells = all->n_cells, r = all->n_partitions;
    const int32_t* a = all->labels + x * all->n_rows;
    const int32_t* b = all->labels + y * all->n_rows;
    const int32_t *a_end = a + all->n_labels[x], *b_end = b + all->n_labels[y];
    int32_t* out = spare;
    while (a < a_end || b < b_end) {
        const int32_t s = b == b_end || (a < a_end && *a < *b) ? *a : *b;
        int32_t* row = all->counts + s * n_cells;
        int32_t* owner = all->owners + s * n_cells;
        if (b < b_end && *b == s) {
            int32_t t = 0;
            while (owner[t] != y) ++t;
            if (row[x])
                owner[t] = owner[--all->n_owners[s]];
            else
                owner[t] = (int32_t)x;
            row[x] += row[y];
            row[y] = 0;
            ++b;
        }
        if (a < a_end && *a == s) ++a;
        *out++ = s;
    }
    all->n_labels[x] = out - spare;
    memcpy(all->labels + x * all->n_rows, spare, (size_t)(out - spare) * 4);
    int64_t *into = all->sizes + x * r, *from = all->sizes + y * r;
    if (all->kind == ENTROPY) {
        for (int64_t i = 0; i < r; ++i) into[i] += from[i];
        return;
    }
    for (int64_t i = 0; i < r; ++i) {
        all->below[x * r + i] += all->below[y * r + i];
        into[i] = 0;
    }
    int64_t i = 0;
    for (const int32_t* s = spare; s < out; ++s) {
        while (*s >= all->offsets[i + 1]) ++i;
        const int64_t n = all->counts[*s * n_cells + x];
        into[i] += n * n;
    }
}

/* Bytes of scratch that gpc_merge_cells needs. */
GPC_API int64_t gpc_merge_cells_scratch(int64_t n_cells, int64_t n_rows,
                                        int64_t n_partitions) {
    return 8 * n_cells * (n_cells + 1) + 8 * n_cells * n_partitions + 16 * n_cells +
           12 * n_cells * n_rows + 8 * n_rows;
}

/* Merge the cells of counts (S, M) to n_clusters.

   whole: g in whole numbers at every x up to twice the members of all cells (a cell is
   added to itself too), for entropies; below (M, r):
   z, for squares, changed. name (M): the cell that each has gone into, the lowest of
   them; merged (S, n_clusters): the counts of these cells, in their order. n_clusters
   <= M. */
GPC_API void gpc_merge_cells(int64_t kind, const int64_t* counts, int64_t n_cells,
                             const int64_t* offsets, int64_t n_partitions,
                             const double* weights, const int64_t* whole, double* below,
                             int64_t n_clusters, int64_t* name, int64_t* merged,
                             void* scratch) {
    const int64_t n_rows = offsets[n_partitions];
    double *costs = scratch, *cost = costs + n_cells * n_cells; /* (M, M), of a < b */
    cells all = {.kind = kind,
                 .below = below,
                 .whole = whole,
                 .offsets = offsets,
                 .weights = weights,
                 .n_cells = n_cells,
                 .n_rows = n_rows,
                 .n_partitions = n_partitions};
    all.sizes = (int64_t*)(void*)(cost + n_cells);
    all.shared = all.sizes + n_cells * n_partitions;
    all.n_labels = all.shared + n_cells;
    all.counts = (int32_t*)(void*)(all.n_labels + n_cells);
    all.owners = all.counts + n_cells * n_rows;
    all.labels = all.owners + n_cells * n_rows;
    all.n_owners = all.labels + n_cells * n_rows;
    int32_t* spare = all.n_owners + n_rows;
    memset(all.sizes, 0, (size_t)(n_cells * n_partitions) * 8);
    memset(all.n_labels, 0, (size_t)n_cells * 8);
    for (int64_t i = 0; i < n_partitions; ++i)
        for (int64_t s = offsets[i]; s < offsets[i + 1]; ++s) {
            const int missing = s == offsets[i + 1] - 1;
            int32_t* owner = all.owners + s * n_cells;
            int32_t number = 0;
            for (int64_t a = 0; a < n_cells; ++a) {
                const int64_t n = missing ? 0 : counts[s * n_cells + a];
                all.counts[s * n_cells + a] = (int32_t)n;
                if (!n) continue;
                owner[number++] = (int32_t)a;
                all.sizes[a * n_partitions + i] += kind == ENTROPY ? n : n * n;
                all.labels[a * n_rows + all.n_labels[a]++] = (int32_t)s;
            }
            all.n_owners[s] = number;
        }
    for (int64_t a = 0; a < n_cells; ++a) {
        name[a] = a;
        price(&all, a, cost);
        for (int64_t b = a + 1; b < n_cells; ++b) costs[a * n_cells + b] = cost[b];
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
        join(&all, x, y, spare);
        for (int64_t b = 0; b < n_cells; ++b)
            if (name[b] == y) name[b] = x;
        price(&all, x, cost);
        for (int64_t b = 0; b < n_cells; ++b)
            if (name[b] == b && b != x)
                costs[b < x ? b * n_cells + x : x * n_cells + b] = cost[b];
    }
    int64_t* place = all.shared; /* of each cell that is left, among the clusters */
    for (int64_t a = 0, k = 0; a < n_cells; ++a)
        if (name[a] == a) place[a] = k++;
    for (int64_t i = 0; i < n_partitions; ++i)
        for (int64_t s = offsets[i]; s < offsets[i + 1]; ++s) {
            int64_t* row = merged + s * n_clusters;
            if (s < offsets[i + 1] - 1) {
                for (int64_t a = 0; a < n_cells; ++a)
                    if (name[a] == a) row[place[a]] = all.counts[s * n_cells + a];
                continue;
            }
            memset(row, 0, (size_t)n_clusters * 8);
            for (int64_t a = 0; a < n_cells; ++a)
                row[place[name[a]]] += counts[s * n_cells + a];
        }
}
