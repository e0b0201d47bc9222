/* Cases of merges, of which each needs those before it: a call is never cut. */
#include "driver.h"

enum { MOST_CLASSES = 200, MOST_CELLS = 60, SOME_MERGES = 37 };

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* Classes of one object or a few; how alike two are is how many labels they share, in
   hundredths, and no two pairs are quite alike. */
static int prepare_merge(world* w) {
    const int64_t n = smaller(w->s.n_samples, MOST_CLASSES);
    w->n_left = n;
    double* matrix = input(w, (size_t)(n * n) * 8);
    double* numbers = input(w, (size_t)n * 16);
    int64_t* lists = input(w, (size_t)n * 56);
    for (int64_t a = 0; a < n; ++a) {
        for (int64_t b = 0; b < a; ++b) {
            int64_t shared = 0;
            for (int64_t i = 0; i < w->s.n_partitions; ++i)
                shared += code_at(w, i, a) == code_at(w, i, b);
            const double alike = (double)(100 * shared + below(w, 100)) * 0.01;
            matrix[a * n + b] = matrix[b * n + a] = alike;
        }
        matrix[a * n + a] = -__builtin_inf();
        numbers[a] = (double)(1 + below(w, 4));
        numbers[n + a] = __builtin_inf();
        lists[n + a] = 1;
        lists[2 * n + a] = a;
    }
    const int64_t state[4] = {n, n, 0, 0};
    w->matrix = output_copy(w, matrix, (size_t)(n * n) * 8);
    w->numbers = output_copy(w, numbers, (size_t)n * 16);
    w->lists = output_copy(w, lists, (size_t)n * 56);
    w->progress = output_copy(w, state, sizeof state);
    w->merged = output(w, (size_t)n * 16, 0xa5);
    w->heights = output(w, (size_t)n * 8, 0xa5);
    return 1;
}

/* some merges at a time, as the backend asks for them, and no more than there can be */
static void merge_part(world* w, int64_t begin, int64_t end, char* scratch) {
    (void)begin, (void)end, (void)scratch;
    int64_t done = 0, most = 0, now = 0;
    do {
        done += now;
        most = smaller(SOME_MERGES, w->n_left - done);
        now = gpc_merge(w->matrix, w->n_left, w->variant, w->numbers, w->lists,
                        w->progress, -1.0, 1, most, w->merged + 2 * done,
                        w->heights + done);
    } while (now && now == most);
}

static int64_t merge_lookups(const world* w) { return w->n_left * w->n_left; }

/* Cells of every cluster are to become one again. */
static int64_t cells_of(const world* w) {
    return smaller(4 * w->s.n_clusters, MOST_CELLS);
}

static int64_t left_of(const world* w) {
    return smaller(w->s.n_clusters, cells_of(w) / 4);
}

static int prepare_cells(world* w) {
    const int64_t n = w->s.n_samples, n_cells = cells_of(w);
    w->counts = input(w, (size_t)(w->n_rows * n_cells) * 8);
    for (int64_t l = 0; l < n; ++l) {
        const int64_t cell = (4 * w->truth[l] + below(w, 4)) % n_cells;
        for (int64_t i = 0; i < w->s.n_partitions; ++i)
            ++w->counts[(w->offsets[i] + code_at(w, i, l)) * n_cells + cell];
    }
    w->weights = make_doubles(w, w->s.n_partitions, 1000, 1e-3);
    /* close to x log2 x, by straight lines between the powers of two */
    w->whole = input(w, (size_t)(2 * n + 1) * 8);
    for (int64_t x = 1; x <= 2 * n; ++x) {
        int64_t e = 0;
        while (x >> (e + 1)) ++e;
        w->whole[x] = x * ((e - 1) * (1 << 20) + ((x << 20) >> e));
    }
    w->name = output(w, (size_t)n_cells * 8, 0xa5);
    w->under = output(w, (size_t)(n_cells * w->s.n_partitions) * 8, 0);
    for (int64_t x = 0; x < n_cells * w->s.n_partitions; ++x)
        w->under[x] = (double)(1 + below(w, 100));
    w->joined = output(w, (size_t)(w->n_rows * left_of(w)) * 8, 0xa5);
    return 1;
}

static int64_t cells_room(const world* w) {
    return gpc_merge_cells_scratch(w->variant, cells_of(w), w->n_rows,
                                   w->s.n_partitions);
}

static void cells_part(world* w, int64_t begin, int64_t end, char* scratch) {
    (void)begin, (void)end;
    gpc_merge_cells(w->variant, w->counts, cells_of(w), cells_of(w), w->offsets,
                    w->s.n_partitions, w->weights, w->whole, 2 * w->s.n_samples,
                    w->under, left_of(w), w->name, scratch);
}

static int prepare_settling(world* w) {
    if (left_of(w) < 2 || !prepare_cells(w)) return 0; /* nowhere else to go */
    for (int64_t a = 0; a < cells_of(w); ++a) /* every fourth has no cluster yet */
        w->name[a] = a % 4 == 3 && a >= left_of(w) ? -1 : a % left_of(w);
    return 1;
}

static int64_t settling_room(const world* w) {
    return gpc_settle_cells_scratch(w->variant, cells_of(w), w->n_rows,
                                    w->s.n_partitions, left_of(w));
}

static void settling_part(world* w, int64_t begin, int64_t end, char* scratch) {
    (void)begin, (void)end;
    gpc_settle_cells(w->variant, w->counts, cells_of(w), cells_of(w), w->offsets,
                     w->s.n_partitions, w->weights, w->whole, 2 * w->s.n_samples,
                     w->under, left_of(w), 3, w->name, w->joined, scratch);
}

static int64_t cells_lookups(const world* w) {
    return cells_of(w) * cells_of(w) * w->s.n_partitions;
}

#define MERGE(label, variant)                                                         \
    {"merge", label, variant,       prepare_merge,    one, nothing, merge_part, NULL, \
     0,       0,     merge_lookups, "pair of classes"}

#define CELLS(label, variant) \
    {"merge_cells",           \
     label,                   \
     variant,                 \
     prepare_cells,           \
     one,                     \
     cells_room,              \
     cells_part,              \
     NULL,                    \
     0,                       \
     0,                       \
     cells_lookups,           \
     "pair of cells and partition"}

#define SETTLING(label, variant) \
    {"settle_cells",             \
     label,                      \
     variant,                    \
     prepare_settling,           \
     one,                        \
     settling_room,              \
     settling_part,              \
     NULL,                       \
     0,                          \
     0,                          \
     cells_lookups,              \
     "pair of cells and partition"}

/* linkages by their number in merge.c, kinds by theirs in cells.h */
const kernel_case merge_cases[] = {MERGE("average", 0),
                                   MERGE("sum", 1),
                                   MERGE("single", 2),
                                   MERGE("complete", 3),
                                   CELLS("entropy", 0),
                                   CELLS("square", 1),
                                   CELLS("root", 2),
                                   SETTLING("entropy", 0),
                                   SETTLING("square", 1),
                                   SETTLING("root", 2),
                                   {0}};
