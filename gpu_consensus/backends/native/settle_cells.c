/* Move merged cells to the clusters where they cost least:
   gpu_consensus/loop/settling.py, the same bits.

   A cell c that leaves cluster a for cluster b changes in partition i
   - of entropies: sum_j [g(n_j -+ c_j) - g(n_j)] less the same of the members present,
     g = x log2 x in whole numbers (a table);
   - of squares and roots: the total of A -+ 2 P + A_c, where A are the sums of squared
     counts and P those of the products of the counts of cell and cluster.
   Products of two cells are kept where there is room for all of them. Otherwise, and for
   entropies, only the labels of the cell are looked at, of which it keeps a list. Sums
   within a partition are those of whole numbers, and partitions are added in order. */
#include "cells.h"

typedef struct {
    int64_t kind;
    int64_t* products; /* (M, r, M), or NULL */
    int64_t* name;     /* (M): the cluster of each cell so far, or -1 */
    int32_t* labels;   /* (M, S): the labels of a cell, ascending */
    int32_t* numbers;  /* (M, S): and how many of its members have them */
    int64_t* n_labels; /* (M) */
    int32_t* clusters; /* (S, K): members of a cluster with each label */
    int64_t* sizes;    /* (r, M + K): members, or sums of squares, cells first */
    double* below;     /* (r, M + K), for squares */
    int64_t* shared;   /* (K) */
    const int64_t* whole;
    const int64_t* offsets;
    const double* weights;
    int64_t n_cells, n_rows, n_partitions, n_clusters;
} cells;

/* Add the products of cell x with every cluster in partition i. */
GPC_INLINE void add_products(const cells* all, int64_t x, int64_t i,
                             int64_t* restrict shared) {
    const int64_t* row = all->products + (x * all->n_partitions + i) * all->n_cells;
    for (int64_t b = 0; b < all->n_cells; ++b)
        if (all->name[b] >= 0) shared[all->name[b]] += row[b];
}

/* Write what the total of each cluster gains by cell x, and of its own, a, without; a
   is -1 for a cell that has none. */
GPC_INLINE void price_as(const cells* all, const int64_t kind, int64_t x, int64_t a,
                         double* restrict gain) {
    const int64_t n_clusters = all->n_clusters;
    const int32_t *restrict label = NULL, *restrict number = NULL, *last = NULL;
    if (!all->products) {
        label = all->labels + x * all->n_rows;
        number = all->numbers + x * all->n_rows;
        last = label + all->n_labels[x];
    }
    const int64_t* restrict g = all->whole;
    int64_t* restrict shared = all->shared;
    for (int64_t k = 0; k < n_clusters; ++k) gain[k] = 0;
    for (int64_t i = 0; i < all->n_partitions; ++i) {
        const int64_t end = all->offsets[i + 1];
        int64_t own = 0; /* of entropies, in the place of shared[a] */
        memset(shared, 0, (size_t)n_clusters * 8);
        if (all->products) add_products(all, x, i, shared);
        for (; label < last && *label < end; ++label, ++number) {
            const int32_t* restrict row = all->clusters + *label * n_clusters;
            const int32_t n = *number;
            const int64_t* restrict raised = kind == ENTROPY ? g + n : g;
            if (kind == ENTROPY && a >= 0) own += g[row[a] - n] - g[row[a]];
            for (int64_t k = 0; k < n_clusters; ++k)
                shared[k] +=
                    kind == ENTROPY ? raised[row[k]] - g[row[k]] : (int64_t)n * row[k];
        }
        const int64_t* restrict sizes = all->sizes + i * (all->n_cells + n_clusters);
        const double* restrict below = all->below + i * (all->n_cells + n_clusters);
        const int64_t size = sizes[x], *restrict of = sizes + all->n_cells;
        const double under = below[x], *restrict z = below + all->n_cells;
        const double weight = all->weights[i];
        for (int64_t k = 0; k < n_clusters; ++k) {
            const int64_t way = k == a ? -1 : 1;
            if (kind == ENTROPY) {
                const int64_t labels = k == a ? own : shared[k];
                gain[k] +=
                    weight * (double)(labels - (g[of[k] + way * size] - g[of[k]]));
                continue;
            }
            const double square = (double)(of[k] + 2 * way * shared[k] + size);
            gain[k] += weight * (total_of(kind, square, z[k] + (double)way * under) -
                                 total_of(kind, (double)of[k], z[k]));
        }
    }
}

static void price(const cells* all, int64_t x, int64_t a, double* gain) {
    if (all->kind == ENTROPY)
        price_as(all, ENTROPY, x, a, gain);
    else if (all->kind == SQUARE)
        price_as(all, SQUARE, x, a, gain);
    else
        price_as(all, ROOT, x, a, gain);
}

/* Add cell x to cluster k, or take it away. */
static void add(const cells* all, int64_t x, int64_t k, int32_t way) {
    const int64_t width = all->n_cells + all->n_clusters, at = all->n_cells + k;
    const int32_t *label = NULL, *number = NULL, *last = NULL;
    if (!all->products) {
        label = all->labels + x * all->n_rows;
        number = all->numbers + x * all->n_rows;
        last = label + all->n_labels[x];
    }
    for (int64_t i = 0; i < all->n_partitions; ++i) {
        const int64_t end = all->offsets[i + 1];
        int64_t *sizes = all->sizes + i * width, products = 0;
        if (all->products) {
            const int64_t* row =
                all->products + (x * all->n_partitions + i) * all->n_cells;
            for (int64_t b = 0; b < all->n_cells; ++b)
                if (all->name[b] == k) products += row[b];
        }
        for (; label < last && *label < end; ++label, ++number) {
            int32_t* count = all->clusters + *label * all->n_clusters + k;
            products += (int64_t)*number * *count;
            *count += way * *number;
        }
        if (all->kind != ENTROPY)
            sizes[at] += 2 * way * products + sizes[x];
        else
            sizes[at] += way * sizes[x];
        all->below[i * width + at] += (double)way * all->below[i * width + x];
    }
    all->name[x] = way > 0 ? k : -1;
}

/* Take the counts in; return 0 if one is negative or a partition has too many. */
static int take_counts(const cells* all, const int64_t* counts, int64_t line,
                       int64_t most) {
    const int64_t n_cells = all->n_cells, width = n_cells + all->n_clusters;
    memset(all->n_labels, 0, (size_t)n_cells * 8);
    for (int64_t i = 0; i < all->n_partitions; ++i) {
        int64_t members = 0, *sizes = all->sizes + i * width;
        for (int64_t s = all->offsets[i]; s < all->offsets[i + 1]; ++s) {
            const int64_t* given = counts + s * line;
            const int64_t found = members_of(given, line, n_cells, most);
            if (found < 0 || (members += found) > most) return 0;
            if (s == all->offsets[i + 1] - 1) continue; /* missing */
            for (int64_t a = 0; a < n_cells; ++a) {
                const int64_t n = given[a];
                const int64_t place = a * all->n_rows + all->n_labels[a];
                all->labels[place] = (int32_t)s;
                all->numbers[place] = (int32_t)n;
                all->n_labels[a] += n != 0;
                sizes[a] += all->kind == ENTROPY ? n : n * n;
            }
        }
    }
    return 1;
}

/* The cluster that gains most, other than `from`; ties to the lowest. */
static int64_t best_of(const double* gain, int64_t n_clusters, int64_t from) {
    int64_t to = from == 0 ? 1 : 0;
    for (int64_t k = to + 1; k < n_clusters; ++k)
        if (k != from && gain[k] > gain[to]) to = k;
    return to;
}

/* Write the counts of clusters, merged (S, K); order: room for M numbers. */
static void add_up(const int64_t* counts, int64_t line, int64_t n_cells, int64_t n_rows,
                   int64_t n_clusters, const int64_t* name, int64_t* restrict order,
                   int64_t* restrict merged) {
    int64_t number = 0;
    for (int64_t k = 0; k < n_clusters; ++k)
        for (int64_t a = 0; a < n_cells; ++a)
            if (name[a] == k) order[number++] = a;
    for (int64_t s = 0; s < n_rows; ++s) {
        const int64_t* row = counts + s * line;
        for (int64_t a = 0; a < n_cells; a += GPC_STEP)
            __builtin_prefetch(row + LABELS_AHEAD * line + a);
        for (int64_t k = 0, t = 0; k < n_clusters; ++k) {
            int64_t sum = 0;
            for (; t < n_cells && name[order[t]] == k; ++t) sum += row[order[t]];
            merged[s * n_clusters + k] = sum;
        }
    }
}

/* Bytes of scratch that gpc_settle_cells needs. */
GPC_API int64_t gpc_settle_cells_scratch(int64_t kind, int64_t n_cells, int64_t n_rows,
                                         int64_t n_partitions, int64_t n_clusters) {
    const int64_t products = n_products(kind, n_cells, n_partitions);
    const int64_t lists = products ? 8 * products + block_room(n_cells)
                                   : 4 * n_rows * (2 * n_cells + n_clusters);
    return 16 * (n_cells + n_clusters) * (n_partitions + 1) + lists;
}

/* Move the cells of counts (S, M), `line` numbers from one row to the next, one after
   another to the cluster where the objective falls most, as often as `sweeps` says;
   cells without a cluster first.

   whole: g in whole numbers at every x up to `most`, for entropies; below (r, M): what
   stands below squares. name (M): the cluster of each cell or -1, changed; none is
   left empty. n_clusters > 1. merged (S, n_clusters): the counts of the clusters.
   Returns 0, and does nothing, if a count is negative or twice those of a partition are
   more than `most` (a cell is added to its own cluster too). */
GPC_API int64_t gpc_settle_cells(int64_t kind, const int64_t* counts, int64_t line,
                                 int64_t n_cells, const int64_t* offsets,
                                 int64_t n_partitions, const double* weights,
                                 const int64_t* whole, int64_t most,
                                 const double* below, int64_t n_clusters,
                                 int64_t sweeps, int64_t* name, int64_t* merged,
                                 void* scratch) {
    const int64_t n_rows = offsets[n_partitions], width = n_cells + n_clusters;
    double *gain = scratch, *under = gain + n_clusters;
    cells all = {.kind = kind,
                 .below = under,
                 .whole = whole,
                 .offsets = offsets,
                 .weights = weights,
                 .n_cells = n_cells,
                 .n_rows = n_rows,
                 .n_partitions = n_partitions,
                 .n_clusters = n_clusters};
    all.sizes = (int64_t*)(void*)(under + width * n_partitions);
    all.shared = all.sizes + width * n_partitions;
    all.name = all.shared + n_clusters;
    all.n_labels = all.name + n_cells;
    memset(all.sizes, 0, (size_t)(width * n_partitions) * 8);
    if (n_products(kind, n_cells, n_partitions)) {
        double* block = (double*)(void*)all.n_labels;
        all.products = all.n_labels + block_room(n_cells) / 8;
        if (!multiply_cells(counts, line, n_cells, offsets, n_partitions, most / 2,
                            block, all.products))
            return 0;
        for (int64_t i = 0; i < n_partitions; ++i)
            for (int64_t a = 0; a < n_cells; ++a)
                all.sizes[i * width + a] =
                    all.products[(a * n_partitions + i) * n_cells + a];
    } else {
        all.labels = (int32_t*)(void*)(all.n_labels + n_cells);
        all.numbers = all.labels + n_cells * n_rows;
        all.clusters = all.numbers + n_cells * n_rows;
        if (!take_counts(&all, counts, line, most / 2)) return 0;
        memset(all.clusters, 0, (size_t)(n_rows * n_clusters) * 4);
    }
    for (int64_t i = 0; i < n_partitions; ++i)
        for (int64_t a = 0; a < width; ++a)
            under[i * width + a] = a < n_cells ? below[i * n_cells + a] : 0;
    for (int64_t a = 0; a < n_cells; ++a) all.name[a] = -1;
    for (int64_t a = 0; a < n_cells; ++a)
        if (name[a] >= 0) add(&all, a, name[a], 1);
    for (int64_t x = 0; x < n_cells; ++x) {
        if (name[x] >= 0) continue;
        price(&all, x, -1, gain);
        name[x] = best_of(gain, n_clusters, -1);
        add(&all, x, name[x], 1);
    }
    int64_t moved = 1;
    for (int64_t sweep = 0; sweep < sweeps && moved; ++sweep) {
        moved = 0;
        for (int64_t x = 0; x < n_cells; ++x) {
            const int64_t from = name[x];
            int64_t others = 0;
            for (int64_t b = 0; b < n_cells && !others; ++b)
                others = b != x && name[b] == from;
            if (!others) continue;
            price(&all, x, from, gain);
            const int64_t to = best_of(gain, n_clusters, from);
            if (!(gain[from] + gain[to] > 0)) continue;
            add(&all, x, from, -1);
            add(&all, x, to, 1);
            name[x] = to;
            moved = 1;
        }
    }
    add_up(counts, line, n_cells, n_rows, n_clusters, name, all.name, merged);
    return 1;
}
