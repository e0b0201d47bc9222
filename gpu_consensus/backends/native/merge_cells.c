/* Merge cells until so many clusters are left, each time the pair that costs least: the
   merges of gpu_consensus/loop/merging.py, the same bits.

   A merge of cells a and b costs in partition i
   - of entropies: g(n_a + n_b) - g(n_a) - g(n_b) less the same over the labels, where n
     are the members present in it and g = x log2 x in whole numbers (a table);
   - of squares: A_a / z_a + A_b / z_b - (A_a + A_b + 2 P_ab) / (z_a + z_b), where A are
     the sums of the squared counts and P those of their products;
   - of roots: sqrt(A_a) + sqrt(A_b) - sqrt(A_a + A_b + 2 P_ab).
   P of two clusters is the sum of those of their cells: where there is room for all of
   them they are kept, and merges are additions. Otherwise, and for entropies, sums are
   made anew. Only labels that both have add something to them, and few cells have a
   label: every label keeps a list of them, and every cell one of its labels. Sums
   within a partition are those of whole numbers, and partitions are added in order. */
#include "cells.h"

typedef struct {
    int64_t kind;
    int64_t* products; /* (M, r, M), or NULL */
    int32_t* counts;   /* (S, M): members with each label */
    int32_t* owners;   /* (S, M): the cells that have a label, ascending at first */
    int32_t* n_owners;
    int32_t* passed;   /* (S): owners that have their costs, while they are made */
    int32_t* labels;   /* (M, S): the labels of a cell, ascending */
    int64_t* n_labels; /* (M) */
    int64_t* sizes;    /* (r, M): members, or sums of squares */
    double* totals;    /* (r, M), for squares and roots */
    double* below;     /* (r, M), for squares */
    int64_t* shared;   /* (M) */
    const int64_t* whole;
    const int64_t* offsets;
    const double* weights;
    int64_t n_cells, n_rows, n_partitions;
} cells;

GPC_INLINE int64_t growth(const int64_t* g, int64_t x, int64_t y) {
    return g[x + y] - g[x] - g[y];
}

static void set_total(const cells* all, int64_t i, int64_t a) {
    const int64_t at = i * all->n_cells + a;
    const double square = (double)all->sizes[at];
    all->totals[at] = all->kind == ROOT ? total_of(ROOT, square, 0)
                                        : total_of(SQUARE, square, all->below[at]);
}

/* what the labels of partition i, from *label on, add to the sums with every cell; with
   `later` known to the compiler: with those after x alone */
GPC_INLINE const int32_t* share(const cells* restrict all, const int64_t kind,
                                const int later, int64_t x, int64_t i,
                                const int32_t* label, const int32_t* last) {
    const int64_t n_cells = all->n_cells, end = all->offsets[i + 1];
    const int64_t first = later ? x + 1 : 0;
    const int64_t* restrict g = all->whole;
    int64_t* restrict shared = all->shared;
    memset(shared, 0, (size_t)n_cells * 8);
    for (; label < last && *label < end; ++label) {
        const int32_t* restrict row = all->counts + *label * n_cells;
        const int32_t* restrict owner = all->owners + *label * n_cells;
        const int32_t own = row[x], number = all->n_owners[*label];
        const int64_t* restrict raised = kind == ENTROPY ? g + own : g;
        const int64_t g_own = kind == ENTROPY ? g[own] : 0;
        const int32_t begin = later ? ++all->passed[*label] : 0;
        if (2 * number > n_cells) { /* in order, for vectors; 0 adds nothing */
            for (int64_t b = first; b < n_cells; ++b)
                shared[b] += kind == ENTROPY ? raised[row[b]] - g_own - g[row[b]]
                                             : (int64_t)own * row[b];
            continue;
        }
        for (int32_t t = begin; t < number; ++t) {
            const int32_t b = owner[t];
            shared[b] += kind == ENTROPY ? raised[row[b]] - g_own - g[row[b]]
                                         : (int64_t)own * row[b];
        }
    }
    return label;
}

GPC_INLINE void price_as(const cells* all, const int64_t kind, const int later,
                         int64_t x, double* restrict cost) {
    const int64_t n_cells = all->n_cells, r = all->n_partitions;
    const int64_t first = later ? x + 1 : 0;
    const int32_t *label = NULL, *last = NULL;
    if (!all->products) {
        label = all->labels + x * all->n_rows;
        last = label + all->n_labels[x];
    }
    for (int64_t b = first; b < n_cells; ++b) cost[b] = 0;
    for (int64_t i = 0; i < r; ++i) {
        const int64_t* restrict shared = all->shared;
        if (all->products)
            shared = all->products + (x * r + i) * n_cells;
        else
            label = share(all, kind, later, x, i, label, last);
        const int64_t* restrict sizes = all->sizes + i * n_cells;
        const int64_t size = sizes[x];
        const double weight = all->weights[i];
        if (kind == ENTROPY) {
            for (int64_t b = first; b < n_cells; ++b)
                cost[b] +=
                    weight * (double)(growth(all->whole, size, sizes[b]) - shared[b]);
            continue;
        }
        const double* restrict totals = all->totals + i * n_cells;
        const double* restrict below = all->below + i * n_cells;
        const double total = totals[x], under = below[x];
        for (int64_t b = first; b < n_cells; ++b) {
            const double both = (double)(size + sizes[b] + 2 * shared[b]);
            cost[b] +=
                weight * (total + totals[b] - total_of(kind, both, under + below[b]));
        }
    }
}

/* Write what merging cell x with every other one costs, or with every later one. */
static void price(const cells* all, const int later, int64_t x, double* cost) {
    if (all->kind == ENTROPY)
        later ? price_as(all, ENTROPY, 1, x, cost) : price_as(all, ENTROPY, 0, x, cost);
    else if (all->kind == SQUARE)
        later ? price_as(all, SQUARE, 1, x, cost) : price_as(all, SQUARE, 0, x, cost);
    else
        later ? price_as(all, ROOT, 1, x, cost) : price_as(all, ROOT, 0, x, cost);
}

/* Put the labels of cell y into those of cell x; spare: room for the labels of both. */
static void join_labels(const cells* all, int64_t x, int64_t y, int32_t* spare) {
    const int64_t n_cells = all->n_cells;
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
}

/* 2 P_xy in every partition, which the square of both has besides their own */
static int64_t twice_shared(const cells* all, int64_t x, int64_t y, int64_t i) {
    if (all->products)
        return 2 * all->products[(x * all->n_partitions + i) * all->n_cells + y];
    int64_t sum = 0;
    for (int64_t s = all->offsets[i]; s < all->offsets[i + 1]; ++s) {
        const int32_t* row = all->counts + s * all->n_cells;
        sum += (int64_t)row[x] * row[y];
    }
    return 2 * sum;
}

/* Put cell y into cell x. */
static void join(const cells* all, int64_t x, int64_t y, int32_t* spare) {
    const int64_t n_cells = all->n_cells, r = all->n_partitions;
    for (int64_t i = 0; i < r; ++i) {
        int64_t* sizes = all->sizes + i * n_cells;
        sizes[x] += sizes[y];
        if (all->kind == ENTROPY) continue;
        sizes[x] += twice_shared(all, x, y, i);
        all->below[i * n_cells + x] += all->below[i * n_cells + y];
        set_total(all, i, x);
    }
    if (!all->products) {
        join_labels(all, x, y, spare);
        return;
    }
    int64_t *into = all->products + x * r * n_cells,
            *from = all->products + y * r * n_cells;
    for (int64_t t = 0; t < r * n_cells; ++t) into[t] += from[t];
    for (int64_t t = 0; t < n_cells * r; ++t) {
        int64_t* row = all->products + t * n_cells;
        row[x] += row[y];
    }
}

/* Take the counts in; return 0 if one is negative or a partition has too many. */
static int take_counts(const cells* all, const int64_t* counts, int64_t line,
                       int64_t most) {
    const int64_t n_cells = all->n_cells, r = all->n_partitions;
    memset(all->sizes, 0, (size_t)(n_cells * r) * 8);
    memset(all->n_labels, 0, (size_t)n_cells * 8);
    for (int64_t i = 0; i < r; ++i) {
        int64_t members = 0, *sizes = all->sizes + i * n_cells;
        for (int64_t s = all->offsets[i]; s < all->offsets[i + 1]; ++s) {
            int32_t *row = all->counts + s * n_cells, *owner = all->owners + s * n_cells;
            const int64_t* given = counts + s * line;
            const int missing = s == all->offsets[i + 1] - 1;
            const int64_t found = members_of(given, line, n_cells, most);
            if (found < 0 || (members += found) > most) return 0;
            int32_t number = 0;
            for (int64_t a = 0; a < n_cells; ++a) {
                row[a] = missing ? 0 : (int32_t)given[a];
                owner[number] = (int32_t)a;
                number += row[a] != 0;
            }
            for (int32_t t = 0; t < number; ++t) {
                const int64_t a = owner[t], n = row[a];
                sizes[a] += all->kind == ENTROPY ? n : n * n;
                all->labels[a * all->n_rows + all->n_labels[a]++] = (int32_t)s;
            }
            all->n_owners[s] = number, all->passed[s] = 0;
        }
    }
    return 1;
}

/* Bytes of scratch that gpc_merge_cells needs. */
GPC_API int64_t gpc_merge_cells_scratch(int64_t kind, int64_t n_cells, int64_t n_rows,
                                        int64_t n_partitions) {
    const int64_t products = n_products(kind, n_cells, n_partitions);
    const int64_t lists = products ? 8 * products + block_room(n_cells)
                                   : 12 * n_cells * n_rows + 12 * n_rows;
    return 8 * n_cells * (n_cells + 3) + 16 * n_cells * n_partitions + lists;
}

/* Merge the cells of counts (S, M), `line` numbers from one row to the next, to
   n_clusters.

   whole: g in whole numbers at every x up to `most`, for entropies; below (r, M): z,
   for squares, changed. name (M): the cluster of each cell, 0 .. n_clusters - 1 in the
   order of their lowest cells. n_clusters <= M. Returns 0, and does nothing, if a count
   is negative or twice those of a partition are more than `most` (a cell is added to
   itself too). */
GPC_API int64_t gpc_merge_cells(int64_t kind, const int64_t* counts, int64_t line,
                                int64_t n_cells, const int64_t* offsets,
                                int64_t n_partitions, const double* weights,
                                const int64_t* whole, int64_t most, double* below,
                                int64_t n_clusters, int64_t* name, void* scratch) {
    const int64_t n_rows = offsets[n_partitions], r = n_partitions;
    const int64_t products = n_products(kind, n_cells, n_partitions);
    double *costs = scratch, *cost = costs + n_cells * n_cells; /* (M, M), of a < b */
    cells all = {.kind = kind,
                 .below = below,
                 .whole = whole,
                 .offsets = offsets,
                 .weights = weights,
                 .n_cells = n_cells,
                 .n_rows = n_rows,
                 .n_partitions = n_partitions};
    all.totals = cost + n_cells;
    all.sizes = (int64_t*)(void*)(all.totals + n_cells * r);
    all.shared = all.sizes + n_cells * r;
    all.n_labels = all.shared + n_cells;
    int32_t* spare = NULL;
    if (products) {
        double* block = (double*)(void*)(all.n_labels + n_cells);
        all.products = all.n_labels + n_cells + block_room(n_cells) / 8;
        if (!multiply_cells(counts, line, n_cells, offsets, r, most / 2, block,
                            all.products))
            return 0;
        for (int64_t i = 0; i < r; ++i)
            for (int64_t a = 0; a < n_cells; ++a)
                all.sizes[i * n_cells + a] = all.products[(a * r + i) * n_cells + a];
    } else {
        all.counts = (int32_t*)(void*)(all.n_labels + n_cells);
        all.owners = all.counts + n_cells * n_rows;
        all.labels = all.owners + n_cells * n_rows;
        all.n_owners = all.labels + n_cells * n_rows;
        all.passed = all.n_owners + n_rows;
        spare = all.passed + n_rows;
        if (!take_counts(&all, counts, line, most / 2)) return 0;
    }
    for (int64_t i = 0; i < r && kind != ENTROPY; ++i)
        for (int64_t a = 0; a < n_cells; ++a) set_total(&all, i, a);
    for (int64_t a = 0; a < n_cells; ++a) {
        name[a] = a;
        price(&all, 1, a, costs + a * n_cells);
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
        price(&all, 0, x, cost);
        for (int64_t b = 0; b < n_cells; ++b)
            if (name[b] == b && b != x)
                costs[b < x ? b * n_cells + x : x * n_cells + b] = cost[b];
    }
    int64_t* place = all.shared; /* of each cell, among the clusters */
    for (int64_t a = 0, k = 0; a < n_cells; ++a)
        place[a] = name[a] == a ? k++ : place[name[a]];
    memcpy(name, place, (size_t)n_cells * 8);
    return 1;
}
