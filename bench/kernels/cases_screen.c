/* Cases of screening: a table is rounded as the backend does it, then used. */
#include "driver.h"

#define CODES w->codes, w->code_size, w->stride, w->offsets
#define CLUSTERS w->s.n_restarts, w->s.n_clusters

static int prepare_bounds(world* w) {
    w->table = make_table(w);
    const size_t size = (size_t)(w->s.n_partitions * w->s.n_restarts) * 4;
    w->spread = output(w, size, 0xa5);
    w->level = output(w, size, 0xa5);
    return 1;
}

static void bounds_part(world* w, int64_t first, int64_t last, char* scratch) {
    (void)scratch;
    gpc_screen_bounds(w->table, w->width, w->offsets, CLUSTERS, first, last, w->spread,
                      w->level);
}

/* Scale and distance of every restart, as gpu_consensus/backends/native/screening.py
   makes them; 0 where a table cannot be screened. */
static int make_scale(world* w) {
    const int64_t r = w->s.n_partitions, n_restarts = w->s.n_restarts;
    if (w->s.n_clusters < 2 || w->s.n_clusters > 32767 || r > 4096) return 0;
    w->table = make_table(w);
    float* spread = input(w, (size_t)(r * n_restarts) * 4);
    float* level = input(w, (size_t)(r * n_restarts) * 4);
    gpc_screen_bounds(w->table, w->width, w->offsets, CLUSTERS, 0, r, spread, level);
    w->scale = input(w, (size_t)n_restarts * 4);
    w->distance = input(w, (size_t)n_restarts * 2);
    const double rounding = (double)(r - 1) * 0x1p-24 / (1 - (double)(r - 1) * 0x1p-24);
    for (int64_t q = 0; q < n_restarts; ++q) {
        double widest = 0, highest = 0;
        for (int64_t i = 0; i < r; ++i) {
            widest += (double)spread[i * n_restarts + q];
            highest += (double)level[i * n_restarts + q];
        }
        if (!(widest > 0)) return 0;
        w->scale[q] = (float)((65534 - (double)r / 2) / widest);
        const double apart =
            (double)r + 0.05 + 2 * (double)w->scale[q] * rounding * highest;
        w->distance[q] = (uint16_t)((int64_t)apart + 1);
    }
    const int64_t lanes = w->columns <= 16 ? 16 : 32;
    w->small_width = (w->columns + lanes - 1) / lanes * lanes;
    return 1;
}

static size_t small_size(const world* w) {
    return (size_t)(w->n_rows * w->small_width) * 2;
}

static int prepare_small(world* w) {
    if (!make_scale(w)) return 0;
    w->small = output(w, small_size(w), 0xa5);
    return 1;
}

static int64_t rows_of(const world* w) { return w->n_rows; }

static void small_part(world* w, int64_t first, int64_t last, char* scratch) {
    (void)scratch;
    gpc_screen_table(w->table, w->width, CLUSTERS, w->scale, first, last, w->small,
                     w->small_width);
}

static int prepare_screened(world* w) {
    if (!make_scale(w)) return 0;
    w->small = input(w, small_size(w));
    gpc_screen_table(w->table, w->width, CLUSTERS, w->scale, 0, w->n_rows, w->small,
                     w->small_width);
    w->line = w->s.n_samples;
    const int64_t places = w->s.n_restarts * w->s.n_samples;
    w->assignment = output(w, (size_t)(places * w->cluster_size), 0xa5);
    return 1;
}

static int64_t screened_room(const world* w) {
    return gpc_screen_scratch(w->width, w->small_width, w->n_rows, w->s.n_partitions);
}

/* how many stay undecided depends on the ranges, and is not compared */
static void screened_part(world* w, int64_t begin, int64_t end, char* scratch) {
    int64_t found[2] = {0, 0};
    gpc_assign_screened(CODES, w->s.n_partitions, w->table, w->width, w->small,
                        w->small_width, w->distance, CLUSTERS, begin, end,
                        w->assignment, w->cluster_size, w->line, found, scratch);
}

const kernel_case screen_cases[] = {
    {"assign_screened", "plain", 0, prepare_screened, objects_of, screened_room,
     screened_part, NULL, 4, 0, every_column, "object, partition and column"},
    {"screen_bounds", "plain", 0, prepare_bounds, partitions_of, nothing, bounds_part,
     NULL, 4, 0, every_entry, "entry of the table"},
    {"screen_table", "plain", 0, prepare_small, rows_of, nothing, small_part, NULL, 4,
     0, every_entry, "entry of the table"},
    {0}};
