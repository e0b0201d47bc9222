/* Cases of screening: a table is rounded as the backend does it, then used. */
#include "driver.h"

#define CODES w->codes, w->code_size, w->stride, w->offsets
#define CLUSTERS w->s.n_restarts, w->s.n_clusters

enum { SHARED_ROWS = 256, REACH = 65536 * 8 };

static size_t bounds_size(const world* w) {
    return (size_t)(w->s.n_partitions * w->s.n_restarts) * 4;
}

static int prepare_bounds(world* w) {
    w->table = make_table(w);
    w->spread = output(w, bounds_size(w), 0xa5);
    w->level = output(w, bounds_size(w), 0xa5);
    w->lowest = output(w, (size_t)(w->n_rows * w->s.n_restarts) * 4, 0xa5);
    return 1;
}

static void bounds_part(world* w, int64_t first, int64_t last, char* scratch) {
    (void)scratch;
    gpc_screen_bounds(w->table, w->width, w->offsets, CLUSTERS, first, last, w->spread,
                      w->level, w->lowest);
}

/* Two partitions of few labels share a lookup; the first of each rises. */
static void share_lookups(world* w) {
    const int64_t r = w->s.n_partitions, eighth = w->s.n_samples / 8;
    const int64_t most = eighth < SHARED_ROWS ? eighth : SHARED_ROWS;
    int64_t waiting = -1;
    w->lookup_parts = input(w, (size_t)r * 16);
    for (int64_t i = 0; i < r; ++i) {
        const int64_t rows = w->n_labels[i] + 1;
        if (rows * rows <= most && waiting >= 0) {
            w->lookup_parts[2 * waiting + 1] = i;
            waiting = -1;
            continue;
        }
        if (rows * rows <= most) waiting = w->n_lookups;
        w->lookup_parts[2 * w->n_lookups] = i;
        w->lookup_parts[2 * w->n_lookups + 1] = -1;
        ++w->n_lookups;
    }
}

/* e of the unit 2^e in which a number is at most 254 */
static int64_t unit_of(double number) {
    int64_t e = 0;
    while (number > 254.0 * (double)((int64_t)1 << e)) ++e;
    return e;
}

/* Let the least unit be 1, and the scales fit it; return what it was. */
static double in_least_units(world* w) {
    uint8_t least = w->unit[0];
    for (int64_t v = 1; v < w->n_lookups; ++v)
        if (w->unit[v] < least) least = w->unit[v];
    const double size = (double)((int64_t)1 << least);
    for (int64_t v = 0; v < w->n_lookups; ++v) w->unit[v] -= least;
    for (int64_t c = 0; c < w->columns; ++c) w->scale[c] /= (float)size;
    return size;
}

/* Lookups with the largest units first, in their order otherwise. */
static void sort_lookups(world* w) {
    for (int64_t v = 1; v < w->n_lookups; ++v)
        for (int64_t u = v; u > 0 && w->unit[u - 1] < w->unit[u]; --u) {
            int64_t* parts = w->lookup_parts + 2 * (u - 1);
            const int64_t kept[2] = {parts[0], parts[1]};
            const uint8_t unit = w->unit[u - 1];
            memmove(parts, parts + 2, 16);
            memcpy(parts + 2, kept, 16);
            w->unit[u - 1] = w->unit[u];
            w->unit[u] = unit;
        }
}

/* Bits of a variant: how doubts are settled, and that entries have two bytes. */
enum { BY_CLUSTERS, BY_RESTARTS, WORDS };

/* Units, scales and distances as gpu_consensus/backends/native/screening.py makes them,
   of sums that reach 0.8 of 16 bits, or in 16 bits four times as far, so that some are
   cut; 0 where a table cannot be screened. */
static int make_scale(world* w) {
    const int64_t r = w->s.n_partitions, n_restarts = w->s.n_restarts;
    if (w->s.n_clusters < 2 || w->s.n_clusters > 32767 || r > 4096) return 0;
    const int64_t lanes = 32;
    w->entry_size = w->variant & WORDS ? 2 : 1;
    const double rounding_up = w->entry_size == 1 ? 1.0002 : 1.04;
    w->small_width = (w->columns + lanes - 1) / lanes * lanes;
    w->table = make_table(w);
    share_lookups(w);
    float* spread = input(w, bounds_size(w));
    float* level = input(w, bounds_size(w));
    w->lowest = input(w, (size_t)(w->n_rows * n_restarts) * 4);
    gpc_screen_bounds(w->table, w->width, w->offsets, CLUSTERS, 0, r, spread, level,
                      w->lowest);
    w->unit = input(w, (size_t)w->n_lookups);
    w->raised = input(w, (size_t)w->n_lookups);
    w->lookup_rows = input(w, (size_t)(w->n_lookups + 1) * 8);
    w->scale = input(w, (size_t)w->width * 4);
    w->distance = input(w, (size_t)n_restarts * 2);
    const double room = (w->entry_size == 1 ? 0.8 : 3.2) * 65535;
    double coarse = 0;
    for (int64_t q = 0; q < n_restarts; ++q) {
        double widest = 0;
        for (int64_t i = 0; i < r; ++i) widest += (double)spread[i * n_restarts + q];
        if (!(widest > 0)) return 0;
        for (int64_t v = 0; v < w->n_lookups; ++v) {
            const int64_t i = w->lookup_parts[2 * v], j = w->lookup_parts[2 * v + 1];
            double largest = (double)spread[i * n_restarts + q];
            if (j >= 0) largest += (double)spread[j * n_restarts + q];
            const int64_t e = w->entry_size == 1 ? unit_of(room * largest / widest) : 0;
            if (e > w->unit[v]) w->unit[v] = (uint8_t)e;
        }
        for (int64_t k = 0; k < w->s.n_clusters; ++k)
            w->scale[k * n_restarts + q] = (float)(room / widest);
    }
    for (int64_t v = 0; v < w->n_lookups; ++v) coarse += (double)(1 << w->unit[v]);
    if (w->entry_size == 1 && room * (1 + 1e-6) + rounding_up / 2 * coarse > 65535)
        return 0;
    coarse /= in_least_units(w);
    sort_lookups(w);
    for (int64_t v = 0; v < w->n_lookups; ++v) {
        const int64_t i = w->lookup_parts[2 * v], j = w->lookup_parts[2 * v + 1];
        const int64_t rows = (w->n_labels[i] + 1) * (j < 0 ? 1 : w->n_labels[j] + 1);
        if (rows * w->small_width * w->entry_size > REACH) return 0;
        w->lookup_rows[v + 1] = w->lookup_rows[v] + rows;
        if (v) w->raised[v] = (uint8_t)(w->unit[v - 1] - w->unit[v]);
    }
    const double rounding = (double)(r - 1) * 0x1p-24 / (1 - (double)(r - 1) * 0x1p-24);
    for (int64_t q = 0; q < n_restarts; ++q) {
        double highest = 0;
        for (int64_t i = 0; i < r; ++i) highest += (double)level[i * n_restarts + q];
        const double apart =
            rounding_up * coarse + 2 * (double)w->scale[q] * rounding * highest;
        if (apart >= 65535) return 0;
        w->distance[q] = (uint16_t)((int64_t)apart + 1);
    }
    return 1;
}

static size_t small_size(const world* w) {
    return (size_t)(w->lookup_rows[w->n_lookups] * w->small_width * w->entry_size);
}

static int prepare_small(world* w) {
    if (!make_scale(w)) return 0;
    w->small = output(w, small_size(w), 0xa5);
    return 1;
}

static int64_t lookups_of(const world* w) { return w->n_lookups; }

static int64_t small_room(const world* w) {
    return gpc_screen_table_scratch(w->width, SHARED_ROWS);
}

static void small_part(world* w, int64_t first, int64_t last, char* scratch) {
    gpc_screen_table(w->table, w->width, w->offsets, w->lowest, CLUSTERS,
                     w->lookup_parts, w->lookup_rows, w->unit, w->scale, first, last,
                     w->small, w->entry_size, w->small_width, scratch);
}

static int64_t small_entries(const world* w) {
    return w->lookup_rows[w->n_lookups] * w->columns;
}

static int64_t apart_width(const world* w) { return (w->s.n_clusters + 15) / 16 * 16; }

static size_t apart_size(const world* w) {
    return (size_t)(w->s.n_restarts * w->n_rows * apart_width(w)) * 4;
}

static int prepare_apart(world* w) {
    w->table = make_table(w);
    w->apart = output(w, apart_size(w), 0);
    return 1;
}

static int64_t rows_of_table(const world* w) { return w->n_rows; }

static void apart_part(world* w, int64_t first, int64_t last, char* scratch) {
    (void)scratch;
    gpc_screen_apart(w->table, w->width, w->n_rows, CLUSTERS, first, last, w->apart,
                     apart_width(w));
}

static int prepare_screened(world* w) {
    if (!make_scale(w)) return 0;
    if (w->variant & BY_RESTARTS) {
        w->apart = input(w, apart_size(w));
        memset(w->apart, 0, apart_size(w));
        apart_part(w, 0, w->n_rows, NULL);
    }
    w->small = input(w, small_size(w));
    char* scratch = input(w, (size_t)small_room(w));
    small_part(w, 0, w->n_lookups, scratch);
    w->line = w->s.n_samples;
    const int64_t places = w->s.n_restarts * w->s.n_samples;
    w->assignment = output(w, (size_t)(places * w->cluster_size), 0xa5);
    return 1;
}

static int64_t screened_room(const world* w) {
    return gpc_screen_scratch(w->code_size, w->s.n_partitions, w->width, w->entry_size,
                              w->small_width, w->lookup_rows[w->n_lookups], w->n_rows,
                              w->apart ? apart_width(w) : 0, CLUSTERS);
}

/* how many stay in doubt depends on the ranges, and is not compared */
static void screened_part(world* w, int64_t begin, int64_t end, char* scratch) {
    int64_t found[2] = {0, 0};
    const double bearable = (double)w->columns / 64 - 0.1;
    gpc_assign_screened(CODES, w->s.n_partitions, w->table, w->width, w->apart,
                        apart_width(w), w->small, w->entry_size, w->small_width,
                        w->lookup_parts, w->lookup_rows, w->raised, w->n_lookups,
                        w->distance, bearable > 0.05 ? bearable : 0.05, CLUSTERS, begin,
                        end, w->assignment, w->cluster_size, w->line, found, scratch);
}

const kernel_case screen_cases[] = {
    {"assign_screened", "plain", BY_CLUSTERS, prepare_screened, objects_of,
     screened_room, screened_part, NULL, 4, 0, every_column,
     "object, partition and column"},
    {"assign_screened", "apart", BY_RESTARTS, prepare_screened, objects_of,
     screened_room, screened_part, NULL, 4, 0, every_column,
     "object, partition and column"},
    {"assign_screened", "words", BY_RESTARTS | WORDS, prepare_screened, objects_of,
     screened_room, screened_part, NULL, 4, 0, every_column,
     "object, partition and column"},
    {"screen_apart", "plain", 0, prepare_apart, rows_of_table, nothing, apart_part,
     NULL, 4, 0, every_entry, "entry of the table"},
    {"screen_bounds", "plain", 0, prepare_bounds, partitions_of, nothing, bounds_part,
     NULL, 4, 0, every_entry, "entry of the table"},
    {"screen_table", "plain", 0, prepare_small, lookups_of, small_room, small_part,
     NULL, 4, 0, small_entries, "entry of the screen"},
    {"screen_table", "words", WORDS, prepare_small, lookups_of, small_room, small_part,
     NULL, 4, 0, small_entries, "entry of the screen"},
    {0}};
